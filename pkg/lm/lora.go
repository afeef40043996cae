package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/rng"
)

// AdapterConfig describes a LoRA adapter (Hu et al. 2021): every targeted matrix W gets W + Scale·B·A with A [Rank, in]
// and B [out, Rank]. It is what PEFT's adapter_config.json says; options that would change the arithmetic are refused.
type AdapterConfig struct {
	// Rank is r, at least 1.
	Rank int
	// Alpha is lora_alpha.
	Alpha float64
	// RSLoRA divides alpha by sqrt(r) instead of r (Kalajdzievski 2023).
	RSLoRA bool
	// TargetModules are module paths ("model.layers.0.mlp.up_proj") or suffixes of them ("up_proj").
	TargetModules []string
	// Base is base_model_name_or_path, kept for the reader.
	Base string
}

// AllLinear targets every projection of the decoder's blocks.
var AllLinear = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

// Scale is the factor of B·A.
func (a *AdapterConfig) Scale() float64 {
	if a.RSLoRA {
		return a.Alpha / math.Sqrt(float64(a.Rank))
	}
	return a.Alpha / float64(a.Rank)
}

// Targets reports whether a module, by its path without ".weight", has an adapter.
func (a *AdapterConfig) Targets(module string) bool {
	return slices.ContainsFunc(a.TargetModules, func(t string) bool { return module == t || strings.HasSuffix(module, "."+t) })
}

// loraName is PEFT's name of one half of a module's adapter.
func loraName(module, half string) string {
	return "base_model.model." + module + ".lora_" + half + ".weight"
}

// Params lists an adapter's parameters for a model: A, then B, of each targeted module in the model's order. Errors: a
// rank below 1, no targets, a target that matches no projection.
func (a *AdapterConfig) Params(c *Config) ([]Param, error) {
	if a.Rank < 1 {
		return nil, fmt.Errorf("adapter: r is %d, want at least 1", a.Rank)
	}
	if len(a.TargetModules) == 0 {
		return nil, errors.New("adapter: target_modules is empty")
	}
	used := map[string]bool{}
	var ps []Param
	for _, p := range c.Params() {
		module, isWeight := strings.CutSuffix(p.Name, ".weight")
		if !isWeight || len(p.Shape) != 2 || !strings.HasPrefix(module, "model.layers.") || !a.Targets(module) {
			continue
		}
		for _, t := range a.TargetModules {
			used[t] = used[t] || module == t || strings.HasSuffix(module, "."+t)
		}
		ps = append(ps, Param{loraName(module, "A"), []int{a.Rank, p.Shape[1]}}, Param{loraName(module, "B"), []int{p.Shape[0], a.Rank}})
	}
	for _, t := range a.TargetModules {
		if !used[t] {
			return nil, fmt.Errorf("adapter: target_modules: %q matches no projection of the model", t)
		}
	}
	return ps, nil
}

// Adapter is a LoRA adapter: its configuration and its A and B matrices under PEFT's names.
type Adapter struct {
	Config  *AdapterConfig
	Weights *Weights
}

// NewAdapter makes a fresh adapter as PEFT does: A uniform in ±1/sqrt(in), B zero, so that it changes nothing yet.
func NewAdapter(c *Config, a *AdapterConfig, seed uint64) (*Adapter, error) {
	ps, err := a.Params(c)
	if err != nil {
		return nil, err
	}
	var ts []safetensors.Tensor
	for _, p := range ps {
		t := safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: make([]float32, p.Shape[0]*p.Shape[1])}
		if strings.HasSuffix(p.Name, "lora_A.weight") {
			r, bound := rng.New(seed, "lora init", p.Name), 1/math.Sqrt(float64(p.Shape[1]))
			for i := range t.Data {
				t.Data[i] = float32((2*r.Float64() - 1) * bound)
			}
		}
		ts = append(ts, t)
	}
	w, err := WeightsFromHost(ts)
	if err != nil {
		return nil, err
	}
	return &Adapter{Config: a, Weights: w}, nil
}

const (
	adapterConfigFile  = "adapter_config.json"
	adapterWeightsFile = "adapter_model.safetensors"
)

// LoadAdapter reads a PEFT folder for a model. One error lists all tensors that are missing, unexpected or of another shape. If
// it did not, an adapter with misspelled names would load as an untrained one.
func LoadAdapter(dir string, c *Config) (*Adapter, error) {
	a, err := readAdapter(dir, c)
	if err != nil {
		return nil, fmt.Errorf("load adapter %s: %w", dir, err)
	}
	return a, nil
}

