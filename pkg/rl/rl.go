// Package rl is the loop of reinforcement learning. An iteration plays groups of episodes with the current policy, compares the rewards
// within each group, and updates the policy from the very token ids that were sampled. [Open] takes a [Setup]: suites, a model, a policy
// factory and settings. [Loop.Run] trains the model in place and returns a [Result] with the history. A run that was killed goes on from the
// checkpoints in Setup.Dir.
//
// The mathematics of an update is in pkg/train. This package does not know recipes, gates, or the folders of other stages.
package rl

import (
	"errors"
	"fmt"
	"io"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
)

// Config says how episodes are drawn and how the policy is updated from them.
type Config struct {
	Iterations int `yaml:"iterations" json:"iterations"`
	// Prompts is the number of tasks of an iteration. GroupSize is the number of attempts at each task: the group whose rewards are compared.
	Prompts     int     `yaml:"prompts" json:"prompts"`
	GroupSize   int     `yaml:"group_size" json:"group_size"`
	Temperature float64 `yaml:"temperature" json:"temperature"`
	// Resample is how many times an iteration replaces its groups of equal rewards by groups of other tasks; at most [MaxResample].
	Resample int `yaml:"resample" json:"resample"`
	// EvalEvery is the number of iterations between evaluations; 0 evaluates after the last one only. EvalTasks is the number of tasks that
	// each evaluation takes of val, and of HeldoutSplit where one is named. Every task is played once at each of EvalTemperatures. The first
	// temperature is 0, greedy: its mean reward on val selects the best iteration. The other figures are logged and select nothing.
	EvalEvery        int       `yaml:"eval_every" json:"eval_every"`
	EvalTasks        int       `yaml:"eval_tasks" json:"eval_tasks"`
	EvalTemperatures []float64 `yaml:"eval_temperatures" json:"eval_temperatures"`
	HeldoutSplit     string    `yaml:"heldout_split" json:"heldout_split"`
	// KeepBest returns the weights of the iteration that was best on val. Iteration 0, the start, is a candidate. Among equals the latest is
	// kept. Without KeepBest the weights of the last iteration are returned.
	KeepBest bool             `yaml:"keep_best" json:"keep_best"`
	Scale    string           `yaml:"scale" json:"scale"` // of advantages: group, batch or none
	Update   train.GRPOConfig `yaml:"update" json:"update"`
	Stop     train.StopRule   `yaml:"stop" json:"stop"`
}

// World is a suite with the tasks that the policy is trained on.
type World struct {
	Suite suite.Suite
	Tasks []suite.Task
}

// EvalSet is a sample of a split that is played at every evaluation.
type EvalSet struct {
	Split  string
	Tasks  []suite.Task
	Prefix string // of its metrics' names, such as "val_"
	// SelectsBest marks the set whose mean reward, played greedily, decides which iteration is the best. One set has it.
	SelectsBest bool
}

// Setup is everything that a run of reinforcement learning needs.
type Setup struct {
	Name   string // of the policy, for the log
	Seed   uint64
	Config Config
	// Worlds take turns: each iteration plays in one of them.
	Worlds []World
	// EvalSets are played in Evaluation, which may show tools and prices differently than Worlds do.
	EvalSets   []EvalSet
	Evaluation suite.Suite
	// Columns are the suite's own. Those that are ratios are logged with every iteration.
	Columns []eval.Column

	Model  *lm.Model // trained in place
	Engine lm.EngineOptions
	// Sampler makes the policy that generates with an engine at a temperature; 0 is greedy.
	Sampler func(e *lm.Engine, temperature float64) policy.Policy

	Episode episode.Config
	Reward  reward.Config
	Slots   int // episodes played at once
	// MaxErrors is the share of episodes that may end with an error, 0 to 1. More of them stop the run.
	MaxErrors float64

	Dir string    // holds checkpoints and logs
	Log io.Writer // for the user. Warnings about updates go to slog's default logger instead, which notebooks show.
	// Updated is called after every iteration; last is true after the final one. It may be nil.
	Updated func(last bool)
}

func (s Setup) logf(format string, a ...any) { fmt.Fprintf(s.Log, "  "+s.Name+": "+format+"\n", a...) }

// check reports the first part of the setup that is missing or makes no sense. train.NewGRPO checks the settings of updates.
func (s Setup) check() error {
	if len(s.Worlds) == 0 || s.Model == nil || s.Sampler == nil || s.Log == nil || s.Evaluation == nil {
		return errors.New("rl: a run needs a world, a suite to evaluate in, a model, a sampler and a log")
	}
	c := s.Config
	switch {
	case c.Iterations < 1 || c.Prompts < 1:
		return fmt.Errorf("grpo.iterations is %d and grpo.prompts is %d: each must be at least 1", c.Iterations, c.Prompts)
	case c.Resample < 0 || c.Resample > MaxResample:
		return fmt.Errorf("grpo.resample is %d: it must be 0 (never) to %d", c.Resample, MaxResample)
	}
	if err := s.advantages().Check(); err != nil {
		return fmt.Errorf("grpo: %w", err)
	}
	for _, w := range s.Worlds {
		if c.Prompts > len(w.Tasks) {
			return fmt.Errorf("grpo.prompts is %d, the train split has %d tasks", c.Prompts, len(w.Tasks))
		}
	}
	selecting := 0
	for _, set := range s.EvalSets {
		if set.SelectsBest {
			selecting++
		}
	}
	if selecting > 1 {
		return fmt.Errorf("rl: %d eval sets select the best iteration, one may", selecting)
	}
	return nil
}

// advantages says how rewards become advantages.
func (s Setup) advantages() train.AdvantageConfig {
	return train.AdvantageConfig{GroupSize: s.Config.GroupSize, Scale: s.Config.Scale}
}

// Result describes a finished run.
type Result struct {
	Updates   int
	Trained   int64 // tokens in the loss, counted once for every pass over them
	Processed int64 // tokens that went through the model in updates
	Episodes  int64 // played for training, those of replaced groups included; evaluation is not counted
	Seconds   float64
	// Kept is the iteration whose weights the model has now; nil means the last one.
	Kept *int
	// Stopped says why the run ended before its last iteration; empty if it did not.
	Stopped string
	History []EvalPoint
}
