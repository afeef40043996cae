package lm_test

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/lm"
)

// Two turns of one context: a prompt, a continuation, an observation, a continuation.
func ExampleEngine() {
	b, err := lm.OpenBackend("go") // "auto" takes the fastest there is
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := lm.NewRandom(b, &lm.Config{
		Vocab: 50, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 32, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 128,
	}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := lm.NewEngine(m, lm.EngineOptions{Slots: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	for turn, ids := range [][]int32{{1, 2, 3, 4}, {5, 6}} { // the prompt, then an observation
		if err := e.Append([]lm.AppendRequest{{Slot: 0, IDs: ids}}); err != nil {
			fmt.Println(err)
			return
		}
		res, err := e.Generate(context.Background(), []lm.GenerateRequest{{Slot: 0, MaxNewTokens: 5, Sampling: lm.Sampling{Temperature: 1}, Seed: uint64(turn)}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(len(res[0].IDs), len(res[0].LogProbs), res[0].Stop, len(e.Context(0)))
	}
	// Output:
	// 5 5 length 9
	// 5 5 length 16
}
