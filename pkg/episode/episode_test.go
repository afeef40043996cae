package episode_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// start begins an episode of the mini suite's task i: 0 asks the stock (optimal 1, budget 1.5), 2 the value (3.5, 5.5).
func start(t *testing.T, s *mini.Suite, i int, cfg episode.Config) (*episode.Episode, suite.Task) {
	t.Helper()
	s.Count = 3
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	e, err := episode.New(s, tasks[i], cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, tasks[i]
}

func reply(tool, args string) policy.Reply {
	return policy.Reply{Text: episode.Format("", tool, json.RawMessage(args)), Stop: policy.StopFence}
}

type stepRow struct {
	name  string
	reply policy.Reply
}

// stepRows are the rows of the grammar's table that need an episode.
var stepRows = map[episode.ErrorKind][]stepRow{
	episode.UnknownTool: {
		{"a tool that the task does not offer", reply("web", `{}`)},
		{"the right tool in another case", reply("Stock", `{"item":"bolts"}`)},
	},
	episode.BadArgs: {
		{"an argument is missing", reply("stock", `{}`)},
		{"an argument is not known", reply("stock", `{"item":"bolts","n":1}`)},
		{"an argument's name is in another case", reply("stock", `{"Item":"bolts"}`)},
		{"an argument has another type", reply("stock", `{"item":["bolts"]}`)},
		{"a number with an exponent that no tool could compute", reply("multiply", `{"a":1e999999999,"b":1}`)},
		{"finish without an answer", reply("finish", `{}`)},
		{"finish with a list", reply("finish", `{"answer":["1"]}`)},
		{"finish with null", reply("finish", `{"answer":null}`)},
		{"finish with a truth value", reply("finish", `{"answer":true}`)},
	},
	episode.Cut: {
		{"the reply reached the token limit of a turn", policy.Reply{Text: "```json\n{\"tool\": \"st", Stop: policy.StopLength}},
		{"the reply reached the context limit", policy.Reply{Text: "```json\n{\"tool\": \"st", Stop: policy.StopContext}},
	},
}

func TestStepTable(t *testing.T) {
	for kind, rows := range stepRows {
		for _, r := range rows {
			e, _ := start(t, &mini.Suite{}, 0, episode.Config{})
			obs, done := e.Step(context.Background(), r.reply)
			got := e.Result()
			turn := got.Turns[0]
			if turn.ErrorKind != string(kind) || turn.Price != 0 || got.Outcome.Spend != 0 || got.Outcome.Invalid != 1 || turn.Called() {
				t.Errorf("%s: kind %q, price %v, spend %v, invalid %d, called %v; want %s, free, counted, not executed", r.name, turn.ErrorKind, turn.Price, got.Outcome.Spend, got.Outcome.Invalid, turn.Called(), kind)
			}
			if want := kind == episode.Cut; done != want || got.Outcome.Truncated != want {
				t.Errorf("%s: done %v, truncated %v; want both %v", r.name, done, got.Outcome.Truncated, want)
			}
			if !strings.HasPrefix(obs.Body, "error: ") || !obs.Failed || obs.Tool != "" {
				t.Errorf("%s: observation %+v, want an error without a tool", r.name, obs)
			}
		}
	}
}

// An answer that is a number in JSON counts as the text that was written, with every digit of it.
func TestAnswersThatAreNumbers(t *testing.T) {
	for _, n := range []string{"42", "-0.50", "9007199254740993", "123456789012345678901234567891", "1e2"} {
		e, _ := start(t, &mini.Suite{}, 0, episode.Config{})
		if _, done := e.Step(context.Background(), reply("finish", `{"answer":`+n+`}`)); !done {
			t.Errorf("%s: %+v", n, e.Result().Turns)
			continue
		}
		if got := e.Result(); got.Outcome.Answer != n || got.End != trajectory.Finished || got.Outcome.Invalid != 0 {
			t.Errorf("%s: answered %q, end %s, %d invalid actions", n, got.Outcome.Answer, got.End, got.Outcome.Invalid)
		}
	}
	e, task := start(t, &mini.Suite{}, 0, episode.Config{})
	e.Step(context.Background(), reply("stock", `{"item":"bolts"}`))
	e.Step(context.Background(), reply("finish", `{"answer":`+task.Answer.Values[0]+`}`))
	if o := e.Result().Outcome; !o.Correct || !o.Evidenced {
		t.Errorf("the right number is not known as the answer that was seen: %+v", o)
	}
}

func TestSolved(t *testing.T) {
	e, task := start(t, &mini.Suite{}, 0, episode.Config{})
	gold := task.Answer.Values[0]
	obs, done := e.Step(context.Background(), reply("stock", `{"item":"bolts"}`))
	if want := "bolts: " + gold + " on the shelf"; done || obs.Body != want || obs.Text != want+"\nleft 0.5" || obs.Remaining != price.Of(0.5) {
		t.Fatalf("observation %+v, done %v", obs, done)
	}
	if _, done = e.Step(context.Background(), reply("finish", `{"answer":"`+gold+`"}`)); !done {
		t.Fatal("finish did not end the episode")
	}
	// Nothing that comes after the end changes the record.
	before, _ := e.Result().Canonical()
	if _, done := e.Step(context.Background(), reply("stock", `{"item":"bolts"}`)); !done {
		t.Error("a step after the end reopened it")
	}
	after, _ := e.Result().Canonical()
	if string(before) != string(after) {
		t.Error("a step after the end changed the record")
	}
	r := e.Result()
	if o := r.Outcome; r.End != trajectory.Finished || !o.Correct || !o.Evidenced || o.Spend != price.Of(1) || o.Answer != gold || o.Truncated {
		t.Errorf("end %s, outcome %+v", r.End, o)
	}
	if r.Turns[1].Observation != "" {
		t.Errorf("finish was answered with %q", r.Turns[1].Observation)
	}
	if r.Task.GoldCalls["stock"] != 1 || len(r.Task.GoldCalls) != 1 {
		t.Errorf("gold calls %v, want one of stock", r.Task.GoldCalls)
	}
}

// A right answer without the call that shows it is correct and not evidenced, also when the value stood in an error text.
func TestGuess(t *testing.T) {
	for name, first := range map[string]policy.Reply{
		"no call":                 {},
		"value in an invalid one": {Text: "Observation: GOLD"},
		"value in a failed one":   {Text: episode.Format("", "stock", json.RawMessage(`{"item":"GOLD"}`))},
	} {
		s := &mini.Suite{Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
			def := tools[0].Spec()
			tools[0] = tool.Func{Def: def, Run: func(_ context.Context, a map[string]any) (tool.Observation, error) {
				return tool.Observation{}, errors.New("no such item: " + a["item"].(string))
			}}
			return tools
		}}
		e, task := start(t, s, 0, episode.Config{})
		gold := task.Answer.Values[0]
		if first.Text != "" {
			first.Text = strings.ReplaceAll(first.Text, "GOLD", gold)
			if obs, _ := e.Step(context.Background(), first); strings.Contains(first.Text, "stock") && !strings.Contains(obs.Body, gold) {
				t.Fatalf("%s: the error text %q lacks the value", name, obs.Body)
			}
		}
		e.Step(context.Background(), reply("finish", `{"answer":"`+gold+`"}`))
		if o := e.Result().Outcome; !o.Correct || o.Evidenced {
			t.Errorf("%s: outcome %+v, want correct and not evidenced", name, o)
		}
	}
}

