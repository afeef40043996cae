package stage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/study"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Every comparison of a step of training states the later policy against the one that it started from: the table of comparisons, the
// ablations, the loopholes and the sentences. If the later policy solves more it is a gain, and if it solves less a loss.
func TestTheLaterPolicyIsStatedAgainstItsBaseline(t *testing.T) {
	e := studied(t)
	if got, want := fmt.Sprint(e.TrainingSteps()), "[b against a c against a]"; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
	if p := e.parentOf("b"); p != "a" || e.parentOf("c") != "a" || e.parentOf("oracle") != "" {
		t.Errorf("b starts from %q", p)
	}
	if p := e.changed("c"); p.String() != "c against b" {
		t.Errorf("the ablation is %s", p)
	}
	for _, tc := range []struct {
		solvedA, solvedB int
		sign, verdict    string
	}{{10, 26, "+0.400 (+0.", "a gain"}, {26, 10, "-0.400 (-0.", "a loss"}, {26, 26, "0.000 (-0.", "no difference shown"}} {
		var trs []trajectory.Trajectory
		for i := range 40 {
			task := fmt.Sprint("t", i)
			trs = append(trs, episodeOf("a", "test", "greedy", task, 0, i < tc.solvedA, 3, "sql_query", "doc_search"), episodeOf("b", "test", "greedy", task, 0, i < tc.solvedB, 3, "sql_query", "doc_search"))
		}
		c, err := eval.Collect(trs, nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := eval.ComparePairs(c, e.TrainingSteps(), e.EvalOptions(), nil)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d comparisons, %v", len(all), err)
		}
		if got := all[0].Sentence(); !strings.HasPrefix(got, "b against a on test, soft budget: "+tc.sign) || !strings.Contains(got, "in success, "+tc.verdict) {
			t.Errorf("a solves %d and b %d: %s", tc.solvedA, tc.solvedB, got)
		}
		files, err := report.Files(report.Input{Collected: c, Options: e.EvalOptions(), Compare: e.TrainingSteps()})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(files["comparisons.md"]), "\n")
		if !slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "| b | a | test, soft budget, greedy | 40 | "+tc.sign) && strings.Contains(l, "| "+tc.verdict+" |")
		}) {
			t.Errorf("comparisons.md does not say %s, %s:\n%s", tc.sign, tc.verdict, files["comparisons.md"])
		}
		rows, err := study.Ablations(c, e.changes(), e.scope())
		if err != nil {
			t.Fatal(err)
		}
		if md := string(study.AblationsMarkdown(rows, 1)); !strings.Contains(md, tc.sign) || !strings.Contains(md, "| b | more | a |") {
			t.Errorf("ablations.md does not say %s:\n%s", tc.sign, md)
		}
	}
}

// A policy that is trained as long as another one is compared with that one. A chosen policy is compared with those that its candidates
// started from.
func TestPairsOfRecipes(t *testing.T) {
	e := smallCompany(t, "recipes.long={from: sft, method: long, demos: optimal, tokens_of: sft+grpo, ablation: 'longer', against: sft+grpo}", "recipes.best={choose: [sft+grpo], method: best}",
		"train=[base, sft, sft+grpo, long, best]")
	want := "[sft against zero_shot sft+grpo against sft long against sft long against sft+grpo best against sft]"
	if got := fmt.Sprint(e.TrainingSteps()); got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
	if got := e.changed("long").String(); got != "long against sft+grpo" {
		t.Errorf("the ablation is %s, other than the step", got)
	}
}
