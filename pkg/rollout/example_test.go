package rollout_test

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
)

// Every task once, by the oracle and by a baseline, in both budget modes.
func ExampleRun() {
	s := &mini.Suite{Seed: 1, Count: 30}
	tasks, err := s.Tasks("train")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range []policy.Policy{scripted.Oracle(tasks), scripted.AlwaysAllTools(mini.Rules{})} {
		for _, mode := range []episode.BudgetMode{episode.Soft, episode.Hard} {
			trajs, err := rollout.Run(context.Background(), s, p, rollout.Attempts(tasks, 1), rollout.Options{
				Seed: 1, Reward: reward.Default(), Episode: episode.Config{Budget: mode},
			})
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(p.Name(), mode, reward.NewProfile(trajs, 1))
		}
	}
	// Output:
	// oracle soft 30 tasks, 30 episodes: success 1.000, pass@1 1.000, mixed groups 0.000, valid actions 1.000, reward 1.000 ± 0.000
	// oracle hard 30 tasks, 30 episodes: success 1.000, pass@1 1.000, mixed groups 0.000, valid actions 1.000, reward 1.000 ± 0.000
	// always_all_tools soft 30 tasks, 30 episodes: success 1.000, pass@1 1.000, mixed groups 0.000, valid actions 1.000, reward 0.886 ± 0.088
	// always_all_tools hard 30 tasks, 30 episodes: success 0.333, pass@1 0.333, mixed groups 0.000, valid actions 1.000, reward 0.333 ± 0.471
}
