package train_test

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/train"
)

// A small decoder learns to answer 5 with 6 and 7; the 5, the question, is only read.
func Example() {
	backend, err := lm.OpenBackend("go")
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := lm.NewRandom(backend, &lm.Config{Vocab: 8, Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 32,
		RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 32, Pad: -1}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	examples := []train.Example{{ID: "six seven", IDs: []int32{5, 6, 7}, Mask: []uint8{0, 1, 1}}}
	summary, err := train.SFT(context.Background(), model, train.Fixed(examples), nil, train.SFTConfig{
		Run:       train.RunConfig{Seed: 1, MaxSteps: 40},
		Batch:     train.BatchConfig{MicroBatchSize: 1, Lengths: []int{4}},
		Optimizer: train.AdamW{WeightDecay: 0.01, MaxGradNorm: 1},
		Schedule:  train.Schedule{Kind: "cosine", LearningRate: 1e-2, WarmupSteps: 4},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	accuracy, _ := summary.Last.Get("accuracy")
	fmt.Printf("%d steps on %d tokens, accuracy %.0f\n", summary.Steps, summary.TrainedTokens, accuracy)
	// Output: 40 steps on 80 tokens, accuracy 1
}

// There are two groups of two rollouts. The rewards of the first are equal, so its advantages are exactly 0.
func ExampleAdvantages() {
	rewards := []float64{1, 1, 0, 1}
	advantages, stats, err := train.Advantages(rewards, train.AdvantageConfig{GroupSize: 2, Scale: "none"})
	fmt.Println(advantages, stats.ZeroVarianceShare, err)
	// Output: [0 0 -0.5 0.5] 0.5 <nil>
}
