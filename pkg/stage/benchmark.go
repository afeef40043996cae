package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/benchmark"
	lmjudge "github.com/toolroute/toolroute/pkg/judge"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suites"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// BenchmarkOptions are what the script benchmark takes beside Options.
type BenchmarkOptions struct {
	Run       string // a run folder, or its name below Options.Out; empty is that of Options
	Policy    string // a recipe, the method of one, or a scripted method; empty is eval.headline
	TrainSeed uint64 // of a recipe; 0 is the first of train_seeds
	Split     string
	Budget    string // empty is the first of eval.budget_modes
	Limit     int    // tasks; 0 is all of the split
	Folder    string // of the benchmark; empty is one in the run folder that is named after the options above
	Against   string // folder of another benchmark that this one is compared with; empty is none
	Again     bool   // ask the judge once more for the verdicts that it did not give
	forget    bool   // what the folder holds
}

// The values of --stage.
const (
	benchmarkPlay     = "run"
	benchmarkEvaluate = "evaluate"
	benchmarkAll      = "all"
)

// BenchmarkFlags adds the flags of the script to those of every script.
func BenchmarkFlags(o *Options, b *BenchmarkOptions) func(*flag.FlagSet) {
	return func(fs *flag.FlagSet) {
		fs.StringVar(&b.Run, "run", b.Run, "the `run`: its folder, such as runs/default/company, or its name below runs, such as default (default: that of --profile)")
		fs.StringVar(&b.Policy, "recipe", b.Policy, "the `policy`: a recipe, its method, or a scripted method such as oracle (default: eval.headline)")
		fs.Uint64Var(&b.TrainSeed, "train-seed", b.TrainSeed, "the training `seed` of the recipe (default: the first of train_seeds)")
		fs.StringVar(&b.Split, "split", b.Split, "the `split` that is played")
		fs.StringVar(&b.Budget, "budget", b.Budget, "the budget `mode` it is played in (default: the first of eval.budget_modes)")
		fs.IntVar(&b.Limit, "limit", b.Limit, "play at most so many `tasks`, stratified; 0 is all")
		fs.StringVar(&b.Folder, "folder", b.Folder, "`folder` of the benchmark (default: one in the run folder)")
		fs.StringVar(&b.Against, "against", b.Against, "`folder` of another benchmark of the same tasks, with which this one is compared")
		fs.BoolVar(&b.Again, "again", b.Again, "with --stage evaluate: ask the judge once more for the verdicts that it did not give")
		fs.Func("judge-model", "the `model` that judges (judge.model)", assign(o, "judge.model"))
		fs.Func("judge-url", "the OpenAI-compatible `endpoint` of the judge (judge.base_url)", assign(o, "judge.base_url"))
		fs.Lookup("stage").Usage = "`run` plays, evaluate reads what was played, all does both (default all)"
	}
}

// assign is a flag that stands for a setting.
func assign(o *Options, key string) func(string) error {
	return func(v string) error {
		o.Set = append(o.Set, key+"="+v)
		return nil
	}
}

// DoBenchmark is Do for the script benchmark.
func DoBenchmark(o Options, b BenchmarkOptions) {
	if err := b.resolve(&o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	Do(o, func(ctx context.Context, e *Env) error { return e.Benchmark(ctx, b) })
}

// resolve finds the run folder that is asked for and sets o to it. A benchmark never forgets a run: --resume=false is about its own folder.
func (b *BenchmarkOptions) resolve(o *Options) error {
	b.forget, o.Fresh = o.Fresh, false
	switch o.Stage {
	case "":
		o.Stage = benchmarkAll
	case benchmarkPlay, benchmarkEvaluate, benchmarkAll:
	default:
		return fmt.Errorf("--stage: %q is none of %s, %s, %s", o.Stage, benchmarkPlay, benchmarkEvaluate, benchmarkAll)
	}
	switch {
	case b.forget && o.Stage == benchmarkEvaluate:
		return fmt.Errorf("--resume=false forgets what was played, so it does not go with --stage %s; --again asks the judge once more", benchmarkEvaluate)
	case b.Again && o.Stage == benchmarkPlay:
		return fmt.Errorf("--again is about the evaluation, so it does not go with --stage %s", benchmarkPlay)
	case b.Limit < 0:
		return fmt.Errorf("--limit is %d: it must be at least 0, which is all tasks", b.Limit)
	case b.Run == "":
		return nil
	}
	out := o.Out
	if out == "" {
		root, err := run.Root()
		if err != nil {
			return err
		}
		out = filepath.Join(root, "runs")
	}
	for _, dir := range []string{b.Run, filepath.Join(b.Run, o.Suite), filepath.Join(out, b.Run), filepath.Join(out, b.Run, o.Suite)} {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("--run: %w", err)
		}
		info, err := os.Stat(dir)
		suite := filepath.Base(dir)
		if err != nil || !info.IsDir() || !slices.Contains(suites.Names(), suite) {
			continue
		}
		if suite != o.Suite {
			return fmt.Errorf("--run: %s is a run of suite %s: add --suite %s", b.Run, suite, suite)
		}
		profile := filepath.Dir(dir)
		o.Out, o.Profile = filepath.Dir(profile), filepath.Base(profile)
		return nil
	}
	return fmt.Errorf("--run: %s is no run folder of suite %s, neither as a path nor below %s: a run folder is runs/<profile>/<suite>, and the script repro makes one", b.Run, o.Suite, out)
}

