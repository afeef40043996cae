package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/train"
)

// demonstrations returns a recipe's demonstrations, played. Those of further worlds come after those of the run's own.
func (e *Env) demonstrations(ctx context.Context, r config.Recipe, seed uint64) ([]tiny.Played, error) {
	var all []tiny.Played
	err := e.eachWorld(ctx, r, func(w suite.Suite) error {
		demos, err := w.Demonstrations(ctx, r.Demos, seed)
		if err != nil {
			return err
		}
		if demos, err = picked(demos, r, seed, func(d suite.Demonstration) suite.Task { return d.Task }); err != nil {
			return err
		}
		played, err := tiny.Play(ctx, w, demos, e.Config.Episode)
		all = append(all, played...)
		return err
	})
	return all, err
}

// preferences returns a recipe's preferences, both sides played: chosen and rejected have as many.
func (e *Env) preferences(ctx context.Context, r config.Recipe, seed uint64) (chosen, rejected []tiny.Played, err error) {
	err = e.eachWorld(ctx, r, func(w suite.Suite) error {
		from, ok := w.(suite.Preferrer)
		if !ok {
			return fmt.Errorf("suite %s has no preferences to learn from", w.Name())
		}
		prefs, err := from.Preferences(ctx, r.Pairs, seed)
		if err != nil {
			return err
		}
		if prefs, err = picked(prefs, r, seed, func(p suite.Preference) suite.Task { return p.Task }); err != nil {
			return err
		}
		var first, second []suite.Demonstration
		for _, p := range prefs {
			first, second = append(first, suite.Demonstration{Task: p.Task, Calls: p.Chosen}), append(second, suite.Demonstration{Task: p.Task, Calls: p.Rejected})
		}
		for _, side := range []struct {
			demos []suite.Demonstration
			to    *[]tiny.Played
		}{{first, &chosen}, {second, &rejected}} {
			played, err := tiny.Play(ctx, w, side.demos, e.Config.Episode)
			if err != nil {
				return err
			}
			*side.to = append(*side.to, played...)
		}
		return nil
	})
	return chosen, rejected, err
}

// eachWorld hands the run's own world, and then the further ones of a recipe, to a function.
func (e *Env) eachWorld(ctx context.Context, r config.Recipe, do func(w suite.Suite) error) error {
	s, err := e.Suite(ctx)
	if err != nil {
		return err
	}
	worlds := []suite.Suite{s}
	if r.Worlds > 0 {
		more, err := e.Definition.ExtraWorlds(s, 0, r.Worlds)
		if err != nil {
			return err
		}
		defer closeAll(more)
		worlds = append(worlds, more...)
	}
	for _, w := range worlds {
		if err := do(w); err != nil {
			return err
		}
	}
	return nil
}

// picked returns the items of a world that a recipe trains on: those that need few enough tools, or a random part of them in the same order.
func picked[T any](all []T, r config.Recipe, seed uint64, task func(T) suite.Task) ([]T, error) {
	if r.MaxTools > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(x T) bool { return len(task(x).Combination) > r.MaxTools })
		if len(all) == 0 {
			return nil, fmt.Errorf("max_tools is %d: no %q demonstration has a combination of so few tools", r.MaxTools, r.Demos+r.Pairs)
		}
	}
	if r.Rows == 0 || r.Rows >= len(all) {
		return all, nil
	}
	order := rng.New(seed, "train/rows").Perm(len(all))[:r.Rows]
	slices.Sort(order)
	out := make([]T, len(order))
	for i, at := range order {
		out[i] = all[at]
	}
	return out, nil
}

// closeAll removes the files of further worlds. They are temporary ones, so an error has no consequence.
func closeAll(worlds []suite.Suite) {
	for _, w := range worlds {
		if c, ok := w.(io.Closer); ok {
			c.Close()
		}
	}
}

// firstRollout numbers the first further world that reinforcement plays in. No recipe imitates a world of so high a number, because nearly
// all attempts at imitated tasks succeed and leave little to learn. All recipes play in the same worlds.
const firstRollout = 1000

// rolloutWorlds returns the suites whose train tasks a recipe of reinforcement learning plays: its further worlds, or else the run's own
// world. done closes the further worlds.
func (e *Env) rolloutWorlds(ctx context.Context, name string) (worlds []suite.Suite, done func(), err error) {
	s, err := e.Suite(ctx)
	n := e.ownWorlds(name)
	if err != nil || n == 0 {
		return []suite.Suite{s}, func() {}, err
	}
	if worlds, err = e.Definition.ExtraWorlds(s, firstRollout, n); err != nil {
		return nil, nil, err
	}
	return worlds, func() { closeAll(worlds) }, nil
}

// ownWorlds is how many further worlds a recipe plays in.
func (e *Env) ownWorlds(name string) int {
	if r := e.Config.Recipes[name]; algorithmOf(r).gated {
		return r.Worlds
	}
	return 0
}

// sftConfig is the training configuration of a recipe that imitates. With tokens_of the length follows from the other policy's tokens.
// Until that policy is trained the length is 0, which no finished step has in its key.
func (e *Env) sftConfig(name string, seed uint64) train.SFTConfig {
	cfg := e.Config.SFT
	if e.Config.Recipes[name].TokensOf != "" {
		cfg.Run.TrainTokens, _ = e.tokensLeft(name, seed)
	}
	return cfg
}

