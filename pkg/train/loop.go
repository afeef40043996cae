package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// ErrStop, returned by RunConfig.Progress, ends a run early and in order: validation, checkpoint, summary.
var ErrStop = errors.New("stop training")

// RunConfig says how long a run goes on and what is kept of it. The zero value of a field means the default named there.
type RunConfig struct {
	// Seed keys the order of the data.
	Seed uint64 `json:"seed" yaml:"seed"`
	// MaxSteps is the number of optimizer steps; 0 means Epochs passes over the data.
	MaxSteps int `json:"max_steps" yaml:"max_steps"`
	// Epochs is used where MaxSteps is 0; default 1.
	Epochs int `json:"epochs" yaml:"epochs"`
	// Accumulate is the number of micro-batches of an optimizer step; default 1.
	Accumulate int `json:"accumulate" yaml:"accumulate"`
	// EvalEvery validates after so many steps, and at the end; 0 only at the end.
	EvalEvery int `json:"eval_every" yaml:"eval_every"`
	// RestoreBest leaves the model with the weights of the best validation instead of the last. Needs Dir.
	RestoreBest bool `json:"restore_best" yaml:"restore_best"`

	// Dir gets metrics.jsonl, timing.jsonl, TensorBoard's event files and checkpoints/; empty keeps nothing.
	Dir string `json:"-" yaml:"-"`
	// Resume continues from the newest checkpoint in Dir that is whole, if there is one. Without it, Dir must not
	// hold checkpoints.
	Resume bool `json:"-" yaml:"-"`
	// SaveEvery makes a checkpoint after so many steps, and at the end; 0 only at the end (and where validation is best).
	SaveEvery int `json:"-" yaml:"save_every"`
	// KeepLast is the number of newest checkpoints kept beside the best; default 2.
	KeepLast int `json:"-" yaml:"keep_last"`
	// Progress is called after every step; an error ends the run, ErrStop in order.
	Progress func(StepLog) error `json:"-" yaml:"-"`
	// Log gets warnings (an unusable checkpoint) and milestones; default slog.Default().
	Log *slog.Logger `json:"-" yaml:"-"`
	// Now is the clock of timing.jsonl and the event files; default time.Now.
	Now func() time.Time `json:"-" yaml:"-"`
}

