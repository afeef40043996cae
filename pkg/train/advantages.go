package train

import (
	"fmt"
	"math"
)

// AdvantageConfig says how the rewards of groups of rollouts become advantages.
type AdvantageConfig struct {
	// GroupSize is the number of rollouts of each prompt. It is at least 2: one rollout alone has nothing to be compared with.
	GroupSize int `json:"group_size" yaml:"group_size"`
	// Scale names the standard deviation that advantages are divided by: that of the "group" (the default), that of the
	// "batch", or "none" (arXiv 2503.20783).
	Scale string `json:"scale" yaml:"scale"`
}

// AdvantageStats describes the rewards of a batch. Rollouts without a reward are left out.
type AdvantageStats struct {
	// RewardStd is Bessel-corrected.
	RewardMean, RewardStd float64
	// ZeroVariance marks the groups, by index, whose rewards are all equal: they carry no gradient.
	ZeroVariance []bool
	// ZeroVarianceShare is the share of such groups; TRL's frac_reward_zero_std, except where Scale is "batch".
	ZeroVarianceShare float64
}

// advantageEps keeps the division finite; TRL's value.
const advantageEps = 1e-4

// sameReward is the spread of rewards, relative to the largest absolute one (at least 1), below which they count as equal.
// Rewards are sums of a few floats, and the rounding between 0.1+0.2 and 0.3 must not become an advantage.
const sameReward = 1e-6

// Check reports the first field that makes no sense.
func (c AdvantageConfig) Check() error {
	if c.GroupSize < 2 {
		return fmt.Errorf("advantages: group_size must be at least 2, got %d", c.GroupSize)
	}
	switch c.Scale {
	case "", "group", "batch", "none":
		return nil
	}
	return fmt.Errorf("advantages: scale is %q, which is none of group, batch, none", c.Scale)
}

// Advantages turns the rewards of a batch into advantages (arXiv 2402.03300), one for each rollout. The rollouts of a group
// stand next to each other. For a reward r,
//
//	A = (r - mean of the group) / (std + 1e-4)
//
// where std is the Bessel-corrected standard deviation that Scale names; "none" does not divide. A reward of NaN means that
// the rollout has none: its advantage is 0, and no mean or std counts it. If the rewards of a group are equal, its advantages
// are exactly 0.
func Advantages(rewards []float64, c AdvantageConfig) ([]float64, AdvantageStats, error) {
	var stats AdvantageStats
	if err := c.Check(); err != nil {
		return nil, stats, err
	}
	n, size := len(rewards), c.GroupSize
	if n == 0 || n%size != 0 {
		return nil, stats, fmt.Errorf("advantages: %d rollouts are no whole number of groups of %d", n, size)
	}
	for i, r := range rewards {
		if math.IsInf(r, 0) {
			return nil, stats, fmt.Errorf("advantages: the reward of rollout %d is infinite", i)
		}
	}
	batch := momentsOf(rewards)
	stats.RewardMean, stats.RewardStd = batch.mean, batch.std
	out := make([]float64, n)
	for at := 0; at < n; at += size {
		group := momentsOf(rewards[at : at+size])
		stats.ZeroVariance = append(stats.ZeroVariance, group.zeroVariance)
		if group.zeroVariance {
			stats.ZeroVarianceShare += float64(size) / float64(n)
			continue
		}
		divisor := group.std + advantageEps
		switch c.Scale {
		case "batch":
			divisor = batch.std + advantageEps
		case "none":
			divisor = 1
		}
		for i := at; i < at+size; i++ {
			if !math.IsNaN(rewards[i]) {
				out[i] = (rewards[i] - group.mean) / divisor
			}
		}
	}
	return out, stats, nil
}

// moments are the mean and the Bessel-corrected standard deviation of some values.
type moments struct {
	mean, std float64
	// zeroVariance says that the values are equal except for rounding, or that there are fewer than two. std is then 0.
	zeroVariance bool
}

// momentsOf computes the moments of the values that are not NaN.
func momentsOf(x []float64) moments {
	var n, sum float64
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range x {
		if !math.IsNaN(v) {
			n, sum = n+1, sum+v
			low, high = min(low, v), max(high, v)
		}
	}
	if n == 0 {
		return moments{zeroVariance: true}
	}
	s := moments{mean: sum / n}
	s.zeroVariance = n < 2 || high-low <= sameReward*max(1, math.Abs(low), math.Abs(high))
	if s.zeroVariance {
		return s
	}
	var square float64
	for _, v := range x {
		if !math.IsNaN(v) {
			square += (v - s.mean) * (v - s.mean)
		}
	}
	s.std = math.Sqrt(square / (n - 1))
	return s
}
