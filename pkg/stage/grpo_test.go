package stage

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/train"
)

const gambler, gamblerGRPO = "sft_lazy", "sft_lazy+grpo"

// gambling are the settings of reinforcement from a policy that acts in the right format but does not know the answers.
var gambling = []string{"episode.max_turns=3", "episode.max_tokens_per_turn=24", "episode.max_context=96", "engine.contexts=[96]", "engine.slots=16", "engine.rows=[16]",
	"grpo.iterations=4", "grpo.prompts=4", "grpo.group_size=4", "grpo.resample=1", "grpo.eval_every=1", "grpo.eval_tasks=4", "grpo.heldout_split=test", "grpo.keep_best=true",
	"grpo.update.epochs=2", "grpo.update.loss.beta=0.02", "grpo.update.batch={micro_batch_size: 8, lengths: [96]}", "grpo.update.schedule={kind: constant, learning_rate: 0.002, warmup_steps: 0}"}

// imitator trains a small model on what calls names for the first train tasks, as the result of a recipe.
func imitator(t *testing.T, e *Env, recipe string, steps int, batch train.BatchConfig, calls func(i int) []suite.Call) {
	t.Helper()
	c, m := random(t, e)
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	var demos []suite.Demonstration
	for i, task := range tasks[:min(96, len(tasks))] {
		demos = append(demos, suite.Demonstration{Task: task, Calls: calls(i)})
	}
	played, err := tiny.Play(t.Context(), s, demos, e.Config.Episode)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := tiny.Examples(c, played)
	if err != nil {
		t.Fatal(err)
	}
	cfg := train.SFTConfig{Run: train.RunConfig{Seed: 1, MaxSteps: steps}, Batch: batch, Optimizer: train.AdamW{MaxGradNorm: 1}, Schedule: train.Schedule{LearningRate: 0.02, WarmupSteps: 5}}
	if _, err := train.SFT(t.Context(), m, train.Fixed(examples), nil, cfg); err != nil {
		t.Fatal(err)
	}
	handmade(t, e, recipe, 1, func(dir string) ([]string, error) {
		return e.finish(dir, m, Trained{Recipe: recipe, Seed: 1}, Trained{})
	})
}

func answer(s string) suite.Call {
	return suite.Call{Tool: "finish", Args: json.RawMessage(`{"answer": "` + s + `"}`)}
}

// gamble answers 7 and 8 equally often, every other time after a needless call.
func gamble(i int) []suite.Call {
	calls := []suite.Call{answer([]string{"7", "8"}[i%2])}
	if i/2%2 > 0 {
		calls = append([]suite.Call{{Tool: chain.CalculatorTool, Args: json.RawMessage(`{"expression": "1+1"}`)}}, calls...)
	}
	return calls
}

// judge replaces the verdicts of a run's suite by those of right.
func judge(t *testing.T, e *Env, right func(task suite.Task, answer string) bool) {
	t.Helper()
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, w := range e.worlds {
		if w == s {
			e.worlds[key] = mini.Judged{Suite: s, Right: right}
		}
	}
}

func isEight(_ suite.Task, answer string) bool { return answer == "8" }

// reinforceable is a folder with all that reinforcement starts from: data set, tokenizer, the gambler and its profile.
func reinforceable(t *testing.T) (out string) {
	t.Helper()
	out = t.TempDir()
	e, _ := onGo(t, out, gambling...)
	imitator(t, e, gambler, 60, train.BatchConfig{MicroBatchSize: 4, Lengths: []int{96}}, gamble)
	judge(t, e, isEight)
	if _, err := e.Profile(t.Context(), gambler, 1); err != nil {
		t.Fatal(err)
	}
	return out
}

// again opens a run in a copy of a folder, like another process.
func again(t *testing.T, folder string, set ...string) (*Env, *strings.Builder) {
	t.Helper()
	out := t.TempDir()
	if err := os.CopyFS(out, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return onGo(t, out, slices.Concat(gambling, set)...)
}

// One small policy is trained. The parts of the test reinforce it in different ways.
func TestReinforcement(t *testing.T) {
	start := reinforceable(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, start string)
	}{{"without variance", checkWithoutVariance}, {"log", checkLog}, {"interrupted", checkInterrupted}, {"start kept", checkStartKept}} {
		t.Run(c.name, func(t *testing.T) { c.run(t, start) })
	}
}

// A batch without any gradient gives a warning in the process's log, which notebooks keep.
func checkWithoutVariance(t *testing.T, start string) {
	var said bytes.Buffer
	old, w, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	t.Cleanup(func() {
		slog.SetDefault(old)
		log.SetOutput(w)
		log.SetFlags(flags)
	})
	e, _ := again(t, start, "grpo.iterations=2", "grpo.eval_every=0")
	judge(t, e, func(suite.Task, string) bool { return false })
	if err := e.recipe(t.Context(), gamblerGRPO, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"level=WARN", "100% of the groups have equal rewards and teach nothing", "the tasks are too hard or too easy for the policy", "update=1", "update=2"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, said.String())
		}
	}
	lines, err := e.metrics(gamblerGRPO, 1)
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines of metrics, %v", len(lines), err)
	}
	for _, line := range lines {
		if line.Values["zero_variance_groups"] != 1 || line.Values["zero_variance_share"] != 1 || line.Values["reward_std"] != 0 || line.Values["resampled_groups"] != 4 {
			t.Errorf("iteration %d: %v", line.Step, line.Values)
		}
	}
	// Groups with a gradient give no warning.
	said.Reset()
	e, _ = again(t, start, "grpo.iterations=1", "grpo.eval_every=0", "grpo.group_size=8", "grpo.prompts=2")
	judge(t, e, isEight)
	if err := e.recipe(t.Context(), gamblerGRPO, 1); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(said.String(), "equal rewards") {
		t.Errorf("warned of groups that differ:\n%s", said.String())
	}
}

