package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/toolroute/toolroute/pkg/lm"
)

// GRPOLoss is the policy-gradient loss of group relative policy optimization (Shao et al., arXiv 2402.03300) over the
// sampled tokens of rollouts. For a token, let p be its probability under the policy and old that under the policy that
// sampled, r = p / old their ratio, A the advantage of the rollout, and z = log ref - log p. At sequence level r is the
// geometric mean over the sequence (GSPO, arXiv 2507.18071). The terms of a token are
//
//	surrogate  -min(min(r, Delta) A, clip(r, 1 - EpsLow, 1 + EpsHigh) A)
//	cispo      -stop(min(r, EpsHigh)) A log p                                  (MiniMax-M1, arXiv 2506.13585)
//	sapo       -A 4 s(tau (r - 1)) / tau, tau = TauPos where A > 0 else TauNeg (arXiv 2511.20347)
//	KL (k3)    + Beta (exp z - z - 1), times r with gradient if KLCorrected
//
// where s is the logistic function. cispo and sapo replace the surrogate. The loss is the sum of the terms times the tokens'
// weights, which depend on the kind (see TokenWeights):
//
//	grpo, sapo   1 / (rows * tokens of the row)
//	bnpo         1 / tokens of the optimizer step
//	dr_grpo      1 / (rows * MaxCompletion)                                    (arXiv 2503.20783)
//	dapo, cispo  optimizer steps of an epoch / tokens of all rollouts          (arXiv 2503.14476)
//
// Observation tokens have mask 0 and weight 0: they are in no sum and no count, but later tokens attend to them.
type GRPOLoss struct {
	// Kind is "dapo" (the default), "grpo", "bnpo", "dr_grpo", "cispo" or "sapo".
	Kind string `json:"kind" yaml:"kind"`
	// EpsLow and EpsHigh bound the ratio as above. If both are 0 they default to 0.2 and 0.28.
	EpsLow  float64 `json:"eps_low" yaml:"eps_low"`
	EpsHigh float64 `json:"eps_high" yaml:"eps_high"`
	// Delta bounds the ratio from above also where A < 0 (two-sided clipping, arXiv 2505.07291); 0 is off.
	Delta float64 `json:"delta" yaml:"delta"`
	// Beta is the weight of the KL term. With 0 there is no such term and no reference.
	Beta float64 `json:"beta" yaml:"beta"`
	// KLCorrected multiplies the KL term by the ratio, which makes its gradient unbiased off policy.
	KLCorrected bool `json:"kl_corrected" yaml:"kl_corrected"`
	// SequenceLevel takes one ratio per sequence. Rows must then hold one sequence each.
	SequenceLevel bool `json:"sequence_level" yaml:"sequence_level"`
	// MaxCompletion is the constant length in tokens that dr_grpo divides by.
	MaxCompletion int `json:"max_completion" yaml:"max_completion"`
	// TauPos and TauNeg are sapo's temperatures; 0 means the defaults of 1.0 and 1.05.
	TauPos float64 `json:"tau_pos" yaml:"tau_pos"`
	TauNeg float64 `json:"tau_neg" yaml:"tau_neg"`
	// Temperature divides the logits as it did when the rollouts were sampled; 0 means 1.
	Temperature float64 `json:"temperature" yaml:"-"`
}

var grpoKinds = []string{"dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo"}

func (l GRPOLoss) withDefaults() GRPOLoss {
	if l.Kind == "" {
		l.Kind = "dapo"
	}
	if l.EpsLow == 0 && l.EpsHigh == 0 {
		l.EpsLow, l.EpsHigh = 0.2, 0.28
	}
	if l.TauPos == 0 {
		l.TauPos = 1
	}
	if l.TauNeg == 0 {
		l.TauNeg = 1.05
	}
	if l.Temperature == 0 {
		l.Temperature = 1
	}
	return l
}

// Check reports the first field that makes no sense.
func (l GRPOLoss) Check() error {
	l = l.withDefaults()
	switch {
	case !slices.Contains(grpoKinds, l.Kind):
		return fmt.Errorf("grpo: kind is %q, which is none of %s", l.Kind, strings.Join(grpoKinds, ", "))
	case l.Kind == "dr_grpo" && l.MaxCompletion <= 0:
		return fmt.Errorf("grpo: dr_grpo needs max_completion > 0, the longest completion that sampling allows")
	case !(l.EpsLow >= 0 && l.EpsLow < 1):
		return fmt.Errorf("grpo: eps_low must lie in [0, 1), got %v", l.EpsLow)
	case !(l.EpsHigh >= 0):
		return fmt.Errorf("grpo: eps_high must be at least 0, got %v", l.EpsHigh)
	case l.Delta != 0 && !(l.Delta >= 1):
		return fmt.Errorf("grpo: delta bounds a ratio and must be at least 1, better above 1 + eps_high (0 turns it off), got %v", l.Delta)
	case !(l.Beta >= 0):
		return fmt.Errorf("grpo: beta must be at least 0, got %v", l.Beta)
	case !(l.TauPos > 0 && l.TauNeg > 0):
		return fmt.Errorf("grpo: tau_pos and tau_neg must be positive, got %v and %v", l.TauPos, l.TauNeg)
	case !(l.Temperature >= lm.MinTemperature && l.Temperature <= lm.MaxTemperature):
		return fmt.Errorf("grpo: temperature must lie in [%v, %v] (below it sampling is greedy, and a greedy rollout cannot be trained on), got %v", lm.MinTemperature, lm.MaxTemperature, l.Temperature)
	}
	return nil
}