// tokensLeft are the tokens that a recipe with tokens_of has to train: those of the other policy less those of its own parent.
func (e *Env) tokensLeft(name string, seed uint64) (int64, error) {
	r := e.Config.Recipes[name]
	total := func(of string) (int64, error) {
		t, err := e.Result(of, seed)
		if err != nil { // a committed checkpoint that is not taken yet says how long it was trained
			var c Trained
			if run.ReadJSON(filepath.Join(e.committedDir(of), "result.json"), &c) != nil || c.Seed != seed {
				return 0, err
			}
			t = c
		}
		return t.TotalTokens, nil
	}
	goal, err := total(r.TokensOf)
	if err != nil {
		return 0, fmt.Errorf("recipes.%s.tokens_of: %w", name, err)
	}
	have, err := total(r.From)
	if err != nil {
		return 0, err
	}
	if goal <= have {
		return 0, fmt.Errorf("recipes.%s.tokens_of: %s has %d trained tokens, no more than the %d of %s, which the recipe goes on from", name, r.TokensOf, goal, have, r.From)
	}
	return goal - have, nil
}

// candidates lists recipes, with every choosing recipe replaced by the ones it chooses from.
func (e *Env) candidates(names ...string) []string {
	var out []string
	for _, name := range names {
		of := e.Config.Recipes[name].Choose
		if len(of) == 0 {
			of = []string{name}
		}
		for _, n := range of {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// noneToChoose reports whether the gate refused every candidate of a choosing recipe.
func (e *Env) noneToChoose(name string, seed uint64) (why string, no bool) {
	of := e.Config.Recipes[name].Choose
	for _, c := range of {
		if why, no = e.refused(c, seed); !no {
			return "", false
		}
	}
	return why, no
}

// choice is what a choosing recipe takes.
type choice struct {
	best    string
	reward  float64 // mean on val
	decided []any   // the stage's key is its hash
}

// choiceAmong takes the candidate whose kept iteration has the greatest mean reward on val, played greedily. Of equal candidates it takes
// the first. It reads no test split.
func (e *Env) choiceAmong(candidates []string, seed uint64) (choice, error) {
	c := choice{decided: []any{"choose", 1}}
	for _, of := range candidates {
		r, err := e.onVal(of, seed)
		if err != nil {
			return choice{}, err
		}
		t, err := e.Result(of, seed)
		if err != nil {
			return choice{}, err
		}
		c.decided = append(c.decided, of, t.Weights, r)
		if c.best == "" || r > c.reward {
			c.best, c.reward = of, r
		}
	}
	return c, nil
}

// choose makes the policy of a choosing recipe: a copy of the chosen candidate. Candidates that the gate refused are left out.
func (e *Env) choose(ctx context.Context, name string, seed uint64) error {
	var candidates []string
	var refused error
	for _, of := range e.Config.Recipes[name].Choose {
		if err := e.TrainRecipe(ctx, of, seed); errors.Is(err, ErrNoGo) {
			refused = err
		} else if err != nil {
			return err
		} else {
			candidates = append(candidates, of)
		}
	}
	if len(candidates) == 0 {
		return fmt.Errorf("%s: nothing to choose from: %w", name, refused)
	}
	c, err := e.choiceAmong(candidates, seed)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, run.Key(c.decided...), func() ([]string, error) {
		e.Logf("  %s (seed %d): %s, mean reward %.3f on val", name, seed, c.best, c.reward)
		t, err := e.Result(c.best, seed)
		if err != nil {
			return nil, err
		}
		var files []string
		for _, f := range modelFiles {
			b, err := os.ReadFile(e.Run.Path(e.folder(seed, c.best), below(f)))
			if err != nil {
				return nil, err
			}
			to := filepath.Join(dir, below(f))
			if err := run.WriteFile(e.Run.Path(to), b); err != nil {
				return nil, err
			}
			files = append(files, to)
		}
		t.Recipe, t.Chosen, t.ChosenBy = name, c.best, c.reward
		result := filepath.Join(dir, "result.json")
		return append(files, result), run.WriteJSON(e.Run.Path(result), t)
	})
}

// onVal is the mean reward on val, greedy, of the iteration that a run of reinforcement learning kept.
func (e *Env) onVal(name string, seed uint64) (float64, error) {
	points, err := e.evalPoints(name, seed)
	if err != nil {
		return 0, fmt.Errorf("%s, seed %d: what it did on val is not known: %w", name, seed, err)
	}
	own, err := e.Config.For(name)
	if err != nil {
		return 0, err
	}
	found, kept := false, 0.0
	for _, p := range points {
		r, ok := p.Get("reward_mean")
		if !ok || p.Split != e.Definition.Val || p.Temperature != 0 {
			continue
		}
		if !found || !own.GRPO.KeepBest || r >= kept {
			found, kept = true, r
		}
	}
	if !found {
		return 0, fmt.Errorf("%s, seed %d: it was never evaluated on val; set grpo.eval_every", name, seed)
	}
	return kept, nil
}
