package tiny

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const lead, mark = 1, 2

func curriculum() Curriculum {
	c := Curriculum{Start: 24, Grow: 100, Mark: mark, Lead: lead, Rows: 48, Length: 40, Seed: 3}
	for id := range int32(600) {
		c.Vocabulary = append(c.Vocabulary, 100+id)
	}
	for id := range int32(11) {
		c.Digits = append(c.Digits, 10+id)
	}
	return c
}

// The id 0 stands between a string and its copy, the ids in brackets carry loss.
func ExampleCurriculum() {
	c := Curriculum{Mark: 0, Lead: 1, Start: 16, Rows: 8, Length: 24, Seed: 1}
	for id := range int32(40) {
		c.Vocabulary = append(c.Vocabulary, 10+id)
	}
	ids, loss := c.Batch(0)
	for row := range ids[:2] {
		var words []string
		for i, id := range ids[row] {
			word := fmt.Sprint(id)
			if loss[row][i] {
				word = "[" + word + "]"
			}
			words = append(words, word)
		}
		fmt.Println(strings.Join(words, " "))
	}
	// Output:
	// 1 30 13 46 11 15 17 0 [30] [13] [46] [11] [15] [17]
	// 1 28 36 30 44 25 35 29 12 16 0 [28] [36] [30] [44] [25] [35] [29] [12] [16]
}

// copied guesses the id at i as a copy circuit does: it goes on as the row went on after the longest earlier occurrence of
// what stands before i, the latest of several, and with the row's first id where what stands before never came before.
func copied(ids []int32, i int) int32 {
	best, at := 0, 1
	for j := 2; j < i; j++ {
		n := 0
		for n < j && ids[j-1-n] == ids[i-1-n] {
			n++
		}
		if n > 0 && n >= best {
			best, at = n, j
		}
	}
	return ids[at]
}

// Loss is only where the row itself says what comes: the id stands earlier, after the same id or at the beginning of the
// row, and a copy circuit that knows nothing else is right but for chance repetitions.
func TestOnlyCopiesCarryLoss(t *testing.T) {
	for _, digits := range []bool{false, true} {
		c := curriculum()
		if !digits {
			c.Digits = nil
		}
		n, right, silent := 0, 0, 0
		for step := 200; step < 220; step++ { // over the whole vocabulary
			ids, loss := c.Batch(step)
			for row := range ids {
				if len(ids[row]) != len(loss[row]) || len(ids[row]) > c.Length || ids[row][0] != lead || loss[row][0] {
					t.Fatalf("step %d row %d: %d ids, %d marks, at most %d, first %d", step, row, len(ids[row]), len(loss[row]), c.Length, ids[row][0])
				}
				carries := false
				for i := 1; i < len(ids[row]); i++ {
					if !loss[row][i] {
						continue
					}
					carries = true
					found := ids[row][i] == ids[row][1]
					for j := 1; j < i && !found; j++ {
						found = ids[row][j] == ids[row][i] && ids[row][j-1] == ids[row][i-1]
					}
					if !found {
						t.Errorf("step %d row %d: id %d at %d stands nowhere earlier after %d: %v", step, row, ids[row][i], i, ids[row][i-1], ids[row])
					}
					if ids[row][i] == mark || ids[row][i] == lead {
						t.Errorf("step %d row %d: loss on a mark at %d", step, row, i)
					}
					n++
					if copied(ids[row], i) == ids[row][i] {
						right++
					}
				}
				if !carries {
					silent++
				}
			}
		}
		share := float64(right) / float64(n)
		t.Logf("digits %v: %d trained positions, %.4f copied right, %d rows without any", digits, n, share, silent)
		if share < 0.98 || n < 5000 || silent > 10 { // a row that its first half fills has none
			t.Errorf("digits %v: a copy circuit is right on %.4f of %d positions, %d rows teach nothing", digits, share, n, silent)
		}
	}
}

