package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/wholefile"
)

// Model is an architecture with weights, and optionally an adapter on top of them.
type Model struct {
	Backend *Backend
	Config  *Config
	Weights *Weights
	Adapter *Adapter // nil: none
}

// NewRandom makes a model with initial weights drawn from seed (see [NewRandomWeights]).
func NewRandom(b *Backend, c *Config, seed uint64) (*Model, error) {
	w, err := NewRandomWeights(c, seed)
	if err != nil {
		return nil, fmt.Errorf("new model: %w", err)
	}
	return &Model{Backend: b, Config: c, Weights: w}, nil
}

// Load reads a model folder: config.json, and model.safetensors or the shards that model.safetensors.index.json lists.
// Half-precision weights are widened to float32. Missing, unexpected or wrongly shaped tensors and values that are no finite
// numbers are errors that name them.
func Load(b *Backend, dir string) (*Model, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	ts, err := readCheckpoint(dir, c)
	if err != nil {
		return nil, fmt.Errorf("load model %s: %w", dir, err)
	}
	w, err := WeightsFromHost(ts)
	if err != nil {
		return nil, fmt.Errorf("load model %s: %w", dir, err)
	}
	return &Model{Backend: b, Config: c, Weights: w}, nil
}

// Decoder returns the graph builder of the model, with its adapter when it has one.
func (m *Model) Decoder() Decoder {
	d := Decoder{Config: m.Config}
	if m.Adapter != nil {
		d.Adapter = m.Adapter.Config
	}
	return d
}

// Save writes config.json and model.safetensors, creating the folder. The adapter is not written: see [Adapter.Save].
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	ts, err := m.Weights.finiteHost()
	if err != nil {
		return fmt.Errorf("save model %s: %w", dir, err)
	}
	if err := safetensors.WriteFile(filepath.Join(dir, weightsFile), ts, map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("save model %s: %w", dir, err)
	}
	if err := writeJSON(filepath.Join(dir, "config.json"), m.Config); err != nil {
		return fmt.Errorf("save model %s: %w", dir, err)
	}
	return nil
}

// writeJSON writes indented JSON.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(path, append(b, '\n'))
}

const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// readCheckpoint reads the tensors of a config in its order.
func readCheckpoint(dir string, c *Config) ([]safetensors.Tensor, error) {
	files, err := shardFiles(dir)
	if err != nil {
		return nil, err
	}
	where := map[string]*safetensors.File{}
	for _, name := range files {
		f, err := safetensors.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for _, in := range f.Infos() {
			if where[in.Name] != nil {
				return nil, fmt.Errorf("tensor %q is in two shards", in.Name)
			}
			where[in.Name] = f
		}
	}
	return pick(where, c.Params(), func(name string) bool {
		// Old exports store rotary frequencies; some store the shared head a second time.
		return strings.HasSuffix(name, ".rotary_emb.inv_freq") || c.Tied && name == headName
	})
}

// shardFiles lists the safetensors files of a folder.
func shardFiles(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, indexFile))
	if errors.Is(err, os.ErrNotExist) {
		return []string{weightsFile}, nil
	}
	if err != nil {
		return nil, err
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	if len(index.Map) == 0 {
		return nil, fmt.Errorf("%s: no weight_map", indexFile)
	}
	var files []string
	for tensor, f := range index.Map {
		if f != filepath.Base(f) {
			return nil, fmt.Errorf("%s: %s: file %q lies outside the folder", indexFile, tensor, f)
		}
		files = append(files, f)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// pick reads the wanted tensors in order and reports all that are missing, unexpected or of another shape at once.
func pick(where map[string]*safetensors.File, want []Param, ignore func(string) bool) ([]safetensors.Tensor, error) {
	var problems []string
	known := map[string]bool{}
	for _, p := range want {
		known[p.Name] = true
		f := where[p.Name]
		if f == nil {
			problems = append(problems, "missing "+p.Name)
			continue
		}
		if in, _ := f.Info(p.Name); !slices.Equal(in.Shape, p.Shape) {
			problems = append(problems, fmt.Sprintf("%s has shape %v, want %v", p.Name, in.Shape, p.Shape))
		}
	}
	var extra []string
	for name := range where {
		if !known[name] && !ignore(name) {
			extra = append(extra, "unexpected "+name)
		}
	}
	slices.Sort(extra)
	if problems = append(problems, extra...); len(problems) > 0 {
		return nil, fmt.Errorf("%d tensors do not fit: %s", len(problems), strings.Join(problems, "; "))
	}
	out := make([]safetensors.Tensor, len(want))
	for i, p := range want {
		data, shape, err := where[p.Name].Float32(p.Name)
		if err != nil {
			return nil, err
		}
		out[i] = safetensors.Tensor{Name: p.Name, Shape: shape, Data: data}
		if err := out[i].CheckFinite(); err != nil {
			return nil, fmt.Errorf("%w: the weights are damaged, or training diverged before they were saved", err)
		}
	}
	return out, nil
}
