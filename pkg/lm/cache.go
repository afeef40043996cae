package lm

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// The key/value cache is 2·Layers tensors [slots, KVHeads, C, HeadDim], keys and values of each layer in turn. Column j
// of a slot holds its token at position j.
//
// A device call does not write into the cache. It makes a longer working copy and writes its new keys and values into
// columns C, C+1, ... there. All rows write the same column, although they stand at different positions, so a loop can
// update the copy in place. At its end the call moves the new columns once, to the columns of each row's own positions.

// cacheShape is the shape of one cache tensor.
func (c *Config) cacheShape(slots, columns int) shapes.Shape {
	return shapes.Make(dtypes.Float32, slots, c.KVHeads, columns, c.HeadDim)
}

// extend appends n zero columns to each cache tensor.
func extend(cache []*graph.Node, n int) []*graph.Node {
	out := make([]*graph.Node, len(cache))
	for i, x := range cache {
		d := x.Shape().Dimensions
		out[i] = graph.Concatenate([]*graph.Node{x, full(x.Graph(), 0, d[0], d[1], n, d[3])}, 2)
	}
	return out
}

// cachedHidden runs T new tokens per row after the C columns of a cache. length [B] is the number of valid columns of
// each row; the new tokens have positions [B, T]. It returns the final hidden states [B, T, Hidden] and the working copy
// of C + T columns.
func (d Decoder) cachedHidden(p Params, ids, positions, length *graph.Node, cache []*graph.Node) (*graph.Node, []*graph.Node) {
	g := ids.Graph()
	b, t, columns := ids.Shape().Dimensions[0], ids.Shape().Dimensions[1], cache[0].Shape().Dimensions[2]
	all := shapes.Make(dtypes.Int32, b, t, columns+t)
	column, row := graph.Iota(g, all, 2), graph.Iota(g, all, 1)
	border := graph.BroadcastToDims(graph.Const(g, int32(columns)), b, t, columns+t)
	past := graph.LessThan(column, graph.BroadcastToDims(graph.Reshape(length, b, 1, 1), b, t, columns+t))
	fresh := graph.And(graph.GreaterOrEqual(column, border), graph.LessOrEqual(column, graph.Add(border, row)))
	bias := graph.Where(graph.Or(past, fresh), full(g, 0, b, t, columns+t), full(g, negative, b, t, columns+t))
	bias = graph.Reshape(bias, b, 1, 1, t, columns+t)
	work := make([]*graph.Node, len(cache))
	states := d.layers(p, ids, positions, func(l int, q, k, v *graph.Node) *graph.Node {
		for i, x := range []*graph.Node{k, v} { // [B, T, KVHeads, HeadDim]
			work[2*l+i] = graph.Concatenate([]*graph.Node{cache[2*l+i], graph.TransposeAllAxes(x, 0, 2, 1, 3)}, 2)
		}
		return attention(q, work[2*l], work[2*l+1], bias)
	})
	return states[len(states)-1], work
}

