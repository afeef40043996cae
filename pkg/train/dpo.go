package train

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
)

// DPOLoss learns from pairs of a chosen and a rejected answer to one prompt (Rafailov et al., arXiv 2305.18290). With
// the sums over an answer's trained tokens of the policy's and the reference's log-probabilities,
//
//	d = (log p(chosen) - log ref(chosen)) - (log p(rejected) - log ref(rejected))
//
// the loss is the weighted sum over Kinds of a mean over the pairs of
//
//	sigmoid       -log s(beta d)
//	robust        (-(1-e) log s(beta d) + e log s(-beta d)) / (1 - 2e)   with label smoothing e (arXiv 2403.00409)
//	hinge         max(0, 1 - beta d)                                     (SLiC, arXiv 2305.10425)
//	ipo           (d' - 1/(2 beta))^2, d' from means over the tokens     (arXiv 2310.12036)
//	sigmoid_norm  -log s(beta d'), d' from means over the tokens         (Tulu 3, arXiv 2411.15124)
//	sft           minus the mean over all chosen tokens of the batch of log p: not a mean of each pair's mean
//
// where s is the logistic function.
type DPOLoss struct {
	// Kinds are the terms; empty is {"sigmoid"}.
	Kinds []string `json:"kinds" yaml:"kinds"`
	// Weights are their weights; empty is all 1.
	Weights []float64 `json:"weights" yaml:"weights"`
	// Beta is the strength of the pull to the reference; 0 is the default of 0.1.
	Beta float64 `json:"beta" yaml:"beta"`
	// LabelSmoothing is the share of wrong labels that robust assumes, below 0.5.
	LabelSmoothing float64 `json:"label_smoothing" yaml:"label_smoothing"`
}

func (l DPOLoss) withDefaults() DPOLoss {
	if len(l.Kinds) == 0 {
		l.Kinds = []string{"sigmoid"}
	}
	if len(l.Weights) == 0 {
		l.Weights = make([]float64, len(l.Kinds))
		for i := range l.Weights {
			l.Weights[i] = 1
		}
	}
	if l.Beta == 0 {
		l.Beta = 0.1
	}
	return l
}

// Check reports the first field that makes no sense.
func (l DPOLoss) Check() error {
	l = l.withDefaults()
	if len(l.Kinds) != len(l.Weights) {
		return fmt.Errorf("dpo: %d kinds %v but %d weights", len(l.Kinds), l.Kinds, len(l.Weights))
	}
	for _, k := range l.Kinds {
		switch k {
		case "sigmoid", "robust", "hinge", "ipo", "sigmoid_norm", "sft":
		default:
			return fmt.Errorf("dpo: unknown kind %q (sigmoid, robust, hinge, ipo, sigmoid_norm, sft)", k)
		}
	}
	if !(l.Beta > 0) {
		return fmt.Errorf("dpo: beta must be positive, got %v", l.Beta)
	}
	if !(l.LabelSmoothing >= 0 && l.LabelSmoothing < 0.5) {
		return fmt.Errorf("dpo: label_smoothing must lie in [0, 0.5), got %v", l.LabelSmoothing)
	}
	return nil
}

// PairSums are the sums that a DPO loss needs of a batch of n pairs: rows 0..n-1 are chosen, n..2n-1 rejected, one
// answer a row.
type PairSums struct {
	// Policy and Ref are the log-probabilities of the answers, [2n].
	Policy, Ref *graph.Node
	// Tokens is the number of trained tokens of each answer, [2n].
	Tokens *graph.Node
}

// SumRows sums x [B, T] over the positions where mask is 1: [B].
func SumRows(x, mask *graph.Node) *graph.Node {
	on := graph.GreaterThan(mask, graph.ZerosLike(mask))
	return graph.ReduceSum(graph.Where(on, x, graph.ZerosLike(x)), -1)
}

// Build returns the loss, a scalar. pairs and chosenTokens are the number of pairs and of trained tokens of chosen
// answers of the whole optimizer step (scalars, float32); rows that only pad the batch have no tokens and count in
// neither.
func (l DPOLoss) Build(s PairSums, pairs, chosenTokens *graph.Node) *graph.Node {
	l = l.withDefaults()
	n := s.Policy.Shape().Dimensions[0] / 2
	first := func(x *graph.Node) *graph.Node { return graph.Slice(x, graph.AxisRange(0, n)) }
	second := func(x *graph.Node) *graph.Node { return graph.Slice(x, graph.AxisRange(n, 2*n)) }
	delta := graph.Sub(s.Policy, s.Ref)
	margin := graph.Sub(first(delta), second(delta))
	perToken := graph.Div(delta, graph.MaxScalar(s.Tokens, 1))
	meanMargin := graph.Sub(first(perToken), second(perToken))
	real := graph.GreaterThan(first(s.Tokens), graph.ZerosLike(first(s.Tokens)))
	mean := func(x *graph.Node) *graph.Node {
		return graph.Div(graph.ReduceAllSum(graph.Where(real, x, graph.ZerosLike(x))), graph.MaxScalar(pairs, 1))
	}
	var total *graph.Node
	for i, kind := range l.Kinds {
		var term *graph.Node
		switch kind {
		case "sigmoid":
			term = mean(softplus(graph.MulScalar(margin, -l.Beta)))
		case "sigmoid_norm":
			term = mean(softplus(graph.MulScalar(meanMargin, -l.Beta)))
		case "robust":
			e := l.LabelSmoothing
			right, wrong := softplus(graph.MulScalar(margin, -l.Beta)), softplus(graph.MulScalar(margin, l.Beta))
			term = mean(graph.DivScalar(graph.Sub(graph.MulScalar(right, 1-e), graph.MulScalar(wrong, e)), 1-2*e))
		case "hinge":
			h := graph.OneMinus(graph.MulScalar(margin, l.Beta))
			term = mean(graph.Where(graph.GreaterThan(h, graph.ZerosLike(h)), h, graph.ZerosLike(h)))
		case "ipo":
			term = mean(graph.Square(graph.AddScalar(meanMargin, -1/(2*l.Beta))))
		case "sft":
			term = graph.Neg(graph.Div(graph.ReduceAllSum(first(s.Policy)), graph.MaxScalar(chosenTokens, 1)))
		default:
			panic(fmt.Errorf("dpo: unknown kind %q", kind))
		}
		if w := l.Weights[i]; w != 1 {
			term = graph.MulScalar(term, w)
		}
		if total == nil {
			total = term
		} else {
			total = graph.Add(total, term)
		}
	}
	return total
}

// softplus is log(1 + exp(x)) without overflow: -log s(-x).
func softplus(x *graph.Node) *graph.Node {
	zero := graph.ZerosLike(x)
	positive := graph.Where(graph.GreaterThan(x, zero), x, zero)
	return graph.Add(positive, graph.Log1P(graph.Exp(graph.Neg(graph.Abs(x)))))
}
