package judge_test

import (
	"errors"
	"fmt"

	"github.com/toolroute/toolroute/pkg/benchmark"
	"github.com/toolroute/toolroute/pkg/judge"
)

// The key comes from the environment alone. Without it there is no judge, and the caller goes on without one.
func ExampleOpen() {
	_, err := judge.Open(benchmark.JudgeSettings{
		BaseURL: "https://api.example.org/v1", Model: "some-model", KeyEnv: "A_KEY_THAT_IS_NOT_SET", Parallel: 1, Timeout: 30, MaxTokens: 300, Format: benchmark.FormatSchema,
	}, "runs/judge", func(format string, a ...any) { fmt.Printf(format+"\n", a...) })
	fmt.Println(errors.Is(err, judge.ErrNoKey))
	fmt.Println(err)
	// Output:
	// true
	// no key: the environment variable A_KEY_THAT_IS_NOT_SET, which judge.key_env names, is empty
}