// Every iteration logs what is needed to see how training goes, and no figure is out of its range.
func checkLog(t *testing.T, start string) {
	e, _ := again(t, start, "reward.call=0.125")
	judge(t, e, isEight)
	if err := e.recipe(t.Context(), gamblerGRPO, 1); err != nil {
		t.Fatal(err)
	}
	lines, err := e.metrics(gamblerGRPO, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.Run.Path(e.folder(1, gamblerGRPO), "timing.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	times, err := report.ReadMetrics(b)
	if err != nil || len(lines) != e.Config.GRPO.Iterations || len(times) != len(lines) {
		t.Fatalf("%d lines of metrics and %d of times, want %d (%v)", len(lines), len(times), e.Config.GRPO.Iterations, err)
	}
	const inf = 1e9
	learned := false
	for i, line := range lines {
		v := line.Values
		check := func(v map[string]float64, name string, low, high float64) {
			t.Helper()
			if x, ok := v[name]; !ok || !(x >= low && x <= high) {
				t.Errorf("iteration %d: %s is %v (%v), want it from %g to %g", i+1, name, x, ok, low, high)
			}
		}
		if line.Step != i+1 || times[i].Step != i+1 {
			t.Errorf("line %d is of iteration %d, its times of %d", i+1, line.Step, times[i].Step)
		}
		for _, name := range []string{"success", "format_valid", "truncated", "truncated_share", "zero_variance_groups", "zero_variance_share", "clip_low", "clip_high"} {
			check(v, name, 0, 1)
		}
		check(v, "reward_mean", -0.25, 1) // at most two calls before the last turn
		check(v, "reward_std", 1e-3, 1)
		check(v, "spend", 0, inf)
		check(v, "distinct_per_group", 1./float64(e.Config.GRPO.GroupSize), 1) // a share of the attempts: 1 where all differ
		check(v, "resampled_groups", 0, float64(e.Config.GRPO.Prompts*e.Config.GRPO.Resample))
		check(v, "entropy", 1e-6, math.Log(400))
		check(v, "kl", 0, inf)
		check(v, "ratio_max", 1, inf)
		check(v, "grad_norm", 1e-6, inf)
		check(v, "lr", 0.002, 0.002)
		check(v, "sampler_gap", 0, 1e-4)
		check(v, "sampler_gap_max", v["sampler_gap"], 1e-2)
		check(v, "trained_tokens", 1, inf)
		check(v, "processed_tokens", v["trained_tokens"]+1, inf)
		if math.Abs(v["zero_variance_groups"]-v["zero_variance_share"]) > 1e-9 {
			t.Errorf("iteration %d: %v of the groups have equal rewards when they are collected, %v when they are trained on", i+1, v["zero_variance_groups"], v["zero_variance_share"])
		}
		if i > 0 {
			check(v, "kl", 1e-12, inf)
			check(v, "trained_tokens", lines[i-1].Values["trained_tokens"]+1, inf)
		}
		if i == len(lines)-1 && v["success"] > lines[0].Values["success"] {
			learned = true
		}
		for _, look := range []string{"", "val_", "val_sampled_", "heldout_", "heldout_sampled_"} {
			check(v, look+"success", 0, 1)
			mix, tools := 0.0, 0
			for name, share := range v {
				if strings.HasPrefix(name, look+"tool_mix_") {
					check(v, name, 0, 1)
					mix, tools = mix+share, tools+1
				}
			}
			if tools == 0 || math.Abs(mix-1) > 1e-9 {
				t.Errorf("iteration %d: the shares of %d tools in %stool_mix add up to %v", i+1, tools, look, mix)
			}
		}
		check(v, "tool_mix_finish", 1e-3, 1)
		for name := range v {
			if tool, ok := strings.CutPrefix(name, "tool_mix_"); ok {
				check(times[i].Values, "tool_seconds_"+tool, 0, 10)
			}
		}
		for _, name := range []string{"rollout_seconds", "update_seconds", "total_seconds", "generate_tokens_per_second", "train_tokens_per_second"} {
			check(times[i].Values, name, 1e-6, inf)
		}
		for name := range times[i].Values { // what changes from run to run has no place among what must repeat
			if _, both := v[name]; both {
				t.Errorf("iteration %d: %s stands in metrics.jsonl too", i+1, name)
			}
		}
	}
	if !learned {
		t.Errorf("success went from %v to %v: the policy learned nothing", lines[0].Values["success"], lines[len(lines)-1].Values["success"])
	}
	if _, called := lines[0].Values["tool_mix_"+chain.CalculatorTool]; !called {
		t.Error("no tool but finish was called: the shares show nothing")
	}
	if events, err := fs.Glob(os.DirFS(e.Run.Path(e.folder(1, gamblerGRPO))), "events.out.tfevents.*"); err != nil || len(events) != 1 {
		t.Errorf("event files %v, %v", events, err)
	}
}
