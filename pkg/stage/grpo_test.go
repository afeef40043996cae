package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

const gambler, gamblerGRPO = "sft_lazy", "sft_lazy+grpo"

// gambling are the settings of reinforcement from a policy that knows how to act and nothing of the answers.
var gambling = []string{"episode.max_turns=3", "episode.max_tokens_per_turn=24", "episode.max_context=96", "engine.contexts=[96]", "engine.slots=16", "engine.rows=[16]",
	"grpo.iterations=4", "grpo.prompts=4", "grpo.k=4", "grpo.resample=1", "grpo.eval_every=1", "grpo.eval_tasks=4", "grpo.heldout_split=test", "grpo.keep_best=true",
	"grpo.update.passes=2", "grpo.update.loss.beta=0.02", "grpo.update.batch={rows: 8, lengths: [96]}", "grpo.update.schedule={kind: constant, peak: 0.002, warmup: 0}"}

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
	cfg := train.SFTConfig{Run: train.RunConfig{Seed: 1, MaxSteps: steps}, Batch: batch, Optimizer: train.AdamW{MaxGradNorm: 1}, Schedule: train.Schedule{Peak: 0.02, Warmup: 5}}
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

// gamble answers 7 or 8 as often, every other time after a needless call.
func gamble(i int) []suite.Call {
	calls := []suite.Call{answer([]string{"7", "8"}[i%2])}
	if i/2%2 > 0 {
		calls = append([]suite.Call{{Tool: chain.CalculatorTool, Args: json.RawMessage(`{"expression": "1+1"}`)}}, calls...)
	}
	return calls
}

// judged is a suite whose answers the test judges.
type judged struct {
	suite.Suite
	right func(task suite.Task, answer string) bool
}

func (j judged) Verify(task suite.Task, answer string, _ []tool.Observation) suite.Verdict {
	right := j.right(task, answer)
	return suite.Verdict{Correct: right, Evidenced: right}
}

// judge lets the test judge the answers of a run's suite.
func judge(t *testing.T, e *Env, right func(task suite.Task, answer string) bool) {
	t.Helper()
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, w := range e.worlds {
		if w == s {
			e.worlds[key] = judged{s, right}
		}
	}
}

func isEight(_ suite.Task, answer string) bool { return answer == "8" }

// reinforceable is a folder with all that reinforcement starts from: data set, tokenizer, the gambler and its profile.
func reinforceable(t *testing.T) (out string) {
	t.Helper()
	out = t.TempDir()
	e, _ := onGo(t, out, gambling...)
	imitator(t, e, gambler, 60, train.BatchConfig{Rows: 4, Lengths: []int{96}}, gamble)
	judge(t, e, isEight)
	if _, err := e.Profile(t.Context(), gambler, 1); err != nil {
		t.Fatal(err)
	}
	return out
}

// again opens a run in a copy of a folder, as another process would.
func again(t *testing.T, folder string, set ...string) (*Env, *strings.Builder) {
	t.Helper()
	out := t.TempDir()
	if err := os.CopyFS(out, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return onGo(t, out, slices.Concat(gambling, set)...)
}

// One small policy is trained and reinforced in all the ways that are looked at.
func TestReinforcement(t *testing.T) {
	start := reinforceable(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, start string)
	}{{"resampling", checkResampling}, {"without variance", checkWithoutVariance}, {"log", checkLog}, {"interrupted", checkInterrupted}, {"start kept", checkStartKept}, {"broken tools", checkBrokenTools}} {
		t.Run(c.name, func(t *testing.T) { c.run(t, start) })
	}
}

// looped opens the loop of a run of reinforcement for its iterations alone.
func looped(t *testing.T, e *Env, seed uint64, right func(task suite.Task, answer string) bool) *grpoLoop {
	t.Helper()
	sub, err := e.with(gamblerGRPO)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sub.load(gambler, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &grpoLoop{env: sub, name: gamblerGRPO, seed: seed, cfg: sub.Config.GRPO, model: m}
	if err := l.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.engine.Close()
		l.done()
		m.Weights.Free()
	})
	l.worlds[0].suite = judged{l.worlds[0].suite, right}
	return l
}

