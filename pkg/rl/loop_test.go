package rl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy"
	lmpolicy "github.com/toolroute/toolroute/pkg/policy/lm"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tokenizer"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// fewTasks are so few that a test draws all of them.
var fewTasks = chain.Counts{Calc: 32, Lookup: 32, Compose: 32}

// gambler is the setup of a small policy that knows how to act but no answers. It imitated demonstrations that answer 7 or 8 equally often,
// half of them after a needless call.
func gambler(t *testing.T) Setup {
	t.Helper()
	s, err := chain.Generate(chain.Config{Seed: 1, Train: fewTasks, Val: chain.Counts{Calc: 4, Lookup: 4, Compose: 4}, Test: chain.Counts{Calc: 4, Lookup: 4, Compose: 4},
		ValEntities: 150, TestEntities: 540, MinDigits: 2, MaxDigits: 2, MaxAnswerDigits: 4, Ops: []string{"difference", "sum", "product"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := lm.OpenBackend("go")
	if err != nil {
		t.Fatal(err)
	}
	rules := episode.Config{MaxTurns: 3, MaxTokensPerTurn: 24, MaxContext: 96, Budget: episode.None}
	c := codec(t, s, rules)
	m, err := lm.NewRandom(b, tiny.Preset{Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 16, RopeTheta: 10000, MaxPositions: 512}.Config(c.Tokenizer().VocabSize(), c.Stops()[0]), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Weights.Free)
	tasks, err := s.Tasks(chain.Train)
	if err != nil {
		t.Fatal(err)
	}
	imitate(t, m, c, s, rules, tasks)
	return Setup{
		Name: "gambler+grpo", Seed: 1, Worlds: []World{{s, tasks}}, Evaluation: s, Model: m,
		Config: Config{Iterations: 4, Prompts: 4, GroupSize: 4, Temperature: 1, Resample: 1, Scale: "group", Update: train.GRPOConfig{Batch: train.BatchConfig{MicroBatchSize: 8, Lengths: []int{96}}}},
		Engine: lm.EngineOptions{Slots: 16, MaxContext: 96, Contexts: []int{96}, PrefillTokens: []int{64}, Rows: []int{16}, DecodeTokens: 8},
		Sampler: func(e *lm.Engine, temperature float64) policy.Policy {
			return &lmpolicy.Policy{Method: "gambler", ModelID: "tiny", Engine: e, Codec: c, Sampling: lm.Sampling{Temperature: temperature}, MaxTokens: rules.MaxTokensPerTurn}
		},
		Episode: rules, Reward: reward.VerifierOnly(), Slots: 16, MaxErrors: 0.05, Dir: t.TempDir(), Log: io.Discard,
	}
}

// codec makes a codec with the vocabulary of the suite's clean demonstrations.
func codec(t *testing.T, s *chain.Suite, rules episode.Config) *chat.Codec {
	t.Helper()
	demos, err := s.Demonstrations(t.Context(), chain.Clean, 1)
	if err != nil {
		t.Fatal(err)
	}
	rules.MaxTurns = 6
	played, err := tiny.Play(t.Context(), s, demos, rules)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.TrainTiny(tiny.Texts(played), tokenizer.TinyOptions{MaxVocab: 4000, MinTexts: 5, Atoms: tiny.Atoms})
	if err != nil {
		t.Fatal(err)
	}
	c, err := chat.NewTinyCodec(tok)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// imitate trains the model on the gambler's demonstrations.
func imitate(t *testing.T, m *lm.Model, c *chat.Codec, s suite.Suite, rules episode.Config, tasks []suite.Task) {
	t.Helper()
	var demos []suite.Demonstration
	for i, task := range tasks {
		calls := []suite.Call{{Tool: "finish", Args: json.RawMessage([]string{`{"answer": "7"}`, `{"answer": "8"}`}[i%2])}}
		if i/2%2 > 0 {
			calls = append([]suite.Call{{Tool: chain.CalculatorTool, Args: json.RawMessage(`{"expression": "1+1"}`)}}, calls...)
		}
		demos = append(demos, suite.Demonstration{Task: task, Calls: calls})
	}
	played, err := tiny.Play(t.Context(), s, demos, rules)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := tiny.Examples(c, played)
	if err != nil {
		t.Fatal(err)
	}
	cfg := train.SFTConfig{Run: train.RunConfig{Seed: 1, MaxSteps: 60}, Batch: train.BatchConfig{MicroBatchSize: 4, Lengths: []int{96}}, Optimizer: train.AdamW{MaxGradNorm: 1}, Schedule: train.Schedule{LearningRate: 0.02, WarmupSteps: 5}}
	if _, err := train.SFT(t.Context(), m, train.Fixed(examples), nil, cfg); err != nil {
		t.Fatal(err)
	}
}

// opened opens a loop in which the test decides which answers are right.
func opened(t *testing.T, s Setup, right func(task suite.Task, answer string) bool) *Loop {
	t.Helper()
	for i := range s.Worlds {
		s.Worlds[i].Suite = mini.Judged{Suite: s.Worlds[i].Suite, Right: right}
	}
	l, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func isEight(_ suite.Task, answer string) bool { return answer == "8" }

// Worlds take turns, and every task of a world is drawn once before any of them is drawn again.
func TestWorldsTakeTurns(t *testing.T) {
	world := func(name string) World {
		var w World
		for i := range 60 {
			w.Tasks = append(w.Tasks, suite.Task{ID: fmt.Sprint(name, "-", i)})
		}
		return w
	}
	l := Loop{Setup: Setup{Seed: 1, Worlds: []World{world("a"), world("b")}, Config: Config{Prompts: 30, GroupSize: 2}}}
	seen := map[string]int{}
	for i := range 4 {
		items := l.Draw(i, 0, 30)
		if len(items) != 60 {
			t.Fatalf("iteration %d plays %d episodes, want 30 tasks twice", i, len(items))
		}
		for _, item := range items {
			if want := []string{"a-", "b-"}[i%2]; !strings.HasPrefix(item.Task.ID, want) {
				t.Errorf("iteration %d plays %s, want one of world %s", i, item.Task.ID, want)
			}
			seen[item.Task.ID]++
		}
	}
	for id, n := range seen {
		if n != 2 {
			t.Errorf("%s was played %d times in one pass over its world, want GroupSize times", id, n)
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d tasks were played in one pass over two worlds of 60", len(seen))
	}
}

// A setup that makes no sense is an error before any episode is played.
func TestSetupIsChecked(t *testing.T) {
	if _, err := Open(Setup{}); err == nil || !strings.Contains(err.Error(), "needs a world") {
		t.Errorf("an empty setup: error %v", err)
	}
	s := gambler(t)
	s.Config.Prompts = len(s.Worlds[0].Tasks) + 1
	if _, err := Open(s); err == nil || !strings.Contains(err.Error(), "grpo.prompts is 97, the train split has 96 tasks") {
		t.Errorf("more prompts than tasks: error %v", err)
	}
	for want, spoil := range map[string]func(*Setup){
		"grpo.iterations is 0":         func(s *Setup) { s.Config.Iterations = 0 },
		"grpo.prompts is 0":            func(s *Setup) { s.Config.Prompts = 0 },
		"group_size must be at least":  func(s *Setup) { s.Config.GroupSize = 1 },
		`scale is "batches"`:           func(s *Setup) { s.Config.Scale = "batches" },
		"grpo.resample is 16":          func(s *Setup) { s.Config.Resample = MaxResample + 1 },
		"2 eval sets select the best":  func(s *Setup) { s.EvalSets = []EvalSet{{SelectsBest: true}, {}, {SelectsBest: true}} },
		"a model, a sampler and a log": func(s *Setup) { s.Sampler = nil },
	} {
		bad := s
		bad.Config.Prompts = 4
		spoil(&bad)
		if _, err := Open(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// Groups of equal rewards are replaced as whole groups, as often as the settings say, and counted. A group that is trained on holds the
// attempts of one draw at one task, compared only with each other. The mean reward is over all episodes, those of replaced groups included.
func TestResampling(t *testing.T) {
	const prompts, k, draws = 8, 3, 2
	open := func(t *testing.T, seed uint64, slots int, right func(suite.Task, string) bool) *Loop {
		s := gambler(t)
		s.Seed, s.Slots, s.Engine.Slots = seed, slots, slots
		s.Config.Prompts, s.Config.GroupSize, s.Config.Resample = prompts, k, draws
		return opened(t, s, right)
	}
	// No answer solves calc tasks, every answer solves lookup tasks, and 8 solves compose tasks.
	byTemplate := func(task suite.Task, answer string) bool {
		return task.Template == "lookup" || task.Template == "compose" && answer == "8"
	}
	l := open(t, 1, 16, byTemplate)
	c, err := l.Collect(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	batch, line := c.Rollouts, train.StepLog{Metrics: c.Metrics}

	// Play the same draws again and sort their groups here.
	var groups [][]tokenizedEpisode
	all := map[string]tokenizedEpisode{}
	drawn, late, sum, distinct, zeroVarianceGroups := 0, 0, 0.0, 0.0, 0.0
	for round, n := 0, prompts; n > 0; round++ {
		eps, err := l.play(t.Context(), l.Worlds[0].Suite, l.Draw(1, round, n), l.Config.Temperature, 1)
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
				zeroVarianceGroups += 1. / prompts
			}
			if round > 0 {
				late++
			}
		}
	}
	if drawn < 2 || late == 0 || late == prompts || zeroVarianceGroups == 0 {
		t.Fatalf("nothing to see: %d groups drawn again, %d trained on of later draws, %.2f of equal rewards", drawn, late, zeroVarianceGroups)
	}
	for name, want := range map[string]float64{"resampled_groups": float64(drawn), "reward_mean": sum / float64(len(all)), "distinct_per_group": distinct, "zero_variance_groups": zeroVarianceGroups} {
		if got, ok := line.Get(name); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	if l.state.Episodes != int64(len(all)) || len(batch) != prompts*k {
		t.Fatalf("%d episodes counted and %d trained on, want %d and %d", l.state.Episodes, len(batch), len(all), prompts*k)
	}
	// Where a task is drawn again, its attempts differ: the same attempt would sample the same episode.
	few := *l
	few.Worlds = []World{{l.Worlds[0].Suite, l.Worlds[0].Tasks[:prompts]}}
	attempts := map[string]bool{}
	for i := range 5 {
		for round := range draws + 1 {
			for _, item := range few.Draw(i, round, prompts) {
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

	// The same seed plays the same episodes on any number of slots. Another seed plays others.
	same, err := open(t, 1, 5, byTemplate).Collect(t.Context(), 1)
	if err != nil || !reflect.DeepEqual(same.Rollouts, batch) || !reflect.DeepEqual(same.Metrics, c.Metrics) {
		t.Errorf("the same iteration again is another one (%v): %v, want %v", err, same.Metrics, c.Metrics)
	}
	other, err := open(t, 2, 16, byTemplate).Collect(t.Context(), 1)
	if err != nil || len(other.Rollouts) != len(batch) || reflect.DeepEqual(other.Rollouts[0].IDs, batch[0].IDs) && reflect.DeepEqual(other.Rollouts[k].IDs, batch[k].IDs) {
		t.Errorf("another seed plays the same (%v)", err)
	}
}

// advantage is how far one of the rewards is above their mean, in standard deviations.
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

// brokenTools is a suite whose calculator breaks down in the named tasks.
type brokenTools struct {
	suite.Suite
	in func(task suite.Task) bool
}

func (b brokenTools) Box(task suite.Task) (*tool.Box, error) {
	if !b.in(task) {
		return b.Suite.Box(task)
	}
	broken := tool.Func{
		Def: tool.Spec{Name: chain.CalculatorTool, Description: "breaks down", Parameters: json.RawMessage(`{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}`)},
		Run: func(context.Context, map[string]any) (tool.Observation, error) { panic("out of order") },
	}
	return tool.NewBox([]tool.Tool{broken, tool.Finish()})
}

// Episodes that a broken tool ended are counted, and are left out of the groups' means, the loss and all rates. Too many of them stop the run
// with their cause.
func TestBrokenTools(t *testing.T) {
	s := gambler(t)
	s.Config.Prompts, s.Config.GroupSize, s.Config.Resample, s.MaxErrors = 8, 4, 0, 0.9
	l := opened(t, s, isEight)
	tasks := 0
	l.Worlds[0].Suite = brokenTools{l.Worlds[0].Suite, func(suite.Task) bool { return true }}
	c, err := l.Collect(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	batch, line := c.Rollouts, train.StepLog{Metrics: c.Metrics}
	broken, _ := line.Get("errors")
	if broken < 2 || int(broken)+len(batch) != 32 {
		t.Fatalf("%v episodes broke off and %d are trained on, of 32", broken, len(batch))
	}
	sums, sizes, solved := map[string]float64{}, map[string]int{}, 0.0
	for _, row := range batch {
		sums[row.Group] += row.Advantage
		sizes[row.Group]++
	}
	for group, sum := range sums {
		if math.Abs(sum) > 1e-6 {
			t.Errorf("group %s of %d: the advantages add up to %v: its mean counts an episode that broke off", group, sizes[group], sum)
		}
		if sizes[group] > 1 && sizes[group] < 4 {
			tasks++
		}
	}
	if tasks == 0 {
		t.Fatal("no group has lost some of its episodes and not all but one: nothing to see")
	}
	// Success is a share of the episodes that are left.
	if solved, _ = line.Get("success"); math.Abs(solved*float64(len(batch))-math.Round(solved*float64(len(batch)))) > 1e-9 {
		t.Errorf("success %v is no share of the %d episodes that were played", solved, len(batch))
	}
	l.MaxErrors = 0.05
	if _, err := l.Collect(t.Context(), 0); !errors.Is(err, rollout.ErrEpisodes) || !errors.Is(err, tool.ErrPanic) {
		t.Errorf("above the share: error %v", err)
	}
}

func TestZeroVarianceGroups(t *testing.T) {
	group := func(rewards ...float64) []tokenizedEpisode {
		out := make([]tokenizedEpisode, len(rewards))
		for i, r := range rewards {
			out[i].t.Outcome.Reward.Total = r
		}
		return out
	}
	tenth := 0.1 // a variable: constants add exactly
	if tenth+0.2 == 0.3 {
		t.Fatal("the noise group has no noise")
	}
	for _, c := range []struct {
		g    []tokenizedEpisode
		want bool
	}{
		{group(0, 0, 0, 0), true}, {group(1, 1, 1, 1), true}, {group(tenth+0.2, 0.3, 0.3, 0.3), true}, {group(-0.1, -0.1), true},
		{group(0, 0, 0, 1), false}, {group(0.7, 0.7, 0.7001), false}, {group(0.5, 0.5+5e-7), true}, {group(0.5, 0.5+6e-7, 0.5-6e-7), false},
	} {
		if got := zeroVariance(c.g); got != c.want {
			t.Errorf("%v: zero variance %v, want %v", c.g, got, c.want)
		}
		// The gate's profile counts a group as mixed exactly if the loop keeps it.
		var trs []trajectory.Trajectory
		for i, p := range c.g {
			p.t.Task.ID, p.t.Attempt = "t", i
			trs = append(trs, p.t)
		}
		if got := reward.NewProfile(trs, len(trs)).All.ZeroVariance; (got == 1) != c.want {
			t.Errorf("%v: share of groups without variance %v in the profile, zero variance %v", c.g, got, c.want)
		}
	}
}

// The shares of the tools add up to 1 although a hard budget refused a call: a refused call is in neither numerator nor denominator.
func TestToolMixWithRefusedCalls(t *testing.T) {
	act := func(tool string) trajectory.Turn { return trajectory.Turn{Action: &trajectory.Action{Tool: tool}} }
	refused := act(chain.CalculatorTool)
	refused.Refused = true
	failed := act(chain.LookupTool)
	failed.ErrorKind, failed.Failed = "call_failed", true
	invalid := act(chain.LookupTool)
	invalid.ErrorKind = "bad_args"
	trs := []trajectory.Trajectory{{Turns: []trajectory.Turn{act(chain.LookupTool), failed, invalid, act("finish")}}, {Turns: []trajectory.Turn{refused}}}
	sum := 0.0
	for _, m := range summarize(trs, nil) {
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
