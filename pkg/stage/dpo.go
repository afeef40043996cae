package stage

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/train"
)

// dpo trains a policy on preferences, against its parent as the frozen reference.
func (e *Env) dpo(ctx context.Context, name string, seed uint64, parent Trained) error {
	r, cfg := e.Config.Recipes[name], e.Config.DPO
	key, err := e.key(name, seed, parent.Weights)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		pairs, err := e.pairs(ctx, name, seed, cfg.Batch.Lengths)
		if err != nil {
			return nil, err
		}
		if err := e.Run.Claim(dir, key, dir); err != nil { // only after the pairs are made, as it removes files of other settings
			return nil, err
		}
		pairs, val := apart(pairs, seed)
		m, err := e.load(r.From, seed)
		if err != nil {
			return nil, err
		}
		cfg.Run.Seed, cfg.Run.Dir, cfg.Run.Resume = seed, e.Run.Path(dir), true
		bar := run.NewProgress(e.Options.Log, fmt.Sprintf("  %s (seed %d):", name, seed), 0)
		curve := e.curveOf(name, seed)
		steps, err := cfg.Steps(pairs)
		if err != nil {
			return nil, err
		}
		cfg.Run.Progress = func(l train.StepLog) error {
			loss, _ := l.Get("loss")
			right, _ := l.Get("rewards/accuracies")
			margin, _ := l.Get("rewards/margins")
			bar.Set(l.Step, steps, fmt.Sprintf("loss %.3f, preference accuracy %.3f, margin %.3f", loss, right, margin))
			curve.grown(l.Step == steps)
			return nil
		}
		sum, err := train.DPO(ctx, m, pairs, val, cfg)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", name, seed, err)
		}
		t := Trained{Recipe: name, Seed: seed, Steps: sum.Steps, TrainedTokens: sum.TrainedTokens, Processed: sum.ProcessedTokens, Seconds: sum.Seconds, Demos: 2 * len(pairs)}
		if t.Stopped = sum.StoppedBy; t.Stopped != "" {
			e.Logf("  %s: broken off, %s; keeping step %d", name, t.Stopped, sum.Best.Step)
		}
		if sum.Best != nil {
			t.ValLoss = sum.Best.Value
			e.Logf("  validation loss %.4f at step %d", sum.Best.Value, sum.Best.Step)
		}
		files, err := e.finish(dir, m, t, parent)
		return append(files, filepath.Join(dir, metricsFile)), err
	})
}

// pairs are the preferences of a recipe as ids. Those that are longer than the longest row, which holds the common prefix once and the rest of
// both sides, are left out, and counted.
func (e *Env) pairs(ctx context.Context, name string, seed uint64, lengths []int) ([]train.Pair, error) {
	c, err := e.root().codec()
	if err != nil {
		return nil, err
	}
	chosen, rejected, err := e.preferences(ctx, e.Config.Recipes[name], seed)
	if err != nil {
		return nil, err
	}
	first, err := tiny.Examples(c, chosen)
	if err != nil {
		return nil, err
	}
	second, err := tiny.Examples(c, rejected)
	if err != nil {
		return nil, err
	}
	longest := slices.Max(append([]int{0}, lengths...))
	var out []train.Pair
	for i := range first {
		if p := (train.Pair{ID: fmt.Sprintf("%s/%d", chosen[i].Trajectory.Task.ID, i), Chosen: first[i], Rejected: second[i]}); p.Len() <= longest {
			out = append(out, p)
		}
	}
	left := len(first) - len(out)
	if len(out) == 0 || float64(left) > tooLong*float64(len(first)) {
		return nil, fmt.Errorf("%d of %d preferences are longer than the longest row, %d tokens: raise dpo.batch.lengths", left, len(first), longest)
	}
	if left > 0 {
		e.Logf("  %s: %d of %d preferences are longer than %d tokens and are left out", name, left, len(first), longest)
	}
	return out, nil
}