// GRPOTokens are the inputs of the loss besides the policy's log-probabilities. All are float32 [B, T] and aligned with those.
// Old and Ref are log-probabilities. A nil Old means that the current policy sampled: the ratio is 1, but has a gradient. Ref may
// be nil if Beta is 0.
type GRPOTokens struct {
	Mask, Weights, Advantages, Old, Ref *graph.Node
}

// Build returns the loss, a scalar, from the policy's log-probabilities [B, T].
func (l GRPOLoss) Build(logProb *graph.Node, in GRPOTokens) *graph.Node {
	l = l.withDefaults()
	zero := graph.ZerosLike(logProb)
	on := graph.GreaterThan(in.Mask, zero)
	masked := func(x *graph.Node) *graph.Node { return graph.Where(on, x, zero) }

	lp := masked(logProb)
	old := graph.StopGradient(lp)
	if in.Old != nil {
		old = masked(in.Old)
	}
	logRatio := graph.Sub(lp, old)
	if l.SequenceLevel {
		count := graph.MaxScalar(graph.ReduceAndKeep(in.Mask, graph.ReduceSum, -1), 1)
		mean := graph.Div(graph.ReduceAndKeep(logRatio, graph.ReduceSum, -1), count)
		logRatio = masked(graph.BroadcastToDims(mean, lp.Shape().Dimensions...))
	}
	ratio := graph.Exp(logRatio)
	a := in.Advantages

	var loss *graph.Node
	switch l.Kind {
	case "cispo":
		bounded := graph.StopGradient(graph.MinScalar(ratio, l.EpsHigh))
		loss = graph.Neg(graph.Mul(graph.Mul(bounded, a), lp))
	case "sapo":
		g := lp.Graph()
		tau := graph.Where(graph.GreaterThan(a, zero), graph.BroadcastToDims(graph.Const(g, float32(l.TauPos)), lp.Shape().Dimensions...),
			graph.BroadcastToDims(graph.Const(g, float32(l.TauNeg)), lp.Shape().Dimensions...))
		soft := graph.Div(graph.MulScalar(graph.Sigmoid(graph.Mul(tau, graph.AddScalar(ratio, -1))), 4), tau)
		loss = graph.Neg(graph.Mul(soft, a))
	default:
		// This selects by Where instead of using Min and Clip. In an on-policy step r is 1, both sides of the minimum are
		// equal, and the gradient must be that of the unclipped side.
		plain := ratio
		if l.Delta > 0 {
			plain = upper(plain, l.Delta)
		}
		plain = graph.Mul(plain, a)
		fixed := graph.StopGradient(graph.Mul(graph.MinScalar(graph.MaxScalar(ratio, 1-l.EpsLow), 1+l.EpsHigh), a))
		loss = graph.Neg(graph.Where(graph.LessThan(fixed, graph.StopGradient(plain)), fixed, plain))
	}
	if l.Beta > 0 {
		z := graph.Sub(masked(in.Ref), lp)
		kl := graph.AddScalar(graph.Sub(graph.Exp(z), z), -1)
		if l.KLCorrected {
			kl = graph.Mul(kl, ratio)
		}
		loss = graph.Add(loss, graph.MulScalar(kl, l.Beta))
	}
	return graph.ReduceAllSum(graph.Mul(in.Weights, masked(loss)))
}

// upper is min(x, bound). Its gradient is 0 above the bound.
func upper(x *graph.Node, bound float64) *graph.Node {
	b := graph.BroadcastToDims(graph.Const(x.Graph(), float32(bound)), x.Shape().Dimensions...)
	return graph.Where(graph.GreaterThan(x, b), b, x)
}

// TokenWeights returns, for every row of an optimizer step, the weight of each of its tokens. tokens are the rows' numbers of
// sampled tokens; a row that is masked completely has 0 and still counts as a row. The loss of the step is the weighted sum over
// all rows, whatever their layout in micro-batches. batchTokens is the denominator of dapo and cispo: the sampled tokens of all
// rollouts divided by the number of optimizer steps of an epoch; 0 means the tokens of this step.
func (l GRPOLoss) TokenWeights(tokens []int, batchTokens float64) []float64 {
	l = l.withDefaults()
	var sum float64
	for _, n := range tokens {
		sum += float64(n)
	}
	if batchTokens == 0 {
		batchTokens = sum
	}
	rows := float64(len(tokens))
	out := make([]float64, len(tokens))
	for i, n := range tokens {
		switch l.Kind {
		case "grpo", "sapo":
			out[i] = 1 / (rows * max(1, float64(n)))
		case "bnpo":
			out[i] = 1 / max(1, sum)
		case "dr_grpo":
			out[i] = 1 / (rows * float64(l.MaxCompletion))
		default:
			out[i] = 1 / max(1, batchTokens)
		}
	}
	return out
}

// objective wraps the loss for the learner. Its inputs are mask, weights, advantages, old and, with a KL term, reference.
func (l GRPOLoss) objective() objective {
	l = l.withDefaults()
	return objective{
		name: "grpo", temperature: l.Temperature,
		loss: func(s TokenStats, in []*graph.Node) *graph.Node {
			tokens := GRPOTokens{Mask: in[0], Weights: in[1], Advantages: in[2], Old: in[3]}
			if l.Beta > 0 {
				tokens.Ref = in[4]
			}
			return l.Build(s.LogProb, tokens)
		},
		keep: func(s TokenStats) []*graph.Node { return []*graph.Node{s.LogProb, s.Entropy} },
	}
}
