package train

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Pair is a preference: two answers to one prompt, each with the prompt before it and the answer's tokens marked (see
// [Example]).
type Pair struct {
	ID               string
	Chosen, Rejected Example
}

// Check reports rows that cannot be trained on.
func (p Pair) Check() error {
	for side, e := range p.sides() {
		what := sideNames[side] + " row of pair"
		if err := checkRow(what, p.ID, e.IDs, e.Mask); err != nil {
			return err
		}
		if trainedTokens(e.Mask) == 0 {
			return fmt.Errorf("%s %q has no trained token", what, p.ID)
		}
	}
	if c, r := answerOf(p.Chosen), answerOf(p.Rejected); slices.Equal(c.IDs, r.IDs) && slices.Equal(c.Mask, r.Mask) {
		return fmt.Errorf("pair %q: chosen and rejected are the same %d tokens, which teach no preference: leave the pair out, or cut answers later than where they differ", p.ID, len(c.IDs))
	}
	return nil
}

// The sides of a pair, as indices.
const (
	chosenSide = iota
	rejectedSide
)

var sideNames = [2]string{"chosen", "rejected"}

func (p Pair) sides() [2]Example { return [2]Example{p.Chosen, p.Rejected} }

// answerOf is a row from its first trained token to its last.
func answerOf(e Example) Example {
	first, last := slices.Index(e.Mask, 1), len(e.Mask)
	for e.Mask[last-1] == 0 {
		last--
	}
	return Example{IDs: e.IDs[first:last], Mask: e.Mask[first:last]}
}

// FirstDifference cuts a pair of episodes down to the step at which they part. The rows end with each side's action there, and only these two
// actions carry loss. What comes after the choice would be preferred for its own tokens, not for the choice; what comes before is common.
// A pair that parts outside of its actions stays as it is.
func (p Pair) FirstDifference() Pair {
	c, r := p.Chosen, p.Rejected
	n := 0
	for n < min(len(c.IDs), len(r.IDs)) && c.IDs[n] == r.IDs[n] && c.Mask[n] == r.Mask[n] {
		n++
	}
	if n == len(c.IDs) || n == len(r.IDs) || c.Mask[n] == 0 || r.Mask[n] == 0 {
		return p
	}
	start := n
	for start > 0 && c.Mask[start-1] == 1 {
		start--
	}
	cut := func(e Example) Example {
		end := n
		for end < len(e.IDs) && e.Mask[end] == 1 {
			end++
		}
		mask := slices.Clone(e.Mask[:end])
		clear(mask[:start])
		return Example{ID: e.ID, IDs: e.IDs[:end], Mask: mask}
	}
	return Pair{ID: p.ID, Chosen: cut(c), Rejected: cut(r)}
}

// Len is the number of positions that the pair takes in a batch: those of its prefix once, and the rest of each side.
func (p Pair) Len() int { return len(p.Chosen.IDs) + len(p.Rejected.IDs) - p.prefix() }

// prefix is the number of positions that both sides share at their start. At such a position both sides have the same token, the
// same target, and the same mask of the target. The last common token is not shared, because its targets differ.
func (p Pair) prefix() int {
	c, r := p.Chosen, p.Rejected
	n := 0
	for n < min(len(c.IDs), len(r.IDs)) && c.IDs[n] == r.IDs[n] && c.Mask[n] == r.Mask[n] {
		n++
	}
	return max(0, n-1)
}

// pairSides says to which answer each trained target of a batch belongs. A target in a common prefix belongs to both answers of
// its pair. Each pair of the batch has a slot, from 0 on. The number of slots is the same for all batches of a run, so that they
// share a compiled graph.
type pairSides struct {
	pairs, slots int // pairs of this batch, and slots; the slots after the pairs are empty
	// of is, by side and position, 1 + the slot of the pair, and 0 where no target is trained.
	of [2][]int32
	// ref is the log-probability of the answer under the reference, by side and slot.
	ref [2][]float32
}

