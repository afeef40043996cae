package train

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
)

// SFTLoss is the supervised loss on demonstrations: the negative log-likelihood of the trained tokens, of which a mask
// picks the actions and leaves out prompts, observations and padding.
//
//	nll   L = sum_t w_t (-log p_t)
//	dft   L = sum_t w_t (-p_t log p_t), no gradient through the factor p_t (dynamic fine-tuning, arXiv 2508.05629)
//
// where w_t = 1 / N on trained tokens and 0 elsewhere, N the trained tokens of the *whole* optimizer step: with
// gradient accumulation every token of every micro-batch weighs the same, whatever the lengths (TRL's
// num_items_in_batch).
type SFTLoss struct {
	// Kind is "nll" (the default) or "dft".
	Kind string `json:"kind" yaml:"kind"`
}

// Check reports an unknown kind.
func (l SFTLoss) Check() error {
	switch l.Kind {
	case "", "nll", "dft":
		return nil
	}
	return fmt.Errorf("sft: unknown loss %q (nll, dft)", l.Kind)
}

// Build returns the loss (a scalar) from the statistics of the targets and the weights w [B, T]. Without a trained
// token it is 0 and so are its gradients.
func (l SFTLoss) Build(s TokenStats, weights *graph.Node) *graph.Node {
	loss := graph.Neg(s.LogProb)
	if l.Kind == "dft" {
		loss = graph.Mul(loss, graph.StopGradient(graph.Exp(s.LogProb)))
	}
	on := graph.GreaterThan(weights, graph.ZerosLike(weights))
	return graph.ReduceAllSum(graph.Mul(weights, graph.Where(on, loss, graph.ZerosLike(loss))))
}
