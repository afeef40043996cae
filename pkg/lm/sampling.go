package lm

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Sampling says how the next token is drawn from logits. The steps apply in this order, as in Hugging Face's generate():
// repetition penalty, temperature, top-k, top-p, min-p. The zero value is greedy decoding.
type Sampling struct {
	// Temperature divides the logits; 0, and all below [MinTemperature], takes the most likely token (the first of equals).
	Temperature float64
	// TopK keeps the K most likely tokens and those that equal the K-th; 0 keeps all.
	TopK int
	// TopP keeps the smallest set of most likely tokens whose probability reaches it (Holtzman et al. 2019); 0 and 1 keep all.
	TopP float64
	// MinP keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
	MinP float64
	// RepetitionPenalty divides the positive logits of tokens already in the context and multiplies the negative ones
	// (Keskar et al. 2019), from 0.01 to 100; 0 and 1 leave them.
	RepetitionPenalty float64
}

// Bounds of a temperature. Below MinTemperature sampling is greedy, because logits that are divided by so little lose their
// differences in float32, and in the end overflow.
const (
	MinTemperature = 1e-3
	MaxTemperature = 1e3
)

// Greedy reports whether the most likely token is taken.
func (s Sampling) Greedy() bool { return s.Temperature < MinTemperature }

