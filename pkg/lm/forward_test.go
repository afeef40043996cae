package lm

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

func TestForwardEqualsReference(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		logitTol := fixtures.ToleranceOf(t, "tiny_qwen2.logits")
		for _, name := range []string{"tied", "untied"} {
			dir := fixtures.Dir(t, "tiny_qwen2/"+name)
			m, err := Load(b, dir)
			if err != nil {
				t.Fatal(err)
			}
			io := openVectors(t, dir, "io.safetensors")
			run := scores(t, b, m.Decoder(), m.Weights.Names()...)
			for _, batch := range []string{"full", "right", "left", "long"} {
				mask, _ := io.ints(batch + ".attention_mask")
				out := mustCall(t, run, m.Weights, io.tensor(batch+".input_ids"), io.tensor(batch+".position_ids"), io.tensor(batch+".attention_mask"))
				got := mustFloats(t, out[0])
				want, shape := io.floats(batch + ".logits")
				keep := mask
				if batch == "long" { // the reference keeps a few positions only
					at, _ := io.ints("long.kept_positions")
					v := shape[2]
					var kept []float32
					for _, i := range at {
						kept = append(kept, got[int(i)*v:int(i+1)*v]...)
					}
					got, keep = kept, nil
				}
				d := worst(t, name+" "+batch+" logits", got, want, keep, logitTol)
				wantLP, lpShape := io.floats(batch + ".logprobs")
				n := lpShape[1]
				pair := make([]int32, len(wantLP)) // 1 where both tokens are real
				for i := range pair {
					row, col := i/n, i%n
					pair[i] = mask[row*(n+1)+col] * mask[row*(n+1)+col+1]
				}
				dl := worst(t, name+" "+batch+" logprobs", mustFloats(t, out[1]), wantLP, pair, fixtures.ToleranceOf(t, "tiny_qwen2.logprobs"))
				wantE, _ := io.floats(batch + ".entropy")
				de := worst(t, name+" "+batch+" entropy", mustFloats(t, out[2]), wantE, mask, fixtures.ToleranceOf(t, "tiny_qwen2.entropy"))
				t.Logf("%s %-5s largest difference: logits %.2g, logprobs %.2g, entropy %.2g", name, batch, d, dl, de)
				if batch == "full" {
					most := 0.0
					for i := range m.Config.Layers + 1 {
						hidden := "full.hidden." + string(rune('0'+i))
						want, _ := io.floats(hidden)
						most = max(most, worst(t, name+" "+hidden, mustFloats(t, out[3+i]), want, nil, fixtures.ToleranceOf(t, "tiny_qwen2.hidden")))
					}
					t.Logf("%s hidden states largest difference %.2g", name, most)
				}
				Free(out...)
			}
		}
	})
}

// The shards hold the same tensors as the single file; bf16 weights are widened and computed in f32.
func TestShardsAndHalfPrecision(t *testing.T) {
	b, err := OpenBackend(KindGo)
	if err != nil {
		t.Fatal(err)
	}
	one, err := Load(b, fixtures.Dir(t, "tiny_qwen2/untied"))
	if err != nil {
		t.Fatal(err)
	}
	many, err := Load(b, fixtures.Dir(t, "tiny_qwen2/untied_sharded"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := one.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	c, err := many.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i].Name != c[i].Name {
			t.Fatalf("tensor %d is %s in one file, %s in shards", i, a[i].Name, c[i].Name)
		}
		worst(t, "sharded "+a[i].Name, c[i].Data, a[i].Data, nil, fixtures.Tolerance{})
	}

	dir := fixtures.Dir(t, "tiny_qwen2/tied_bf16")
	m, err := Load(b, dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Config.BF16Rotary = true // the reference model was cast after it was made
	io := openVectors(t, dir, "io.safetensors")
	ids, shape := io.ints("input_ids")
	pos, seg := make([]int32, len(ids)), make([]int32, len(ids))
	for i := range ids {
		pos[i], seg[i] = int32(i%shape[1]), 1
	}
	out := mustCall(t, scores(t, b, m.Decoder(), m.Weights.Names()...), m.Weights, io.tensor("input_ids"), rows(pos, shape[1]), rows(seg, shape[1]))
	want, _ := io.floats("logits_f32_compute")
	t.Logf("bf16 weights, f32 arithmetic: largest difference %.2g", worst(t, "bf16 logits", mustFloats(t, out[0]), want, nil, fixtures.ToleranceOf(t, "tiny_qwen2.logits")))
}

// Sequences packed into one row give what each gives alone.
func TestPackingEqualsSingle(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		dir := fixtures.Dir(t, "tiny_qwen2/tied")
		m, err := Load(b, dir)
		if err != nil {
			t.Fatal(err)
		}
		io := openVectors(t, dir, "io.safetensors")
		ids, shape := io.ints("right.input_ids")
		mask, _ := io.ints("right.attention_mask")
		want, _ := io.floats("right.logits")
		v := m.Config.Vocab
		var packed, pos, seg []int32
		var wantPacked []float32
		for r := range shape[0] {
			for c := range shape[1] {
				if i := r*shape[1] + c; mask[i] != 0 {
					packed, pos, seg = append(packed, ids[i]), append(pos, int32(c)), append(seg, int32(r+1))
					wantPacked = append(wantPacked, want[i*v:(i+1)*v]...)
				}
			}
		}
		out := mustCall(t, scores(t, b, m.Decoder(), m.Weights.Names()...), m.Weights, [][]int32{packed}, [][]int32{pos}, [][]int32{seg})
		t.Logf("packed rows: largest difference %.2g", worst(t, "packed logits", mustFloats(t, out[0]), wantPacked, nil, fixtures.ToleranceOf(t, "tiny_qwen2.logits")))
	})
}

// A graph that is given nonsense must answer with an error that names the program, on every backend.
func TestPanicsBecomeErrors(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 1)
		if err != nil {
			t.Fatal(err)
		}
		run := scores(t, b, m.Decoder(), m.Weights.Names()...)
		for name, args := range map[string][]any{
			"positions of another length": {m.Weights, [][]int32{{1, 2, 3}}, [][]int32{{0, 1}}, [][]int32{{1, 1, 1}}},
			"rank":                        {m.Weights, []int32{1, 2, 3}, []int32{0, 1, 2}, []int32{1, 1, 1}},
			"type":                        {m.Weights, [][]float32{{1, 2}}, [][]int32{{0, 1}}, [][]int32{{1, 1}}},
			"weights of another shape":    {m.Weights.Tensors()[1:], [][]int32{{1, 2}}, [][]int32{{0, 1}}, [][]int32{{1, 1}}, [][]int32{{1, 1}}},
		} {
			if _, err := run.Call(args...); err == nil || !strings.HasPrefix(err.Error(), "scores: ") {
				t.Errorf("%s: error %v, want one of program scores", name, err)
			}
		}
	})
}

// smallConfig is a decoder with odd sizes: 3 heads per key/value head, a vocabulary that is no power of two.
func smallConfig() *Config {
	return &Config{Vocab: 83, Hidden: 24, Layers: 2, Heads: 6, KVHeads: 2, HeadDim: 4, FFN: 40, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 512, Pad: -1}
}

// rows cuts a flat slice into rows of n.
func rows[T any](flat []T, n int) [][]T {
	var out [][]T
	for ; len(flat) > 0; flat = flat[n:] {
		out = append(out, flat[:n])
	}
	return out
}
