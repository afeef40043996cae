package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/train"
)

// faults collects what is wrong with settings; each text begins with the key of the setting.
type faults []error

// fault is a package's error about its settings, reworded with the whole key.
type fault struct {
	text  string
	cause error
}

func (f fault) Error() string { return f.text }
func (f fault) Unwrap() error { return f.cause }

func (f *faults) say(format string, args ...any) { f.add(fmt.Errorf(format, args...)) }

// add keeps the first error of each setting.
func (f *faults) add(err error) {
	same := func(have error) bool { return keyIn(have) == keyIn(err) && keyIn(err) != "" }
	if !slices.ContainsFunc(*f, same) {
		*f = append(*f, err)
	}
}

// keyIn is the dotted key that an error begins with.
func keyIn(err error) string {
	key, _, _ := strings.Cut(err.Error(), " ")
	key, _, _ = strings.Cut(key, "[")
	return strings.TrimRight(key, ":")
}

// of adds the errors that a package's own check found in the settings below key. Packages name their fields as the YAML does. Some put
// their own name before the field ("adamw: beta2 must ..."); of replaces that name by the key.
func (f *faults) of(key string, settings any, err error) {
	if err == nil {
		return
	}
	text := err.Error()
	fields := yamlFields(reflect.TypeOf(settings))
	starts := func(text string) bool {
		word := text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz0123456789_"))]
		_, ok := fields[word]
		return ok
	}
	own := key[strings.LastIndexByte(key, '.')+1:]
	switch _, rest, ok := strings.Cut(text, ": "); {
	case strings.HasPrefix(text, key+"."):
	case strings.HasPrefix(text, own+".") && starts(text[len(own)+1:]):
		text = key + text[len(own):]
	case starts(text):
		text = key + "." + text
	case ok && starts(rest):
		text = key + "." + rest
	case ok:
		text = key + ": " + rest
	default:
		text = key + ": " + text
	}
	f.add(fault{text, err})
}

func (f *faults) least(least int, key string, v int) {
	if v < least {
		f.say("%s is %d: it must be at least %d", key, v, least)
	}
}

func (f *faults) between(key string, v, least, most int) {
	f.least(least, key, v)
	f.most(most, key, v)
}

// most bounds a count. Without a bound, a run with one zero too many could go on for days before anybody notices.
func (f *faults) most(most int, key string, v int) {
	if v > most {
		f.say("%s is %d: it must be at most %d", key, v, most)
	}
}

func (f *faults) within(key string, v, lo, hi float64, what string) {
	if !(v >= lo && v <= hi) { // NaN too
		f.say("%s is %v: it is %s, %v to %v", key, v, what, lo, hi)
	}
}

func (f *faults) positive(key string, v float64) {
	if !(v > 0) {
		f.say("%s is %v: it must be above 0", key, v)
	}
}

// eps keeps the optimizer from dividing by 0 where a gradient has always been 0.
func (f *faults) eps(key string, v float64) {
	if v < 1e-30 { // float32, which training computes with, holds little below it
		f.say("%s is %v: it must be at least 1e-30, or the optimizer divides by 0", key, v)
	}
}

// leastTemperature is the lowest temperature for sampled rows. It is lower than any useful one, and higher than the bound below which the
// engine decodes greedily.
const leastTemperature = 0.01

func (f *faults) temperature(key string, v float64) {
	if !(v >= leastTemperature && v <= 10) {
		f.say("%s is %v: sampling needs a temperature of at least %v, at most 10", key, v, leastTemperature)
	}
}

func (f *faults) modes(key string, list []string) {
	if len(list) == 0 {
		f.say("%s is empty: name soft, hard or none", key)
	}
	for _, m := range list {
		if m != string(episode.Soft) && m != string(episode.Hard) && m != string(episode.None) {
			f.say("%s: %q is none of soft, hard, none", key, m)
		}
	}
}

