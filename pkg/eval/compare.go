package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Comparison is method B against method A on the tasks that both played.
type Comparison struct {
	A, B        Key
	Tasks       int
	Difference  []Interval // B - A, in the order of Metrics, with paired bootstrap intervals
	Lost        []string   // tasks that A solves and B does not, sorted; a task is solved when at least half of its attempts are
	Gained      []string   // tasks that B solves and A does not
	McNemarP    float64    // exact two-sided p-value of gained against lost
	BothSolved  int        // tasks that both solve: CostA, CostB and OptimalCost are means over them, of solved attempts
	CostA       float64
	CostB       float64
	OptimalCost float64
	GapClosed   float64 // (CostA - CostB) / (CostA - OptimalCost): the share of A's excess that B removes; NaN when A has none
}

// Improves reports whether B is better than A in a metric where more is better: the paired interval lies above 0.
func (c *Comparison) Improves(metric string) bool { return c.get(metric).Lo > 0 }

// Worsens reports whether the paired interval of a metric where more is better lies below 0.
func (c *Comparison) Worsens(metric string) bool { return c.get(metric).Hi < 0 }

func (c *Comparison) get(metric string) Interval {
	if i := MetricIndex(metric); i >= 0 {
		return c.Difference[i]
	}
	return Interval{math.NaN(), math.NaN(), math.NaN()}
}

// pair is one task as both methods played it. With the same seeds on both sides a pair is one seed's cell of each; with
// different seeds it is the mean over each side's seeds.
type pair struct {
	seed uint64
	task string
	a, b []*Cell
}

// Compare pairs two sets of the same split by task (and seed, when both have the same seeds) and resamples the pairs
// within seeds. Tasks that only one side played are left out; having none in common is an error.
func Compare(a, b *Set, opts Options) (Comparison, error) {
	opts = opts.withDefaults()
	pairs := pairUp(a, b)
	if len(pairs) == 0 {
		return Comparison{}, fmt.Errorf("compare %s with %s: no task in common", a.Key, b.Key)
	}
	ratios := metricRatios(Metrics, opts.passK(a, b))
	width := len(ratios) * 2
	sums := make([]float64, len(pairs)*2*width)
	for i, p := range pairs {
		for side, cells := range [2][]*Cell{p.a, p.b} {
			at := sums[(2*i+side)*width:]
			for _, c := range cells {
				for j, r := range ratios {
					num, den := r(c)
					at[2*j] += num / float64(len(cells))
					at[2*j+1] += den / float64(len(cells))
				}
			}
		}
	}
	out := Comparison{A: a.Key, B: b.Key, Difference: make([]Interval, len(ratios))}
	difference := func(total []float64, j int) float64 {
		return divide(total[width+2*j], total[width+2*j+1]) - divide(total[2*j], total[2*j+1])
	}
	total := make([]float64, 2*width)
	add := func(i int) {
		for j, v := range sums[i*2*width : (i+1)*2*width] {
			total[j] += v
		}
	}
	for i := range pairs {
		add(i)
	}
	for j := range ratios {
		out.Difference[j].Value = difference(total, j)
	}
	r := rng.New(opts.Seed, "paired bootstrap", a.Key, b.Key)
	samples := make([][]float64, len(ratios))
	for range opts.Resamples {
		clear(total)
		for from := 0; from < len(pairs); {
			to := from
			for to < len(pairs) && pairs[to].seed == pairs[from].seed {
				to++
			}
			for range to - from {
				add(from + int(r.Uint32N(uint32(to-from))))
			}
			from = to
		}
		for j := range ratios {
			if d := difference(total, j); !math.IsNaN(d) {
				samples[j] = append(samples[j], d)
			}
		}
	}
	for j := range out.Difference {
		out.Difference[j] = percentileInterval(out.Difference[j].Value, samples[j], opts.Level)
	}
	out.countTasks(pairs)
	return out, nil
}

func pairUp(a, b *Set) []pair {
	same := slices.Equal(seedsOf(a), seedsOf(b))
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
	var pairs []pair
	for _, p := range byKey {
		if p.a != nil && p.b != nil {
			pairs = append(pairs, *p)
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Or(cmp.Compare(x.seed, y.seed), cmp.Compare(x.task, y.task)) })
	return pairs
}

func seedsOf(s *Set) []uint64 {
	var seeds []uint64
	for _, run := range seedRuns(s.Cells) {
		seeds = append(seeds, s.Cells[run[0]].Seed)
	}
	return seeds
}

func (c *Comparison) countTasks(pairs []pair) {
	type side struct{ attempts, solved, cost, optimal float64 }
	tasks := map[string]*[2]side{}
	for _, p := range pairs {
		if tasks[p.task] == nil {
			tasks[p.task] = new([2]side)
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
			c.CostA += a.cost / a.solved
			c.CostB += b.cost / b.solved
			c.OptimalCost += a.optimal / a.solved
		case solvesA:
			c.Lost = append(c.Lost, name)
		case solvesB:
			c.Gained = append(c.Gained, name)
		}
	}
	c.McNemarP = McNemarExact(len(c.Lost), len(c.Gained))
	n := float64(c.BothSolved)
	c.CostA, c.CostB, c.OptimalCost = divide(c.CostA, n), divide(c.CostB, n), divide(c.OptimalCost, n)
	c.GapClosed = math.NaN()
	if excess := c.CostA - c.OptimalCost; excess > 1e-9 { // prices are millionths: anything less is rounding of the mean
		c.GapClosed = (c.CostA - c.CostB) / excess
	}
}