// stepHidden runs one token per row inside a loop: step number at (a scalar node) of a call that started with the given
// number of cache columns. The working copy holds keys as [B, KVHeads, HeadDim, S] and values as [B, KVHeads, S, HeadDim].
// This layout of the keys makes their product with a single query several times faster than the cache's own. A step reads
// the working copy, and only then writes the token's column. The barrier between the two keeps XLA from copying the whole
// at every step.
func (d Decoder) stepHidden(p Params, ids, positions, length, at *graph.Node, work []*graph.Node, columns int) (*graph.Node, []*graph.Node) {
	g := ids.Graph()
	b, s := ids.Shape().Dimensions[0], work[1].Shape().Dimensions[2]
	column := graph.Iota(g, shapes.Make(dtypes.Int32, b, s), 1)
	wide := func(x *graph.Node) *graph.Node { return graph.BroadcastToDims(x, b, s) }
	border := graph.Const(g, int32(columns))
	here := graph.Add(border, at)
	past := graph.LessThan(column, wide(graph.Reshape(length, b, 1)))
	fresh := graph.And(graph.GreaterOrEqual(column, wide(border)), graph.LessThan(column, wide(here)))
	bias := graph.Reshape(graph.Where(graph.Or(past, fresh), full(g, 0, b, s), full(g, negative, b, s)), b, 1, 1, s)
	zero := graph.Const(g, int32(0))
	out := make([]*graph.Node, len(work))
	states := d.layers(p, ids, positions, func(l int, q, k, v *graph.Node) *graph.Node {
		dims := q.Shape().Dimensions
		kv, group, hd := dims[2], dims[3], dims[4]
		q = graph.Reshape(q, b, kv, group, hd)
		k, v = graph.Reshape(k, b, kv, 1, hd), graph.Reshape(v, b, kv, 1, hd)
		scores := graph.Add(graph.DotGeneral(q, []int{3}, []int{0, 1}, work[2*l], []int{2}, []int{0, 1}), bias)
		own := graph.ReduceAndKeep(graph.Mul(q, k), graph.ReduceSum, -1) // [B, KVHeads, group, 1]
		top := graph.Max(graph.ReduceAndKeep(scores, graph.ReduceMax, -1), own)
		e, eOwn := graph.Exp(graph.Sub(scores, top)), graph.Exp(graph.Sub(own, top))
		o := graph.Add(graph.DotGeneral(e, []int{3}, []int{0, 1}, work[2*l+1], []int{2}, []int{0, 1}), graph.Mul(eOwn, v))
		o = graph.Div(o, graph.Add(graph.ReduceAndKeep(e, graph.ReduceSum, -1), eOwn))
		ordered := graph.OptimizationBarriers(o, k, v)
		o, k, v = ordered[0], ordered[1], ordered[2]
		out[2*l] = graph.DynamicUpdateSlice(work[2*l], graph.Reshape(k, b, kv, hd, 1), []*graph.Node{zero, zero, zero, here})
		out[2*l+1] = graph.DynamicUpdateSlice(work[2*l+1], v, []*graph.Node{zero, zero, here, zero})
		return o
	})
	return states[len(states)-1], out
}

// flipKeys swaps the last two axes of the keys of a cache or working copy.
func flipKeys(cache []*graph.Node) []*graph.Node {
	out := make([]*graph.Node, len(cache))
	for i, x := range cache {
		out[i] = x
		if i%2 == 0 {
			out[i] = graph.TransposeAllAxes(x, 0, 1, 3, 2)
		}
	}
	return out
}

// newColumns returns the columns from n on of working copies in the cache's layout.
func newColumns(work []*graph.Node, n int) []*graph.Node {
	axis := graph.AxisRange()
	out := make([]*graph.Node, len(work))
	for i, x := range work {
		out[i] = graph.Slice(x, axis, axis, graph.AxisRange(n), axis)
	}
	return out
}

// attention of q [B, T, KVHeads, G, HeadDim] over keys and values [B, KVHeads, S, HeadDim] with bias [B, 1, 1, T, S].
func attention(q, keys, values, bias *graph.Node) *graph.Node {
	return graph.TransposeAllAxes(weighted(softmax(attentionScores(q, keys, bias)), values), 0, 3, 1, 2, 4)
}

