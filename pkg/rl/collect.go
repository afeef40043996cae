package rl

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Collected are the episodes of an iteration, ready to train on, with what is logged of them.
type Collected struct {
	Rollouts        []train.Rollout
	Metrics, Timing []train.Metric
}

// playedEpisode is one episode with its ids.
type playedEpisode struct {
	t      trajectory.Trajectory
	tokens trajectory.TokenRecord
}

// failed reports an episode that could not be played on: a tool or the policy broke down, which says nothing of what it did.
func (p playedEpisode) failed() bool { return p.t.End == trajectory.Error }

// World is the one that an iteration plays in: they take turns.
func (l *Loop) World(iteration int) World { return l.Worlds[iteration%len(l.Worlds)] }

// Draw returns n tasks of an iteration, K attempts at each: the next ones of a shuffled pass over the train split of its world. round counts
// the times that groups of the iteration were drawn again. Those draws are from all tasks, not from what the pass has left, and so a task of
// this or an earlier iteration may come back. Its attempts have numbers of their own and so are sampled anew.
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
		for a := range l.Config.K {
			// The attempt keys the random stream: it differs between iterations, which sample from other weights.
			items = append(items, rollout.Item{Task: tasks[j], Attempt: (iteration*16+round)*l.Config.K + a})
		}
	}
	return items
}

// Collect plays the episodes of an iteration and compares their rewards.
func (l *Loop) Collect(ctx context.Context, iteration int) (c Collected, err error) {
	start := time.Now()
	groups, all, resampled, err := l.playGroups(ctx, iteration)
	if err != nil {
		return c, err
	}
	l.state.Episodes += int64(len(all))
	scaled := train.AdvantageConfig{GroupSize: l.Config.K, Scale: l.Config.Scale}
	advantages, trained, err := train.Advantages(rewardsOf(slices.Concat(groups...)), scaled)
	if err != nil {
		return c, err
	}
	// Mean reward is told of all that was played, as success and spend are. Without the groups that were drawn again it would lean to tasks
	// that are solved now and then.
	_, earned, err := train.Advantages(rewardsOf(all), scaled)
	if err != nil {
		return c, err
	}
	distinct := 0.0
	for g, group := range groups {
		rows, share := rolloutsOf(group, fmt.Sprintf("%d/%d", iteration, g), advantages[g*l.Config.K:])
		c.Rollouts = append(c.Rollouts, rows...)
		distinct += share
	}
	seconds := time.Since(start).Seconds()
	sound := sound(all)
	c.Metrics = append([]train.Metric{{Name: "reward_mean", Value: earned.RewardMean}, {Name: "reward_std", Value: earned.RewardStd}}, summarize(sound, l.Columns)...)
	// The first two are of the groups that are trained on, resampled_groups counts the others.
	c.Metrics = append(c.Metrics, train.Metric{Name: "distinct_per_group", Value: distinct / float64(len(groups))},
		train.Metric{Name: "zero_variance_groups", Value: trained.ZeroVarianceShare}, train.Metric{Name: "resampled_groups", Value: float64(resampled)})
	if n := failures(all); n > 0 {
		c.Metrics = append(c.Metrics, train.Metric{Name: "errors", Value: float64(n)})
		l.logf("%d of the %d episodes of iteration %d could not be played on and are left out", n, len(all), iteration+1)
	}
	if len(c.Rollouts) < max(1, l.Config.Update.Minibatches) {
		return c, fmt.Errorf("grpo: iteration %d has %d episodes to train on, the others could not be played on", iteration+1, len(c.Rollouts))
	}
	c.Timing = timing(sound, sampledTokens(all), seconds)
	return c, nil
}

