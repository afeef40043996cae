package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suites"
)

// Options are what a user chooses on the command line or in the settings cell of a notebook; the names of the flags are
// the same. The zero value is the default profile of the company suite.
type Options struct {
	Suite      string   // company or chain
	Profile    string   // smoke, default, full, ...
	Model      string   // a name of the table models in the settings
	Seed       uint64   // 0: the settings' own
	ConfigFile string   // a YAML file of settings
	Set        []string // assignments, such as eval.attempts=8
	Data       string   // folder of data sets; empty: data, or the run's own folder for a profile of small data
	Out        string   // folder of runs; empty: runs
	Stage      string   // only this stage, where a script runs several
	Fresh      bool     // forget what an earlier run left instead of resuming it
	Plan       bool     // list the stages instead of doing anything
	Log        io.Writer
	// Curve, if it is not nil, receives the metrics of a policy in training every few seconds.
	Curve func(report.TrainingRun)
}

// Env is a run in progress: its resolved settings, its folders, and what its stages share.
type Env struct {
	Options    Options
	Config     config.Config
	Definition suite.Definition // of the run's suite
	Run        run.Folder       // runs/<profile>/<suite>
	Data       run.Folder       // <data>/<suite>
	Results    string           // the folder of the suite's committed results

	*shared
	// An Env that the method with made has the settings of one recipe. recipeName is that recipe, and whole is the run with its own
	// settings. Both are empty in the run itself.
	whole      *Env
	recipeName string
}

// shared is the state of a run, which is the same under the settings of every recipe.
type shared struct {
	// tree returns the present revision of the project's folder. Run and Data hold the revision of the program.
	tree    func() string
	taking  string // why policies come from committed checkpoints; empty before that is decided
	made    bool   // the data set was made or found by this process
	backend *lm.Backend
	// worlds holds the opened suites, by the settings that each was opened with. A recipe can show the same data set in another way.
	worlds map[string]suite.Suite
}

