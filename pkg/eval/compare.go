package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Pair orders two methods that are compared: Later is stated against Baseline, so that a positive difference is what Later gained.
// Every table, notebook and sentence takes the order from a Pair.
type Pair struct{ Baseline, Later string }

// String is how a comparison is named everywhere: "sft+grpo against sft".
func (p Pair) String() string { return p.Later + " against " + p.Baseline }

// Comparison is the method Later against the method Baseline on the tasks that both played.
type Comparison struct {
	Baseline, Later Key
	Tasks           int
	Difference      []Interval // Later - Baseline, in the order of Metrics, with paired bootstrap intervals
	Lost            []string   // tasks that Baseline solves and Later does not, sorted; a task is solved when at least half of its attempts are
	Gained          []string   // tasks that Later solves and Baseline does not
	McNemarP        float64    // exact two-sided p-value of gained against lost
	BothSolved      int        // tasks that both solve: the costs are means over them, of solved attempts
	CostBaseline    float64
	CostLater       float64
	OptimalCost     float64
	GapClosed       float64 // (CostBaseline - CostLater) / (CostBaseline - OptimalCost): the share of the excess that Later removes; NaN without any
}

// Pair is the order of the two methods.
func (c *Comparison) Pair() Pair { return Pair{c.Baseline.Method, c.Later.Method} }

// Verdict names the change of Later in a metric where more is better: "a gain" or "a loss" if the paired interval excludes 0.
func (c *Comparison) Verdict(metric string) string {
	switch d := c.get(metric); {
	case d.Lo > 0:
		return "a gain"
	case d.Hi < 0:
		return "a loss"
	}
	return "no difference shown"
}

// ComparePairs compares the methods of each pair in every split, budget mode and decoding that both played, in the order of the pairs
// and then of the sets. keep chooses among the sets; nil takes all.
func ComparePairs(c *Collector, pairs []Pair, opts Options, keep func(Key) bool) ([]Comparison, error) {
	sets := c.Sets(opts.Splits, opts.Methods)
	var out []Comparison
	for _, p := range pairs {
		for i := range sets {
			later := sets[i].Key
			if later.Method != p.Later || keep != nil && !keep(later) {
				continue
			}
			for j := range sets {
				baseline := sets[j].Key
				if baseline.Method != p.Baseline {
					continue
				}
				if baseline.Method, baseline.Model = later.Method, later.Model; baseline != later {
					continue
				}
				got, err := Compare(&sets[j], &sets[i], opts)
				if err != nil {
					return nil, err
				}
				out = append(out, got)
			}
		}
	}
	return out, nil
}

func (c *Comparison) get(metric string) Interval {
	if i := MetricIndex(metric); i >= 0 {
		return c.Difference[i]
	}
	return Interval{math.NaN(), math.NaN(), math.NaN()}
}

// pair is one task as both methods played it. If both sides have the same seeds, a pair holds one seed's cell of each side. Otherwise it
// holds the cells of all seeds of each side.
type pair struct {
	seed uint64
	task string
	a, b []*Cell
}

// side is one of two sets that are compared: the sums of its cells, and how often a resample counts each.
type side struct {
	cells []*Cell
	sums  []float64 // of the ratios, numerator and denominator, cell by cell
	at    *crossed
	drawn []int32
}

func newSide(cells []*Cell, ratios []ratio) *side {
	s := &side{cells: cells, drawn: make([]int32, len(cells))}
	for _, c := range cells {
		for _, r := range ratios {
			num, den := r.of(c)
			s.sums = append(s.sums, num, den)
		}
	}
	s.at = newCrossed(len(cells), func(i int) (uint64, string) { return cells[i].Seed, cells[i].Task.ID })
	for i := range s.drawn {
		s.drawn[i] = 1
	}
	return s
}

// totals sums the drawn cells into dst.
func (s *side) totals(dst []float64) {
	clear(dst)
	for i, n := range s.drawn {
		if n == 0 {
			continue
		}
		f := float64(n)
		for j, v := range s.sums[i*len(dst) : (i+1)*len(dst)] {
			dst[j] += f * v
		}
	}
}

