package scripted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func play(t *testing.T, p policy.Policy, s *mini.Suite, seed uint64, k int) []trajectory.Trajectory {
	t.Helper()
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	trajs, err := rollout.Run(context.Background(), s, p, rollout.Attempts(tasks, k), rollout.Options{Seed: seed, Reward: reward.Default(), MaxErrors: 1})
	if err != nil {
		t.Fatal(err)
	}
	return trajs
}

// route is the tools of an episode in order.
func route(tr trajectory.Trajectory) string {
	var names []string
	for _, turn := range tr.Turns {
		if turn.Action != nil {
			names = append(names, turn.Action.Tool)
		}
	}
	return strings.Join(names, " ")
}

func ExampleAlwaysCheapest() {
	s := &mini.Suite{Seed: 1, Count: 3}
	tasks, err := s.Tasks("train")
	if err != nil {
		fmt.Println(err)
		return
	}
	trajs, err := rollout.Run(context.Background(), s, scripted.AlwaysCheapest(mini.Rules{}), rollout.Attempts(tasks, 1), rollout.Options{Reward: reward.Default()})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range trajs {
		fmt.Println(t.Task.Question, "->", route(t), t.Outcome.Spend, t.Outcome.Verified)
	}
	// Output:
	// stock of bolts -> stock finish 1 true
	// price of cups -> stock catalog finish 3 true
	// value of lamps -> stock catalog multiply finish 3.5 true
}

func TestRoutes(t *testing.T) {
	th := scripted.Threshold{First: "catalog", Second: "stock", MinScore: 1}
	for _, c := range []struct {
		p    policy.Policy
		want [3]string
		ok   [3]bool
	}{
		{scripted.AlwaysAllTools(mini.Rules{}), [3]string{"stock catalog multiply finish", "stock catalog multiply finish", "stock catalog multiply finish"}, [3]bool{true, true, true}},
		{scripted.StaticThreshold(mini.Rules{}, th), [3]string{"catalog finish", "catalog finish", "catalog finish"}, [3]bool{false, true, false}},
		{scripted.StaticThreshold(mini.Rules{}, scripted.Threshold{First: "catalog", Second: "stock", MinScore: 5}), [3]string{"catalog stock finish", "catalog stock finish", "catalog stock finish"}, [3]bool{true, true, false}},
		{scripted.StaticThreshold(mini.Rules{}, scripted.Threshold{First: "web", Second: "stock"}), [3]string{"stock finish", "stock finish", "stock finish"}, [3]bool{true, false, false}},
	} {
		for i, tr := range play(t, c.p, &mini.Suite{Count: 3}, 1, 1) {
			if route(tr) != c.want[i] || tr.Outcome.Verified != c.ok[i] {
				t.Errorf("%s, %s: %s, solved %v; want %s, %v", c.p.Name(), tr.Task.Question, route(tr), tr.Outcome.Verified, c.want[i], c.ok[i])
			}
			if !c.ok[i] && tr.Outcome.Answer != scripted.Unknown {
				t.Errorf("%s gives up with %q", c.p.Name(), tr.Outcome.Answer)
			}
		}
	}
}

// repriced offers the catalogue below the stock to every task, and in another order.
type repriced struct{ *mini.Suite }

func (s repriced) Tasks(split string) ([]suite.Task, error) {
	tasks, err := s.Suite.Tasks(split)
	for i := range tasks {
		tasks[i].Offers = []suite.Offer{{Tool: "stock", Price: tool.Price{Base: price.Of(3)}}, {Tool: "multiply"}, {Tool: "catalog", Price: tool.Price{Base: price.Of(1)}}}
	}
	return tasks, err
}

// The order follows the prices of the task, not the names.
func TestCheapestFollowsPrices(t *testing.T) {
	s := repriced{&mini.Suite{Count: 3}}
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	trajs, err := rollout.Run(context.Background(), s, scripted.AlwaysCheapest(mini.Rules{}), rollout.Attempts(tasks, 1), rollout.Options{Reward: reward.Default()})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"catalog stock finish", "catalog finish", "catalog stock multiply finish"} {
		if got := route(trajs[i]); got != want {
			t.Errorf("%s: %s, want %s", trajs[i].Task.Question, got, want)
		}
	}
}

// worded words every call with fixed arguments and reads no answer.
type worded struct {
	mini.Rules
	args map[string]string
}

func (r worded) Call(_, name string, _ []scripted.Seen) (json.RawMessage, bool) {
	return json.RawMessage(r.args[name]), r.args[name] != ""
}

func (worded) Extract(string, []scripted.Seen) (string, bool) { return "", false }

