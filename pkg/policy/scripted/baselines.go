package scripted

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// AlwaysCheapest calls, again and again, the cheapest offered tool that it has not called and that the rules can word a
// query for, until the rules extract an answer; with no tool left it gives up. Tools of one base price go in prompt order. A
// tool the rules could not word before (a calculator with nothing to compute) is tried again after each observation.
func AlwaysCheapest(r Rules) policy.Policy {
	return baseline("always_cheapest", r, func(_ policy.Key, p suite.Prompt) (Agent, error) {
		tools := toolsOf(p)
		slices.SortStableFunc(tools, func(a, b tool.Spec) int {
			switch {
			case a.Price.Base < b.Price.Base:
				return -1
			case a.Price.Base > b.Price.Base:
				return 1
			}
			return 0
		})
		return agentFunc(func(seen []Seen) Action {
			if len(seen) > 0 {
				if answer, ok := r.Extract(p.Question, seen); ok {
					return finish(answer)
				}
			}
			if a, ok := nextUncalled(r, p.Question, tools, seen); ok {
				return a
			}
			return finish(Unknown)
		}), nil
	})
}

// AlwaysAllTools calls every offered tool once, in prompt order, and then extracts an answer. A tool that the rules cannot
// word yet waits until the others have been called, and is left out when they cannot word it then either.
func AlwaysAllTools(r Rules) policy.Policy {
	return baseline("always_all_tools", r, func(_ policy.Key, p suite.Prompt) (Agent, error) {
		tools := toolsOf(p)
		return agentFunc(func(seen []Seen) Action {
			if a, ok := nextUncalled(r, p.Question, tools, seen); ok {
				return a
			}
			return conclude(r, p.Question, seen)
		}), nil
	})
}

// Threshold holds the parameters of StaticThreshold.
type Threshold struct {
	First    string  // the search that is always tried
	Second   string  // the search to escalate to
	MinScore float64 // escalate when the first one's best score is lower, absent or the call failed
}

// StaticThreshold searches First, escalates to Second when the retrieval score is low, then extracts an answer from what it
// has. It calls no other tool.
func StaticThreshold(r Rules, t Threshold) policy.Policy {
	return baseline("static_threshold", r, func(_ policy.Key, p suite.Prompt) (Agent, error) {
		offered := func(name string) bool {
			return slices.ContainsFunc(p.Tools, func(s tool.Spec) bool { return s.Name == name })
		}
		call := func(name string, seen []Seen) (Action, bool) {
			if !offered(name) || called(seen, name) {
				return Action{}, false
			}
			args, ok := r.Call(p.Question, name, seen)
			return Action{Tool: name, Args: args}, ok
		}
		return agentFunc(func(seen []Seen) Action {
			if a, ok := call(t.First, seen); ok {
				return a
			}
			good := slices.ContainsFunc(seen, func(s Seen) bool {
				score, ok := r.Score(s)
				return s.Tool == t.First && !s.Failed && ok && score >= t.MinScore
			})
			if a, ok := call(t.Second, seen); ok && !good {
				return a
			}
			return conclude(r, p.Question, seen)
		}), nil
	})
}

// RandomTool draws, at each turn, uniformly from finish and the offered tools that the rules can word a query for, and
// finishes with what the rules extract. Its stream is keyed by seed, task and attempt.
func RandomTool(r Rules) policy.Policy {
	return baseline("random_tool", r, func(key policy.Key, p suite.Prompt) (Agent, error) {
		stream := rng.New(key.Seed, "random_tool", key.Task, key.Attempt)
		return agentFunc(func(seen []Seen) Action {
			var choices []Action
			for _, s := range toolsOf(p) {
				if args, ok := r.Call(p.Question, s.Name, seen); ok {
					choices = append(choices, Action{Tool: s.Name, Args: args})
				}
			}
			i := stream.IntN(len(choices) + 1)
			if i == len(choices) {
				return conclude(r, p.Question, seen)
			}
			return choices[i]
		}), nil
	})
}

func nextUncalled(r Rules, question string, tools []tool.Spec, seen []Seen) (Action, bool) {
	for _, s := range tools {
		if called(seen, s.Name) {
			continue
		}
		if args, ok := r.Call(question, s.Name, seen); ok {
			return Action{Tool: s.Name, Args: args}, true
		}
	}
	return Action{}, false
}

// baseline refuses the episodes that offer a tool its rules do not know (see Knower).
func baseline(name string, r Rules, start func(policy.Key, suite.Prompt) (Agent, error)) policy.Policy {
	return New(name, "-", func(key policy.Key, p suite.Prompt) (Agent, error) {
		if k, ok := r.(Knower); ok {
			for _, s := range toolsOf(p) {
				if !k.Knows(s.Name) {
					return nil, fmt.Errorf("%s cannot play task %s: its rules know no tool named %q (tools under other names are for learned policies)", name, episodeName(key), s.Name)
				}
			}
		}
		return start(key, p)
	})
}

// toolsOf returns the offered tools without finish, in prompt order.
func toolsOf(p suite.Prompt) []tool.Spec {
	return slices.DeleteFunc(slices.Clone(p.Tools), func(s tool.Spec) bool { return s.Name == tool.FinishName })
}

// episodeName is how errors call an episode.
func episodeName(k policy.Key) string { return k.Task + " attempt " + strconv.Itoa(k.Attempt) }
