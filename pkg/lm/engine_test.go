package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/rng"
)

func mustEngine(t testing.TB, m *Model, opt EngineOptions) *Engine {
	t.Helper()
	e, err := NewEngine(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

type greedyFile struct {
	NewTokens int `json:"new_tokens"`
	Single    []struct {
		Prompt     []int32   `json:"prompt"`
		Completion []int32   `json:"completion"`
		LogProbs   []float32 `json:"chosen_logprobs"`
		Entropy    []float32 `json:"entropy"`
	} `json:"single"`
	EOS struct {
		Stop        []int32   `json:"eos"`
		Completions [][]int32 `json:"completions"`
	} `json:"batch_with_eos"`
	Pad int32 `json:"pad_token_id"`
}

// Greedy continuations equal the reference's, alone and in one batch of different lengths, with and without a stop id.
func TestGreedyEqualsReference(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		for _, name := range []string{"tied", "untied"} {
			var ref greedyFile
			fixtures.JSON(t, "tiny_qwen2/"+name, "greedy.json", &ref)
			m, err := Load(b, fixtures.Dir(t, "tiny_qwen2/"+name))
			if err != nil {
				t.Fatal(err)
			}
			n := len(ref.Single)
			e := mustEngine(t, m, EngineOptions{Slots: n, MaxContext: 128, DecodeTokens: 8, PrefillTokens: []int{16}, Contexts: []int{128}, Rows: []int{n}})
			var appends []AppendRequest
			var gens []GenerateRequest
			for i, s := range ref.Single {
				appends = append(appends, AppendRequest{i, s.Prompt})
				gens = append(gens, GenerateRequest{Slot: i, MaxNewTokens: ref.NewTokens})
			}
			check := func(what string, i int, r GenerateResult) {
				if !slices.Equal(r.IDs, ref.Single[i].Completion) {
					t.Errorf("%s %s row %d: got %v, want %v", name, what, i, r.IDs, ref.Single[i].Completion)
					return
				}
				dl := worst(t, what+" logprobs", r.LogProbs, ref.Single[i].LogProbs, nil, fixtures.ToleranceOf(t, "tiny_qwen2.logprobs"))
				de := worst(t, what+" entropy", r.Entropies, ref.Single[i].Entropy, nil, fixtures.ToleranceOf(t, "tiny_qwen2.entropy"))
				t.Logf("%s %-6s row %d (prompt %d): tokens equal, logprobs within %.2g, entropies within %.2g", name, what, i, len(ref.Single[i].Prompt), dl, de)
			}
			for i := range ref.Single {
				if err := e.Append(appends[i : i+1]); err != nil {
					t.Fatal(err)
				}
				res, err := e.Generate(context.Background(), gens[i:i+1])
				if err != nil {
					t.Fatal(err)
				}
				check("single", i, res[0])
				e.Release(i)
			}
			for _, stop := range [][]int32{nil, ref.EOS.Stop} {
				if err := e.Append(appends); err != nil {
					t.Fatal(err)
				}
				for i := range gens {
					gens[i].Stop = stop
				}
				res, err := e.Generate(context.Background(), gens)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range res {
					if stop == nil {
						check("batch", i, r)
					} else {
						want := ref.EOS.Completions[i]
						if at := slices.Index(want, stop[0]); at >= 0 {
							want = want[:at+1]
						}
						if !slices.Equal(r.IDs, want) || (r.Stop == StopToken) != slices.Contains(want, stop[0]) {
							t.Errorf("%s with stop, row %d: got %v (%s), want %v", name, i, r.IDs, r.Stop, want)
						}
					}
					e.Release(i)
				}
			}
		}
	})
}

// episode is one multi-turn context for the tests below: what was fed, what was sampled.
type episode struct {
	ids      []int32
	sampled  []bool
	logProbs []float32
	reasons  []StopReason
}

