package lm

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
)

// adapterFamilies lists the LoRA fixtures whose base is a plain checkpoint, with the folder of that base.
func adapterFamilies(t *testing.T) map[string]string {
	t.Helper()
	root := fixtures.Dir(t, "lora")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(root, e.Name(), adapterConfigFile))
		if err != nil {
			continue // gradients of a full model
		}
		var c struct {
			Base string `json:"base_model_name_or_path"`
		}
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(root, e.Name(), c.Base)
		if strings.Contains(filepath.ToSlash(c.Base), "nf4/") {
			continue // quantized base
		}
		out[e.Name()] = base
	}
	if len(out) == 0 {
		t.Fatal("no adapters in the fixtures")
	}
	return out
}

func TestAdapterEqualsReference(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		tol := fixtures.ToleranceOf(t, "lora.logits")
		bases := map[string]*Program{} // adapters of one base share the program without adapter
		for name, base := range adapterFamilies(t) {
			m, err := Load(b, base)
			if err != nil {
				t.Fatal(err)
			}
			dir := fixtures.Dir(t, "lora/"+name)
			if m.Adapter, err = LoadAdapter(dir, m.Config); err != nil {
				t.Fatal(err)
			}
			io := openVectors(t, dir, "io.safetensors")
			mask, _ := io.ints("attention_mask")
			inputs := []any{io.tensor("input_ids"), io.tensor("position_ids"), io.tensor("attention_mask")}
			names := append(m.Weights.Names(), m.Adapter.Weights.Names()...)

			compare := func(what string, got []float32) float64 {
				want, _ := io.floats(what)
				return worst(t, name+" "+what, got, want, mask, tol)
			}
			on := mustCall(t, logitsOnly(t, b, m.Decoder(), names...), append([]any{m.Weights, m.Adapter.Weights}, inputs...)...)
			dOn := compare("logits", mustFloats(t, on[0]))
			off := bases[base]
			if off == nil {
				off = logitsOnly(t, b, Decoder{Config: m.Config}, m.Weights.Names()...)
				bases[base] = off
			}
			before := off.Compilations()
			dOff := compare("base_logits", mustFloats(t, mustCall(t, off, append([]any{m.Weights}, inputs...)...)[0]))
			merged, err := m.Merged()
			if err != nil {
				t.Fatal(err)
			}
			dMerged := compare("merged_logits", mustFloats(t, mustCall(t, off, append([]any{merged}, inputs...)...)[0]))
			if n := off.Compilations(); n > before+1 {
				t.Errorf("other weights made the program compile again: %d compilations", n-before)
			}
			host, err := merged.Host()
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range host {
				if key := "merged." + w.Name; io.has(key) {
					want, _ := io.floats(key)
					worst(t, name+" "+key, w.Data, want, nil, tol)
				}
			}
			t.Logf("%s largest difference: adapter %.2g, base %.2g, merged %.2g", name, dOn, dOff, dMerged)
		}
	})
}

// What is saved is what was loaded, under PEFT's names.
func TestAdapterRoundTrip(t *testing.T) {
	for name, base := range adapterFamilies(t) {
		c, err := ReadConfig(base)
		if err != nil {
			t.Fatal(err)
		}
		dir := fixtures.Dir(t, "lora/"+name)
		a, err := LoadAdapter(dir, c)
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir()
		if err := a.Save(out); err != nil {
			t.Fatal(err)
		}
		orig, saved := openVectors(t, dir, adapterWeightsFile), openVectors(t, out, adapterWeightsFile)
		if len(orig.f.Infos()) != len(saved.f.Infos()) {
			t.Fatalf("%s: %d tensors saved, want %d", name, len(saved.f.Infos()), len(orig.f.Infos()))
		}
		for _, in := range orig.f.Infos() {
			want, _ := orig.floats(in.Name)
			got, _ := saved.floats(in.Name)
			worst(t, name+" "+in.Name, got, want, nil, fixtures.Tolerance{})
		}
		again, err := LoadAdapter(out, c)
		if err != nil {
			t.Fatal(err)
		}
		if again.Config.Scale() != a.Config.Scale() || again.Config.Rank != a.Config.Rank {
			t.Errorf("%s: configuration %+v came back as %+v", name, a.Config, again.Config)
		}
	}
}

