package eval

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
)

// Options of a results table. The zero value is valid.
type Options struct {
	Resamples int     // bootstrap resamples; 0 means 2000
	Level     float64 // of the intervals; 0 means 0.95
	Seed      uint64  // of the resampling
	PassK     int     // k of pass@k; 0 means all attempts of a row: the most that a task of it has
	Splits    []string
	Methods   []string // order of rows; those not listed come after, by name
	// Training is side information of learned rows: what the policies of these training seeds are made of.
	Training func(k Key, seeds []uint64) (Training, bool)
}

// Training is what a learned row was trained on and what that cost, all steps before it included. Over several seeds it is the mean over
// their policies. A field that is 0 or empty is not known or was not used. WallSeconds is measured, so it differs from run to run.
type Training struct {
	Seeds          []uint64 // training seeds of the policies
	Tokens         int64    // tokens that carry loss, times optimiser passes
	Processed      int64    // tokens that went through the model, times passes
	Demonstrations int64    // that were imitated
	Episodes       int64    // that were played for reinforcement
	DemoWorlds     []uint64 // seeds of the worlds of the demonstrations
	RolloutWorlds  []uint64 // seeds of the worlds of the episodes
	WallSeconds    float64
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

// passK is the k of pass@k for sets that stand in one row: the k asked for, or the most attempts that a task of every set has. Tasks with
// fewer attempts are left out of pass@k, because with another k they would give another figure. Row.PassKTasks counts the tasks that
// remain.
func (o Options) passK(sets ...*Set) int {
	if o.PassK > 0 {
		return o.PassK
	}
	k := math.MaxInt
	for _, s := range sets {
		most := 0
		for i := range s.Cells {
			most = max(most, len(s.Cells[i].Episodes))
		}
		k = min(k, most)
	}
	return k
}

// Row is one line of the results table.
type Row struct {
	Key
	Seeds, Tasks, Episodes int
	K                      int        // of pass@k
	PassKTasks             int        // tasks with at least K attempts, which pass@k is the mean over
	Values                 []Interval // in the order of Metrics
	Own                    []Interval // in the order of the suite's columns; the ends are NaN where none is computed
	Latency                Latency
	Ends                   map[string]int // episodes by end reason
	FailedCalls            int
	Training               *Training
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

// BySeed computes a row for each seed of the sets of several seeds. The rows of the table pool these rows. A column that is taken from a
// row of another decoding comes from that row of the same seed.
func BySeed(c *Collector, opts Options) []SeedRow {
	opts = opts.withDefaults()
	var parts []Set
	for _, s := range c.Sets(opts.Splits, opts.Methods) {
		seeds := seedsOf(&s)
		if len(seeds) < 2 {
			continue
		}
		for from := 0; from < len(s.Cells); {
			to := from
			for to < len(s.Cells) && s.Cells[to].Seed == s.Cells[from].Seed {
				to++
			}
			parts = append(parts, Set{Key: s.Key, Cells: s.Cells[from:to]})
			from = to
		}
	}
	out := make([]SeedRow, len(parts))
	parallel(len(parts), func(i int) { out[i] = SeedRow{parts[i].Cells[0].Seed, newRow(&parts[i], c.Columns, opts)} })
	for j, col := range c.Columns {
		for i := range out {
			if col.Decoding == "" || col.Decoding == out[i].Decoding {
				continue
			}
			var same []Row
			for k := range out {
				if out[k].Seed == out[i].Seed {
					same = append(same, out[k].Row)
				}
			}
			out[i].Own[j] = sibling(same, out[i].Key, col.Decoding, j)
		}
	}
	return out
}

// SeedRow is a row of one seed.
type SeedRow struct {
	Seed uint64
	Row
}

// parallel runs f(0..n-1) on all processors; every item has random streams of its own, so the number of processors changes no result.
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
	row.PassKTasks = tasksWith(pointers(s.Cells), func(c *Cell) (float64, float64) { return c.passAt(k) })
	if opts.Training != nil {
		if t, ok := opts.Training(s.Key, seedsOf(s)); ok {
			row.Training = &t
		}
	}
	ratios := metricRatios(Metrics, k)
	for j, col := range columns {
		ratios = append(ratios, ownRatio(j, col, s.Cells))
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

// ratio is what the bootstrap sums over cells, and what kind of figure it makes.
type ratio struct {
	of    func(*Cell) (num, den float64)
	scale scale
}

func metricRatios(ms []Metric, k int) []ratio {
	out := make([]ratio, len(ms))
	for i, m := range ms {
		out[i].of = func(c *Cell) (float64, float64) { return m.Ratio(c, k) }
		if m.Share {
			out[i].scale = share
		}
	}
	return out
}

// ownRatio sums a suite's column.
func ownRatio(j int, col Column, cells []Cell) ratio {
	most := ""
	if col.MostBy != nil {
		most = mostGroup(cells, j)
	}
	out := ratio{of: func(c *Cell) (num, den float64) {
		for i := range c.Episodes {
			v := &c.Episodes[i].own[j]
			if col.MostBy == nil || v.group == most {
				num += v.num
			}
			den += v.den
		}
		if col.Total {
			return num * float64(len(cells)), 1 // the mean over the cells of the sum times their number
		}
		return num, den
	}}
	if col.Share {
		out.scale = share
	}
	return out
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
