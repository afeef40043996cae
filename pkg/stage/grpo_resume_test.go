package stage

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
)

// How many of four watched answers count as right at iterations 0 to 4. On val, greedy, iteration 2 is the best. The held-out tasks and the
// sampled attempts would choose other iterations. In startIsBest no iteration is better than the start, so the start is kept.
var (
	rightOnVal     = []int{2, 1, 3, 0, 2}
	startIsBest    = []int{4, 1, 3, 0, 2}
	rightOnHeldout = []int{0, 0, 0, 4, 0}
	rightSampled   = []int{0, 0, 0, 0, 4}
)

// planned gives verdicts: train tasks by their answer, watched tasks by the plan above. Before every verdict it calls at with the present
// iteration and split.
func planned(t *testing.T, e *Env, onVal []int, at func(iteration int, split string)) func(task suite.Task, answer string) bool {
	t.Helper()
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]int{}
	for _, split := range []string{"val", "test"} {
		tasks, err := s.Tasks(split)
		if err != nil {
			t.Fatal(err)
		}
		for i, task := range suite.Stratified(tasks, e.Config.GRPO.EvalTasks, e.Config.Seed) {
			place[task.ID] = i
		}
	}
	var mu sync.Mutex
	trained := false
	type spot struct {
		iteration int
		task      string
	}
	looks := map[spot]int{}
	return func(task suite.Task, answer string) bool {
		mu.Lock()
		defer mu.Unlock()
		// A line is written after the evaluations of its iteration.
		b, err := os.ReadFile(e.Run.Path(e.folder(1, gamblerGRPO), "metrics.jsonl"))
		if err != nil {
			t.Error(err)
		}
		iteration := bytes.Count(b, []byte("\n")) + 1
		if task.Split == "train" {
			trained = true
			at(iteration, task.Split)
			return answer == "8"
		}
		if !trained && iteration == 1 {
			iteration = 0
		}
		at(iteration, task.Split)
		right := onVal
		if task.Split != "val" {
			right = rightOnHeldout
		}
		here := spot{iteration, task.ID}
		if looks[here]++; looks[here] > 1 { // the second play is the sampled one
			right = rightSampled
		}
		return place[task.ID] < right[iteration]
	}
}

