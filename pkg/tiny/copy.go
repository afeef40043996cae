package tiny

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Curriculum makes the rows of copy pre-training. They are random token strings in which a part can be predicted only by copying
// an earlier part of the row. A model that is trained from scratch on episodes alone learns their fixed text, and never learns to
// carry a name or a number from the question into a call. After a few minutes on these rows it does learn that.
//
// There are five kinds of rows:
//
//   - one segment, repeated
//   - a string, a separator, and the string again
//   - a list of cues, each followed by a span; then some of the cues again, each of which its span must follow
//   - such a list with numbers for spans
//   - comparisons of numbers (see Above)
//
// Kinds are equally frequent, apart from comparisons. Only tokens that can be predicted carry loss.
type Curriculum struct {
	// Vocabulary is the ids to copy, which are shuffled by the seed. The first rows draw from the first StartVocabulary ids only.
	// Over GrowSteps steps their number grows to all. With all ids at once, the copy circuit often does not form at all.
	Vocabulary      []int32
	StartVocabulary int
	GrowSteps       int
	// Separator stands between the two halves of a copied string. RowStart begins every row.
	Separator, RowStart int32
	// Rows and RowLength: rows a step, and tokens a row at most.
	BatchSize, RowLength int
	Seed                 uint64
	// Digits are the ids of the ten digits, in order, and then of the dash that stands between them in dates. Without Digits there
	// are no rows of numbers. Copying fails most at repeated and similar digits, so each number draws from a few digits only.
	Digits []int32
	// Dates makes half of the numbers dates, four digits, two and two.
	Dates bool
	// Above, Yes and No are the ids of comparisons, "43 above 73 no". Besides copying, an answer can need only one other skill: to
	// tell the larger of two numbers. A data set has far too few examples of it. With Above, three of four rows compare; 0 leaves
	// comparisons out. The verdict follows the numbers at once, because a model learns it much later if words stand between.
	// Before is the id in front of every comparison, as in thoughts. It marks where the first number begins. Without it,
	// comparisons of numbers of two digits stay at chance.
	Above, Yes, No, Before int32
}

// Check reports settings that make no rows.
func (c Curriculum) Check() error {
	switch {
	case c.Above != 0 && len(c.Digits) < 10:
		return fmt.Errorf("copy pre-training: comparisons need the ten digits, there are %d ids", len(c.Digits))
	case c.Dates && len(c.Digits) < 11:
		return fmt.Errorf("copy pre-training: dates need the ten digits and what stands between them, there are %d ids", len(c.Digits))
	case len(c.Vocabulary) < 16:
		return fmt.Errorf("copy pre-training: %d ids to copy are too few (at least 16)", len(c.Vocabulary))
	case c.StartVocabulary < 8 || c.StartVocabulary > len(c.Vocabulary):
		return fmt.Errorf("copy pre-training: start %d must lie in 8..%d", c.StartVocabulary, len(c.Vocabulary))
	case c.BatchSize < 1 || c.RowLength < 24:
		return fmt.Errorf("copy pre-training: rows %d and length %d must be at least 1 and 24", c.BatchSize, c.RowLength)
	}
	return nil
}

// Batch returns the rows of one step: ids, and for each whether it carries loss. It depends on the seed and the step alone.
func (c Curriculum) Batch(step int) (ids [][]int32, loss [][]bool) {
	order := rng.New(c.Seed, "tiny/copy/vocabulary").Perm(len(c.Vocabulary))
	active := c.active(step)
	for row := range c.BatchSize {
		r := rng.New(c.Seed, "tiny/copy/row", step, row)
		draw := func() int32 { return c.Vocabulary[order[r.IntN(active)]] }
		b := builder{ids: []int32{c.RowStart}, loss: []bool{false}}
		kinds := 3
		if len(c.Digits) >= 10 {
			kinds = 4
		}
		kind := r.IntN(kinds)
		if c.Above != 0 && r.IntN(4) > 0 {
			kind = 4
		}
		switch kind {
		case 0:
			c.repeat(&b, r, draw)
		case 1:
			c.twice(&b, r, draw)
		case 2:
			c.cues(&b, r, active, draw, func() []int32 { return segment(r, draw, 1, 4) })
		case 3:
			c.cues(&b, r, active, draw, func() []int32 { return c.number(r) })
		default:
			c.compare(&b, r, draw)
		}
		ids, loss = append(ids, b.ids), append(loss, b.loss)
	}
	return ids, loss
}

// active is the number of ids that the rows of a step draw from. It grows geometrically, because its first doubling is the hardest.
func (c Curriculum) active(step int) int {
	n := len(c.Vocabulary)
	if c.GrowSteps <= 0 || step >= c.GrowSteps {
		return n
	}
	f := float64(step) / float64(c.GrowSteps)
	return min(n, int(float64(c.StartVocabulary)*math.Pow(float64(n)/float64(c.StartVocabulary), f)))
}

// Replay makes rows of about so many tokens, which later training mixes among its own examples. They copy from the whole
// vocabulary. If the curriculum has comparisons, half of the rows compare. Without replay, the model forgets how to copy what
// episodes seldom hold.
func (c Curriculum) Replay(tokens int, epoch int) (ids [][]int32, loss [][]bool) {
	c.GrowSteps = 0
	plain := c
	plain.Above = 0
	for step, n := 0, 0; n < tokens; step++ {
		cur := plain
		if step%3 > 0 {
			cur = c
		}
		cur.Seed = rng.Seed64(c.Seed, "tiny/rehearsal", epoch)
		more, marks := cur.Batch(step)
		for i := range more {
			if n >= tokens {
				break
			}
			n += len(more[i])
			ids, loss = append(ids, more[i]), append(loss, marks[i])
		}
	}
	return ids, loss
}

