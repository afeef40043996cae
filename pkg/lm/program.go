package lm

import (
	"fmt"
	"sync/atomic"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Program is a graph function compiled once per combination of input shapes. Inputs and outputs are flat lists.
type Program struct {
	name     string
	exec     *graph.Exec
	compiled atomic.Int64
}

// NewProgram wraps a graph function. Call runs the function when it first gets inputs of these shapes, and returns its panics as
// errors.
func NewProgram(b *Backend, name string, fn func(in []*graph.Node) []*graph.Node) (*Program, error) {
	p := &Program{name: name}
	err := Catch("program "+name, func() error {
		exec, err := graph.NewExec(b.Backend, func(in []*graph.Node) []*graph.Node {
			p.compiled.Add(1)
			return fn(in)
		})
		if err != nil {
			return err
		}
		p.exec = exec.WithName(name).SetMaxCache(-1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Compilations counts the graphs that were built.
func (p *Program) Compilations() int { return int(p.compiled.Load()) }

// Call runs the program. An argument may be a *tensors.Tensor, a []*tensors.Tensor, a *Weights, or a Go scalar or slice
// of any rank, which is copied to the device. Tensors stay on the device between calls; the caller frees the outputs.
func (p *Program) Call(args ...any) ([]*tensors.Tensor, error) {
	flat := make([]any, 0, len(args))
	for _, a := range args {
		switch a := a.(type) {
		case *Weights:
			for _, t := range a.tensors {
				flat = append(flat, t)
			}
		case []*tensors.Tensor:
			for _, t := range a {
				flat = append(flat, t)
			}
		default:
			flat = append(flat, a)
		}
	}
	var out []*tensors.Tensor
	err := Catch(p.name, func() (err error) {
		out, err = p.exec.Call(flat...)
		return err
	})
	return out, err
}

// Close frees the compiled graphs.
func (p *Program) Close() { p.exec.Finalize() }

// Floats copies a float32 tensor to the host, row-major.
func Floats(t *tensors.Tensor) ([]float32, error) { return copyFlat[float32](t) }

// Ints copies an int32 tensor to the host, row-major.
func Ints(t *tensors.Tensor) ([]int32, error) { return copyFlat[int32](t) }

func copyFlat[T float32 | int32](t *tensors.Tensor) ([]T, error) {
	var out []T
	err := Catch(fmt.Sprintf("copy %s to the host", t.Shape()), func() (err error) {
		out, err = tensors.CopyFlatData[T](t)
		return err
	})
	return out, err
}

// Free releases tensors on device and host at once. The garbage collector would not do so in time, as it does not see the
// device's memory. Tensors that are freed already are skipped.
func Free(ts ...*tensors.Tensor) {
	for _, t := range ts {
		if t != nil && t.Ok() {
			_ = t.FinalizeAll() // nothing to do about a failed free
		}
	}
}
