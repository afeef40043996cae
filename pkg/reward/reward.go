// Package reward turns records of episodes into numbers, by pure functions: the reward of one episode, the profile of a
// policy's rewards over groups of attempts, and the gate that refuses to start reinforcement learning where it could not
// learn. It plays nothing and reads no files.
//
// The reward of an episode is
//
//	r = c (correct + efficiency * min(1, optimal/spend)) - format * min(invalid, maxInvalid) - call * calls
//
// with c = 1 if the answer verifies and 0 otherwise. Efficiency is gated by success: a wrong answer earns no cost credit,
// because an additive cost term teaches a policy to answer nothing at once. Config.Additive, which takes the gate away, is
// there to show that.
package reward

import (
	"errors"
	"fmt"
	"math"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Config holds the coefficients. Default has the documented values; the zero value pays nothing.
type Config struct {
	Correct    float64 `json:"correct" yaml:"correct"`         // for a verified answer
	Efficiency float64 `json:"efficiency" yaml:"efficiency"`   // times min(1, optimal/spend), for a verified answer
	Format     float64 `json:"format" yaml:"format"`           // taken off for each invalid action
	MaxInvalid int     `json:"max_invalid" yaml:"max_invalid"` // invalid actions that count at most
	Call       float64 `json:"call" yaml:"call"`               // taken off for each executed call, finish aside
	// RequireEvidence makes an answer verify only when every gold value it rests on was seen in an observation: a right
	// guess then earns nothing.
	RequireEvidence bool `json:"require_evidence" yaml:"require_evidence"`
	// Additive pays efficiency for every answer, right or wrong: for an ablation, see docs/reward_design.md. An episode that
	// gave no answer still earns nothing.
	Additive bool `json:"additive,omitempty" yaml:"additive"`
}

// Default is 0.7 + 0.3 min(1, optimal/spend), less 0.1 for each of at most three invalid actions, evidence required.
func Default() Config {
	return Config{Correct: 0.7, Efficiency: 0.3, Format: 0.1, MaxInvalid: 3, RequireEvidence: true}
}

// VerifierOnly is 1 if and only if the answer is right, whatever it cost.
func VerifierOnly() Config { return Config{Correct: 1} }

// Validate names the first coefficient that makes no sense.
func (c Config) Validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{{"correct", c.Correct}, {"efficiency", c.Efficiency}, {"format", c.Format}, {"call", c.Call}} {
		if math.IsNaN(f.v) || math.IsInf(f.v, 0) || f.v < 0 {
			return fmt.Errorf("reward: %s is %v, must be a number of at least 0", f.name, f.v)
		}
	}
	if c.MaxInvalid < 0 {
		return fmt.Errorf("reward: max_invalid is %d, must not be negative", c.MaxInvalid)
	}
	if c.Additive && c.Efficiency == 0 {
		return errors.New("reward: additive is set and efficiency is 0: it would add nothing; set efficiency too, or leave additive out")
	}
	if c.Additive && c.Correct == 0 {
		return errors.New("reward: additive is set and correct is 0: a wrong answer would earn as much as a right one")
	}
	if c.Correct+c.Efficiency == 0 {
		return errors.New("reward: correct and efficiency are both 0: nothing would be rewarded")
	}
	return nil
}

// Verified reports whether the episode counts as solved.
func Verified(c Config, t trajectory.Trajectory) bool {
	o := t.Outcome
	return t.End == trajectory.Finished && o.Correct && (o.Evidenced || !c.RequireEvidence)
}

// Of computes the reward and its parts. The parts sum to the total.
func Of(c Config, t trajectory.Trajectory) trajectory.Reward {
	var r trajectory.Reward
	verified := Verified(c, t)
	if verified {
		r.Correct = c.Correct
	}
	if verified || c.Additive && t.End == trajectory.Finished {
		r.Efficiency = c.Efficiency * Efficiency(t)
	}
	// 0 - x, not -x: records hold no negative zero.
	r.Format = 0 - c.Format*float64(min(t.Outcome.Invalid, c.MaxInvalid))
	r.Calls = 0 - c.Call*float64(calls(t))
	r.Total = r.Correct + r.Efficiency + r.Format + r.Calls
	return r
}

// Efficiency is min(1, optimal/spend). An episode that spent nothing is as efficient as can be; one that spent anything
// where the optimum is free has efficiency 0.
func Efficiency(t trajectory.Trajectory) float64 {
	spend := t.Outcome.Spend
	if spend <= t.Task.OptimalCost || spend <= 0 {
		return 1
	}
	return t.Task.OptimalCost.Float() / spend.Float()
}

// Apply fills in Verified and the reward of a record.
func Apply(c Config, t *trajectory.Trajectory) {
	t.Outcome.Verified = Verified(c, *t)
	t.Outcome.Reward = Of(c, *t)
}

func calls(t trajectory.Trajectory) int {
	n := 0
	for _, turn := range t.Turns {
		if turn.Executed() {
			n++
		}
	}
	return n
}
