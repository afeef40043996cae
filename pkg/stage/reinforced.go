package stage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/train"
)

// reinforced is what a run of reinforcement learning left behind for the report.
type reinforced struct {
	rl.History // without points where no history was kept
	lines      []report.MetricsRecord
	bounds     train.StopRule // of the report's warnings
}

type reinforcements []reinforced

// reinforcement reads the histories and metrics of the runs of reinforcement learning that the settings train, as far as
// they are there, by recipe and then by seed. With names, only those of these recipes.
func (e *Env) reinforcement(names ...string) (reinforcements, error) {
	var out reinforcements
	for _, name := range e.Config.Train {
		if !algorithmOf(e.Config.Recipes[name]).history || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		own, err := e.Config.For(name)
		if err != nil {
			return nil, err
		}
		for _, seed := range e.Config.SeedsOf(name) {
			r := reinforced{History: rl.History{Recipe: name, Seed: seed}, bounds: own.Warnings}
			if r.lines, err = e.metrics(name, seed); err != nil && !errors.Is(err, run.ErrNotDone) {
				return nil, err
			}
			if err == nil {
				if r.Points, err = e.evalPoints(name, seed); err != nil && !errors.Is(err, run.ErrNotDone) {
					return nil, err
				}
			}
			if len(r.lines) > 0 || len(r.Points) > 0 {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// evalPoints reads the history of a run of reinforcement learning; [run.ErrNotDone] where none was kept.
func (e *Env) evalPoints(name string, seed uint64) ([]rl.EvalPoint, error) {
	dir := e.folder(seed, name)
	file := filepath.Join(dir, historyFile)
	b, err := e.Run.Read(dir, file)
	if err != nil {
		return nil, err
	}
	points, err := rl.ReadHistory(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return points, nil
}

// write puts the table of all histories and the study of the warnings into the run folder, and returns the picture of the
// histories, with the names of the files. Without runs of reinforcement learning there is none of them, and what an earlier report
// left is removed.
func (rs reinforcements) write(e *Env) ([]report.Picture, []string, error) {
	files := map[string][]byte{historyFile: nil, "history.png": nil, "history.svg": nil, "warnings.csv": nil, "warnings.md": nil}
	var pictures []report.Picture
	if pic, ok := rs.picture(e.kind.rate); ok {
		files[historyFile] = rl.HistoriesCSV(rs.histories())
		delete(files, "history.png") // the report writes them
		delete(files, "history.svg")
		pictures = append(pictures, pic)
	}
	if ws := rs.warnings(); len(ws) > 0 {
		files["warnings.csv"], files["warnings.md"] = warningsCSV(ws), []byte("# Warnings of reinforcement learning\n\n"+warningsMarkdown(ws))
	}
	written, err := e.put(files)
	return pictures, written, err
}

// historyPoint is one figure of a recipe after some iterations: mean, least and greatest over its seeds.
type historyPoint struct {
	iteration    int
	mean, lo, hi float64
}

// histories are the eval points alone.
func (rs reinforcements) histories() (out []rl.History) {
	for _, r := range rs {
		out = append(out, r.History)
	}
	return out
}

// points are the figures of a recipe on a split at a temperature, over the seeds that have the iteration.
func (rs reinforcements) points(recipe, split string, temperature float64, column string) []historyPoint {
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

// watched lists what the histories hold, each in the order in which it first appears, but temperatures from greedy up.
func (rs reinforcements) watched() (recipes, splits []string, temperatures []float64) {
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

// picture draws the suite's rate over the iterations, a panel for each watched split; false where nothing was watched.
func (rs reinforcements) picture(of rate) (report.Picture, bool) {
	recipes, splits, temperatures := rs.watched()
	pic := report.Picture{Name: "history", Title: "Reinforcement learning, " + of.title + " on the watched tasks", Tall: true, Columns: min(2, len(splits))}
	seeds := false
	for _, split := range splits {
		pan := report.Panel{Title: split, X: "iteration", Y: of.title, Rate: true}
		for _, recipe := range recipes {
			several := len(slices.DeleteFunc(slices.Clone(rs), func(r reinforced) bool { return r.Recipe != recipe || len(r.Points) == 0 })) > 1
			for _, temperature := range temperatures {
				line := report.Line{Name: recipe, Dashed: temperature != 0}
				for _, p := range rs.points(recipe, split, temperature, of.column) {
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
