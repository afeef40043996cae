package stage

import (
	"context"
	"fmt"
	"slices"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy"
	lmpolicy "github.com/toolroute/toolroute/pkg/policy/lm"
)

// Evaluate plays every trained policy that has a method name: greedy once, and sampled k times.
func (e *Env) Evaluate(ctx context.Context) error {
	for _, name := range e.Config.Train {
		method := e.Config.Recipes[name].Method
		if method == "" || !e.Config.Asked(method) {
			continue
		}
		for _, seed := range e.Config.SeedsOf(name) {
			if why, no := e.refused(name, seed); no {
				e.Logf("%s", why)
				continue
			}
			if err := e.evaluate(ctx, name, method, seed); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Env) evaluate(ctx context.Context, name, method string, seed uint64) error {
	t, err := e.trained(name, seed)
	if err != nil {
		return err
	}
	sameWeights := ""
	if of := e.Config.Recipes[t.Chosen].Method; of != "" && slices.Contains(e.Config.Train, t.Chosen) && e.Config.Asked(of) {
		if err := e.evaluate(ctx, t.Chosen, of, seed); err != nil {
			return err
		}
		sameWeights = of
	}
	player := player{env: e, name: name, method: method, seed: seed}
	defer player.close()
	for _, p := range e.learnedFiles(method, seed) {
		p.slots, p.version, p.sameWeights = e.Config.Engine.Slots, t.Weights, sameWeights
		p.open = func() (policy.Policy, error) { return player.policy(p.temperature) }
		if err := e.play(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// learnedFiles lists the files of episodes that a trained policy has to play with these settings. A policy without a method, or whose method
// eval.methods leaves out, plays none.
func (e *Env) learnedFiles(method string, seed uint64) (out []episodeFile) {
	if method == "" || !e.Config.Asked(method) {
		return nil
	}
	ev := e.Config.Eval
	for _, split := range e.Splits() {
		p := episodeFile{method: method, label: fmt.Sprintf("seed%d", seed), split: split, seed: seed}
		p.decoding, p.k = "greedy", 1
		for _, p.budget = range ev.BudgetModes {
			out = append(out, p)
		}
		p.decoding, p.k, p.temperature = "sampled", ev.Attempts, ev.Temperature
		for _, p.budget = range ev.SampledBudgetModes {
			out = append(out, p)
		}
	}
	return out
}

// player loads a trained policy when it is first needed and keeps its engine for all that is played with it.
type player struct {
	env          *Env
	name, method string
	seed         uint64
	model        *lm.Model
	engine       *lm.Engine
}

func (p *player) policy(temperature float64) (policy.Policy, error) {
	c, err := p.env.root().codec()
	if err != nil {
		return nil, err
	}
	if p.engine == nil {
		if p.model, err = p.env.load(p.name, p.seed); err != nil {
			return nil, err
		}
		if p.engine, err = lm.NewEngine(p.model, p.env.engineOptions()); err != nil {
			return nil, err
		}
	}
	return p.env.sampler(p.method, p.engine, c, temperature), nil
}

// sampler returns a policy that generates with an engine. At temperature 0 it decodes greedily.
func (e *Env) sampler(method string, engine *lm.Engine, c *chat.Codec, temperature float64) policy.Policy {
	return &lmpolicy.Policy{Method: method, ModelID: e.Options.Model, Engine: engine, Codec: c,
		Sampling: lm.Sampling{Temperature: temperature}, MaxTokens: e.Config.Episode.MaxTokensPerTurn}
}

func (e *Env) engineOptions() lm.EngineOptions {
	c := e.Config.Engine
	return lm.EngineOptions{Slots: c.Slots, MaxContext: e.Config.Episode.MaxContext, Contexts: c.Contexts, PrefillTokens: c.Prefill, Rows: c.Rows, DecodeTokens: c.Decode}
}

func (p *player) close() {
	if p.engine != nil {
		p.engine.Close()
	}
	if p.model != nil {
		p.model.Weights.Free()
	}
}
