package train

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// Example is one tokenized demonstration. Mask is as long as IDs. 1 marks the tokens that are trained: the actions. 0 marks
// those that are only read: prompt, observations, separators. The mask of the first token has no effect, because nothing
// predicts that token.
type Example struct {
	ID   string
	IDs  []int32
	Mask []uint8
}

// Check reports lengths that disagree, a mask that is neither 0 nor 1, and a negative id.
func (e Example) Check() error { return checkRow("example", e.ID, e.IDs, e.Mask) }

// checkRow is Check for any row; what names its kind in the error.
func checkRow(what, id string, ids []int32, mask []uint8) error {
	if len(ids) == 0 {
		return fmt.Errorf("%s %q has no tokens", what, id)
	}
	if len(mask) != len(ids) {
		return fmt.Errorf("%s %q: %d ids but a mask of %d: they must be of one length", what, id, len(ids), len(mask))
	}
	for i, m := range mask {
		if m > 1 {
			return fmt.Errorf("%s %q: mask[%d] is %d, want 0 or 1", what, id, i, m)
		}
		if ids[i] < 0 {
			return fmt.Errorf("%s %q: ids[%d] is %d, want a token id", what, id, i, ids[i])
		}
	}
	return nil
}

// inVocabulary reports the first id that is no token of a model.
func inVocabulary(what, id string, ids []int32, vocab int) error {
	for i, t := range ids {
		if int(t) >= vocab {
			return fmt.Errorf("%s %q: ids[%d] is %d, the model's vocabulary has %d", what, id, i, t, vocab)
		}
	}
	return nil
}

// hashRow adds a row to the hash of a run's data.
func hashRow(to io.Writer, e Example) error {
	for _, x := range []any{int64(len(e.IDs)), e.IDs, e.Mask} {
		if err := binary.Write(to, binary.LittleEndian, x); err != nil {
			return err
		}
	}
	return nil
}

// trainedTokens counts the targets that carry loss.
func trainedTokens(mask []uint8) int {
	n := 0
	for _, m := range mask[1:] {
		n += int(m)
	}
	return n
}

// BatchConfig says how sequences are laid out in micro-batches. Their shapes are static: once every shape has occurred,
// nothing is compiled again.
type BatchConfig struct {
	// MicroBatchSize is the number of rows of a micro-batch.
	MicroBatchSize int `json:"micro_batch_size" yaml:"micro_batch_size"`
	// Lengths are the possible row lengths in tokens, ascending. A packed micro-batch has the longest. An unpacked one has the
	// shortest that holds its longest sequence.
	Lengths []int `json:"lengths" yaml:"lengths"`
	// Unpacked puts one sequence in a row. By default rows are packed: several sequences share a row, positions restart at
	// each, and attention stays inside each. The loss is the same up to rounding, and fewer positions are padding.
	Unpacked bool `json:"unpacked" yaml:"unpacked"`
}

// Check reports the first field that makes no sense.
func (c BatchConfig) Check() error {
	if c.MicroBatchSize < 1 {
		return fmt.Errorf("batch: micro_batch_size must be at least 1, got %d", c.MicroBatchSize)
	}
	if len(c.Lengths) == 0 {
		return fmt.Errorf("batch: lengths is empty; name at least the longest row")
	}
	for i, n := range c.Lengths {
		if n < 2 || i > 0 && n <= c.Lengths[i-1] {
			return fmt.Errorf("batch: lengths must ascend from at least 2, got %v", c.Lengths)
		}
	}
	return nil
}

func (c BatchConfig) longest() int { return c.Lengths[len(c.Lengths)-1] }

// placement says that sequence item begins at position at of a row.
type placement struct{ item, row, at int }

// layout says which sequences a micro-batch of rows of length tokens holds, and where.
type layout struct {
	length int
	places []placement
}

// lookahead is how many sequences that do not fit are skipped before a packed micro-batch is closed. They are the first of the
// next one, so the order stays close to the given one.
const lookahead = 16

