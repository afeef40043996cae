package eval

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Dimension sorts tasks into strata; a task may belong to several (tags) or to none.
type Dimension struct {
	Name string
	Of   func(Key, *trajectory.Task) []string
}

// Dimensions are the strata that every run reports.
var Dimensions = []Dimension{
	{"difficulty", func(_ Key, t *trajectory.Task) []string { return []string{strconv.Itoa(t.Difficulty)} }},
	{"hops", func(_ Key, t *trajectory.Task) []string { return []string{strconv.Itoa(t.Hops)} }},
	{"combination", func(_ Key, t *trajectory.Task) []string { return []string{t.Combination} }},
	{"structure", func(_ Key, t *trajectory.Task) []string { return []string{t.Structure} }},
	{"template", func(_ Key, t *trajectory.Task) []string { return []string{t.Template} }},
	{"tags", func(_ Key, t *trajectory.Task) []string { return t.Tags }},
	{"phrasing", unseen("unseen_phrasing", "seen phrasing", "unseen phrasing")},
	{"template_seen", func(k Key, t *trajectory.Task) []string {
		if strings.Contains(k.Split, "heldout_template") || slices.Contains(t.Tags, "unseen_template") {
			return []string{"unseen template"}
		}
		return []string{"seen template"}
	}},
	{"heldout_kind", func(_ Key, t *trajectory.Task) []string {
		var kinds []string
		for _, k := range []string{"new_filling", "new_structure"} {
			if slices.Contains(t.Tags, k) {
				kinds = append(kinds, k)
			}
		}
		return kinds
	}},
}

func unseen(tag, without, with string) func(Key, *trajectory.Task) []string {
	return func(_ Key, t *trajectory.Task) []string {
		if slices.Contains(t.Tags, tag) {
			return []string{with}
		}
		return []string{without}
	}
}

// DimensionByName returns one of Dimensions.
func DimensionByName(name string) (Dimension, error) {
	for _, d := range Dimensions {
		if d.Name == name {
			return d, nil
		}
	}
	return Dimension{}, fmt.Errorf("no stratum %q", name)
}

// Stratum is a row's metrics on the tasks of one stratum.
type Stratum struct {
	Key
	Dimension, Name string
	Tasks           int
	K, PassKTasks   int        // k of pass@k, that of the whole row, and the tasks with so many attempts
	Values          []Interval // in the order of Metrics
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
			for _, name := range d.Of(s.Key, cell.Task) {
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
		out[i].Values = bootstrap(parts[i].Cells, metricRatios(Metrics, out[i].K), [3][]timed{}, opts, stream)
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
