package scripted

import (
	"errors"
	"fmt"

	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Oracle plays the gold path of each task. It is the only baseline that is given the tasks.
func Oracle(tasks []suite.Task) policy.Policy {
	paths := make(map[string][]suite.Call, len(tasks))
	for _, t := range tasks {
		paths[t.ID] = t.GoldPath
	}
	return Demonstrator("oracle", "-", func(k policy.Key) []suite.Call { return paths[k.Task] })
}

// Demonstrator plays the calls that given returns for an episode, whatever is observed: it turns demonstrations into
// records with real observations. An episode without calls, or whose calls end before it does, ends with an error.
func Demonstrator(name, model string, given func(policy.Key) []suite.Call) policy.Policy {
	return New(name, model, func(key policy.Key, _ suite.Prompt) (Agent, error) {
		calls := given(key)
		if len(calls) == 0 {
			return nil, fmt.Errorf("%s has no calls for task %s", name, episodeName(key))
		}
		n := 0
		return agentFunc(func([]Seen) Action {
			if n == len(calls) {
				return Action{Err: fmt.Errorf("%s: the %d calls for task %s are over and it has not finished", name, n, episodeName(key))}
			}
			c := calls[n]
			n++
			return Action{Thought: c.Thought, Tool: c.Tool, Args: c.Args}
		}), nil
	})
}

// Paths gives the calls of demonstrations to a Demonstrator, and the episodes to play: several demonstrations of one task
// are its attempts 0, 1, ... in order.
func Paths(demos []suite.Demonstration) (given func(policy.Key) []suite.Call, attempts []int) {
	type id struct {
		task    string
		attempt int
	}
	calls := make(map[id][]suite.Call, len(demos))
	count := map[string]int{}
	for _, d := range demos {
		a := count[d.Task.ID]
		count[d.Task.ID]++
		attempts = append(attempts, a)
		calls[id{d.Task.ID, a}] = d.Calls
	}
	return func(k policy.Key) []suite.Call { return calls[id{k.Task, k.Attempt}] }, attempts
}

// Replay writes the recorded texts again, turn by turn, faulty ones included: the same texts must get the same verdicts.
// It stops as the record says it stopped. Method and model are those of the first record.
func Replay(records []trajectory.Trajectory) policy.Policy {
	type id struct {
		task    string
		attempt int
		seed    uint64
	}
	name, model := "replay", "-"
	if len(records) > 0 {
		name, model = records[0].Method, records[0].Model
	}
	by := make(map[id]trajectory.Trajectory, len(records))
	for _, t := range records {
		by[id{t.Task.ID, t.Attempt, t.Seed}] = t
	}
	return New(name, model, func(key policy.Key, _ suite.Prompt) (Agent, error) {
		t, ok := by[id{key.Task, key.Attempt, key.Seed}]
		if !ok {
			return nil, fmt.Errorf("replay: no record of task %s, seed %d", episodeName(key), key.Seed)
		}
		return &texts{record: t}, nil
	})
}

// texts writes the turns of a record.
type texts struct {
	record trajectory.Trajectory
	turn   int
}

func (t *texts) Act([]Seen) Action {
	if t.turn == len(t.record.Turns) {
		cause := t.record.Cause
		if cause == "" {
			cause = "the record is over and the episode is not"
		}
		return Action{Err: errors.New(cause)}
	}
	turn := t.record.Turns[t.turn]
	t.turn++
	return Action{written: &policy.Reply{Text: turn.Text, Stop: t.stop(turn)}}
}

// stop restores why generation stopped, which decides between an invalid action and a truncated episode.
func (t *texts) stop(turn trajectory.Turn) policy.Stop {
	if t.turn == len(t.record.Turns) && t.record.Outcome.Truncated && turn.ErrorKind != "" {
		switch t.record.End {
		case trajectory.Tokens:
			return policy.StopLength
		case trajectory.Context:
			return policy.StopContext
		}
	}
	return stopOf(turn.Text)
}