// play runs n episodes of three turns on an engine. The prompt of every group of four is shared through Fork; prompts
// and observations have lengths of their own. Everything about an episode is keyed by its number.
func play(t testing.TB, e *Engine, c *Config, n int, lengthSeed uint64, s Sampling) []episode {
	t.Helper()
	eps := make([]episode, n)
	random := func(purpose string, item, low, high int) []int32 {
		r := rng.New(lengthSeed, purpose, item)
		ids := make([]int32, low+r.IntN(high-low))
		for i := range ids {
			ids[i] = int32(r.IntN(c.Vocab))
		}
		return ids
	}
	ctx := context.Background()
	for lo := 0; lo < n; lo += e.Slots() {
		hi := min(n, lo+e.Slots())
		var first []AppendRequest
		leader := map[int]int{}
		for i := lo; i < hi; i++ {
			g := i / 4
			if _, ok := leader[g]; !ok {
				leader[g] = i - lo
				first = append(first, AppendRequest{i - lo, random("prompt", g, 1, 60)})
			}
		}
		if err := e.Append(first); err != nil {
			t.Fatal(err)
		}
		for i := lo; i < hi; i++ {
			if from := leader[i/4]; from != i-lo {
				if err := e.Fork(from, i-lo); err != nil {
					t.Fatal(err)
				}
			}
			ids := e.Context(i - lo)
			eps[i].ids, eps[i].sampled, eps[i].logProbs = ids, make([]bool, len(ids)), make([]float32, len(ids))
		}
		for turn := range 3 {
			var gens []GenerateRequest
			for i := lo; i < hi; i++ {
				gens = append(gens, GenerateRequest{Slot: i - lo, MaxNewTokens: 5 + (i*7+turn)%20, Stop: []int32{3, 11}, Sampling: s, Seed: rng.Seed64(9, "test", i, turn)})
			}
			res, err := e.Generate(ctx, gens)
			if err != nil {
				t.Fatal(err)
			}
			var obs []AppendRequest
			for k, r := range res {
				ep := &eps[lo+k]
				ep.reasons = append(ep.reasons, r.Stop)
				ep.ids, ep.logProbs = append(ep.ids, r.IDs...), append(ep.logProbs, r.LogProbs...)
				for range r.IDs {
					ep.sampled = append(ep.sampled, true)
				}
				if turn < 2 {
					o := random(fmt.Sprint("observation", turn), lo+k, 1, 25)
					obs = append(obs, AppendRequest{k, o})
					ep.ids = append(ep.ids, o...)
					ep.sampled, ep.logProbs = append(ep.sampled, make([]bool, len(o))...), append(ep.logProbs, make([]float32, len(o))...)
				}
			}
			if err := e.Append(obs); err != nil {
				t.Fatal(err)
			}
		}
		for i := lo; i < hi; i++ {
			if got := e.Context(i - lo); !slices.Equal(got, eps[i].ids) {
				t.Fatalf("episode %d: the engine's context is not what was appended and sampled", i)
			}
			e.Release(i - lo)
		}
	}
	return eps
}

// rescore recomputes the log-probabilities of sampled tokens by the training forward, several episodes packed a row.
func rescore(t *testing.T, m *Model, eps []episode, temperature float64) (mean, most float64) {
	t.Helper()
	run := scores(t, m.Backend, m.Decoder(), m.Weights.Names()...)
	v, count := m.Config.Vocab, 0
	const perRow, width = 2, 400
	for lo := 0; lo < len(eps); lo += perRow {
		ids, pos, seg := make([]int32, width), make([]int32, width), make([]int32, width)
		at, starts := 0, []int{}
		pack := eps[lo:min(lo+perRow, len(eps))]
		for k, ep := range pack {
			starts = append(starts, at)
			for i, id := range ep.ids {
				ids[at], pos[at], seg[at] = id, int32(i), int32(k+1)
				at++
			}
		}
		out := mustCall(t, run, m.Weights, [][]int32{ids}, [][]int32{pos}, [][]int32{seg})
		logits := mustFloats(t, out[0])
		Free(out...)
		for k, ep := range pack {
			for i, s := range ep.sampled {
				if !s {
					continue
				}
				row := logits[(starts[k]+i-1)*v : (starts[k]+i)*v]
				sum, top := 0.0, float64(slices.Max(row))/temperature
				for _, x := range row {
					sum += math.Exp(float64(x)/temperature - top)
				}
				want := float64(row[ep.ids[i]])/temperature - top - math.Log(sum)
				d := math.Abs(want - float64(ep.logProbs[i]))
				mean, most, count = mean+d, max(most, d), count+1
			}
		}
	}
	return mean / float64(count), most
}

