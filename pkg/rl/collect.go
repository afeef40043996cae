package rl

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Collected are the episodes of an iteration, ready to train on, and the figures to log.
type Collected struct {
	Rollouts        []train.Rollout
	Metrics, Timing []train.Metric
}

// tokenizedEpisode is the record of an episode with its token ids.
type tokenizedEpisode struct {
	t      trajectory.Trajectory
	tokens trajectory.TokenRecord
}

// failed reports that a tool or the policy broke down and ended the episode. That says nothing about the policy's choices: the episode has
// no reward and is not trained on.
func (p tokenizedEpisode) failed() bool { return p.t.End == trajectory.Error }

// Collect plays the episodes of an iteration and compares their rewards.
func (l *Loop) Collect(ctx context.Context, iteration int) (c Collected, err error) {
	start := time.Now()
	groups, all, resampled, err := l.playGroups(ctx, iteration)
	if err != nil {
		return c, err
	}
	l.state.Episodes += int64(len(all))
	advantages, trainedStats, err := train.Advantages(rewardsOf(slices.Concat(groups...)), l.advantages())
	if err != nil {
		return c, err
	}
	// The mean reward is over all episodes, as success and spend are. Without the replaced groups it would be the mean over those tasks that
	// the policy solves on some attempts and not on others.
	_, allStats, err := train.Advantages(rewardsOf(all), l.advantages())
	if err != nil {
		return c, err
	}
	distinct := 0.0 // mean over the groups
	for g, group := range groups {
		rows, share := rolloutsOf(group, fmt.Sprintf("%d/%d", iteration, g), advantages[g*l.Config.GroupSize:])
		c.Rollouts = append(c.Rollouts, rows...)
		distinct += share
	}
	distinct /= float64(len(groups))
	seconds := time.Since(start).Seconds()
	records := completed(all)
	c.Timing = timing(records, sampledTokens(all), seconds)
	c.Metrics = append([]train.Metric{{Name: "reward_mean", Value: allStats.RewardMean}, {Name: "reward_std", Value: allStats.RewardStd}}, summarize(records, l.Columns)...)
	// distinct_per_group and zero_variance_groups are of the groups that are trained on; resampled_groups counts the replaced ones.
	c.Metrics = append(c.Metrics, train.Metric{Name: "distinct_per_group", Value: distinct},
		train.Metric{Name: "zero_variance_groups", Value: trainedStats.ZeroVarianceShare}, train.Metric{Name: "resampled_groups", Value: float64(resampled)})
	if n := failures(all); n > 0 {
		c.Metrics = append(c.Metrics, train.Metric{Name: "errors", Value: float64(n)})
		l.logf("%d of the %d episodes of iteration %d could not be played on and are left out", n, len(all), iteration+1)
	}
	if len(c.Rollouts) < max(1, l.Config.Update.Minibatches) {
		return c, fmt.Errorf("grpo: iteration %d has %d episodes to train on, the others could not be played on", iteration+1, len(c.Rollouts))
	}
	return c, nil
}

// playGroups plays the groups of an iteration. A group of equal rewards has only zero advantages, so it is replaced by another draw, up to
// Config.Resample times. groups are trained on, all is every episode played, and resampled counts the replaced groups.
func (l *Loop) playGroups(ctx context.Context, iteration int) (groups [][]tokenizedEpisode, all []tokenizedEpisode, resampled int, err error) {
	for round, want := 0, l.Config.Prompts; want > 0; round++ {
		episodes, err := l.play(ctx, l.World(iteration).Suite, l.Draw(iteration, round, want), l.Config.Temperature, uint64(iteration))
		if err != nil {
			return nil, nil, 0, err
		}
		all = append(all, episodes...)
		want = 0
		for g := range slices.Chunk(episodes, l.Config.GroupSize) {
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

// rolloutsOf returns the rows that a group is trained on, and the share of them that are distinct. Failed episodes are left out of both.
// The advantages are in the order of the group.
func rolloutsOf(group []tokenizedEpisode, name string, advantages []float64) (rows []train.Rollout, distinct float64) {
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

// failures counts the failed episodes.
func failures(episodes []tokenizedEpisode) (n int) {
	for _, p := range episodes {
		if p.failed() {
			n++
		}
	}
	return n
}

// completed returns the records of the episodes that did not fail.
func completed(episodes []tokenizedEpisode) (trs []trajectory.Trajectory) {
	for _, p := range episodes {
		if !p.failed() {
			trs = append(trs, p.t)
		}
	}
	return trs
}

// rewardsOf returns the rewards of episodes as [train.Advantages] takes them. A failed episode has no reward: NaN.
func rewardsOf(episodes []tokenizedEpisode) []float64 {
	out := make([]float64, len(episodes))
	for i, p := range episodes {
		out[i] = p.t.Outcome.Reward.Total
		if p.failed() {
			out[i] = math.NaN()
		}
	}
	return out
}

// zeroVariance reports a group of equal rewards: all of its advantages are 0.
func zeroVariance(g []tokenizedEpisode) bool {
	_, s, err := train.Advantages(rewardsOf(g), train.AdvantageConfig{GroupSize: len(g)})
	return err == nil && s.ZeroVariance[0]
}

// play plays items with the current weights. Temperature 0 is greedy. version is the iteration that the weights are from.
func (l *Loop) play(ctx context.Context, s suite.Suite, items []rollout.Item, temperature float64, version uint64) ([]tokenizedEpisode, error) {
	decoding := "sampled"
	if temperature == 0 {
		decoding = "greedy"
	}
	out := make([]tokenizedEpisode, len(items))
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
			out[i] = tokenizedEpisode{t, *tokens}
			return nil
		}})
	return out, err
}
