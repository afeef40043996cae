package tiny

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/train"
)

const lead, mark = 1, 2

func curriculum() Curriculum {
	c := Curriculum{StartVocabulary: 24, GrowSteps: 100, Separator: mark, RowStart: lead, BatchSize: 48, RowLength: 40, Seed: 3}
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
	c := Curriculum{Separator: 0, RowStart: 1, StartVocabulary: 16, BatchSize: 8, RowLength: 24, Seed: 1}
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

// copied predicts the id at i as a copy circuit does. It finds the longest string before i that occurs earlier in the row, and
// returns the id after that occurrence; of several occurrences, it takes the latest. If there is none, it returns the row's first id.
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

// Only ids that the row determines carry loss: the id stands earlier in the row, after the same id or at its beginning. A copy
// circuit alone predicts them, except at chance repetitions.
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
				if len(ids[row]) != len(loss[row]) || len(ids[row]) > c.RowLength || ids[row][0] != lead || loss[row][0] {
					t.Fatalf("step %d row %d: %d ids, %d marks, at most %d, first %d", step, row, len(ids[row]), len(loss[row]), c.RowLength, ids[row][0])
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
// the rows and among other ids in the others. Enough of the pairs are of as many digits and begin alike.
func TestComparisons(t *testing.T) {
	c := curriculum()
	c.Above, c.Yes, c.No, c.Before, c.RowLength = 3, 4, 5, 6, 120
	c.Vocabulary = slices.Concat(c.Vocabulary, c.Digits, []int32{c.Above, c.Yes, c.No})
	rows, comparing, bare, named, verdicts := 0, 0, 0, 0, map[bool]int{}
	alike := map[[2]int]int{} // by the number of digits and by how many of the first are the same
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
				if at--; ids[row][at] != c.Before {
					t.Fatalf("step %d row %d: %d before a comparison: %v", step, row, ids[row][at], ids[row])
				}
				if before := ids[row][at-1]; before != mark && before != c.RowStart {
					alone = false
					if y2 := number(); y2 == y && ids[row][at-1] == c.Above {
						named++
					}
				}
				verdicts[x > y]++
				n++
				if xs, ys := fmt.Sprint(x), fmt.Sprint(y); len(xs) == len(ys) {
					same := 0
					for xs[same] == ys[same] {
						same++
					}
					alike[[2]int{len(xs), same}]++
				}
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
	all := verdicts[true] + verdicts[false]
	for _, k := range [][2]int{{1, 0}, {2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}} {
		if alike[k] < all/20 {
			t.Errorf("%d of %d pairs have %d digits of which the first %d are the same", alike[k], all, k[0], k[1])
		}
	}
	if bare < comparing/3 || bare > comparing*2/3 || named < comparing/4 {
		t.Errorf("of %d rows %d show comparisons alone; %d comparisons follow their own second half", comparing, bare, named)
	}
}

// With dates, half of the numbers are dates, whose month and day mostly have a leading zero.
func TestDates(t *testing.T) {
	c := curriculum()
	c.Dates = true
	digit := func(id int32) bool { return slices.Contains(c.Digits[:10], id) }
	numbers, dates, all, zeros := 0, 0, 0, 0
	for step := range 20 {
		ids, _ := c.Batch(step)
		for _, row := range ids {
			if !slices.ContainsFunc(row, digit) {
				continue
			}
			numbers++
			found := false
			for i := 0; i+10 <= len(row); i++ {
				date := true
				for j, id := range row[i : i+10] {
					if j == 4 || j == 7 {
						date = date && id == c.Digits[10]
					} else {
						date = date && digit(id)
					}
				}
				if !date {
					continue
				}
				found = true
				all++
				for _, j := range []int{5, 8} {
					if row[i+j] == c.Digits[0] {
						zeros++
					}
				}
			}
			if found {
				dates++
			}
		}
	}
	if dates < numbers*5/10 || dates == numbers {
		t.Errorf("%d of %d rows of numbers hold a date", dates, numbers)
	}
	if zeros < 2*all*7/10 || zeros == 2*all { // three of four, and the zeros among the digits of the others
		t.Errorf("%d of %d months and days have a leading zero", zeros, 2*all)
	}
	c.Digits = c.Digits[:10]
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "dates") {
		t.Errorf("dates without what stands between: %v", err)
	}
}

// Replay has about as many tokens as asked for, of copying from the whole vocabulary and of as many rows of comparisons,
// other ones in another epoch.
func TestReplay(t *testing.T) {
	c := curriculum()
	c.Vocabulary = slices.Concat(c.Vocabulary, []int32{3, 4, 5}) // copying rows hold the ids of comparisons too
	count := func(epoch int) (tokens, comparing, rows int, first string) {
		ids, loss := c.Replay(20000, epoch)
		seen := map[int32]bool{}
		for i, row := range ids {
			tokens += len(row)
			if len(loss[i]) != len(row) {
				t.Fatalf("row %d: %d ids, %d marks", i, len(row), len(loss[i]))
			}
			if verdicts(row, loss[i], 4, 5) {
				comparing++
			}
			for _, id := range row {
				seen[id] = true
			}
		}
		if len(seen) < 550 {
			t.Errorf("epoch %d: %d ids are used, want nearly all", epoch, len(seen))
		}
		return tokens, comparing, len(ids), fmt.Sprint(ids[0])
	}
	tokens, comparing, _, first := count(0)
	if tokens < 20000 || tokens > 20000+c.RowLength || comparing != 0 {
		t.Errorf("%d tokens, %d rows compare without ids for it", tokens, comparing)
	}
	if _, _, _, again := count(0); again != first {
		t.Error("one epoch, two replays")
	}
	if _, _, _, other := count(1); other == first {
		t.Error("two epochs, one replay")
	}
	c.Above, c.Yes, c.No, c.Before = 3, 4, 5, 6
	ids, loss := c.Replay(20000, 0)
	for i, x := range asExamples("row", ids, loss) { // pre-training picks by it what it validates on
		if got, want := onlyVerdicts(x, c), verdicts(ids[i], loss[i], 4, 5); got != want {
			t.Errorf("row %d trains verdicts alone: got %v, want %v: %v", i, got, want, ids[i])
		}
	}
	if _, comparing, rows, _ := count(0); comparing < rows*40/100 || comparing > rows*60/100 {
		t.Errorf("%d of %d rows compare", comparing, rows)
	}
}

// verdicts reports whether a row trains verdicts alone.
func verdicts(ids []int32, loss []bool, yes, no int32) bool {
	some := false
	for i, l := range loss {
		if l && ids[i] != yes && ids[i] != no {
			return false
		}
		some = some || l
	}
	return some
}

// Rows of replay come after the examples, are longer than those of copy pre-training, and make up their share of the tokens.
func TestWithReplay(t *testing.T) {
	w := CopyPretraining{VocabularyStart: 24, MicroBatchSize: 8, RowLength: 40, CompareSteps: 1}
	xs := make([]train.Example, 50)
	for i := range xs {
		xs[i] = train.Example{ID: fmt.Sprint(i), IDs: make([]int32, 200), Mask: make([]uint8, 200)}
	}
	for _, share := range []float64{0, 0.25} {
		source, err := WithReplay(xs, share, w, curriculum())
		if err != nil {
			t.Fatal(err)
		}
		all, err := source(0)
		if err != nil {
			t.Fatal(err)
		}
		tokens, longest := 0, 0
		for i, x := range all {
			if i < len(xs) {
				if x.ID != xs[i].ID {
					t.Errorf("example %d is %s", i, x.ID)
				}
				continue
			}
			tokens, longest = tokens+len(x.IDs), max(longest, len(x.IDs))
		}
		want := int(share / (1 - share) * 50 * 200)
		if tokens < want || tokens > want+w.LongRow() {
			t.Errorf("share %v: %d tokens are of replay, want about %d", share, tokens, want)
		}
		if share > 0 && (longest <= 2*w.RowLength || longest > w.LongRow()) {
			t.Errorf("the longest row of replay has %d tokens, want up to %d", longest, w.LongRow())
		}
	}
}

// Rows draw from StartVocabulary ids at first and from all after GrowSteps steps, never from fewer than before.
func TestGrowth(t *testing.T) {
	c := curriculum()
	c.Digits, c.BatchSize = nil, 200
	seen := map[int32]bool{}
	before, sizes := 0, []int{}
	for _, step := range []int{0, 25, 50, 75, 100, 500} {
		now := map[int32]bool{}
		ids, _ := c.Batch(step)
		for _, row := range ids {
			for _, id := range row {
				if id != lead && id != mark {
					now[id] = true
				}
			}
		}
		limit := c.active(step)
		if len(now) > limit || limit < before {
			t.Errorf("step %d: %d ids, %d are allowed, %d were before", step, len(now), limit, before)
		}
		if step == 0 && len(now) != c.StartVocabulary || step >= 100 && len(now) < len(c.Vocabulary)*9/10 {
			t.Errorf("step %d: %d ids", step, len(now))
		}
		// What was drawn from stays drawn from: the ids come in one shuffled order.
		if step > 0 && step < 100 {
			kept := 0
			for id := range seen {
				if now[id] {
					kept++
				}
			}
			if kept < len(seen)*8/10 {
				t.Errorf("step %d: %d of the %d ids of before", step, kept, len(seen))
			}
		}
		before, seen = limit, now
		sizes = append(sizes, limit)
	}
	t.Log("ids in use:", sizes)
	c.GrowSteps = 0
	if got := c.active(0); got != len(c.Vocabulary) {
		t.Errorf("without growth %d ids at first, want all", got)
	}
}

// Rows depend on the seed and the step alone.
func TestRowsRepeat(t *testing.T) {
	c := curriculum()
	a, la := c.Batch(7)
	c.Batch(8)
	b, lb := c.Batch(7)
	if fmt.Sprint(a, la) != fmt.Sprint(b, lb) {
		t.Error("one step gave two batches")
	}
	if next, _ := c.Batch(8); fmt.Sprint(a) == fmt.Sprint(next) {
		t.Error("two steps gave one batch")
	}
	c.Seed++
	if other, _ := c.Batch(7); fmt.Sprint(a) == fmt.Sprint(other) {
		t.Error("two seeds gave one batch")
	}
	c.Seed--
	c.BatchSize = 10
	if fewer, _ := c.Batch(7); fmt.Sprint(fewer) != fmt.Sprint(a[:10]) {
		t.Error("a row depends on how many there are")
	}
}

// Rows much longer than the ids in use could fill end all the same.
func TestFewIDsInLongRows(t *testing.T) {
	c := curriculum()
	c.StartVocabulary, c.RowLength, c.BatchSize = 8, 400, 40
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	ids, _ := c.Batch(0)
	for _, row := range ids {
		if len(row) > c.RowLength {
			t.Errorf("a row of %d", len(row))
		}
	}
}

func TestCurriculumMistakesAreNamed(t *testing.T) {
	for want, change := range map[string]func(c *Curriculum){
		"15 ids to copy": func(c *Curriculum) { c.Vocabulary = c.Vocabulary[:15] },
		"start 7":        func(c *Curriculum) { c.StartVocabulary = 7 },
		"start 601":      func(c *Curriculum) { c.StartVocabulary = 601 },
		"rows 0":         func(c *Curriculum) { c.BatchSize = 0 },
		"length 23":      func(c *Curriculum) { c.RowLength = 23 },
	} {
		c := curriculum()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
	if err := curriculum().Check(); err != nil {
		t.Error(err)
	}
}
