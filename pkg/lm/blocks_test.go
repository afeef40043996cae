package lm

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/toolroute/toolroute/pkg/rng"
)

func TestCausalBorders(t *testing.T) {
	for tokens := 1; tokens <= 5000; tokens++ {
		borders := causalBorders(tokens)
		if n := len(borders) - 1; borders[0] != 0 || borders[n] != tokens || n > 8 || n > 1 && tokens < 80*n {
			t.Fatalf("%d tokens: blocks of queries with borders %v", tokens, borders)
		}
		for i, b := range borders[1:] {
			if b <= borders[i] {
				t.Fatalf("%d tokens: borders %v do not ascend", tokens, borders)
			}
		}
	}
}

// Packed sequences have the same log-probabilities and gradients as in rows of their own. The packed row has several blocks of
// queries, whose borders lie within the sequences; the rows of their own have one block.
func TestBlocksEqualOneBlock(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	lengths := []int{97, 60, 90}
	const long, short = 250, 100
	if n, m := len(causalBorders(long))-1, len(causalBorders(short))-1; n != 3 || m != 1 {
		t.Fatalf("rows of %d and %d tokens have %d and %d blocks, want 3 and 1", long, short, n, m)
	}
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 5)
		if err != nil {
			t.Fatal(err)
		}
		n := m.Weights.Len()
		run := mustProgram(t, b, "gradients", func(in []*graph.Node) []*graph.Node {
			p, rest := BindParams(m.Weights.Names(), in)
			d := m.Decoder()
			logits := d.Logits(p, d.Hidden(p, Inputs{IDs: rest[0], Positions: rest[1], Segments: rest[2]}))
			lp := graph.Mul(tokenLogProbs(logits, rest[3]), rest[4])
			return append([]*graph.Node{lp}, graph.Gradient(graph.ReduceAllSum(lp), in[:n]...)...)
		})
		// layout returns ids, positions, segments, targets and weights of rows that hold the sequences at the given places.
		layout := func(count, width int, at func(i int) (row, column int, segment int32)) []any {
			ids, pos, seg, targets := make([]int32, count*width), make([]int32, count*width), make([]int32, count*width), make([]int32, count*width)
			weight := make([]float32, count*width)
			for i, length := range lengths {
				r := rng.New(5, "sequence", i)
				row, column, segment := at(i)
				for j := range length {
					k := row*width + column + j
					ids[k], pos[k], seg[k] = r.Int32N(int32(m.Config.Vocab)), int32(j), segment
					if j > 0 {
						targets[k-1], weight[k-1] = ids[k], 1
					}
				}
			}
			return []any{m.Weights, rows(ids, width), rows(pos, width), rows(seg, width), rows(targets, width), rows(weight, width)}
		}
		apart := mustCall(t, run, layout(len(lengths), short, func(i int) (int, int, int32) { return i, 0, 1 })...)
		packed := mustCall(t, run, layout(1, long, func(i int) (int, int, int32) {
			column := 0
			for _, n := range lengths[:i] {
				column += n
			}
			return 0, column, int32(i + 1)
		})...)
		same := func(what string, got, want []float32) {
			t.Helper()
			scale, most := 0.0, 0.0
			for i := range want {
				scale = max(scale, math.Abs(float64(want[i])))
				most = max(most, math.Abs(float64(got[i]-want[i])))
			}
			if !(most <= 2e-5*scale) {
				t.Errorf("%s: differs by %g of values up to %g", what, most, scale)
			}
		}
		got, want := mustFloats(t, packed[0]), mustFloats(t, apart[0])
		at := 0
		for i, length := range lengths {
			same("log-probabilities", got[at:at+length], want[i*short:i*short+length])
			at += length
		}
		for i, name := range m.Weights.Names() {
			same("gradient of "+name, mustFloats(t, packed[1+i]), mustFloats(t, apart[1+i]))
		}
	})
}

// Continuations that share the row of their prefix have the same log-probabilities as in rows of their own. So none attends to
// another. The borders of blocks lie within them.
func TestBranchesChangeNothing(t *testing.T) {
	const prefix, width = 90, 300
	tails := []int{60, 1, 85}
	eachBackend(t, func(t *testing.T, b *Backend) {
		m, err := NewRandom(b, smallConfig(), 5)
		if err != nil {
			t.Fatal(err)
		}
		run := mustProgram(t, b, "branches", func(in []*graph.Node) []*graph.Node {
			p, rest := BindParams(m.Weights.Names(), in)
			d := m.Decoder()
			return []*graph.Node{tokenLogProbs(d.Logits(p, d.Hidden(p, Inputs{IDs: rest[0], Positions: rest[1], Segments: rest[2], Branches: rest[3]})), rest[4])}
		})
		inputs := func(put func(at func(k int, id, position, branch, target int32))) []float32 {
			t.Helper()
			ids, pos, seg, branches, targets := make([]int32, width), make([]int32, width), make([]int32, width), make([]int32, width), make([]int32, width)
			put(func(k int, id, position, branch, target int32) {
				ids[k], pos[k], seg[k], branches[k], targets[k] = id, position, 1, branch, target
			})
			return mustFloats(t, mustCall(t, run, m.Weights, rows(ids, width), rows(pos, width), rows(seg, width), rows(branches, width), rows(targets, width))[0])
		}
		token := func(tail, position int) int32 {
			if position < prefix {
				tail = -1
			}
			return rng.New(5, "branches", tail, position).Int32N(int32(m.Config.Vocab))
		}
		shared := inputs(func(at func(k int, id, position, branch, target int32)) {
			for i := range prefix {
				at(i, token(0, i), int32(i), 0, token(0, i+1))
			}
			k := prefix
			for tail, n := range tails {
				for i := prefix; i < prefix+n; i++ {
					at(k, token(tail, i), int32(i), int32(tail+1), token(tail, i+1))
					k++
				}
			}
		})
		k := prefix
		for tail, n := range tails {
			alone := inputs(func(at func(k int, id, position, branch, target int32)) {
				for i := range prefix + n {
					at(i, token(tail, i), int32(i), 0, token(tail, i+1))
				}
			})
			for i := range n {
				if got, want := shared[k+i], alone[prefix+i]; math.Abs(float64(got-want)) > 2e-5*math.Abs(float64(want)) {
					t.Fatalf("continuation %d: log-probability %d is %v, alone %v", tail, i, got, want)
				}
			}
			k += n
		}
	})
}
