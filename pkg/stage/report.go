package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/trajectory"
	"github.com/toolroute/toolroute/pkg/wholefile"
)

// pageEpisodes is how many episodes report.html lists: enough to browse, few enough to open at once.
const pageEpisodes = 3000

// Report computes the tables and pictures from every episode played so far and writes them into the run folder.
func (e *Env) Report(ctx context.Context) error {
	s, err := e.Suite(ctx)
	if err != nil {
		return err
	}
	files, err := e.episodeFiles(ctx)
	if err != nil {
		return err
	}
	if n := len(files.others); n > 0 {
		e.Logf("report: %d files of episodes of other settings are left out, such as %s", n, files.others[0])
	}
	if n := len(files.missing); n > 0 {
		e.Logf("report: %d files of episodes that these settings ask for are not there or not played to the end, such as %s: their rows are missing", n, files.missing[0])
	}
	trs, err := e.readEpisodes(files.asked)
	if err != nil {
		return err
	}
	if len(trs) == 0 {
		return errors.New("no episode was played with these settings: play the baselines or the evaluation first")
	}
	collected, err := eval.Collect(trs, e.Definition.Columns)
	if err != nil {
		return err
	}
	in := report.Input{
		Title: "Results: suite " + e.Options.Suite, Collected: collected, Headline: e.headline(trs), Budget: e.Config.Eval.BudgetModes[0], Decoding: "greedy",
		Bounds: []string{"oracle"}, Compare: e.TrainingSteps(), Trajectories: report.Sample(trs, pageEpisodes, e.Config.Seed),
		Options: e.EvalOptions(), Dimensions: e.Definition.Dimensions, Families: e.Definition.Families,
	}
	if in.Profiles, err = e.profiles(); err != nil {
		return err
	}
	if in.Training, err = e.Curves(); err != nil {
		return err
	}
	reinforcement, err := e.Reinforcement()
	if err != nil {
		return err
	}
	sources, err := e.sources(ctx, files)
	if err != nil {
		return err
	}
	err = e.Run.Renew(ctx, reportStage, e.reportKey(sources), func() ([]string, error) {
		for _, dir := range []string{"", "trajectories"} {
			if err := wholefile.Sweep(e.Run.Path(dir)); err != nil { // temporary files of a killed process
				return nil, err
			}
		}
		pictures, written, err := e.writeHistories(reinforcement)
		if err != nil {
			return nil, err
		}
		in.Pictures = pictures
		files, err := e.studies(s, collected, trs)
		if err != nil {
			return nil, err
		}
		written = append(written, files...)
		m, err := e.manifest(sources)
		if err != nil {
			return nil, err
		}
		m.Notes = append(m.Notes, brokenOff(trs)...)
		in.Notes = m.Notes
		if in.Manifest, err = json.MarshalIndent(m, "", "  "); err != nil {
			return nil, err
		}
		err = e.Making(".", func() error {
			files, err = report.Write(e.Run.Dir, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		written = append(written, files...)
		return append(written, manifestFile), run.WriteJSON(e.Run.Path(manifestFile), m)
	})
	if err != nil {
		return err
	}
	e.Logf("report: %s (%d episodes of suite %s)", e.Run.Path("report.html"), len(trs), s.Name())
	return nil
}

const (
	reportStage  = "report"
	manifestFile = "manifest.json"
)

// sources are the records of the stages that a report is made of, by name: data set, tokenizer, policies, profiles, episodes. An output that was
// changed after its stage wrote it is an error.
func (e *Env) sources(ctx context.Context, files episodeFiles) (map[string]run.StageRecord, error) {
	out := map[string]run.StageRecord{}
	var errs []error
	add := func(f run.Folder, stage string) {
		r, err := f.Record(stage)
		if err == nil {
			out[stage] = r
		} else if !errors.Is(err, run.ErrNotDone) {
			errs = append(errs, err)
		}
	}
	if err := e.World(ctx); err != nil {
		return nil, err
	}
	add(e.Data, worldStage)
	for _, s := range e.root().plan() {
		add(e.Run, s.Name)
	}
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			stages, err := e.trainingStages(name, seed)
			if err != nil {
				return nil, err
			}
			for _, s := range stages {
				add(e.Run, s)
			}
		}
	}
	profiles, _, err := e.storedProfiles()
	if err != nil {
		return nil, err
	}
	for _, f := range profiles {
		add(e.Run, profileStage(f))
	}
	for _, f := range files.asked {
		add(e.Run, playStage(f))
	}
	return out, errors.Join(errs...)
}

// trainingStages lists the stages that made a policy. It lists none if there is no such policy with these settings.
func (e *Env) trainingStages(name string, seed uint64) ([]string, error) {
	t, err := e.trained(name, seed)
	if errors.Is(err, run.ErrNotDone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if t.Chosen != "" {
		above, err := e.trainingStages(t.Chosen, seed)
		return append(above, e.folder(seed, name)), err
	}
	if _, taken := e.Taken(name, seed); taken {
		return []string{e.folder(seed, name)}, nil
	}
	line, err := e.lineage(name)
	for i := range line {
		line[i] = e.folder(seed, line[i])
	}
	return line, err
}

// reportKey is the hash of what decides a report: the records of its sources, and the settings without those of publication.
func (e *Env) reportKey(sources map[string]run.StageRecord) string {
	cfg := e.Config
	cfg.Checkpoints, cfg.Publish = config.Checkpoints{}, ""
	parts := []any{"report", cfg}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		parts = append(parts, name, sources[name].Key, sources[name].Outputs)
	}
	return run.Key(parts...)
}

// Methods is the order of the rows: baselines as configured, then learned methods as trained.
func (e *Env) Methods() []string {
	out := e.Config.Scripted()
	for _, name := range e.Config.Train {
		if m := e.Config.Recipes[name].Method; m != "" && e.Config.Asked(m) {
			out = append(out, m)
		}
	}
	return out
}

// headline is the configured method. If it was not played, the last played method takes its place.
func (e *Env) headline(trs []trajectory.Trajectory) string {
	played := func(m string) bool {
		return slices.ContainsFunc(trs, func(t trajectory.Trajectory) bool { return t.Method == m })
	}
	if played(e.Config.Eval.Headline) {
		return e.Config.Eval.Headline
	}
	all := e.Methods()
	for i := len(all) - 1; i >= 0; i-- {
		if played(all[i]) && all[i] != "oracle" {
			return all[i]
		}
	}
	return ""
}

// Curves reads the metrics of every training run.
func (e *Env) Curves() ([]report.TrainingRun, error) {
	var out []report.TrainingRun
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			recs, err := e.metrics(name, seed)
			if errors.Is(err, run.ErrNotDone) {
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

// metrics reads the log of a policy's training. The error is [run.ErrNotDone] for a policy that was not trained to the end with these settings.
func (e *Env) metrics(name string, seed uint64) ([]report.MetricsRecord, error) {
	if _, err := e.trained(name, seed); err != nil {
		return nil, err
	}
	dir := e.folder(seed, name)
	b, err := e.Run.Read(dir, filepath.Join(dir, metricsFile))
	if err != nil {
		return nil, err
	}
	recs, err := report.ReadMetrics(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Run.Path(dir, metricsFile), err)
	}
	return recs, nil
}

// manifest says how the results came about: settings, revisions and inputs of the stages they are made of, and notes on what is missing.
func (e *Env) manifest(sources map[string]run.StageRecord) (run.Manifest, error) {
	m := run.NewManifest(e.Options.Suite, e.Options.Profile, e.Config.TrainSeeds, e.Config, e.Run.Revision)
	m.AddStages(sources)
	sum, err := e.dataKey()
	if err != nil {
		return m, err
	}
	m.Inputs["data/"+e.Options.Suite+"/manifest.json"] = sum
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			if why, no := e.refused(name, seed); no {
				m.Notes = append(m.Notes, why)
			} else if t, err := e.trained(name, seed); err != nil && !errors.Is(err, run.ErrNotDone) {
				return m, err
			} else if err == nil {
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
	return m, nil
}