func TestAdapterErrors(t *testing.T) {
	c := smallConfig()
	a, err := NewAdapter(c, &AdapterConfig{Rank: 2, Alpha: 4, TargetModules: []string{"q_proj"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	host, err := a.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	good := host[0].Name
	host[0].Name = strings.Replace(good, "base_model.model.", "base_model.", 1)
	if err := safetensors.WriteFile(filepath.Join(dir, adapterWeightsFile), host, nil); err != nil {
		t.Fatal(err)
	}
	_, err = LoadAdapter(dir, c)
	if err == nil || !strings.Contains(err.Error(), "missing "+good) || !strings.Contains(err.Error(), "unexpected "+host[0].Name) {
		t.Errorf("renamed key: error %v, want one with both names", err)
	}

	for in, want := range map[string]string{
		`{"peft_type":"IA3"}`: "peft_type",
		`{"peft_type":"LORA","lora_alpha":1,"target_modules":["q_proj"]}`:                              "no field r",
		`{"peft_type":"LORA","r":1,"target_modules":["q_proj"]}`:                                       "no field lora_alpha",
		`{"peft_type":"LORA","r":1,"lora_alpha":1}`:                                                    "no field target_modules",
		`{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":".*q.*"}`:                           "target_modules",
		`{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q_proj"],"use_dora":true}`:        "use_dora",
		`{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q_proj"],"rank_pattern":{"q":1}}`: "rank_pattern",
		`{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q_proj"],"bias":"all"}`:           "bias",
	} {
		if _, err := ParseAdapterConfig([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one naming %s", in, err, want)
		}
	}
	for _, bad := range []*AdapterConfig{{Rank: 0, TargetModules: []string{"q_proj"}}, {Rank: 1}, {Rank: 1, TargetModules: []string{"q_proj", "c_attn"}}} {
		if _, err := NewAdapter(c, bad, 1); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// A fresh adapter changes nothing, has no gradient in A (B is zero) and a finite one in B.
func TestFreshAdapterGradient(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if m.Adapter, err = NewAdapter(m.Config, &AdapterConfig{Rank: 2, Alpha: 4, TargetModules: AllLinear}, 3); err != nil {
			t.Fatal(err)
		}
		baseNames, names := m.Weights.Names(), m.Adapter.Weights.Names()
		p := mustProgram(t, b, "gradient", func(in []*graph.Node) []*graph.Node {
			ps, in := BindParams(baseNames, in)
			trainable := in[:len(names)]
			in = ps.Bind(names, in)
			d := m.Decoder()
			logits := d.Logits(ps, d.Hidden(ps, Inputs{IDs: in[0], Positions: in[1], Segments: in[2]}))
			loss := graph.Neg(graph.ReduceAllSum(tokenLogProbs(logits, in[3])))
			return graph.Gradient(loss, trainable...)
		})
		out := mustCall(t, p, m.Weights, m.Adapter.Weights, [][]int32{{5, 6, 7, 8}}, [][]int32{{0, 1, 0, 1}}, [][]int32{{1, 1, 2, 2}}, [][]int32{{6, 7, 8, 9}})
		for i, g := range out {
			sum := 0.0
			for _, v := range mustFloats(t, g) {
				sum += math.Abs(float64(v))
			}
			isB := strings.HasSuffix(names[i], "lora_B.weight")
			if math.IsNaN(sum) || math.IsInf(sum, 0) || (sum > 0) != isB {
				t.Errorf("%s: sum of absolute gradients %v", names[i], sum)
			}
		}
	})
}