// A quarter of the rows are lists of numbers: 2 to 10 of the given ids, few different ones, after cues of the vocabulary.
func TestNumbers(t *testing.T) {
	c := curriculum()
	isDigit := func(id int32) bool { return slices.Contains(c.Digits, id) }
	rows, numeric, repeated := 0, 0, 0
	lengths := map[int]bool{}
	for step := range 20 {
		ids, loss := c.Batch(step)
		for row := range ids {
			rows++
			if !slices.ContainsFunc(ids[row], isDigit) {
				continue
			}
			numeric++
			for i := 0; i < len(ids[row]); {
				if !isDigit(ids[row][i]) {
					if loss[row][i] {
						t.Fatalf("step %d row %d: loss on %d, which is no digit", step, row, ids[row][i])
					}
					i++
					continue
				}
				end := i
				kinds := map[int32]bool{}
				for end < len(ids[row]) && isDigit(ids[row][end]) {
					if loss[row][end] != loss[row][i] {
						t.Fatalf("step %d row %d: loss on part of a number", step, row)
					}
					kinds[ids[row][end]] = true
					end++
				}
				if n := end - i; n < 2 || n > 10 || len(kinds) > 5 {
					t.Errorf("step %d row %d: a number of %d digits, %d different", step, row, n, len(kinds))
				} else if lengths[n] = true; len(kinds) < n {
					repeated++
				}
				i = end
			}
		}
	}
	if numeric < rows/5 || numeric > rows/3 || len(lengths) < 9 || repeated < numeric {
		t.Errorf("%d of %d rows are of numbers, lengths %v, %d with a repeated digit", numeric, rows, lengths, repeated)
	}
}

// With ids for it, three of four rows compare numbers: the verdicts alone carry loss, they are true, and stand alone in half of
// the rows and among other ids in the others.
func TestComparisons(t *testing.T) {
	c := curriculum()
	c.Above, c.Yes, c.No, c.Length = 3, 4, 5, 120
	c.Vocabulary = slices.Concat(c.Vocabulary, c.Digits, []int32{c.Above, c.Yes, c.No})
	rows, comparing, bare, named, verdicts := 0, 0, 0, 0, map[bool]int{}
	for step := range 20 {
		ids, loss := c.Batch(step)
		for row := range ids {
			rows++
			others := false // trained ids that are no verdict: a row of copying
			for i, l := range loss[row] {
				others = others || l && ids[row][i] != c.Yes && ids[row][i] != c.No
			}
			if others {
				continue
			}
			at := 0
			number := func() (v int) { // the one that ends before at
				for scale := 1; slices.Contains(c.Digits[:10], ids[row][at-1]); scale *= 10 {
					at--
					v += scale * slices.Index(c.Digits, ids[row][at])
				}
				return v
			}
			alone, n := true, 0
			for at = range ids[row] {
				if !loss[row][at] {
					continue
				}
				verdict := ids[row][at]
				y := number()
				if at--; ids[row][at] != c.Above {
					t.Fatalf("step %d row %d: no comparison before a verdict: %v", step, row, ids[row])
				}
				x := number()
				if (verdict == c.Yes) != (x > y) || x == y {
					t.Errorf("step %d row %d: %d above %d is %d", step, row, x, y, verdict)
				}
				if before := ids[row][at-1]; before != mark && before != c.Lead {
					alone = false
					if y2 := func() int { at--; return number() }(); y2 == y && ids[row][at-1] == c.Above {
						named++
					}
				}
				verdicts[x > y]++
				n++
			}
			if n > 0 {
				comparing++
			}
			if n > 0 && alone {
				bare++
			}
		}
	}
	if comparing < rows*70/100 || comparing > rows*80/100 || verdicts[true] < 100 || verdicts[false] < 100 {
		t.Errorf("%d of %d rows compare, verdicts %v", comparing, rows, verdicts)
	}
	if bare < comparing/3 || bare > comparing*2/3 || named < comparing/4 {
		t.Errorf("of %d rows %d show comparisons alone; %d comparisons follow their own second half", comparing, bare, named)
	}
}
