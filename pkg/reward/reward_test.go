package reward_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// episode makes a finished record.
func episode(correct, evidenced bool, optimal, spend float64, invalid int) trajectory.Trajectory {
	return trajectory.Trajectory{
		End: trajectory.Finished, Task: trajectory.Task{ID: "t", OptimalCost: price.Of(optimal)},
		Outcome: trajectory.Outcome{Correct: correct, Evidenced: evidenced, Spend: price.Of(spend), Invalid: invalid},
	}
}

func ExampleOf() {
	t := episode(true, true, 3, 6, 1)
	fmt.Printf("%.2f\n", reward.Of(reward.Default(), t).Total)
	// Output: 0.75
}

func ExampleGate() {
	var trajs []trajectory.Trajectory
	for task := range 3 {
		for range 4 {
			t := episode(false, false, 1, 1, 0)
			t.Task.ID = fmt.Sprint(task)
			t.Turns = []trajectory.Turn{{ErrorKind: "no_block"}, {}}
			trajs = append(trajs, t)
		}
	}
	fmt.Println(reward.Gate(reward.NewProfile(trajs, 4), reward.DefaultThresholds()))
	// Output:
	// gate: no-go, training would not learn
	//   3 tasks, 12 episodes: success 0.000, pass@4 0.000, mixed groups 0.000, valid actions 0.500, reward 0.000 ± 0.000
	//   pass@4 is 0.000, needs 0.150: too few tasks are ever solved, so hardly a group shows what a success looks like; warm up with more demonstrations, or start from easier tasks
	//   mixed groups is 0.000, needs 0.250: in most groups all rewards are equal, which gives no gradient; raise the temperature or the group size, or choose tasks of other difficulty
}

func TestOf(t *testing.T) {
	def := reward.Default()
	noEvidence := def
	noEvidence.RequireEvidence = false
	unfinished := episode(true, true, 1, 1, 0)
	unfinished.End = trajectory.Turns
	additive := def
	additive.Additive = true
	call := trajectory.Turn{Action: &trajectory.Action{Tool: "sql_query"}}
	withCalls := episode(true, true, 1, 1, 0)
	withCalls.Turns = []trajectory.Turn{
		call, {Action: call.Action, Failed: true, ErrorKind: "call_failed"}, {Action: call.Action, Refused: true},
		{Action: call.Action, ErrorKind: "bad_args"}, {ErrorKind: "no_block"}, {Action: &trajectory.Action{Tool: "finish"}},
	}
	for _, c := range []struct {
		name     string
		cfg      reward.Config
		t        trajectory.Trajectory
		want     float64
		verified bool
	}{
		{"at the optimum", def, episode(true, true, 3, 3, 0), 1, true},
		{"twice the optimum", def, episode(true, true, 3, 6, 0), 0.85, true},
		{"below the optimum earns no more", def, episode(true, true, 3, 1, 0), 1, true},
		{"one invalid action", def, episode(true, true, 3, 3, 1), 0.9, true},
		{"four invalid actions count as three", def, episode(true, true, 3, 3, 4), 0.7, true},
		{"wrong earns no cost credit", def, episode(false, true, 3, 0, 0), 0, false},
		{"wrong and invalid", def, episode(false, false, 3, 9, 2), -0.2, false},
		{"guess", def, episode(true, false, 3, 0, 0), 0, false},
		{"guess, evidence not required", noEvidence, episode(true, false, 3, 0, 0), 1, true},
		{"free optimum, nothing spent", def, episode(true, true, 0, 0, 0), 1, true},
		{"free optimum, something spent", def, episode(true, true, 0, 2, 0), 0.7, true},
		{"nothing spent", def, episode(true, true, 3, 0, 0), 1, true},
		{"not finished", def, unfinished, 0, false},
		{"verifier only", reward.VerifierOnly(), episode(true, false, 3, 99, 5), 1, true},
		{"additive: wrong, at once", additive, episode(false, false, 3, 0, 0), 0.3, false},
		{"additive: wrong at twice the optimum", additive, episode(false, true, 3, 6, 1), 0.05, false},
		{"additive: a guess is paid for being cheap alone", additive, episode(true, false, 3, 0, 0), 0.3, false},
		{"additive: right is paid as ever", additive, episode(true, true, 3, 6, 0), 0.85, true},
		{"additive: no answer", additive, unfinished, 0, false},
		{"penalty for two executed calls", reward.Config{Correct: 1, Call: 0.05}, withCalls, 0.9, true},
	} {
		got := reward.Of(c.cfg, c.t)
		if math.Abs(got.Total-c.want) > 1e-12 || reward.Verified(c.cfg, c.t) != c.verified {
			t.Errorf("%s: %v, verified %v; want %v, %v", c.name, got.Total, reward.Verified(c.cfg, c.t), c.want, c.verified)
		}
		if sum := got.Correct + got.Efficiency + got.Format + got.Calls; sum != got.Total {
			t.Errorf("%s: parts sum to %v, total is %v", c.name, sum, got.Total)
		}
		if math.Signbit(got.Total) && got.Total == 0 || math.Signbit(got.Format) && got.Format == 0 {
			t.Errorf("%s: negative zero", c.name)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for want, c := range map[string]reward.Config{
		"format":                 {Correct: 1, Format: -1},
		"efficiency":             {Correct: 1, Efficiency: math.NaN()},
		"max_invalid":            {Correct: 1, MaxInvalid: -1},
		"nothing would be rewar": {},
		"efficiency is 0":        {Correct: 1, Additive: true},
		"correct is 0":           {Efficiency: 1, Additive: true},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error about %s", c, err, want)
		}
	}
	if err := reward.Default().Validate(); err != nil {
		t.Error(err)
	}
	// Stages are known by the hash of their settings' JSON: one that is not used must not stand in it.
	if b, err := json.Marshal(reward.Default()); err != nil || strings.Contains(string(b), "additive") {
		t.Errorf("%s, %v", b, err)
	}
}

// By enumeration: the share of k-subsets of n attempts, c of them successes, that hold a success.
func TestPassAtK(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				hit, all := 0, 0
				for set := range 1 << n {
					size := 0
					for b := range n {
						size += set >> b & 1
					}
					if size != k {
						continue
					}
					all++
					if set&(1<<c-1) != 0 {
						hit++
					}
				}
				if got, want := reward.PassAtK(n, c, k), float64(hit)/float64(all); math.Abs(got-want) > 1e-12 {
					t.Errorf("PassAtK(%d, %d, %d) = %v, want %v", n, c, k, got, want)
				}
			}
		}
	}
	for _, bad := range [][3]int{{3, 1, 0}, {3, 1, 4}, {3, 4, 1}, {3, -1, 1}} {
		if got := reward.PassAtK(bad[0], bad[1], bad[2]); !math.IsNaN(got) {
			t.Errorf("PassAtK%v = %v, want NaN", bad, got)
		}
	}
}

