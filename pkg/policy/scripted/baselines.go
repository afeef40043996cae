package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// AlwaysCheapest makes, again and again, the cheapest call that the rules can word to an offered tool that it has not called, until
// the rules extract an answer; with no tool left it gives up. What counts is the price of the call as it is worded, units
// included (see tool.Price); calls of one price go in prompt order. A tool the rules could not word before (a calculator with nothing
// to compute) is tried again after each observation.
func AlwaysCheapest(r Rules) policy.Policy {
	return baseline("always_cheapest", r, func(_ policy.Key, p suite.Prompt) (Agent, error) {
		return agentFunc(func(seen []Seen) Action {
			if len(seen) > 0 {
				if answer, ok := r.Extract(p.Question, seen); ok {
					return finish(answer)
				}
			}
			calls := uncalled(p, seen, r.Call)
			if len(calls) == 0 {
				return finish(Unknown)
			}
			return slices.MinFunc(calls, func(a, b priced) int { return cmp.Compare(a.price, b.price) }).Action
		}), nil
	})
}

// AlwaysAllTools calls every offered tool exactly once, in prompt order, and then extracts an answer. A tool that the rules cannot
// word yet waits until the others have been called; when they cannot word it then either, it gets their fall-back call.
func AlwaysAllTools(r Rules) policy.Policy {
	return baseline("always_all_tools", r, func(_ policy.Key, p suite.Prompt) (Agent, error) {
		return agentFunc(func(seen []Seen) Action {
			for _, word := range []wording{r.Call, r.Fallback} {
				if calls := uncalled(p, seen, word); len(calls) > 0 {
					return calls[0].Action
				}
			}
			return conclude(r, p.Question, seen)
		}), nil
	})
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

// wording words the arguments of a tool, as Rules.Call does.
type wording func(question, tool string, seen []Seen) (json.RawMessage, bool)

// priced is a call and what it costs.
type priced struct {
	Action
	price price.Amount
}

// uncalled words a call to each offered tool that was not called, in prompt order, tools that cannot be worded left out.
func uncalled(p suite.Prompt, seen []Seen, word wording) []priced {
	var out []priced
	for _, s := range toolsOf(p) {
		if called(seen, s.Name) {
			continue
		}
		if args, ok := word(p.Question, s.Name, seen); ok {
			out = append(out, priced{Action{Tool: s.Name, Args: args}, costOf(s, args)})
		}
	}
	return out
}

// costOf is the price of a call. Arguments that cannot be read cost the base: the call will fail.
func costOf(s tool.Spec, args json.RawMessage) price.Amount {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return s.Price.Base
	}
	return s.Price.Of(fields)
}

// RuleParser plays what a suite's hand-written parser of its questions says. It gives up where the parser does.
func RuleParser(p Parser) policy.Policy {
	return baseline("rule_parser", p, func(_ policy.Key, prompt suite.Prompt) (Agent, error) {
		return agentFunc(func(seen []Seen) Action {
			c, ok := p.Next(prompt.Question, toolsOf(prompt), seen)
			if !ok {
				return finish(Unknown)
			}
			return Action{Thought: c.Thought, Tool: c.Tool, Args: c.Args}
		}), nil
	})
}

// baseline refuses the episodes that offer a tool its rules do not know (see Knower).
func baseline(name string, r any, start func(policy.Key, suite.Prompt) (Agent, error)) policy.Policy {
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
