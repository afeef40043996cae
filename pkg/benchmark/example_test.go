package benchmark_test

import (
	"fmt"
	"io"
	"os"

	"github.com/toolroute/toolroute/pkg/benchmark"
)

// A folder is opened for settings and goes on with what it holds; with other settings it is refused.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "benchmark-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, weights := range []string{"w1", "w1", "w2"} {
		f, err := benchmark.Open(dir, benchmark.Settings{Suite: "company", Policy: "sft", Split: "test", Budget: "soft", Weights: weights}, "", io.Discard)
		if err != nil {
			fmt.Println("refused:", len(err.Error()) > 0)
			continue
		}
		fmt.Println(f.Info.Settings.Policy, f.Info.Settings.Weights)
	}
	// Output:
	// sft w1
	// sft w1
	// refused: true
}
