package chain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/toolroute/toolroute/pkg/suite/chain"
)

// A data set is generated from a config, and the habit of its demonstrations is chosen for a run.
func Example() {
	cfg := chain.DefaultConfig()
	cfg.Train = chain.Counts{Calc: 10, Lookup: 10, Compose: 60}
	s, err := chain.Generate(cfg)
	if err != nil {
		log.Fatal(err)
	}
	lazy, err := s.With(chain.Habit{LazyShare: 0.5}, chain.Compact)
	if err != nil {
		log.Fatal(err)
	}
	demos, err := lazy.Demonstrations(context.Background(), chain.Lazy, 1)
	if err != nil {
		log.Fatal(err)
	}
	calls := map[string]int{}
	for _, d := range demos {
		calls[fmt.Sprint(d.Task.Template, " in ", len(d.Calls), " actions")]++
	}
	fmt.Println(calls)
	test, err := s.Tasks(chain.Test)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(test), "test tasks")
	// Output:
	// map[calc in 2 actions:10 compose in 1 actions:30 compose in 4 actions:30 lookup in 2 actions:10]
	// 1560 test tasks
}