// Compare compares the set later with the set baseline, of the same split. It pairs them by task (and by seed, if both have the same seeds)
// and resamples the pairs. Seeds and tasks are drawn as for a row of the table, with the same draws on both sides. Seeds that the two do
// not share are drawn for each side by itself. If no pair differs, a difference of shares has the exact bounds of [interval]. Tasks that
// only one side played are left out; having none in common is an error.
func Compare(baseline, later *Set, opts Options) (Comparison, error) {
	a, b := baseline, later
	opts = opts.withDefaults()
	pairs, same := pairUp(a, b)
	if len(pairs) == 0 {
		return Comparison{}, fmt.Errorf("compare %s with %s: no task in common", a.Key, b.Key)
	}
	ratios := metricRatios(Metrics, opts.passK(a, b))
	var cells [2][]*Cell
	for _, p := range pairs {
		cells[0], cells[1] = append(cells[0], p.a...), append(cells[1], p.b...)
	}
	// The cells get one order, whatever the order of the pairs.
	for _, list := range cells {
		slices.SortFunc(list, func(x, y *Cell) int {
			return cmp.Or(cmp.Compare(x.Seed, y.Seed), cmp.Compare(x.Task.ID, y.Task.ID))
		})
	}
	sides := [2]*side{newSide(cells[0], ratios), newSide(cells[1], ratios)}
	if same {
		sides[1].at.seedDraw = sides[0].at.seedDraw
	}
	sides[1].at.taskDraw = sides[0].at.taskDraw
	out := Comparison{Baseline: a.Key, Later: b.Key, Difference: make([]Interval, len(ratios))}
	var total [2][]float64
	for i := range total {
		total[i] = make([]float64, 2*len(ratios))
	}
	difference := func(j int) float64 {
		return divide(total[1][2*j], total[1][2*j+1]) - divide(total[0][2*j], total[0][2*j+1])
	}
	sum := func() {
		for i, s := range sides {
			s.totals(total[i])
		}
	}
	sum()
	for j := range ratios {
		out.Difference[j].Value = difference(j)
	}
	r := rng.New(opts.Seed, "paired bootstrap", a.Key, b.Key)
	samples := make([][]float64, len(ratios))
	for range opts.Resamples {
		drawOf(r, sides[0].at.seedDraw)
		if !same {
			drawOf(r, sides[1].at.seedDraw)
		}
		drawOf(r, sides[0].at.taskDraw)
		for _, s := range sides {
			s.at.count(s.drawn)
		}
		sum()
		for j := range ratios {
			if d := difference(j); !math.IsNaN(d) {
				samples[j] = append(samples[j], d)
			}
		}
	}
	for j := range out.Difference {
		of, n := unbounded, 0
		if ratios[j].scale == share {
			of, n = shareDelta, min(tasksWith(cells[0], ratios[j].of), tasksWith(cells[1], ratios[j].of))
		}
		out.Difference[j] = interval(out.Difference[j].Value, samples[j], of, n, opts.Level)
	}
	out.countTasks(pairs)
	return out, nil
}

// pairUp returns the pairs by seed and task, and whether a pair is of one seed.
func pairUp(a, b *Set) (pairs []pair, same bool) {
	same = slices.Equal(seedsOf(a), seedsOf(b))
	byKey := map[cellKey]*pair{}
	at := func(c *Cell) *pair {
		k := cellKey{0, c.Task.ID}
		if same {
			k.seed = c.Seed
		}
		if byKey[k] == nil {
			byKey[k] = &pair{seed: k.seed, task: k.task}
		}
		return byKey[k]
	}
	for i := range a.Cells {
		p := at(&a.Cells[i])
		p.a = append(p.a, &a.Cells[i])
	}
	for i := range b.Cells {
		p := at(&b.Cells[i])
		p.b = append(p.b, &b.Cells[i])
	}
	for _, p := range byKey {
		if p.a != nil && p.b != nil {
			pairs = append(pairs, *p)
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Or(cmp.Compare(x.seed, y.seed), cmp.Compare(x.task, y.task)) })
	return pairs, same
}

// seedsOf lists the seeds of a set, whose cells are sorted by seed.
func seedsOf(s *Set) []uint64 {
	var seeds []uint64
	for i := range s.Cells {
		if n := len(seeds); n == 0 || seeds[n-1] != s.Cells[i].Seed {
			seeds = append(seeds, s.Cells[i].Seed)
		}
	}
	return seeds
}

func (c *Comparison) countTasks(pairs []pair) {
	type played struct{ attempts, solved, cost, optimal float64 }
	tasks := map[string]*[2]played{}
	for _, p := range pairs {
		if tasks[p.task] == nil {
			tasks[p.task] = new([2]played)
		}
		for i, cells := range [2][]*Cell{p.a, p.b} {
			s := &tasks[p.task][i]
			for _, cell := range cells {
				s.attempts += float64(len(cell.Episodes))
				s.solved += cell.solved(one)
				s.cost += cell.solved(spend)
				s.optimal += cell.solved(func(e *Episode) float64 { return e.Task.OptimalCost.Float() })
			}
		}
	}
	names := make([]string, 0, len(tasks))
	for name := range tasks {
		names = append(names, name)
	}
	slices.Sort(names)
	c.Tasks = len(names)
	for _, name := range names {
		a, b := tasks[name][0], tasks[name][1]
		solvesA, solvesB := 2*a.solved >= a.attempts, 2*b.solved >= b.attempts
		switch {
		case solvesA && solvesB:
			c.BothSolved++
			c.CostBaseline += a.cost / a.solved
			c.CostLater += b.cost / b.solved
			c.OptimalCost += a.optimal / a.solved
		case solvesA:
			c.Lost = append(c.Lost, name)
		case solvesB:
			c.Gained = append(c.Gained, name)
		}
	}
	c.McNemarP = McNemarExact(len(c.Lost), len(c.Gained))
	n := float64(c.BothSolved)
	c.CostBaseline, c.CostLater, c.OptimalCost = divide(c.CostBaseline, n), divide(c.CostLater, n), divide(c.OptimalCost, n)
	c.GapClosed = math.NaN()
	if excess := c.CostBaseline - c.OptimalCost; excess > 1e-9 { // prices are millionths: anything less is rounding of the mean
		c.GapClosed = (c.CostBaseline - c.CostLater) / excess
	}
}

// Sentence says what the comparison came to in success.
func (c *Comparison) Sentence() string {
	return fmt.Sprintf("%s on %s, %s budget: %s in success, %s (%d tasks gained, %d lost, exact p = %.3g).", c.Pair(), c.Later.Split, c.Later.Budget,
		c.Difference[MetricIndex("success_rate")].Signed(3), c.Verdict("success_rate"), len(c.Gained), len(c.Lost), c.McNemarP)
}
