package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/table"
	"github.com/toolroute/toolroute/pkg/train"
)

// Reinforced is what a run of reinforcement learning left behind.
type Reinforced struct {
	rl.History // without points where no history was kept
	Lines      []report.MetricsRecord
	Bounds     train.StopRule // that Warnings asks
}

// Reinforcements are the runs of a suite, by recipe and then by seed.
type Reinforcements []Reinforced

// historyPoint is one figure of a recipe after some iterations: mean, least and greatest over its seeds.
type historyPoint struct {
	iteration    int
	mean, lo, hi float64
}

// Histories are the eval points alone.
func (rs Reinforcements) Histories() (out []rl.History) {
	for _, r := range rs {
		out = append(out, r.History)
	}
	return out
}

// points are the figures of a recipe on a split at a temperature, over the seeds that have the iteration.
func (rs Reinforcements) points(recipe, split string, temperature float64, column string) []historyPoint {
	values := map[int][]float64{}
	var at []int
	for _, r := range rs {
		for _, l := range r.Points {
			if v, ok := l.Get(column); ok && r.Recipe == recipe && l.Split == split && l.Temperature == temperature {
				if len(values[l.Iteration]) == 0 {
					at = append(at, l.Iteration)
				}
				values[l.Iteration] = append(values[l.Iteration], v)
			}
		}
	}
	slices.Sort(at)
	var out []historyPoint
	for _, i := range at {
		p := historyPoint{i, 0, math.Inf(1), math.Inf(-1)}
		for _, v := range values[i] {
			p.mean, p.lo, p.hi = p.mean+v/float64(len(values[i])), min(p.lo, v), max(p.hi, v)
		}
		out = append(out, p)
	}
	return out
}

// evaluated lists the recipes, splits and temperatures of the histories. Recipes and splits stand in the order in which they first appear,
// and temperatures ascend from greedy.
func (rs Reinforcements) evaluated() (recipes, splits []string, temperatures []float64) {
	for _, r := range rs {
		for _, l := range r.Points {
			if !slices.Contains(recipes, r.Recipe) {
				recipes = append(recipes, r.Recipe)
			}
			if !slices.Contains(splits, l.Split) {
				splits = append(splits, l.Split)
			}
			if !slices.Contains(temperatures, l.Temperature) {
				temperatures = append(temperatures, l.Temperature)
			}
		}
	}
	slices.Sort(temperatures)
	return recipes, splits, temperatures
}

// Picture draws the suite's rate over the iterations, a panel for each watched split; false where nothing was watched.
func (rs Reinforcements) Picture(of suite.TitledColumn) (report.Picture, bool) {
	recipes, splits, temperatures := rs.evaluated()
	pic := report.Picture{Name: "history", Title: "Reinforcement learning, " + of.Title + " on the watched tasks", Tall: true, Columns: min(2, len(splits))}
	seeds := false
	for _, split := range splits {
		pan := report.Panel{Title: split, X: "iteration", Y: of.Title, Rate: true}
		for _, recipe := range recipes {
			several := len(slices.DeleteFunc(slices.Clone(rs), func(r Reinforced) bool { return r.Recipe != recipe || len(r.Points) == 0 })) > 1
			for _, temperature := range temperatures {
				line := report.Line{Name: recipe, Dashed: temperature != 0}
				for _, p := range rs.points(recipe, split, temperature, of.Column) {
					line.X, line.Y = append(line.X, float64(p.iteration)), append(line.Y, p.mean)
					if several {
						line.Lo, line.Hi = append(line.Lo, p.lo), append(line.Hi, p.hi)
					}
				}
				if len(line.X) > 0 {
					pan.Lines = append(pan.Lines, line)
					seeds = seeds || several
				}
			}
		}
		if len(pan.Lines) > 0 {
			pic.Panels = append(pic.Panels, pan)
		}
	}
	var said []string
	for _, t := range temperatures {
		if t == 0 {
			said = append(said, "solid: greedy")
		} else {
			said = append(said, fmt.Sprintf("dashed: sampled at temperature %g", t))
		}
	}
	if seeds {
		said = append(said, "mean of the seeds that have the iteration, band from the lowest to the highest")
	}
	pic.Subtitle = "A small sample of tasks, looked at now and then; 0 is the start. " + upperFirst(strings.Join(said, "; ")) + "."
	return pic, len(pic.Panels) > 0
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Ends is a table of the first, the highest and the last eval point of each recipe, on each split and at each temperature.
func (rs Reinforcements) Ends(of suite.TitledColumn) *table.Table {
	out := table.New(3, "recipe", "watched tasks", "decoding", "at the start", "highest", "at the end")
	recipes, splits, temperatures := rs.evaluated()
	for _, recipe := range recipes {
		for _, split := range splits {
			for _, temperature := range temperatures {
				points := rs.points(recipe, split, temperature, of.Column)
				if len(points) == 0 {
					continue
				}
				first, last, top := points[0], points[len(points)-1], points[0]
				for _, p := range points {
					if p.mean > top.mean {
						top = p
					}
				}
				decoding := "greedy"
				if temperature != 0 {
					decoding = fmt.Sprintf("sampled at %g", temperature)
				}
				out.Add(recipe, split, decoding, fmt.Sprintf("%.3f", first.mean), fmt.Sprintf("%.3f (%d)", top.mean, top.iteration), fmt.Sprintf("%.3f (%d)", last.mean, last.iteration))
			}
		}
	}
	return out
}