func readAdapter(dir string, c *Config) (*Adapter, error) {
	b, err := os.ReadFile(filepath.Join(dir, adapterConfigFile))
	if err != nil {
		return nil, err
	}
	cfg, err := ParseAdapterConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", adapterConfigFile, err)
	}
	want, err := cfg.Params(c)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(filepath.Join(dir, adapterWeightsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	where := map[string]*safetensors.File{}
	for _, in := range f.Infos() {
		where[in.Name] = f
	}
	ts, err := pick(where, want, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	w, err := WeightsFromHost(ts)
	if err != nil {
		return nil, err
	}
	return &Adapter{Config: cfg, Weights: w}, nil
}

// MarshalJSON writes the fields that PEFT needs to load the adapter.
func (a *AdapterConfig) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": a.Base, "bias": "none", "fan_in_fan_out": false,
		"inference_mode": true, "init_lora_weights": true, "lora_alpha": a.Alpha, "lora_dropout": 0.0, "modules_to_save": nil,
		"r": a.Rank, "target_modules": a.TargetModules, "use_dora": false, "use_rslora": a.RSLoRA,
		"rank_pattern": map[string]int{}, "alpha_pattern": map[string]float64{},
	})
}

// Save writes the adapter as a PEFT folder.
func (a *Adapter) Save(dir string) error {
	ts, err := a.Weights.finiteHost()
	if err != nil {
		return fmt.Errorf("save adapter %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save adapter: %w", err)
	}
	if err := safetensors.WriteFile(filepath.Join(dir, adapterWeightsFile), ts, map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("save adapter %s: %w", dir, err)
	}
	if err := writeJSON(filepath.Join(dir, adapterConfigFile), a.Config); err != nil {
		return fmt.Errorf("save adapter %s: %w", dir, err)
	}
	return nil
}

// Merger folds an adapter into base weights on the device. It compiles once.
type Merger struct {
	base, adapter []string
	program       *Program
}

// NewMerger prepares merging for one architecture and adapter configuration.
func NewMerger(b *Backend, c *Config, a *AdapterConfig) (*Merger, error) {
	ps, err := a.Params(c)
	if err != nil {
		return nil, err
	}
	m := &Merger{base: paramNames(c.Params()), adapter: paramNames(ps)}
	m.program, err = NewProgram(b, "merge adapter", func(in []*graph.Node) []*graph.Node {
		p, in := BindParams(m.base, in)
		p.Bind(m.adapter, in)
		out := make([]*graph.Node, len(m.base))
		for i, name := range m.base {
			out[i] = p[name]
			if la := p[loraName(strings.TrimSuffix(name, ".weight"), "A")]; la != nil {
				lb := p[loraName(strings.TrimSuffix(name, ".weight"), "B")]
				out[i] = graph.Add(out[i], graph.Mul(graph.Dot(lb, la).Product(), scalar(la.Graph(), float32(a.Scale()))))
			} else {
				out[i] = graph.Mul(out[i], scalar(out[i].Graph(), 1)) // a new tensor: an input may not be an output
			}
		}
		return out
	})
	return m, err
}

// Merge returns W + Scale·B·A for every weight, as a list of its own in the base's order.
func (m *Merger) Merge(base, adapter *Weights) (*Weights, error) {
	if !slices.Equal(base.names, m.base) {
		return nil, errors.New("merge adapter: the base weights are not those of the model")
	}
	if !slices.Equal(adapter.names, m.adapter) {
		return nil, errors.New("merge adapter: the adapter's weights are not those of its configuration")
	}
	out, err := m.program.Call(base, adapter)
	if err != nil {
		return nil, err
	}
	return NewWeights(m.base, out)
}

// Merged returns the model's weights with its adapter folded in; without an adapter, a copy.
func (m *Model) Merged() (*Weights, error) {
	if m.Adapter == nil {
		return m.Weights.Clone()
	}
	mg, err := NewMerger(m.Backend, m.Config, m.Adapter.Config)
	if err != nil {
		return nil, err
	}
	defer mg.program.Close()
	return mg.Merge(m.Weights, m.Adapter.Weights)
}

func paramNames(ps []Param) []string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.Name
	}
	return names
}