// Check reports a setting out of range, by its name.
func (s Sampling) Check() error {
	switch {
	case !(s.Temperature >= 0 && s.Temperature <= MaxTemperature):
		return fmt.Errorf("temperature is %v, want 0 to %v (below %v is greedy)", s.Temperature, MaxTemperature, MinTemperature)
	case s.TopK < 0:
		return fmt.Errorf("top_k is %d, want 0 or more", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("top_p is %v, want 0 to 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return fmt.Errorf("min_p is %v, want 0 to 1", s.MinP)
	case s.RepetitionPenalty != 0 && !(s.RepetitionPenalty >= 0.01 && s.RepetitionPenalty <= 100):
		return fmt.Errorf("repetition_penalty is %v, want 0.01 to 100, or 0 for none", s.RepetitionPenalty)
	}
	return nil
}

func (s Sampling) filters() bool   { return s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0 }
func (s Sampling) penalizes() bool { return s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1 }

// row is the settings as the graph takes them: temperature, k, 1-p, min-p, penalty.
func (s Sampling) row(vocab int) [5]float32 {
	k, cut, pen, temperature := float32(vocab), float32(-1), float32(1), float32(s.Temperature)
	if s.Greedy() {
		temperature = 0
	}
	if s.TopK > 0 && s.TopK < vocab {
		k = float32(s.TopK)
	}
	if s.TopP > 0 && s.TopP < 1 {
		cut = float32(1 - s.TopP)
	}
	if s.RepetitionPenalty != 0 {
		pen = float32(s.RepetitionPenalty)
	}
	return [5]float32{temperature, k, cut, float32(s.MinP), pen}
}

// sampler builds the graph that draws one token per row. It builds filters and penalty only when they are wanted, because
// the search for their borders takes time.
type sampler struct{ filter, penalty bool }

// draw is what one step of sampling gives, each [B].
type draw struct {
	token    *graph.Node // int32
	logProb  *graph.Node // log softmax(logits / temperature)[token]: what a trainer recomputes
	filtered *graph.Node // the same in the distribution that was drawn from, after penalty and filters
	entropy  *graph.Node // of softmax(logits / temperature), in nats
}

// sample draws from logits [B, V] with uniforms [B] in [0, 1), settings [B, 5] as [Sampling.row] gives them, and seen
// [B, V], 1 for tokens of the context (nil without penalty).
func (s sampler) sample(logits, uniforms, settings, seen *graph.Node) draw {
	g := logits.Graph()
	b := logits.Shape().Dimensions[0]
	column := func(i int) *graph.Node { return graph.Slice(settings, graph.AxisRange(), graph.AxisRange(i, i+1)) } // [B, 1]
	temperature := column(0)
	greedy := graph.Equal(temperature, full(g, 0, b, 1))
	divisor := graph.Where(greedy, full(g, 1, b, 1), temperature)
	z := graph.Div(logits, divisor)
	scores := z
	if s.penalty {
		scores = graph.Div(penalize(logits, seen, column(4)), divisor)
	}
	best := firstMax(scores)
	if s.filter {
		scores = filter(scores, column(1), column(2), column(3))
	}
	isGreedy := graph.Reshape(greedy, b)
	plain := newDistribution(z)
	from := plain
	if s.filter || s.penalty {
		from = newDistribution(scores)
	}
	out := draw{token: graph.Where(isGreedy, best, inverseCDF(from.weights, uniforms))}
	out.logProb = plain.logProb(out.token)
	out.filtered = graph.Where(isGreedy, full(g, 0, b), from.logProb(out.token))
	out.entropy = graph.Sub(plain.logSum, graph.Div(graph.ReduceSum(graph.Mul(plain.weights, z), -1), plain.sum))
	return out
}

// distribution is a softmax over scores [B, V] in parts, so that each reduction is made once.
type distribution struct{ scores, weights, sum, logSum *graph.Node } // weights [B, V] add up to sum [B]

func newDistribution(scores *graph.Node) distribution {
	top := graph.ReduceAndKeep(scores, graph.ReduceMax, -1)
	d := distribution{scores: scores, weights: graph.Exp(graph.Sub(scores, top))}
	d.sum = graph.ReduceSum(d.weights, -1)
	d.logSum = graph.Add(graph.Log(d.sum), graph.Squeeze(top, -1))
	return d
}

func (d distribution) logProb(token *graph.Node) *graph.Node {
	return graph.Sub(pickLast(d.scores, token), d.logSum)
}

// firstMax returns the first index of the largest value of each row of x [B, V]: int32 [B]. Two plain reductions run
// several times faster on a CPU than the library's combined one.
func firstMax(x *graph.Node) *graph.Node {
	g := x.Graph()
	dims := x.Shape().Dimensions
	ids := graph.Iota(g, shapes.Make(dtypes.Int32, dims...), 1)
	isTop := graph.Equal(x, graph.BroadcastToDims(graph.ReduceAndKeep(x, graph.ReduceMax, -1), dims...))
	return graph.ReduceMin(graph.Where(isTop, ids, graph.BroadcastToDims(graph.Const(g, int32(dims[1]-1)), dims...)), -1)
}

// penalize applies the repetition penalty [B, 1] to logits [B, V] where seen is 1.
func penalize(logits, seen, penalty *graph.Node) *graph.Node {
	g := logits.Graph()
	dims := logits.Shape().Dimensions
	p := graph.BroadcastToDims(penalty, dims...)
	changed := graph.Where(graph.LessThan(logits, full(g, 0, dims...)), graph.Mul(logits, p), graph.Div(logits, p))
	return graph.Where(graph.GreaterThan(seen, full(g, 0.5, dims...)), changed, logits)
}

// filter applies top-k, top-p and min-p (k, cut = 1-p and minP [B, 1]) to scores [B, V]: dropped tokens get a hugely
// negative score. All tokens that equal the K-th of top-k stay. Of tokens that are equal at top-p's border, those with the
// higher ids stay, as the reference's stable ascending sort has it. The borders are found bit by bit and not by sorting,
// because the XLA bindings allow no comparator inside a loop body.
func filter(scores, k, cut, minP *graph.Node) *graph.Node {
	g := scores.Graph()
	dims := scores.Shape().Dimensions
	b, v := dims[0], dims[1]
	wide := func(x *graph.Node) *graph.Node { return graph.BroadcastToDims(x, dims...) }
	zero, one, low := full(g, 0, dims...), full(g, 1, dims...), full(g, negative, dims...)
	keys := orderKeys(scores)

	// Top-k: the largest border that at least k keys reach.
	each := func(x *graph.Node, n, last int) *graph.Node { // [B, last] for each of n candidates
		return graph.BroadcastToDims(graph.Reshape(x, b, 1, last), b, n, last)
	}
	border := largestKey(g, b, v, func(t *graph.Node) *graph.Node {
		n := t.Shape().Dimensions[1]
		reach := graph.GreaterOrEqual(each(keys, n, v), graph.BroadcastToDims(t, b, n, v))
		count := graph.ReduceAndKeep(graph.Where(reach, full(g, 1, b, n, v), full(g, 0, b, n, v)), graph.ReduceSum, -1)
		return graph.GreaterOrEqual(count, each(k, n, 1))
	})
	scores = graph.Where(graph.GreaterOrEqual(keys, wide(border)), scores, low)

	// Top-p drops a token when the token and all less likely ones together have a probability of at most 1-p. The border is
	// the largest key below which at most 1-p lies. Tokens that equal it are dropped in the order of their ids.
	probs := softmax(scores)
	below := func(t *graph.Node) *graph.Node { // t [B, n, 1]
		n := t.Shape().Dimensions[1]
		less := graph.LessThan(each(keys, n, v), graph.BroadcastToDims(t, b, n, v))
		return graph.ReduceAndKeep(graph.Where(less, each(probs, n, v), full(g, 0, b, n, v)), graph.ReduceSum, -1)
	}
	border = largestKey(g, b, v, func(t *graph.Node) *graph.Node {
		return graph.LessOrEqual(below(t), each(cut, t.Shape().Dimensions[1], 1))
	})
	tie := graph.Equal(keys, wide(border))
	under := graph.Reshape(below(graph.Reshape(border, b, 1, 1)), b, 1)
	upTo := graph.Add(wide(under), graph.Mul(cumulative(graph.Where(tie, one, zero)), probs))
	stays := graph.Or(graph.GreaterThan(keys, wide(border)), graph.And(tie, graph.GreaterThan(upTo, wide(cut))))
	// The most likely token always stays, in spite of rounding. If several are equal, the last one does.
	ids := graph.Iota(g, shapes.Make(dtypes.Int32, dims...), 1)
	isTop := graph.Equal(scores, wide(graph.ReduceAndKeep(scores, graph.ReduceMax, -1)))
	last := graph.ReduceAndKeep(graph.Where(isTop, ids, graph.BroadcastToDims(graph.Const(g, int32(-1)), b, v)), graph.ReduceMax, -1)
	scores = graph.Where(graph.Or(stays, graph.Equal(ids, wide(last))), scores, low)

	probs = softmax(scores)
	top := graph.ReduceAndKeep(probs, graph.ReduceMax, -1)
	return graph.Where(graph.GreaterOrEqual(probs, wide(graph.Mul(top, minP))), scores, low)
}

// orderKeys maps float32 to int32 of the same order: the bits of a positive number are in order, those of a negative one
// in reverse. -0 comes right below +0.
func orderKeys(x *graph.Node) *graph.Node {
	g := x.Graph()
	dims := x.Shape().Dimensions
	bits := graph.Bitcast(x, dtypes.Int32)
	integer := func(v int32) *graph.Node { return graph.BroadcastToDims(graph.Const(g, v), dims...) }
	// For a negative number, min - bits - 1 flips all bits but the sign.
	return graph.Where(graph.LessThan(bits, integer(0)), graph.Sub(integer(math.MinInt32), graph.Add(bits, integer(1))), bits)
}

// largestKey returns per row the largest int32 [B, 1] for which ok holds. ok takes candidates [B, n, 1] and returns bool
// [B, n, 1]. It must hold for the smallest key, and for all keys up to some border. A step settles several bits: fewer steps
// compile faster, and fewer candidates a step run faster, which matters with a large vocabulary.
func largestKey(g *graph.Graph, b, vocab int, ok func(t *graph.Node) *graph.Node) *graph.Node {
	width := 4
	if vocab > 8192 {
		width = 2
	}
	t := graph.BroadcastToDims(graph.Const(g, int32(math.MinInt32)), b, 1)
	for bit := 32; bit > 0; {
		w := min(width, bit)
		bit -= w
		n := 1<<w - 1
		offsets := make([]int32, n) // t + offset·2^bit, whose first step may wrap around zero as two's complement does
		for i := range offsets {
			offsets[i] = int32(uint32(i+1) << bit)
		}
		step := graph.BroadcastToDims(graph.Reshape(graph.Const(g, offsets), 1, n, 1), b, n, 1)
		candidates := graph.Add(graph.BroadcastToDims(graph.Reshape(t, b, 1, 1), b, n, 1), step)
		holds := graph.Where(ok(candidates), full(g, 1, b, n, 1), full(g, 0, b, n, 1))
		taken := graph.ConvertDType(graph.ReduceSum(graph.Reshape(holds, b, n), -1), dtypes.Int32) // a prefix holds
		t = graph.Add(t, graph.Mul(graph.Reshape(taken, b, 1), graph.BroadcastToDims(graph.Const(g, int32(uint32(1)<<bit)), b, 1)))
	}
	return t
}

// inverseCDF returns, per row of weights probs [B, V] that need not add up to 1, the first index whose cumulative
// probability exceeds u·total: int32 [B]. A token of probability 0 is never returned, whatever the rounding of the sums.
// It finds the block of 128 weights first, and then sums within that block alone.
func inverseCDF(probs, u *graph.Node) *graph.Node {
	const block = 128
	g := probs.Graph()
	b, v := probs.Shape().Dimensions[0], probs.Shape().Dimensions[1]
	n := (v + block - 1) / block
	if pad := n*block - v; pad > 0 {
		probs = graph.Concatenate([]*graph.Node{probs, full(g, 0, b, pad)}, -1)
	}
	sums := graph.ReduceSum(graph.Reshape(probs, b, n, block), -1) // [B, n]
	target := graph.Mul(graph.Reshape(u, b, 1), graph.ReduceAndKeep(sums, graph.ReduceSum, -1))
	at := firstAbove(sums, cumulative(sums), target)
	earlier := graph.LessThan(graph.Iota(g, shapes.Make(dtypes.Int32, b, n), 1), graph.BroadcastToDims(graph.Reshape(at, b, 1), b, n))
	before := graph.ReduceAndKeep(graph.Where(earlier, sums, full(g, 0, b, n)), graph.ReduceSum, -1)
	integer := func(v int) *graph.Node { return graph.BroadcastToDims(graph.Const(g, int32(v)), b) }
	row := graph.Add(graph.Mul(graph.Iota(g, shapes.Make(dtypes.Int32, b), 0), integer(n)), at)
	inside := graph.Gather(graph.Reshape(probs, b*n, block), graph.Reshape(row, b, 1)) // [B, block]
	return graph.Add(graph.Mul(at, integer(block)), firstAbove(inside, cumulative(inside), graph.Sub(target, before)))
}

// firstAbove returns, per row of weights [B, N] with cumulative sums upTo, the first index of a positive weight whose
// sum exceeds target [B, 1], or the last positive one where rounding leaves all sums below: int32 [B].
func firstAbove(weights, upTo, target *graph.Node) *graph.Node {
	g := weights.Graph()
	dims := weights.Shape().Dimensions
	ids := graph.Iota(g, shapes.Make(dtypes.Int32, dims...), 1)
	integer := func(v int) *graph.Node { return graph.BroadcastToDims(graph.Const(g, int32(v)), dims...) }
	positive := graph.GreaterThan(weights, full(g, 0, dims...))
	hit := graph.And(positive, graph.GreaterThan(upTo, graph.BroadcastToDims(target, dims...)))
	first := graph.ReduceMin(graph.Where(hit, ids, integer(dims[1])), -1)
	return graph.Min(first, graph.ReduceMax(graph.Where(positive, ids, integer(-1)), -1))
}

// cumulative sums x [B, V] along the last axis by two triangular products, in blocks of 128: the library's own window
// sum takes V² steps on some backends.
func cumulative(x *graph.Node) *graph.Node {
	const block = 128
	g := x.Graph()
	b, v := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	n := (v + block - 1) / block
	if pad := n*block - v; pad > 0 {
		x = graph.Concatenate([]*graph.Node{x, full(g, 0, b, pad)}, -1)
	}
	inside := graph.Dot(graph.Reshape(x, b*n, block), triangle(g, block, false)).Product() // [B·n, block]
	if n == 1 {
		return graph.Slice(inside, graph.AxisRange(), graph.AxisRange(0, v))
	}
	inside = graph.Reshape(inside, b, n, block)
	sums := graph.Reshape(graph.Slice(inside, graph.AxisRange(), graph.AxisRange(), graph.AxisRange(block-1)), b, n)
	before := graph.Dot(sums, triangle(g, n, true)).Product() // [B, n]: sum of earlier blocks
	all := graph.Add(inside, graph.Reshape(before, b, n, 1))
	return graph.Slice(graph.Reshape(all, b, n*block), graph.AxisRange(), graph.AxisRange(0, v))
}

// triangle is the [n, n] matrix with 1 where row <= column (row < column when strict). A small one is a constant, so that
// a loop does not make it again at every step.
func triangle(g *graph.Graph, n int, strict bool) *graph.Node {
	if n > 128 {
		shape := shapes.Make(dtypes.Int32, n, n)
		r, c := graph.Iota(g, shape, 0), graph.Iota(g, shape, 1)
		in := graph.LessOrEqual(r, c)
		if strict {
			in = graph.LessThan(r, c)
		}
		return graph.Where(in, full(g, 1, n, n), full(g, 0, n, n))
	}
	m := make([][]float32, n)
	for r := range m {
		m[r] = make([]float32, n)
		for c := range m[r] {
			if r < c || r == c && !strict {
				m[r][c] = 1
			}
		}
	}
	return graph.Const(g, m)
}
