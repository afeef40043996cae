package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// ErrStop is what RunConfig.Progress returns to end a run early. The run then validates, writes a checkpoint and returns its summary.
var ErrStop = errors.New("stop training")

// RunConfig says how long a run of SFT or DPO goes on and what is kept of it. A field that is zero has the default named there.
type RunConfig struct {
	// Seed keys the random streams that shuffle the data.
	Seed uint64 `json:"seed" yaml:"-"`
	// MaxSteps is the number of optimizer steps; 0 means Epochs passes over the data.
	MaxSteps int `json:"max_steps" yaml:"max_steps"`
	// Epochs is used where MaxSteps is 0; default 1.
	Epochs int `json:"epochs" yaml:"epochs"`
	// TrainTokens takes precedence over MaxSteps and Epochs. The run takes as few steps as train on so many tokens; a token counts
	// once in every epoch. The number of steps is computed from the data before the first one.
	TrainTokens int64 `json:"train_tokens,omitempty" yaml:"-"`
	// Accumulate is the number of micro-batches of an optimizer step; default 1.
	Accumulate int `json:"accumulate" yaml:"accumulate"`
	// EvalEvery validates after so many steps, and at the end; 0 only at the end.
	EvalEvery int `json:"eval_every" yaml:"eval_every"`
	// RestoreBest returns the model with the weights of the best validation, not the last ones. It needs Dir.
	RestoreBest bool `json:"restore_best" yaml:"restore_best"`

	// Dir gets metrics.jsonl, timing.jsonl, TensorBoard's event files and checkpoints/; empty keeps nothing.
	Dir string `json:"-" yaml:"-"`
	// Resume continues from the newest intact checkpoint in Dir, if there is one. Without Resume, Dir must not hold checkpoints.
	Resume bool `json:"-" yaml:"-"`
	// SaveEvery writes a checkpoint after so many steps; 0 writes none then. There is always one at the end, and one where
	// validation is the best so far.
	SaveEvery int `json:"-" yaml:"save_every"`
	// KeepLast is how many of the newest checkpoints are kept besides the best one; default 2.
	KeepLast int `json:"-" yaml:"keep_last"`
	// Progress is called after every step. ErrStop ends the run early; any other error makes it fail.
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
	if c.TrainTokens < 0 {
		return fmt.Errorf("train: train_tokens must be at least 0, got %d", c.TrainTokens)
	}
	if c.RestoreBest && c.Dir == "" {
		return errors.New("train: restore_best needs a folder to keep the best checkpoint in")
	}
	return nil
}

// Summary describes a finished run. Everything but Seconds and Compilations repeats from run to run.
type Summary struct {
	Steps int
	// TrainedTokens counts the tokens in the loss, and ProcessedTokens those that went through the model, both once for every epoch.
	// Padding is not counted.
	TrainedTokens, ProcessedTokens int64
	// Seconds is the time of training steps and validation, that before a resume included.
	Seconds float64
	// Compilations counts the graphs that this process compiled.
	Compilations int
	// Last is the line of the last step. If the run had ended before it was resumed, it is the last line on disk.
	Last StepLog
	// Best is the best validation, nil without one.
	Best *BestMark
	// Stopped says that ErrStop ended the run.
	Stopped bool
	// StoppedBy says why the stop rule, or a step that was not finite, ended the run; empty if neither did. The model then has the
	// weights of the best validation before that. If there was none, the run fails with [ErrDiverged].
	StoppedBy string
	// ResumedFrom is the step of the checkpoint that the run continued from, 0 for a new run.
	ResumedFrom int
	// Warnings name checkpoints that were found unusable.
	Warnings []string
}

// epochPlan is the data of one epoch, laid out in optimizer steps of micro-batches.
type epochPlan struct {
	steps    [][]layout
	hash     string // of the examples and their order
	examples any    // in the type of the method
}

// inSteps groups micro-batches into optimizer steps.
func (c RunConfig) inSteps(micros []layout) [][]layout {
	return slices.Collect(slices.Chunk(micros, c.Accumulate))
}

