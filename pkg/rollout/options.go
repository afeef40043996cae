package rollout

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Defaults of Options.
const (
	DefaultSlots        = 64
	DefaultStepDeadline = 30 * time.Minute
)

// These errors say why a run stopped; compare with errors.Is. A tool that broke down is episode.ErrFault.
var (
	ErrEpisodes = errors.New("too many episodes could not be played on")
	ErrSession  = errors.New("policy session failed")
	ErrStuck    = errors.New("policy session does not answer")
	ErrPanic    = errors.New("panic")
)

// Item is one episode to play.
type Item struct {
	Task    suite.Task
	Attempt int // 0..k-1
}

// Attempts lists k attempts at every task. The attempts at one task stand next to each other.
func Attempts(tasks []suite.Task, k int) []Item {
	items := make([]Item, 0, len(tasks)*max(k, 0))
	for _, t := range tasks {
		for a := range k {
			items = append(items, Item{t, a})
		}
	}
	return items
}

// Options says how to play and what to record.
type Options struct {
	Seed    uint64
	Slots   int // the most episodes at once; 0 is DefaultSlots
	Workers int // the most tool calls at once; 0 is the number of CPUs
	Episode episode.Config
	Reward  reward.Config

	Method        string // in records; empty is the policy's name
	Model         string // in records; empty is the policy's model
	Decoding      string // "greedy" or "sampled", as the policy was set up; empty is greedy
	Temperature   float64
	PolicyVersion uint64 // training step of the policy's weights, for the token records

	// Output receives the records. Episodes that it holds from an earlier run are not played again. nil keeps nothing.
	Output *Output
	// Each is called for every item in order, from one goroutine, as soon as the item and all before it are done. The tokens are
	// nil if the policy has none, or if the episode is of an earlier run without a sidecar. An error ends the run.
	Each func(item int, t trajectory.Trajectory, tokens *trajectory.TokenRecord) error
	// Progress is called after every barrier that finished an episode, and once at the start.
	Progress func(Progress)
	// MaxErrors is the share of the episodes, 0 to 1, that may end with reason error. More of them stop the run with
	// [ErrEpisodes]. 0 allows none. If it is above 0 and there are several episodes, a single error never stops the run.
	MaxErrors float64
	// StepDeadline bounds one call of the session; 0 is DefaultStepDeadline.
	StepDeadline time.Duration
}

// Progress says how far a run is.
type Progress struct {
	Done, Total int // episodes; those of an earlier run count as done
	Resumed     int // of Done, those from an earlier run
	Errors      int // of Done, those that ended with reason error; no mean counts them
	Elapsed     time.Duration
	Left        time.Duration // estimate from this run's pace; 0 until an episode is done
	MeanReward  float64       // over Done without Errors
	Solved      float64       // share of Done without Errors whose answer was verified
}

func (p Progress) String() string {
	s := fmt.Sprintf("%d/%d episodes, reward %.3f, solved %.3f, %v", p.Done, p.Total, p.MeanReward, p.Solved, p.Elapsed.Round(time.Second))
	if p.Resumed > 0 {
		s += fmt.Sprintf(", %d from an earlier run", p.Resumed)
	}
	if p.Errors > 0 {
		s += fmt.Sprintf(", %d could not be played on", p.Errors)
	}
	if p.Done < p.Total && p.Done > p.Resumed {
		s += fmt.Sprintf(", about %v left", p.Left.Round(time.Second))
	}
	return s
}

// EpisodeID names an episode within a run.
func EpisodeID(method string, key policy.Key, budget episode.BudgetMode, decoding string, temperature float64) string {
	if temperature != 0 {
		decoding += "@" + strconv.FormatFloat(temperature, 'g', -1, 64)
	}
	return fmt.Sprintf("%s/%s/s%d/a%d/%s/%s", method, key.Task, key.Seed, key.Attempt, budget, decoding)
}

func (o Options) normalize(p policy.Policy) (Options, error) {
	var err error
	if o.Episode, err = o.Episode.Normalize(); err != nil {
		return o, err
	}
	if err := o.Reward.Validate(); err != nil {
		return o, err
	}
	if o.Method == "" {
		o.Method = p.Name()
	}
	if o.Model == "" {
		o.Model = p.Model()
	}
	switch {
	case o.Decoding == "":
		o.Decoding = "greedy"
	case o.Decoding != "greedy" && o.Decoding != "sampled":
		return o, fmt.Errorf("rollout: decoding is %q, must be greedy or sampled", o.Decoding)
	}
	if o.Slots < 0 || o.Workers < 0 || o.StepDeadline < 0 {
		return o, fmt.Errorf("rollout: slots %d, workers %d, step deadline %v: none may be negative", o.Slots, o.Workers, o.StepDeadline)
	}
	if !(o.MaxErrors >= 0 && o.MaxErrors <= 1) {
		return o, fmt.Errorf("rollout: max_errors is %v, must be a share from 0 to 1", o.MaxErrors)
	}
	if o.Slots == 0 {
		o.Slots = DefaultSlots
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.StepDeadline == 0 {
		o.StepDeadline = DefaultStepDeadline
	}
	return o, nil
}