// Groups of equal rewards are drawn again as whole groups, so often as the settings say, and counted; what is trained on are the
// attempts of one draw at one task each, compared with each other alone, and what is told of the policy is of all that it played.
func checkResampling(t *testing.T, start string) {
	const prompts, k, draws = 8, 3, 2
	e, _ := again(t, start, fmt.Sprint("grpo.prompts=", prompts), fmt.Sprint("grpo.k=", k), fmt.Sprint("grpo.resample=", draws))
	// Of the tasks some nobody solves, some everybody, and the others depend on the answer.
	byTemplate := func(task suite.Task, answer string) bool {
		return task.Template == "lookup" || task.Template == "compose" && answer == "8"
	}
	l := looped(t, e, 1, byTemplate)
	batch, metrics, _, err := l.collect(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	line := train.StepLog{Metrics: metrics}

	// The same draws once more, told apart here.
	var groups [][]played
	all := map[string]played{}
	drawn, late, sum, distinct, flatGroups := 0, 0, 0.0, 0.0, 0.0
	for round, n := 0, prompts; n > 0; round++ {
		eps, err := l.play(t.Context(), l.worlds[0].suite, l.draw(1, round, n), l.cfg.Temperature, 1)
		if err != nil {
			t.Fatal(err)
		}
		if n = 0; round > draws {
			t.Fatalf("tasks were drawn again more than %d times", draws)
		}
		for group := range slices.Chunk(eps, k) {
			rewards, texts := map[float64]bool{}, map[string]bool{}
			for _, p := range group {
				all[p.t.EpisodeID] = p
				rewards[p.t.Outcome.Reward.Total], texts[fmt.Sprint(p.tokens.IDs)] = true, true
				sum += p.t.Outcome.Reward.Total
			}
			if len(rewards) == 1 && round < draws {
				n, drawn = n+1, drawn+1
				continue
			}
			groups = append(groups, group)
			distinct += float64(len(texts)) / k / prompts
			if len(rewards) == 1 {
				flatGroups += 1. / prompts
			}
			if round > 0 {
				late++
			}
		}
	}
	if drawn < 2 || late == 0 || late == prompts || flatGroups == 0 {
		t.Fatalf("nothing to see: %d groups drawn again, %d trained on of later draws, %.2f of equal rewards", drawn, late, flatGroups)
	}
	for name, want := range map[string]float64{"resampled_groups": float64(drawn), "reward_mean": sum / float64(len(all)), "distinct_per_group": distinct, "zero_variance_groups": flatGroups} {
		if got, ok := line.Get(name); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	if l.state.Episodes != int64(len(all)) || len(batch) != prompts*k {
		t.Fatalf("%d episodes counted and %d trained on, want %d and %d", l.state.Episodes, len(batch), len(all), prompts*k)
	}
	// With no other tasks to draw, the attempts differ: an episode is never played twice, its sampling would be the same.
	few := *l
	few.worlds = []world{{l.worlds[0].suite, l.worlds[0].tasks[:prompts]}}
	attempts := map[string]bool{}
	for i := range 5 {
		for round := range draws + 1 {
			for _, item := range few.draw(i, round, prompts) {
				if key := fmt.Sprint(item.Task.ID, "/", item.Attempt); attempts[key] {
					t.Errorf("iteration %d, draw %d: %s was drawn before", i, round, key)
				} else {
					attempts[key] = true
				}
			}
		}
	}
	names := map[string]bool{}
	for g, rows := range slices.Collect(slices.Chunk(batch, k)) {
		if names[rows[0].Group] {
			t.Errorf("group %d has the name of another one, %s", g, rows[0].Group)
		}
		names[rows[0].Group] = true
		first := all[rows[0].ID].t
		var rewards []float64
		for _, p := range groups[g] {
			rewards = append(rewards, p.t.Outcome.Reward.Total)
		}
		for a, row := range rows {
			p, ok := all[row.ID]
			if !ok || row.Group != rows[0].Group || p.t.Task.ID != first.Task.ID || p.t.Attempt != first.Attempt+a || first.Attempt%k != 0 {
				t.Errorf("group %d, attempt %d: %s of group %s, task %s attempt %d, in a group of %s from attempt %d on", g, a, row.ID, row.Group, p.t.Task.ID, p.t.Attempt, first.Task.ID, first.Attempt)
			}
			if row.ID != groups[g][a].t.EpisodeID || !slices.Equal(row.IDs, groups[g][a].tokens.IDs) || !slices.Equal(row.LogProbs, groups[g][a].tokens.LogProbs) {
				t.Errorf("group %d, attempt %d: it is not the episode that was played", g, a)
			}
			if want := advantage(rewards, a); math.Abs(row.Advantage-want) > 1e-9 {
				t.Errorf("group %d, attempt %d: advantage %v, want %v of rewards %v", g, a, row.Advantage, want, rewards)
			}
		}
	}

	// One seed draws the same, on any number of slots; another seed something else.
	e.Config.Engine.Slots = 5
	same, sameMetrics, _, err := looped(t, e, 1, byTemplate).collect(t.Context(), 1)
	if err != nil || !reflect.DeepEqual(same, batch) || !reflect.DeepEqual(sameMetrics, metrics) {
		t.Errorf("the same iteration again is another one (%v): %v, want %v", err, sameMetrics, metrics)
	}
	other, _, _, err := looped(t, e, 2, byTemplate).collect(t.Context(), 1)
	if err != nil || len(other) != len(batch) || reflect.DeepEqual(other[0].IDs, batch[0].IDs) && reflect.DeepEqual(other[k].IDs, batch[k].IDs) {
		t.Errorf("another seed plays the same (%v)", err)
	}
}

// advantage is what one of some rewards is above their mean, in standard deviations.
func advantage(rewards []float64, at int) float64 {
	mean, square := 0.0, 0.0
	for _, r := range rewards {
		mean += r / float64(len(rewards))
	}
	for _, r := range rewards {
		square += (r - mean) * (r - mean)
	}
	return (rewards[at] - mean) / (math.Sqrt(square/float64(len(rewards)-1)) + 1e-4)
}

// A batch that teaches nothing is warned of where the process logs.
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
	// Groups that do teach something are not.
	said.Reset()
	e, _ = again(t, start, "grpo.iterations=1", "grpo.eval_every=0", "grpo.k=8", "grpo.prompts=2")
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
		check(v, "distinct_per_group", 1./float64(e.Config.GRPO.K), 1) // a share of the attempts: 1 where all differ
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

// The shares of the tools add up to 1 when a hard budget refuses a call: it was chosen, and is counted or left out on both sides.
func TestToolMixWithRefusedCalls(t *testing.T) {
	e := small(t)
	act := func(tool string) trajectory.Turn { return trajectory.Turn{Action: &trajectory.Action{Tool: tool}} }
	refused := act(chain.CalculatorTool)
	refused.Refused = true
	failed := act(chain.LookupTool)
	failed.ErrorKind, failed.Failed = "call_failed", true
	invalid := act(chain.LookupTool)
	invalid.ErrorKind = "bad_args"
	trs := []trajectory.Trajectory{{Turns: []trajectory.Turn{act(chain.LookupTool), failed, invalid, act("finish")}}, {Turns: []trajectory.Turn{refused}}}
	sum := 0.0
	for _, m := range summarize(trs, e) {
		if strings.HasPrefix(m.Name, "tool_mix_") {
			sum += m.Value
		}
		if want := 0.8; m.Name == "format_valid" && math.Abs(m.Value-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", m.Name, m.Value, want)
		}
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("the shares of the tools add up to %v", sum)
	}
}
