package stage

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func TestOpenNamesTheMistake(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Suite: "compny"}, `no suite is named "compny"`},
		{Options{Profile: "quick"}, `no profile is named "quick"`},
		{Options{Set: []string{"models.mine={kind: huge}"}, Model: "mine"}, `models.mine.kind: "huge" is none of tiny`},
		{Options{Model: "gpt"}, `--model "gpt"`},
		{Options{Set: []string{"eval.attemts=3"}}, `did you mean "eval.attempts"`},
		{Options{Set: []string{"train=[stf]"}}, `did you mean "sft"`},
		{Options{Set: []string{"recipes.sft.algorithm=dop"}}, `recipes.sft.algorithm: "dop" is none of dpo, grpo, sft`},
		{Options{Set: []string{"recipes.sft+grpo.max_tools=2"}}, "recipes.sft+grpo.max_tools: it picks demonstrations, which grpo has none of"},
		{Options{Set: []string{"recipes.sft.demos=optimall"}}, `recipes.sft.demos: "optimall" is no kind of demonstrations of this suite; there are optimal, base, wasteful`},
		{Options{Set: []string{"recipes.x={from: sft, method: x}"}}, `recipes.x.demos: "" is no kind`},
		{Options{Set: []string{"recipes.sft+grpo.demos=optimal"}}, "recipes.sft+grpo.demos: grpo has no use for demonstrations"},
		{Options{Set: []string{"recipes.sft+grpo.rows=5"}}, "recipes.sft+grpo.rows: it counts demonstrations, which grpo has none of"},
		{Options{Suite: "chain", Set: []string{"recipes.sft_lazy.worlds=1"}}, "recipes.sft_lazy.worlds: the suite has no further worlds"},
		{Options{Suite: "chain", Set: []string{"recipes.sft_lazy+grpo.worlds=1"}}, "recipes.sft_lazy+grpo.worlds: the suite has no further worlds"},
		{Options{Set: []string{"recipes.sft+grpo.tokens_of=sft"}}, "recipes.sft+grpo.tokens_of"},
		{Options{Set: []string{"recipes.x={choose: [sft], method: x}"}}, `"sft" is no recipe of reinforcement learning`},
		{Options{Set: []string{"recipes.x={choose: [nobody], method: x}"}}, `"nobody" is no recipe of reinforcement learning`},
		{Options{Set: []string{"recipes.sft.with.gate.mixed=2"}}, "recipes.sft.with.gate.mixed is 2"},
		{Options{ConfigFile: "nowhere.yaml"}, "nowhere.yaml"},
	} {
		tc.o.Log = io.Discard
		if _, err := Open(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want it to contain %q", tc.o, err, tc.want)
		}
	}
}

func TestMissingTemp(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone")
	t.Setenv("TMPDIR", missing)
	if _, err := Open(Options{Suite: "chain", Profile: "smoke", Log: io.Discard}); err == nil || !strings.Contains(err.Error(), "TMPDIR") || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want one that names TMPDIR and %s", err, missing)
	}
}

// canonical returns the text of episodes without what depends on the time.
func canonical(t *testing.T, trs []trajectory.Trajectory) string {
	t.Helper()
	var all strings.Builder
	for _, tr := range trs {
		b, err := tr.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// The baselines of a small world: played, skipped the second time, and the same episodes in another folder.
func TestBaselinesAreRepeatable(t *testing.T) {
	table := func(out string) string {
		var log strings.Builder
		o := Options{Suite: "chain", Profile: "smoke", Out: out, Set: []string{"train=[]"}, Log: &log}
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, step := range []func() error{func() error { return e.World(t.Context()) }, func() error { return e.Baselines(t.Context()) }, func() error { return e.Report(t.Context()) }} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		trs, err := e.Episodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range trs {
			if !tr.Outcome.Verified {
				t.Errorf("the oracle failed %s", tr.Task.ID)
			}
		}
		if len(trs) == 0 {
			t.Fatal("no episodes")
		}
		return canonical(t, trs) + "|" + fmt.Sprint(strings.Count(log.String(), "skipped"))
	}
	out := t.TempDir()
	first, again, elsewhere := table(out), table(out), table(t.TempDir())
	if cut := func(s string) string { return s[:strings.LastIndex(s, "|")] }; cut(first) != cut(again) || cut(first) != cut(elsewhere) {
		t.Error("the same settings gave other episodes")
	}
	if !strings.HasSuffix(first, "|0") || !strings.HasSuffix(again, "|2") {
		t.Errorf("skipped %s stages at first and %s the second time, want 0 and 2", first[strings.LastIndex(first, "|"):], again[strings.LastIndex(again, "|"):])
	}
}

// Episodes that a run with other settings left in the folder are in no table: those of a method, a seed, a split or a budget mode that
// these settings do not ask for.
func TestEpisodesOfOtherSettings(t *testing.T) {
	out := t.TempDir()
	count := func(set ...string) (int, string) {
		t.Helper()
		var log strings.Builder
		e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: out, Set: append([]string{"train=[]"}, set...), Log: &log})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		doAll(t, e, (*Env).World, (*Env).Baselines, (*Env).Report)
		trs, err := e.Episodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(trs), log.String()
	}
	first, log := count()
	if strings.Contains(log, "left out") {
		t.Errorf("nothing else is there:\n%s", log)
	}
	both, _ := count("baselines.budget_modes=[none, soft]")
	again, log := count()
	if again != first || both <= first || !strings.Contains(log, "files of episodes of other settings are left out, such as ") {
		t.Errorf("%d episodes, with others in the folder %d, those asked for the others %d:\n%s", first, again, both, log)
	}
	// Files of the same names, played on other tasks or by other rules, are no rows of a report with these settings.
	for _, set := range []string{"eval.n_tasks=5", "episode.max_turns=3", "reward.correct=0.6"} {
		var said strings.Builder
		e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: out, Set: []string{"train=[]", set}, Log: &said})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "no episode was played") || !strings.Contains(said.String(), "of other settings are left out") {
			t.Errorf("%s, a report of the others' episodes: error %v\n%s", set, err, &said)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// small opens a run of the chain suite with few tasks.
func small(t *testing.T, set ...string) *Env {
	t.Helper()
	return opened(t, "chain", append([]string{"eval.n_tasks=0", "eval.resamples=50"}, set...))
}

// opened is a smoke run of a suite, in a folder of its own, that the test's end closes.
func opened(t *testing.T, suite string, set []string) *Env {
	t.Helper()
	e, err := Open(Options{Suite: suite, Profile: "smoke", Out: t.TempDir(), Log: io.Discard, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// A running training hands out its metrics. At its last step these are the metrics of all steps before.
func TestTrainingShowsItsCurve(t *testing.T) {
	e, _ := onGo(t, t.TempDir(), "train=[sft_lazy]", "recipes.sft_lazy.with.sft.run.max_steps=4")
	var last report.TrainingRun
	e.Options.Curve = func(r report.TrainingRun) { last = r }
	if err := e.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(last.Records); last.Name != "sft_lazy" || n == 0 || last.Records[n-1].Step != 3 || last.Records[n-1].Values["loss"] == 0 {
		t.Errorf("%d records of %q", n, last.Name)
	}
}