// values names the settings with values that make no sense, among those that a recipe can change too. So the settings under `with` are
// checked by the same rules as the run's.
func (c Config) values() faults {
	var f faults
	_, err := c.Episode.Normalize()
	f.of("episode", c.Episode, err)
	f.between("episode.max_turns", c.Episode.MaxTurns, 1, mostTurns)
	f.of("reward", c.Reward, c.Reward.Validate())
	f.of("gate", c.Gate, c.Gate.Validate())
	f.of("warnings", c.Warnings, c.Warnings.Check())
	for _, err := range c.Suite.Check(c.Seed) {
		f.add(fault{"suite." + err.Error(), err})
	}
	f.between("profile.tasks", c.Profile.Tasks, 1, mostTasks)
	f.between("profile.attempts", c.Profile.Attempts, 1, mostAttempts)
	f.least(1, "warnings.patience", c.Warnings.Patience)
	f.temperature("profile.temperature", c.Profile.Temperature)
	f.within("replay_fraction", c.ReplayFraction, 0, 0.9, "a share of tokens")
	c.copyPretrainingValues(&f)
	c.engineValues(&f)
	c.sftValues(&f)
	c.dpoValues(&f)
	c.grpoValues(&f)
	return f
}

func (c Config) copyPretrainingValues(f *faults) {
	w := c.Tiny.CopyPretraining
	f.of("tiny.copy_pretraining", w, w.Check())
	f.of("tiny.copy_pretraining", w, train.Schedule{LearningRate: w.LearningRate, WarmupSteps: w.WarmupSteps}.Check())
	f.least(8, "tiny.copy_pretraining.vocabulary_start", w.VocabularyStart)
	f.least(24, "tiny.copy_pretraining.length", w.RowLength)
	f.least(0, "tiny.copy_pretraining.give_up_at", w.GiveUpAt)
	f.least(0, "tiny.copy_pretraining.warmup_steps", w.WarmupSteps)
	f.most(mostRows, "tiny.copy_pretraining.micro_batch_size", w.MicroBatchSize)
	f.most(mostRows, "tiny.copy_pretraining.length", w.RowLength)
	if rows := c.SFT.Batch.Lengths; c.ReplayFraction > 0 && len(rows) > 0 && w.LongRow() > slices.Max(rows) {
		f.say("tiny.copy_pretraining.length is %d: rows of replay have up to %d tokens, the longest of sft.batch.lengths has %d", w.RowLength, w.LongRow(), slices.Max(rows))
	}
}

func (c Config) engineValues(f *faults) {
	e := c.Engine
	f.between("engine.slots", e.Slots, 1, mostRows)
	f.between("engine.decode", e.Decode, 1, mostRows)
	for _, list := range []struct {
		key   string
		sizes []int
	}{{"engine.contexts", e.Contexts}, {"engine.prefill", e.Prefill}, {"engine.rows", e.Rows}} {
		for _, n := range list.sizes {
			if n < 1 || n > mostRows {
				f.say("%s holds %d: sizes are 1 to %d", list.key, n, mostRows)
			}
		}
	}
	if most := c.Tiny.Model.MaxPositions; c.Episode.MaxContext > most {
		f.say("episode.max_context is %d: the model has tiny.model.max_positions %d", c.Episode.MaxContext, most)
	}
}

func (c Config) sftValues(f *faults) {
	s := c.SFT
	f.training("sft", s.Run, s.Batch, s.Optimizer, s.Schedule, s.Stop)
	f.of("sft.loss", s.Loss, s.Loss.Check())
	c.rowsFit(f, "sft.batch.lengths", s.Batch.Lengths)
}

func (c Config) dpoValues(f *faults) {
	d := c.DPO
	f.training("dpo", d.Run, d.Batch, d.Optimizer, d.Schedule, d.Stop)
	f.of("dpo.loss", d.Loss, d.Loss.Check())
	for _, n := range d.Batch.Lengths { // a row holds both sides, so it may be longer than the model has positions
		f.most(mostRows, "dpo.batch.lengths", n)
	}
}

// training names what makes no sense in the settings that supervised training and DPO share. key is their section.
func (f *faults) training(key string, r train.RunConfig, b train.BatchConfig, o train.AdamW, s train.Schedule, stop train.StopRule) {
	r.Dir = "somewhere" // the stage sets it, as it does the schedule's total
	s.Total = max(1, s.Total)
	f.of(key+".run", r, r.Check())
	f.least(1, key+".run.epochs", r.Epochs)
	f.between(key+".run.accumulate", r.Accumulate, 1, mostRows)
	f.least(1, key+".run.keep_last", r.KeepLast)
	f.most(mostRows, key+".batch.micro_batch_size", b.MicroBatchSize)
	f.eps(key+".optimizer.eps", o.Eps)
	f.least(1, key+".stop.patience", stop.Patience)
	f.of(key+".batch", b, b.Check())
	f.of(key+".optimizer", o, o.Check())
	f.of(key+".schedule", s, s.Check())
	f.of(key+".stop", stop, stop.Check())
}

