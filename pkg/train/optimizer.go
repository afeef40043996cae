package train

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
)

// AdamW is Adam with decoupled weight decay (Loshchilov & Hutter, arXiv 1711.05101). Before it, the global gradient norm is
// clipped as torch.nn.utils.clip_grad_norm_ does. The operations have the order of torch.optim.AdamW. With gradient g, step t
// (from 1), learning rate a and weight decay w:
//
//	g = g * min(1, MaxGradNorm / (|g| + 1e-6))
//	p = p * (1 - a w)
//	m = m + (1 - b1) (g - m)
//	v = b2 v + (1 - b2) g^2
//	p = p - a / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//
// If Beta1, Beta2 and Eps are all 0, they default to 0.9, 0.999 and 1e-8. If any of them is set, there are no defaults.
type AdamW struct {
	Beta1 float64 `json:"beta1" yaml:"beta1"`
	Beta2 float64 `json:"beta2" yaml:"beta2"`
	Eps   float64 `json:"eps" yaml:"eps"`
	// WeightDecay is w above; 0 is none.
	WeightDecay float64 `json:"weight_decay" yaml:"weight_decay"`
	// DecayAll applies weight decay to biases and norms too. By default they get none, as in Hugging Face's Trainer.
	DecayAll bool `json:"decay_all" yaml:"decay_all"`
	// MaxGradNorm is the largest global gradient norm; 0 does not clip.
	MaxGradNorm float64 `json:"max_grad_norm" yaml:"max_grad_norm"`
}

func (o AdamW) withDefaults() AdamW {
	if o.Beta1 == 0 && o.Beta2 == 0 && o.Eps == 0 {
		o.Beta1, o.Beta2, o.Eps = 0.9, 0.999, 1e-8
	}
	return o
}

// Check reports the first field that makes no sense.
func (o AdamW) Check() error {
	o = o.withDefaults()
	switch {
	case !(o.Beta1 >= 0 && o.Beta1 < 1):
		return fmt.Errorf("adamw: beta1 must lie in [0, 1), got %v", o.Beta1)
	case !(o.Beta2 >= 0 && o.Beta2 < 1):
		return fmt.Errorf("adamw: beta2 must lie in [0, 1), got %v", o.Beta2)
	case !(o.Eps > 0):
		return fmt.Errorf("adamw: eps must be positive, got %v", o.Eps)
	case !(o.WeightDecay >= 0):
		return fmt.Errorf("adamw: weight_decay must be at least 0, got %v", o.WeightDecay)
	case !(o.MaxGradNorm >= 0):
		return fmt.Errorf("adamw: max_grad_norm must be at least 0 (0 does not clip), got %v", o.MaxGradNorm)
	}
	return nil
}

// Decays reports whether a parameter gets weight decay, from its name. Biases and norms do not unless DecayAll is set. All others
// do, the A and B matrices of LoRA included.
func (o AdamW) Decays(name string) bool {
	return o.DecayAll || !strings.HasSuffix(name, "bias") && !strings.Contains(name, "norm")
}

// hyperSize is the length of the vector that Hyper returns.
const hyperSize = 3

// Hyper returns the numbers of step t (from 1) that depend on t or on the learning rate, computed in float64 as torch does:
// {lr / (1 - b1^t), 1 - lr w, sqrt(1 - b2^t)}. They are an input of the compiled step, so that it is compiled only once.
func (o AdamW) Hyper(t int, lr float64) []float32 {
	o = o.withDefaults()
	return []float32{
		float32(lr / (1 - math.Pow(o.Beta1, float64(t)))),
		float32(1 - lr*o.WeightDecay),
		float32(math.Sqrt(1 - math.Pow(o.Beta2, float64(t)))),
	}
}

// Apply adds one step to the graph. names, params, grads, m and v are parallel; the names decide which parameters decay. hyper is
// the vector of Hyper, [3]. Apply returns the new parameters and moments, and the global gradient norm before clipping, a scalar.
func (o AdamW) Apply(names []string, params, grads, m, v []*graph.Node, hyper *graph.Node) (p2, m2, v2 []*graph.Node, norm *graph.Node) {
	o = o.withDefaults()
	at := func(i int) *graph.Node {
		return graph.Reshape(graph.Slice(hyper, graph.AxisRange(i, i+1)))
	}
	stepSize, keep, bias2 := at(0), at(1), at(2)
	norm = GlobalNorm(grads)
	var coef *graph.Node
	if o.MaxGradNorm > 0 {
		coef = graph.MinScalar(graph.Div(graph.Const(norm.Graph(), float32(o.MaxGradNorm)), graph.AddScalar(norm, 1e-6)), 1)
	}
	for i, p := range params {
		g := grads[i]
		if coef != nil {
			g = graph.Mul(g, coef)
		}
		if o.WeightDecay > 0 && o.Decays(names[i]) {
			// The maximum changes no value. It keeps XLA from fusing this product with the subtraction below. The fused
			// operation would round once where torch rounds twice, and large parameters would differ by some ulps.
			p = graph.MaxScalar(graph.Mul(p, keep), -math.MaxFloat32)
		}
		mi := graph.Add(m[i], graph.MulScalar(graph.Sub(g, m[i]), 1-o.Beta1))
		vi := graph.Add(graph.MulScalar(v[i], o.Beta2), graph.MulScalar(graph.Mul(g, g), 1-o.Beta2))
		denom := graph.AddScalar(graph.Div(graph.Sqrt(vi), bias2), o.Eps)
		p2 = append(p2, graph.Sub(p, graph.Mul(stepSize, graph.Div(mi, denom))))
		m2 = append(m2, mi)
		v2 = append(v2, vi)
	}
	return p2, m2, v2, norm
}

// GlobalNorm is the Euclidean norm over all elements of all nodes, a scalar.
func GlobalNorm(nodes []*graph.Node) *graph.Node {
	var sum *graph.Node
	for _, n := range nodes {
		s := graph.ReduceAllSum(graph.Mul(n, n))
		if sum == nil {
			sum = s
		} else {
			sum = graph.Add(sum, s)
		}
	}
	return graph.Sqrt(sum)
}