// Benchmark plays a policy on tasks of one split, evaluates what was played, or both.
func (e *Env) Benchmark(ctx context.Context, b BenchmarkOptions) error {
	p, err := e.benchmarked(b)
	if err != nil {
		return err
	}
	var f *benchmark.Folder
	if e.Options.Stage == benchmarkEvaluate {
		f, err = benchmark.Load(p.folder, e.Options.Log)
	} else {
		f, err = e.playBenchmark(ctx, p)
	}
	if err != nil || e.Options.Stage == benchmarkPlay {
		return err
	}
	return e.evaluateBenchmark(ctx, f, b)
}

// benchmarkPolicy is what a benchmark plays.
type benchmarkPolicy struct {
	episodeFile
	name   string // as Settings.Policy
	recipe string // empty for a scripted method
	limit  int
	folder string
	forget bool
}

// benchmarked resolves the options. It opens no model and no data set, so that states can be evaluated where there is neither.
func (e *Env) benchmarked(b BenchmarkOptions) (p benchmarkPolicy, err error) {
	name := b.Policy
	if name == "" {
		name = e.Config.Eval.Headline
	}
	p = benchmarkPolicy{limit: b.Limit, forget: b.forget}
	p.split, p.budget, p.decoding, p.k = b.Split, b.Budget, "greedy", 1
	recipe, ok := e.Config.Recipes[name]
	if !ok {
		for _, n := range slices.Sorted(maps.Keys(e.Config.Recipes)) { // of several recipes with one method, the one that the run trains
			if r := e.Config.Recipes[n]; r.Method == name && (!ok || slices.Contains(e.Config.Train, n)) {
				p.recipe, recipe, ok = n, r, true
			}
		}
	} else {
		p.recipe = name
	}
	label := ""
	if ok {
		p.method, p.name, p.seed, p.slots = recipe.Method, p.recipe, b.TrainSeed, e.Config.Engine.Slots
		if p.method == "" {
			p.method = p.recipe
		}
		if p.seed == 0 {
			p.seed = e.Config.TrainSeeds[0]
		}
		label = fmt.Sprintf(".seed%d", p.seed)
	} else {
		if _, scripted := methodNamed(name); !scripted && name != Oracle {
			return p, fmt.Errorf("--recipe: no policy is named %q; there are the recipes %s, and the scripted methods %s", name,
				strings.Join(slices.Sorted(maps.Keys(e.Config.Recipes)), ", "), namesWhere(func(m scriptedMethod) bool { return m.rules(e.Definition) != nil }))
		}
		if b.TrainSeed != 0 {
			return p, fmt.Errorf("--train-seed: %s is scripted and has no training seed", name)
		}
		p.method, p.name, p.seed, p.slots = name, name, e.Config.Seed, scriptedSlots
	}
	if have := evaluated(e.Definition, e.Config); !slices.Contains(have, p.split) {
		return p, fmt.Errorf("--split: no evaluated split is named %q; with these settings there are %s", p.split, strings.Join(have, ", "))
	}
	if p.budget == "" {
		p.budget = e.Config.Eval.BudgetModes[0]
	}
	if _, err := e.Rules(p.budget).Normalize(); err != nil {
		return p, fmt.Errorf("--budget: %w", err)
	}
	if p.folder = b.Folder; p.folder == "" {
		name := p.name + label + "." + p.split + "." + p.budget
		if p.limit > 0 {
			name += fmt.Sprintf(".%d", p.limit)
		}
		p.folder = e.Run.Path("benchmark", name)
	}
	return p, nil
}

