package lm

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Decoder builds the model's graph. Its methods are graph functions: they take and return nodes and panic on misuse, as
// GoMLX's own do; [Program] turns that into errors. All arithmetic is float32.
type Decoder struct {
	Config  *Config
	Adapter *AdapterConfig // nil: the base model
}

// Inputs are a batch of B rows of T tokens. A token attends to itself and to earlier tokens of its row that have the
// same segment. So an attention mask of 0 and 1 is a valid Segments for padding on either side, and several sequences
// packed into one row get 1, 2, 3, ... with positions that restart.
//
// Branches let several continuations of one prefix share its computation. The prefix has branch 0 and stands first in its
// segment; each continuation has a number of its own from 1 on, and its positions go on from the prefix. A token of a
// continuation attends to the prefix and to its own continuation, not to the others.
type Inputs struct {
	IDs       *graph.Node // int32 [B, T]
	Positions *graph.Node // int32 [B, T], 0 for the first token of a sequence
	Segments  *graph.Node // int32 [B, T], 0 for pads
	Branches  *graph.Node // int32 [B, T], or nil: no segment has continuations
}

// negative replaces masked attention scores. It is finite, so that the softmax of a row of masked scores alone is finite too.
const negative = float32(-1e30)

// scalar makes a constant that may be used inside a loop's body. The constants of AddScalar and the like may not: GoMLX caches
// them by graph, and not by function.
func scalar(g *graph.Graph, v float32) *graph.Node { return graph.Const(g, v) }

// full is a constant of the given shape.
func full(g *graph.Graph, v float32, dims ...int) *graph.Node {
	return graph.BroadcastToDims(scalar(g, v), dims...)
}

// Hidden runs the decoder over full sequences and returns the hidden states after the final norm, [B, T, Hidden].
func (d Decoder) Hidden(p Params, in Inputs) *graph.Node {
	states := d.HiddenStates(p, in)
	return states[len(states)-1]
}

// HiddenStates returns Layers+1 tensors [B, T, Hidden]: the embeddings, the output of each layer but the last, and the
// last layer's output after the final norm.
func (d Decoder) HiddenStates(p Params, in Inputs) []*graph.Node {
	g := in.IDs.Graph()
	b, t := in.IDs.Shape().Dimensions[0], in.IDs.Shape().Dimensions[1]
	all := graph.AxisRange()
	borders := causalBorders(t)
	biases := make([]*graph.Node, len(borders)-1) // [B, 1, 1, N, S]: 0 where attention may go, hugely negative elsewhere
	for i := range biases {
		from, to := borders[i], borders[i+1]
		dims := []int{b, to - from, to}
		// sides returns x [B, T] of the block's queries and of its keys, both as [B, N, S].
		sides := func(x *graph.Node) (query, key *graph.Node) {
			x = graph.Reshape(x, b, t)
			query = graph.Reshape(graph.Slice(x, all, graph.AxisRange(from, to)), b, to-from, 1)
			key = graph.Reshape(graph.Slice(x, all, graph.AxisRange(0, to)), b, 1, to)
			return graph.BroadcastToDims(query, dims...), graph.BroadcastToDims(key, dims...)
		}
		key := graph.Iota(g, shapes.Make(dtypes.Int32, dims...), 2)
		query := graph.Add(graph.Iota(g, key.Shape(), 1), graph.BroadcastToDims(graph.Const(g, int32(from)), dims...))
		mask := graph.And(graph.Equal(sides(in.Segments)), graph.LessOrEqual(key, query))
		if in.Branches != nil {
			ofQuery, ofKey := sides(in.Branches)
			mask = graph.And(mask, graph.Or(graph.Equal(ofKey, graph.ZerosLike(ofKey)), graph.Equal(ofQuery, ofKey)))
		}
		biases[i] = graph.Reshape(graph.Where(mask, full(g, 0, dims...), full(g, negative, dims...)), b, 1, 1, to-from, to)
	}
	return d.layers(p, in.IDs, in.Positions, func(_ int, q, k, v *graph.Node) *graph.Node {
		k, v = graph.TransposeAllAxes(k, 0, 2, 1, 3), graph.TransposeAllAxes(v, 0, 2, 1, 3) // [B, KVHeads, T, HeadDim]
		out := make([]*graph.Node, len(biases))
		for i, bias := range biases {
			queries, keys := graph.AxisRange(borders[i], borders[i+1]), graph.AxisRange(0, borders[i+1])
			out[i] = lateAttention(graph.Slice(q, all, queries), graph.Slice(k, all, all, keys), graph.Slice(v, all, all, keys), bias)
		}
		return graph.Concatenate(out, 1)
	})
}

