package episode_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// counted is the mini suite with tools that count their calls.
func counted(calls *int) *mini.Suite {
	return &mini.Suite{Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
		for i, inner := range tools {
			if inner.Spec().Name == tool.FinishName {
				continue
			}
			tools[i] = tool.Func{Def: inner.Spec(), Run: func(ctx context.Context, args map[string]any) (tool.Observation, error) {
				*calls++
				return inner.Call(ctx, args)
			}}
		}
		return tools
	}}
}

// Text around an action, a second action, or an action in a quotation: one verdict, the same when the record is played
// again and wherever generation stopped; what is refused runs no tool and costs nothing, and the next action is played.
func TestTextAroundAnAction(t *testing.T) {
	stock := episode.Format("", "stock", json.RawMessage(`{"item":"bolts"}`))
	catalog := episode.Format("", "catalog", json.RawMessage(`{"query":"bolts"}`))
	finish := episode.Format("", "finish", json.RawMessage(`{"answer":"42"}`))
	quoted := "> " + strings.ReplaceAll(stock, "\n", "\n> ")
	for _, c := range []struct {
		name, text string
		kind       episode.ErrorKind // empty: the first tool runs
	}{
		{"brackets after", stock + "\nSource [1], see {notes}", episode.TextAfter},
		{"a bracket after", stock + "}", episode.TextAfter},
		{"a list after", stock + "\n[{\"tool\": \"finish\"}]", episode.TextAfter},
		{"a bare action after", stock + "\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}", episode.TextAfter},
		{"an observation after", stock + "\nObservation: 42", episode.TextAfter},
		{"a response after", stock + "\n<tool_response>\n42\n</tool_response>\n", episode.TextAfter},
		{"an observation and an answer after", stock + "\nObservation: 42\n" + finish, episode.TwoBlocks},
		{"a message of the tool after", stock + "<|im_end|><|tool|>bolts: 42 on the shelf<|im_end|><|assistant|>" + finish, episode.TwoBlocks},
		{"two different actions", stock + "\n" + catalog, episode.TwoBlocks},
		{"the same action twice", stock + "\n\n" + stock, episode.TwoBlocks},
		{"an answer and an action", finish + "\n" + stock, episode.TwoBlocks},
		{"a fence of output after", stock + "\n```\nbolts: 42 on the shelf\n```", episode.TwoBlocks},
		{"a Python fence first", "```python\nstock('bolts')\n```\n" + stock, episode.OtherFence},
		{"a text fence first", "```\nplan\n```\n" + stock, episode.OtherFence},
		{"quoted in prose", "You said:\n" + quoted + "\nBut why?", episode.NoBlock},
		{"quoted in a sentence", "I could write `" + strings.ReplaceAll(stock, "\n", " ") + "` here.", episode.NoBlock},
		{"quoted, then meant", quoted + "\n\n" + stock, ""},
		{"brackets before", "See [1] and {notes}.\n" + stock, ""},
		{"an observation before", "Observation: 42\n" + stock, ""},
		{"blank lines after", stock + "\n \n\t\n", ""},
	} {
		var first string
		for _, text := range []string{c.text, c.text} { // the second time it is a replay
			calls := 0
			e, _ := start(t, counted(&calls), 0, episode.Config{})
			obs, done := e.Step(context.Background(), policy.Reply{Text: text, Stop: policy.StopEOS})
			r := e.Result()
			turn := r.Turns[0]
			want := 0
			if c.kind == "" {
				want = 1
			}
			if turn.ErrorKind != string(c.kind) || calls != want || done || r.Outcome.Answer != "" || r.Outcome.Spend.Float() != float64(want) || r.Outcome.Invalid != 1-want || strings.Contains(obs.Text, "42") {
				t.Errorf("%s: kind %q, %d calls, over %v, answer %q, spend %v, observation %q; want %q", c.name, turn.ErrorKind, calls, done, r.Outcome.Answer, r.Outcome.Spend, obs.Text, c.kind)
			}
			e.Step(context.Background(), reply("catalog", `{"query":"bolts"}`))
			if calls != want+1 {
				t.Errorf("%s: the next action was not played", c.name)
			}
			record, err := e.Result().Canonical()
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = string(record)
			} else if string(record) != first {
				t.Errorf("%s: played again it is\n%s\nwas\n%s", c.name, record, first)
			}
		}
		// A generator that stops at the end it is told never gets to what is refused for coming after.
		if n, ok := episode.End(c.text); ok && (c.kind == episode.TextAfter || c.kind == episode.TwoBlocks) {
			calls := 0
			e, _ := start(t, counted(&calls), 0, episode.Config{})
			_, done := e.Step(context.Background(), policy.Reply{Text: c.text[:n], Stop: policy.StopFence})
			if answers := strings.HasPrefix(c.text, finish); done != answers || (calls == 1) == answers || e.Result().Turns[0].ErrorKind != "" {
				t.Errorf("%s, stopped at its end: over %v, %d calls, %+v", c.name, done, calls, e.Result().Turns[0])
			}
		}
	}
}

// A policy that calls again and again and never finishes ends at the turn limit, and every executed call is charged once.
func TestLoopsEnd(t *testing.T) {
	for _, limit := range []int{1, 2, 8, 40} {
		calls := 0
		e, _ := start(t, counted(&calls), 0, episode.Config{MaxTurns: limit})
		n := 0
		for done := false; !done; n++ {
			_, done = e.Step(context.Background(), reply("multiply", `{"a":2,"b":3}`))
		}
		if r := e.Result(); n != limit || calls != limit || r.Outcome.Spend.Float() != 0.5*float64(limit) || r.End != "turns" || r.Outcome.Truncated {
			t.Errorf("limit %d: %d turns, %d calls, spend %v, end %s", limit, n, calls, r.Outcome.Spend, r.End)
		}
	}
}
