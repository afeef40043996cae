package rl

import (
	"fmt"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/rollout"
)

// MaxResample is how many times the groups of an iteration can be replaced: attempts are numbered for the first draw and so many more.
const MaxResample = drawsPerIteration - 1

const drawsPerIteration = 16

// World is the world that an iteration plays in. Worlds take turns.
func (l *Loop) World(iteration int) World { return l.Worlds[iteration%len(l.Worlds)] }

// Draw returns the items of n tasks, Config.GroupSize attempts at each. round 0 is the first draw of an iteration: it takes the next tasks
// of a shuffled epoch over the world's tasks.
//
// Later rounds replace groups of equal rewards. They draw from all tasks, not only from those that the epoch has left, so that replacements
// take no task away from later iterations. A task of this or an earlier iteration may therefore come back. Its attempts then have new
// numbers, and so are sampled anew.
func (l *Loop) Draw(iteration, round, n int) []rollout.Item {
	tasks, turn := l.World(iteration).Tasks, iteration/len(l.Worlds)
	perEpoch := len(tasks) / l.Config.Prompts
	epoch, at := turn/perEpoch, turn%perEpoch
	purpose := "grpo/tasks"
	if round > 0 {
		purpose = fmt.Sprintf("grpo/tasks/again/%d/%d", iteration, round)
		at = 0
	}
	order := rng.New(l.Seed, purpose, epoch).Perm(len(tasks))[at*l.Config.Prompts:]
	var items []rollout.Item
	for _, j := range order[:n] {
		for a := range l.Config.GroupSize {
			// The attempt keys the random stream. It differs between iterations, because their weights differ.
			items = append(items, rollout.Item{Task: tasks[j], Attempt: (iteration*drawsPerIteration+round)*l.Config.GroupSize + a})
		}
	}
	return items
}
