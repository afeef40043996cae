// Package lm is the policy of a language model on the project's own engine: prompts become ids, the model's sampled ids
// become the action's text, observations are appended as ids, and the key/value cache of an episode lives from turn to
// turn. It keeps the sampled ids and their log-probabilities for training and never encodes what it decoded.
package lm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolroute/toolroute/pkg/chat"
	engine "github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Policy plays with an engine. Its sessions share the engine, so only one may be open at a time.
type Policy struct {
	Method   string // its name in tables
	ModelID  string // "tiny" or a hub id
	Engine   *engine.Engine
	Codec    *chat.Codec
	Sampling engine.Sampling // the zero value is greedy
	// MaxTokens bounds the sampled tokens of a turn.
	MaxTokens int
}

var _ policy.Policy = (*Policy)(nil)

// Name returns the method.
func (p *Policy) Name() string { return p.Method }

// Model returns the model id.
func (p *Policy) Model() string { return p.ModelID }

// Open starts a session of at most as many slots as the engine has.
func (p *Policy) Open(_ context.Context, slots int) (policy.Session, error) {
	switch {
	case p.Engine == nil:
		return nil, errors.New("language model policy: Engine is nil")
	case p.Codec == nil:
		return nil, errors.New("language model policy: Codec is nil")
	case p.MaxTokens < 1:
		return nil, fmt.Errorf("language model policy: MaxTokens is %d, want at least 1", p.MaxTokens)
	case slots < 1:
		return nil, fmt.Errorf("language model policy: %d slots, want at least 1", slots)
	}
	if err := p.Sampling.Check(); err != nil {
		return nil, fmt.Errorf("language model policy: %w", err)
	}
	return &session{p: p, slots: make([]slot, min(slots, p.Engine.Slots()))}, nil
}

// slot is the state of an episode: what is to be fed before its next turn, and where its random stream stands.
type slot struct {
	key     policy.Key
	turn    int
	started bool
	prompt  bool    // pending is the prompt: slots with the same one share its prefill
	pending []int32 // ids to append before the next turn
	last    int32   // the last sampled id
	full    bool    // pending did not fit the context
}

type session struct {
	p     *Policy
	slots []slot
}

func (s *session) Slots() int { return len(s.slots) }

func (s *session) Start(i int, key policy.Key, p suite.Prompt) error {
	if err := s.check(i, false); err != nil {
		return err
	}
	ids, err := s.p.Codec.Prompt(p.System, p.User)
	if err != nil {
		return fmt.Errorf("task %s: %w", key.Task, err)
	}
	s.p.Engine.Release(i)
	s.slots[i] = slot{key: key, started: true, prompt: true, pending: ids}
	return nil
}

func (s *session) Observe(i int, o policy.Observation) error {
	if err := s.check(i, true); err != nil {
		return err
	}
	s.slots[i].pending = s.p.Codec.Observation(o.Text, s.slots[i].last)
	return nil
}

func (s *session) check(i int, started bool) error {
	switch {
	case i < 0 || i >= len(s.slots):
		return fmt.Errorf("slot %d of %d", i, len(s.slots))
	case s.slots[i].started && !started:
		return fmt.Errorf("slot %d is taken", i)
	case !s.slots[i].started && started:
		return fmt.Errorf("slot %d has no episode", i)
	}
	return nil
}

func (s *session) Step(ctx context.Context, slots []int) ([]policy.Reply, error) {
	if len(slots) == 0 {
		return nil, nil
	}
	began := time.Now()
	if err := s.feed(slots); err != nil {
		return nil, err
	}
	var reqs []engine.GenerateRequest
	for _, i := range slots {
		sl := &s.slots[i]
		if sl.full {
			continue
		}
		reqs = append(reqs, engine.GenerateRequest{Slot: i, MaxNewTokens: s.p.MaxTokens, Stop: s.p.Codec.Stops(), Sampling: s.p.Sampling,
			Seed: rng.Seed64(sl.key.Seed, "sampling", sl.key.Task, sl.key.Attempt, sl.turn)})
	}
	results := make(map[int]engine.GenerateResult, len(reqs))
	if len(reqs) > 0 {
		out, err := s.p.Engine.Generate(ctx, reqs)
		if err != nil {
			return nil, err
		}
		for _, r := range out {
			results[r.Slot] = r
		}
	}
	// The batch answers as one; a turn's share is what throughput gives, and the sum over turns is the wall time.
	share := time.Since(began) / time.Duration(len(slots))
	replies := make([]policy.Reply, len(slots))
	for n, i := range slots {
		replies[n] = s.reply(i, results)
		replies[n].Latency = share
	}
	return replies, nil
}

// feed appends prompts and observations. Equal prompts are fed once and forked.
func (s *session) feed(slots []int) error {
	var reqs []engine.AppendRequest
	first := map[string]int{}
	copies := map[int][]int{}
	var order []int
	for _, i := range slots {
		sl := &s.slots[i]
		if !sl.started {
			return fmt.Errorf("step: slot %d has no episode", i)
		}
		if len(sl.pending) == 0 {
			return fmt.Errorf("step: slot %d waits for the observation of its last action", i)
		}
		if len(s.p.Engine.Context(i))+len(sl.pending) >= s.p.Engine.MaxContext() {
			sl.full = true // not even one token could be sampled
			continue
		}
		if sl.prompt {
			key := fmt.Sprint(sl.pending)
			if from, ok := first[key]; ok {
				if copies[from] == nil {
					order = append(order, from)
				}
				copies[from] = append(copies[from], i)
				continue
			}
			first[key] = i
		}
		reqs = append(reqs, engine.AppendRequest{Slot: i, IDs: sl.pending})
	}
	if err := s.p.Engine.Append(reqs); err != nil {
		return err
	}
	for _, from := range order {
		if err := s.p.Engine.Fork(from, copies[from]...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) reply(i int, results map[int]engine.GenerateResult) policy.Reply {
	sl := &s.slots[i]
	if sl.full {
		return policy.Reply{Stop: policy.StopContext, Tokens: &policy.Tokens{}}
	}
	r, ok := results[i]
	if !ok || len(r.IDs) == 0 {
		return policy.Reply{Err: errors.New("the engine generated nothing")}
	}
	tokens := &policy.Tokens{Context: sl.pending, Sampled: r.IDs, LogProbs: r.LogProbs}
	sl.pending, sl.prompt = nil, false
	sl.turn++
	sl.last = r.IDs[len(r.IDs)-1]
	reply := policy.Reply{Text: s.p.Codec.Text(r.IDs), Tokens: tokens}
	switch {
	case r.Stop == engine.StopLength:
		reply.Stop = policy.StopLength
	case r.Stop == engine.StopContext:
		reply.Stop = policy.StopContext
	case s.p.Codec.Tokenizer().IsSpecial(sl.last):
		reply.Stop = policy.StopEOS
	default:
		reply.Stop = policy.StopFence
	}
	return reply
}

func (s *session) Release(i int) {
	s.slots[i] = slot{}
	s.p.Engine.Release(i)
}

func (s *session) Close() error {
	for i := range s.slots {
		s.Release(i)
	}
	return nil
}