// fillPairs makes the micro-batch of a layout, whose items are pairs. A pair is one segment: the prefix of both sides, then the
// rest of the chosen and the rest of the rejected one as branches 1 and 2.
func (c BatchConfig) fillPairs(l layout, pairs []Pair, slots int) (*Batch, *pairSides) {
	b := newBatch(c.MicroBatchSize, l.length)
	b.Branches = make([]int32, len(b.IDs))
	s := &pairSides{pairs: len(l.places), slots: slots}
	for side := range s.of {
		s.of[side], s.ref[side] = make([]int32, len(b.IDs)), make([]float32, slots)
	}
	segments := make([]int32, c.MicroBatchSize)
	for slot, place := range l.places {
		p := pairs[place.item]
		shared := p.prefix()
		segments[place.row]++
		at := place.row*l.length + place.at
		put := func(e Example, from, to int, branch int32, sides ...int) {
			b.put(at, segments[place.row], e.IDs, e.Mask, from, to)
			for range to - from {
				b.Branches[at] = branch
				for _, side := range sides {
					s.of[side][at] = int32(b.Mask[at]) * int32(slot+1)
				}
				at++
			}
		}
		put(p.Chosen, 0, shared, 0, chosenSide, rejectedSide)
		put(p.Chosen, shared, len(p.Chosen.IDs), 1, chosenSide)
		put(p.Rejected, shared, len(p.Rejected.IDs), 2, rejectedSide)
	}
	return b, s
}

// slotsFor is the largest number of pairs that a micro-batch can hold, whatever their order: as many of the shortest as its
// positions have room for.
func (c BatchConfig) slotsFor(lengths []int) int {
	if c.Unpacked {
		return c.MicroBatchSize
	}
	room, n := c.MicroBatchSize*c.longest(), 0
	for _, length := range slices.Sorted(slices.Values(lengths)) {
		if room -= length; room < 0 {
			break
		}
		n++
	}
	return n
}

// tensors returns the inputs of [sumSides]: the slots of both sides, int32 [Rows, Len], and the reference, float32 [2 slots].
func (s *pairSides) tensors(b *Batch) []*tensors.Tensor {
	var out []*tensors.Tensor
	for _, of := range s.of {
		out = append(out, tensors.FromFlatDataAndDimensions(of, b.Rows, b.Len))
	}
	return append(out, tensors.FromFlatDataAndDimensions(slices.Concat(s.ref[chosenSide], s.ref[rejectedSide]), 2*s.slots))
}

// sumSides sums log-probabilities [B, T] over the answers that the slots of both sides [B, T] name: the policy's sums for the
// loss, beside those of the reference [2 slots].
func sumSides(logProbs, ofChosen, ofRejected, ref *graph.Node) PairSums {
	dims := []int{logProbs.Shape().Size(), ref.Shape().Size() / 2}
	slot := graph.OnePlus(graph.Iota(ref.Graph(), shapes.Make(dtypes.Int32, dims...), 1))
	x := graph.BroadcastToDims(graph.Reshape(logProbs, dims[0], 1), dims...)
	var sums, tokens []*graph.Node
	for _, of := range []*graph.Node{ofChosen, ofRejected} {
		hit := graph.Equal(graph.BroadcastToDims(graph.Reshape(of, dims[0], 1), dims...), slot)
		sums = append(sums, graph.ReduceSum(graph.Where(hit, x, graph.ZerosLike(x)), 0))
		tokens = append(tokens, graph.ReduceSum(graph.ConvertDType(hit, dtypes.Float32), 0))
	}
	return PairSums{Policy: graph.Concatenate(sums, 0), Ref: ref, Tokens: graph.Concatenate(tokens, 0)}
}

// sums adds up x, a value for every position, over the answers of a side: by slot.
func (s *pairSides) sums(side int, x []float32) []float32 {
	exact := make([]float64, s.slots)
	for i, slot := range s.of[side] {
		if slot > 0 {
			exact[slot-1] += float64(x[i])
		}
	}
	out := make([]float32, s.slots)
	for i, v := range exact {
		out[i] = float32(v)
	}
	return out
}

// rows are the answers of a side, for the diagnostics. kept holds log-probability, entropy, correct and
// mean logit for every position.
func (s *pairSides) rows(side int, kept [][]float32) []DPORow {
	out := make([]DPORow, s.pairs)
	for slot, sum := range s.sums(side, kept[0])[:s.pairs] {
		out[slot].Policy, out[slot].Ref = sum, s.ref[side][slot]
	}
	for i, slot := range s.of[side] {
		if slot > 0 {
			r := &out[slot-1]
			r.Entropy, r.Correct, r.MeanLogit = append(r.Entropy, kept[1][i]), append(r.Correct, kept[2][i]), append(r.MeanLogit, kept[3][i])
		}
	}
	return out
}