// A run of reinforcement that was cut off, while it played or while it evaluated on val, ends like one that was not: with the same curve,
// the same history, and the same weights, byte for byte. The weights are those of the iteration that was best on val, played greedily.
func checkInterrupted(t *testing.T, start string) {
	whole, _ := again(t, start)
	judge(t, whole, planned(t, whole, rightOnVal, func(int, string) {}))
	if err := whole.recipe(t.Context(), gamblerGRPO, 1); err != nil {
		t.Fatal(err)
	}
	read := func(e *Env, name string) string {
		t.Helper()
		b, err := os.ReadFile(e.Run.Path(e.folder(1, gamblerGRPO), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const curve, weights = "metrics.jsonl", "model/model.safetensors"

	cut, _ := again(t, start)
	for _, c := range []struct {
		iteration int // at which the run is cut off; 0: not at all
		split     string
		says      string
	}{{1, "train", ""}, {2, "train", "going on after iteration 0"}, {3, "val", "going on after iteration 1"}, {0, "", "going on after iteration 2"}} {
		e, log := onGo(t, cut.Options.Out, gambling...) // another process
		ctx, cancel := context.WithCancel(t.Context())
		judge(t, e, planned(t, e, rightOnVal, func(iteration int, split string) {
			if iteration == c.iteration && split == c.split {
				cancel()
			}
		}))
		err := e.recipe(ctx, gamblerGRPO, 1)
		cancel()
		if c.iteration > 0 && !errors.Is(err, context.Canceled) || c.iteration == 0 && err != nil {
			t.Fatalf("cut off in iteration %d: error %v", c.iteration, err)
		}
		if found := strings.Contains(log.String(), "going on after"); found != (c.says != "") || !strings.Contains(log.String(), c.says) {
			t.Errorf("cut off in iteration %d: the output does not say %q:\n%s", c.iteration, c.says, log)
		}
		if n := strings.Count(read(e, curve), "\n"); c.iteration > 0 && n != c.iteration-1 {
			t.Errorf("cut off in iteration %d: %d lines of metrics", c.iteration, n)
		}
	}
	for _, name := range []string{curve, historyFile} {
		if got, want := read(cut, name), read(whole, name); got != want {
			t.Errorf("cut off, %s is\n%s\nwant\n%s", name, got, want)
		}
	}
	if read(cut, weights) != read(whole, weights) {
		t.Error("cut off, the weights are other ones")
	}
	a, errA := cut.Result(gamblerGRPO, 1)
	b, errB := whole.Result(gamblerGRPO, 1)
	if a.Seconds, a.TotalSeconds = b.Seconds, b.TotalSeconds; errA != nil || errB != nil || !reflect.DeepEqual(a, b) || a.Steps != 4 {
		t.Errorf("cut off, the result is %+v (%v), want %+v (%v)", a, errA, b, errB)
	}
	if n := strings.Count(read(cut, "timing.jsonl"), "\n"); n != 4 {
		t.Errorf("cut off, there are %d lines of times", n)
	}
	checkKept(t, start, whole, read(whole, weights))
}

// The start is a candidate: where no iteration is better on val, the policy is the start, byte for byte, and everything says so.
func checkStartKept(t *testing.T, start string) {
	e, log := again(t, start)
	judge(t, e, planned(t, e, startIsBest, func(int, string) {}))
	if err := e.recipe(t.Context(), gamblerGRPO, 1); err != nil {
		t.Fatal(err)
	}
	parent, errP := e.Result(gambler, 1)
	got, err := e.Result(gamblerGRPO, 1)
	if err != nil || errP != nil || got.Weights != parent.Weights || got.Kept == nil || *got.Kept != 0 || got.Steps != 4 || !(got.TrainedTokens > 0) {
		t.Errorf("result %+v (%v, %v), want iteration 0 kept with the weights %s", got, err, errP, parent.Weights)
	}
	if r, err := e.onVal(gamblerGRPO, 1); err != nil || r != 1 {
		t.Errorf("a recipe that chooses goes by %v (%v), want that of the start, 1", r, err)
	}
	if !strings.Contains(log.String(), "keeping iteration 0, mean reward 1.000 on val, the start") {
		t.Errorf("the output does not say that the start is kept:\n%s", log)
	}
	m, err := e.manifest(nil)
	if err != nil || !slices.ContainsFunc(m.Notes, func(n string) bool { return strings.Contains(n, "no iteration was better on val than the start") }) {
		t.Errorf("the manifest's notes do not say that the start is kept: %q, %v", m.Notes, err)
	}
}

// checkKept: the weights that a run ends with are those of iteration 2, which are those of a run that ends there.
func checkKept(t *testing.T, start string, whole *Env, kept string) {
	rs, err := whole.Reinforcement(gamblerGRPO)
	if err != nil || len(rs) != 1 || len(rs[0].Lines) != 4 {
		t.Fatalf("%+v, %v", rs, err)
	}
	seen := 0
	for _, look := range rs[0].Points {
		want := map[string][]int{"val": rightOnVal, "test": rightOnHeldout}[look.Split]
		if look.Temperature != 0 {
			want = rightSampled
		}
		got, _ := look.Get("reward_mean")
		if sure := look.Temperature == 0 || want[look.Iteration] == 0; sure && got != float64(want[look.Iteration])/4 || !sure && got <= 0.75 {
			t.Errorf("%s at iteration %d, temperature %g: mean reward %v of %d right in 4, or the plan was not played", look.Split, look.Iteration, look.Temperature, got, want[look.Iteration])
		}
		seen++
	}
	if seen != 5*2*2 {
		t.Errorf("%d looks, want those of two splits at two temperatures at the start and after each iteration", seen)
	}
	for _, line := range rs[0].Lines {
		if !(line.Values["grad_norm"]*line.Values["lr"] > 0) {
			t.Errorf("iteration %d changes no weights: which iteration was kept cannot be seen", line.Step)
		}
	}
	e, _ := again(t, start, "grpo.iterations=2", "grpo.keep_best=false")
	judge(t, e, planned(t, e, rightOnVal, func(int, string) {}))
	if err := e.recipe(t.Context(), gamblerGRPO, 1); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(e.Run.Path(e.folder(1, gamblerGRPO), "model/model.safetensors")); err != nil || string(b) != kept {
		t.Errorf("the weights kept are not those of iteration 2, the best on val (%v)", err)
	}
	if got, err := whole.Result(gamblerGRPO, 1); err != nil || got.Kept == nil || *got.Kept != 2 {
		t.Errorf("result %+v (%v), want iteration 2 kept", got, err)
	}
	if r, err := whole.onVal(gamblerGRPO, 1); err != nil || r != 0.75 {
		t.Errorf("a recipe that chooses goes by %v (%v), want 0.75", r, err)
	}
}

// The company suite records what the gate says of the zero-shot policy, which it refuses here, and of the imitated one, which it
// lets through; and every learned policy is evaluated greedily with both budgets, and sampled.
func TestCompanyVerdictsAndRows(t *testing.T) {
	e := smallCompany(t, "profile.tasks=2", "profile.attempts=2", "gate={pass_at_k: 0, mixed: 0, format: 0.5}", "recipes.sft+grpo.override=false", "recipes.sft+grpo.worlds=0", "baselines.methods=[oracle]",
		"train=[base, sft, sft+grpo]", "eval.splits=[test]", "eval.n_tasks=3", "eval.attempts=2", "episode.max_turns=3", "episode.max_tokens_per_turn=12", "episode.max_context=160", "engine.contexts=[160]", "engine.slots=8", "engine.rows=[8]",
		"grpo.iterations=1", "grpo.prompts=2", "grpo.group_size=2", "grpo.resample=0", "grpo.eval_every=0", "grpo.eval_tasks=1", "grpo.update={epochs: 1, loss: {beta: 0}, batch: {micro_batch_size: 4, lengths: [160]}}",
		"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16")
	var err error
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	untuned(t, e, "base", 1)
	imitator(t, e, "sft", 40, train.BatchConfig{MicroBatchSize: 2, Lengths: []int{160}}, func(int) []suite.Call { return []suite.Call{answer("7")} })
	doAll(t, e, (*Env).Profiles)
	for name, goes := range map[string]bool{"base": false, "sft": true} {
		var p Profiled
		if err := run.ReadJSON(e.Run.Path("profile", name+".seed1.json"), &p); err != nil || p.Policy != name || p.Verdict.Go != goes || p.Profile.All.Episodes != 4 || p.Thresholds != e.Config.Gate {
			t.Errorf("%s: %+v of %d episodes, %v; want go %v", name, p.Verdict, p.Profile.All.Episodes, err, goes)
		}
		if said := p.Verdict.String(); !strings.Contains(said, "valid actions") || strings.Contains(said, "no-go") == goes {
			t.Errorf("%s: the verdict says %q", name, said)
		}
	}
	if err := e.recipe(t.Context(), "sft+grpo", 1); err != nil {
		t.Fatal(err)
	}
	dir := e.folder(1, "base")
	asStage(t, e, dir, filepath.Join(dir, "result.json"))
	if err := e.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), "base, seed 1, is not trained with these settings") {
		t.Errorf("a policy that came from elsewhere is evaluated: error %v", err)
	}
	untuned(t, e, "base", 1)
	doAll(t, e, (*Env).Baselines, (*Env).Evaluate, (*Env).Report)
	b, err := os.ReadFile(e.Run.Path("results_table.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]bool{}, map[string]bool{}
	for _, line := range lines[1:] {
		of := map[string]string{}
		for i, name := range lines[0] {
			of[name] = line[i]
		}
		if of["method"] != "oracle" {
			got[fmt.Sprint(of["method"], " ", of["split"], " ", of["budget"], " ", of["decoding"], " n=", of["n_tasks"], " k=", of["k"])] = true
		}
	}
	for _, method := range []string{"zero_shot", "sft", "sft+grpo"} {
		for _, row := range []string{"soft greedy n=3 k=1", "hard greedy n=3 k=1", "soft sampled n=3 k=2", "hard sampled n=3 k=2"} {
			want[method+" test "+row] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	// Without an override, reinforcement from a refused policy ends with the refusal.
	e.Config.Recipes["zero+grpo"] = config.Recipe{From: "base", Method: "zero+grpo", Algorithm: "grpo"}
	if err := e.recipe(t.Context(), "zero+grpo", 1); !errors.Is(err, ErrNoGo) {
		t.Errorf("reinforcement of the refused policy: error %v, want %v", err, ErrNoGo)
	}
}