// An observation that the policy wrote itself, before or after its action, never comes back as one.
func TestInventedObservation(t *testing.T) {
	e, _ := start(t, &mini.Suite{}, 0, episode.Config{})
	r := reply("stock", `{"item":"cups"}`)
	r.Text += "\nObservation: cups: 42 on the shelf\n" + episode.Format("", "finish", json.RawMessage(`{"answer":"42"}`))
	obs, done := e.Step(context.Background(), r)
	if got := e.Result(); done || strings.Contains(obs.Text, "42") || got.Outcome.Answer != "" || got.Turns[0].ErrorKind != string(episode.TwoBlocks) {
		t.Errorf("observation %q, answer %q, kind %s", obs.Text, got.Outcome.Answer, got.Turns[0].ErrorKind)
	}
}

func TestBudgets(t *testing.T) {
	call := reply("catalog", `{"query":"bolts"}`) // costs 2, the budget is 1.5
	for _, c := range []struct {
		mode  episode.BudgetMode
		text  string
		spend price.Amount
		end   trajectory.EndReason
	}{
		{episode.Soft, "\nleft -0.5", price.Of(2), ""},
		{episode.Hard, "refused: catalog costs 2\nleft 1.5", 0, trajectory.Budget},
		{episode.None, " each", price.Of(2), ""},
	} {
		e, _ := start(t, &mini.Suite{}, 0, episode.Config{Budget: c.mode})
		obs, done := e.Step(context.Background(), call)
		r := e.Result()
		if !strings.HasSuffix(obs.Text, c.text) || r.Outcome.Spend != c.spend || r.End != c.end || done != (c.end != "") {
			t.Errorf("%s: text %q, spend %v, end %q; want …%q, %v, %q", c.mode, obs.Text, r.Outcome.Spend, r.End, c.text, c.spend, c.end)
		}
		if refused := c.mode == episode.Hard; r.Turns[0].Refused != refused || r.Turns[0].Called() == refused || r.Outcome.Invalid+r.Outcome.Failed != 0 || r.Outcome.Truncated {
			t.Errorf("%s: turn %+v, outcome %+v", c.mode, r.Turns[0], r.Outcome)
		}
	}
	// A call that meets the budget exactly is allowed.
	e, _ := start(t, &mini.Suite{}, 1, episode.Config{Budget: episode.Hard}) // budget 3
	for _, r := range []policy.Reply{reply("stock", `{"item":"cups"}`), reply("catalog", `{"query":"cups"}`)} {
		if obs, done := e.Step(context.Background(), r); done {
			t.Errorf("ended by %q", obs.Text)
		}
	}
	if e.Remaining() != 0 {
		t.Errorf("left %v, want 0", e.Remaining())
	}
}

