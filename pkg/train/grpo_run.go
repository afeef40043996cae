package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// GRPORun keeps a GRPO run in a folder: metrics.jsonl, timing.jsonl, TensorBoard's event files and checkpoints, as
// [RunConfig.Dir] describes them. A checkpoint holds weights, moments, the number of updates, and the caller's own
// state (its position in the tasks, say), so that a killed run goes on to the same curve: call Save only between
// iterations, and play from streams that are keyed by the iteration.
type GRPORun struct {
	g      *GRPO
	runLog runLog
	at     checkpoint
	opened time.Time
	now    func() time.Time
	log    *slog.Logger
}

// GRPORunConfig says where a run is kept. The zero value of a field means the default named there.
type GRPORunConfig struct {
	Dir      string
	Resume   bool
	KeepLast int // default 2
	Log      *slog.Logger
	Now      func() time.Time
	// Config is the caller's configuration, as far as a resumed run must share it; the updates' own is added.
	Config any
}

// Open starts or resumes a run. When a checkpoint was found, extra gets the state that its Save was given and
// found is true; otherwise extra is left alone. Open before the first update, on the policy that the stage starts from:
// the reference is that policy, on a resumed run too, and a different one is an error.
func (g *GRPO) Open(cfg GRPORunConfig, extra any) (s *GRPORun, found bool, err error) {
	if g.updates > 0 || g.run != nil {
		return nil, false, errors.New("grpo: a run must be opened once, before the first update")
	}
	defaults := RunConfig{KeepLast: cfg.KeepLast, Log: cfg.Log, Now: cfg.Now}.withDefaults()
	start, err := hashWeights(g.learner.trained)
	if err != nil {
		return nil, false, err
	}
	config, err := json.Marshal(map[string]any{"grpo": g.cfg, "run": cfg.Config})
	if err != nil {
		return nil, false, err
	}
	s = &GRPORun{g: g, at: checkpoint{Kind: "grpo", Config: config, Data: start}, now: defaults.Now, log: defaults.Log}
	c, ts, found, err := s.runLog.find(cfg.Dir, defaults.KeepLast, cfg.Resume, defaults.Log)
	if err == nil && found {
		err = s.resume(c, ts, extra)
	}
	if err == nil {
		err = s.runLog.open(s.at, g.updates, s.now)
	}
	if err != nil {
		return nil, false, fmt.Errorf("grpo run in %s: %w", cfg.Dir, errors.Join(err, s.runLog.close()))
	}
	s.opened, g.run = s.now(), s
	return s, found, nil
}

func (s *GRPORun) resume(c checkpoint, ts tensorMap, extra any) error {
	if err := c.fits("grpo", s.at.Config); err != nil {
		return err
	}
	if c.Data != s.at.Data {
		return errors.New("the run started from another policy than the one given: load the policy that the stage starts from, the checkpoint brings the trained one")
	}
	if extra != nil && len(c.Extra) > 0 {
		if err := json.Unmarshal(c.Extra, extra); err != nil {
			return fmt.Errorf("the caller's state: %w", err)
		}
	}
	if err := s.g.learner.restore(c.Step, ts); err != nil {
		return err
	}
	s.at, s.g.updates = c, c.Index
	return nil
}

// Updates is the number of updates that the policy has taken: the iteration to go on with.
func (s *GRPORun) Updates() int { return s.g.updates }

// Warnings name checkpoints that were found unusable when the run was opened.
func (s *GRPORun) Warnings() []string { return s.runLog.warnings }

// TrainedTokens and ProcessedTokens so far, resumes included.
func (s *GRPORun) TrainedTokens() int64   { return s.at.TrainedTokens }
func (s *GRPORun) ProcessedTokens() int64 { return s.at.ProcessedTokens }

// Seconds that the run has taken, from its opening on, those before a resume included.
func (s *GRPORun) Seconds() float64 { return s.runLog.seconds + s.now().Sub(s.opened).Seconds() }

// Best is the best mark so far, nil before the first.
func (s *GRPORun) Best() *BestMark { return s.at.Best }

// Log writes one line after an update: its metrics and the caller's into metrics.jsonl, where everything must repeat
// from run to run, and times into timing.jsonl, to which the run's total_seconds are added. What the update warns of goes
// to the log.
func (s *GRPORun) Log(u GRPOUpdate, metrics, timing []Metric) error {
	for _, w := range u.Warnings() {
		s.log.Warn(w, "update", s.g.updates)
	}
	s.at.TrainedTokens += u.TrainedTokens
	s.at.ProcessedTokens += u.ProcessedTokens
	line := StepLog{Step: s.g.updates, Metrics: append(u.Metrics(), metrics...)}
	line.Metrics = append(line.Metrics, Metric{"trained_tokens", float64(s.at.TrainedTokens)}, Metric{"processed_tokens", float64(s.at.ProcessedTokens)})
	return s.runLog.write(line, StepLog{Step: s.g.updates, Metrics: append(timing[:len(timing):len(timing)], Metric{"total_seconds", s.Seconds()})})
}

// Lines are the lines of metrics so far, one an update, oldest first, those of the run before it was resumed included: what a
// [StopRule] looks at.
func (s *GRPORun) Lines() ([]StepLog, error) { return s.runLog.metrics.lines() }

// Save makes a checkpoint. extra is the caller's state, given back by Open. best marks it as the best so far, by the
// caller's own measure (value): the newest checkpoint so marked is kept.
func (s *GRPORun) Save(extra any, best bool, value float64) error {
	b, err := json.Marshal(extra)
	if err != nil {
		return err
	}
	s.at.Extra, s.at.Step, s.at.Index = b, s.g.learner.steps, s.g.updates
	if best {
		s.at.Best = &BestMark{s.at.Step, value}
	}
	return s.runLog.save(&s.at, s.g.learner)
}

// RestoreBest gives the model the weights of the checkpoint marked as best.
func (s *GRPORun) RestoreBest() error {
	if s.at.Best == nil {
		return errors.New("grpo: no checkpoint was marked as best")
	}
	return s.runLog.restoreBest(*s.at.Best, s.g.learner)
}

// Close closes the logs.
func (s *GRPORun) Close() error { return s.runLog.close() }
