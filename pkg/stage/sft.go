package stage

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/train"
)

// imitate trains on demonstrations. With tokens_of it first makes the other policy, and then trains for as many tokens.
func (e *Env) imitate(ctx context.Context, name string, seed uint64, parent Trained) error {
	if of := e.Config.Recipes[name].TokensOf; of != "" {
		if err := e.whole.TrainRecipe(ctx, of, seed); err != nil {
			return err
		}
		if _, err := e.tokensLeft(name, seed); err != nil {
			return err
		}
	}
	return e.sft(ctx, name, seed, parent)
}

// sft trains a policy on demonstrations.
func (e *Env) sft(ctx context.Context, name string, seed uint64, parent Trained) error {
	cfg := e.sftConfig(name, seed)
	return trainOffline(ctx, e, name, seed, parent, offline[train.Example]{
		run: cfg.Run, demos: 1,
		examples: func() ([]train.Example, error) {
			c, err := e.root().codec()
			if err != nil {
				return nil, err
			}
			played, err := e.demonstrations(ctx, e.Config.Recipes[name], seed)
			if err != nil {
				return nil, err
			}
			examples, err := tiny.Examples(c, played)
			if err != nil {
				return nil, err
			}
			return e.fittingRows(name, examples, cfg.Batch.Lengths)
		},
		fit: func(m *lm.Model, rest, val []train.Example, r train.RunConfig) (train.Summary, error) {
			cfg.Run = r
			source, err := e.root().replay(ctx, rest, rng.Seed64(seed, "train/rehearsal", name))
			if err != nil {
				return train.Summary{}, err
			}
			return train.SFT(ctx, m, source, val, cfg)
		},
		steps: func(_ []train.Example, r train.RunConfig) (func(train.StepLog) int, error) {
			return func(l train.StepLog) int {
				if r.TrainTokens == 0 {
					return r.MaxSteps
				}
				tokens, _ := l.Get("trained_tokens") // the number of steps is not known before: the share of the tokens stands for it
				return max(l.Step, int(float64(l.Step)*float64(r.TrainTokens)/max(1, tokens)))
			}, nil
		},
		shown: func(l train.StepLog) string {
			loss, _ := l.Get("loss")
			acc, _ := l.Get("accuracy")
			return fmt.Sprintf("loss %.3f, token accuracy %.3f", loss, acc)
		},
	})
}

// fittingRows are the demonstrations that fit the longest row.
func (e *Env) fittingRows(name string, examples []train.Example, rows []int) ([]train.Example, error) {
	return fitting(e, name, "demonstrations", "sft", examples, func(x train.Example) int { return len(x.IDs) }, rows)
}
