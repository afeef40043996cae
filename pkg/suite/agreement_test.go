package suite

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func calls(list ...string) (out []trajectory.Call) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, trajectory.Call{Tool: list[i], Args: json.RawMessage(list[i+1])})
	}
	return out
}

// episode makes these calls and ends.
func episode(paths []trajectory.Path, made ...string) *trajectory.Trajectory {
	t := &trajectory.Trajectory{Task: trajectory.Task{GoldPath: calls("a", `{"x":1,"y":"2"}`, "b", `{"q":"v"}`), Paths: paths}}
	for _, c := range append(calls(made...), calls("finish", `{"answer":"1"}`)...) {
		t.Turns = append(t.Turns, trajectory.Turn{Action: &trajectory.Action{Tool: c.Tool, Args: c.Args}})
	}
	return t
}

// An episode is compared with the valid path that it is closest to, whatever the order of calls and of arguments.
func TestAgree(t *testing.T) {
	other := []trajectory.Path{{Calls: calls("c", `{"x":1}`), Cost: price.Of(3)}}
	failing := []trajectory.Path{{Calls: calls("c", `{"x":1}`), Cost: price.Of(1), Fails: true}}
	for name, c := range map[string]struct {
		of              *trajectory.Trajectory
		want            Agreement
		tools, argument float64
	}{
		"the path":                {episode(nil, "a", `{"x":1,"y":"2"}`, "b", `{"q":"v"}`), Agreement{2, 2, 2, 2}, 1, 1},
		"another order":           {episode(nil, "b", `{"q":"v"}`, "a", `{"y": "2", "x": 1}`), Agreement{2, 2, 2, 2}, 1, 1},
		"another argument":        {episode(nil, "a", `{"x":1,"y":"2"}`, "b", `{"q":"w"}`), Agreement{2, 2, 2, 1}, 1, 0.5},
		"a number and its text":   {episode(nil, "a", `{"x":"1","y":"2"}`, "b", `{"q":"v"}`), Agreement{2, 2, 2, 1}, 1, 0.5},
		"a call too many":         {episode(nil, "a", `{"x":1,"y":"2"}`, "b", `{"q":"v"}`, "b", `{"q":"v"}`), Agreement{3, 2, 2, 2}, 2.0 / 3, 1},
		"a call too few":          {episode(nil, "a", `{"x":1,"y":"2"}`), Agreement{1, 2, 1, 1}, 0.5, 1},
		"no call":                 {episode(nil), Agreement{0, 2, 0, 0}, 0, math.NaN()},
		"wrong tools":             {episode(nil, "c", `{"x":1}`, "d", `{}`), Agreement{2, 2, 0, 0}, 0, math.NaN()},
		"another valid path":      {episode(other, "c", `{"x":1}`), Agreement{1, 1, 1, 1}, 1, 1},
		"a path that fails":       {episode(failing, "c", `{"x":1}`), Agreement{1, 2, 0, 0}, 0, math.NaN()},
		"closer to the gold path": {episode(other, "a", `{"x":1,"y":"2"}`, "c", `{"x":1}`, "b", `{"q":"v"}`), Agreement{3, 2, 2, 2}, 2.0 / 3, 1},
	} {
		if got := Agree(c.of); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		for column, want := range map[string]float64{"tool_accuracy": c.tools, "argument_accuracy": c.argument} {
			for _, col := range CallColumns() {
				if col.Name != column {
					continue
				}
				if num, den := col.Ratio(c.of); num/den != want && !(math.IsNaN(num/den) && math.IsNaN(want)) {
					t.Errorf("%s: %s is %v of %v, want %v", name, column, num, den, want)
				}
			}
		}
	}
	if got := Agree(&trajectory.Trajectory{}); got != (Agreement{}) {
		t.Errorf("a record without paths: %+v", got)
	}
	refused := episode(nil, "a", `{"x":1,"y":"2"}`)
	refused.Turns[0].Refused = true
	if got := Agree(refused); got.Calls != 0 {
		t.Errorf("a call that was refused counts: %+v", got)
	}
}

// The columns of cost look at solved tasks, exactly.
func TestCostColumns(t *testing.T) {
	for name, c := range map[string]struct {
		solved   bool
		spend    float64
		failed   int
		want     [3]float64 // at, below, a failed call
		num, den float64    // of the cost above
	}{
		"cheapest":      {true, 0.0323, 0, [3]float64{1, 0, 0}, 0, 0.0323},
		"dearer":        {true, 0.0407, 2, [3]float64{0, 0, 1}, 0.0084, 0.0323},
		"below":         {true, 0.01, 0, [3]float64{0, 1, 0}, -0.0223, 0.0323},
		"not solved":    {false, 0.0323, 0, [3]float64{0, 0, 0}, 0, 0},
		"unsolved, low": {false, 0, 1, [3]float64{0, 0, 1}, 0, 0},
	} {
		tr := &trajectory.Trajectory{Task: trajectory.Task{OptimalCost: price.Of(0.0323)}, Outcome: trajectory.Outcome{Verified: c.solved, Spend: price.Of(c.spend), Failed: c.failed}}
		got := map[string][2]float64{}
		for _, col := range CallColumns() {
			num, den := col.Ratio(tr)
			got[col.Name] = [2]float64{num, den}
		}
		for i, col := range []string{"at_cheapest", "below_cheapest", "failed_call_tasks"} {
			if got[col] != [2]float64{c.want[i], 1} {
				t.Errorf("%s: %s is %v, want %v of 1", name, col, got[col], c.want[i])
			}
		}
		if a := got["above_cheapest"]; math.Abs(a[0]-c.num) > 1e-9 || a[1] != c.den {
			t.Errorf("%s: cost above %v, want %v of %v", name, a, c.num, c.den)
		}
	}
}