// commit moves the first count[r] new columns [R, KVHeads, N, HeadDim] of each row r to the cache: slot s takes those of
// row source[s], at columns length[r] and up; source -1 leaves the slot as it is. A nil source means that row r is slot r.
func commit(cache, fresh []*graph.Node, source, length, count *graph.Node) []*graph.Node {
	g := cache[0].Graph()
	cd, fd := cache[0].Shape().Dimensions, fresh[0].Shape().Dimensions
	slots, kv, columns, hd := cd[0], cd[1], cd[2], cd[3]
	r, n := fd[0], fd[2]
	flat := func(x *graph.Node) *graph.Node {
		return graph.BroadcastToDims(graph.Reshape(x, slots, 1), slots, columns)
	}
	integer := func(v int) *graph.Node { return graph.BroadcastToDims(graph.Const(g, int32(v)), slots, columns) }
	taken := graph.BroadcastToDims(graph.Const(g, true), slots, columns)
	row := graph.Iota(g, shapes.Make(dtypes.Int32, slots), 0)
	if source != nil {
		taken = flat(graph.GreaterOrEqual(source, graph.BroadcastToDims(graph.Const(g, int32(0)), slots)))
		row = graph.Max(source, graph.BroadcastToDims(graph.Const(g, int32(0)), slots))
		length = graph.Gather(length, graph.Reshape(row, slots, 1))
		count = graph.Gather(count, graph.Reshape(row, slots, 1))
	}
	offset := graph.Sub(graph.Iota(g, shapes.Make(dtypes.Int32, slots, columns), 1), flat(length))
	hit := graph.And(taken, graph.And(graph.GreaterOrEqual(offset, integer(0)), graph.LessThan(offset, flat(count))))
	offset = graph.Min(graph.Max(offset, integer(0)), integer(n-1))
	// Index of [row, head, offset] in the new columns laid out as [rows·heads·n, HeadDim].
	three := []int{slots, kv, columns}
	head := graph.Iota(g, shapes.Make(dtypes.Int32, three...), 1)
	spread := func(x *graph.Node) *graph.Node {
		return graph.BroadcastToDims(graph.Reshape(x, slots, 1, columns), three...)
	}
	times := func(x *graph.Node, k int) *graph.Node {
		return graph.Mul(x, graph.BroadcastToDims(graph.Const(g, int32(k)), three...))
	}
	index := graph.Add(times(graph.Add(times(spread(flat(row)), kv), head), n), spread(offset))
	index = graph.Reshape(index, slots*kv*columns, 1)
	hit = graph.BroadcastToDims(graph.Reshape(hit, slots, 1, columns, 1), slots, kv, columns, hd)
	out := make([]*graph.Node, len(cache))
	for i := range cache {
		moved := graph.Reshape(graph.Gather(graph.Reshape(fresh[i], r*kv*n, hd), index), slots, kv, columns, hd)
		out[i] = graph.Where(hit, moved, cache[i])
	}
	return out
}

// pickRows gathers the cache rows of the given slots, [R] int32; nil means all.
func pickRows(cache []*graph.Node, slots *graph.Node) []*graph.Node {
	if slots == nil {
		return cache
	}
	out := make([]*graph.Node, len(cache))
	for i, x := range cache {
		out[i] = graph.Gather(x, graph.Reshape(slots, slots.Shape().Size(), 1))
	}
	return out
}

// generator builds the graphs of an engine's programs. The inputs of every program start with the weights. A program for a
// subset of R slots then takes rows [R], the slot of each row, and source [slots], the row of each slot or -1. A program for
// all slots takes neither.
type generator struct {
	decoder Decoder
	names   []string
	loop    bool // several tokens a call, in a loop on the device
}

// bind splits the inputs of a program into parameters, rows and source, and the rest.
func (gn *generator) bind(in []*graph.Node, subset bool) (p Params, rows, source *graph.Node, rest []*graph.Node) {
	p, in = BindParams(gn.names, in)
	if subset {
		rows, source, in = in[0], in[1], in[2:]
	}
	return p, rows, source, in
}

// prefill is the graph of adding T tokens to R rows. Inputs after the rows: ids [R, T], length [R], count [R], cache. It
// returns the new cache; the output head is never run.
func (gn *generator) prefill(in []*graph.Node, subset bool) []*graph.Node {
	p, rows, source, in := gn.bind(in, subset)
	ids, length, count, cache := in[0], in[1], in[2], in[3:]
	b, t := ids.Shape().Dimensions[0], ids.Shape().Dimensions[1]
	columns := cache[0].Shape().Dimensions[2]
	positions := graph.Add(graph.BroadcastToDims(graph.Reshape(length, b, 1), b, t), graph.Iota(ids.Graph(), shapes.Make(dtypes.Int32, b, t), 1))
	_, work := gn.decoder.cachedHidden(p, ids, positions, length, pickRows(cache, rows))
	return commit(cache, newColumns(work, columns), source, length, count)
}

