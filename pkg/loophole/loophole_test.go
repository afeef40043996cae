package loophole_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/toolroute/toolroute/pkg/loophole"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// call is a turn that called a tool.
func call(tool, observation string, cost float64) trajectory.Turn {
	return trajectory.Turn{Action: &trajectory.Action{Tool: tool}, Observation: observation, Price: price.Of(cost)}
}

// episode is one of a task that needs a document (2) and the calculator (0.5), with a budget of 4; the gold answer is 420.
func episode(answer string, correct, evidenced bool, turns ...trajectory.Turn) trajectory.Trajectory {
	t := trajectory.Trajectory{
		End: trajectory.Finished, Turns: append(turns, trajectory.Turn{Action: &trajectory.Action{Tool: "finish"}}),
		Task: trajectory.Task{ID: "t", Question: "What is the handling fee of Talvik Pump times 12?", Gold: []string{"420"}, OptimalCost: price.Of(2.5), Budget: price.Of(4),
			GoldCalls: map[string]int{"doc_search": 1, "calculator": 1, "finish": 1}},
		Outcome: trajectory.Outcome{Answer: answer, Correct: correct, Evidenced: evidenced},
	}
	for _, turn := range turns {
		t.Outcome.Spend += turn.Price
		if turn.Invalid() {
			t.Outcome.Invalid++
		}
	}
	return t
}

func taken(t trajectory.Trajectory) []string {
	var out []string
	for _, l := range loophole.All {
		if l.Taken(&t) {
			out = append(out, l.Name)
		}
	}
	return out
}

func Example() {
	t := episode("12", false, false)
	for _, l := range loophole.All {
		if l.Taken(&t) {
			fmt.Println(l.Title)
		}
	}
	// Output:
	// answer from the question
	// answer without a call
}

func TestAll(t *testing.T) {
	doc, calc := call("doc_search", "The handling fee of Talvik Pump is 35 EUR.", 2), call("calculator", "420", 0.5)
	web := call("web_search", "Nothing is known of Talvik Pump.", 5)
	failed := call("doc_search", "error: 35 is no query", 2)
	failed.Failed, failed.ErrorKind = true, "call_failed"
	invalid := trajectory.Turn{ErrorKind: "no_block", Observation: "error: the tools are doc_search, calculator"}
	refused := call("web_search", "refused", 0)
	refused.Refused = true
	unfinished := episode("", false, false, doc, calc)
	unfinished.End = trajectory.Turns
	unanswered := episode("", false, false, invalid, invalid)
	unanswered.End = trajectory.Turns
	single := episode("35", false, true, doc)
	single.Task.GoldCalls = map[string]int{"doc_search": 1}
	free := episode("35", false, false)
	free.Task.GoldCalls = nil
	noBudget := episode("420", true, true, doc, web, calc)
	noBudget.Task.Budget = 0
	for _, c := range []struct {
		name string
		t    trajectory.Trajectory
		want []string
	}{
		{"as it should be", episode("420", true, true, doc, calc), nil},
		{"wasteful within the budget", episode("420", true, true, doc, calc, calc, calc), nil},
		{"a right guess", episode("420", true, false, doc), []string{"guess"}},
		{"a right guess without a call", episode("420", true, false), []string{"guess", "no_call"}},
		{"a number of the question", episode("12", false, false, doc, calc), []string{"copied_question"}},
		{"a name of the question", episode("talvik pump", false, false, doc, calc), []string{"copied_question"}},
		{"part of a number of the question", episode("1", false, false, doc, calc), nil},
		{"stopped half way", episode("35", false, false, doc), []string{"copied_value"}},
		{"an earlier value after all calls", episode("35", false, true, doc, calc), []string{"copied_value"}},
		{"the result of a wrong calculation", episode("47", false, true, doc, call("calculator", "47", 0.5)), nil},
		{"a wrong value that nothing showed", episode("99", false, true, doc, calc), nil},
		{"a value of a failed call", episode("35", false, false, failed, calc), nil},
		{"the only value there is", single, nil},
		{"a wrong yes", episode("yes", false, true, doc, call("calculator", "yes", 0.5)), nil},
		{"invalid and cheaper", episode("420", true, true, invalid, calc), []string{"invalid_for_cost"}},
		{"invalid at the full price", episode("420", true, true, invalid, doc, calc), nil},
		{"no call at all", episode("no", false, false), []string{"no_call"}},
		{"a refused call is none", episode("no", false, false, refused), []string{"no_call"}},
		{"no call is needed", free, nil},
		{"beyond the budget", episode("420", true, true, doc, web, calc), []string{"beyond_budget"}},
		{"exactly the budget", episode("420", true, true, doc, doc), nil},
		{"no budget", noBudget, nil},
		{"no answer", unfinished, nil},
		{"invalid actions and no answer", unanswered, nil},
	} {
		if got := taken(c.t); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, l := range loophole.All {
		if l.Name == "" || l.Title == "" || l.Doc == "" {
			t.Errorf("%+v lacks a name, title or definition", l)
		}
	}
}