// A call is as dear as its units make it: the tool of the lowest base price is the dearest here.
func TestCheapestFollowsPricesPerUnit(t *testing.T) {
	r := worded{args: map[string]string{"stock": `{"item":"bolts"}`, "catalog": `{"query":"bolts"}`, "multiply": `{"a":90,"b":2}`}}
	for perUnit, want := range map[price.Amount]string{
		0:              "multiply catalog stock finish",
		price.Of(0.02): "catalog multiply stock finish",
		price.Of(1):    "catalog stock multiply finish",
	} {
		tasks, err := (&mini.Suite{Count: 1}).Tasks("train")
		if err != nil {
			t.Fatal(err)
		}
		tasks[0].Offers = []suite.Offer{{Tool: "stock", Price: tool.Price{Base: price.Of(3)}},
			{Tool: "multiply", Price: tool.Price{Base: price.Of(0.1), PerUnit: perUnit, UnitArg: "a"}}, {Tool: "catalog", Price: tool.Price{Base: price.Of(1)}}}
		trajs, err := rollout.Run(context.Background(), &mini.Suite{Count: 1}, scripted.AlwaysCheapest(r), rollout.Attempts(tasks, 1), rollout.Options{Reward: reward.Default()})
		if err != nil {
			t.Fatal(err)
		}
		if got := route(trajs[0]); got != want {
			t.Errorf("at %v a unit: %s, want %s", perUnit, got, want)
		}
	}
}

// Every tool is called exactly once, those that the rules cannot word too.
func TestAllToolsAreCalled(t *testing.T) {
	for _, args := range []map[string]string{{}, {"catalog": `{"query":"bolts"}`}, {"catalog": `{"query":"bolts"}`, "stock": `{"item":"bolts"}`}} {
		r := everything{worded{args: args}}
		for _, tr := range play(t, scripted.AlwaysAllTools(r), &mini.Suite{Count: 3}, 1, 1) {
			names := strings.Fields(route(tr))
			slices.Sort(names)
			if got := strings.Join(names, " "); got != "catalog finish multiply stock" {
				t.Errorf("with words for %d tools: %s", len(args), route(tr))
			}
		}
	}
}

// everything has a fall-back call to every tool.
type everything struct{ worded }

func (everything) Fallback(question, name string, seen []scripted.Seen) (json.RawMessage, bool) {
	if args, ok := (mini.Rules{}).Call(question, name, seen); ok {
		return args, true
	}
	return mini.Rules{}.Fallback(question, name, seen)
}

// stepper is a parser that asks for the stock and answers with what came back, or gives up.
type stepper struct{ known bool }

func (s stepper) Next(question string, tools []tool.Spec, seen []scripted.Seen) (suite.Call, bool) {
	if len(seen) == 0 {
		return suite.Call{Tool: tools[0].Name, Args: json.RawMessage(`{"item":"bolts"}`)}, true
	}
	args, err := json.Marshal(map[string]string{"answer": regexp.MustCompile(`\d+`).FindString(seen[0].Body)})
	return suite.Call{Tool: tool.FinishName, Args: args}, s.known && err == nil
}

func TestRuleParser(t *testing.T) {
	for _, known := range []bool{true, false} {
		tr := play(t, scripted.RuleParser(stepper{known}), &mini.Suite{Count: 1}, 1, 1)[0]
		if tr.Method != "rule_parser" || route(tr) != "stock finish" || tr.Outcome.Verified != known || known == (tr.Outcome.Answer == scripted.Unknown) {
			t.Errorf("known %v: %s, answer %q, solved %v", known, route(tr), tr.Outcome.Answer, tr.Outcome.Verified)
		}
	}
}

// blind hides from the policy's side everything of a task but its question, and keeps the suite's side as it is.
type blind struct{ *mini.Suite }

func (s blind) Prompt(t suite.Task) (suite.Prompt, error) {
	return s.Suite.Prompt(suite.Task{ID: "x", Question: t.Question, Budget: t.Budget, Offers: t.Offers})
}

// The baselines do the same on tasks stripped of gold, template and combination.
func TestBaselinesSeeOnlyThePrompt(t *testing.T) {
	for _, p := range []policy.Policy{
		scripted.AlwaysCheapest(mini.Rules{}), scripted.AlwaysAllTools(mini.Rules{}), scripted.RandomTool(mini.Rules{}),
		scripted.StaticThreshold(mini.Rules{}, scripted.Threshold{First: "catalog", Second: "stock", MinScore: 1}),
	} {
		m := &mini.Suite{Count: 6}
		seen := play(t, p, m, 1, 1)
		tasks, _ := m.Tasks("train")
		got, err := rollout.Run(context.Background(), blind{m}, p, rollout.Attempts(tasks, 1), rollout.Options{Seed: 1, Reward: reward.Default()})
		if err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if route(seen[i]) != route(got[i]) || seen[i].Outcome.Answer != got[i].Outcome.Answer {
				t.Errorf("%s: %s with the task, %s without", p.Name(), route(seen[i]), route(got[i]))
			}
		}
	}
}

