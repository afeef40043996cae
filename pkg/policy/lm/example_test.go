package lm_test

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	engine "github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy/lm"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// An untrained model plays two attempts at a task. It finds no action, and every id it read or sampled is on record.
func ExamplePolicy() {
	codec, err := miniCodec()
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := engine.OpenBackend("go") // "auto" takes the fastest there is
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := engine.NewRandom(b, &engine.Config{Vocab: codec.Tokenizer().VocabSize(), Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 32,
		RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 128}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := engine.NewEngine(m, engine.EngineOptions{Slots: 2, PrefillTokens: []int{16}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	p := &lm.Policy{Method: "untrained", ModelID: "tiny", Engine: e, Codec: codec, Sampling: engine.Sampling{Temperature: 1}, MaxTokens: 8}
	s := &mini.Suite{Count: 1}
	tasks, err := s.Tasks("train")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = rollout.Run(context.Background(), s, p, rollout.Attempts(tasks, 2), rollout.Options{Seed: 1, Episode: episode.Config{MaxTurns: 2}, Reward: reward.Default(),
		Decoding: "sampled", Temperature: 1,
		Each: func(_ int, t trajectory.Trajectory, tok *trajectory.TokenRecord) error {
			sampled := 0
			for _, m := range tok.Mask {
				if m {
					sampled++
				}
			}
			said := 0
			for _, turn := range t.Turns {
				said += turn.Tokens
			}
			fmt.Println(t.Outcome.Verified, sampled == said, len(tok.IDs) == len(tok.LogProbs))
			return nil
		}})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// false true true
	// false true true
}