// Open resolves the options. Nothing is written yet.
func Open(o Options) (*Env, error) {
	if o.Suite == "" {
		o.Suite = suites.All[0].Name
	}
	if o.Profile == "" {
		o.Profile = "default"
	}
	if o.Model == "" {
		o.Model = "tiny"
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if o.Seed != 0 {
		o.Set = append(o.Set[:len(o.Set):len(o.Set)], fmt.Sprintf("seed=%d", o.Seed))
	}
	d, err := suites.Find(o.Suite)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(o.Suite, o.Profile, o.ConfigFile, o.Set)
	if err != nil {
		return nil, err
	}
	if err := lm.CheckBackend(); err != nil {
		return nil, err
	}
	root, err := run.Root()
	if err != nil {
		return nil, err
	}
	if err := checkTemp(); err != nil {
		return nil, err
	}
	if o.Out == "" {
		o.Out = filepath.Join(root, "runs")
	}
	if o.Data == "" {
		o.Data = filepath.Join(root, "data")
		if cfg.OwnData {
			o.Data = filepath.Join(o.Out, o.Profile, "data")
		}
	}
	e := &Env{Options: o, Config: cfg, Definition: d, Results: filepath.Join(root, "results", o.Suite),
		Run: run.In(filepath.Join(o.Out, o.Profile, o.Suite), o.Log), Data: run.In(filepath.Join(o.Data, o.Suite), o.Log),
		shared: &shared{tree: func() string { return run.Revision(root) }, worlds: map[string]suite.Suite{}}}
	e.Run.Revision = e.tree()
	e.Data.Revision = e.Run.Revision
	if err := checkModel(o.Model, cfg); err != nil {
		return nil, err
	}
	if err := checkAlgorithms(d, cfg); err != nil {
		return nil, err
	}
	if err := checkSplits(d, cfg); err != nil {
		return nil, err
	}
	if o.Fresh {
		if err := e.Run.Remove(); err != nil {
			return nil, fmt.Errorf("forget the earlier run: %w", err)
		}
	}
	return e, nil
}

// checkTemp makes sure that temporary files can be written, which the suites and SQLite need: their own errors would not name the variable.
func checkTemp() error {
	dir, err := os.MkdirTemp("", "toolroute-*")
	if err != nil {
		return fmt.Errorf("no temporary file can be made in %s (%w): make that folder, or name another in TMPDIR", os.TempDir(), err)
	}
	return os.Remove(dir)
}

// Close frees what the stages shared.
func (e *Env) Close() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(e.worlds)) {
		if c, ok := e.worlds[key].(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	clear(e.worlds)
	return errors.Join(errs...)
}

// Logf writes a line for the user.
func (e *Env) Logf(format string, a ...any) { fmt.Fprintf(e.Options.Log, format+"\n", a...) }

// logOnce writes a line that the process has not written yet.
func (e *Env) logOnce(format string, a ...any) {
	if line := fmt.Sprintf(format, a...); e.Run.Once(line) {
		e.Logf("%s", line)
	}
}

// Suite returns the data set that World made, opened with the present settings. Settings that show it alike share one opened suite.
func (e *Env) Suite(ctx context.Context) (suite.Suite, error) {
	key := run.Key(e.Config.Suite.OpenKey(e.Config.Seed))
	if s, ok := e.worlds[key]; ok {
		return s, nil
	}
	if err := e.World(ctx); err != nil {
		return nil, err
	}
	s, err := e.Config.Suite.Open(e.Data.Dir, e.Config.Seed)
	if err != nil {
		return nil, err
	}
	e.worlds[key] = s
	return s, nil
}

// runSuite is the suite with the run's own settings, which evaluation plays. A recipe may train on another view of the data set.
func (e *Env) runSuite(ctx context.Context) (suite.Suite, error) {
	if e.whole != nil {
		return e.whole.Suite(ctx)
	}
	return e.Suite(ctx)
}

// worldStage is the name of the stage that makes the data set.
const worldStage = "world"

// worldKey is the hash of what decides the data set.
func (e *Env) worldKey() string { return run.Key(e.Config.Suite.DataKey(e.Config.Seed)) }

// World makes the data set: the stores, the tasks of all splits, the manifest.
func (e *Env) World(ctx context.Context) error {
	if e.made {
		return nil
	}
	err := e.Data.Stage(ctx, worldStage, e.worldKey(), func() ([]string, error) {
		if err := e.Config.Suite.Generate(e.Data.Dir, e.Config.Seed); err != nil {
			return nil, err
		}
		// The outputs are all files of the data set, so that a file that was cut or changed is made again.
		var m struct {
			Files map[string]any `json:"files"`
		}
		err := run.ReadJSON(e.Data.Path("manifest.json"), &m)
		return append(slices.Sorted(maps.Keys(m.Files)), "manifest.json"), err
	})
	e.made = err == nil
	return err
}

// dataKey identifies the data set in the keys of later stages.
func (e *Env) dataKey() (string, error) { return run.HashFile(e.Data.Path("manifest.json")) }

// Backend returns the backend that computes the learned policies. It opens the backend once.
func (e *Env) Backend() (*lm.Backend, error) {
	if e.backend != nil {
		return e.backend, nil
	}
	b, err := lm.OpenBackend("auto")
	if err != nil {
		return nil, err
	}
	e.Logf("backend: %s", b.Why)
	e.backend = b
	return b, nil
}

// Stores reads a piece of each of the suite's stores; ok is false for a suite without stores to show.
func (e *Env) Stores(ctx context.Context) (l suite.Stores, ok bool, err error) {
	if e.Definition.Stores == nil {
		return l, false, nil
	}
	if err := e.World(ctx); err != nil {
		return l, true, err
	}
	l, err = e.Definition.Stores(ctx, e.Data.Dir)
	return l, true, err
}