// causalBorders cuts a row of t tokens into blocks of queries, [border i, border i+1). A block attends to the keys up to its
// own end only, because the mask hides all later ones. With n blocks that saves (n-1)/2n of the work. On a CPU, blocks of
// fewer than about 80 queries gain nothing, and more than 8 blocks little but a larger graph.
func causalBorders(t int) []int {
	n := min(max(t/80, 1), 8)
	out := make([]int, n+1)
	for i := range out {
		out[i] = i * t / n
	}
	return out
}

// lateAttention is [attention] of q [B, N, KVHeads, G, HeadDim] over keys and values [B, KVHeads, S, HeadDim], the same up to
// rounding. It divides by the softmax's sum after the product with the values, not before. So it and its gradient pass less
// often over the scores, the largest array of a training step.
func lateAttention(q, keys, values, bias *graph.Node) *graph.Node {
	e := exponentials(attentionScores(q, keys, bias))
	o := graph.Div(weighted(e, values), graph.ReduceAndKeep(e, graph.ReduceSum, -1))
	return graph.TransposeAllAxes(o, 0, 3, 1, 2, 4)
}

// attentionScores of q [B, N, KVHeads, G, HeadDim] and keys [B, KVHeads, S, HeadDim] with bias [B, 1, 1, N, S]: [B, KVHeads, G, N, S].
func attentionScores(q, keys, bias *graph.Node) *graph.Node {
	dims := q.Shape().Dimensions
	b, n, kv, group, hd := dims[0], dims[1], dims[2], dims[3], dims[4]
	q = graph.Reshape(graph.TransposeAllAxes(q, 0, 2, 3, 1, 4), b, kv, group*n, hd)
	scores := graph.DotGeneral(q, []int{3}, []int{0, 1}, keys, []int{3}, []int{0, 1})
	return graph.Add(graph.Reshape(scores, b, kv, group, n, keys.Shape().Dimensions[2]), bias)
}

// weighted sums values [B, KVHeads, S, HeadDim] by weights [B, KVHeads, G, N, S]: [B, KVHeads, G, N, HeadDim].
func weighted(weights, values *graph.Node) *graph.Node {
	d := weights.Shape().Dimensions
	o := graph.DotGeneral(graph.Reshape(weights, d[0], d[1], d[2]*d[3], d[4]), []int{3}, []int{0, 1}, values, []int{2}, []int{0, 1})
	return graph.Reshape(o, d[0], d[1], d[2], d[3], values.Shape().Dimensions[3])
}

// attend computes attention for one layer: q [B, T, KVHeads, Heads/KVHeads, HeadDim] already scaled, k and v
// [B, T, KVHeads, HeadDim]; the result has the shape of q.
type attend func(layer int, q, k, v *graph.Node) *graph.Node

