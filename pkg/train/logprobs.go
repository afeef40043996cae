package train

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// TokenStats describes, for every position, the predicted distribution of the next token. All nodes are float32 [B, T].
type TokenStats struct {
	// LogProb is the log-probability of the target, the token that follows, in nats.
	LogProb *graph.Node
	// Entropy is the entropy of the distribution, in nats. No gradient flows through it.
	Entropy *graph.Node
	// Correct is 1 where no token is more probable than the target, else 0.
	Correct *graph.Node
	// MeanLogit is the mean of the logits over the vocabulary, after the division by the temperature. No gradient.
	MeanLogit *graph.Node
}

// NewTokenStats builds the statistics of targets [B, T] (int32) under logits [B, T, V]. The logits are divided by
// temperature first (1 leaves them alone): a policy that was sampled at a temperature is trained at it.
//
// The target's logit is selected by comparing with an iota, not by Gather. The gradient of the comparison is elementwise and fuses
// with that of the softmax; the gradient of Gather would be a scatter.
func NewTokenStats(logits, targets *graph.Node, temperature float64) TokenStats {
	g := logits.Graph()
	x := graph.ConvertDType(logits, dtypes.Float32)
	if temperature != 1 {
		x = graph.DivScalar(x, temperature)
	}
	top := graph.StopGradient(graph.ReduceAndKeep(x, graph.ReduceMax, -1))
	x = graph.Sub(x, top)
	e := graph.Exp(x)
	sum := graph.ReduceSum(e, -1)
	logSum := graph.Log(sum)

	dims := x.Shape().Dimensions
	hit := graph.Equal(graph.Iota(g, shapes.Make(dtypes.Int32, dims...), -1),
		graph.BroadcastToDims(graph.ExpandAxes(targets, -1), dims...))
	picked := graph.ReduceSum(graph.Where(hit, x, graph.ZerosLike(x)), -1)
	mean := graph.Div(graph.ReduceSum(graph.Mul(e, x), -1), sum)
	return TokenStats{
		LogProb:   graph.Sub(picked, logSum),
		Entropy:   graph.StopGradient(graph.Sub(logSum, mean)),
		MeanLogit: graph.StopGradient(graph.Add(graph.ReduceMean(x, -1), graph.Reshape(top, dims[:len(dims)-1]...))),
		Correct:   graph.ConvertDType(graph.GreaterOrEqual(graph.StopGradient(picked), graph.ZerosLike(picked)), dtypes.Float32),
	}
}
