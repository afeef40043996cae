package chain

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// step is one turn of a made-up episode.
func step(toolName, arg, value, observation string) trajectory.Turn {
	args, err := json.Marshal(map[string]string{arg: value})
	if err != nil {
		panic(err)
	}
	return trajectory.Turn{Action: &trajectory.Action{Tool: toolName, Args: args}, Observation: observation}
}

func find(name, observation string) trajectory.Turn { return step("lookup", "name", name, observation) }
func compute(e, observation string) trajectory.Turn {
	return step("calculator", "expression", e, observation)
}
func answer(v string) trajectory.Turn { return step("finish", "answer", v, "") }
func failed(t trajectory.Turn) trajectory.Turn {
	t.Failed, t.ErrorKind = true, "call_failed"
	return t
}

// invalid is an action that was parsed and refused: it was never called.
func invalid(t trajectory.Turn) trajectory.Turn {
	t.ErrorKind = "bad_args"
	return t
}

func episode(turns ...trajectory.Turn) trajectory.Trajectory {
	return trajectory.Trajectory{
		Task: trajectory.Task{Template: Compose, Phrasing: "difference_more",
			Question: "How much more does amber falcon have than rusty heron?", Gold: []string{"289"}},
		Turns: turns, End: trajectory.Finished,
	}
}

func TestRanChain(t *testing.T) {
	a, b := find("amber falcon", "347"), find("rusty heron", "58")
	minus, end := compute("347 - 58", "289"), answer("289")
	other := episode(a, b, minus, end)
	other.Task.Template, other.Task.Phrasing, other.Task.Question = Lookup, "lookup_what", "What is the stock of amber falcon?"
	unread := episode(a, b, minus, end)
	unread.Task.Question = "Who has more?"
	unknown := episode(a, b, minus, end)
	unknown.Task.Phrasing = "difference_gone"
	for _, c := range []struct {
		name        string
		tr          trajectory.Trajectory
		ran, called bool
	}{
		{"whole chain", episode(a, b, minus, end), true, true},
		{"lookups in the other order", episode(b, a, minus, end), true, true},
		{"names in another case and spacing", episode(find(" Amber  Falcon", "347"), b, minus, end), true, true},
		{"wrong operation, wrong answer", episode(a, b, compute("347 + 58", "405"), answer("405")), true, true},
		{"a second try of the calculator", episode(a, b, compute("347 - 5", "342"), minus, end), true, true},
		{"a failed lookup, then a good one", episode(failed(find("amber falcon", "timeout 9")), a, b, minus, end), true, true},
		{"more in the expression", episode(a, b, compute("(347 - 58) * 1", "289"), end), true, true},
		{"values with decimals of zero", episode(a, b, compute("347.0-58", "289"), end), true, true},
		{"ends at the turn limit, no answer", episode(a, b, minus), true, true},
		{"an observation with a budget line", episode(find("amber falcon", "347\nleft 2"), find("rusty heron", "58\nleft 1"), minus, end), true, true},

		{"only one lookup", episode(a, minus, end), false, false},
		{"the same lookup twice", episode(a, a, minus, end), false, false},
		{"wrong entity", episode(a, find("rusty otter", "58"), minus, end), false, false},
		{"a lookup failed", episode(a, failed(find("rusty heron", "error 58")), minus, end), false, false},
		{"a lookup was refused", episode(a, invalid(b), minus, end), false, false},
		{"an observation without a value", episode(a, find("rusty heron", "none"), minus, end), false, false},
		{"no calculator", episode(a, b, end), false, false},
		{"calculator before the lookups", episode(minus, a, b, end), false, false},
		{"calculator failed", episode(a, b, failed(compute("347 - 58 -", "syntax")), end), false, false},
		{"lucky guess", episode(end), false, false},
		{"no turn at all", episode(), false, false},
		{"another kind of task", other, false, false},
		{"a question that cannot be read", unread, false, false},
		{"a phrasing that is not known", unknown, false, false},

		{"calculator without values", episode(a, b, compute("2 - 1", "1"), end), false, true},
		{"calculator with one value", episode(a, b, compute("347 - 347", "0"), end), false, true},
		{"a digit mis-copied", episode(a, b, compute("347 - 53", "294"), answer("294")), false, true},
		{"a value within a longer number", episode(a, b, compute("3470 - 58", "3412"), end), false, true},
		{"a value within a decimal", episode(a, b, compute("0.347 - 58", "-57.653"), end), false, true},
		{"equal values, once", episode(a, find("rusty heron", "347"), compute("347 - 1", "346"), end), false, true},
		{"equal values, twice", episode(a, find("rusty heron", "347"), compute("347 - 347", "0"), end), true, true},
	} {
		if got := RanChain(c.tr); got != c.ran {
			t.Errorf("%s: RanChain %v, want %v", c.name, got, c.ran)
		}
		if got := CalledChain(c.tr); got != c.called {
			t.Errorf("%s: CalledChain %v, want %v", c.name, got, c.called)
		}
	}
}

func TestColumns(t *testing.T) {
	of := func(kind string, verified bool) trajectory.Trajectory {
		tr := episode(answer("289"))
		tr.Task.Template = kind
		tr.Outcome.Verified = verified
		return tr
	}
	chain := episode(find("amber falcon", "347"), find("rusty heron", "58"), compute("347 - 58", "289"), answer("298"))
	trs := []trajectory.Trajectory{of(Calc, true), of(Calc, false), of(Lookup, true), of(Compose, true), of(Compose, false), of(Compose, false), chain}
	want := map[string]float64{"acc_calc": 0.5, "acc_lookup": 1, "acc_compose": 0.25, "chain_rate": 0.25, "chain_rate_sampled": 0.25}
	var names []string
	for _, c := range Columns() {
		names = append(names, c.Name)
		if got := ratio(trs, c.Ratio); got != want[c.Name] {
			t.Errorf("%s = %v, want %v", c.Name, got, want[c.Name])
		}
		if sampled := c.Name == "chain_rate_sampled"; (c.Decoding == "sampled") != sampled {
			t.Errorf("%s: decoding %q", c.Name, c.Decoding)
		}
	}
	if got, want := fmt.Sprint(names), "[acc_calc acc_lookup acc_compose chain_rate chain_rate_sampled]"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
	if got, want := Mean(trs), (0.5+1+0.25)/3; math.Abs(got-want) > 1e-12 {
		t.Errorf("mean %v, want %v", got, want)
	}
	if !math.IsNaN(ChainRate(nil)) || !math.IsNaN(Mean(trs[:2])) {
		t.Error("a rate without episodes is not NaN")
	}
}