// decodeState is what one decoding step reads and writes.
type decodeState struct {
	token, count, remaining *graph.Node // int32 [R]
	tokens                  *graph.Node // int32 [R, N]
	logProbs                *graph.Node // float32 [3, R, N]: log-probability, filtered, entropy
	seen                    *graph.Node // float32 [R, V], nil without penalty
	work                    []*graph.Node
}

func (s decodeState) list() []*graph.Node {
	l := []*graph.Node{s.token, s.count, s.remaining, s.tokens, s.logProbs}
	if s.seen != nil {
		l = append(l, s.seen)
	}
	return append(l, s.work...)
}

func readDecodeState(in []*graph.Node, seen bool, layers int) (decodeState, []*graph.Node) {
	s := decodeState{token: in[0], count: in[1], remaining: in[2], tokens: in[3], logProbs: in[4]}
	in = in[5:]
	if seen {
		s.seen, in = in[0], in[1:]
	}
	s.work = in[:2*layers]
	return s, in[2*layers:]
}

// decode is the graph of making up to N tokens for R rows. Inputs after the rows: token [R] (the last of each row's
// context, not yet in the cache), length [R], remaining [R] (how many tokens the row may make; 0: idle), stop [R, K]
// (ids that end a row, -1: none), uniforms [R, N], settings [R, 5], seen [R, V] with a penalty, cache. Outputs: count [R]
// of tokens made, tokens [R, N], log-probabilities [3, R, N], the new cache.
func (gn *generator) decode(in []*graph.Node, subset bool, s sampler) []*graph.Node {
	p, rows, source, in := gn.bind(in, subset)
	g := in[0].Graph()
	token, length, remaining, stop, uniforms, settings, in := in[0], in[1], in[2], in[3], in[4], in[5], in[6:]
	layers := gn.decoder.Config.Layers
	st := decodeState{token: token, remaining: remaining}
	if s.penalty {
		st.seen, in = in[0], in[1:]
	}
	cache := in
	r, n := uniforms.Shape().Dimensions[0], uniforms.Shape().Dimensions[1]
	columns := cache[0].Shape().Dimensions[2]
	st.count = graph.BroadcastToDims(graph.Const(g, int32(0)), r)
	st.tokens = graph.BroadcastToDims(graph.Const(g, int32(-1)), r, n)
	st.logProbs = full(g, 0, 3, r, n)
	st.work = pickRows(cache, rows)
	if gn.loop {
		st.work = flipKeys(extend(st.work, n))
	}
	if !gn.loop {
		if n != 1 {
			panic(fmt.Errorf("decoding %d tokens a call needs a backend with loops", n))
		}
		st = gn.step(p, st, nil, length, stop, uniforms, settings, s, columns)
	} else {
		invariant := []*graph.Node{length, stop, uniforms, settings}
		joined, names := gn.decoder.Config.join(p)
		for _, name := range names {
			invariant = append(invariant, joined[name])
		}
		// The loop's state begins with the step number, and with a number that the body keeps above 0 while any row is busy. The XLA
		// bindings allow each kind of reduction in one function of a graph only, so the condition cannot reduce.
		state := append(append([]*graph.Node{graph.Const(g, int32(0)), graph.Const(g, int32(1))}, st.list()...), invariant...)
		parameters := func(g *graph.Graph) []*graph.Node {
			ps := make([]*graph.Node, len(state))
			for i, x := range state {
				ps[i] = graph.Parameter(g, fmt.Sprintf("state%d", i), x.Shape())
			}
			return ps
		}
		cond := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
			ps := parameters(g)
			return []*graph.Node{graph.And(graph.LessThan(ps[0], graph.Const(g, int32(n))), graph.GreaterThan(ps[1], graph.Const(g, int32(0))))}
		})
		body := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
			ps := parameters(g)
			at := ps[0]
			st, rest := readDecodeState(ps[2:], s.penalty, layers)
			bound, _ := BindParams(names, rest[4:])
			st = gn.step(bound, st, at, rest[0], rest[1], rest[2], rest[3], s, columns)
			return append(append([]*graph.Node{graph.Add(at, graph.Const(g, int32(1))), graph.ReduceAllMax(st.remaining)}, st.list()...), rest...)
		})
		st, _ = readDecodeState(graph.While(cond, body, state...)[2:], s.penalty, layers)
		st.work = flipKeys(st.work)
	}
	return append([]*graph.Node{st.count, st.tokens, st.logProbs}, commit(cache, newColumns(st.work, columns), source, length, st.count)...)
}

