package benchmark

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Against is this benchmark compared with another one, its baseline, on the tasks that both played.
type Against struct {
	Folder   string   `json:"folder"`
	Settings Settings `json:"settings"` // of the other one
	Versus
	Strata []VersusBreakdown `json:"strata"`
}

// VersusBreakdown is the comparison within the strata of one dimension.
type VersusBreakdown struct {
	Dimension string   `json:"dimension"`
	Title     string   `json:"title"`
	Groups    []Versus `json:"groups"`
}

// Versus is the comparison on some of the tasks.
type Versus struct {
	Name       string            `json:"name"`
	Tasks      int               `json:"tasks"`       // that both played
	BothSolved int               `json:"both_solved"` // tasks; the costs are means over them
	Cost       Figure            `json:"cost"`        // of this one; costs have no interval
	CostThere  Figure            `json:"cost_there"`  // of the other one
	Cheapest   Figure            `json:"cheapest"`
	GapClosed  Figure            `json:"gap_closed"` // share of what the other one costs above the cheapest that this one does not
	Lost       []string          `json:"lost"`       // tasks that the other one solves and this one does not
	Gained     []string          `json:"gained"`
	P          float64           `json:"p"`          // exact two-sided p-value of gained against lost
	Difference map[string]Figure `json:"difference"` // this one minus the other one, with paired intervals
}

// comparable reads the states of another benchmark of the same tasks.
func (f *Folder) comparable(other *Folder) ([]trajectory.Trajectory, error) {
	a, b := f.Info.Settings, other.Info.Settings
	for _, same := range []struct {
		what        string
		here, there any
	}{
		{"suite", a.Suite, b.Suite}, {"split", a.Split, b.Split}, {"budget_mode", a.Budget, b.Budget}, {"data", a.Data, b.Data},
	} {
		if same.here != same.there {
			return nil, fmt.Errorf("%s was not played on the same tasks: %s is %v, there it is %v", other.Dir, same.what, same.here, same.there)
		}
	}
	return other.States()
}

// against compares the states with those of another benchmark, as a whole and by the strata of the summary.
func against(s Summarising, here, there []trajectory.Trajectory) (*Against, error) {
	var sets [2]eval.Set
	for i, states := range [][]trajectory.Trajectory{there, here} {
		c, err := eval.Collect(states, s.columns())
		if err != nil {
			return nil, err
		}
		all := c.Sets(nil, nil)
		if len(all) != 1 {
			return nil, fmt.Errorf("%d kinds of states in one benchmark, want 1", len(all))
		}
		sets[i] = all[0]
	}
	whole, err := versus("all", &sets[0], &sets[1], s.Eval)
	if err != nil {
		return nil, err
	}
	out := &Against{Folder: s.Against.Dir, Settings: s.Against.Info.Settings, Versus: whole}
	for _, d := range s.dimensions() {
		b := VersusBreakdown{Dimension: d.Name, Title: d.Title}
		for _, name := range strataOf(d, &sets[1]) {
			in := func(t *trajectory.Task) bool { return slices.Contains(d.Of(sets[1].Key.Split, t), name) }
			before, after := sets[0].Where(in), sets[1].Where(in)
			if len(before.Cells) == 0 {
				continue
			}
			v, err := versus(name, &before, &after, s.Eval)
			if err != nil {
				return nil, err
			}
			b.Groups = append(b.Groups, v)
		}
		if len(b.Groups) > 0 {
			out.Strata = append(out.Strata, b)
		}
	}
	return out, nil
}

// strataOf lists the strata of a set, by name.
func strataOf(d eval.Dimension, s *eval.Set) []string {
	var out []string
	for _, c := range s.Cells {
		out = append(out, d.Of(s.Key.Split, c.Task)...)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return slices.Compact(out)
}

func versus(name string, baseline, later *eval.Set, opts eval.Options) (Versus, error) {
	c, err := eval.Compare(baseline, later, opts)
	if err != nil {
		return Versus{}, err
	}
	alone := func(v float64) Figure { return figure(eval.Interval{Value: v, Lo: nan, Hi: nan}) }
	v := Versus{Name: name, Tasks: c.Tasks, BothSolved: c.BothSolved, Cost: alone(c.CostLater), CostThere: alone(c.CostBaseline), Cheapest: alone(c.OptimalCost),
		GapClosed: alone(c.GapClosed), Lost: orNone(c.Lost), Gained: orNone(c.Gained), P: c.McNemarP, Difference: map[string]Figure{}}
	for _, name := range []string{"success_rate", "mean_cost", "mean_cost_per_solved", "cost_ratio", "calls_per_task"} {
		v.Difference[name] = figure(c.Difference[eval.MetricIndex(name)])
	}
	return v, nil
}

// orNone makes an empty list [] in JSON, rather than null.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