// scriptedSlots are few, so that tasks end one after the other and an interrupted benchmark keeps them.
const scriptedSlots = 16

// playBenchmark opens the folder for what these settings make of the policy, and plays.
func (e *Env) playBenchmark(ctx context.Context, p benchmarkPolicy) (*benchmark.Folder, error) {
	s, err := e.Suite(ctx)
	if err != nil {
		return nil, err
	}
	data, err := e.dataKey()
	if err != nil {
		return nil, err
	}
	tasks, err := e.draw(s, p.split, p.limit, e.Config.Seed)
	if err != nil {
		return nil, err
	}
	set := benchmark.Settings{Suite: e.Options.Suite, Policy: p.name, Method: p.method, Split: p.split, Budget: p.budget, Limit: p.limit, Tasks: len(tasks), Seed: e.Config.Seed,
		Data: data, Shown: e.shown(), Episode: e.Rules(p.budget), Reward: e.Config.Reward, Versions: map[string]int{"records": trajectory.Version}}
	if f, ok := e.derived(p.split); ok {
		set.Further = f.Key
	}
	if p.recipe == "" {
		set.Model, set.Weights = "-", fmt.Sprintf("rules %d, min_score %v", scriptedVersion, e.Config.Baselines.MinScore)
		p.open = func() (policy.Policy, error) { return e.scripted(ctx, p.method, p.split) }
	} else {
		if why, no := e.refused(p.recipe, p.seed); no {
			return nil, fmt.Errorf("--recipe: %s", why)
		}
		t, err := e.trained(p.recipe, p.seed)
		if err != nil {
			return nil, fmt.Errorf("--recipe: %w", err)
		}
		set.Model, set.TrainSeed, set.Weights = e.Options.Model, p.seed, t.Weights
		player := player{env: e, name: p.recipe, method: p.method, seed: p.seed}
		defer player.close()
		p.open = func() (policy.Policy, error) { return player.policy(0) }
	}
	if p.forget {
		if err := run.In(p.folder, e.Options.Log).Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("forget the benchmark: %w", err)
		}
	}
	f, err := benchmark.Open(p.folder, set, e.Run.Revision, e.Options.Log)
	if err != nil {
		return nil, err
	}
	e.Logf("benchmark: %s", f.Dir)
	return f, f.Play(ctx, func(path string) error {
		pol, err := p.open()
		if err != nil {
			return err
		}
		return e.playTo(ctx, s, pol, p.episodeFile, tasks, path)
	})
}

// evaluateBenchmark evaluates the states of a folder. It reads no data set and opens no model.
func (e *Env) evaluateBenchmark(ctx context.Context, f *benchmark.Folder, b BenchmarkOptions) error {
	if s := f.Info.Settings.Suite; s != e.Options.Suite {
		return fmt.Errorf("%s is a benchmark of suite %s: add --suite %s", f.Dir, s, s)
	}
	by := benchmark.Summarising{Suite: e.Definition, Eval: e.EvalOptions()}
	var err error
	if b.Against != "" {
		if by.Against, err = benchmark.Load(b.Against, e.Options.Log); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
	}
	switch by.Judge, by.NotAsked, err = e.judge(); {
	case err != nil:
		return err
	case by.Judge == nil:
		e.Logf("no judge is asked, as %s: the figures are those of the programmatic check", by.NotAsked)
	}
	if err := f.Evaluate(ctx, benchmark.Evaluation{Judge: by.Judge, Parallel: e.Config.Judge.Parallel, Again: b.Again, Log: e.Options.Log}); err != nil {
		return err
	}
	if err := f.Summarise(ctx, by); err != nil {
		return err
	}
	e.Logf("summary: %s", f.Path(benchmark.SummaryMD))
	return nil
}

// judgeCache is the folder of the judge's answers, below that of the runs: benchmarks share it.
const judgeCache = "judge"

// judge opens the judge of the settings; nil with the reason where none is asked.
func (e *Env) judge() (j benchmark.Judge, why string, err error) {
	if e.Config.Judge.Model == "" {
		return nil, "judge.model is empty", nil
	}
	j, err = lmjudge.Open(e.Config.Judge, filepath.Join(e.Options.Out, judgeCache), e.Logf)
	if errors.Is(err, lmjudge.ErrNoKey) {
		return nil, "there is " + err.Error(), nil
	}
	return j, "", err
}
