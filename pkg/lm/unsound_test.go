package lm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/lm/safetensors"
)

// Below MinTemperature sampling is greedy, on every backend, whatever the other settings are.
func TestTinyTemperatureIsGreedy(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 5)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(m, EngineOptions{Slots: 1, MaxContext: 32, Contexts: []int{32}, PrefillTokens: []int{8}, Rows: []int{1}, DecodeTokens: 8})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		generate := func(s Sampling) GenerateResult {
			t.Helper()
			e.Release(0)
			if err := e.Append([]AppendRequest{{Slot: 0, IDs: []int32{3, 1, 4, 1, 5}}}); err != nil {
				t.Fatal(err)
			}
			out, err := e.Generate(t.Context(), []GenerateRequest{{Slot: 0, MaxNewTokens: 12, Sampling: s, Seed: 7}})
			if err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
			return out[0]
		}
		want := generate(Sampling{})
		for _, temperature := range []float64{1e-10, 1e-40, 5e-324, 1e-4, MinTemperature * 0.999} {
			if got := generate(Sampling{Temperature: temperature}); !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.LogProbs, want.LogProbs) {
				t.Errorf("temperature %v: %v with %v, greedy is %v with %v", temperature, got.IDs, got.LogProbs, want.IDs, want.LogProbs)
			}
		}
		for _, s := range []Sampling{{Temperature: MinTemperature}, {Temperature: MaxTemperature}, {Temperature: 1, TopP: 1e-300}, {Temperature: 1, MinP: 1}} {
			if b.Loops() && s.filters() {
				continue // compiling takes seconds
			}
			for i, lp := range generate(s).LogProbs {
				if math.IsNaN(float64(lp)) || lp > 0 {
					t.Errorf("%+v: token %d has log-probability %v", s, i, lp)
				}
			}
		}
		penalized := generate(Sampling{RepetitionPenalty: 1.5})
		if got := generate(Sampling{Temperature: 1e-40, RepetitionPenalty: 1.5}); !slices.Equal(got.IDs, penalized.IDs) {
			t.Errorf("with a penalty: %v, greedy is %v", got.IDs, penalized.IDs)
		}
	})
}

// Weights that are not finite end a session with an error, and no id that they gave reaches a context.
func TestUnsoundOutputIsAnError(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 5)
		if err != nil {
			t.Fatal(err)
		}
		host, err := m.Weights.Host()
		if err != nil {
			t.Fatal(err)
		}
		host[0].Data[0] = float32(math.NaN())
		if m.Weights, err = WeightsFromHost(host); err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(m, EngineOptions{Slots: 1, MaxContext: 32, Contexts: []int{32}, PrefillTokens: []int{8}, Rows: []int{1}, DecodeTokens: 8})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		prompt := []int32{0, 1, 4}
		if err := e.Append([]AppendRequest{{Slot: 0, IDs: prompt}}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []Sampling{{}, {Temperature: 1}} {
			if _, err := e.Generate(t.Context(), []GenerateRequest{{Slot: 0, MaxNewTokens: 4, Sampling: s}}); !errors.Is(err, ErrDraw) {
				t.Errorf("%+v: error %v, want %v", s, err, ErrDraw)
			}
			if got := e.Context(0); !slices.Equal(got, prompt) {
				t.Errorf("%+v: the context is %v, want the prompt %v", s, got, prompt)
			}
		}
		if err := m.Save(t.TempDir()); err == nil || !strings.Contains(err.Error(), host[0].Name) {
			t.Errorf("saving them: error %v, want one that names %s", err, host[0].Name)
		}
	})
}

func TestSamplingSettingsOutOfRange(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for want, all := range map[string][]Sampling{
		"temperature":        {{Temperature: -1}, {Temperature: nan}, {Temperature: inf}, {Temperature: 1e300}, {Temperature: -1e-10}},
		"top_k":              {{TopK: -1}},
		"top_p":              {{TopP: nan}, {TopP: -0.1}, {TopP: 1.1}, {TopP: inf}},
		"min_p":              {{MinP: nan}, {MinP: -0.1}, {MinP: 1.1}},
		"repetition_penalty": {{RepetitionPenalty: 1e-40}, {RepetitionPenalty: -1}, {RepetitionPenalty: nan}, {RepetitionPenalty: inf}, {RepetitionPenalty: 1e30}, {RepetitionPenalty: 1e-3}},
	} {
		for _, s := range all {
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), want+" is ") {
				t.Errorf("%+v: error %v, want one that names %s", s, err, want)
			}
		}
	}
}

// A value that is no finite number, a type that holds none, and a shape that is not the model's are refused, with the tensor's
// name, in model folders and in adapters.
func TestUnsoundFiles(t *testing.T) {
	b, err := OpenBackend("go")
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewRandom(b, smallConfig(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if m.Adapter, err = NewAdapter(m.Config, &AdapterConfig{Rank: 2, Alpha: 4, TargetModules: []string{"q_proj"}}, 1); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		weights *Weights
		file    string
		save    func(dir string) error
		load    func(dir string) error
	}{
		"model":   {m.Weights, weightsFile, m.Save, func(dir string) error { _, err := Load(b, dir); return err }},
		"adapter": {m.Adapter.Weights, adapterWeightsFile, m.Adapter.Save, func(dir string) error { _, err := LoadAdapter(dir, m.Config); return err }},
	} {
		dir := t.TempDir()
		if err := c.save(dir); err != nil {
			t.Fatal(err)
		}
		if err := c.load(dir); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		path := filepath.Join(dir, c.file)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(ts []safetensors.Tensor) string{
			"NaN": func(ts []safetensors.Tensor) string { ts[1].Data[3] = float32(math.NaN()); return "the value NaN at [" },
			"Inf": func(ts []safetensors.Tensor) string {
				ts[1].Data[3] = float32(math.Inf(-1))
				return "the value -Inf at ["
			},
			"missing":  func(ts []safetensors.Tensor) string { ts[1].Name += "x"; return "missing " },
			"no shape": func(ts []safetensors.Tensor) string { ts[1].Shape = []int{1, len(ts[1].Data)}; return "has shape" },
		} {
			ts, err := c.weights.Host()
			if err != nil {
				t.Fatal(err)
			}
			name := ts[1].Name
			want := change(ts)
			if err := safetensors.WriteFile(path, ts, nil); err != nil {
				t.Fatal(err)
			}
			if err := c.load(dir); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: error %v, want one that says %q of %s", kind, what, err, want, name)
			}
		}
		ints := strings.Replace(string(whole), `"F32"`, `"I32"`, 1)
		if err := os.WriteFile(path, []byte(ints), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := c.load(dir); err == nil || !strings.Contains(err.Error(), "is I32, want F32, F16 or BF16") {
			t.Errorf("%s of integers: error %v", kind, err)
		}
	}
}
