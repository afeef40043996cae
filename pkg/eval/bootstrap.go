package eval

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
)

// How intervals are made, for every table, picture and text.
//
// A resample draws the training seeds with replacement, and then the tasks with replacement. Let seed s be drawn c_s times and task t d_t
// times. Then the cell of seed s and task t counts c_s d_t times, and the estimate is computed from these counts (Owen 2007, "The
// pigeonhole bootstrap"). All drawn seeds share the draw of the tasks, because all seeds have played the same tasks. If each seed had a
// draw of its own, three seeds with equal results would pass for three times as many tasks. With one seed this is the usual bootstrap over
// tasks. The interval is between the percentiles (1-level)/2 and (1+level)/2 of the estimates.
//
// With few seeds the intervals are wide, and yet too narrow. Of three seeds, 1 resample in 9 draws one seed three times, so the interval
// spans nearly the range of the seeds.
//
// A share whose resamples are all alike (10 of 10 solved, or none) has no width to read an interval from. It has the exact interval of
// Clopper and Pearson instead. Its n is the number of tasks, because further attempts and seeds at a task are not independent of the first.
// Any other figure without spread has no interval: its ends are NaN, shown as nothing and empty in CSV.

// scale says what kind of figure an interval is made for.
type scale int

const (
	unbounded  scale = iota // a cost or a count: no exact bound is known
	share                   // between 0 and 1
	shareDelta              // a paired difference of shares, between -1 and 1
)

// noWidth tells rounding from differences. Resamples that differ at all differ by more; sums of equal numbers differ by less.
const noWidth = 1e-9

// interval makes the interval of every figure. v is the estimate, samples its resamples (sorted here), n the number
// of tasks that have it.
func interval(v float64, samples []float64, of scale, n int, level float64) Interval {
	if math.IsNaN(v) {
		return Interval{v, v, v}
	}
	slices.Sort(samples)
	out := Interval{v, Quantile(samples, (1-level)/2), Quantile(samples, (1+level)/2)}
	if out.Hi-out.Lo > noWidth {
		return out
	}
	switch of {
	case share:
		return exactShare(v, n, level)
	case shareDelta:
		// The share of tasks that differ for the better is max(v, 0), for the worse max(-v, 0): the difference of their exact
		// bounds. Where no task differs that is plus and minus the upper bound of 0 in n.
		up, down := exactShare(max(v, 0), n, level), exactShare(max(-v, 0), n, level)
		return Interval{v, up.Lo - down.Hi, up.Hi - down.Lo}
	default:
		return Interval{v, math.NaN(), math.NaN()}
	}
}

// crossed holds the seed and the task of each cell, and a resample's draws of both.
type crossed struct {
	seedOf, taskOf     []int // of each cell
	seeds, tasks       int
	seedDraw, taskDraw []int32
}

// newCrossed numbers the seeds and the tasks of n cells, each in their order.
func newCrossed(n int, id func(i int) (seed uint64, task string)) *crossed {
	c := &crossed{seedOf: make([]int, n), taskOf: make([]int, n)}
	seeds, tasks := map[uint64]int{}, map[string]int{}
	for i := range n {
		s, t := id(i)
		seeds[s], tasks[t] = 0, 0
	}
	for at, s := range slices.Sorted(maps.Keys(seeds)) {
		seeds[s] = at
	}
	for at, t := range slices.Sorted(maps.Keys(tasks)) {
		tasks[t] = at
	}
	for i := range n {
		s, t := id(i)
		c.seedOf[i], c.taskOf[i] = seeds[s], tasks[t]
	}
	c.seeds, c.tasks = len(seeds), len(tasks)
	c.seedDraw, c.taskDraw = make([]int32, c.seeds), make([]int32, c.tasks)
	return c
}

// draw fills in how often each cell counts in one resample.
func (c *crossed) draw(r *rand.Rand, counts []int32) {
	drawOf(r, c.seedDraw)
	drawOf(r, c.taskDraw)
	c.count(counts)
}

// count fills in how often each cell counts by the present draws.
func (c *crossed) count(counts []int32) {
	for i := range counts {
		counts[i] = c.seedDraw[c.seedOf[i]] * c.taskDraw[c.taskOf[i]]
	}
}

// drawOf draws as many things as there are, with replacement; a single one needs no draw.
func drawOf(r *rand.Rand, counts []int32) {
	if len(counts) == 1 {
		counts[0] = 1
		return
	}
	clear(counts)
	n := uint32(len(counts))
	for range n {
		counts[r.Uint32N(n)]++
	}
}

// Share is a figure of one task as one seed's policy played it: a share of its attempts, or a paired difference of two.
type Share struct {
	Seed  uint64
	Task  string
	Value float64
}

