// Package scripted holds policies that follow rules instead of a model: baselines, the oracle, and players of given calls
// or recorded texts. The baselines see what any policy sees, the question, the price list and the observations; how to
// word a tool's query and how to read an answer out of observations is a suite's Rules. They write actions as text, so
// that they go through the same parsing, charging and recording as a model.
//
// All of them give up by finishing with the answer "unknown". Only AlwaysAllTools spends calls that its rules cannot word.
package scripted

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Unknown is the answer of a policy that gives up.
const Unknown = "unknown"

// What a suite declares for scripted policies goes by the same names here.
type (
	Seen      = suite.Seen // one call of the episode and what came back
	Rules     = suite.Rules
	Parser    = suite.Parser
	Knower    = suite.Knower
	Threshold = suite.Threshold
)

// Agent plays one episode. Act gets all calls so far, refused and invalid ones left out, and returns the next action.
type Agent interface {
	Act(seen []Seen) Action
}

// Action is a call, or an error that ends the episode.
type Action struct {
	Thought string
	Tool    string
	Args    json.RawMessage
	Err     error

	written *policy.Reply // a text that is written as it is, for replays
}

// New makes a policy out of a maker of agents. It is for baselines of one's own; those below are made by it.
func New(name, model string, start func(key policy.Key, p suite.Prompt) (Agent, error)) policy.Policy {
	return scriptedPolicy{name, model, start}
}

type scriptedPolicy struct {
	name, model string
	start       func(policy.Key, suite.Prompt) (Agent, error)
}

func (p scriptedPolicy) Name() string  { return p.name }
func (p scriptedPolicy) Model() string { return p.model }

func (p scriptedPolicy) Open(_ context.Context, slots int) (policy.Session, error) {
	if slots < 1 {
		return nil, fmt.Errorf("policy %s: %d slots, needs at least 1", p.name, slots)
	}
	return &session{policy: p, slots: make([]game, slots)}, nil
}

type game struct {
	agent Agent
	seen  []Seen
	err   error
}

type session struct {
	policy scriptedPolicy
	slots  []game
}

func (s *session) Slots() int { return len(s.slots) }

func (s *session) game(slot int) (*game, error) {
	if slot < 0 || slot >= len(s.slots) {
		return nil, fmt.Errorf("policy %s: slot %d of %d", s.policy.name, slot, len(s.slots))
	}
	return &s.slots[slot], nil
}

func (s *session) Start(slot int, key policy.Key, p suite.Prompt) error {
	g, err := s.game(slot)
	if err != nil {
		return err
	}
	if g.agent != nil {
		return fmt.Errorf("policy %s: slot %d is taken", s.policy.name, slot)
	}
	agent, err := s.policy.start(key, p)
	if err != nil {
		// This episode cannot be played; the others can.
		agent, err = failing{err}, nil
	}
	*g = game{agent: agent}
	return err
}

func (s *session) Observe(slot int, o policy.Observation) error {
	g, err := s.game(slot)
	if err != nil {
		return err
	}
	if o.Tool != "" {
		g.seen = append(g.seen, Seen{Tool: o.Tool, Body: o.Body, Failed: o.Failed})
	} else {
		// A script that writes an invalid action would write it again for ever.
		g.err = fmt.Errorf("policy %s: its action is invalid: %s", s.policy.name, o.Body)
	}
	return nil
}

func (s *session) Step(ctx context.Context, slots []int) ([]policy.Reply, error) {
	out := make([]policy.Reply, len(slots))
	for i, slot := range slots {
		g, err := s.game(slot)
		if err != nil {
			return nil, err
		}
		if g.agent == nil {
			return nil, fmt.Errorf("policy %s: slot %d has no episode", s.policy.name, slot)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out[i] = g.act()
	}
	return out, nil
}

func (g *game) act() policy.Reply {
	a := g.agent.Act(g.seen)
	switch {
	case a.written != nil:
		return *a.written
	case a.Err != nil:
		return policy.Reply{Err: a.Err}
	case g.err != nil:
		return policy.Reply{Err: g.err}
	}
	return policy.Reply{Text: episode.Format(a.Thought, a.Tool, a.Args), Stop: policy.StopFence}
}

// stopOf says how a written text ends; one that goes on after its fence was not generated here.
func stopOf(text string) policy.Stop {
	if n, ok := episode.End(text); ok && n == len(text) {
		return policy.StopFence
	}
	return policy.StopEOS
}

func (s *session) Release(slot int) {
	if g, err := s.game(slot); err == nil {
		*g = game{}
	}
}

func (s *session) Close() error { return nil }

type failing struct{ err error }

func (f failing) Act([]Seen) Action { return Action{Err: f.err} }

// agentFunc makes a function an Agent.
type agentFunc func(seen []Seen) Action

func (f agentFunc) Act(seen []Seen) Action { return f(seen) }

// finish answers. The answer is always a string, as the schema of finish wants.
func finish(answer string) Action {
	args, err := json.Marshal(map[string]string{"answer": answer})
	if err != nil {
		panic(err) // strings always marshal
	}
	return Action{Tool: tool.FinishName, Args: args}
}

// conclude finishes with what the rules read out of the observations.
func conclude(r Rules, question string, seen []Seen) Action {
	if answer, ok := r.Extract(question, seen); ok {
		return finish(answer)
	}
	return finish(Unknown)
}

func called(seen []Seen, name string) bool {
	for _, s := range seen {
		if s.Tool == name {
			return true
		}
	}
	return false
}
