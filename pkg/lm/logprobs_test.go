package lm

import "github.com/gomlx/gomlx/core/graph"

// Functions of logits that only tests use.

// logSumExp over the last axis, kept as an axis of 1.
func logSumExp(x *graph.Node) *graph.Node {
	top := graph.StopGradient(graph.ReduceAndKeep(x, graph.ReduceMax, -1))
	return graph.Add(graph.Log(graph.ReduceAndKeep(graph.Exp(graph.Sub(x, top)), graph.ReduceSum, -1)), top)
}

// tokenLogProbs returns log softmax(logits)[target] in nats: logits [..., Vocab], targets int32 [...]. It selects by
// comparison, whose gradient fuses, and not by a gather, whose gradient is a scatter.
func tokenLogProbs(logits, targets *graph.Node) *graph.Node {
	return graph.Sub(pickLast(logits, targets), graph.Squeeze(logSumExp(logits), -1))
}

// entropy returns the entropy in nats of softmax(logits) over the last axis: logsumexp(x) - Σ softmax(x)·x.
func entropy(logits *graph.Node) *graph.Node {
	return graph.Sub(graph.Squeeze(logSumExp(logits), -1), graph.ReduceSum(graph.Mul(softmax(logits), logits), -1))
}