// Samples of many turns, groups, lengths and buckets carry the log-probabilities that the trainer computes, do not
// depend on the batch they were in or on the buckets, and no graph is compiled after warm-up.
func TestGenerationIsExactAndCompilesOnce(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 5)
		if err != nil {
			t.Fatal(err)
		}
		n := 60
		if b.Kind == KindGo {
			n = 12
		}
		s := Sampling{Temperature: 0.9}
		start := time.Now()
		e := mustEngine(t, m, EngineOptions{Slots: 8, MaxContext: 250, DecodeTokens: 16, PrefillTokens: []int{8, 32}, Contexts: []int{128}, Rows: []int{2}})
		eps := play(t, e, m.Config, n, 1, s)
		t.Logf("%d episodes with compilation: %.1f s", n, time.Since(start).Seconds())
		stops := map[StopReason]int{}
		for _, ep := range eps {
			for _, r := range ep.reasons {
				stops[r]++
			}
		}
		if stops[StopToken] == 0 || stops[StopLength] == 0 {
			t.Errorf("the test must see both ends of a turn, got %v", stops)
		}
		mean, most := rescore(t, m, eps, s.Temperature)
		t.Logf("sampler against trainer: mean |difference| %.2g, largest %.2g", mean, most)
		if !(mean < 1e-5 && most < 1e-4) {
			t.Errorf("log-probabilities differ: mean %g, largest %g", mean, most)
		}
		play(t, e, m.Config, n, 2, s)
		warm := e.Compilations()
		if limit := e.MaxCompilations(1); warm > limit {
			t.Errorf("%d graphs compiled, the buckets allow %d", warm, limit)
		}
		start = time.Now()
		again := play(t, e, m.Config, n, 1, s)
		t.Logf("%d episodes without: %.1f s", n, time.Since(start).Seconds())
		if got := e.Compilations(); got != warm {
			t.Errorf("%d graphs compiled after warm-up", got-warm)
		}
		t.Logf("%d graphs compiled for %d episodes; the buckets allow %d", warm, 3*n, e.MaxCompilations(1))

		// The same episodes one at a time, without buckets: prefill of exactly the prompt's length, one cache length.
		one := mustEngine(t, m, EngineOptions{Slots: 1, MaxContext: 250, DecodeTokens: 5, PrefillTokens: []int{250}, Contexts: []int{250}})
		alone := play(t, one, m.Config, min(n, 12), 1, s)
		worstLP := 0.0
		for i := range eps {
			if !slices.Equal(again[i].ids, eps[i].ids) || !slices.Equal(again[i].logProbs, eps[i].logProbs) {
				t.Errorf("episode %d differs between two runs", i)
			}
			if i >= len(alone) {
				continue
			}
			if !slices.Equal(alone[i].ids, eps[i].ids) {
				t.Errorf("episode %d alone: ids differ from those in a batch", i)
				continue
			}
			for j, lp := range alone[i].logProbs {
				worstLP = max(worstLP, math.Abs(float64(lp-eps[i].logProbs[j])))
			}
		}
		t.Logf("batched and bucketed against alone: largest log-probability difference %.2g", worstLP)
		if worstLP > 1e-4 {
			t.Errorf("log-probabilities differ by %g between batched and alone", worstLP)
		}
	})
}

// Filters and penalty inside the loop: a penalty sees the whole context, and what was filtered out is never drawn.
func TestGenerateWithFilters(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		c := smallConfig()
		c.Layers = 1
		m, err := NewRandom(b, c, 6)
		if err != nil {
			t.Fatal(err)
		}
		e := mustEngine(t, m, EngineOptions{Slots: 4, MaxContext: 64, DecodeTokens: 16, PrefillTokens: []int{8}, Contexts: []int{64}})
		for slot := range 4 {
			if err := e.Append([]AppendRequest{{slot, []int32{1, 2, int32(slot)}}}); err != nil {
				t.Fatal(err)
			}
		}
		// The largest penalty with top-k 1 must never repeat a token whose logit was positive; distinct ids come out.
		res, err := e.Generate(context.Background(), []GenerateRequest{
			{Slot: 0, MaxNewTokens: 30, Sampling: Sampling{RepetitionPenalty: 100}},
			{Slot: 1, MaxNewTokens: 30, Sampling: Sampling{Temperature: 1, TopK: 1}, Seed: 1},
			{Slot: 2, MaxNewTokens: 30},
			{Slot: 3, MaxNewTokens: 30, Sampling: Sampling{Temperature: 1, TopP: 0.5}, Seed: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int32]bool{1: true, 2: true, 0: true}
		for _, id := range res[0].IDs {
			if seen[id] {
				t.Errorf("token %d repeated in spite of the penalty: %v", id, res[0].IDs)
				break
			}
			seen[id] = true
		}
		for i, f := range res[1].FilteredLogProbs {
			if f != 0 || res[1].LogProbs[i] >= 0 {
				t.Fatalf("top-k 1: filtered log-probability %v, plain %v; want 0 and less", f, res[1].LogProbs[i])
			}
		}
		for i, f := range res[3].FilteredLogProbs {
			if f < res[3].LogProbs[i] {
				t.Fatalf("top-p: filtered log-probability %v below the plain %v", f, res[3].LogProbs[i])
			}
		}
		// Top-k 1 is greedy.
		e.Release(1)
		if err := e.Append([]AppendRequest{{1, []int32{1, 2, 1}}}); err != nil {
			t.Fatal(err)
		}
		greedy, err := e.Generate(context.Background(), []GenerateRequest{{Slot: 1, MaxNewTokens: 30}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(greedy[0].IDs, res[1].IDs) {
			t.Errorf("top-k 1 gave %v, greedy %v", res[1].IDs, greedy[0].IDs)
		}
	})
}

// New weights take effect without a compilation; an adapter is folded in.
func TestSetWeights(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 7)
		if err != nil {
			t.Fatal(err)
		}
		other, err := NewRandom(b, smallConfig(), 8)
		if err != nil {
			t.Fatal(err)
		}
		e := mustEngine(t, m, EngineOptions{Slots: 2, MaxContext: 64, DecodeTokens: 8, PrefillTokens: []int{8}, Contexts: []int{64}})
		run := func() []int32 {
			if err := e.Append([]AppendRequest{{0, []int32{4, 5, 6}}}); err != nil {
				t.Fatal(err)
			}
			res, err := e.Generate(context.Background(), []GenerateRequest{{Slot: 0, MaxNewTokens: 20}})
			if err != nil {
				t.Fatal(err)
			}
			return res[0].IDs
		}
		first := run()
		compiled := e.Compilations()
		if err := e.SetWeights(other.Weights, nil); err != nil {
			t.Fatal(err)
		}
		second := run()
		if slices.Equal(first, second) {
			t.Error("other weights gave the same tokens")
		}
		fresh, err := NewAdapter(m.Config, &AdapterConfig{Rank: 2, Alpha: 2, TargetModules: AllLinear}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.SetWeights(m.Weights, fresh); err != nil {
			t.Fatal(err)
		}
		if got := run(); !slices.Equal(got, first) {
			t.Errorf("an adapter that changes nothing gave %v, the base %v", got, first)
		}
		if e.Compilations() != compiled {
			t.Errorf("%d graphs compiled for new weights", e.Compilations()-compiled)
		}
	})
}