type builder struct {
	ids  []int32
	loss []bool
}

func (b *builder) add(loss bool, ids ...int32) {
	for _, id := range ids {
		b.ids, b.loss = append(b.ids, id), append(b.loss, loss)
	}
}

func segment(r *rand.Rand, draw func() int32, lo, hi int) []int32 {
	s := make([]int32, lo+r.IntN(hi-lo+1))
	for i := range s {
		s[i] = draw()
	}
	return s
}

// repeat writes one segment again and again.
func (c Curriculum) repeat(b *builder, r *rand.Rand, draw func() int32) {
	s := segment(r, draw, 3, 10)
	b.add(false, s...)
	for len(b.ids)+len(s) <= c.RowLength {
		b.add(true, s...)
	}
}

// twice writes a string, the mark, and the string again.
func (c Curriculum) twice(b *builder, r *rand.Rand, draw func() int32) {
	s := segment(r, draw, 4, (c.RowLength-2)/2)
	b.add(false, s...)
	b.add(false, c.Separator)
	b.add(true, s...)
}

// compare writes comparisons of two numbers of up to three digits. Only the verdicts carry loss. In half of the rows, other ids
// stand before every comparison. Some of these end in the comparison's second half, as in a thought whose plan names it ("stock
// above 50; 48 above 50 no"). A model that is trained on bare comparisons alone stays at chance there.
func (c Curriculum) compare(b *builder, r *rand.Rand, draw func() int32) {
	ids := func(digits []int) (out []int32) {
		for _, d := range digits {
			out = append(out, c.Digits[d])
		}
		return out
	}
	bare := r.IntN(2) == 0
	for {
		x, y := pair(r)
		xs, ys := ids(x), ids(y)
		var before []int32
		if !bare {
			before = segment(r, draw, 0, c.RowLength/12)
			if r.IntN(2) == 0 {
				before = slices.Concat(before, []int32{c.Above}, ys)
			}
		}
		if len(b.ids)+len(before)+len(xs)+len(ys)+4 > c.RowLength {
			return
		}
		verdict := c.No
		if len(x) > len(y) || len(x) == len(y) && slices.Compare(x, y) > 0 {
			verdict = c.Yes
		}
		b.add(false, before...)
		b.add(false, c.Before)
		b.add(false, xs...)
		b.add(false, c.Above)
		b.add(false, ys...)
		b.add(true, verdict)
		b.add(false, c.Separator)
	}
}

// pair returns the digits of two different numbers of up to three digits. In three of four pairs both have the same length and
// share any number of first digits. If both numbers were drawn independently, their length or their first digit would nearly
// always decide, and the model would never learn the other digits.
func pair(r *rand.Rand) (x, y []int) {
	number := func(digits []int, n int) []int {
		for len(digits) < n {
			d := r.IntN(10)
			if len(digits) == 0 {
				d = 1 + r.IntN(9)
			}
			digits = append(digits, d)
		}
		return digits
	}
	for {
		n := 1 + r.IntN(3)
		x = number(nil, n)
		if r.IntN(4) == 0 {
			y = number(nil, 1+r.IntN(3))
		} else {
			y = number(slices.Clone(x[:r.IntN(n)]), n)
		}
		if !slices.Equal(x, y) {
			return x, y
		}
	}
}

// number returns 2 to 10 digits, or a date. Both are made of a few different digits.
func (c Curriculum) number(r *rand.Rand) []int32 {
	few := segment(r, func() int32 { return c.Digits[r.IntN(len(c.Digits))] }, 2, 5)
	if c.Dates && r.IntN(2) == 0 {
		few := append([]int32{c.Digits[0]}, segment(r, func() int32 { return c.Digits[r.IntN(10)] }, 2, 4)...)
		two := func() []int32 { // a month or a day, mostly with a leading zero
			s := segment(r, func() int32 { return few[r.IntN(len(few))] }, 2, 2)
			if r.IntN(4) > 0 {
				s[0] = c.Digits[0]
			}
			return s
		}
		dash := c.Digits[10]
		year := segment(r, func() int32 { return few[r.IntN(len(few))] }, 4, 4)
		return slices.Concat(year, []int32{dash}, two(), []int32{dash}, two())
	}
	return segment(r, func() int32 { return few[r.IntN(len(few))] }, 2, 10)
}

// cues writes pairs of a cue and a span, and then some of the cues again with their spans. A cue is one or two ids, as a name is
// one or two pieces. All cues begin with different ids, so there are at most active of them.
func (c Curriculum) cues(b *builder, r *rand.Rand, active int, draw func() int32, span func() []int32) {
	type pair struct{ cue, span []int32 }
	var pairs []pair
	used := map[int32]bool{}
	for len(b.ids) < c.RowLength/2 && len(pairs) < active {
		cue := segment(r, draw, 1, 2)
		if used[cue[0]] {
			continue
		}
		used[cue[0]] = true
		p := pair{cue, span()}
		pairs = append(pairs, p)
		b.add(false, p.cue...)
		b.add(false, p.span...)
		b.add(false, c.Separator)
	}
	for {
		p := pairs[r.IntN(len(pairs))]
		if len(b.ids)+len(p.cue)+len(p.span) > c.RowLength {
			return
		}
		b.add(false, p.cue...)
		b.add(true, p.span...)
	}
}