// method is what SFT and DPO do differently in a run.
type method struct {
	kind   string // in checkpoints: "sft" or "dpo"
	stop   StopRule
	config any // what a resumed run must share
	epoch  func(epoch int) (*epochPlan, error)
	// micros fills the micro-batches of one step.
	micros func(p *epochPlan, step int) ([]microBatch, error)
	// metrics computes the diagnostics of a step.
	metrics func(micros []microBatch, r stepResult) []Metric
	// evaluate validates; the first metric is the one to minimize. It is nil if there are no validation data.
	evaluate func(ctx context.Context) ([]Metric, error)
}

// run is one training run in progress.
type run struct {
	cfg     RunConfig
	method  method
	learner *learner
	total   int // optimizer steps
	runLog  runLog

	at      checkpoint // position, counts and best so far
	plan    *epochPlan
	planned int // the epoch of plan, -1 before the first
	seconds float64
	lines   []StepLog // of metrics.jsonl, all so far
	summary Summary
}

// totalSteps counts the optimizer steps of a run.
func totalSteps(cfg RunConfig, m method) (int, error) {
	if cfg.TrainTokens > 0 {
		return stepsFor(cfg.TrainTokens, m)
	}
	if cfg.MaxSteps > 0 {
		return cfg.MaxSteps, nil
	}
	n := 0
	for e := range cfg.Epochs {
		p, err := m.epoch(e)
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

// stepsFor counts the steps that train on at least so many tokens.
func stepsFor(tokens int64, m method) (int, error) {
	var trained int64
	for n, epoch := 0, 0; ; epoch++ {
		p, err := m.epoch(epoch)
		if err != nil {
			return 0, err
		}
		before := trained
		for step := range p.steps {
			micros, err := m.micros(p, step)
			if err != nil {
				return 0, err
			}
			more, _ := countTokens(micros)
			trained += more
			if n++; trained >= tokens {
				return n, nil
			}
		}
		if trained == before {
			return 0, errors.New("train: the data has no token to train on")
		}
	}
}

// countTokens counts the tokens of a step that are trained, and all of them.
func countTokens(micros []microBatch) (trained, processed int64) {
	for _, mb := range micros {
		processed += int64(mb.Processed)
		for _, m := range mb.Mask {
			trained += int64(m)
		}
	}
	return trained, processed
}

// train runs to the end, from the start or from a checkpoint.
func (r *run) train(ctx context.Context) (Summary, error) {
	if err := r.open(); err != nil {
		return r.summary, err
	}
	err := r.steps(ctx)
	if err == nil && r.summary.StoppedBy != "" {
		err = r.restoreAfterStop()
	}
	err = errors.Join(err, r.runLog.close())
	if err == nil && r.cfg.RestoreBest && r.summary.StoppedBy == "" && r.at.Best != nil && r.at.Best.Step != r.at.Step {
		err = r.runLog.restoreBest(*r.at.Best, r.learner)
	}
	r.summary.Steps, r.summary.Best, r.summary.Seconds = r.at.Step, r.at.Best, r.seconds
	r.summary.TrainedTokens, r.summary.ProcessedTokens = r.at.TrainedTokens, r.at.ProcessedTokens
	r.summary.Compilations = r.learner.compilations()
	return r.summary, err
}

// restoreAfterStop gives the model of a run that was ended early the weights of its best validation. It saves no checkpoint of the
// later steps. A run that is started again in the same folder repeats them, and ends in the same way.
func (r *run) restoreAfterStop() error {
	if r.at.Best == nil || r.cfg.Dir == "" {
		return fmt.Errorf("%s: %w: %s; no validated checkpoint before it is there to go back to: lower schedule.learning_rate, or lengthen schedule.warmup_steps", r.method.kind, ErrDiverged, r.summary.StoppedBy)
	}
	r.cfg.Log.Warn("training was broken off, going back to the best checkpoint", "kind", r.method.kind, "reason", r.summary.StoppedBy, "step", r.at.Best.Step)
	return r.runLog.restoreBest(*r.at.Best, r.learner)
}

// open restores a checkpoint if there is one to resume from, and opens the logs.
func (r *run) open() error {
	settings, err := json.Marshal(r.method.config)
	if err != nil {
		return err
	}
	r.planned = -1
	r.at = checkpoint{Kind: r.method.kind, Config: settings}
	if r.cfg.Dir == "" {
		return nil
	}
	c, ts, found, err := r.runLog.find(r.cfg.Dir, r.cfg.KeepLast, r.cfg.Resume, r.cfg.Log)
	r.summary.Warnings = r.runLog.warnings
	if err == nil && found {
		err = r.resume(c, ts)
	}
	if err == nil {
		err = r.runLog.open(r.at, r.at.Step, r.cfg.Now)
	}
	if err == nil { // a run that had ended takes no step, and Last is what it logged
		if r.lines, err = r.runLog.metrics.lines(); len(r.lines) > 0 {
			r.summary.Last = r.lines[len(r.lines)-1]
		}
	}
	if err != nil {
		return fmt.Errorf("run in %s: %w", r.cfg.Dir, errors.Join(err, r.runLog.close()))
	}
	r.seconds = r.runLog.seconds
	return nil
}

// resume continues from a checkpoint of the same method, configuration and data.
func (r *run) resume(c checkpoint, ts tensorMap) error {
	if err := c.fits(r.method.kind, r.at.Config); err != nil {
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
		if r.plan.hash != c.Data {
			return fmt.Errorf("the data of epoch %d is not what it was (hash %.12s, was %.12s): resume with the same data", c.Epoch, r.plan.hash, c.Data)
		}
	}
	r.cfg.Log.Info("resumed", "kind", c.Kind, "step", c.Step)
	return nil
}

// planEpoch lays out the data of an epoch, unless it is the current one.
func (r *run) planEpoch(epoch int) error {
	if r.planned == epoch {
		return nil
	}
	p, err := r.method.epoch(epoch)
	if err != nil {
		return err
	}
	if len(p.steps) == 0 {
		return fmt.Errorf("train: epoch %d has no token to train on", epoch)
	}
	r.plan, r.planned, r.at.Data = p, epoch, p.hash
	return nil
}

// steps takes the steps that are left. A cancelled run saves a checkpoint first.
func (r *run) steps(ctx context.Context) error {
	saved := r.at.Step
	for !r.at.Done && r.summary.StoppedBy == "" {
		if err := ctx.Err(); err != nil {
			if r.cfg.Dir != "" && saved != r.at.Step {
				if serr := r.runLog.save(&r.at, r.learner); serr != nil {
					return errors.Join(err, serr)
				}
			}
			return fmt.Errorf("training stopped after step %d of %d: %w", r.at.Step, r.total, err)
		}
		improved, err := r.step(ctx)
		if err != nil {
			return err
		}
		if r.summary.StoppedBy != "" {
			break
		}
		if r.cfg.Dir != "" && (improved || r.at.Done || r.cfg.SaveEvery > 0 && r.at.Step%r.cfg.SaveEvery == 0) {
			if err := r.runLog.save(&r.at, r.learner); err != nil {
				return err
			}
			saved = r.at.Step
		}
	}
	return nil
}

// step takes one optimizer step, advances in the data, validates if it is time to, and logs. improved reports that validation was the
// best so far. If the run has to end early, step sets summary.StoppedBy.
func (r *run) step(ctx context.Context) (improved bool, err error) {
	began := r.cfg.Now()
	if err := r.planEpoch(r.at.Epoch); err != nil {
		return false, err
	}
	line, processed, err := r.optimize()
	if err != nil || r.summary.StoppedBy != "" {
		return false, err
	}
	stepSeconds := r.cfg.Now().Sub(began).Seconds()

	r.at.Step++
	r.lines = append(r.lines, line)
	if r.notFinite(line) {
		return false, nil
	}
	if why := r.method.stop.Stop(r.lines); why != "" {
		r.summary.StoppedBy = fmt.Sprintf("step %d: %s", line.Step, why)
		return false, r.log(line, began, stepSeconds, processed)
	}
	if r.at.Index++; r.at.Index == len(r.plan.steps) {
		r.at.Epoch, r.at.Index = r.at.Epoch+1, 0
	}
	r.at.Done = r.at.Step >= r.total
	if improved, err = r.validateAndReport(ctx, &line); err != nil || r.summary.StoppedBy != "" {
		return false, err
	}
	if !r.at.Done {
		if err := r.planEpoch(r.at.Epoch); err != nil { // a checkpoint written now needs the hash of this epoch
			return false, err
		}
	}
	return improved, r.log(line, began, stepSeconds, processed)
}

// optimize takes the optimizer step at the current position, and returns its line of metrics and the number of tokens processed.
func (r *run) optimize() (line StepLog, processed int64, err error) {
	micros, err := r.method.micros(r.plan, r.at.Index)
	if err != nil {
		return line, 0, err
	}
	res, err := r.learner.update(micros)
	if errors.Is(err, ErrNotFinite) {
		r.at.Step++
		r.summary.StoppedBy = err.Error()
		return line, 0, nil
	}
	if err != nil {
		return line, 0, err
	}
	trained, processed := countTokens(micros)
	r.at.TrainedTokens += trained
	r.at.ProcessedTokens += processed
	line = StepLog{Step: r.at.Step + 1, Metrics: []Metric{{"epoch", float64(r.at.Epoch)}, {"loss", res.loss}, {"lr", res.lr}, {"grad_norm", res.gradNorm}}}
	line.Metrics = append(line.Metrics, r.method.metrics(micros, res)...)
	line.Metrics = append(line.Metrics, Metric{"trained_tokens", float64(r.at.TrainedTokens)}, Metric{"processed_tokens", float64(r.at.ProcessedTokens)})
	return line, processed, nil
}

// validateAndReport validates if it is time to, and calls Progress. If Progress ends the run, the last step is validated too.
func (r *run) validateAndReport(ctx context.Context, line *StepLog) (improved bool, err error) {
	due := r.at.Done || r.cfg.EvalEvery > 0 && r.at.Step%r.cfg.EvalEvery == 0
	if due {
		if improved, err = r.validate(ctx, line); err != nil {
			return false, err
		}
	}
	if r.cfg.Progress == nil || r.summary.StoppedBy != "" {
		return improved, nil
	}
	stop := r.cfg.Progress(*line)
	if !errors.Is(stop, ErrStop) {
		return improved, stop
	}
	r.at.Done, r.summary.Stopped = true, true
	if due {
		return improved, nil
	}
	return r.validate(ctx, line)
}

// validate adds the metrics of validation to a line, and reports whether it is the best so far.
func (r *run) validate(ctx context.Context, line *StepLog) (improved bool, err error) {
	if r.method.evaluate == nil {
		return false, nil
	}
	values, err := r.method.evaluate(ctx)
	if err != nil {
		return false, err
	}
	line.Metrics = append(line.Metrics, values...)
	if r.notFinite(*line) || r.at.Best != nil && values[0].Value >= r.at.Best.Value {
		return false, nil
	}
	r.at.Best = &BestMark{r.at.Step, values[0].Value}
	return true, nil
}

// notFinite ends the run if a step's line has a value that is not finite. Such a line cannot be logged: JSON has no NaN.
func (r *run) notFinite(line StepLog) bool {
	for _, m := range line.Metrics {
		if !finite(m.Value) {
			r.summary.StoppedBy = fmt.Sprintf("step %d: %s is %v, %v", line.Step, m.Name, m.Value, ErrNotFinite)
			return true
		}
	}
	return false
}

// log writes the lines of a step: its metrics, and its times and speed in tokens per second.
func (r *run) log(line StepLog, began time.Time, stepSeconds float64, processed int64) error {
	seconds := r.cfg.Now().Sub(began).Seconds()
	r.seconds += seconds
	r.summary.Last = line
	return r.runLog.write(line, StepLog{Step: line.Step, Metrics: []Metric{{"seconds", seconds}, {"step_seconds", stepSeconds},
		{"tokens_per_second", float64(processed) / max(stepSeconds, 1e-9)}, {"total_seconds", r.seconds}}})
}
