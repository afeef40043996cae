package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// playText plays calls as a language model would: as text, through the action grammar and the episode's limits.
func playText(t *testing.T, s suite.Suite, d suite.Demonstration) trajectory.Trajectory {
	t.Helper()
	e, err := episode.New(s, d.Task, episode.Config{MaxTurns: chain.MaxTurns, Budget: episode.None})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i, c := range d.Calls {
		text := episode.Format(c.Thought, c.Tool, c.Args)
		if _, done := e.Step(context.Background(), policy.Reply{Text: text, Stop: policy.StopFence}); done != (i == len(d.Calls)-1) {
			t.Fatalf("task %s: after action %d of %d: done %v", d.Task.ID, i+1, len(d.Calls), done)
		}
	}
	tr := e.Result()
	reward.Apply(reward.VerifierOnly(), &tr)
	return tr
}

func small(t *testing.T, h chain.Habit) *chain.Suite {
	t.Helper()
	cfg := chain.DefaultConfig()
	cfg.Train, cfg.Val, cfg.Test = chain.Counts{Calc: 20, Lookup: 20, Compose: 60}, chain.Counts{Calc: 5, Lookup: 5, Compose: 5}, chain.Counts{Calc: 5, Lookup: 5, Compose: 5}
	s, err := chain.Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.With(h, chain.Compact); err != nil {
		t.Fatal(err)
	}
	return s
}

func records(t *testing.T, s *chain.Suite, kind string) []trajectory.Trajectory {
	t.Helper()
	demos, err := s.Demonstrations(context.Background(), kind, 1)
	if err != nil {
		t.Fatal(err)
	}
	var out []trajectory.Trajectory
	for _, d := range demos {
		out = append(out, playText(t, s, d))
	}
	return out
}

// The records of real episodes hold all that the measures need, and success is the right answer, evidence or not.
func TestEpisodesOfDemonstrations(t *testing.T) {
	s := small(t, chain.Habit{LazyShare: 0.5, Thoughts: true})
	for _, tr := range records(t, s, chain.Clean) {
		if !tr.Outcome.Verified || !tr.Outcome.Evidenced || tr.Outcome.Reward.Total != 1 || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Fatalf("task %s: gold path gives %+v at the optimal cost %s", tr.Task.ID, tr.Outcome, tr.Task.OptimalCost)
		}
		if compose := tr.Task.Template == chain.Compose; chain.RanChain(tr) != compose || chain.CalledChain(tr) != compose {
			t.Fatalf("task %s: the chain of a gold path is not recognised", tr.Task.ID)
		}
	}
	lazy := records(t, s, chain.Lazy)
	if got := chain.ChainRate(lazy); got != 0.5 {
		t.Errorf("chain rate %v of a half lazy mix, want 0.5", got)
	}

	// A right guess is a success of this suite, is counted as a guess and ran no chain.
	tasks, err := s.Tasks(chain.Test)
	if err != nil {
		t.Fatal(err)
	}
	guessed := 0
	for _, task := range tasks {
		if task.Template != chain.Compose {
			continue
		}
		tr := playText(t, s, suite.Demonstration{Task: task, Calls: task.GoldPath[len(task.GoldPath)-1:]})
		if !tr.Outcome.Verified || tr.Outcome.Reward.Total != 1 || tr.Outcome.Spend != 0 || !tr.Guess() || chain.RanChain(tr) {
			t.Errorf("task %s: a right guess gives %+v, ran the chain: %v", task.ID, tr.Outcome, chain.RanChain(tr))
		}
		guessed++
	}
	if guessed == 0 {
		t.Error("no compose task in the test split")
	}
}

// The reward takes off a penalty for each call, whatever the suite's prices.
func TestPenaltyForCalls(t *testing.T) {
	s := small(t, chain.DefaultHabit())
	cfg := reward.VerifierOnly()
	cfg.Call = 0.05
	want := map[string]float64{chain.Calc: 0.95, chain.Lookup: 0.95, chain.Compose: 0.85}
	for _, tr := range records(t, s, chain.Clean) {
		reward.Apply(cfg, &tr)
		if got := tr.Outcome.Reward.Total; got < want[tr.Task.Template]-1e-9 || got > want[tr.Task.Template]+1e-9 {
			t.Fatalf("task %s: reward %v, want %v", tr.Task.ID, got, want[tr.Task.Template])
		}
	}
	if spend := records(t, s, chain.Clean)[0].Outcome.Spend; spend == 0 || spend%price.Unit != 0 {
		t.Errorf("spend %s, want a whole number of calls at price 1", spend)
	}
}

// If the chain is never sampled, the gate must say no, and why. Mixes of demonstrations stand for policies, with two attempts at each task.
func TestGateRefusesWithoutChains(t *testing.T) {
	var required []reward.Behaviour
	for _, b := range chain.RequiredBehaviours() {
		required = append(required, reward.Behaviour(b))
	}
	verdict := func(share float64) reward.Verdict {
		a := records(t, small(t, chain.Habit{LazyShare: share}), chain.Lazy)
		b := records(t, small(t, chain.Habit{LazyShare: share, CopyNoise: 0.3}), chain.Lazy)
		return reward.Gate(reward.NewProfile(append(a, b...), 2, required...), reward.DefaultThresholds())
	}
	if v := verdict(0.55); !v.Go {
		t.Errorf("the lazy mix: %s", v)
	}
	v := verdict(1)
	if v.Go || len(v.Failed) != 1 || v.Failed[0].Name != "behaviour chain" || !strings.Contains(v.Failed[0].Advice, "sampled in 0 of 120 episodes") {
		t.Errorf("the mix without chains: %+v, want a no-go for the behaviour alone", v)
	}
}

// The suite's columns are the table's.
func TestColumnsInTheTable(t *testing.T) {
	var own []eval.Column
	for _, c := range chain.Columns() {
		own = append(own, eval.Column(c))
	}
	header := strings.Join(eval.Header(own), ",")
	if want := "acc_calc,acc_lookup,acc_compose,chain_rate,chain_rate_sampled"; !strings.Contains(header, want) {
		t.Errorf("header %s lacks %s", header, want)
	}
}
