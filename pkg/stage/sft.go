package stage

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/run"
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

func (e *Env) sft(ctx context.Context, name string, seed uint64, parent Trained) error {
	r := e.Config.Recipes[name]
	cfg := e.sftConfig(name, seed)
	key, err := e.key(name, seed, parent.Weights)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		c, err := e.root().codec()
		if err != nil {
			return nil, err
		}
		played, err := e.demonstrations(ctx, r, seed)
		if err != nil {
			return nil, err
		}
		examples, err := tiny.Examples(c, played)
		if err != nil {
			return nil, err
		}
		if examples, err = e.fitting(name, examples, cfg.Batch.Lengths); err != nil {
			return nil, err
		}
		if err := e.Run.Claim(dir, key, dir); err != nil { // only after the demonstrations are made, as it removes files of other settings
			return nil, err
		}
		examples, val := apart(examples, seed)
		m, err := e.load(r.From, seed)
		if err != nil {
			return nil, err
		}
		cfg.Run.Seed, cfg.Run.Dir, cfg.Run.Resume = seed, e.Run.Path(dir), true
		bar := run.NewProgress(e.Options.Log, fmt.Sprintf("  %s (seed %d):", name, seed), 0)
		curve := e.curveOf(name, seed)
		cfg.Run.Progress = func(l train.StepLog) error {
			loss, _ := l.Get("loss")
			acc, _ := l.Get("accuracy")
			of := cfg.Run.MaxSteps
			if cfg.Run.TrainTokens > 0 { // so many steps as it takes: shown as the share of the tokens
				tokens, _ := l.Get("trained_tokens")
				of = max(l.Step, int(float64(l.Step)*float64(cfg.Run.TrainTokens)/max(1, tokens)))
			}
			bar.Set(l.Step, of, fmt.Sprintf("loss %.3f, token accuracy %.3f", loss, acc))
			curve.grown(l.Step == of)
			return nil
		}
		source, err := e.root().replay(ctx, examples, rng.Seed64(seed, "train/rehearsal", name))
		if err != nil {
			return nil, err
		}
		sum, err := train.SFT(ctx, m, source, val, cfg)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", name, seed, err)
		}
		t := Trained{Recipe: name, Seed: seed, Steps: sum.Steps, TrainedTokens: sum.TrainedTokens, Processed: sum.ProcessedTokens, Seconds: sum.Seconds, Demos: len(examples)}
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

// tooLong is the largest share of demonstrations that may be left out because they fit no row.
const tooLong = 0.05

// fitting leaves out the demonstrations that are longer than the longest row, and says how many.
func (e *Env) fitting(name string, examples []train.Example, lengths []int) ([]train.Example, error) {
	longest := slices.Max(append([]int{0}, lengths...))
	var out []train.Example
	for _, x := range examples {
		if len(x.IDs) <= longest {
			out = append(out, x)
		}
	}
	left := len(examples) - len(out)
	if float64(left) > tooLong*float64(len(examples)) {
		return nil, fmt.Errorf("%d of %d demonstrations are longer than the longest row, %d tokens: raise sft.batch.lengths", left, len(examples), longest)
	}
	if left > 0 {
		e.Logf("  %s: %d of %d demonstrations are longer than %d tokens and are left out", name, left, len(examples), longest)
	}
	return out, nil
}

// heldOut is the number of demonstrations that are kept apart to choose the checkpoint, at most a tenth of all. They are of the imitated kind:
// with good demonstrations there, a policy that learned a bad habit as taught would look like a poor fit.
const heldOut = 64

// apart keeps the validation examples apart, the same ones for one seed.
func apart[T any](examples []T, seed uint64) (rest, val []T) {
	n := min(heldOut, len(examples)/10)
	chosen := map[int]bool{}
	for _, i := range rng.New(seed, "train/validation").Perm(len(examples))[:n] {
		chosen[i] = true
	}
	for i, x := range examples {
		if chosen[i] {
			val = append(val, x)
		} else {
			rest = append(rest, x)
		}
	}
	return rest, val
}
