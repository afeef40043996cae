package stage

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/train"
)

// offline is what an algorithm adds to [trainOffline], which trains on examples that exist before the first step.
type offline[T any] struct {
	run      train.RunConfig
	examples func() ([]T, error)
	demos    int // demonstrations in one example
	// fit trains a model; r is run with its seed, folder and progress.
	fit func(m *lm.Model, rest, val []T, r train.RunConfig) (train.Summary, error)
	// steps returns a function that says, after each step, how many steps the run will have.
	steps func(rest []T, r train.RunConfig) (func(train.StepLog) int, error)
	shown func(train.StepLog) string
}

// trainOffline trains a recipe's policy. It holds out a part of the examples, by which it chooses the checkpoint.
func trainOffline[T any](ctx context.Context, e *Env, name string, seed uint64, parent Trained, o offline[T]) error {
	key, err := e.key(name, seed, parent.Weights)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		examples, err := o.examples()
		if err != nil {
			return nil, err
		}
		if err := e.Run.Claim(dir, key, dir); err != nil { // only after the examples are made, as it removes files of other settings
			return nil, err
		}
		rest, val := apart(examples, seed)
		m, err := e.load(e.Config.Recipes[name].From, seed)
		if err != nil {
			return nil, err
		}
		r := o.run
		r.Seed, r.Dir, r.Resume = seed, e.Run.Path(dir), true
		steps, err := o.steps(rest, r)
		if err != nil {
			return nil, err
		}
		bar := run.NewProgress(e.Options.Log, fmt.Sprintf("  %s (seed %d):", name, seed), 0)
		curve := e.curveOf(name, seed)
		r.Progress = func(l train.StepLog) error {
			of := steps(l)
			bar.Set(l.Step, of, o.shown(l))
			curve.grown(l.Step == of)
			return nil
		}
		sum, err := o.fit(m, rest, val, r)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", name, seed, err)
		}
		t := Trained{Recipe: name, Seed: seed, Steps: sum.Steps, TrainedTokens: sum.TrainedTokens, Processed: sum.ProcessedTokens, Seconds: sum.Seconds, Demos: o.demos * len(rest)}
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

// tooLong is the largest share of examples that may be left out because they fit no row.
const tooLong = 0.05

// fitting leaves out the examples that are longer than the longest row of a section of the settings, and says how many. what names them.
func fitting[T any](e *Env, name, what, section string, all []T, length func(T) int, rows []int) ([]T, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there are no %s to learn from", name, what)
	}
	longest := slices.Max(append([]int{0}, rows...))
	fit := slices.DeleteFunc(slices.Clone(all), func(x T) bool { return length(x) > longest })
	left := len(all) - len(fit)
	if float64(left) > tooLong*float64(len(all)) {
		return nil, fmt.Errorf("%d of %d %s are longer than the longest row, %d tokens: raise %s.batch.lengths", left, len(all), what, longest, section)
	}
	if left > 0 {
		e.Logf("  %s: %d of %d %s are longer than %d tokens and are left out", name, left, len(all), what, longest)
	}
	return fit, nil
}

// heldOut is the number of examples that choose the checkpoint, at most a tenth of all. They are of the kind that is imitated: on good
// demonstrations, a policy that learned a bad habit as it was taught would look like a poor fit.
const heldOut = 64

// apart separates the validation examples from the rest. One seed gives the same ones.
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
