package reward

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// ZeroVariance is the largest spread (max - min) of rewards that counts as none: wider than the noise of float64 sums,
// far below the smallest difference a coefficient makes. Training gives no advantage at this spread either (train.Advantages).
const ZeroVariance = 1e-6

// Behaviour is something a policy must do at least sometimes.
type Behaviour = suite.Behaviour

// BehaviourShare is how often a behaviour was sampled.
type BehaviourShare struct {
	Name     string  `json:"name"`
	Episodes int     `json:"episodes"`
	Shown    int     `json:"shown"`
	Share    float64 `json:"share"`
	Min      float64 `json:"min"`
	Advice   string  `json:"advice,omitempty"`
}

// Stratum holds the profile's figures for some of the tasks. A group is the attempts at one task under one seed.
type Stratum struct {
	Name     string  `json:"name"`
	Groups   int     `json:"groups"`
	Episodes int     `json:"episodes"`
	Success  float64 `json:"success"` // share of verified episodes
	// PassK is the mean over groups of the unbiased estimate of solving a task within K attempts; groups of fewer attempts
	// use all they have.
	PassK        float64 `json:"pass_at_k"`
	ZeroVariance float64 `json:"zero_variance"` // share of groups whose rewards are all equal: no gradient
	Mixed        float64 `json:"mixed"`         // the other groups: 1 - ZeroVariance
	SomeSolved   float64 `json:"some_solved"`   // share of groups with verified and failed attempts
	FormatValid  float64 `json:"format_valid"`  // share of actions that are valid
	Guesses      float64 `json:"guesses"`       // share of right answers without evidence among episodes
	RewardMean   float64 `json:"reward_mean"`
	RewardStd    float64 `json:"reward_std"` // population standard deviation over episodes
	SpendMean    float64 `json:"spend_mean"`
}

// Bin is one bar of the histogram of rewards: Low <= r < High, the last bin closed.
type Bin struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Count int     `json:"count"`
}

// Profile is what k attempts at each of some tasks say about a policy before training.
type Profile struct {
	K              int                          `json:"k"`
	All            Stratum                      `json:"all"`
	ByDifficulty   []Stratum                    `json:"by_difficulty"`
	ByCombination  []Stratum                    `json:"by_combination"`
	Histogram      []Bin                        `json:"histogram"`
	Ends           map[trajectory.EndReason]int `json:"ends"`
	InvalidActions map[string]int               `json:"invalid_actions"` // by kind
	Behaviours     []BehaviourShare             `json:"behaviours,omitempty"`
}

// NewProfile summarises scored records, k attempts a task. Tasks keep the order in which they first appear; strata are
// sorted by name.
func NewProfile(trajs []trajectory.Trajectory, k int, behaviours ...Behaviour) Profile {
	groups := groupsOf(trajs)
	p := Profile{
		K: k, All: stratum("all", groups, k), Histogram: histogram(trajs),
		ByDifficulty:  strata(groups, k, func(t trajectory.Trajectory) string { return strconv.Itoa(t.Task.Difficulty) }),
		ByCombination: strata(groups, k, func(t trajectory.Trajectory) string { return t.Task.Combination }),
		Ends:          map[trajectory.EndReason]int{}, InvalidActions: map[string]int{},
	}
	for _, t := range trajs {
		p.Ends[t.End]++
		for _, turn := range t.Turns {
			if turn.Invalid() {
				p.InvalidActions[turn.ErrorKind]++
			}
		}
	}
	for _, b := range behaviours {
		s := BehaviourShare{Name: b.Name, Min: b.Min, Advice: b.Advice}
		for _, t := range trajs {
			if b.Among == nil || b.Among(t) {
				s.Episodes++
				if b.Shown(t) {
					s.Shown++
				}
			}
		}
		s.Share = ratio(s.Shown, s.Episodes)
		p.Behaviours = append(p.Behaviours, s)
	}
	return p
}

