package train

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// maybe is a number that the fixture may spell "NaN".
type maybe float64

func (m *maybe) UnmarshalJSON(b []byte) error {
	if string(b) == `"NaN"` {
		*m = maybe(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(m))
}

func TestAdvantages(t *testing.T) {
	var doc struct {
		G     int
		Cases map[string]struct {
			Rewards     [][]maybe `json:"rewards_per_func"`
			Weights     []float64
			Scale       string `json:"scale_rewards"`
			Aggregation string
			Advantages  []float64
			Metrics     map[string]float64
		}
	}
	fixtures.JSON(t, "losses", "advantages.json", &doc)
	tol := fixtures.ToleranceOf(t, "losses.metrics")
	var most float64
	cases := 0
	for name, c := range doc.Cases {
		if c.Aggregation != "sum_then_normalize" { // scales every reward function by itself; a rollout here has one reward
			continue
		}
		rewards := make([]float64, len(c.Rewards))
		for i, row := range c.Rewards {
			rewards[i] = weightedSum(row, c.Weights)
		}
		cases++
		got, stats, err := Advantages(rewards, AdvantageConfig{GroupSize: doc.G, Scale: c.Scale})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		most = max(most, worst(t, name, tol, toFloats(got), toFloats(c.Advantages)))
		near(t, name+" reward", tol, stats.RewardMean, c.Metrics["reward"])
		near(t, name+" reward_std", tol, stats.RewardStd, c.Metrics["reward_std"])
		if c.Scale != "batch" { // with "batch" the reference tests the batch's std instead
			near(t, name+" frac_reward_zero_std", tol, stats.ZeroVarianceShare, c.Metrics["frac_reward_zero_std"])
		}
	}
	if cases < 13 {
		t.Errorf("%d cases were compared, want 13 or more", cases)
	}
	t.Logf("largest difference of an advantage: %.2g over %d cases", most, cases)
}

// weightedSum is a rollout's reward from those of several functions. A function without an opinion says NaN and is skipped; if all say NaN
// the rollout has no reward.
func weightedSum(row []maybe, weights []float64) float64 {
	sum, scored := 0.0, false
	for f, v := range row {
		if x := float64(v); !math.IsNaN(x) {
			sum, scored = sum+x*weights[f], true
		}
	}
	if !scored {
		return math.NaN()
	}
	return sum
}

// Rewards that are equal but for rounding must not be blown up by the division by their std.
func TestAdvantagesOfEqualRewardsAreExactlyZero(t *testing.T) {
	tenth, fifth := 0.1, 0.2 // variables: constant arithmetic would be exact
	for _, scale := range []string{"group", "batch", "none"} {
		rewards := []float64{0, 0, 0, 0, 1, 1, 1, 1, tenth + fifth, 0.3, 0.3, 0.3, 0, 0, 0, 1}
		if rewards[8] == rewards[9] {
			t.Fatal("the noise group has no noise")
		}
		got, stats, err := Advantages(rewards, AdvantageConfig{GroupSize: 4, Scale: scale})
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range got[:12] {
			if a != 0 {
				t.Errorf("%s: advantage %d = %v, want 0", scale, i, a)
			}
		}
		if sum := got[12] + got[13] + got[14] + got[15]; math.Abs(sum) > 1e-12 || got[15] <= 0 {
			t.Errorf("%s: advantages of the mixed group %v", scale, got[12:])
		}
		if stats.ZeroVarianceShare != 0.75 {
			t.Errorf("%s: zero-variance share %v, want 0.75", scale, stats.ZeroVarianceShare)
		}
	}
}

func TestAdvantagesRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		rewards []float64
		cfg     AdvantageConfig
	}{
		"not whole groups": {[]float64{1, 2, 3}, AdvantageConfig{GroupSize: 2}},
		"group of one":     {[]float64{1}, AdvantageConfig{GroupSize: 1}},
		"none":             {nil, AdvantageConfig{GroupSize: 2}},
		"infinite":         {[]float64{1, math.Inf(1)}, AdvantageConfig{GroupSize: 2}},
		"scale":            {[]float64{1, 2}, AdvantageConfig{GroupSize: 2, Scale: "grup"}},
	} {
		if _, _, err := Advantages(c.rewards, c.cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