// rowsFit names rows of training that are longer than the model has positions.
func (c Config) rowsFit(f *faults, key string, lengths []int) {
	if most := c.Tiny.Model.MaxPositions; len(lengths) > 0 && slices.Max(lengths) > most {
		f.say("%s holds %d: the model has tiny.model.max_positions %d", key, slices.Max(lengths), most)
	}
}

func (c Config) grpoValues(f *faults) {
	g, u := c.GRPO, c.GRPO.Update
	u.Schedule.Total = max(1, u.Schedule.Total) // the stage sets it
	whole := len(*f)
	f.between("grpo.iterations", g.Iterations, 1, mostSteps)
	f.between("grpo.prompts", g.Prompts, 1, mostRows)
	f.between("grpo.group_size", g.GroupSize, 2, mostAttempts)
	f.least(1, "grpo.stop.patience", g.Stop.Patience)
	f.eps("grpo.update.optimizer.eps", u.Optimizer.Eps)
	f.most(mostRows, "grpo.update.batch.micro_batch_size", u.Batch.MicroBatchSize)
	if u.Epochs < 1 || u.Epochs > mostRows {
		f.say("grpo.update.epochs is %d: it must be 1 to %d", u.Epochs, mostRows)
	}
	f.least(1, "grpo.update.minibatches", u.Minibatches)
	if l := u.Loss; l.EpsLow == 0 && l.EpsHigh == 0 {
		f.say("grpo.update.loss.eps_low and eps_high are 0: every ratio is clipped and nothing is learned")
	}
	f.positive("grpo.update.loss.tau_pos", u.Loss.TauPos)
	f.positive("grpo.update.loss.tau_neg", u.Loss.TauNeg)
	f.temperature("grpo.temperature", g.Temperature)
	if g.Resample < 0 || g.Resample > rl.MaxResample {
		f.say("grpo.resample is %d: it must be 0 (never) to %d", g.Resample, rl.MaxResample)
	}
	f.least(0, "grpo.eval_every", g.EvalEvery)
	f.least(0, "grpo.eval_tasks", g.EvalTasks)
	for i, t := range g.EvalTemperatures {
		if i == 0 && t != 0 || i > 0 && !(t >= leastTemperature && t <= 10) {
			f.say("grpo.eval_temperatures is %v: 0 (greedy, which chooses the checkpoint) comes first, the others are at least %v and at most 10", g.EvalTemperatures, leastTemperature)
			break
		}
	}
	if n := len(g.EvalTemperatures); n > 2 || n == 0 {
		f.say("grpo.eval_temperatures is %v: name 0, and at most one other", g.EvalTemperatures)
	}
	f.of("grpo", g, train.AdvantageConfig{GroupSize: max(2, g.GroupSize), Scale: g.Scale}.Check())
	f.of("grpo.stop", g.Stop, g.Stop.Check())
	f.of("grpo.update.loss", u.Loss, u.Loss.Check())
	f.of("grpo.update.optimizer", u.Optimizer, u.Optimizer.Check())
	f.of("grpo.update.schedule", u.Schedule, u.Schedule.Check())
	f.of("grpo.update.batch", u.Batch, u.Batch.Check())
	if rows := u.Batch.Lengths; len(rows) > 0 && slices.Max(rows) < c.Episode.MaxContext && c.Episode.MaxContext <= c.Tiny.Model.MaxPositions {
		f.say("grpo.update.batch.lengths has rows of up to %d tokens: an episode has up to episode.max_context %d", slices.Max(rows), c.Episode.MaxContext)
	}
	c.rowsFit(f, "grpo.update.batch.lengths", u.Batch.Lengths)
	if len(*f) == whole { // the parts are sound: check how they fit together
		f.of("grpo.update", u, u.Check())
	}
	if n := g.Prompts * g.GroupSize; n > 0 && u.Minibatches > n {
		f.say("grpo.update.minibatches is %d: an iteration has %d episodes (grpo.prompts x grpo.group_size)", u.Minibatches, n)
	}
}