func groupsOf(trajs []trajectory.Trajectory) [][]trajectory.Trajectory {
	type key struct {
		task string
		seed uint64
	}
	at := map[key]int{}
	var groups [][]trajectory.Trajectory
	for _, t := range trajs {
		k := key{t.Task.ID, t.Seed}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

func strata(groups [][]trajectory.Trajectory, k int, name func(trajectory.Trajectory) string) []Stratum {
	by := map[string][][]trajectory.Trajectory{}
	var names []string
	for _, g := range groups {
		n := name(g[0])
		if by[n] == nil {
			names = append(names, n)
		}
		by[n] = append(by[n], g)
	}
	slices.Sort(names)
	out := make([]Stratum, len(names))
	for i, n := range names {
		out[i] = stratum(n, by[n], k)
	}
	return out
}

func stratum(name string, groups [][]trajectory.Trajectory, k int) Stratum {
	s := Stratum{Name: name, Groups: len(groups)}
	var solved, flat, some, guesses, actions, invalid int
	var pass, sum, squares, spend float64
	for _, g := range groups {
		ok := 0
		low, high := math.Inf(1), math.Inf(-1)
		for _, t := range g {
			r := t.Outcome.Reward.Total
			low, high = min(low, r), max(high, r)
			sum += r
			squares += r * r
			spend += t.Outcome.Spend.Float()
			if t.Outcome.Verified {
				ok++
			}
			if t.Guess() {
				guesses++
			}
			for _, turn := range t.Turns {
				actions++
				if turn.Invalid() {
					invalid++
				}
			}
		}
		s.Episodes += len(g)
		solved += ok
		if high-low <= ZeroVariance {
			flat++
		}
		if ok > 0 && ok < len(g) {
			some++
		}
		pass += PassAtK(len(g), ok, min(max(k, 1), len(g)))
	}
	if s.Episodes == 0 {
		return s
	}
	n := float64(s.Episodes)
	s.Success, s.PassK = ratio(solved, s.Episodes), pass/float64(s.Groups)
	s.ZeroVariance, s.SomeSolved = ratio(flat, s.Groups), ratio(some, s.Groups)
	s.Mixed = ratio(s.Groups-flat, s.Groups)
	s.FormatValid, s.Guesses = ratio(actions-invalid, actions), ratio(guesses, s.Episodes)
	s.RewardMean, s.SpendMean = sum/n, spend/n
	s.RewardStd = math.Sqrt(max(0, squares/n-s.RewardMean*s.RewardMean))
	return s
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// PassAtK is the unbiased estimate 1 - C(n-c, k)/C(n, k) of solving a task within k attempts, from c successes in n
// attempts (Chen et al. 2021, arXiv 2107.03374, equation 1), as a product that does not overflow. It is NaN when k is not
// within 1..n.
func PassAtK(n, c, k int) float64 {
	if k < 1 || k > n || c < 0 || c > n {
		return math.NaN()
	}
	if n-c < k {
		return 1
	}
	fail := 1.0
	for i := n - c + 1; i <= n; i++ {
		fail *= 1 - float64(k)/float64(i)
	}
	return 1 - fail
}

// histogram has bins of 0.1 from the smallest to the largest reward, both rounded outwards; 200 bins at most.
func histogram(trajs []trajectory.Trajectory) []Bin {
	if len(trajs) == 0 {
		return nil
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, t := range trajs {
		low, high = min(low, t.Outcome.Reward.Total), max(high, t.Outcome.Reward.Total)
	}
	from, to := math.Floor(low*10+ZeroVariance), math.Ceil(high*10-ZeroVariance)
	n := max(1, int(to-from))
	width := 1.0
	if n > 200 {
		width, n = (to-from)/200, 200
	}
	bins := make([]Bin, n)
	for i := range bins {
		bins[i].Low, bins[i].High = (from+width*float64(i))/10, (from+width*float64(i+1))/10
	}
	for _, t := range trajs {
		i := int((t.Outcome.Reward.Total*10 - from + ZeroVariance) / width)
		bins[min(max(i, 0), n-1)].Count++
	}
	return bins
}

// String is the profile's line for logs.
func (p Profile) String() string {
	return fmt.Sprintf("%d tasks, %d episodes: success %.3f, pass@%d %.3f, mixed groups %.3f, valid actions %.3f, reward %.3f ± %.3f",
		p.All.Groups, p.All.Episodes, p.All.Success, p.K, p.All.PassK, p.All.Mixed, p.All.FormatValid, p.All.RewardMean, p.All.RewardStd)
}
