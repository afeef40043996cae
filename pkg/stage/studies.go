package stage

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/study"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// studies writes what goes beyond the tables into the run folder: ablations, loopholes, prices. It removes a file of an earlier report for
// which there is no content now. It returns the names of the files.
func (e *Env) studies(s suite.Suite, c *eval.Collector, trs []trajectory.Trajectory) ([]string, error) {
	files := map[string][]byte{"ablations.md": nil, "ablations.csv": nil, "hacking.md": nil, "hacking.csv": nil, "prices.md": nil, "prices.csv": nil}
	in := e.scope()
	ablations, err := study.Ablations(c, e.changes(), in)
	if err != nil {
		return nil, err
	}
	if len(ablations) > 0 {
		files["ablations.md"], files["ablations.csv"] = study.AblationsMarkdown(ablations, len(e.Config.TrainSeeds)), study.AblationsCSV(ablations)
	}
	if hacks, examples := study.Hacks(trs, e.learned, e.parentOf, in); len(hacks) > 0 {
		files["hacking.md"], files["hacking.csv"] = study.HackingMarkdown(hacks, examples), study.HackingCSV(hacks)
	}
	p, err := e.prices(s, trs, in)
	if err != nil {
		return nil, err
	}
	files["prices.md"], files["prices.csv"] = study.PricesMarkdown(p.shifts, p.shifted, p.how, p.sources), study.PricesCSV(p.shifts, p.shifted, p.sources, p.twoSources)
	return e.put(files)
}

// put writes files of the report into the run folder, and removes those without content, which an earlier report may have left. It
// returns the names of those written.
func (e *Env) put(files map[string][]byte) (written []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if b := files[name]; b != nil {
			if err := run.WriteFile(e.Run.Path(name), b); err != nil {
				return nil, err
			}
			written = append(written, name)
		} else if err := os.Remove(e.Run.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return written, nil
}

// scope is what all studies of the run share.
func (e *Env) scope() study.Scope {
	return study.Scope{Options: e.EvalOptions(), Budget: e.Config.Eval.BudgetModes[0]}
}

// learned tells learned methods from scripted ones.
func (e *Env) learned(method string) bool { return !e.IsBaseline(method) }

// changes are the recipes that say what they change, after those that they are compared with, each in the order of training.
func (e *Env) changes() (out []study.Change) {
	var compared, all []string
	for _, name := range e.Config.Train {
		if r := e.Config.Recipes[name]; r.Ablation != "" {
			all = append(all, name)
			if !slices.Contains(compared, r.Against) && e.Config.Recipes[r.Against].Ablation == "" {
				compared = append(compared, r.Against)
			}
		}
	}
	rank := func(name string) int {
		if at := slices.Index(e.Config.Train, name); at >= 0 {
			return at
		}
		return len(e.Config.Train)
	}
	slices.SortStableFunc(compared, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range compared {
		out = append(out, study.Change{Recipe: name, Method: e.Config.Recipes[name].Method})
	}
	for _, name := range all {
		p := e.changed(name)
		out = append(out, study.Change{Recipe: name, Method: p.Later, Changes: e.Config.Recipes[name].Ablation, Against: p.Baseline})
	}
	return out
}

// prices holds the studies of two splits, that of shifted prices and that of two sources. A split that is not evaluated has none.
type prices struct {
	shifted    string
	how        suite.Shifted
	shifts     []study.Shift
	twoSources string
	sources    []study.SourceUse
}

func (e *Env) prices(s suite.Suite, trs []trajectory.Trajectory, in study.Scope) (p prices, err error) {
	for _, f := range e.Config.Suite.DerivedSplits() {
		if !slices.Contains(e.Splits(), f.Name) {
			continue
		}
		if f.Shifted != nil {
			p.shifted, p.how = f.Name, *f.Shifted
			if p.shifts, err = study.Shifts(trs, f.Name, p.how, in); err != nil {
				return p, err
			}
		}
		if f.Sources != nil {
			lists := map[string]string{}
			tasks, err := s.Tasks(f.Name)
			if err != nil {
				return p, err
			}
			for _, t := range tasks {
				lists[t.ID] = f.Sources.Prices(t)
			}
			p.twoSources, p.sources = f.Name, study.SourceUses(trs, f.Name, f.Sources.Tools, lists, in)
		}
	}
	return p, nil
}