// group makes attempts at one task with the given rewards; a reward above 0.5 verifies.
func group(task, combination string, difficulty int, rewards ...float64) []trajectory.Trajectory {
	var out []trajectory.Trajectory
	for i, r := range rewards {
		t := episode(r > 0.5, r > 0.5, 1, 1, 0)
		t.Attempt, t.Task.ID, t.Task.Combination, t.Task.Difficulty = i, task, combination, difficulty
		t.Outcome.Verified, t.Outcome.Reward.Total = r > 0.5, r
		t.Turns = []trajectory.Turn{{}}
		out = append(out, t)
	}
	return out
}

func TestProfile(t *testing.T) {
	tenth := 0.1 // a variable, because constants add exactly
	var trajs []trajectory.Trajectory
	trajs = append(trajs, group("a", "sql", 1, 1, 1)...)
	trajs = append(trajs, group("b", "doc+sql", 2, 0, 0.85)...)
	trajs = append(trajs, group("c", "sql", 1, tenth+0.2, 0.3)...) // equal but for float noise
	trajs = append(trajs, group("d", "sql", 2, 0, -0.1)...)        // differ, none solved
	trajs[7].Turns = append(trajs[7].Turns, trajectory.Turn{ErrorKind: "no_block"})
	trajs[0].Outcome.Evidenced = false
	p := reward.NewProfile(trajs, 2)
	a := p.All
	for name, v := range map[string][2]float64{
		"groups": {float64(a.Groups), 4}, "episodes": {float64(a.Episodes), 8}, "success": {a.Success, 3.0 / 8}, "pass@2": {a.PassK, 0.5},
		"zero variance": {a.ZeroVariance, 0.5}, "mixed": {a.Mixed, 0.5}, "some solved": {a.SomeSolved, 0.25}, "format": {a.FormatValid, 8.0 / 9},
		"guesses": {a.Guesses, 1.0 / 8}, "mean": {a.RewardMean, 3.35 / 8}, "spend": {a.SpendMean, 1},
	} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, v[0], v[1])
		}
	}
	if len(p.ByCombination) != 2 || p.ByCombination[0].Name != "doc+sql" || p.ByCombination[1].Groups != 3 || p.ByDifficulty[1].Groups != 2 {
		t.Errorf("strata %+v, %+v", p.ByCombination, p.ByDifficulty)
	}
	count := 0
	for _, b := range p.Histogram {
		count += b.Count
	}
	if first := p.Histogram[0]; count != 8 || first.Low != -0.1 || first.Count != 1 || len(p.Histogram) != 11 || p.Histogram[10].Count != 2 || p.Histogram[4].Count != 2 {
		t.Errorf("histogram %+v", p.Histogram)
	}
	// Another seed of the same task is another group.
	more := group("a", "sql", 1, 0, 0)
	for i := range more {
		more[i].Seed = 2
	}
	if got := reward.NewProfile(append(trajs, more...), 2).All.Groups; got != 5 {
		t.Errorf("%d groups, want 5", got)
	}
}

