package suite

import (
	"bytes"
	"encoding/json"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// CallColumns are columns that any suite can have: what an episode cost, and which calls it made, against the valid paths of its
// task. They need nothing but the record. Valid are the gold path, which is the cheapest, and the candidate paths that do not fail.
func CallColumns() []Column {
	return []Column{
		{Name: "at_cheapest", Title: "at the cheapest cost", Share: true, Doc: "share of all tasks that are solved for exactly what the cheapest path costs", Ratio: solvedWhere(func(spend, cheapest int64) bool { return spend == cheapest })},
		{Name: "above_cheapest", Title: "cost above the cheapest", Doc: "what the solved tasks cost beyond their cheapest paths, over what those cost", Ratio: aboveCheapest},
		{Name: "below_cheapest", Title: "below the cheapest cost", Share: true, Doc: "share of all tasks that are solved for less than the cheapest path costs", Ratio: solvedWhere(func(spend, cheapest int64) bool { return spend < cheapest })},
		{Name: "failed_call_tasks", Title: "tasks with a failed call", Total: true, Doc: "number of tasks in which a tool call failed", Ratio: failedCalls},
		{Name: "tool_accuracy", Title: "right tools", Share: true, Doc: "calls whose tool the closest valid path has too, over the calls made or those of that path, whichever are more", Ratio: toolAccuracy},
		{Name: "argument_accuracy", Title: "right arguments", Share: true, Doc: "of the calls whose tool the closest valid path has too, the share with arguments of that path", Ratio: argumentAccuracy},
	}
}

func solvedWhere(holds func(spend, cheapest int64) bool) func(*trajectory.Trajectory) (num, den float64) {
	return func(t *trajectory.Trajectory) (num, den float64) {
		if t.Outcome.Verified && holds(int64(t.Outcome.Spend), int64(t.Task.OptimalCost)) {
			return 1, 1
		}
		return 0, 1
	}
}

func aboveCheapest(t *trajectory.Trajectory) (num, den float64) {
	if !t.Outcome.Verified {
		return 0, 0
	}
	return (t.Outcome.Spend - t.Task.OptimalCost).Float(), t.Task.OptimalCost.Float()
}

func failedCalls(t *trajectory.Trajectory) (num, den float64) {
	if t.Outcome.Failed > 0 {
		return 1, 1
	}
	return 0, 1
}

func toolAccuracy(t *trajectory.Trajectory) (num, den float64) {
	a := Agree(t)
	return float64(a.Tools), float64(max(a.Calls, a.Path))
}

func argumentAccuracy(t *trajectory.Trajectory) (num, den float64) {
	a := Agree(t)
	return float64(a.Arguments), float64(a.Tools)
}

// Agreement counts what an episode and the valid path that is closest to it have in common. Order does not matter.
type Agreement struct {
	Calls     int `json:"calls"`     // that the episode made, failed ones included, finish left out
	Path      int `json:"path"`      // calls of the path
	Tools     int `json:"tools"`     // calls that both have, by tool
	Arguments int `json:"arguments"` // of Tools, those with the same arguments
}

// better reports whether an agreement is closer than another one of the same episode.
func (a Agreement) better(b Agreement) bool {
	// Shares of different sizes are compared as fractions.
	if l, r := a.Tools*max(b.Calls, b.Path), b.Tools*max(a.Calls, a.Path); l != r {
		return l > r
	}
	return a.Arguments > b.Arguments
}

// Agree compares an episode with the valid paths of its task; of equally close ones the cheaper counts. It is zero for a record that
// holds no path, as those before version 3.
func Agree(t *trajectory.Trajectory) Agreement {
	var made []trajectory.Call
	for i := range t.Turns {
		if a := t.Turns[i].Action; t.Turns[i].Executed() {
			made = append(made, trajectory.Call{Tool: a.Tool, Args: a.Args})
		}
	}
	paths := [][]trajectory.Call{}
	if len(t.Task.GoldPath) > 0 {
		paths = append(paths, t.Task.GoldPath)
	}
	for _, p := range t.Task.Paths {
		if !p.Fails {
			paths = append(paths, p.Calls)
		}
	}
	var best Agreement
	for i, p := range paths {
		if a := agreement(made, p); i == 0 || a.better(best) {
			best = a
		}
	}
	return best
}

func agreement(made, path []trajectory.Call) Agreement {
	tools, whole := map[string]int{}, map[string]int{}
	for _, c := range path {
		tools[c.Tool]++
		whole[c.Tool+" "+canonicalArgs(c.Args)]++
	}
	a := Agreement{Calls: len(made), Path: len(path)}
	take := func(left map[string]int, key string) int {
		if left[key] == 0 {
			return 0
		}
		left[key]--
		return 1
	}
	for _, c := range made {
		a.Tools += take(tools, c.Tool)
		a.Arguments += take(whole, c.Tool+" "+canonicalArgs(c.Args))
	}
	return a
}

// canonicalArgs is the JSON text of arguments with sorted keys; numbers stay as they are written.
func canonicalArgs(args json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return string(args)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(args)
	}
	return string(b)
}