// layers runs embedding, blocks and final norm with the given attention.
func (d Decoder) layers(p Params, ids, positions *graph.Node, attention attend) []*graph.Node {
	c := d.Config
	dims := ids.Shape().Dimensions
	if len(dims) != 2 || positions.Shape().Rank() != 2 || positions.Shape().Dimensions[0] != dims[0] || positions.Shape().Dimensions[1] != dims[1] {
		panic(fmt.Errorf("ids and positions must both be [rows, tokens], got %s and %s", ids.Shape(), positions.Shape()))
	}
	b, t := dims[0], dims[1]
	g := ids.Graph()
	cos, sin := c.rotations(positions)
	// Without the barrier XLA computes sines anew inside every fused use, per layer and head.
	turned := graph.OptimizationBarriers(cos, sin)
	cos, sin = turned[0], turned[1]
	scale := scalar(g, float32(1/math.Sqrt(float64(c.HeadDim))))
	x := graph.Gather(p.get(embedName), graph.Reshape(ids, b, t, 1))
	states := []*graph.Node{x}
	for l := range c.Layers {
		at := fmt.Sprintf("model.layers.%d.", l)
		h := rmsNorm(x, p.get(at+"input_layernorm.weight"), c.Eps)
		q, k, v := d.qkv(p, at, h)
		q = rotate(graph.Reshape(q, b, t, c.Heads, c.HeadDim), cos, sin)
		k = rotate(graph.Reshape(k, b, t, c.KVHeads, c.HeadDim), cos, sin)
		v = graph.Reshape(v, b, t, c.KVHeads, c.HeadDim)
		q = graph.Reshape(graph.Mul(q, scale), b, t, c.KVHeads, c.Heads/c.KVHeads, c.HeadDim)
		o := graph.Reshape(attention(l, q, k, v), b, t, c.Heads*c.HeadDim)
		x = graph.Add(x, d.linear(p, at+"self_attn.o_proj", o, false))
		h = rmsNorm(x, p.get(at+"post_attention_layernorm.weight"), c.Eps)
		gate, up := d.gateUp(p, at, h)
		x = graph.Add(x, d.linear(p, at+"mlp.down_proj", graph.Mul(graph.Mul(gate, graph.Logistic(gate)), up), false))
		states = append(states, x)
	}
	states[c.Layers] = rmsNorm(x, p.get(normName), c.Eps)
	return states
}

// qkv computes the three projections of a layer, in one product where the weights were joined by [Config.join].
func (d Decoder) qkv(p Params, at string, h *graph.Node) (q, k, v *graph.Node) {
	if p[at+joinedQKV+".kernel"] == nil {
		return d.linear(p, at+"self_attn.q_proj", h, true), d.linear(p, at+"self_attn.k_proj", h, true), d.linear(p, at+"self_attn.v_proj", h, true)
	}
	nq, nkv := d.Config.Heads*d.Config.HeadDim, d.Config.KVHeads*d.Config.HeadDim
	y := d.linear(p, at+joinedQKV, h, true)
	return cut(y, 0, nq), cut(y, nq, nq+nkv), cut(y, nq+nkv, nq+2*nkv)
}

// gateUp computes the two projections into a layer's MLP, likewise.
func (d Decoder) gateUp(p Params, at string, h *graph.Node) (gate, up *graph.Node) {
	if p[at+joinedMLP+".kernel"] == nil {
		return d.linear(p, at+"mlp.gate_proj", h, false), d.linear(p, at+"mlp.up_proj", h, false)
	}
	y := d.linear(p, at+joinedMLP, h, false)
	return cut(y, 0, d.Config.FFN), cut(y, d.Config.FFN, 2*d.Config.FFN)
}

// cut slices the last axis of x [B, T, N].
func cut(x *graph.Node, from, to int) *graph.Node {
	return graph.Slice(x, graph.AxisRange(), graph.AxisRange(), graph.AxisRange(from, to))
}

// Names of joined weights; they exist inside graphs only.
const (
	joinedQKV  = "self_attn.qkv"
	joinedMLP  = "mlp.gate_up"
	headKernel = "head.kernel"
)

