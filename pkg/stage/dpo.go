package stage

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/train"
)

// dpo trains a policy on preferences, against its parent as the frozen reference.
func (e *Env) dpo(ctx context.Context, name string, seed uint64, parent Trained) error {
	cfg := e.Config.DPO
	return trainOffline(ctx, e, name, seed, parent, offline[train.Pair]{
		run: cfg.Run, demos: 2,
		examples: func() ([]train.Pair, error) { return e.pairs(ctx, name, seed, cfg.Batch.Lengths) },
		fit: func(m *lm.Model, rest, val []train.Pair, r train.RunConfig) (train.Summary, error) {
			cfg.Run = r
			return train.DPO(ctx, m, rest, val, cfg)
		},
		steps: func(rest []train.Pair, r train.RunConfig) (func(train.StepLog) int, error) {
			cfg.Run = r
			steps, err := cfg.Steps(rest)
			return func(train.StepLog) int { return steps }, err
		},
		shown: func(l train.StepLog) string {
			loss, _ := l.Get("loss")
			right, _ := l.Get("rewards/accuracies")
			margin, _ := l.Get("rewards/margins")
			return fmt.Sprintf("loss %.3f, preference accuracy %.3f, margin %.3f", loss, right, margin)
		},
	})
}

// pairs are the preferences of a recipe as ids, each at the first step where its sides differ. Those that are longer than the longest row, which holds the common prefix once and the rest of
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
	var out []train.Pair
	for i := range first {
		out = append(out, train.Pair{ID: fmt.Sprintf("%s/%d", chosen[i].Trajectory.Task.ID, i), Chosen: first[i], Rejected: second[i]}.FirstDifference())
	}
	return fitting(e, name, "preferences", "dpo", out, train.Pair.Len, lengths)
}
