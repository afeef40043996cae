package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/rng"
)

// Weights is an ordered list of named float32 tensors: a model's parameters, an adapter's, or an optimizer's moments.
// The tensors move to the device at the first call that uses them and stay there. A program takes the whole list as
// consecutive inputs (see [BindParams]); after an update, [Weights.Replace] takes over the program's outputs.
type Weights struct {
	names   []string
	tensors []*tensors.Tensor
}

// NewWeights makes a list of names and tensors; it owns the tensors from then on.
func NewWeights(names []string, ts []*tensors.Tensor) (*Weights, error) {
	if len(names) != len(ts) {
		return nil, fmt.Errorf("weights: %d names, %d tensors", len(names), len(ts))
	}
	return &Weights{names: slices.Clone(names), tensors: slices.Clone(ts)}, nil
}

// WeightsFromHost copies host tensors into a list, keeping their order.
func WeightsFromHost(ts []safetensors.Tensor) (*Weights, error) {
	w := &Weights{}
	err := Catch("weights", func() error {
		for _, t := range ts {
			w.names = append(w.names, t.Name)
			w.tensors = append(w.tensors, tensors.FromFlatDataAndDimensions(t.Data, t.Shape...))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Names returns the names in order.
func (w *Weights) Names() []string { return slices.Clone(w.names) }

// Len is the number of tensors.
func (w *Weights) Len() int { return len(w.names) }

// Tensors returns the tensors in the order of Names. They remain the list's own.
func (w *Weights) Tensors() []*tensors.Tensor { return slices.Clone(w.tensors) }

// NumParameters is the number of elements of all tensors.
func (w *Weights) NumParameters() int {
	n := 0
	for _, t := range w.tensors {
		n += t.Shape().Size()
	}
	return n
}

// Replace frees the present tensors and takes over new ones of the same shapes, in the order of Names: the outputs of
// an optimizer step, which never leave the device.
func (w *Weights) Replace(ts []*tensors.Tensor) error {
	if len(ts) != len(w.tensors) {
		return fmt.Errorf("weights: %d new tensors for %d", len(ts), len(w.tensors))
	}
	for i, t := range ts {
		if !t.Shape().Equal(w.tensors[i].Shape()) {
			return fmt.Errorf("weights: %s: new shape %s, want %s", w.names[i], t.Shape(), w.tensors[i].Shape())
		}
	}
	old := w.tensors
	w.tensors = slices.Clone(ts)
	for _, t := range old {
		if !slices.Contains(ts, t) {
			Free(t)
		}
	}
	return nil
}

// Host copies the tensors to the host, in order.
func (w *Weights) Host() ([]safetensors.Tensor, error) {
	out := make([]safetensors.Tensor, len(w.names))
	for i, t := range w.tensors {
		data, err := Floats(t)
		if err != nil {
			return nil, fmt.Errorf("weights: %s: %w", w.names[i], err)
		}
		out[i] = safetensors.Tensor{Name: w.names[i], Shape: slices.Clone(t.Shape().Dimensions), Data: data}
	}
	return out, nil
}

// finiteHost is Host with an error for numbers that are not finite: a file with them could not be loaded again.
func (w *Weights) finiteHost() ([]safetensors.Tensor, error) {
	ts, err := w.Host()
	for i := 0; err == nil && i < len(ts); i++ {
		err = ts[i].CheckFinite()
	}
	return ts, err
}

// Clone copies the list: a frozen reference of weights that are trained on.
func (w *Weights) Clone() (*Weights, error) {
	ts, err := w.Host()
	if err != nil {
		return nil, err
	}
	return WeightsFromHost(ts)
}

// Free releases the tensors.
func (w *Weights) Free() { Free(w.tensors...) }

// Params are the graph nodes of parameters by name: of a base model, with those of an adapter beside them if it has one.
type Params map[string]*graph.Node

// BindParams names the first len(names) nodes and returns the remaining ones. Several lists may be bound into one Params
// by [Params.Bind].
func BindParams(names []string, in []*graph.Node) (Params, []*graph.Node) {
	p := Params{}
	return p, p.Bind(names, in)
}

// Bind adds names for the first len(names) nodes and returns the remaining nodes.
func (p Params) Bind(names []string, in []*graph.Node) []*graph.Node {
	for i, n := range names {
		p[n] = in[i]
	}
	return in[len(names):]
}

// get returns a parameter's node. It panics if the caller did not bind one; [Program.Call] returns that as an error.
func (p Params) get(name string) *graph.Node {
	n, ok := p[name]
	if !ok {
		panic(fmt.Errorf("no parameter %q was given to the graph", name))
	}
	return n
}

// NewRandomWeights draws a model's initial weights: embeddings N(0, 0.1²), matrices N(0, 0.36/fan_in), those that write
// into the residual stream (o_proj, down_proj) also divided by sqrt(2·layers), norms 1, biases 0. They are made on the
// host from a stream per parameter, so that every backend starts from the same bits.
func NewRandomWeights(c *Config, seed uint64) (*Weights, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var ts []safetensors.Tensor
	for _, p := range c.Params() {
		n := 1
		for _, d := range p.Shape {
			n *= d
		}
		t := safetensors.Tensor{Name: p.Name, Shape: p.Shape, Data: make([]float32, n)}
		std := 0.0
		switch {
		case strings.HasSuffix(p.Name, "norm.weight"):
			for i := range t.Data {
				t.Data[i] = 1
			}
		case strings.HasSuffix(p.Name, ".bias"):
		case p.Name == embedName:
			std = 0.1
		default:
			std = 0.6 / math.Sqrt(float64(p.Shape[1]))
			if strings.HasSuffix(p.Name, "o_proj.weight") || strings.HasSuffix(p.Name, "down_proj.weight") {
				std /= math.Sqrt(2 * float64(c.Layers))
			}
		}
		if std > 0 {
			r := rng.New(seed, "init", p.Name)
			for i := range t.Data {
				t.Data[i] = float32(r.NormFloat64() * std)
			}
		}
		ts = append(ts, t)
	}
	return WeightsFromHost(ts)
}