// playGroups plays the groups of an iteration. Those of equal rewards teach nothing and are drawn again, up to Config.Resample times: groups
// are what is trained on, all is every episode that was played, resampled how many groups were drawn again.
func (l *Loop) playGroups(ctx context.Context, iteration int) (groups [][]playedEpisode, all []playedEpisode, resampled int, err error) {
	for round, want := 0, l.Config.Prompts; want > 0; round++ {
		eps, err := l.play(ctx, l.World(iteration).Suite, l.Draw(iteration, round, want), l.Config.Temperature, uint64(iteration))
		if err != nil {
			return nil, nil, 0, err
		}
		all = append(all, eps...)
		want = 0
		for g := range slices.Chunk(eps, l.Config.K) {
			if round < l.Config.Resample && zeroVariance(g) {
				want++
				resampled++
				continue
			}
			groups = append(groups, g)
		}
	}
	return groups, all, resampled, nil
}

// rolloutsOf are the rows that a group is trained on, and the share of them that differ from each other. Episodes that could not be played on
// are in neither.
func rolloutsOf(group []playedEpisode, name string, advantages []float64) (rows []train.Rollout, distinct float64) {
	seen := map[string]bool{}
	for i, p := range group {
		if p.failed() {
			continue
		}
		seen[fmt.Sprint(p.tokens.IDs)] = true
		row := train.Rollout{ID: p.t.EpisodeID, Group: name, IDs: p.tokens.IDs, LogProbs: p.tokens.LogProbs,
			Mask: make([]uint8, len(p.tokens.Mask)), Advantage: advantages[i], Truncated: p.t.Outcome.Truncated}
		for j, sampled := range p.tokens.Mask {
			if sampled {
				row.Mask[j] = 1
			}
		}
		rows = append(rows, row)
	}
	return rows, float64(len(seen)) / float64(max(1, len(rows)))
}

// failures counts the episodes that could not be played on.
func failures(eps []playedEpisode) (n int) {
	for _, p := range eps {
		if p.failed() {
			n++
		}
	}
	return n
}

// sound are the records of the other ones.
func sound(eps []playedEpisode) (trs []trajectory.Trajectory) {
	for _, p := range eps {
		if !p.failed() {
			trs = append(trs, p.t)
		}
	}
	return trs
}

// rewardsOf are the rewards of episodes, as [train.Advantages] takes them: NaN, which is none, for one that could not be played on.
func rewardsOf(eps []playedEpisode) [][]float64 {
	out := make([][]float64, len(eps))
	for i, p := range eps {
		out[i] = []float64{p.t.Outcome.Reward.Total}
		if p.failed() {
			out[i][0] = math.NaN()
		}
	}
	return out
}

// zeroVariance reports a group that training would give no advantage.
func zeroVariance(g []playedEpisode) bool {
	_, s, err := train.Advantages(rewardsOf(g), train.AdvantageConfig{GroupSize: len(g)})
	return err == nil && s.ZeroVariance[0]
}

// play plays items with the policy as it is, with a temperature of 0 greedily. version is the iteration whose weights play.
func (l *Loop) play(ctx context.Context, s suite.Suite, items []rollout.Item, temperature float64, version uint64) ([]playedEpisode, error) {
	decoding := "sampled"
	if temperature == 0 {
		decoding = "greedy"
	}
	out := make([]playedEpisode, len(items))
	_, err := rollout.Run(ctx, s, l.Sampler(l.engine, temperature), items, rollout.Options{Seed: l.Seed, Slots: l.Slots, Episode: l.Episode, Reward: l.Reward,
		Decoding: decoding, Temperature: temperature, PolicyVersion: version, MaxErrors: l.MaxErrors,
		Each: func(i int, t trajectory.Trajectory, tokens *trajectory.TokenRecord) error {
			if t.End == trajectory.Error {
				out[i].t = t
				return nil
			}
			if tokens == nil || len(tokens.IDs) == 0 {
				return fmt.Errorf("episode %s has no tokens: its prompt does not fit episode.max_context %d", t.EpisodeID, l.Episode.MaxContext)
			}
			out[i] = playedEpisode{t, *tokens}
			return nil
		}})
	return out, err
}