// plan lays out sequences of the given lengths in their order. The result depends on the lengths alone. A sequence that fits no
// row is an error; name gives what the error calls it.
func (c BatchConfig) plan(lengths []int, name func(item int) string) ([]layout, error) {
	for i, n := range lengths {
		if n > c.longest() {
			return nil, fmt.Errorf("%s has %d tokens, the longest row of a batch has %d: raise batch lengths or shorten it", name(i), n, c.longest())
		}
	}
	if c.Unpacked {
		return c.planRows(lengths), nil
	}
	var out []layout
	var open layout
	free := make([]int, c.MicroBatchSize)
	reset := func() {
		open = layout{length: c.longest()}
		for i := range free {
			free[i] = c.longest()
		}
	}
	place := func(item int) bool { // best fit: the fullest row that still has room
		best := -1
		for r, room := range free {
			if room >= lengths[item] && (best < 0 || room < free[best]) {
				best = r
			}
		}
		if best < 0 {
			return false
		}
		open.places = append(open.places, placement{item, best, c.longest() - free[best]})
		free[best] -= lengths[item]
		return true
	}
	reset()
	var skipped []int
	for next := 0; next < len(lengths) || len(skipped) > 0; {
		if next < len(lengths) && len(skipped) <= lookahead {
			if !place(next) {
				skipped = append(skipped, next)
			}
			next++
			continue
		}
		out = append(out, open)
		reset()
		skipped = slices.DeleteFunc(skipped, place)
	}
	if len(open.places) > 0 {
		out = append(out, open)
	}
	return out, nil
}

// planRows lays out one sequence a row.
func (c BatchConfig) planRows(lengths []int) []layout {
	var out []layout
	for at := 0; at < len(lengths); at += c.MicroBatchSize {
		var l layout
		longest := 0
		for i := at; i < min(at+c.MicroBatchSize, len(lengths)); i++ {
			l.places = append(l.places, placement{i, i - at, 0})
			longest = max(longest, lengths[i])
		}
		for _, n := range c.Lengths {
			if l.length = n; n >= longest {
				break
			}
		}
		out = append(out, l)
	}
	return out
}

// Batch is one micro-batch of Rows rows of Len positions, flattened row by row. Entry i of every slice belongs to position i.
type Batch struct {
	Rows, Len int
	// IDs, Positions and Segments are the decoder's inputs. Positions count from 0 in every sequence. Segments number the
	// sequences of a row from 1; 0 is padding.
	IDs, Positions, Segments []int32
	// Branches let two sequences share a prefix, see [lm.Inputs]; nil if none do.
	Branches []int32
	// Targets are the tokens to predict: those at the next position. Mask is 1 where the target is trained.
	Targets []int32
	Mask    []float32
	// Processed is the number of positions that hold a token.
	Processed int
}

func newBatch(rows, length int) *Batch {
	n := rows * length
	return &Batch{Rows: rows, Len: length, IDs: make([]int32, n), Positions: make([]int32, n), Segments: make([]int32, n),
		Targets: make([]int32, n), Mask: make([]float32, n)}
}

// fill makes the micro-batch of a layout; get returns the ids and mask of an item.
func (c BatchConfig) fill(l layout, get func(item int) ([]int32, []uint8)) *Batch {
	b := newBatch(c.MicroBatchSize, l.length)
	segments := make([]int32, c.MicroBatchSize)
	for _, p := range l.places {
		ids, mask := get(p.item)
		segments[p.row]++
		b.put(p.row*l.length+p.at, segments[p.row], ids, mask, 0, len(ids))
	}
	return b
}

// put writes the tokens [from, to) of one sequence from position at on.
func (b *Batch) put(at int, segment int32, ids []int32, mask []uint8, from, to int) {
	for i := from; i < to; i++ {
		b.IDs[at], b.Positions[at], b.Segments[at] = ids[i], int32(i), segment
		if i+1 < len(ids) {
			b.Targets[at] = ids[i+1]
			b.Mask[at] = float32(mask[i+1])
		}
		at++
	}
	b.Processed += to - from
}

// tensors returns ids, positions, segments, targets and, if there are any, branches, each int32 [Rows, Len].
func (b *Batch) tensors() []*tensors.Tensor {
	var out []*tensors.Tensor
	for _, x := range [][]int32{b.IDs, b.Positions, b.Segments, b.Targets, b.Branches} {
		if x != nil {
			out = append(out, tensors.FromFlatDataAndDimensions(x, b.Rows, b.Len))
		}
	}
	return out
}

// perToken makes a float32 [Rows, Len] tensor.
func (b *Batch) perToken(x []float32) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(x, b.Rows, b.Len)
}
