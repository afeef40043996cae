package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func ExampleDiagnose() {
	t := newEpisode("sft", "crate-7", "doc_search", "4281", "web_search", "doc_search")
	for _, f := range Diagnose(&t) {
		fmt.Println(f.Text)
	}
	// Output:
	// answer copied wrong: gold 4821, answered 4281 although turn 2 showed the gold value
	// wasted 1 web_search (5) before the right tool, doc_search
	// budget passed by 4
}

func TestDiagnose(t *testing.T) {
	cut := func(end trajectory.EndReason) func(*trajectory.Trajectory) {
		return func(tr *trajectory.Trajectory) {
			tr.Turns = tr.Turns[:len(tr.Turns)-1] // no finish
			tr.End, tr.Outcome.Verified, tr.Outcome.Correct, tr.Outcome.Answer = end, false, false, ""
		}
	}
	for name, c := range map[string]struct {
		t      trajectory.Trajectory
		change func(*trajectory.Trajectory)
		want   string
	}{
		"optimal": {newEpisode("m", "x", "sql_query+calculator", "4821", "sql_query", "calculator"), nil,
			"solved at the optimal cost 1.5 with the gold combination sql_query+calculator"},
		"dearer": {newEpisode("m", "x", "sql_query", "4821", "sql_query", "sql_query"), nil,
			"solved for 2, 1 above the optimal cost, with the gold combination sql_query; wasted 1 sql_query (1); budget passed by 0.5"},
		"another way": {newEpisode("m", "x", "doc_search", "4821", "doc_search"), func(tr *trajectory.Trajectory) {
			tr.Turns[0].Action.Tool, tr.Turns[0].Price, tr.Outcome.Spend = "sql_query", price.Of(1), price.Of(1)
		}, "solved for 1, 1 below the optimal cost, with sql_query instead of doc_search; wasted 1 sql_query (1)"},
		"guess": {newEpisode("m", "x", "sql_query", "4821"), nil,
			"guess: right without evidence, the value it rests on was seen in no observation; never called sql_query, which holds the gold value"},
		"never called one of two": {newEpisode("m", "x", "sql_query+doc_search", "17", "sql_query"), nil,
			"answered 17 although turn 1 showed the gold value 4821; never called doc_search, which the gold path needs"},
		"made up": {newEpisode("m", "x", "sql_query", "17", "web_search"), nil,
			"answered 17, which no observation showed; gold 4821 was not seen either; never called sql_query, which holds the gold value; wasted 1 web_search (5); budget passed by 3.5"},
		"wrong passage": {newEpisode("m", "x", "sql_query", "93", "sql_query"), func(tr *trajectory.Trajectory) { tr.Turns[0].Observation = "units | 93, 48211\nleft 4821" },
			"answered 93, which turn 1 showed; the gold value 4821 was seen in no observation"},
		"comparison":                     {verdict("no", true), nil, "the comparison was wrong: the values were seen (48, 31), the verdict is yes and was given as no"},
		"verdict without evidence":       {verdict("no", false), nil, "the verdict no is wrong, and given without the values that it rests on: gold yes"},
		"right verdict without evidence": {verdict("yes", false), nil, "guess: right without evidence, the value it rests on was seen in no observation"},
		"no verdict":                     {verdict("48", true), nil, "answered 48 where yes or no is asked; gold yes"},
		"no answer":                      {newEpisode("m", "x", "sql_query", " ", "sql_query"), nil, "finished without an answer; gold 4821"},
		"failed call": {newEpisode("m", "x", "sql_query", "4821", "sql_query!", "sql_query"), nil,
			"solved for 2, 1 above the optimal cost, with the gold combination sql_query; 1 failed call (sql_query), paid with 1; budget passed by 0.5"},
		"invalid": {newEpisode("m", "x", "sql_query", "4821", "?", "?", "sql_query"), nil,
			"solved at the optimal cost 1 with the gold combination sql_query; 2 invalid actions (no_block 2)"},
		"hard budget": {newEpisode("m", "x", "sql_query", "", "sql_query", "web_search-"), nil,
			"budget passed by 4.5: web_search costs 5 and 0.5 was left of 1.5"},
		"tokens":  {newEpisode("m", "x", "sql_query", "4821", "sql_query", "?"), cut(trajectory.Tokens), "cut at the token limit of turn 2; 1 invalid action (no_block 1)"},
		"context": {newEpisode("m", "x", "sql_query", "4821", "sql_query"), cut(trajectory.Context), "cut at the context limit in turn 1"},
		"turns":   {newEpisode("m", "x", "sql_query", "4821", "sql_query", "sql_query"), cut(trajectory.Turns), "no answer within 2 turns; wasted 1 sql_query (1); budget passed by 0.5"},
		"error": {newEpisode("m", "x", "sql_query", "4821", "sql_query"), func(tr *trajectory.Trajectory) {
			cut(trajectory.Error)(tr)
			tr.Cause = "tool never came back"
		}, "could not be played on: tool never came back"},
	} {
		if c.change != nil {
			c.change(&c.t)
		}
		var got []string
		for _, f := range Diagnose(&c.t) {
			got = append(got, f.Text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, strings.Join(got, "; "), c.want)
		}
	}
}

// verdict is an episode of a yes/no task whose gold is yes.
func verdict(answer string, evidenced bool) trajectory.Trajectory {
	t := newEpisode("m", "x", "sql_query", answer, "sql_query")
	t.Task.Gold, t.Task.AnswerType = []string{"yes"}, "yesno"
	t.Task.Evidence = []source.Evidence{{Value: "48"}, {Value: "31"}}
	t.Turns[0].Observation = "48 | 31"
	right := answer == "yes"
	t.Outcome.Correct, t.Outcome.Evidenced, t.Outcome.Verified = right, evidenced, right && evidenced
	return t
}

// An empty record, as a crash may leave one, must give a diagnosis and not a panic.
func TestDiagnoseNothing(t *testing.T) {
	for _, end := range []trajectory.EndReason{"", trajectory.Finished, trajectory.Budget, trajectory.Tokens} {
		if got := Diagnose(&trajectory.Trajectory{End: end}); len(got) == 0 {
			t.Errorf("end %q: no finding", end)
		}
	}
}

func TestNearMiss(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"4281", "4821", true}, {"48210", "4821", true}, {"17", "4821", false}, {"12", "13", true}, {"12", "31", false}, {"21", "12", true}, {"Ångström", "angstrom", true}, {"", "4821", false}} {
		if got := nearMiss(c.a, c.b); got != c.want {
			t.Errorf("nearMiss(%q, %q) = %t", c.a, c.b, got)
		}
	}
}

func TestContainsWord(t *testing.T) {
	for _, c := range []struct {
		s, word string
		want    bool
	}{{"units 4821.", "4821", true}, {"48211", "4821", false}, {"14821 and 4821", "4821", true}, {"yesterday", "yes", false}, {"yes, it is", "yes", true}, {"4821kg", "4821", true}, {"", "x", false}} {
		if got := containsWord(c.s, c.word); got != c.want {
			t.Errorf("containsWord(%q, %q) = %t", c.s, c.word, got)
		}
	}
}