// step feeds each row's token, draws the next, and records it for the rows that are not done. at is the step's number in
// the loop, nil outside one.
func (gn *generator) step(p Params, st decodeState, at, length, stop, uniforms, settings *graph.Node, s sampler, columns int) decodeState {
	g := st.token.Graph()
	r, n := uniforms.Shape().Dimensions[0], uniforms.Shape().Dimensions[1]
	positions := graph.Reshape(graph.Add(length, st.count), r, 1)
	ids := graph.Reshape(st.token, r, 1)
	var hidden *graph.Node
	var work []*graph.Node
	if at == nil {
		hidden, work = gn.decoder.cachedHidden(p, ids, positions, length, st.work)
	} else {
		hidden, work = gn.decoder.stepHidden(p, ids, positions, length, at, st.work, columns)
	}
	logits := graph.Reshape(gn.decoder.Logits(p, hidden), r, gn.decoder.Config.Vocab)
	here := graph.Iota(g, shapes.Make(dtypes.Int32, r, n), 1) // column of each output
	u := graph.Reshape(uniforms, r*n)
	if at == nil {
		here = graph.Equal(here, here) // the only column
	} else {
		here = graph.Equal(here, graph.BroadcastToDims(at, r, n))
		u = pickLast(uniforms, graph.BroadcastToDims(at, r))
	}
	d := s.sample(logits, u, settings, st.seen)

	zero := graph.BroadcastToDims(graph.Const(g, int32(0)), r)
	active := graph.GreaterThan(st.remaining, zero)
	one := graph.Where(active, graph.BroadcastToDims(graph.Const(g, int32(1)), r), zero)
	k := stop.Shape().Dimensions[1]
	hits := graph.Equal(stop, graph.BroadcastToDims(graph.Reshape(d.token, r, 1), r, k))
	stopped := graph.GreaterThan(graph.ReduceSum(graph.ConvertDType(hits, dtypes.Int32), 1), zero)

	next := decodeState{work: work, seen: st.seen}
	next.token = graph.Where(active, d.token, st.token)
	next.count = graph.Add(st.count, one)
	next.remaining = graph.Where(stopped, zero, graph.Sub(st.remaining, one))
	write := graph.And(here, graph.BroadcastToDims(graph.Reshape(active, r, 1), r, n))
	next.tokens = graph.Where(write, graph.BroadcastToDims(graph.Reshape(d.token, r, 1), r, n), st.tokens)
	values := graph.Concatenate([]*graph.Node{graph.Reshape(d.logProb, 1, r, 1), graph.Reshape(d.filtered, 1, r, 1), graph.Reshape(d.entropy, 1, r, 1)}, 0)
	next.logProbs = graph.Where(graph.BroadcastToDims(graph.Reshape(write, 1, r, n), 3, r, n), graph.BroadcastToDims(values, 3, r, n), st.logProbs)
	if st.seen != nil {
		v := st.seen.Shape().Dimensions[1]
		is := graph.Equal(graph.Iota(g, shapes.Make(dtypes.Int32, r, v), 1), graph.BroadcastToDims(graph.Reshape(next.token, r, 1), r, v))
		next.seen = graph.Where(is, full(g, 1, r, v), st.seen)
	}
	return next
}