// Bounds of counts, far above any use. With them a typing error is an error message, and neither days of computing nor a process that is
// killed for its memory: attempts at a task, tasks of a split, turns, rows and row lengths, steps, sizes of a model, further worlds.
const (
	mostAttempts = 1000
	mostTasks    = 20_000
	mostTurns    = 1000
	mostRows     = 65_536
	mostSteps    = 10_000_000
	mostWidth    = 65_536
	mostLayers   = 256
	mostWorlds   = 1000
)

// runValues names the settings of the run alone whose values make no sense; suites check their own data sets.
func (c Config) runValues() faults {
	var f faults
	if len(c.TrainSeeds) == 0 {
		f.say("train_seeds is empty: name at least one seed")
	}
	seen := map[uint64]bool{}
	for _, s := range c.TrainSeeds {
		if seen[s] {
			f.say("train_seeds names %d twice", s)
		}
		seen[s] = true
	}
	methods := slices.Clone(c.Baselines.Methods)
	for _, r := range c.Recipes {
		if r.Method != "" {
			methods = append(methods, r.Method)
		}
	}
	slices.Sort(methods)
	if m := c.Eval.Headline; m != "" && !slices.Contains(methods, m) {
		f.say("eval.headline is %q, which is the method of no recipe and no baseline", m)
	}
	for _, m := range c.Eval.Methods {
		if !slices.Contains(methods, m) {
			f.say("eval.methods: no recipe and no baseline has the method %q; there are %s", m, strings.Join(methods, ", "))
		}
	}
	f.between("eval.attempts", c.Eval.Attempts, 1, mostAttempts)
	f.between("eval.resamples", c.Eval.Resamples, 1, mostSteps)
	if s := c.Baselines.MinScore; s < 0 {
		f.say("baselines.min_score is %v: it must be 0 (the suite's own) or more", s)
	}
	f.of("judge", c.Judge, c.Judge.Check())
	f.positive("checkpoints.max_mb", c.Checkpoints.MaxMB)
	f.temperature("eval.temperature", c.Eval.Temperature)
	f.modes("baselines.budget_modes", c.Baselines.BudgetModes)
	f.modes("eval.budget_modes", c.Eval.BudgetModes)
	if c.Eval.NTasks < 0 {
		f.say("eval.n_tasks is %d: it must be 0 (the whole split) or more", c.Eval.NTasks)
	}
	if k := c.Eval.PassK; k < 0 || k > max(0, c.Eval.Attempts) {
		f.say("eval.pass_k is %d: it must be in 1..%d (eval.attempts), or 0, all attempts", k, c.Eval.Attempts)
	}
	f.within("max_errors", c.MaxErrors, 0, 1, "a share of the episodes")
	if c.MaxSteps < 0 {
		f.say("max_steps is %d: it must be 0 (no bound) or more", c.MaxSteps)
	}
	if p := c.Publish; p != PublishStory && p != PublishExperiment && p != PublishNothing {
		f.say("publish: %q is none of %s, %s, %s", p, PublishStory, PublishExperiment, PublishNothing)
	}
	if u := c.Checkpoints.Use; u != UseAuto && u != UseNever && u != UseAlways {
		f.say("checkpoints.use: %q is none of %s, %s, %s", u, UseAuto, UseNever, UseAlways)
	}
	m := c.Tiny.Model
	for _, s := range []struct {
		key string
		n   int
	}{{"hidden", m.Hidden}, {"layers", m.Layers}, {"heads", m.Heads}, {"kv_heads", m.KVHeads}, {"head_dim", m.HeadDim}, {"ffn", m.FFN}, {"max_positions", m.MaxPositions}} {
		most := mostWidth
		if s.key == "layers" {
			most = mostLayers
		}
		f.between("tiny.model."+s.key, s.n, 1, most)
	}
	if len(f) == 0 {
		f.of("tiny.model", m, m.Config(1, 0).Check())
	}
	f.positive("tiny.model.rope_theta", m.RopeTheta)
	f.between("tiny.tokenizer.max_vocab", c.Tiny.Tokenizer.MaxVocab, 1, mostSteps)
	f.least(1, "tiny.tokenizer.min_texts", c.Tiny.Tokenizer.MinTexts)
	return f
}
