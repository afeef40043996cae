package stage

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// studies puts what goes beyond the tables into the run folder: ablations, loopholes, prices. What an earlier report left and this one has
// nothing for is removed. It returns the names of the files.
func (e *Env) studies(s suite.Suite, c *eval.Collector, trs []trajectory.Trajectory) ([]string, error) {
	files := map[string][]byte{"ablations.md": nil, "ablations.csv": nil, "hacking.md": nil, "hacking.csv": nil, "prices.md": nil, "prices.csv": nil}
	ablations, err := e.ablations(c)
	if err != nil {
		return nil, err
	}
	if len(ablations) > 0 {
		files["ablations.md"], files["ablations.csv"] = ablationsMarkdown(ablations, len(e.Config.TrainSeeds)), ablationsCSV(ablations)
	}
	hacks, examples := e.hacks(trs)
	if len(hacks) > 0 {
		files["hacking.md"], files["hacking.csv"] = hackingMarkdown(hacks, examples), hackingCSV(hacks)
	}
	shifts, err := e.shifts(trs)
	if err != nil {
		return nil, err
	}
	sources, err := e.twoSources(s, trs)
	if err != nil {
		return nil, err
	}
	files["prices.md"], files["prices.csv"] = e.pricesMarkdown(shifts, sources), pricesCSV(shifts, sources)
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
