package train

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/plugin"
)

// backend opens the backend that the tests run on: $GOMLX_BACKEND, or the Go backend, which builds small graphs in no
// time and is always there. xlaBackend is for the tests that must hold on XLA too.
func backend(t testing.TB) *lm.Backend {
	t.Helper()
	choice := lm.KindGo
	if os.Getenv("GOMLX_BACKEND") != "" {
		choice = "auto"
	}
	return openBackend(t, choice)
}

func openBackend(t testing.TB, choice string) *lm.Backend {
	t.Helper()
	b, err := lm.OpenBackend(choice)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// xlaBackend opens the XLA CPU plugin, and skips the test where there is none.
func xlaBackend(t testing.TB) *lm.Backend {
	t.Helper()
	if len(plugin.Find(plugin.CPU)) == 0 {
		t.Skip("no XLA CPU plugin. ", plugin.Hint(plugin.CPU))
	}
	return openBackend(t, lm.KindCPU)
}

// vectors is one open fixture file; it fails the test on a missing tensor.
type vectors struct {
	t *testing.T
	f *safetensors.File
}

func openVectors(t *testing.T, family, name string) vectors {
	t.Helper()
	f, err := safetensors.Open(fixtures.Path(t, family, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return vectors{t, f}
}

func (v vectors) floats(name string) ([]float32, []int) {
	v.t.Helper()
	x, shape, err := v.f.Float32(name)
	if err != nil {
		v.t.Fatal(err)
	}
	return x, shape
}

func (v vectors) ints(name string) ([]int64, []int) {
	v.t.Helper()
	x, shape, err := v.f.Int64(name)
	if err != nil {
		v.t.Fatal(err)
	}
	return x, shape
}

func (v vectors) tensor(name string) *tensors.Tensor {
	v.t.Helper()
	x, shape := v.floats(name)
	return tensors.FromFlatDataAndDimensions(x, shape...)
}

func (v vectors) names(prefix string) []string {
	var out []string
	for _, in := range v.f.Infos() {
		if rest, ok := strings.CutPrefix(in.Name, prefix); ok {
			out = append(out, rest)
		}
	}
	return out
}

func narrow(x []int64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

func toFloats[T int | int32 | int64 | float64](x []T) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// call builds and runs a graph once.
func call(t *testing.T, fn func(in []*graph.Node) []*graph.Node, args ...*tensors.Tensor) []*tensors.Tensor {
	t.Helper()
	e, err := graph.NewExec(backend(t).Backend, fn)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Finalize()
	out, err := e.Call(args)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func flat(t *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](t) }

// worst compares got with want and returns the largest difference; elements beyond the tolerance fail the test.
func worst(t *testing.T, what string, tol fixtures.Tolerance, got, want []float32) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return math.Inf(1)
	}
	var most float64
	bad := 0
	for i := range got {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= most) {
			most = d
		}
		if !tol.Near(float64(got[i]), float64(want[i])) {
			if bad == 0 {
				t.Errorf("%s[%d] = %v, want %v (tolerance %+v)", what, i, got[i], want[i], tol)
			}
			bad++
		}
	}
	if bad > 1 {
		t.Errorf("%s: %d of %d elements beyond the tolerance", what, bad, len(got))
	}
	return most
}

func near(t *testing.T, what string, tol fixtures.Tolerance, got, want float64) float64 {
	t.Helper()
	if !tol.Near(got, want) || math.IsNaN(got) {
		t.Errorf("%s = %v, want %v (tolerance %+v)", what, got, want, tol)
	}
	return math.Abs(got - want)
}
