package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// GRPORun keeps a GRPO run in a folder, with the files that [RunConfig].Dir names. A checkpoint holds weights, moments, the number
// of updates, and state of the caller. A killed run then resumes with the same result, on two conditions: the caller calls Save
// only between iterations, and samples from random streams that are keyed by the iteration.
type GRPORun struct {
	g      *GRPO
	runLog runLog
	at     checkpoint
	opened time.Time
	now    func() time.Time
	log    *slog.Logger
}

// GRPORunConfig says where a run is kept. A field that is zero has the default named there.
type GRPORunConfig struct {
	Dir      string
	Resume   bool
	KeepLast int // default 2
	Log      *slog.Logger
	Now      func() time.Time
	// Config is what a resumed run must share of the caller's configuration. The configuration of the updates is always compared.
	Config any
}

// Open starts or resumes a run. If there is a checkpoint, found is true, the policy gets its weights, and extra the state that was
// given to Save. Otherwise extra is unchanged. Open must be called before the first update, with the policy that the run started
// from: the reference is that policy, also in a resumed run. Another policy is an error.
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

// resume continues from a checkpoint of the same configuration and of the same starting policy.
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

// Updates is the number of updates that the policy has had. It is also the index of the next iteration.
func (s *GRPORun) Updates() int { return s.g.updates }

// Warnings name the checkpoints that Open found unusable.
func (s *GRPORun) Warnings() []string { return s.runLog.warnings }

// TrainedTokens counts the sampled tokens of all updates so far, those before a resume included; see [GRPOUpdate].
func (s *GRPORun) TrainedTokens() int64 { return s.at.TrainedTokens }

// ProcessedTokens counts all tokens of these updates.
func (s *GRPORun) ProcessedTokens() int64 { return s.at.ProcessedTokens }

// Seconds is the wall-clock time of the run since Open, plus that before a resume.
func (s *GRPORun) Seconds() float64 { return s.runLog.seconds + s.now().Sub(s.opened).Seconds() }

// Best is the last checkpoint that Save marked as best, nil if there is none.
func (s *GRPORun) Best() *BestMark { return s.at.Best }

// Log writes the lines of an update. metrics.jsonl gets the metrics of the update and of the caller, which must repeat from run to
// run. timing.jsonl gets the times and the run's total_seconds. The update's warnings go to GRPORunConfig.Log.
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

// Lines reads the lines of metrics.jsonl: one for each update so far, oldest first, those before a resume included. A [StopRule]
// needs all of them.
func (s *GRPORun) Lines() ([]StepLog, error) { return s.runLog.metrics.lines() }

// Save writes a checkpoint. Open of a resumed run returns extra, the caller's state. best marks the checkpoint as the best so far,
// and value is the measure that the caller minimizes. The checkpoint that was marked last is kept.
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
