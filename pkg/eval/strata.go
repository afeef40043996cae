package eval

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Dimension sorts tasks into strata.
type Dimension = suite.Dimension

// Dimensions are those of every suite and, before the tags, a suite's own.
func Dimensions(own []Dimension) []Dimension {
	of := func(name string, of func(t *trajectory.Task) string) Dimension {
		return Dimension{Name: name, Title: name, Of: func(_ string, t *trajectory.Task) []string { return []string{of(t)} }}
	}
	all := []Dimension{
		of("difficulty", func(t *trajectory.Task) string { return strconv.Itoa(t.Difficulty) }),
		of("hops", func(t *trajectory.Task) string { return strconv.Itoa(t.Hops) }),
		of("combination", func(t *trajectory.Task) string { return t.Combination }),
		of("template", func(t *trajectory.Task) string { return t.Template }),
	}
	all[2].Title = "gold combination"
	return append(append(all, own...), Dimension{Name: "tags", File: "tag", Title: "tag", Of: func(_ string, t *trajectory.Task) []string { return t.Tags }})
}

// Stratum is a row's metrics on the tasks of one stratum.
type Stratum struct {
	Key
	Dimension, Name string
	Tasks           int
	K, PassKTasks   int        // k of pass@k, that of the whole row, and the tasks with so many attempts
	Values          []Interval // in the order of Metrics
	Own             []Interval // in the order of the suite's columns, as Row.Own; a column of another decoding is not defined
}

// Get is as Row.Get.
func (s *Stratum) Get(name string) Interval { return s.Values[MetricIndex(name)] }

// Strata computes the metrics of every set in each stratum of a dimension, sorted as the table's rows and then by stratum
// (numbers by size).
func Strata(c *Collector, d Dimension, opts Options) []Stratum {
	opts = opts.withDefaults()
	var out []Stratum
	var parts []Set
	for _, s := range c.Sets(opts.Splits, opts.Methods) {
		byName := map[string][]Cell{}
		for _, cell := range s.Cells {
			for _, name := range d.Of(s.Key.Split, cell.Task) {
				byName[name] = append(byName[name], cell)
			}
		}
		names := make([]string, 0, len(byName))
		for name := range byName {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b))*digits(a, b), cmp.Compare(a, b)) })
		for _, name := range names {
			tasks := map[string]bool{}
			for _, cell := range byName[name] {
				tasks[cell.Task.ID] = true
			}
			st := Stratum{Key: s.Key, Dimension: d.Name, Name: name, Tasks: len(tasks), K: opts.passK(&s)}
			st.PassKTasks = tasksWith(pointers(byName[name]), func(c *Cell) (float64, float64) { return c.passAt(st.K) })
			out = append(out, st)
			parts = append(parts, Set{Key: s.Key, Cells: byName[name]})
		}
	}
	parallel(len(out), func(i int) {
		stream := out[i].Key.String() + "/" + d.Name + "/" + out[i].Name
		ratios := metricRatios(Metrics, out[i].K)
		for j, col := range c.Columns {
			ratios = append(ratios, ownRatio(j, col, parts[i].Cells))
		}
		values, n := bootstrap(parts[i].Cells, ratios, [3][]timed{}, opts, stream), len(Metrics)
		out[i].Values, out[i].Own = values[:n:n], values[n:]
		for j, col := range c.Columns {
			switch undefined := math.NaN(); {
			case col.MinBy != nil:
				out[i].Own[j] = Interval{minByGroup(&parts[i], j), undefined, undefined}
			case col.Decoding != "" && col.Decoding != out[i].Decoding:
				out[i].Own[j] = Interval{undefined, undefined, undefined}
			}
		}
	})
	return out
}

// digits is 1 when both names are numbers, which sort by length first, and 0 otherwise.
func digits(a, b string) int {
	_, errA := strconv.ParseUint(a, 10, 64)
	_, errB := strconv.ParseUint(b, 10, 64)
	if errA == nil && errB == nil {
		return 1
	}
	return 0
}
