package lm

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/plugin"
)

// eachBackend runs a test on the Go backend and on the XLA CPU plugin where there is one.
func eachBackend(t *testing.T, test func(t *testing.T, b *Backend)) {
	for _, kind := range []string{KindGo, KindCPU} {
		t.Run(kind, func(t *testing.T) {
			b, err := OpenBackend(kind)
			if err != nil {
				if kind == KindCPU && len(plugin.Find(KindCPU)) == 0 {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			test(t, b)
		})
	}
	if os.Getenv("TOOLROUTE_TEST_CUDA") != "" {
		t.Run(KindCUDA, func(t *testing.T) {
			b, err := OpenBackend(KindCUDA)
			if err != nil {
				t.Fatal(err)
			}
			test(t, b)
		})
	}
}

// vectors is an open fixture file.
type vectors struct {
	t *testing.T
	f *safetensors.File
}

func openVectors(t *testing.T, dir, name string) vectors {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return vectors{t, f}
}

func (v vectors) has(name string) bool { _, ok := v.f.Info(name); return ok }

func (v vectors) floats(name string) ([]float32, []int) {
	v.t.Helper()
	data, shape, err := v.f.Float32(name)
	if err != nil {
		v.t.Fatal(err)
	}
	return data, shape
}

func (v vectors) ints(name string) ([]int32, []int) {
	v.t.Helper()
	data, shape, err := v.f.Int64(name)
	if err != nil {
		v.t.Fatal(err)
	}
	out := make([]int32, len(data))
	for i, x := range data {
		out[i] = int32(x)
	}
	return out, shape
}

// tensor makes a device input of an integer fixture.
func (v vectors) tensor(name string) *tensors.Tensor {
	data, shape := v.ints(name)
	return tensors.FromFlatDataAndDimensions(data, shape...)
}

// worst compares element by element, only where keep (nil: everywhere) is not 0, and returns the largest difference.
func worst(t *testing.T, what string, got, want []float32, keep []int32, tol fixtures.Tolerance) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	per := 1
	if keep != nil {
		per = len(want) / len(keep)
	}
	most, bad := 0.0, 0
	for i := range want {
		if keep != nil && keep[i/per] == 0 {
			continue
		}
		most = math.Max(most, math.Abs(float64(got[i])-float64(want[i])))
		if !tol.Near(float64(got[i]), float64(want[i])) {
			if bad++; bad <= 3 {
				t.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
			}
		}
	}
	if bad > 3 {
		t.Errorf("%s: %d values in all out of tolerance", what, bad)
	}
	return most
}

func mustProgram(t testing.TB, b *Backend, name string, fn func(in []*graph.Node) []*graph.Node) *Program {
	t.Helper()
	p, err := NewProgram(b, name, fn)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustCall(t testing.TB, p *Program, args ...any) []*tensors.Tensor {
	t.Helper()
	out, err := p.Call(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustFloats(t testing.TB, x *tensors.Tensor) []float32 {
	t.Helper()
	f, err := Floats(x)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// scores is a program that takes weights (base, then adapter), ids, positions and segments, and returns logits, the
// log-probability of each next token, and entropies.
func scores(t testing.TB, b *Backend, d Decoder, names ...string) *Program {
	return mustProgram(t, b, "scores", func(in []*graph.Node) []*graph.Node {
		p, in := BindParams(names, in)
		hidden := d.HiddenStates(p, Inputs{IDs: in[0], Positions: in[1], Segments: in[2]})
		logits := d.Logits(p, hidden[len(hidden)-1])
		n := in[0].Shape().Dimensions[1]
		all := graph.AxisRange()
		next := tokenLogProbs(graph.Slice(logits, all, graph.AxisRange(0, n-1), all), graph.Slice(in[0], all, graph.AxisRange(1)))
		return append([]*graph.Node{logits, next, entropy(logits)}, hidden...)
	})
}

// logitsOnly is the same program without the rest.
func logitsOnly(t testing.TB, b *Backend, d Decoder, names ...string) *Program {
	return mustProgram(t, b, "logits", func(in []*graph.Node) []*graph.Node {
		p, in := BindParams(names, in)
		return []*graph.Node{d.Logits(p, d.Hidden(p, Inputs{IDs: in[0], Positions: in[1], Segments: in[2]}))}
	})
}
