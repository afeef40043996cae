package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
)

// tasks is how many the tests play.
const tasks = 24

// played makes a benchmark of a policy on the mini suite.
func played(t *testing.T, dir, method string, of func(tasks []suite.Task) policy.Policy) *Folder {
	t.Helper()
	f, err := Open(dir, Settings{Suite: "mini", Policy: method, Method: method, Split: "train", Budget: "soft", Tasks: tasks, Data: "d", Weights: method}, "rev1", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Play(t.Context(), func(path string) error {
		var s suite.Suite = &mini.Suite{Seed: 1, Count: tasks}
		if method == "cheapest" {
			s = mini.Judged{Suite: s, Right: func(t suite.Task, answer string) bool { return t.Template == "stock" && answer == t.Answer.Values[0] }}
		}
		all, err := s.Tasks("train")
		if err != nil {
			return err
		}
		out, err := rollout.OpenOutput(path, "")
		if err != nil {
			return err
		}
		_, err = rollout.Run(t.Context(), s, of(all), rollout.Attempts(all, 1), rollout.Options{Seed: 1, Slots: 4, Reward: reward.Default(), Method: method, Output: out})
		return errors.Join(err, out.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// cheapest pays what the cheapest path costs, and is held to solve the first of three kinds of tasks alone; all solves each kind, and pays too
// much for two of them.
func cheapest([]suite.Task) policy.Policy     { return scripted.AlwaysCheapest(mini.Rules{}) }
func all([]suite.Task) policy.Policy          { return scripted.AlwaysAllTools(mini.Rules{}) }
func oracle(tasks []suite.Task) policy.Policy { return scripted.Oracle(tasks) }
func options() eval.Options                   { return eval.Options{Resamples: 50, Seed: 1} }
func summarising(j Judge) Summarising {
	return Summarising{Suite: mini.Definition(), Eval: options(), Judge: j}
}
func read(t *testing.T, f *Folder, name string) string {
	t.Helper()
	b, err := os.ReadFile(f.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fake is a judge that says what says says.
type fake struct {
	name  string
	asked atomic.Int32
	says  func(n int, q Question) (Verdict, error)
}

func (j *fake) Ask(ctx context.Context, q Question) (Verdict, error) {
	return j.says(int(j.asked.Add(1)), q)
}
func (j *fake) Identity() any { return j.name }
func (j *fake) Name() string  { return j.name }

func right(_ int, q Question) (Verdict, error) {
	return Verdict{Correct: slices.Equal(q.Gold, []string{q.Answer}), Reason: "compared"}, nil
}

// evaluated evaluates and summarises.
func evaluated(t *testing.T, f *Folder, j Judge, parallel int) *Summary {
	t.Helper()
	if err := f.Evaluate(t.Context(), Evaluation{Judge: j, Parallel: parallel, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	by := summarising(j)
	if j == nil {
		by.NotAsked = "there is no key"
	}
	if err := f.Summarise(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	var s Summary
	if err := run.ReadJSON(f.Path(SummaryJSON), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// The figures of a policy whose behaviour is known, whole and by stratum; all but success are of the suite's columns or of those that any suite has.
func TestFigures(t *testing.T) {
	s := evaluated(t, played(t, t.TempDir(), "all", all), nil, 1)
	// Paths of 1, 2 and 3.5; all three tools, 3.5, are called for each.
	want := map[string]float64{"success_rate": 1, "at_cheapest": 1.0 / 3, "above_cheapest": (3*3.5)/(1+2+3.5) - 1, "below_cheapest": 0, "failed_call_tasks": 0, "calls_per_task": 3,
		"tool_accuracy": (1 + 1 + 3) / 9.0, "guess_rate": 0, "shelf_rate": 1}
	for name, v := range want {
		got := s.Figures[name].Interval().Value
		if math.Abs(got-v) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, v)
		}
	}
	if s.Tasks != tasks || s.Unplayed != 0 {
		t.Errorf("%d tasks, %d unplayed", s.Tasks, s.Unplayed)
	}
	var strata []string
	for _, b := range s.Strata {
		for _, g := range b.Groups {
			strata = append(strata, fmt.Sprintf("%s %s %d %.2f", b.Dimension, g.Name, g.Tasks, g.Figures["above_cheapest"].Interval().Value))
		}
	}
	if got, want := strings.Join(strata, "; "), "template price 8 0.75; template stock 8 2.50; template value 8 0.00; asked price in train 8 0.75; asked stock in train 8 2.50; asked value in train 8 0.00"; got != want {
		t.Errorf("strata %s, want %s", got, want)
	}
}

// Without a judge the summary says why, and its figures are those that it has with one: a judge changes no figure.
func TestAJudgeChangesNoFigure(t *testing.T) {
	f := played(t, t.TempDir(), "cheapest", cheapest)
	without := evaluated(t, f, nil, 1)
	if md := read(t, f, SummaryMD); !strings.Contains(md, "No judge was asked: there is no key.") {
		t.Errorf("the summary does not say that no judge was asked:\n%s", md)
	}
	with := evaluated(t, f, &fake{name: "yes", says: func(int, Question) (Verdict, error) { return Verdict{Correct: true}, nil }}, 3)
	if fmt.Sprint(figuresOf(with)) != fmt.Sprint(figuresOf(without)) || without.Judge.Asked != 0 || with.Judge.Asked == 0 {
		t.Errorf("figures %v, without a judge %v", figuresOf(with), figuresOf(without))
	}
}

func figuresOf(s *Summary) map[string]eval.Interval {
	out := map[string]eval.Interval{}
	for name, f := range s.Figures {
		out[name] = f.Interval()
	}
	return out
}

// Where judge and check differ, the task stands in the summary with its answer, its gold and the judge's reason, and no text of a policy
// or a judge is read as markup. An answer without a verdict is neither right nor wrong.
func TestDisagreementsAndErrors(t *testing.T) {
	f := played(t, t.TempDir(), "all", all)
	j := &fake{name: "odd", says: func(_ int, q Question) (Verdict, error) {
		switch {
		case strings.HasPrefix(q.Question, "price of bolts"):
			return Verdict{Reason: "no | <b>bold</b>\nsecond line"}, nil
		case strings.HasPrefix(q.Question, "stock"):
			return Verdict{Correct: true}, errors.New("the endpoint answers 500")
		}
		return right(0, q)
	}}
	s := evaluated(t, f, j, 2)
	if s.Judge.Asked != tasks || len(s.Judge.Disagreements) != 1 || s.Judge.Verdicts != tasks-8 || s.Judge.Correct != tasks-9 || s.Judge.Agreement != tasks-9 || s.Judge.Errors["the endpoint answers 500"] != 8 {
		t.Errorf("judge %+v", s.Judge)
	}
	d := s.Judge.Disagreements[0]
	md := read(t, f, SummaryMD)
	for _, want := range []string{
		fmt.Sprintf("| %s | %s | %s | right | wrong | no \\| &lt;b&gt;bold&lt;/b&gt; second line |", d.Task, d.Answer, d.Gold[0]),
		"| the endpoint answers 500 | 8 |",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("the summary lacks %q:\n%s", want, md)
		}
	}
	results, err := f.Results(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if (r.Judge.Error != "") != (r.Judge.Correct == nil) || !r.Success {
			t.Errorf("task %s: %+v, judge %+v", r.Task, r, r.Judge)
		}
	}
}

// An evaluation that was interrupted goes on after the last whole line, asks nothing twice, and ends with the file of one that was not. A
// torn last line is cut off.
func TestEvaluationGoesOn(t *testing.T) {
	dir := t.TempDir()
	f := played(t, dir, "all", all)
	evaluated(t, f, &fake{name: "j", says: right}, 1)
	want := read(t, f, ResultsFile)
	if n := strings.Count(want, "\n"); n != tasks {
		t.Fatalf("%d results, want %d", n, tasks)
	}
	for _, parallel := range []int{1, 5} {
		for cut := 0; cut <= len(want); cut += 911 {
			// A folder as a killed process leaves it: begun, and not done.
			g := played(t, filepath.Join(t.TempDir(), "b"), "all", all)
			if err := os.WriteFile(g.Path(StatesFile), []byte(read(t, f, StatesFile)), 0o644); err != nil {
				t.Fatal(err)
			}
			g = replayed(t, g)
			ctx, cancel := context.WithCancel(t.Context())
			begun := &fake{name: "j", says: func(int, Question) (Verdict, error) { cancel(); return Verdict{}, nil }}
			if err := g.Evaluate(ctx, Evaluation{Judge: begun, Parallel: 1, Log: io.Discard}); !errors.Is(err, context.Canceled) {
				t.Fatalf("an interrupted evaluation: error %v", err)
			}
			if err := os.WriteFile(g.Path(ResultsFile), []byte(want[:cut]), 0o644); err != nil {
				t.Fatal(err)
			}
			j := &fake{name: "j", says: right}
			evaluated(t, g, j, parallel)
			if got := read(t, g, ResultsFile); got != want {
				t.Fatalf("cut at byte %d, parallel %d: %d bytes, want %d", cut, parallel, len(got), len(want))
			}
			if left := tasks - strings.Count(want[:cut], "\n"); int(j.asked.Load()) != left {
				t.Errorf("cut at byte %d: %d questions, want %d", cut, j.asked.Load(), left)
			}
		}
	}
}

// replayed records the states of a folder as they are now.
func replayed(t *testing.T, f *Folder) *Folder {
	t.Helper()
	err := f.Renew(t.Context(), playStage, f.Info.Key, func() ([]string, error) { return []string{StatesFile}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Results whose lines are not those of the states are refused, not taken for theirs.
func TestResultsOfOtherStates(t *testing.T) {
	f := played(t, t.TempDir(), "all", all)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := &fake{name: "j", says: func(int, Question) (Verdict, error) { cancel(); return Verdict{}, nil }}
	if err := f.Evaluate(ctx, Evaluation{Judge: stopped, Parallel: 1, Log: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path(ResultsFile), []byte(`{"episode_id": "another"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := f.Evaluate(t.Context(), Evaluation{Judge: &fake{name: "j", says: right}, Parallel: 1, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "results.jsonl:1: episode another does not follow the order") {
		t.Errorf("error %v", err)
	}
}

// What is evaluated is skipped; --again asks once more. Another judge, and none, evaluate anew.
func TestEvaluateAgain(t *testing.T) {
	f := played(t, t.TempDir(), "all", all)
	j := &fake{name: "j", says: func(n int, q Question) (Verdict, error) {
		if n <= 3 {
			return Verdict{}, errors.New("busy")
		}
		return right(n, q)
	}}
	if s := evaluated(t, f, j, 1); s.Judge.Errors["busy"] != 3 {
		t.Errorf("judge %+v", s.Judge)
	}
	evaluated(t, f, j, 1)
	if n := j.asked.Load(); n != tasks {
		t.Errorf("%d questions, want %d: the second evaluation should be skipped", n, tasks)
	}
	if err := f.Evaluate(t.Context(), Evaluation{Judge: j, Parallel: 1, Again: true, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if s := evaluated(t, f, j, 1); len(s.Judge.Errors) != 0 || s.Judge.Verdicts != tasks {
		t.Errorf("asked again: %+v", s.Judge)
	}
	if s := evaluated(t, f, &fake{name: "k", says: right}, 1); s.Judge.Name != "k" || s.Judge.Verdicts != tasks {
		t.Errorf("another judge: %+v", s.Judge)
	}
	if s := evaluated(t, f, nil, 1); s.Judge.Asked != 0 {
		t.Errorf("no judge: %+v", s.Judge)
	}
}

// The comparison of two benchmarks of the same tasks.
func TestAgainst(t *testing.T) {
	baseline, later := played(t, t.TempDir(), "cheapest", cheapest), played(t, t.TempDir(), "all", all)
	best := played(t, t.TempDir(), "oracle", oracle)
	compare := func(f, with *Folder) *Summary {
		t.Helper()
		evaluated(t, f, nil, 1)
		by := summarising(nil)
		by.Against = with
		if err := f.Summarise(t.Context(), by); err != nil {
			t.Fatal(err)
		}
		var s Summary
		if err := run.ReadJSON(f.Path(SummaryJSON), &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	a := compare(later, baseline).Against
	if a.Tasks != tasks || len(a.Gained) != 16 || len(a.Lost) != 0 || a.BothSolved != 8 || a.GapClosed.Value != nil {
		t.Errorf("all against cheapest: %+v", a.Versus)
	}
	for name, c := range map[string][2]float64{"difference of success": {a.Difference["success_rate"].Interval().Value, 2.0 / 3}, "cost there": {a.CostThere.Interval().Value, 1},
		"cost": {a.Cost.Interval().Value, 3.5}, "cheapest": {a.Cheapest.Interval().Value, 1}} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("all against cheapest, %s: %v, want %v", name, c[0], c[1])
		}
	}
	// From 3.5 on all tasks to the mean of 1, 2 and 3.5: the whole gap.
	b := compare(best, later).Against
	if b.BothSolved != tasks || len(b.Gained)+len(b.Lost) != 0 || *b.GapClosed.Value != 1 || *b.CostThere.Value != 3.5 || math.Abs(*b.Cost.Value-6.5/3) > 1e-9 {
		t.Errorf("oracle against all: %+v", b.Versus)
	}
	if md := read(t, best, SummaryMD); !strings.Contains(md, "| share of the gap closed | 1.000 |") || !strings.Contains(md, "## Against all") {
		t.Errorf("the page:\n%s", md)
	}
	for _, of := range b.Strata {
		n := 0
		for _, g := range of.Groups {
			n += g.Tasks
		}
		if n != tasks {
			t.Errorf("%d tasks by %s, want %d", n, of.Dimension, tasks)
		}
	}
	other := *baseline
	other.Info.Settings.Data = "e"
	by := summarising(nil)
	by.Against = &other
	if err := later.Summarise(t.Context(), by); err == nil || !strings.Contains(err.Error(), "was not played on the same tasks: data is d, there it is e") {
		t.Errorf("another data set: error %v", err)
	}
}

// A folder belongs to its settings, and is read only if its states are all there.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	f := played(t, dir, "all", all)
	set := f.Info.Settings
	set.Weights = "others"
	if _, err := Open(dir, set, "", io.Discard); err == nil || !strings.Contains(err.Error(), `settings.weights is "others", there it is "all"`) || !strings.Contains(err.Error(), "--folder") {
		t.Errorf("other weights: error %v", err)
	}
	again, err := Open(dir, f.Info.Settings, "rev2", io.Discard)
	if err != nil || !slices.Equal(again.Info.Revisions, []string{"rev1", "rev2"}) {
		t.Errorf("revisions %v, error %v", again.Info.Revisions, err)
	}
	if _, err := Load(t.TempDir(), io.Discard); err == nil || !strings.Contains(err.Error(), "is no benchmark folder") {
		t.Errorf("an empty folder: error %v", err)
	}
	states := read(t, f, StatesFile)
	first, rest, _ := strings.Cut(states, "\n")
	for want, text := range map[string]string{
		"stands there twice":                   first + "\n" + first + "\n" + rest,
		"it holds 23 tasks, info.json says 24": rest,
		"states.jsonl:1:":                      "{\n" + rest,
	} {
		if err := os.WriteFile(f.Path(StatesFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var changed *run.ChangedError
		if _, err := f.States(); !errors.As(err, &changed) {
			t.Errorf("%s: a changed file: error %v", want, err)
		}
		if _, err := replayed(t, f).States(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	begun, err := Open(t.TempDir(), f.Info.Settings, "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begun.States(); err == nil || !strings.Contains(err.Error(), "go on with --stage run") {
		t.Errorf("nothing played: error %v", err)
	}
}