// Streams of random_tool differ by seed and attempt, and every tool is drawn.
func TestRandomTool(t *testing.T) {
	p := scripted.RandomTool(mini.Rules{})
	routes := func(seed uint64) []string {
		var out []string
		for _, tr := range play(t, p, &mini.Suite{Count: 12}, seed, 4) {
			out = append(out, route(tr))
		}
		return out
	}
	a, b := routes(1), routes(2)
	if !slices.Equal(a, routes(1)) {
		t.Error("the same seed gives other routes")
	}
	if slices.Equal(a, b) {
		t.Error("another seed gives the same routes")
	}
	same := 0
	for i := 0; i < len(a); i += 4 {
		if a[i] == a[i+1] && a[i] == a[i+2] && a[i] == a[i+3] {
			same++
		}
	}
	if same > 2 {
		t.Errorf("the four attempts are alike for %d of 12 tasks", same)
	}
	all := strings.Join(a, " ")
	for _, name := range []string{"stock", "catalog", "multiply"} {
		if !strings.Contains(all, name) {
			t.Errorf("%s was never drawn", name)
		}
	}
}

func TestOracleAndDemonstrations(t *testing.T) {
	s := &mini.Suite{Count: 9}
	tasks, _ := s.Tasks("train")
	for _, tr := range play(t, scripted.Oracle(tasks), s, 1, 2) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost || tr.Outcome.Reward.Total != 1 {
			t.Errorf("%s: %+v", tr.EpisodeID, tr.Outcome)
		}
	}
	// Two demonstrations of one task are its attempts.
	lazy := []suite.Call{{Thought: "guess", Tool: "finish", Args: json.RawMessage(`{"answer":"5"}`)}}
	demos := []suite.Demonstration{{Task: tasks[0], Calls: tasks[0].GoldPath}, {Task: tasks[1], Calls: tasks[1].GoldPath}, {Task: tasks[0], Calls: lazy}}
	given, attempts := scripted.Paths(demos)
	items := make([]rollout.Item, len(demos))
	for i, d := range demos {
		items[i] = rollout.Item{Task: d.Task, Attempt: attempts[i]}
	}
	trajs, err := rollout.Run(context.Background(), s, scripted.Demonstrator("demo", "-", given), items, rollout.Options{Reward: reward.Default()})
	if err != nil {
		t.Fatal(err)
	}
	if trajs[0].Outcome.Verified != true || trajs[2].Turns[0].Action.Thought != "guess" || trajs[2].Outcome.Answer != "5" || trajs[2].Attempt != 1 {
		t.Errorf("%+v", trajs)
	}
}

// A script that cannot go on ends its episode with the reason; the run goes on.
func TestScriptsThatEnd(t *testing.T) {
	s := &mini.Suite{Count: 4}
	calls := map[string][]suite.Call{
		"mini-0000": {{Tool: "stock", Args: json.RawMessage(`{"item":"bolts"}`)}},
		"mini-0001": {{Tool: "stock", Args: json.RawMessage(`{"itemm":"bolts"}`)}, {Tool: "finish", Args: json.RawMessage(`{"answer":"1"}`)}},
		"mini-0003": {{Tool: "finish", Args: json.RawMessage(`{"answer":"1"}`)}},
	}
	p := scripted.Demonstrator("demo", "-", func(k policy.Key) []suite.Call { return calls[k.Task] })
	trajs := play(t, p, s, 1, 1)
	for i, want := range []string{"are over and it has not finished", "its action is invalid: error: stock: argument itemm", "no calls for task mini-0002", ""} {
		if tr := trajs[i]; !strings.Contains(tr.Cause, want) || (tr.End == trajectory.Error) != (want != "") {
			t.Errorf("%s: end %s, cause %q; want %q", tr.Task.ID, tr.End, tr.Cause, want)
		}
	}
}

func TestSessionMisuse(t *testing.T) {
	ses, err := scripted.AlwaysCheapest(mini.Rules{}).Open(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := ses.Start(1, policy.Key{}, suite.Prompt{}); err == nil {
		t.Error("a slot beyond the last was started")
	}
	if _, err := ses.Step(context.Background(), []int{0}); err == nil {
		t.Error("an empty slot acted")
	}
	if err := ses.Start(0, policy.Key{}, suite.Prompt{}); err != nil {
		t.Fatal(err)
	}
	if err := ses.Start(0, policy.Key{}, suite.Prompt{}); err == nil {
		t.Error("a taken slot was started again")
	}
	// Without any tool it gives up at once.
	rs, err := ses.Step(context.Background(), []int{0})
	if err != nil || rs[0].Text != episode.Format("", "finish", json.RawMessage(`{"answer":"unknown"}`)) {
		t.Errorf("%+v, %v", rs, err)
	}
	if _, err := scripted.AlwaysCheapest(mini.Rules{}).Open(context.Background(), 0); err == nil {
		t.Error("a session without slots was opened")
	}
}