// ShareInterval is the mean of shares between 0 and 1 with its interval. DeltaInterval is the same for paired differences between -1 and 1.
// The intervals are made as in the tables. shares must be in a fixed order and are not empty; stream names the random stream.
func ShareInterval(shares []Share, opts Options, stream string) Interval {
	return meanInterval(shares, share, opts, stream)
}

// DeltaInterval is described at [ShareInterval].
func DeltaInterval(deltas []Share, opts Options, stream string) Interval {
	return meanInterval(deltas, shareDelta, opts, stream)
}

func meanInterval(of []Share, sc scale, opts Options, stream string) Interval {
	opts = opts.withDefaults()
	if len(of) == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	cells := newCrossed(len(of), func(i int) (uint64, string) { return of[i].Seed, of[i].Task })
	counts := make([]int32, len(of))
	estimate := func() float64 {
		sum, n := 0.0, 0.0
		for i, c := range counts {
			sum += float64(c) * of[i].Value
			n += float64(c)
		}
		return divide(sum, n)
	}
	for i := range counts {
		counts[i] = 1
	}
	v := estimate()
	r := rng.New(opts.Seed, "bootstrap of shares", stream)
	samples := make([]float64, 0, opts.Resamples)
	for range opts.Resamples {
		cells.draw(r, counts)
		if s := estimate(); !math.IsNaN(s) {
			samples = append(samples, s)
		}
	}
	return interval(v, samples, sc, cells.tasks, opts.Level)
}

// bootstrap returns the value and the interval of every ratio and then of the latency quantiles (p50 and p95 of each list). A
// resample in which a ratio is not defined does not count for its interval. All ratios share the draws.
func bootstrap(cells []Cell, ratios []ratio, times [3][]timed, opts Options, stream string) []Interval {
	sums, at := sufficient(cells, ratios)
	width := 0
	if len(cells) > 0 {
		width = len(sums) / len(cells)
	}
	total := make([]float64, width)
	drawn := make([]int32, len(cells))
	timedQuantiles := times[0] != nil
	estimate := func(dst []float64) []float64 {
		clear(total)
		for i, n := range drawn {
			if n == 0 {
				continue
			}
			f := float64(n)
			for j, v := range sums[i*width : (i+1)*width] {
				total[j] += f * v
			}
		}
		for j := range ratios {
			dst = append(dst, divide(total[at[2*j]], total[at[2*j+1]]))
		}
		if timedQuantiles {
			for _, list := range times {
				dst = quantiles(dst, list, drawn)
			}
		}
		return dst
	}
	for i := range drawn {
		drawn[i] = 1
	}
	point := estimate(nil)
	r := rng.New(opts.Seed, "bootstrap", stream)
	resample := newCrossed(len(cells), func(i int) (uint64, string) { return cells[i].Seed, cells[i].Task.ID })
	samples := make([][]float64, len(point))
	var est []float64
	for range opts.Resamples {
		resample.draw(r, drawn)
		est = estimate(est[:0])
		for j, v := range est {
			if !math.IsNaN(v) {
				samples[j] = append(samples[j], v)
			}
		}
	}
	out := make([]Interval, len(point))
	for j, v := range point {
		of, n := unbounded, 0
		if j < len(ratios) {
			of, n = ratios[j].scale, tasksWith(pointers(cells), ratios[j].of)
		}
		out[j] = interval(v, samples[j], of, n, opts.Level)
	}
	return out
}

// tasksWith counts the tasks that a ratio is defined for: those with a denominator.
func tasksWith(cells []*Cell, r func(*Cell) (num, den float64)) int {
	tasks := map[string]bool{}
	for _, c := range cells {
		if _, den := r(c); den != 0 {
			tasks[c.Task.ID] = true
		}
	}
	return len(tasks)
}

func pointers(cells []Cell) []*Cell {
	out := make([]*Cell, len(cells))
	for i := range cells {
		out[i] = &cells[i]
	}
	return out
}

// sufficient returns, for each cell in turn, the numbers that the ratios sum, and where among them the numerator (2j) and
// the denominator (2j+1) of ratio j stand. Columns that are equal in all cells, such as denominators of 1, are kept once.
func sufficient(cells []Cell, ratios []ratio) (sums []float64, at []int) {
	columns := make([][]float64, 2*len(ratios))
	for j, r := range ratios {
		num, den := make([]float64, len(cells)), make([]float64, len(cells))
		for i := range cells {
			num[i], den[i] = r.of(&cells[i])
		}
		columns[2*j], columns[2*j+1] = num, den
	}
	var kept [][]float64
	for _, c := range columns {
		k := slices.IndexFunc(kept, func(o []float64) bool { return slices.Equal(o, c) })
		if k < 0 {
			k = len(kept)
			kept = append(kept, c)
		}
		at = append(at, k)
	}
	for i := range cells {
		for _, c := range kept {
			sums = append(sums, c[i])
		}
	}
	return sums, at
}
