package tiny

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
)

// CompareVersion is of the rows that compare numbers and of the steps that teach it: what was trained with others is stale.
const CompareVersion = 2

// Curriculum makes the rows of the copy warm-up: random token strings in which a part can be predicted only by copying
// what stood earlier in the row. A model trained from scratch on episodes alone learns the boilerplate and never how to
// carry a name or a number from the question into a call; a few minutes of these rows first, and it does.
//
// The kinds of rows, drawn alike unless numbers are compared (see Above): a segment repeated, a string written twice with a
// mark between, a list of cues each followed by a span, where a cue comes again and its span must follow, such a list with
// numbers for spans, and comparisons of numbers. Only what can be predicted carries loss.
type Curriculum struct {
	// Vocabulary is the ids to copy. Rows draw from a prefix of a seeded shuffle of it that grows from Start ids to all of
	// them over the first Grow steps: with all ids at once the copy circuit often does not form at all.
	Vocabulary []int32
	Start      int
	Grow       int
	// Mark stands between the two halves of a copied string, Lead begins every row.
	Mark, Lead int32
	// Rows and Length: rows a step, and tokens a row at most.
	Rows, Length int
	Seed         uint64
	// Digits are the ids of the ten digits, in order, then of what stands between them in numbers and dates; empty leaves the rows of
	// numbers out. Repeated and similar digits are where copying fails, so those rows draw from a few digits at a time.
	Digits []int32
	// Dates makes half of the numbers dates, four digits, two and two.
	Dates bool
	// Above, Yes and No are the ids of comparisons, "43 above 73 no": telling the larger of two numbers is the one skill beside
	// copying that an answer can need, and a data set has far too few examples to learn it from. Three of four rows then
	// compare; 0 leaves them out. The verdict follows at once: a few words further on it is learned much later. Before is the id
	// that stands before every comparison, as in thoughts: it tells where the first number begins, and after any word instead
	// numbers of two digits stay at chance.
	Above, Yes, No, Before int32
}

// Check reports settings that make no rows.
func (c Curriculum) Check() error {
	switch {
	case c.Above != 0 && len(c.Digits) < 10:
		return fmt.Errorf("copy warm-up: comparisons need the ten digits, there are %d ids", len(c.Digits))
	case c.Dates && len(c.Digits) < 11:
		return fmt.Errorf("copy warm-up: dates need the ten digits and what stands between them, there are %d ids", len(c.Digits))
	case len(c.Vocabulary) < 16:
		return fmt.Errorf("copy warm-up: %d ids to copy are too few (at least 16)", len(c.Vocabulary))
	case c.Start < 8 || c.Start > len(c.Vocabulary):
		return fmt.Errorf("copy warm-up: start %d must lie in 8..%d", c.Start, len(c.Vocabulary))
	case c.Rows < 1 || c.Length < 24:
		return fmt.Errorf("copy warm-up: rows %d and length %d must be at least 1 and 24", c.Rows, c.Length)
	}
	return nil
}

// Batch returns the rows of one step: ids, and for each whether it carries loss. It depends on the seed and the step alone.
func (c Curriculum) Batch(step int) (ids [][]int32, loss [][]bool) {
	order := rng.New(c.Seed, "tiny/copy/vocabulary").Perm(len(c.Vocabulary))
	active := c.active(step)
	for row := range c.Rows {
		r := rng.New(c.Seed, "tiny/copy/row", step, row)
		draw := func() int32 { return c.Vocabulary[order[r.IntN(active)]] }
		b := builder{ids: []int32{c.Lead}, loss: []bool{false}}
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

// active is how many ids rows of a step draw from; growth is geometric, since what is hard is the first doubling.
func (c Curriculum) active(step int) int {
	n := len(c.Vocabulary)
	if c.Grow <= 0 || step >= c.Grow {
		return n
	}
	f := float64(step) / float64(c.Grow)
	return min(n, int(float64(c.Start)*math.Pow(float64(n)/float64(c.Start), f)))
}

// Rehearsal makes rows that later training mixes among its own examples, about so many tokens of them: of copying from the
// whole vocabulary, and as many of comparisons, where the curriculum has them. Without it, training on episodes forgets how
// to copy what they seldom hold.
func (c Curriculum) Rehearsal(tokens int, epoch int) (ids [][]int32, loss [][]bool) {
	c.Grow = 0
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
	for len(b.ids)+len(s) <= c.Length {
		b.add(true, s...)
	}
}

// twice writes a string, the mark, and the string again.
func (c Curriculum) twice(b *builder, r *rand.Rand, draw func() int32) {
	s := segment(r, draw, 4, (c.Length-2)/2)
	b.add(false, s...)
	b.add(false, c.Mark)
	b.add(true, s...)
}

// compare writes comparisons of two numbers of up to three digits; only the verdicts carry loss. In half of the rows other
// ids stand before every comparison, in some of them its own second half, as in a thought whose plan names it ("stock above
// 50; 48 above 50 no"): what is learned on bare comparisons alone is at chance there.
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
			before = segment(r, draw, 0, c.Length/12)
			if r.IntN(2) == 0 {
				before = slices.Concat(before, []int32{c.Above}, ys)
			}
		}
		if len(b.ids)+len(before)+len(xs)+len(ys)+4 > c.Length {
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
		b.add(false, c.Mark)
	}
}

// pair is the digits of two different numbers of up to three digits. Three of four pairs have as many digits, of which any number
// of the first may be the same: between numbers drawn alike nearly all is decided by how many digits they have and by the
// first one, and the others are never learned.
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

// number is 2 to 10 digits, of a few different ones, or a date of few different digits.
func (c Curriculum) number(r *rand.Rand) []int32 {
	few := segment(r, func() int32 { return c.Digits[r.IntN(len(c.Digits))] }, 2, 5)
	if c.Dates && r.IntN(2) == 0 {
		few := append([]int32{c.Digits[0]}, segment(r, func() int32 { return c.Digits[r.IntN(10)] }, 2, 4)...)
		two := func() []int32 { // mostly with a leading zero, which both month and day then have
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

// cues writes pairs of a cue and a span, then some of the cues again with their spans. A cue is one or two ids, as a name
// is one or two pieces. No two cues begin alike, so there are at most active of them.
func (c Curriculum) cues(b *builder, r *rand.Rand, active int, draw func() int32, span func() []int32) {
	type pair struct{ cue, span []int32 }
	var pairs []pair
	used := map[int32]bool{}
	for len(b.ids) < c.Length/2 && len(pairs) < active {
		cue := segment(r, draw, 1, 2)
		if used[cue[0]] {
			continue
		}
		used[cue[0]] = true
		p := pair{cue, span()}
		pairs = append(pairs, p)
		b.add(false, p.cue...)
		b.add(false, p.span...)
		b.add(false, c.Mark)
	}
	for {
		p := pairs[r.IntN(len(pairs))]
		if len(b.ids)+len(p.cue)+len(p.span) > c.Length {
			return
		}
		b.add(false, p.cue...)
		b.add(true, p.span...)
	}
}