// join prepares the weights of a decoder without adapter for use in a loop, and returns the new parameters and their names in
// order. Matrices that are applied to the same input become one. All are transposed to [in, out] and named ".kernel": a CPU's
// matrix library would otherwise transpose them for every product.
func (c *Config) join(p Params) (Params, []string) {
	out := Params{}
	var names []string
	add := func(name string, x *graph.Node) { out[name], names = x, append(names, name) }
	several := func(at, what string, modules ...string) *graph.Node {
		var xs []*graph.Node
		for _, m := range modules {
			xs = append(xs, p.get(at+m+what))
		}
		return graph.Concatenate(xs, 0)
	}
	kernel := func(w *graph.Node) *graph.Node { return graph.Transpose(w, 0, 1) }
	for _, param := range c.Params() {
		at, rest, ok := splitLayer(param.Name)
		switch {
		case !ok && param.Name == headName:
		case !ok:
			add(param.Name, p.get(param.Name))
		case rest == "self_attn.q_proj.weight":
			add(at+joinedQKV+".kernel", kernel(several(at, ".weight", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")))
			add(at+joinedQKV+".bias", several(at, ".bias", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))
		case rest == "mlp.gate_proj.weight":
			add(at+joinedMLP+".kernel", kernel(several(at, ".weight", "mlp.gate_proj", "mlp.up_proj")))
		case rest == "self_attn.o_proj.weight" || rest == "mlp.down_proj.weight":
			add(strings.TrimSuffix(param.Name, "weight")+"kernel", kernel(p.get(param.Name)))
		case strings.HasSuffix(rest, "layernorm.weight"):
			add(param.Name, p.get(param.Name))
		}
	}
	add(headKernel, kernel(p.get(c.head())))
	return out, names
}

// splitLayer cuts "model.layers.3.mlp.up_proj.weight" into "model.layers.3." and "mlp.up_proj.weight".
func splitLayer(name string) (at, rest string, ok bool) {
	after, ok := strings.CutPrefix(name, "model.layers.")
	if !ok {
		return "", name, false
	}
	number, rest, _ := strings.Cut(after, ".")
	return "model.layers." + number + ".", rest, true
}

// Logits multiplies hidden states [..., Hidden] with the output head: [..., Vocab].
func (d Decoder) Logits(p Params, hidden *graph.Node) *graph.Node {
	if w := p[headKernel]; w != nil {
		return product(hidden, w)
	}
	return matmul(hidden, p.get(d.Config.head()))
}

// head names the matrix of the output head.
func (c *Config) head() string {
	if c.Tied {
		return embedName
	}
	return headName
}

// linear is x·Wᵀ (+ b), plus scale·x·Aᵀ·Bᵀ when the adapter has the module.
func (d Decoder) linear(p Params, module string, x *graph.Node, bias bool) *graph.Node {
	var y *graph.Node
	if w := p[module+".kernel"]; w != nil {
		y = product(x, w)
	} else {
		y = matmul(x, p.get(module+".weight"))
	}
	if bias {
		y = graph.Add(y, graph.ExpandLeftToRank(p.get(module+".bias"), y.Rank()))
	}
	if d.Adapter != nil && d.Adapter.Targets(module) {
		low := matmul(x, p.get(loraName(module, "A")))
		y = graph.Add(y, graph.Mul(matmul(low, p.get(loraName(module, "B"))), scalar(x.Graph(), float32(d.Adapter.Scale()))))
	}
	return y
}

// product contracts the last axis of x with the first of w, which is [in, out].
func product(x, w *graph.Node) *graph.Node {
	dims := x.Shape().Dimensions
	in := dims[len(dims)-1]
	y := graph.Dot(graph.Reshape(x, x.Shape().Size()/in, in), w).Product()
	return graph.Reshape(y, append(append([]int(nil), dims[:len(dims)-1]...), w.Shape().Dimensions[1])...)
}

// matmul contracts the last axis of x with the last of w, which is [out, in].
func matmul(x, w *graph.Node) *graph.Node {
	dims := x.Shape().Dimensions
	in := dims[len(dims)-1]
	y := graph.Dot(graph.Reshape(x, x.Shape().Size()/in, in), w).General([]int{1}, nil, []int{1}, nil)
	out := append(append([]int(nil), dims[:len(dims)-1]...), w.Shape().Dimensions[0])
	return graph.Reshape(y, out...)
}

// rmsNorm is x / sqrt(mean(x²) + eps) · gain over the last axis (Zhang and Sennrich 2019). GoMLX has no gradient for the
// reciprocal square root, so this divides by a square root.
func rmsNorm(x, gain *graph.Node, eps float64) *graph.Node {
	g := x.Graph()
	mean := graph.Mul(graph.ReduceAndKeep(graph.Mul(x, x), graph.ReduceSum, -1), scalar(g, 1/float32(x.Shape().Dim(-1))))
	x = graph.Div(x, graph.Sqrt(graph.Add(mean, scalar(g, float32(eps)))))
	return graph.Mul(x, graph.ExpandLeftToRank(gain, x.Rank()))
}

// rotations returns cos [B, T, 1, 1, HeadDim/2] of position·theta^(-2i/HeadDim) and sin [B, T, 1, 2, HeadDim/2] with the
// first half negated.
func (c *Config) rotations(positions *graph.Node) (cos, sin *graph.Node) {
	g := positions.Graph()
	half := c.HeadDim / 2
	inv := make([]float32, half)
	for i := range inv {
		inv[i] = float32(1 / math.Pow(c.RopeTheta, float64(2*i)/float64(c.HeadDim)))
		if c.BF16Rotary {
			inv[i] = roundBF16(inv[i])
		}
	}
	b, t := positions.Shape().Dimensions[0], positions.Shape().Dimensions[1]
	angle := graph.Mul(graph.Reshape(graph.ConvertDType(positions, dtypes.Float32), b, t, 1, 1, 1), graph.Reshape(graph.Const(g, inv), 1, 1, 1, 1, half))
	sin = graph.Sin(angle)
	return graph.Cos(angle), graph.Concatenate([]*graph.Node{graph.Neg(sin), sin}, 3)
}

// roundBF16 rounds to the nearest bfloat16, ties to even.
func roundBF16(x float32) float32 {
	u := math.Float32bits(x)
	return math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff)
}

// rotate applies rotary positions to x [B, T, heads, HeadDim]. It pairs element i with i + HeadDim/2 (Su et al. 2021, in the
// half-split layout of Qwen2's checkpoints). It swaps the two halves before it multiplies: a CPU vectorises that, and not the
// concatenation of two results.
func rotate(x, cos, sin *graph.Node) *graph.Node {
	d := x.Shape().Dimensions
	x = graph.Reshape(x, d[0], d[1], d[2], 2, d[3]/2)
	all := graph.AxisRange()
	swapped := graph.Concatenate([]*graph.Node{
		graph.Slice(x, all, all, all, graph.AxisRange(1, 2), all), graph.Slice(x, all, all, all, graph.AxisRange(0, 1), all),
	}, 3)
	return graph.Reshape(graph.Add(graph.Mul(x, cos), graph.Mul(swapped, sin)), d...)
}

// exponentials of what the values of the last axis lie below the largest.
func exponentials(x *graph.Node) *graph.Node {
	return graph.Exp(graph.Sub(x, graph.StopGradient(graph.ReduceAndKeep(x, graph.ReduceMax, -1))))
}

// softmax over the last axis.
func softmax(x *graph.Node) *graph.Node {
	e := exponentials(x)
	return graph.Div(e, graph.ReduceAndKeep(e, graph.ReduceSum, -1))
}

// pickLast returns x[..., index] along the last axis, for float32 or int32 x.
func pickLast(x, index *graph.Node) *graph.Node {
	g := x.Graph()
	dims := x.Shape().Dimensions
	zero := full(g, 0, dims...)
	if x.DType() == dtypes.Int32 {
		zero = graph.BroadcastToDims(graph.Const(g, int32(0)), dims...)
	}
	hit := graph.Equal(graph.Iota(g, shapes.Make(dtypes.Int32, dims...), len(dims)-1), graph.BroadcastToDims(graph.ExpandAxes(index, -1), dims...))
	return graph.ReduceSum(graph.Where(hit, x, zero), -1)
}