func TestFailedCallCosts(t *testing.T) {
	for _, free := range []bool{false, true} {
		e, _ := start(t, &mini.Suite{}, 0, episode.Config{FreeFailures: free})
		obs, _ := e.Step(context.Background(), reply("stock", `{"item":"unicorns"}`))
		want := price.Of(1)
		if free {
			want = 0
		}
		r := e.Result()
		if r.Outcome.Spend != want || r.Outcome.Failed != 1 || r.Outcome.Invalid != 0 || !r.Turns[0].Failed || r.Turns[0].ErrorKind != episode.CallFailed || !r.Turns[0].Called() || obs.Body != "error: no such item" || obs.Tool != "stock" {
			t.Errorf("free %v: outcome %+v, turn %+v, observation %+v", free, r.Outcome, r.Turns[0], obs)
		}
	}
}

func tokens(context, sampled int) *policy.Tokens {
	return &policy.Tokens{Context: make([]int32, context), Sampled: make([]int32, sampled), LogProbs: make([]float32, sampled)}
}

// Every way an episode can end gives one reason and one mark, and only token and context limits are truncations.
func TestEnds(t *testing.T) {
	call := reply("stock", `{"item":"bolts"}`)
	with := func(r policy.Reply, tok *policy.Tokens, stop policy.Stop) policy.Reply {
		r.Tokens, r.Stop = tok, stop
		return r
	}
	cut := policy.Reply{Text: "```json\n{\"tool\": \"stock\", \"ar", Stop: policy.StopLength}
	broken := errors.New("connection lost")
	for _, c := range []struct {
		name      string
		cfg       episode.Config
		replies   []policy.Reply
		end       trajectory.EndReason
		truncated bool
		turns     int
		spend     price.Amount
	}{
		{"turn limit with a pending action", episode.Config{MaxTurns: 3}, []policy.Reply{call, call, call, call}, trajectory.Turns, false, 3, price.Of(3)},
		{"turn limit of invalid actions", episode.Config{}, []policy.Reply{{}, {}, {}, {}, {}, {}, {}, {}, {}}, trajectory.Turns, false, 8, 0},
		{"token limit inside the JSON of turn 2", episode.Config{}, []policy.Reply{call, cut, call}, trajectory.Tokens, true, 2, price.Of(1)},
		{"token limit that the policy did not keep", episode.Config{MaxTokensPerTurn: 10}, []policy.Reply{with(call, tokens(5, 11), policy.StopFence), call}, trajectory.Tokens, true, 1, 0},
		{"context limit in a reply", episode.Config{}, []policy.Reply{call, with(cut, nil, policy.StopContext)}, trajectory.Context, true, 2, price.Of(1)},
		{"context limit after a reply", episode.Config{MaxContext: 40}, []policy.Reply{with(call, tokens(10, 10), policy.StopFence), with(call, tokens(10, 10), policy.StopFence), call}, trajectory.Context, true, 2, price.Of(2)},
		{"turn and token limit at once", episode.Config{MaxTurns: 1}, []policy.Reply{cut}, trajectory.Tokens, true, 1, 0},
		{"answer, then talk", episode.Config{}, []policy.Reply{reply("finish", `{"answer":"1"}`), call}, trajectory.Finished, false, 1, 0},
		{"answer in the last turn", episode.Config{MaxTurns: 1}, []policy.Reply{reply("finish", `{"answer":"1"}`)}, trajectory.Finished, false, 1, 0},
		{"policy error", episode.Config{}, []policy.Reply{call, {Err: broken}, call}, trajectory.Error, false, 1, price.Of(1)},
	} {
		e, _ := start(t, &mini.Suite{}, 0, c.cfg)
		done := false
		for i, r := range c.replies {
			if done && i <= c.turns-1 {
				t.Errorf("%s: over after %d replies", c.name, i)
			}
			_, done = e.Step(context.Background(), r)
		}
		r := e.Result()
		if !done || r.End != c.end || r.Outcome.Truncated != c.truncated || len(r.Turns) != c.turns || r.Outcome.Spend != c.spend {
			t.Errorf("%s: end %q, truncated %v, %d turns, spend %v; want %q, %v, %d, %v", c.name, r.End, r.Outcome.Truncated, len(r.Turns), r.Outcome.Spend, c.end, c.truncated, c.turns, c.spend)
		}
		if (r.Cause != "") != (c.end == trajectory.Error) || (c.end == trajectory.Error) != errors.Is(e.Err(), broken) {
			t.Errorf("%s: cause %q, error %v", c.name, r.Cause, e.Err())
		}
	}
}