func (c RunConfig) withDefaults() RunConfig {
	if c.Epochs == 0 {
		c.Epochs = 1
	}
	if c.Accumulate == 0 {
		c.Accumulate = 1
	}
	if c.KeepLast == 0 {
		c.KeepLast = 2
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Check reports the first field that makes no sense.
func (c RunConfig) Check() error {
	for name, v := range map[string]int{"max_steps": c.MaxSteps, "epochs": c.Epochs, "accumulate": c.Accumulate,
		"eval_every": c.EvalEvery, "save_every": c.SaveEvery, "keep_last": c.KeepLast} {
		if v < 0 {
			return fmt.Errorf("train: %s must be at least 0, got %d", name, v)
		}
	}
	if c.RestoreBest && c.Dir == "" {
		return errors.New("train: restore_best needs a folder to keep the best checkpoint in")
	}
	return nil
}

// Summary describes a finished run. Everything but Seconds and Compilations repeats from run to run.
type Summary struct {
	Steps int
	// TrainedTokens carried loss, a token once a pass; ProcessedTokens went through the model (padding not counted).
	TrainedTokens, ProcessedTokens int64
	// Seconds are of training steps and validation, those before a resume included.
	Seconds float64
	// Compilations counts the graphs that this process compiled.
	Compilations int
	// Last is the last step's line.
	Last StepLog
	// Best is the best validation, nil without one.
	Best *BestMark
	// Stopped says that ErrStop ended the run.
	Stopped bool
	// ResumedFrom is the step that the run went on from, 0 for a fresh one.
	ResumedFrom int
	// Warnings name checkpoints that were found unusable.
	Warnings []string
}

// epochPlan is the data of one epoch, laid out in optimizer steps of micro-batches.
type epochPlan struct {
	steps [][]layout
	data  string // a hash of the examples and their order
	get   any    // the examples, as the course knows them
}

// course is what a run trains on and how it reports: the part that SFT and DPO fill in.
type course struct {
	kind   string
	config any // what a resumed run must share
	epoch  func(epoch int) (*epochPlan, error)
	// micros fills the batches of one step.
	micros func(p *epochPlan, step int) ([]microBatch, error)
	// metrics turns a step's results into diagnostics.
	metrics func(micros []microBatch, r stepResult) []Metric
	// evaluate returns the number to be minimized first; nil without validation data.
	evaluate func(ctx context.Context) ([]Metric, error)
}

// run is one training run in progress.
type run struct {
	cfg     RunConfig
	course  course
	learner *learner
	total   int
	store   store

	at          checkpoint // position, counts and best so far
	plan        *epochPlan
	planned     int // the epoch of plan, -1 before the first
	metrics     *lineLog
	timing      *lineLog
	events      *eventFile
	seconds     float64
	summary     Summary
	rawSettings json.RawMessage
}

// totalSteps counts the optimizer steps of a run.
func totalSteps(cfg RunConfig, c course) (int, error) {
	if cfg.MaxSteps > 0 {
		return cfg.MaxSteps, nil
	}
	n := 0
	for e := range cfg.Epochs {
		p, err := c.epoch(e)
		if err != nil {
			return 0, err
		}
		n += len(p.steps)
	}
	if n == 0 {
		return 0, errors.New("train: the data has no token to train on")
	}
	return n, nil
}

// train runs a course to its end, from the start or from a checkpoint.
func (r *run) train(ctx context.Context) (Summary, error) {
	if err := r.open(); err != nil {
		return r.summary, err
	}
	err := r.steps(ctx)
	if cerr := r.closeFiles(); err == nil {
		err = cerr
	}
	if err == nil && r.cfg.RestoreBest && r.at.Best != nil && r.at.Best.Step != r.at.Step {
		err = r.restoreBest()
	}
	r.summary.Steps, r.summary.Best, r.summary.Seconds = r.at.Step, r.at.Best, r.seconds
	r.summary.TrainedTokens, r.summary.ProcessedTokens = r.at.TrainedTokens, r.at.ProcessedTokens
	r.summary.Compilations = r.learner.compilations()
	return r.summary, err
}

// open restores a checkpoint when resuming, and opens the logs.
func (r *run) open() error {
	var err error
	if r.rawSettings, err = json.Marshal(r.course.config); err != nil {
		return err
	}
	r.planned = -1
	r.at = checkpoint{Kind: r.course.kind, Config: r.rawSettings}
	if r.cfg.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(r.cfg.Dir, 0o755); err != nil {
		return err
	}
	r.store = store{filepath.Join(r.cfg.Dir, "checkpoints"), r.cfg.KeepLast}
	if r.cfg.Resume {
		if err := r.resume(); err != nil {
			return fmt.Errorf("resume %s: %w", r.cfg.Dir, err)
		}
	} else if names, err := r.store.list(); err != nil {
		return err
	} else if len(names) > 0 {
		return fmt.Errorf("train: %s holds checkpoints of an earlier run: resume it, or train in another folder", r.cfg.Dir)
	}
	if r.metrics, err = openLineLog(r.cfg.Dir, "metrics.jsonl", r.at.MetricsBytes); err != nil {
		return err
	}
	if r.timing, err = openLineLog(r.cfg.Dir, "timing.jsonl", r.at.TimingBytes); err != nil {
		return err
	}
	if r.seconds, err = r.timing.last("total_seconds"); err != nil {
		return fmt.Errorf("timing.jsonl: %w", err)
	}
	r.events, err = newEventFile(r.cfg.Dir, r.at.Step, r.cfg.Now)
	return err
}

func (r *run) resume() error {
	c, ts, skipped, err := r.store.latest()
	for _, s := range skipped {
		r.summary.Warnings = append(r.summary.Warnings, s.Error())
		r.cfg.Log.Warn("going back to an earlier checkpoint", "reason", s)
	}
	if errors.Is(err, ErrNoCheckpoint) {
		if len(skipped) > 0 {
			r.cfg.Log.Warn("no earlier checkpoint is usable: starting anew", "folder", r.store.dir)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if c.Kind != r.course.kind {
		return fmt.Errorf("the checkpoint is of %s, this is %s", c.Kind, r.course.kind)
	}
	if err := sameConfig(c.Config, r.rawSettings); err != nil {
		return err
	}
	if err := r.learner.restore(c.Step, ts); err != nil {
		return err
	}
	r.at, r.summary.ResumedFrom = c, c.Step
	if !c.Done {
		if err := r.planEpoch(c.Epoch); err != nil {
			return err
		}
		if r.plan.data != c.Data {
			return fmt.Errorf("the data of epoch %d is not what it was (hash %.12s, was %.12s): resume with the same data", c.Epoch, r.plan.data, c.Data)
		}
	}
	r.cfg.Log.Info("resumed", "kind", c.Kind, "step", c.Step)
	return nil
}

func (r *run) planEpoch(epoch int) error {
	if r.planned == epoch {
		return nil
	}
	p, err := r.course.epoch(epoch)
	if err != nil {
		return err
	}
	if len(p.steps) == 0 {
		return fmt.Errorf("train: epoch %d has no token to train on", epoch)
	}
	r.plan, r.planned, r.at.Data = p, epoch, p.data
	return nil
}

func (r *run) steps(ctx context.Context) error {
	saved := r.at.Step
	for !r.at.Done {
		if err := ctx.Err(); err != nil {
			if r.cfg.Dir != "" && saved != r.at.Step {
				if serr := r.save(); serr != nil {
					return errors.Join(err, serr)
				}
			}
			return fmt.Errorf("training stopped after step %d of %d: %w", r.at.Step, r.total, err)
		}
		improved, err := r.step(ctx)
		if err != nil {
			return err
		}
		if r.cfg.Dir != "" && (improved || r.at.Done || r.cfg.SaveEvery > 0 && r.at.Step%r.cfg.SaveEvery == 0) {
			if err := r.save(); err != nil {
				return err
			}
			saved = r.at.Step
		}
	}
	return nil
}

// step takes one optimizer step, logs it, and moves on in the data. It reports whether validation was the best so far.
func (r *run) step(ctx context.Context) (improved bool, err error) {
	began := r.cfg.Now()
	if err := r.planEpoch(r.at.Epoch); err != nil {
		return false, err
	}
	micros, err := r.course.micros(r.plan, r.at.Index)
	if err != nil {
		return false, err
	}
	res, err := r.learner.update(micros)
	if err != nil {
		return false, err
	}
	var trained, processed int64
	for _, mb := range micros {
		processed += int64(mb.Processed)
		for _, m := range mb.Mask {
			trained += int64(m)
		}
	}
	r.at.TrainedTokens += trained
	r.at.ProcessedTokens += processed
	line := StepLog{Step: r.at.Step + 1, Metrics: []Metric{{"epoch", float64(r.at.Epoch)}, {"loss", res.loss}, {"lr", res.lr}, {"grad_norm", res.gradNorm}}}
	line.Metrics = append(line.Metrics, r.course.metrics(micros, res)...)
	line.Metrics = append(line.Metrics, Metric{"trained_tokens", float64(r.at.TrainedTokens)}, Metric{"processed_tokens", float64(r.at.ProcessedTokens)})
	stepSeconds := r.cfg.Now().Sub(began).Seconds()

	r.at.Step++
	if r.at.Index++; r.at.Index == len(r.plan.steps) {
		r.at.Epoch, r.at.Index = r.at.Epoch+1, 0
	}
	r.at.Done = r.at.Step >= r.total
	validated := r.course.evaluate == nil
	validate := func() error {
		if validated {
			return nil
		}
		validated = true
		val, err := r.course.evaluate(ctx)
		if err != nil {
			return err
		}
		line.Metrics = append(line.Metrics, val...)
		if r.at.Best == nil || val[0].Value < r.at.Best.Value {
			r.at.Best, improved = &BestMark{r.at.Step, val[0].Value}, true
		}
		return nil
	}
	if r.at.Done || r.cfg.EvalEvery > 0 && r.at.Step%r.cfg.EvalEvery == 0 {
		if err := validate(); err != nil {
			return false, err
		}
	}
	if r.cfg.Progress != nil {
		if stop := r.cfg.Progress(line); errors.Is(stop, ErrStop) {
			r.at.Done, r.summary.Stopped = true, true
			if err := validate(); err != nil {
				return false, err
			}
		} else if stop != nil {
			return false, stop
		}
	}
	if !r.at.Done {
		if err := r.planEpoch(r.at.Epoch); err != nil { // its hash belongs into a checkpoint made now
			return false, err
		}
	}
	seconds := r.cfg.Now().Sub(began).Seconds()
	r.seconds += seconds
	r.summary.Last = line
	return improved, r.write(line, StepLog{Step: line.Step, Metrics: []Metric{{"seconds", seconds}, {"step_seconds", stepSeconds},
		{"tokens_per_second", float64(processed) / max(stepSeconds, 1e-9)}, {"total_seconds", r.seconds}}})
}

func (r *run) write(line, timing StepLog) error {
	if r.cfg.Dir == "" {
		return nil
	}
	if err := r.metrics.append(line); err != nil {
		return err
	}
	if err := r.timing.append(timing); err != nil {
		return err
	}
	return r.events.scalars(line.Step, append(line.Metrics[:len(line.Metrics):len(line.Metrics)], timing.Metrics...))
}

func (r *run) save() error {
	if err := r.metrics.sync(); err != nil {
		return err
	}
	if err := r.timing.sync(); err != nil {
		return err
	}
	r.at.MetricsBytes, r.at.TimingBytes = r.metrics.size, r.timing.size
	return r.store.save(r.at, r.learner.trained, r.learner.m, r.learner.v)
}

func (r *run) restoreBest() error {
	_, ts, err := r.store.read(filepath.Base(r.store.path(r.at.Best.Step)))
	if err != nil {
		return fmt.Errorf("restore the best checkpoint (step %d): %w", r.at.Best.Step, err)
	}
	return restore(r.learner.trained, "param.", ts)
}

func (r *run) closeFiles() error {
	if r.metrics == nil {
		return nil
	}
	return errors.Join(r.metrics.close(), r.timing.close(), r.events.close())
}
