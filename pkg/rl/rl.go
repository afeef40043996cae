// Package rl is the loop of reinforcement learning: it plays groups of episodes with the policy as it is, compares their rewards within the
// group, and updates the policy from the very token ids that were sampled. Suites, a model, a codec and settings go in; the updated model, a
// history and the result come out. The maths of an update is in pkg/train; which policy is trained from which, and in which folder, is not
// known here.
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

// Config is how episodes are drawn, and how the policy is updated from them.
type Config struct {
	Iterations int `yaml:"iterations" json:"iterations"`
	// Prompts is the number of tasks of an iteration, K of attempts at each: the group whose rewards are compared.
	Prompts     int     `yaml:"prompts" json:"prompts"`
	K           int     `yaml:"k" json:"k"`
	Temperature float64 `yaml:"temperature" json:"temperature"`
	// Resample draws other tasks, up to so many times, for groups whose rewards are all equal.
	Resample int `yaml:"resample" json:"resample"`
	// EvalEvery plays EvalTasks of val, and of HeldoutSplit where one is named, after so many iterations, at each of EvalTemperatures. The
	// first is 0, greedy: the mean reward on val, played greedily, chooses the checkpoint. The others are logged and choose nothing.
	EvalEvery        int       `yaml:"eval_every" json:"eval_every"`
	EvalTasks        int       `yaml:"eval_tasks" json:"eval_tasks"`
	EvalTemperatures []float64 `yaml:"eval_temperatures" json:"eval_temperatures"`
	HeldoutSplit     string    `yaml:"heldout_split" json:"heldout_split"`
	// KeepBest ends with the iteration that was best on val. The start, iteration 0, is a candidate; of equal iterations the later is kept.
	// Without KeepBest the last iteration is the result.
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

// EvalSet is a sample of a split that the policy plays every Config.EvalEvery iterations.
type EvalSet struct {
	Split  string
	Tasks  []suite.Task
	Prefix string // of its metrics' names, such as "val_"
	// Chooses says that its mean reward, played greedily, decides which iteration is the best. One set does.
	Chooses bool
}

// Setup is all that a run of reinforcement learning is made of.
type Setup struct {
	Name   string // of the policy, for the log
	Seed   uint64
	Config Config
	// Worlds are played in turn, one an iteration.
	Worlds []World
	// EvalSets are played in Evaluation, which may show tools and prices otherwise than Worlds do.
	EvalSets   []EvalSet
	Evaluation suite.Suite
	// Columns are the suite's own: those that are ratios are logged with every iteration.
	Columns []eval.Column

	Model  *lm.Model // trained in place
	Engine lm.EngineOptions
	// Sampler is the policy that generates with an engine at a temperature; 0 is greedy.
	Sampler func(e *lm.Engine, temperature float64) policy.Policy

	Episode episode.Config
	Reward  reward.Config
	Slots   int
	// MaxErrors is the share of the episodes of a rollout that may end with an error before it stops.
	MaxErrors float64

	Dir string    // of checkpoints and logs; a run that was killed goes on from what is there
	Log io.Writer // for the user; what updates warn of goes to slog's default, which notebooks keep
	// Updated is called after every iteration, last after the last one; may be nil.
	Updated func(last bool)
}

func (s Setup) logf(format string, a ...any) { fmt.Fprintf(s.Log, "  "+s.Name+": "+format+"\n", a...) }

// check names what no run can be made of.
func (s Setup) check() error {
	if len(s.Worlds) == 0 || s.Model == nil || s.Sampler == nil || s.Log == nil || s.Evaluation == nil {
		return errors.New("rl: a run needs a world, a suite to evaluate in, a model, a sampler and a log")
	}
	for _, w := range s.Worlds {
		if s.Config.Prompts > len(w.Tasks) {
			return fmt.Errorf("grpo.prompts is %d, the train split has %d tasks", s.Config.Prompts, len(w.Tasks))
		}
	}
	return nil
}

// Result is what a run came to.
type Result struct {
	Updates   int
	Trained   int64 // tokens that the loss is of
	Processed int64 // tokens that went through the model in updates
	Episodes  int64 // played to train on, those of groups that were drawn again included
	Seconds   float64
	// Kept is the iteration whose weights the model has now; nil where that is the last.
	Kept *int
	// Stopped says why the run ended before its last iteration; empty where it did not.
	Stopped string
	History []EvalPoint
}
