package stage

import (
	"slices"
	"strings"
	"testing"
)

// A method plays a split if its rules know the names that tasks give to tools there; the oracle, which has no rules, plays all.
func TestScriptedFilesAskTheRules(t *testing.T) {
	e := smallCompany(t, "suite.masked_tasks=4", "baselines.methods=[always_cheapest, rule_parser, oracle]")
	played := map[string][]string{}
	for _, p := range e.scriptedFiles() {
		if !slices.Contains(played[p.method], p.split) {
			played[p.method] = append(played[p.method], p.split)
		}
	}
	for method, want := range map[string]bool{"always_cheapest": false, "rule_parser": false, Oracle: true} {
		if got := slices.Contains(played[method], "test_masked"); got != want {
			t.Errorf("%s plays test_masked: %v, want %v", method, got, want)
		}
		if !slices.Contains(played[method], "test") {
			t.Errorf("%s does not play test", method)
		}
	}
	if !e.knowsTools("always_cheapest", []string{"sql_query"}) {
		t.Error("the rules know no tool of their own suite")
	}
}

// The error for a method without rules in this suite, or for an unknown method, lists the methods that exist.
func TestScriptedMistakes(t *testing.T) {
	e := smallCompany(t)
	if _, err := e.scripted(t.Context(), "first_tool", "test"); err == nil || !strings.Contains(err.Error(), `no policy is named "first_tool"; there are always_cheapest, `) {
		t.Errorf("an unknown method: %v", err)
	}
	e.Definition.Parser = nil
	if _, err := e.scripted(t.Context(), RuleParser, "test"); err == nil || !strings.Contains(err.Error(), `no rules for "rule_parser"; it has those for always_cheapest, always_all_tools, static_threshold, random_tool, oracle`) {
		t.Errorf("a suite without a parser: %v", err)
	}
}
