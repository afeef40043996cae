package rl_test

import (
	"fmt"

	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/train"
)

// A point without a cost ratio, because nothing was solved, leaves its cell empty.
func ExampleHistoryCSV() {
	points := []rl.EvalPoint{
		{Iteration: 0, Split: "val", Episodes: 100, Values: []train.Metric{{Name: "success", Value: 0}}},
		{Iteration: 5, Split: "val", Episodes: 100, Values: []train.Metric{{Name: "success", Value: 0.5}, {Name: "cost_ratio", Value: 1.25}}},
	}
	fmt.Print(string(rl.HistoryCSV(points)))
	// Output:
	// iteration,split,temperature,episodes,success,cost_ratio
	// 0,val,0,100,0,
	// 5,val,0,100,0.5,1.25
}
