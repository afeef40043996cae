package train

import (
	"fmt"
	"math"
)

// AdvantageConfig says how the rewards of groups of rollouts of one prompt become advantages.
type AdvantageConfig struct {
	// GroupSize is the number of rollouts of each prompt; they stand next to each other. At least 2, or no rollout has
	// anything to be compared with.
	GroupSize int `json:"group_size" yaml:"group_size"`
	// Scale divides by a standard deviation: "group" (the default), "batch", or "none" (arXiv 2503.20783).
	Scale string `json:"scale" yaml:"scale"`
	// Weights of the reward functions; empty is all 1.
	Weights []float64 `json:"weights" yaml:"weights"`
	// NormalizeFirst scales every reward function by itself before the weighted sum, and the sum over the batch.
	NormalizeFirst bool `json:"normalize_first" yaml:"normalize_first"`
}

// AdvantageStats describes the rewards of a batch.
type AdvantageStats struct {
	// RewardMean and RewardStd (Bessel-corrected) are over the scored rows of the batch.
	RewardMean, RewardStd float64
	// ZeroVariance marks the groups (by index) whose rewards are all equal: they carry no gradient.
	ZeroVariance []bool
	// ZeroVarianceShare is their share; TRL's frac_reward_zero_std where the scale is not "batch".
	ZeroVarianceShare float64
}

// advantageEps keeps the division finite; TRL's value.
const advantageEps = 1e-4

// sameReward is the spread, relative to the largest reward (at least 1), below which rewards count as equal. Rewards
// are sums of a few floats: 0.1+0.2 and 0.3 must not become advantages.
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

// Advantages turns rewards into advantages (arXiv 2402.03300): rewards[i][f] is what function f gives rollout i, NaN
// where it has no opinion. A rollout's reward is the weighted sum of its functions, and
//
//	A = (r - mean of its group) / (std + 1e-4)
//
// with the Bessel-corrected std of the group or of the batch, or no division. A row that no function scored gets 0 and
// stays out of every mean and std. The advantages of a group whose rewards are equal are exactly 0.
func Advantages(rewards [][]float64, c AdvantageConfig) ([]float64, AdvantageStats, error) {
	var stats AdvantageStats
	if err := c.Check(); err != nil {
		return nil, stats, err
	}
	n, g := len(rewards), c.GroupSize
	if n == 0 || n%g != 0 {
		return nil, stats, fmt.Errorf("advantages: %d rollouts are no whole number of groups of %d", n, g)
	}
	funcs := len(rewards[0])
	weights := c.Weights
	if len(weights) == 0 {
		weights = make([]float64, funcs)
		for i := range weights {
			weights[i] = 1
		}
	}
	for i, r := range rewards {
		if len(r) != funcs || len(weights) != funcs {
			return nil, stats, fmt.Errorf("advantages: rollout %d has %d rewards, the first has %d and there are %d weights", i, len(r), funcs, len(weights))
		}
		for f, x := range r {
			if math.IsInf(x, 0) {
				return nil, stats, fmt.Errorf("advantages: reward %d of rollout %d is infinite", f, i)
			}
		}
	}
	column := func(get func(row []float64) float64) []float64 {
		out := make([]float64, n)
		for i, r := range rewards {
			out[i] = get(r)
		}
		return out
	}
	total := column(func(row []float64) float64 { return weightedSum(row, weights) })
	all := spreadOf(total)
	stats.RewardMean, stats.RewardStd = all.mean, all.std
	for at := 0; at < n; at += g {
		zero := spreadOf(total[at : at+g]).flat
		stats.ZeroVariance = append(stats.ZeroVariance, zero)
		if zero {
			stats.ZeroVarianceShare += float64(g) / float64(n)
		}
	}
	if !c.NormalizeFirst {
		return c.normalize(total, all), stats, nil
	}
	parts := make([][]float64, n)
	for f := range funcs {
		one := column(func(row []float64) float64 { return row[f] })
		for i, a := range (AdvantageConfig{GroupSize: g, Scale: "group"}).normalize(one, spread{}) {
			if math.IsNaN(one[i]) {
				a = math.NaN()
			}
			parts[i] = append(parts[i], a)
		}
	}
	sum := column(func([]float64) float64 { return 0 })
	for i := range sum {
		sum[i] = weightedSum(parts[i], weights)
	}
	batch := spreadOf(sum)
	out := make([]float64, n)
	for i, x := range sum {
		if !math.IsNaN(x) && !batch.flat {
			out[i] = (x - batch.mean) / (batch.std + advantageEps)
		}
	}
	return out, stats, nil
}

func (c AdvantageConfig) normalize(r []float64, batch spread) []float64 {
	out := make([]float64, len(r))
	for at := 0; at < len(r); at += c.GroupSize {
		group := spreadOf(r[at : at+c.GroupSize])
		if group.flat {
			continue
		}
		div := group.std + advantageEps
		switch c.Scale {
		case "batch":
			div = batch.std + advantageEps
		case "none":
			div = 1
		}
		for i := at; i < at+c.GroupSize; i++ {
			if !math.IsNaN(r[i]) {
				out[i] = (r[i] - group.mean) / div
			}
		}
	}
	return out
}

// weightedSum skips NaN; all NaN gives NaN.
func weightedSum(x, w []float64) float64 {
	sum, any := 0.0, false
	for i, v := range x {
		if !math.IsNaN(v) {
			sum, any = sum+v*w[i], true
		}
	}
	if !any {
		return math.NaN()
	}
	return sum
}

// spread is mean and Bessel-corrected standard deviation of the values that are not NaN; flat says that they are equal
// but for rounding, or that there are fewer than two.
type spread struct {
	mean, std float64
	flat      bool
}

func spreadOf(x []float64) spread {
	var n, sum float64
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range x {
		if !math.IsNaN(v) {
			n, sum = n+1, sum+v
			low, high = min(low, v), max(high, v)
		}
	}
	if n == 0 {
		return spread{flat: true}
	}
	s := spread{mean: sum / n}
	s.flat = n < 2 || high-low <= sameReward*max(1, math.Abs(low), math.Abs(high))
	if s.flat {
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