func TestGate(t *testing.T) {
	chain := reward.Behaviour{Name: "chain", Shown: func(t trajectory.Trajectory) bool { return len(t.Turns) > 3 }}
	solved := append(group("a", "sql", 1, 1, 0), group("b", "sql", 1, 0.8, 0)...)
	failing := append(group("a", "sql", 1, 0, 0), group("b", "sql", 1, 0, 0)...)
	bad := group("a", "sql", 1, 0, 0)
	for i := range bad {
		bad[i].Turns = []trajectory.Turn{{ErrorKind: "no_block"}, {ErrorKind: "no_block"}, {ErrorKind: "text_after"}, {}}
	}
	for _, c := range []struct {
		name   string
		p      reward.Profile
		failed string
	}{
		{"good", reward.NewProfile(solved, 2), ""},
		{"never solved", reward.NewProfile(failing, 2), "pass@2, mixed groups"},
		{"wrong format", reward.NewProfile(bad, 2), "format, pass@2, mixed groups"},
		{"saturated", reward.NewProfile(group("a", "sql", 1, 1, 1), 2), "mixed groups"},
		{"empty", reward.NewProfile(nil, 8), "episodes"},
		{"chain never sampled", reward.NewProfile(solved, 2, chain), "behaviour chain"},
		{"chain not asked of these", reward.NewProfile(solved, 2, reward.Behaviour{Name: "any", Shown: func(trajectory.Trajectory) bool { return true }}), ""},
	} {
		v := reward.Gate(c.p, reward.DefaultThresholds())
		var names []string
		for _, r := range v.Failed {
			names = append(names, r.Name)
			if r.Advice == "" || !strings.Contains(v.String(), r.Advice) {
				t.Errorf("%s: reason %+v is not advised in %q", c.name, r, v)
			}
		}
		if got := strings.Join(names, ", "); got != c.failed || v.Go != (c.failed == "") {
			t.Errorf("%s: go %v, failed %q; want %q", c.name, v.Go, got, c.failed)
		}
		b, err := json.Marshal(struct {
			P reward.Profile
			V reward.Verdict
		}{c.p, v})
		if err != nil || !json.Valid(b) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if v := reward.Gate(reward.NewProfile(bad, 2), reward.DefaultThresholds()); !strings.Contains(v.String(), "no_block, 4 times") {
		t.Errorf("the commonest fault is not named: %s", v)
	}
	if v := reward.Gate(reward.NewProfile(group("a", "sql", 1, 1, 1), 2), reward.DefaultThresholds()); !strings.Contains(v.Failed[0].Advice, "harder") {
		t.Errorf("advice to a saturated policy: %s", v)
	}
	if err := (reward.Thresholds{Mixed: 2}).Validate(); err == nil || !strings.Contains(err.Error(), "mixed") {
		t.Errorf("error %v, want one that names mixed", err)
	}
}

// A policy that never had the right format: the refusal gives the format rate, pass@k and the share of groups with
// variance, each with what it should be and what to do, and names the commonest fault.
func TestGateTellsAnUntunedPolicyWhatToDo(t *testing.T) {
	var trajs []trajectory.Trajectory
	for task := range 10 {
		for _, e := range group(fmt.Sprint("t", task), "sql", 1, -0.3, -0.3, -0.3, -0.3) {
			e.Turns = []trajectory.Turn{{ErrorKind: "no_block"}, {ErrorKind: "other_fence"}, {ErrorKind: "no_block"}}
			trajs = append(trajs, e)
		}
	}
	v := reward.Gate(reward.NewProfile(trajs, 4), reward.DefaultThresholds())
	if v.Go || len(v.Failed) != 3 {
		t.Fatalf("%+v", v)
	}
	for _, want := range []string{
		"no-go", "10 tasks, 40 episodes", "success 0.000", "pass@4 0.000", "mixed groups 0.000", "valid actions 0.000", "reward -0.300",
		"format is 0.000, needs 0.500", "warm up with supervised training on the action format", "no_block, 80 times",
		"pass@4 is 0.000, needs 0.150", "easier tasks", "mixed groups is 0.000, needs 0.250", "raise the temperature or the group size",
	} {
		if !strings.Contains(v.String(), want) {
			t.Errorf("the refusal does not say %q:\n%s", want, v)
		}
	}
}
