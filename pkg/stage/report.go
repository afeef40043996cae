package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// pageEpisodes is how many episodes report.html lists: enough to browse, few enough to open at once.
const pageEpisodes = 3000

// Report computes the tables and pictures from every episode played so far and writes them into the run folder.
func (e *Env) Report(ctx context.Context) error {
	s, err := e.Suite(ctx)
	if err != nil {
		return err
	}
	files, others, missing, err := e.episodeFiles(ctx)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		e.Logf("report: %d files of episodes of other settings are left out, such as %s", len(others), others[0])
	}
	if len(missing) > 0 {
		e.Logf("report: %d files of episodes that these settings ask for are not there, such as %s: their rows are missing or of fewer tasks", len(missing), missing[0])
	}
	trs, err := readEpisodes(files)
	if err != nil {
		return err
	}
	if len(trs) == 0 {
		return errors.New("no episode was played with these settings: play the baselines or the evaluation first")
	}
	collected, err := eval.Collect(trs, e.kind.columns)
	if err != nil {
		return err
	}
	in := report.Input{
		Title: "Results: suite " + e.Options.Suite, Collected: collected, Headline: e.headline(trs), Budget: e.Config.Eval.BudgetModes[0], Decoding: "greedy",
		Bounds: []string{"oracle"}, Compare: e.trainingSteps(), Trajectories: report.Sample(trs, pageEpisodes, e.Config.Seed),
		Options: e.evalOptions(),
	}
	if in.Profiles, err = e.profiles(); err != nil {
		return err
	}
	if in.Training, err = e.curves(); err != nil {
		return err
	}
	reinforcement, err := e.reinforcement()
	if err != nil {
		return err
	}
	if in.Pictures, err = reinforcement.write(e); err != nil {
		return err
	}
	if err := e.studies(s, collected, trs); err != nil {
		return err
	}
	m, err := e.manifest(ctx)
	if err != nil {
		return err
	}
	m.Notes = append(m.Notes, brokenOff(trs)...)
	in.Notes = m.Notes
	if in.Manifest, err = json.MarshalIndent(m, "", "  "); err != nil {
		return err
	}
	if err := e.making(".", func() error { return report.Write(e.Run.Dir, in) }); err != nil {
		return err
	}
	if err := run.WriteJSON(e.Run.Path("manifest.json"), m); err != nil {
		return err
	}
	e.Logf("report: %s (%d episodes of suite %s)", e.Run.Path("report.html"), len(trs), s.Name())
	return nil
}

// methods is the order of the rows: baselines as configured, then learned methods as trained.
func (e *Env) methods() []string {
	out := e.Config.Scripted()
	for _, name := range e.Config.Train {
		if m := e.Config.Recipes[name].Method; m != "" && e.Config.Asked(m) {
			out = append(out, m)
		}
	}
	return out
}

// headline is the configured method if it was played, else the last one that was.
func (e *Env) headline(trs []trajectory.Trajectory) string {
	played := func(m string) bool {
		return slices.ContainsFunc(trs, func(t trajectory.Trajectory) bool { return t.Method == m })
	}
	if played(e.Config.Eval.Headline) {
		return e.Config.Eval.Headline
	}
	all := e.methods()
	for i := len(all) - 1; i >= 0; i-- {
		if played(all[i]) && all[i] != "oracle" {
			return all[i]
		}
	}
	return ""
}

// curves reads the metrics of every training run.
func (e *Env) curves() ([]report.TrainingRun, error) {
	var out []report.TrainingRun
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			recs, err := e.metrics(name, seed)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			label := name
			if len(e.Config.TrainSeeds) > 1 {
				label = fmt.Sprintf("%s, seed %d", name, seed)
			}
			out = append(out, report.TrainingRun{Name: label, Records: recs})
		}
	}
	return out, nil
}

// metrics reads what was logged while a policy was trained; fs.ErrNotExist where it was not.
func (e *Env) metrics(name string, seed uint64) ([]report.MetricsRecord, error) {
	b, err := os.ReadFile(e.Run.Path(e.folder(seed, name), "metrics.jsonl"))
	if err != nil {
		return nil, err
	}
	recs, err := report.ReadMetrics(b)
	if err != nil {
		file := e.Run.Path(e.folder(seed, name), "metrics.jsonl")
		return nil, fmt.Errorf("%s is damaged (%w): delete the broken line, or its folder to train %s again", file, err, name)
	}
	return recs, nil
}

// manifest says how the results came about.
func (e *Env) manifest(context.Context) (run.Manifest, error) {
	m := run.NewManifest(e.Options.Suite, e.Options.Profile, e.Config.TrainSeeds, e.Config)
	sum, err := e.dataKey()
	if err != nil {
		return m, err
	}
	m.Inputs["data/"+e.Options.Suite+"/manifest.json"] = sum
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			if why, no := e.refused(name, seed); no {
				m.Notes = append(m.Notes, why)
			} else if t, err := e.Result(name, seed); err == nil {
				if v, no := e.noGo(name, seed); no {
					m.Notes = append(m.Notes, fmt.Sprintf("%s, seed %d: trained all the same (recipes.%s.override), %s", name, seed, name, v))
				}
				if t.Stopped != "" {
					m.Notes = append(m.Notes, fmt.Sprintf("%s, seed %d: training was broken off after %d updates (%s); the row is of the policy kept before", name, seed, t.Steps, t.Stopped))
				}
				if t.Kept != nil && *t.Kept == 0 {
					m.Notes = append(m.Notes, fmt.Sprintf("%s, seed %d: no iteration was better on val than the start, which is the policy kept", name, seed))
				}
				m.Backend = cmp.Or(m.Backend, t.Backend)
				m.Inputs[filepath.ToSlash(filepath.Join(e.folder(seed, name), "model.safetensors"))] = t.Weights
			}
		}
	}
	m.Notes = append(m.Notes, e.takenNotes()...)
	if e.backend != nil {
		m.Backend = e.backend.Kind
	} else {
		// Nothing was computed by this process: the report was made again from stored episodes.
		var old run.Manifest
		if err := run.ReadJSON(e.Run.Path("manifest.json"), &old); err == nil {
			m.Backend = cmp.Or(old.Backend, m.Backend)
		}
	}
	if m.Seconds, err = e.Run.Seconds(); err != nil {
		return m, err
	}
	for name, s := range m.Seconds {
		m.Seconds[name] = math.Round(s*10) / 10
	}
	return m, nil
}
