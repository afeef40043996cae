package company_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func generate(t *testing.T, opt company.Options) *company.World {
	t.Helper()
	w, err := company.Generate(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// open writes the shared world and opens it with the options.
func open(t *testing.T, opt company.Options) *company.Suite {
	t.Helper()
	dir := t.TempDir()
	if err := company.SharedWorld(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	s, err := company.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func play(t *testing.T, s suite.Suite, p policy.Policy, items []rollout.Item, mode episode.BudgetMode) []trajectory.Trajectory {
	t.Helper()
	out, err := rollout.Run(context.Background(), s, p, items, rollout.Options{Seed: 1, Episode: episode.Config{Budget: mode}, Reward: reward.Default()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The gold path solves every task at the optimal cost within the budget, in either style, from a data set on disk.
func TestOracle(t *testing.T) {
	for _, opt := range []company.Options{{Style: company.Compact}, {Style: company.Full, Thoughts: true}} {
		s := open(t, opt)
		for _, split := range s.Splits() {
			tasks, err := s.Tasks(split)
			if err != nil {
				t.Fatal(err)
			}
			for _, mode := range []episode.BudgetMode{episode.Soft, episode.Hard} {
				for _, tr := range play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), mode) {
					if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost || tr.Outcome.Reward.Total != 1 {
						t.Errorf("%s, %s, %s: %s: %+v", opt.Style, split, mode, tr.Task.Question, tr.Outcome)
					}
					if b := (tr.Task.OptimalCost + tr.Task.OptimalCost/2).RoundUp(price.Of(0.5)); tr.Task.Budget != b {
						t.Errorf("%s: budget %v, want %v", tr.Task.ID, tr.Task.Budget, b)
					}
				}
			}
		}
	}
}

// stripped hides everything that a policy must not see; the suite that plays keeps the real tasks for the verdict.
type stripped struct{ suite.Suite }

func (s stripped) Prompt(t suite.Task) (suite.Prompt, error) {
	return s.Suite.Prompt(suite.Task{ID: "x", Question: t.Question, Budget: t.Budget, Offers: t.Offers})
}

// The parser routes the tasks of every split, held-out combinations among them, at the price of the cheapest path; it sees the
// question, the prices and the observations alone. A world of another seed than that of its lexicon is as good.
func TestRuleParserRoutesEverySplit(t *testing.T) {
	s := open(t, company.Options{})
	train, err := s.Tasks(company.Train)
	if err != nil {
		t.Fatal(err)
	}
	p := scripted.RuleParser(company.NewParser(train))
	full := open(t, company.Options{Style: company.Full})
	for _, c := range []*company.Suite{s, full} {
		for _, split := range c.Splits() {
			tasks, err := c.Tasks(split)
			if err != nil {
				t.Fatal(err)
			}
			solved, spend, optimal := 0, price.Amount(0), price.Amount(0)
			for _, tr := range play(t, stripped{c}, p, rollout.Attempts(tasks, 1), episode.Hard) {
				if tr.Outcome.Verified {
					solved++
					spend += tr.Outcome.Spend
					optimal += tr.Task.OptimalCost
				}
			}
			if float64(solved) < 0.97*float64(len(tasks)) || spend.Float() > 1.01*optimal.Float() {
				t.Errorf("%s: %d of %d solved, for %v where %v is optimal", split, solved, len(tasks), spend, optimal)
			}
		}
	}
}

// Always all tools is all tools: four calls in every episode, whatever the question.
func TestAllToolsBaselineCallsAllTools(t *testing.T) {
	s := open(t, company.Options{})
	for _, split := range s.Splits() {
		tasks, err := s.Tasks(split)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range play(t, stripped{s}, scripted.AlwaysAllTools(company.Rules{}), rollout.Attempts(tasks, 1), episode.Soft) {
			used := map[string]int{}
			for _, turn := range tr.Turns {
				if turn.Called() {
					used[turn.Action.Tool]++
				}
				if turn.Failed && turn.Action.Tool != company.ToolCalc { // the rules may have taken a word for a value and given it to the calculator
					t.Errorf("%s: %s failed: %s", tr.Task.Question, turn.Action.Args, turn.Observation)
				}
			}
			if used[company.ToolSQL] != 1 || used[company.ToolDoc] != 1 || used[company.ToolWeb] != 1 || used[company.ToolCalc] != 1 || len(used) != 5 {
				t.Errorf("%s: calls %v", tr.Task.Question, used)
			}
		}
	}
}

// The baselines see the question, the prices and the observations; what they get is known from rules alone. Single facts
// are within reach of the rules, two facts are not.
func TestBaselinesSeeNoGold(t *testing.T) {
	s := open(t, company.Options{})
	tasks, err := s.Tasks(company.Test)
	if err != nil {
		t.Fatal(err)
	}
	combo, _ := s.Tasks(company.HeldoutCombo)
	rate := func(p policy.Policy, tasks []suite.Task, keep func(suite.Task) bool) float64 {
		t.Helper()
		items := rollout.Attempts(slices.DeleteFunc(slices.Clone(tasks), func(x suite.Task) bool { return !keep(x) }), 1)
		if len(items) == 0 {
			t.Fatal("no task to play")
		}
		solved := 0
		for _, tr := range play(t, stripped{s}, p, items, episode.Soft) {
			if tr.Outcome.Verified {
				solved++
			}
		}
		return float64(solved) / float64(len(items))
	}
	is := func(combination string) func(suite.Task) bool {
		return func(x suite.Task) bool { return x.CombinationKey() == combination }
	}
	all := func(suite.Task) bool { return true }
	r := company.Rules{}
	threshold := scripted.StaticThreshold(r, scripted.Threshold{First: company.ToolDoc, Second: company.ToolWeb, MinScore: company.MinScore})
	for _, c := range []struct {
		policy   policy.Policy
		what     string
		tasks    []suite.Task
		keep     func(suite.Task) bool
		low, top float64
	}{
		{scripted.AlwaysCheapest(r), "sql", tasks, is(company.ToolSQL), 0.5, 1},
		{scripted.AlwaysCheapest(r), "doc", tasks, is(company.ToolDoc), 0.7, 1},
		{scripted.AlwaysCheapest(r), "web", tasks, is(company.ToolWeb), 0.7, 1},
		{scripted.AlwaysCheapest(r), "calculator", tasks, is(company.ToolCalc), 0.7, 1},
		{scripted.AlwaysCheapest(r), "held-out combinations", combo, all, 0, 0.1},
		{scripted.AlwaysAllTools(r), "doc", tasks, is(company.ToolDoc), 0.7, 1},
		{threshold, "doc", tasks, is(company.ToolDoc), 0.7, 1},
		{threshold, "web", tasks, is(company.ToolWeb), 0.3, 1},
		{threshold, "sql", tasks, is(company.ToolSQL), 0, 0},
		{scripted.RandomTool(r), "all", tasks, all, 0.02, 0.6},
	} {
		if got := rate(c.policy, c.tasks, c.keep); got < c.low || got > c.top {
			t.Errorf("%s solves %.2f of %s, want %.2f to %.2f", c.policy.Name(), got, c.what, c.low, c.top)
		}
	}
	// On every template they act alike where gold, template and combination are hidden.
	var every []suite.Task
	for _, split := range s.Splits() {
		more, _ := s.Tasks(split)
		every = append(every, more...)
	}
	if n := len(company.Count(every).Template); n < 57 { // of 58: a train split as small as here may not spell the names of one
		t.Errorf("%d templates are played, want all: %v", n, company.Count(every).Template)
	}
	items := rollout.Attempts(every, 1)
	for _, p := range []policy.Policy{scripted.AlwaysCheapest(r), scripted.AlwaysAllTools(r), threshold, scripted.RandomTool(r)} {
		hidden := play(t, stripped{s}, p, items, episode.Soft)
		for i, tr := range play(t, s, p, items, episode.Soft) {
			if !slices.Equal(actions(tr), actions(hidden[i])) {
				t.Errorf("%s plays %s otherwise when gold is there: %v, hidden %v", p.Name(), tr.Task.ID, actions(tr), actions(hidden[i]))
			}
		}
	}
}

func actions(tr trajectory.Trajectory) (out []string) {
	for _, turn := range tr.Turns {
		out = append(out, turn.Text)
	}
	return out
}

func TestScore(t *testing.T) {
	for body, want := range map[string]float64{"- a is 3. (12.37)\n- b is 4. (2.00)": 12.37, "- T: a is 3. (score 0.50)": 0.5, "no results": -1, "48": -1} {
		got, ok := company.Rules{}.Score(suite.Seen{Tool: company.ToolDoc, Body: body})
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("score of %q: %v, %v; want %v", body, got, ok, want)
		}
	}
	if _, ok := (company.Rules{}).Score(suite.Seen{Tool: company.ToolDoc, Body: "- a (12.37)", Failed: true}); ok {
		t.Error("a failed call has a score")
	}
}

// Demonstrations play as they are: base is single calls of each tool in equal numbers, optimal is the gold paths, wasteful
// the same paths with needless calls in about the share that was asked for.
func TestDemonstrations(t *testing.T) {
	s := open(t, company.Options{Thoughts: true, WastefulShare: 0.6})
	kinds := map[string][]trajectory.Trajectory{}
	for _, kind := range company.DemoKinds {
		demos, trs := demonstrated(t, s, kind, 3)
		again, _ := s.Demonstrations(context.Background(), kind, 3)
		other, _ := s.Demonstrations(context.Background(), kind, 4)
		if x, y, z := text(demos), text(again), text(other); x != y || x == z {
			t.Errorf("%s: the same seed gives the same demonstrations: %v; another seed the same too: %v", kind, x == y, x == z)
		}
		for _, d := range demos {
			if d.Task.Split != company.Train {
				t.Fatalf("%s: a demonstration on %s", kind, d.Task.Split)
			}
			if kind != company.DemoWasteful && d.Calls[0].Thought == "" {
				t.Errorf("%s: %s has no thought", kind, d.Task.ID)
			}
			for _, c := range d.Calls {
				if kind == company.DemoWasteful || c.Tool != company.ToolDoc && c.Tool != company.ToolWeb {
					continue
				}
				var args struct{ Query string }
				if err := json.Unmarshal(c.Args, &args); err != nil {
					t.Fatal(err)
				}
				// The sub-question, whose last words say what is asked for.
				parts := strings.Split(c.Thought, "; ")
				if subject, what, ok := strings.Cut(parts[len(parts)-1], ": "); !ok || subject+" "+what != args.Query {
					t.Errorf("%s: %s: the thought %q before a search for %q", kind, d.Task.ID, c.Thought, args.Query)
				}
			}
		}
		kinds[kind] = trs
		for _, tr := range kinds[kind] {
			if !tr.Outcome.Verified || tr.Outcome.Invalid > 0 || tr.Outcome.Failed > 0 {
				t.Errorf("%s: %s: %v gives %+v", kind, tr.Task.ID, actions(tr), tr.Outcome)
			}
		}
	}
	used := map[string]int{}
	for _, tr := range kinds[company.DemoBase] {
		if len(tr.Turns) != 2 {
			t.Errorf("base: %s has %d turns", tr.Task.ID, len(tr.Turns))
		}
		used[tr.Turns[0].Action.Tool]++
	}
	for _, name := range company.Tools {
		if used[name] == 0 || used[name] != used[company.ToolSQL] {
			t.Errorf("base: calls by tool %v, want equal numbers", used)
		}
	}
	waste := 0
	for _, tr := range kinds[company.DemoWasteful] {
		if tr.Outcome.Spend > tr.Task.OptimalCost {
			waste++
		}
	}
	if share := float64(waste) / float64(len(kinds[company.DemoWasteful])); share < 0.5 || share > 0.7 {
		t.Errorf("a share of %.2f of the wasteful paths is wasteful, want about 0.6", share)
	}
	if _, err := s.Demonstrations(context.Background(), "best", 1); err == nil || !strings.Contains(err.Error(), "optimal") {
		t.Errorf("unknown kind: %v", err)
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// demonstrated are a suite's demonstrations of a kind, and the episodes that they make.
func demonstrated(t *testing.T, s *company.Suite, kind string, seed uint64) ([]suite.Demonstration, []trajectory.Trajectory) {
	t.Helper()
	demos, err := s.Demonstrations(t.Context(), kind, seed)
	if err != nil {
		t.Fatal(err)
	}
	given, attempts := scripted.Paths(demos)
	items := make([]rollout.Item, len(demos))
	for i, d := range demos {
		items[i] = rollout.Item{Task: d.Task, Attempt: attempts[i]}
	}
	return demos, play(t, s, scripted.Demonstrator(kind, "-", given), items, episode.Soft)
}

// Further worlds hold train tasks only, nothing that is held out and no name that another split of the first world rests on; they play.
func TestExtraWorlds(t *testing.T) {
	w := company.SharedWorld(t)
	s := w.Suite()
	extra, err := s.ExtraWorlds(1, 2, 80)
	if err != nil {
		t.Fatal(err)
	}
	var all []suite.Task
	for _, split := range s.Splits() {
		if split != company.Train {
			all = append(all, w.Tasks(split)...)
		}
	}
	for _, e := range extra {
		tasks, err := e.Tasks(company.Train)
		if err != nil || len(tasks) != 80 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		all = append(all, tasks...)
		for _, tr := range play(t, e, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Hard) {
			if !tr.Outcome.Verified {
				t.Errorf("%s: %+v", tr.Task.ID, tr.Outcome)
			}
		}
		demos, err := e.Demonstrations(context.Background(), company.DemoOptimal, 1)
		if err != nil || len(demos) != 80 {
			t.Errorf("%d demonstrations, %v", len(demos), err)
		}
	}
	for _, f := range company.CheckSplits(all) {
		t.Error(f)
	}
	// The check finds what a further world must not hold: held-out tasks, and names that a test asks about.
	plant := func(split, tag string, change func(*suite.Task)) suite.Task {
		for _, x := range w.Tasks(split) {
			if tag == "" || x.HasTag(tag) {
				x.ID, x.Split = "extra2-planted", company.Train
				change(&x)
				return x
			}
		}
		t.Fatalf("%s has no task to plant", split)
		return suite.Task{}
	}
	other := func(x *suite.Task) { x.Question, x.Fact, x.Extra = "q", "f", nil }
	for want, x := range map[string]suite.Task{
		"the combination":             plant(company.HeldoutCombo, "", other),
		"the template":                plant(company.HeldoutTemplate, "", other),
		"the wording":                 plant(company.Test, company.TagUnseenPhrasing, other),
		"is in the question of extra": plant(company.HeldoutTemplate, "", func(x *suite.Task) { x.Question, x.Fact, x.Extra = "Now "+x.Question, "f", nil }),
		"fact ":                       plant(company.Test, "", func(x *suite.Task) { x.Question = "q" }),
	} {
		if got := company.CheckSplits(append(slices.Clone(all), x)); !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("%s (%s) planted in a further world: faults %v, want one with %q", x.Template, x.Phrasing, got, want)
		}
	}
	for _, e := range extra {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFullPrompt(t *testing.T) {
	s := open(t, company.Options{Style: company.Full})
	x := company.SharedWorld(t).Tasks(company.Test)[0]
	p, err := s.Prompt(x)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- web_search, price 5: ", "- finish, price 0: ", "- products(name, code, unit_price", "```json\n{\"tool\": ", "YYYY-MM-DD"} {
		if !strings.Contains(p.System, want) {
			t.Errorf("the system text lacks %q:\n%s", want, p.System)
		}
	}
	if p.User != fmt.Sprintf("Question: %s\nBudget: %v", x.Question, x.Budget) || p.Question != x.Question || len(p.Tools) != 5 {
		t.Errorf("prompt %+v", p)
	}
	if hidden := x.Answer.Values[0]; len(hidden) > 4 && strings.Contains(p.System+p.User, hidden) {
		t.Error("the prompt holds the answer")
	}
}
