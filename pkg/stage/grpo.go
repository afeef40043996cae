package stage

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
)

// historyFile is the file, in the folder of a reinforced policy, that holds its eval points over the iterations.
const historyFile = "history.csv"

// grpo trains a policy from its own episodes. The gate decides first whether to begin. Each iteration plays k attempts at each of some
// tasks, compares the rewards within each group, and updates the policy from the token ids that were sampled.
func (e *Env) grpo(ctx context.Context, name string, seed uint64, parent Trained) error {
	if err := e.gate(ctx, name, seed); err != nil {
		return err
	}
	key, err := e.key(name, seed, parent.Weights)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		if err := e.Run.Claim(dir, key, dir); err != nil {
			return nil, err
		}
		m, err := e.load(e.Config.Recipes[name].From, seed)
		if err != nil {
			return nil, err
		}
		l, done, err := e.loop(ctx, name, seed, m)
		if err != nil {
			return nil, err
		}
		defer done()
		r, err := l.Run(ctx)
		if err != nil {
			return nil, err
		}
		history := filepath.Join(dir, historyFile)
		if err := run.WriteFile(e.Run.Path(history), rl.HistoryCSV(r.History)); err != nil {
			return nil, err
		}
		files, err := e.finish(dir, m, Trained{Recipe: name, Seed: seed, Steps: r.Updates, TrainedTokens: r.Trained, Processed: r.Processed, Episodes: r.Episodes, Seconds: r.Seconds,
			Kept: r.Kept, Stopped: r.Stopped}, parent)
		return append(files, history, filepath.Join(dir, metricsFile)), err
	})
}

// loop opens the loop of reinforcement for a model, with the settings of a recipe. done closes the loop and its worlds; the caller closes
// the model.
func (e *Env) loop(ctx context.Context, name string, seed uint64, m *lm.Model) (l *rl.Loop, done func(), err error) {
	shown, err := e.runSuite(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := e.root().codec()
	if err != nil {
		return nil, nil, err
	}
	sets, err := e.evalSets(name, shown)
	if err != nil {
		return nil, nil, err
	}
	worlds, closeWorlds, err := e.trainWorlds(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	l, err = rl.Open(rl.Setup{
		Name: name, Seed: seed, Config: e.Config.GRPO, Worlds: worlds, EvalSets: sets, Evaluation: shown, Columns: e.Definition.Columns,
		Model: m, Engine: e.engineOptions(),
		Sampler: func(engine *lm.Engine, temperature float64) policy.Policy {
			return e.sampler(name, engine, c, temperature)
		},
		Episode: e.Config.Episode, Reward: e.Config.Reward, Slots: e.Config.Engine.Slots, MaxErrors: e.Config.MaxErrors,
		Dir: e.Run.Path(e.folder(seed, name)), Log: e.Options.Log, Updated: e.curveOf(name, seed).grown,
	})
	if err != nil {
		closeWorlds()
		return nil, nil, err
	}
	return l, func() { l.Close(); closeWorlds() }, nil
}

// trainWorlds are the worlds that a recipe plays in to train, with their train tasks.
func (e *Env) trainWorlds(ctx context.Context, name string) (worlds []rl.World, done func(), err error) {
	suites, done, err := e.rolloutWorlds(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range suites {
		tasks, err := s.Tasks(e.Definition.Train)
		if err != nil {
			done()
			return nil, nil, err
		}
		worlds = append(worlds, rl.World{Suite: s, Tasks: tasks})
	}
	return worlds, done, nil
}

// evalSets are the samples of val, which chooses the checkpoint, and of the held-out split that the settings name, if any.
func (e *Env) evalSets(name string, s suite.Suite) (sets []rl.EvalSet, err error) {
	for _, set := range []rl.EvalSet{{Prefix: "val_", Split: e.Definition.Val, SelectsBest: true}, {Prefix: "heldout_", Split: e.Config.GRPO.HeldoutSplit}} {
		if set.Split == "" {
			continue
		}
		if !slices.Contains(s.Splits(), set.Split) {
			e.Logf("  %s: the suite has no split %q to evaluate on while it trains", name, set.Split)
			continue
		}
		if set.Tasks, err = e.draw(s, set.Split, e.Config.GRPO.EvalTasks, e.Config.Seed); err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// gate asks whether reinforcement learning can work from the recipe's parent. It returns [ErrNoGo] if the answer is no and the recipe does
// not override it.
func (e *Env) gate(ctx context.Context, name string, seed uint64) error {
	r := e.Config.Recipes[name]
	p, err := e.Profile(ctx, r.From, seed)
	if err != nil {
		return err
	}
	if !p.Verdict.Go && !r.Override {
		return &noGoError{name, p.Verdict}
	}
	if !p.Verdict.Go {
		e.logOnce("  %s: trained all the same, as recipes.%s.override asks", name, name)
	}
	return nil
}
