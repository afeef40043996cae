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

// Loop is one run of reinforcement learning. It is not safe for concurrent use.
type Loop struct {
	Setup
	engine *lm.Engine
	state  state
}

// state is what a checkpoint stores besides weights and moments. Every random stream is keyed by (seed, iteration), so the iteration is the
// only position to remember, and train.GRPORun remembers it.
type state struct {
	Episodes int64       `json:"episodes"`
	Best     float64     `json:"best"` // mean reward on val of the best iteration so far
	BestAt   int         `json:"best_at"`
	History  []EvalPoint `json:"history"`
}

// Open checks the setup and makes the engine that the loop generates with. The caller closes the loop.
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

// Run trains until the last iteration, or until the stop rule, the context or an error ends it. Called again on the same folder after an
// interruption, it goes on from the last checkpoint and reaches the same weights and figures as an uninterrupted run.
func (l *Loop) Run(ctx context.Context) (r Result, err error) {
	g, err := train.NewGRPO(l.Model, l.updateConfig())
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
		if err := l.synchronize(); err != nil { // g.Open gave the model the weights of the checkpoint
			return r, err
		}
	} else if err := l.evaluateAndSave(ctx, s, 0, iterationLog{}); err != nil {
		return r, err
	}
	if r.Stopped, err = l.iterate(ctx, g, s); err != nil {
		return r, err
	}
	if r.Stopped != "" {
		l.logf("broken off, %s", r.Stopped)
	}
	l.logf("%d graphs compiled for generation, the buckets allow %d; %d for updates", l.engine.Compilations(), l.engine.MaxCompilations(1), g.Compilations())
	r.Updates, r.Trained, r.Processed, r.Seconds = s.Updates(), s.TrainedTokens(), s.ProcessedTokens(), s.Seconds()
	r.Episodes, r.History = l.state.Episodes, l.state.History
	if l.Config.KeepBest && s.Best() != nil {
		return l.restoreBest(s, r)
	}
	return r, nil
}

// updateConfig is Config.Update with what the loop knows: the seed, the sampling temperature and the number of optimizer steps.
func (l *Loop) updateConfig() train.GRPOConfig {
	c := l.Config.Update
	c.Seed, c.Loss.Temperature = l.Seed, l.Config.Temperature
	if c.Schedule.Total == 0 {
		c.Schedule.Total = l.Config.Iterations * c.Steps()
	}
	return c
}

// iterate runs the iterations that are left. It returns why it stopped early, or "".
func (l *Loop) iterate(ctx context.Context, g *train.GRPO, s *train.GRPORun) (stopped string, err error) {
	bar := run.NewProgress(l.Log, fmt.Sprintf("  %s (seed %d):", l.Name, l.Seed), s.Updates())
	lines, err := s.Lines() // those from before a resume too: the stop rule needs all of them
	if err != nil {
		return "", err
	}
	for s.Updates() < l.Config.Iterations {
		i := s.Updates()
		if why := l.Config.Stop.Stop(lines); why != "" {
			return fmt.Sprintf("iteration %d: %s", i, why), nil
		}
		it, err := l.playAndUpdate(ctx, g, i)
		if errors.Is(err, train.ErrNotFinite) && l.Config.KeepBest && s.Best() != nil {
			return fmt.Sprintf("iteration %d: %v", i+1, err), nil // the weights are lost; Run restores the best ones
		}
		if err != nil {
			return "", err
		}
		if err := l.evaluateAndSave(ctx, s, i+1, it); err != nil {
			return "", err
		}
		lines = append(lines, train.StepLog{Step: i + 1, Metrics: it.update.Metrics()})
		bar.Set(i+1, l.Config.Iterations, it.String())
		if l.Updated != nil {
			l.Updated(i+1 == l.Config.Iterations)
		}
	}
	return "", nil
}

// playAndUpdate plays the episodes of an iteration, updates the policy from them, and gives the engine the new weights.
func (l *Loop) playAndUpdate(ctx context.Context, g *train.GRPO, i int) (it iterationLog, err error) {
	c, err := l.Collect(ctx, i)
	if err != nil {
		return it, err
	}
	start := time.Now()
	u, err := g.Update(ctx, c.Rollouts)
	if err != nil {
		return it, err
	}
	seconds := time.Since(start).Seconds()
	timing := append(c.Timing, train.Metric{Name: "update_seconds", Value: seconds},
		train.Metric{Name: "train_tokens_per_second", Value: float64(u.ProcessedTokens) / seconds})
	return iterationLog{u, c.Metrics, timing}, l.synchronize()
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

// synchronize copies the model's weights to the engine.
func (l *Loop) synchronize() error { return l.engine.SetWeights(l.Model.Weights, l.Model.Adapter) }

// iterationLog is what one iteration logs.
type iterationLog struct {
	update          train.GRPOUpdate
	metrics, timing []train.Metric
}

// String is the figures beside the progress bar. The divergence is that of the last optimizer step.
func (it iterationLog) String() string {
	line := train.StepLog{Metrics: it.metrics}
	reward, _ := line.Get("reward_mean")
	success, _ := line.Get("success")
	return fmt.Sprintf("reward %.3f, solved %.3f, kl %.4f", reward, success, it.update.Steps[len(it.update.Steps)-1].KL)
}
