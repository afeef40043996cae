package rl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/train"
)

// Loop is one run of reinforcement learning.
type Loop struct {
	Setup
	engine *lm.Engine
	state  state
}

// state is what a checkpoint keeps beside weights and moments. All randomness is keyed by (seed, iteration), so the position is the iteration
// alone.
type state struct {
	Episodes int64       `json:"episodes"`
	Best     float64     `json:"best"` // mean reward on val of the best iteration so far
	BestAt   int         `json:"best_at"`
	History  []EvalPoint `json:"history"`
}

// Open makes the engine that a loop generates with. The caller closes the loop.
func Open(s Setup) (*Loop, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	e, err := lm.NewEngine(s.Model, s.Engine)
	if err != nil {
		return nil, err
	}
	return &Loop{Setup: s, engine: e}, nil
}

// Close frees the engine. The model stays the caller's.
func (l *Loop) Close() { l.engine.Close() }

// Run trains until the last iteration, or until the stop rule, the context or an error ends it. Interrupted, it goes on where it was when it
// is called again on the same folder, to the same curve.
func (l *Loop) Run(ctx context.Context) (r Result, err error) {
	update := l.Config.Update
	update.Seed, update.Loss.Temperature = l.Seed, l.Config.Temperature
	if update.Schedule.Total == 0 {
		update.Schedule.Total = l.Config.Iterations * update.Steps()
	}
	g, err := train.NewGRPO(l.Model, update)
	if err != nil {
		return r, err
	}
	defer g.Close()
	s, found, err := g.Open(train.GRPORunConfig{Dir: l.Dir, Resume: true}, &l.state)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if found {
		l.logf("going on after iteration %d", s.Updates())
		if err := l.synchronize(); err != nil { // the weights are those of the checkpoint
			return r, err
		}
	} else if err := l.evaluateAndSave(ctx, s, 0, iteration{}); err != nil {
		return r, err
	}
	if r.Stopped, err = l.iterate(ctx, g, s); err != nil {
		return r, err
	}
	if r.Stopped != "" {
		l.logf("broken off, %s", r.Stopped)
	}
	l.logf("%d graphs compiled for generation, the buckets allow %d; %d for updates", l.engine.Compilations(), l.engine.MaxCompilations(1), g.Compilations())
	r.Updates, r.Trained, r.Processed, r.Episodes, r.Seconds, r.History = s.Updates(), s.TrainedTokens(), s.ProcessedTokens(), l.state.Episodes, s.Seconds(), l.state.History
	if l.Config.KeepBest && s.Best() != nil {
		return l.restoreBest(s, r)
	}
	return r, nil
}

// iterate plays and updates until the last iteration, or says why it stopped before.
func (l *Loop) iterate(ctx context.Context, g *train.GRPO, s *train.GRPORun) (stopped string, err error) {
	bar := run.NewProgress(l.Log, fmt.Sprintf("  %s (seed %d):", l.Name, l.Seed), s.Updates())
	lines, err := s.Lines() // with those of the run before it was resumed: the stop rule counts them
	if err != nil {
		return "", err
	}
	for s.Updates() < l.Config.Iterations {
		i := s.Updates()
		if why := l.Config.Stop.Stop(lines); why != "" {
			return fmt.Sprintf("iteration %d: %s", i, why), nil
		}
		c, err := l.Collect(ctx, i)
		if err != nil {
			return "", err
		}
		start := time.Now()
		u, err := g.Update(ctx, c.Rollouts)
		if errors.Is(err, train.ErrNotFinite) && l.Config.KeepBest && s.Best() != nil { // the weights are lost, the best ones are not
			return fmt.Sprintf("iteration %d: %v", i+1, err), nil
		}
		if err != nil {
			return "", err
		}
		seconds := time.Since(start).Seconds()
		c.Timing = append(c.Timing, train.Metric{Name: "update_seconds", Value: seconds},
			train.Metric{Name: "train_tokens_per_second", Value: float64(u.ProcessedTokens) / seconds})
		if err := l.synchronize(); err != nil {
			return "", err
		}
		if err := l.evaluateAndSave(ctx, s, i+1, iteration{u, c.Metrics, c.Timing}); err != nil {
			return "", err
		}
		lines = append(lines, train.StepLog{Step: i + 1, Metrics: u.Metrics()})
		of := train.StepLog{Metrics: c.Metrics}
		rewardMean, _ := of.Get("reward_mean")
		success, _ := of.Get("success")
		bar.Set(i+1, l.Config.Iterations, fmt.Sprintf("reward %.3f, solved %.3f, kl %.4f", rewardMean, success, u.Steps[len(u.Steps)-1].KL))
		if l.Updated != nil {
			l.Updated(i+1 == l.Config.Iterations)
		}
	}
	return "", nil
}

// restoreBest gives the model the weights of the best iteration.
func (l *Loop) restoreBest(s *train.GRPORun, r Result) (Result, error) {
	r.Kept = &l.state.BestAt
	start := ""
	if l.state.BestAt == 0 {
		start = ", the start: no iteration was better"
	}
	l.logf("keeping iteration %d, mean reward %.3f on val%s", l.state.BestAt, l.state.Best, start)
	return r, s.RestoreBest()
}

// synchronize gives the engine the weights that training has reached.
func (l *Loop) synchronize() error { return l.engine.SetWeights(l.Model.Weights, l.Model.Adapter) }

// iteration is what one iteration logs.
type iteration struct {
	update          train.GRPOUpdate
	metrics, timing []train.Metric
}