// A tool that panics, or is called after the context ended, is a fault with a named cause, not a failed call.
func TestFaults(t *testing.T) {
	wrap := func(run func(context.Context, map[string]any) (tool.Observation, error)) *mini.Suite {
		return &mini.Suite{Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
			tools[0] = tool.Func{Def: tools[0].Spec(), Run: run}
			return tools
		}}
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name  string
		suite *mini.Suite
		ctx   context.Context
		want  error
	}{
		{"panic", wrap(func(context.Context, map[string]any) (tool.Observation, error) { panic("boom") }), context.Background(), tool.ErrPanic},
		{"canceled", &mini.Suite{}, canceled, context.Canceled},
	} {
		e, _ := start(t, c.suite, 0, episode.Config{})
		_, done := e.Step(c.ctx, reply("stock", `{"item":"bolts"}`))
		r := e.Result()
		if !done || r.End != trajectory.Error || !errors.Is(e.Err(), episode.ErrFault) || !errors.Is(e.Err(), c.want) || r.Outcome.Spend != 0 || r.Cause == "" {
			t.Errorf("%s: end %q, err %v, spend %v, cause %q", c.name, r.End, e.Err(), r.Outcome.Spend, r.Cause)
		}
	}
}

// The verdict on a turn does not change when its record is written, read and played again.
func TestVerdictSurvivesRecord(t *testing.T) {
	texts := []string{"a\xff\xfeb", good + "\xff", strings.Repeat("é", episode.MaxText), "\xe2\x82"}
	for _, r := range table {
		if len(r.text) < 10_000 {
			texts = append(texts, r.text)
		}
	}
	for _, text := range texts {
		e, _ := start(t, &mini.Suite{}, 0, episode.Config{})
		e.Step(context.Background(), policy.Reply{Text: text, Stop: policy.StopEOS})
		turn := e.Result().Turns[0]
		b, err := json.Marshal(turn)
		if err != nil {
			t.Fatal(err)
		}
		var back trajectory.Turn
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		e2, _ := start(t, &mini.Suite{}, 0, episode.Config{})
		e2.Step(context.Background(), policy.Reply{Text: back.Text, Stop: policy.StopEOS})
		if again := e2.Result().Turns[0]; again.ErrorKind != turn.ErrorKind || again.Text != turn.Text {
			t.Errorf("%.40q: %q first, %q on replay", text, turn.ErrorKind, again.ErrorKind)
		}
	}
}

