package eval

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Options of a results table. The zero value is valid.
type Options struct {
	Resamples int     // bootstrap resamples; 0 means 2000
	Level     float64 // of the intervals; 0 means 0.95
	Seed      uint64  // of the resampling
	PassK     int     // k of pass@k, in rows of so many attempts; 0 means the smallest number of attempts of any task of the row
	Splits    []string
	Methods   []string // order of rows; those not listed come after, by name
	// Training is side information of learned rows.
	Training func(Key) (Training, bool)
}

// Training is what a learned row cost to train. WallSeconds is measured, so it differs from run to run.
type Training struct {
	Tokens      int64 // tokens that carry loss, times optimiser passes
	Episodes    int64
	WallSeconds float64
}

func (o Options) withDefaults() Options {
	if o.Resamples == 0 {
		o.Resamples = 2000
	}
	if o.Level == 0 {
		o.Level = 0.95
	}
	return o
}

// passK is the k of pass@k for sets that stand in one row, never more than any task of either has attempts: a greedy row has one.
func (o Options) passK(sets ...*Set) int {
	k := math.MaxInt
	for _, s := range sets {
		if o.PassK == 0 {
			k = min(k, s.Attempts())
			continue
		}
		most := 0
		for i := range s.Cells {
			most = max(most, len(s.Cells[i].Episodes))
		}
		k = min(k, most, o.PassK)
	}
	return k
}

// Row is one line of the results table.
type Row struct {
	Key
	Seeds, Tasks, Episodes, K int
	Values                    []Interval // in the order of Metrics
	Own                       []Interval // in the order of the suite's columns; the ends are NaN where none is computed
	Latency                   Latency
	Ends                      map[string]int // episodes by end reason
	FailedCalls               int
	Training                  *Training
}

// Get returns a metric by its column name; a name that Metrics lacks gives NaN.
func (r *Row) Get(name string) Interval {
	if i := MetricIndex(name); i >= 0 {
		return r.Values[i]
	}
	return Interval{math.NaN(), math.NaN(), math.NaN()}
}

// Latency holds quantiles over episodes of the seconds that the model, the tools and both took (sum over the turns; nearest
// rank). It is measured, so it is kept out of the results table and differs from run to run.
type Latency struct{ ModelP50, ModelP95, ToolP50, ToolP95, TotalP50, TotalP95 Interval }

// Table computes a row for every set of the collector.
func Table(c *Collector, opts Options) []Row {
	opts = opts.withDefaults()
	sets := c.Sets(opts.Splits, opts.Methods)
	rows := make([]Row, len(sets))
	parallel(len(sets), func(i int) { rows[i] = newRow(&sets[i], c.Columns, opts) })
	for i := range rows {
		for j, col := range c.Columns {
			if col.Decoding != "" && col.Decoding != rows[i].Decoding {
				rows[i].Own[j] = sibling(rows, rows[i].Key, col.Decoding, j)
			}
		}
	}
	return rows
}

// parallel runs f(0..n-1) on all processors; every item has random streams of its own, so their number changes nothing.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func sibling(rows []Row, k Key, decoding string, column int) Interval {
	for _, r := range rows {
		o := r.Key
		if o.Decoding == decoding && o.Suite == k.Suite && o.Method == k.Method && o.Model == k.Model && o.Split == k.Split && o.Budget == k.Budget {
			return r.Own[column]
		}
	}
	return Interval{math.NaN(), math.NaN(), math.NaN()}
}

func newRow(s *Set, columns []Column, opts Options) Row {
	k := opts.passK(s)
	row := Row{Key: s.Key, K: k, Ends: map[string]int{}}
	seeds, tasks := map[uint64]bool{}, map[string]bool{}
	for i := range s.Cells {
		c := &s.Cells[i]
		seeds[c.Seed], tasks[c.Task.ID] = true, true
		row.Episodes += len(c.Episodes)
		for j := range c.Episodes {
			row.Ends[string(c.Episodes[j].End)]++
			row.FailedCalls += c.Episodes[j].Failed
		}
	}
	row.Seeds, row.Tasks = len(seeds), len(tasks)
	if opts.Training != nil {
		if t, ok := opts.Training(s.Key); ok {
			row.Training = &t
		}
	}
	ratios := metricRatios(Metrics, k)
	for j, col := range columns {
		ratios = append(ratios, ownRatio(j, col.Total, len(s.Cells)))
	}
	lat := latencyOf(s)
	values := bootstrap(s.Cells, ratios, lat, opts, s.Key.String())
	n := len(Metrics)
	row.Values, row.Own = values[:n:n], values[n:n+len(columns):n+len(columns)]
	q := values[n+len(columns):]
	row.Latency = Latency{q[0], q[1], q[2], q[3], q[4], q[5]}
	for j, col := range columns {
		if col.MinBy != nil {
			row.Own[j] = Interval{minByGroup(s, j), math.NaN(), math.NaN()}
		}
	}
	return row
}

