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
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// studies puts what goes beyond the tables into the run folder: ablations, loopholes, prices. What an earlier report left and this one has
// nothing for is removed. It returns the names of the files.
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
	shifted := e.shiftedPrices()
	shifts, err := study.Shifts(trs, shifted, in)
	if err != nil {
		return nil, err
	}
	two, err := e.twoSources(s)
	if err != nil {
		return nil, err
	}
	sources := study.SourceUses(trs, two, in)
	files["prices.md"], files["prices.csv"] = study.PricesMarkdown(shifts, shifted, sources), study.PricesCSV(shifts, shifted.Split, sources, two.Split)
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

// shiftedPrices is the split of shifted prices.
func (e *Env) shiftedPrices() study.Shifted {
	out := study.Shifted{Split: TestPrices, Usual: company.Test, Origin: company.Origin}
	for _, t := range company.Tools {
		usual := e.Config.Company.Prices[t]
		now, ok := e.Config.Eval.ShiftedPrices[t]
		if !ok {
			now = usual
		}
		out.Prices = append(out.Prices, study.PriceChange{Tool: t, Now: now, Usual: usual})
	}
	return out
}

// twoSources is the split of facts that stand in both corpora; without tasks where it is not evaluated.
func (e *Env) twoSources(s suite.Suite) (study.TwoSources, error) {
	out := study.TwoSources{Split: company.TwoSourceTest, Tools: [2]string{company.ToolDoc, company.ToolWeb}, Prices: map[string]string{}}
	if !slices.Contains(e.Splits(), company.TwoSourceTest) {
		return out, nil
	}
	tasks, err := s.Tasks(company.TwoSourceTest)
	for _, t := range tasks {
		out.Prices[t.ID] = company.PriceList(t)
	}
	return out, err
}