func TestObservationLimitAndLatency(t *testing.T) {
	s := &mini.Suite{Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
		def := tools[0].Spec()
		def.Latency = 2 * time.Second
		tools[0] = tool.Func{Def: def, Run: func(context.Context, map[string]any) (tool.Observation, error) {
			return tool.ReadFrom(strings.Repeat("é", 1000), "store:x"), nil
		}}
		return tools
	}}
	e, _ := start(t, s, 0, episode.Config{ObservationLimit: 100})
	r := reply("stock", `{"item":"bolts"}`)
	r.Latency = 1500 * time.Millisecond
	obs, _ := e.Step(context.Background(), r)
	if len(obs.Body) > 100 || !strings.Contains(obs.Body, "cut") || !strings.HasSuffix(obs.Text, "\nleft 0.5") {
		t.Errorf("observation of %d bytes: %q", len(obs.Body), obs.Text)
	}
	turn := e.Result().Turns[0]
	if turn.ModelTime != 1.5 || turn.ToolTime < 2 || turn.ToolTime > 3 {
		t.Errorf("model %v s, tool %v s; want 1.5 and the simulated 2", turn.ModelTime, turn.ToolTime)
	}
}

// Prices and tools vary by task: what a task does not offer is unknown, and the charge is the offered price.
func TestOffers(t *testing.T) {
	s := &mini.Suite{Count: 1}
	tasks, _ := s.Tasks("train")
	tasks[0].Offers = []suite.Offer{{Tool: "stock", Price: tool.Price{Base: price.Of(0.25)}}}
	e, err := episode.New(s, tasks[0], episode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Step(context.Background(), reply("catalog", `{"query":"bolts"}`))
	e.Step(context.Background(), reply("stock", `{"item":"bolts"}`))
	r := e.Result()
	if r.Turns[0].ErrorKind != string(episode.UnknownTool) || r.Outcome.Spend != price.Of(0.25) {
		t.Errorf("kind %q, spend %v; want unknown_tool, 0.25", r.Turns[0].ErrorKind, r.Outcome.Spend)
	}
}

func TestConfigErrors(t *testing.T) {
	s := &mini.Suite{Count: 1}
	tasks, _ := s.Tasks("train")
	noBudget := tasks[0]
	noBudget.Budget = 0
	for _, c := range []struct {
		cfg  episode.Config
		task suite.Task
		want string
	}{
		{episode.Config{MaxTurns: -1}, tasks[0], "max_turns"},
		{episode.Config{ObservationLimit: 3}, tasks[0], "observation_limit"},
		{episode.Config{Budget: "firm"}, tasks[0], "budget_mode"},
		{episode.Config{Budget: episode.Hard}, noBudget, "no budget"},
	} {
		if _, err := episode.New(s, c.task, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one that names %s", c.cfg, err, c.want)
		}
	}
}

// Records and tools name the action that ends an episode alike: a record counts every other call as one.
func TestFinishHasOneName(t *testing.T) {
	if trajectory.Finish != tool.FinishName {
		t.Errorf("records call it %q, tools %q", trajectory.Finish, tool.FinishName)
	}
}