type ratio func(*Cell) (num, den float64)

func metricRatios(ms []Metric, k int) []ratio {
	out := make([]ratio, len(ms))
	for i, m := range ms {
		out[i] = func(c *Cell) (float64, float64) { return m.Ratio(c, k) }
	}
	return out
}

// ownRatio sums a suite's column.
func ownRatio(j int, total bool, cells int) ratio {
	return func(c *Cell) (num, den float64) {
		for i := range c.Episodes {
			num += c.Episodes[i].own[j].num
			den += c.Episodes[i].own[j].den
		}
		if total {
			return num * float64(cells), 1 // the mean over the cells of the sum times their number
		}
		return num, den
	}
}

func minByGroup(s *Set, j int) float64 {
	sums := map[string][2]float64{}
	for i := range s.Cells {
		for _, e := range s.Cells[i].Episodes {
			if v := e.own[j]; v.group != "" {
				t := sums[v.group]
				sums[v.group] = [2]float64{t[0] + v.num, t[1] + v.den}
			}
		}
	}
	least := math.NaN()
	for _, t := range sums { // the smallest of a set: order does not matter
		if v := divide(t[0], t[1]); !math.IsNaN(v) && !(v >= least) {
			least = v
		}
	}
	return least
}

func divide(num, den float64) float64 {
	if den == 0 {
		return math.NaN()
	}
	return num / den
}

// timed is a latency with the cell it belongs to; the three lists of a set are
// model, tool and total times, sorted.
type timed struct {
	seconds float64
	cell    int32
}

func latencyOf(s *Set) [3][]timed {
	var out [3][]timed
	for i := range s.Cells {
		for j := range s.Cells[i].Episodes {
			e := &s.Cells[i].Episodes[j]
			out[0] = append(out[0], timed{e.ModelTime, int32(i)})
			out[1] = append(out[1], timed{e.ToolTime, int32(i)})
			out[2] = append(out[2], timed{e.ModelTime + e.ToolTime, int32(i)})
		}
	}
	for i := range out {
		slices.SortFunc(out[i], func(a, b timed) int {
			return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.cell, b.cell))
		})
	}
	return out
}

// quantiles appends the nearest-rank p50 and p95 of the times whose cells count as often as drawn says.
func quantiles(dst []float64, times []timed, drawn []int32) []float64 {
	total := int64(0)
	for _, t := range times {
		total += int64(drawn[t.cell])
	}
	for _, p := range []float64{0.5, 0.95} {
		need := max(1, int64(math.Ceil(p*float64(total))))
		seen, v := int64(0), math.NaN()
		for _, t := range times {
			if seen += int64(drawn[t.cell]); seen >= need {
				v = t.seconds
				break
			}
		}
		dst = append(dst, v)
	}
	return dst
}

// bootstrap returns the value and the percentile interval of every ratio and then of the latency quantiles (p50 and p95 of
// each list). Cells are drawn with replacement within their seed; a resample in which a ratio is not defined does not
// count for its interval. All ratios share the draws.
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
	strata := seedRuns(cells)
	samples := make([][]float64, len(point))
	var est []float64
	for range opts.Resamples {
		clear(drawn)
		for _, run := range strata {
			n := uint32(run[1] - run[0])
			for range n {
				drawn[run[0]+int(r.Uint32N(n))]++
			}
		}
		est = estimate(est[:0])
		for j, v := range est {
			if !math.IsNaN(v) {
				samples[j] = append(samples[j], v)
			}
		}
	}
	out := make([]Interval, len(point))
	for j, v := range point {
		out[j] = percentileInterval(v, samples[j], opts.Level)
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
			num[i], den[i] = r(&cells[i])
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

func percentileInterval(v float64, samples []float64, level float64) Interval {
	if math.IsNaN(v) {
		return Interval{v, v, v}
	}
	slices.Sort(samples)
	return Interval{v, Quantile(samples, (1-level)/2), Quantile(samples, (1+level)/2)}
}

// seedRuns returns the [from, to) ranges of cells that share a seed; cells are sorted by seed.
func seedRuns(cells []Cell) [][2]int {
	var runs [][2]int
	for i := range cells {
		if i == 0 || cells[i].Seed != cells[i-1].Seed {
			runs = append(runs, [2]int{i, i})
		}
		runs[len(runs)-1][1] = i + 1
	}
	return runs
}