func TestEngineErrors(t *testing.T) {
	b, err := OpenBackend(KindGo)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewRandom(b, smallConfig(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewEngine(m, EngineOptions{MaxContext: 10000}); err == nil || !strings.Contains(err.Error(), "MaxContext") {
		t.Errorf("MaxContext over the model's: %v", err)
	}
	if _, err := NewEngine(m, EngineOptions{Slots: -1}); err == nil || !strings.Contains(err.Error(), "Slots") {
		t.Errorf("negative Slots: %v", err)
	}
	e := mustEngine(t, m, EngineOptions{Slots: 2, MaxContext: 12})
	ctx := context.Background()
	for want, reqs := range map[string][]AppendRequest{
		"slot 2 of 2":     {{2, []int32{1}}},
		"named twice":     {{0, []int32{1}}, {0, []int32{1}}},
		"no ids":          {{0, nil}},
		"the vocabulary":  {{0, []int32{83}}},
		"context is full": {{0, make([]int32, 13)}},
	} {
		if err := e.Append(reqs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("append %v: error %v, want %q", reqs, err, want)
		}
	}
	if err := e.Append([]AppendRequest{{0, make([]int32, 13)}}); !errors.Is(err, ErrContextFull) {
		t.Errorf("error %v is not ErrContextFull", err)
	}
	if err := e.Append([]AppendRequest{{0, make([]int32, 9)}}); err != nil {
		t.Fatal(err)
	}
	for want, req := range map[string]GenerateRequest{
		"slot 1 is empty": {Slot: 1, MaxNewTokens: 1},
		"MaxNewTokens":    {Slot: 0},
		"stop ids":        {Slot: 0, MaxNewTokens: 1, Stop: make([]int32, maxStops+1)},
		"top_p":           {Slot: 0, MaxNewTokens: 1, Sampling: Sampling{TopP: 2}},
	} {
		if _, err := e.Generate(ctx, []GenerateRequest{req}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("generate %+v: error %v, want %q", req, err, want)
		}
	}
	if err := e.Fork(0, 0); err == nil {
		t.Error("fork onto itself: no error")
	}
	res, err := e.Generate(ctx, []GenerateRequest{{Slot: 0, MaxNewTokens: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res[0].IDs) != 3 || res[0].Stop != StopContext {
		t.Errorf("%d tokens (%s) into a context with room for 3", len(res[0].IDs), res[0].Stop)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	e.Release(0)
	if err := e.Append([]AppendRequest{{0, []int32{1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Generate(cancelled, []GenerateRequest{{Slot: 0, MaxNewTokens: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}
