package lm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	engine "github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/lm"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tokenizer"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// miniCodec is the tiny preset's template with a tokenizer of the mini suite's texts.
func miniCodec() (*chat.Codec, error) {
	texts := []string{
		"error: no action; write one block that opens with ```json on a line of its own\nleft 1.5",
		"error: the text ends at the opening fence\nerror: the first block opens with ```, it must be ```json\nleft 5.5",
	}
	s := &mini.Suite{Count: 24}
	tasks, err := s.Tasks("train")
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		p, err := s.Prompt(t)
		if err != nil {
			return nil, err
		}
		texts = append(texts, p.User)
		for _, c := range t.GoldPath {
			texts = append(texts, episode.Format("", c.Tool, c.Args))
		}
	}
	tok, err := tokenizer.TrainTiny(texts, tokenizer.TinyOptions{MinTexts: 1, Atoms: []string{"```json\n{\"tool\": \"", "\", \"args\": {\"", "\": \"", "\"}}\n```"}})
	if err != nil {
		return nil, err
	}
	return chat.NewTinyCodec(tok)
}

var codecOnce = sync.OnceValues(miniCodec)

func codec(t testing.TB) *chat.Codec {
	t.Helper()
	c, err := codecOnce()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// model is a small random one that ends its turns often: the rows of the stop ids are made longer, so that their logits
// are large, one way or the other.
func model(t testing.TB, c *chat.Codec) *engine.Model {
	t.Helper()
	b, err := engine.OpenBackend("go")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &engine.Config{Vocab: c.Tokenizer().VocabSize(), Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 32, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 400, Pad: -1}
	m, err := engine.NewRandom(b, cfg, 11)
	if err != nil {
		t.Fatal(err)
	}
	host, err := m.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range host {
		if x.Name == "model.embed_tokens.weight" {
			for _, id := range c.Stops() {
				for j := range cfg.Hidden {
					x.Data[int(id)*cfg.Hidden+j] *= 3
				}
			}
		}
	}
	if m.Weights, err = engine.WeightsFromHost(host); err != nil {
		t.Fatal(err)
	}
	return m
}

func newEngine(t testing.TB, m *engine.Model, slots, contextLen int) *engine.Engine {
	t.Helper()
	e, err := engine.NewEngine(m, engine.EngineOptions{Slots: slots, MaxContext: contextLen, PrefillTokens: []int{32}, Contexts: []int{contextLen}, Rows: []int{slots}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func testPolicy(e *engine.Engine, c *chat.Codec) *lm.Policy {
	return &lm.Policy{Method: "random", ModelID: "tiny", Engine: e, Codec: c, Sampling: engine.Sampling{Temperature: 0.8}, MaxTokens: 24}
}

// watched notes the engine's context of every episode just before its slot is freed.
type watched struct {
	*lm.Policy
	contexts map[policy.Key][]int32
}

func (w watched) Open(ctx context.Context, slots int) (policy.Session, error) {
	s, err := w.Policy.Open(ctx, slots)
	return &watchedSession{Session: s, w: w, keys: map[int]policy.Key{}}, err
}

type watchedSession struct {
	policy.Session
	w    watched
	keys map[int]policy.Key
}

func (s *watchedSession) Start(slot int, key policy.Key, p suite.Prompt) error {
	s.keys[slot] = key
	return s.Session.Start(slot, key, p)
}

func (s *watchedSession) Release(slot int) {
	if key, ok := s.keys[slot]; ok {
		s.w.contexts[key] = s.w.Engine.Context(slot)
		delete(s.keys, slot)
	}
	s.Session.Release(slot)
}

type played struct {
	t      trajectory.Trajectory
	tokens trajectory.TokenRecord
}

// play plays k attempts at n tasks and checks every record against the engine.
func play(t *testing.T, p *lm.Policy, n, k int, cfg episode.Config) []played {
	t.Helper()
	s := &mini.Suite{Count: n}
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	w := watched{p, map[policy.Key][]int32{}}
	var out []played
	_, err = rollout.Run(t.Context(), s, w, rollout.Attempts(tasks, k), rollout.Options{Seed: 5, Episode: cfg, Reward: reward.Default(), Decoding: "sampled", Temperature: p.Sampling.Temperature,
		Each: func(_ int, tr trajectory.Trajectory, tok *trajectory.TokenRecord) error {
			if tok == nil {
				return fmt.Errorf("%s has no tokens", tr.EpisodeID)
			}
			out = append(out, played{tr, *tok})
			if err := tok.Check(); err != nil {
				t.Error(err)
			}
			if got := w.contexts[policy.Key{Seed: 5, Task: tr.Task.ID, Attempt: tr.Attempt}]; !slices.Equal(got, tok.IDs) {
				t.Errorf("%s: the record holds\n%v, the engine\n%v", tr.EpisodeID, tok.IDs, got)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != n*k {
		t.Fatalf("%d episodes, want %d", len(out), n*k)
	}
	return out
}

// segment is a run of ids of one kind.
type segment struct {
	ids     []int32
	sampled bool
}

func segments(tok trajectory.TokenRecord) []segment {
	var out []segment
	for i, id := range tok.IDs {
		if len(out) == 0 || out[len(out)-1].sampled != tok.Mask[i] {
			out = append(out, segment{sampled: tok.Mask[i]})
		}
		last := &out[len(out)-1]
		last.ids = append(last.ids, id)
	}
	return out
}

// The ids of a record are the prompt's, the sampled ones, the observation's, the sampled ones, ... and those of the
// engine's context: nothing that was decoded was encoded again, though it would have given other ids.
func TestRecordIsTheContext(t *testing.T) {
	c := codec(t)
	s := &mini.Suite{Count: 9}
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	prompts := map[string]suite.Prompt{}
	for _, task := range tasks {
		if prompts[task.ID], err = s.Prompt(task); err != nil {
			t.Fatal(err)
		}
	}
	odd, turns := 0, map[int]int{}
	for _, p := range play(t, testPolicy(newEngine(t, model(t, c), 8, 400), c), 9, 2, episode.Config{MaxTurns: 3}) {
		segs := segments(p.tokens)
		turns[len(p.t.Turns)]++
		if len(segs) != 2*len(p.t.Turns) {
			t.Errorf("%s: %d runs of ids for %d turns", p.t.EpisodeID, len(segs), len(p.t.Turns))
			continue
		}
		want, err := c.Prompt(prompts[p.t.Task.ID].System, prompts[p.t.Task.ID].User)
		if err != nil {
			t.Fatal(err)
		}
		for j, turn := range p.t.Turns {
			before, said := segs[2*j], segs[2*j+1]
			if j > 0 {
				last := segs[2*j-1].ids
				want = c.Observation(p.t.Turns[j-1].Observation, last[len(last)-1])
			}
			if before.sampled || !slices.Equal(before.ids, want) {
				t.Errorf("%s turn %d: the model read %v, want %v", p.t.EpisodeID, j, before.ids, want)
			}
			// An action's text is what JSON can hold of it; a random model writes half characters.
			text := string([]rune(c.Text(said.ids)))
			if !said.sampled || turn.Tokens != len(said.ids) || text != turn.Text {
				t.Errorf("%s turn %d: %d sampled ids say %q, the record has %d and %q", p.t.EpisodeID, j, len(said.ids), text, turn.Tokens, turn.Text)
			}
			if again, err := c.Action(turn.Text); err != nil || !slices.Equal(again, said.ids) {
				odd++
			}
			for i, id := range said.ids[:len(said.ids)-1] {
				if c.IsStop(id) {
					t.Errorf("%s turn %d: goes on after stop id %d at %d", p.t.EpisodeID, j, id, i)
				}
			}
			if cut := p.t.End == trajectory.Tokens && j == len(p.t.Turns)-1; c.IsStop(said.ids[len(said.ids)-1]) == cut {
				t.Errorf("%s turn %d: ends with id %d, episode with %s", p.t.EpisodeID, j, said.ids[len(said.ids)-1], p.t.End)
			}
		}
		for i, lp := range p.tokens.LogProbs {
			if p.tokens.Mask[i] != (lp < 0) {
				t.Fatalf("%s: log-probability %v at %d, sampled %v", p.t.EpisodeID, lp, i, p.tokens.Mask[i])
			}
		}
	}
	if odd < 5 || len(turns) < 2 || turns[3] == 0 {
		t.Errorf("%d oddly spelled turns, lengths %v: the test shows less than it says", odd, turns)
	}
}

// A model that opens a message of the tool itself is stopped there: what it would have written next is never in the
// context, and the real observation is.
func TestInventedMessageEndsTheTurn(t *testing.T) {
	c := codec(t)
	special := func(id int32) bool { return c.Tokenizer().IsSpecial(id) }
	opened := 0
	for _, p := range play(t, testPolicy(newEngine(t, model(t, c), 8, 400), c), 9, 4, episode.Config{MaxTurns: 3}) {
		for _, seg := range segments(p.tokens) {
			if !seg.sampled {
				continue
			}
			for _, id := range seg.ids[:len(seg.ids)-1] {
				if special(id) && slices.Contains(c.Stops(), id) {
					t.Errorf("%s: the model wrote on after control token %d", p.t.EpisodeID, id)
				}
			}
			if last := seg.ids[len(seg.ids)-1]; special(last) && last != c.Stops()[0] {
				opened++
			}
		}
		for _, turn := range p.t.Turns {
			if turn.Called() || p.t.Outcome.Answer != "" {
				t.Errorf("%s: %+v", p.t.EpisodeID, turn)
			}
		}
	}
	if opened < 3 {
		t.Errorf("%d turns ended by opening a message: the test shows less than it says", opened)
	}
}

// Episodes do not depend on how many are played at once.
func TestSlotsDoNotMatter(t *testing.T) {
	c := codec(t)
	m := model(t, c)
	var want []played
	for _, slots := range []int{2, 3, 8} {
		got := play(t, testPolicy(newEngine(t, m, slots, 400), c), 6, 3, episode.Config{MaxTurns: 3})
		if want == nil {
			want = got
			continue
		}
		for i := range want {
			a, errA := want[i].t.Canonical()
			b, errB := got[i].t.Canonical()
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Errorf("%d slots: episode %d is\n%s, with 2 slots\n%s", slots, i, b, a)
			}
			if !slices.Equal(want[i].tokens.IDs, got[i].tokens.IDs) || !slices.Equal(want[i].tokens.Mask, got[i].tokens.Mask) {
				t.Errorf("%d slots: episode %d has other ids", slots, i)
				continue
			}
			for j, lp := range want[i].tokens.LogProbs {
				if d := math.Abs(float64(lp - got[i].tokens.LogProbs[j])); d > 1e-4 {
					t.Fatalf("%d slots: episode %d, id %d: log-probability differs by %g", slots, i, j, d)
				}
			}
		}
	}
}

// What the sampler said of its tokens is what the trainer computes from the same record.
func TestTrainerAgreesWithSampler(t *testing.T) {
	c := codec(t)
	m := model(t, c)
	p := testPolicy(newEngine(t, m, 8, 400), c)
	var rows []train.Rollout
	longest := 0
	for i, e := range play(t, p, 4, 2, episode.Config{MaxTurns: 3}) {
		row := train.Rollout{ID: e.t.EpisodeID, Group: e.t.Task.ID, IDs: e.tokens.IDs, LogProbs: e.tokens.LogProbs, Mask: make([]uint8, len(e.tokens.Mask)), Advantage: float64(1 - 2*(i%2))}
		for j, sampled := range e.tokens.Mask {
			if sampled {
				row.Mask[j] = 1
			}
		}
		longest = max(longest, len(row.IDs))
		rows = append(rows, row)
	}
	g, err := train.NewGRPO(m, train.GRPOConfig{Loss: train.GRPOLoss{Temperature: p.Sampling.Temperature}, Schedule: train.Schedule{LearningRate: 1e-4}, Epochs: 1, Batch: train.BatchConfig{MicroBatchSize: 4, Lengths: []int{longest}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	u, err := g.Update(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("largest difference %.2g over %d tokens", u.SamplerGapMax, u.TrainedTokens)
	if !(u.SamplerGapMax < 1e-3) || u.TrainedTokens < 50 {
		t.Errorf("sampler and trainer differ by up to %g over %d tokens", u.SamplerGapMax, u.TrainedTokens)
	}
}

// A prompt that several slots start with is fed once and copied; the copies then go their own ways.
func TestGroupsShareTheirPrompt(t *testing.T) {
	c := codec(t)
	m := model(t, c)
	long := suite.Prompt{User: strings.Repeat("stock of bolts\n", 8)}
	step := func(e *engine.Engine, prompts ...suite.Prompt) []policy.Reply {
		ses, err := testPolicy(e, c).Open(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		var slots []int
		for i, p := range prompts {
			if err := ses.Start(i, policy.Key{Seed: 1, Task: "t", Attempt: i}, p); err != nil {
				t.Fatal(err)
			}
			slots = append(slots, i)
		}
		replies, err := ses.Step(t.Context(), slots)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range replies {
			if got := e.Context(i); !slices.Equal(got, slices.Concat(r.Tokens.Context, r.Tokens.Sampled)) {
				t.Errorf("slot %d: context %v, tokens %v", i, got, r.Tokens)
			}
		}
		return replies
	}
	shared := newEngine(t, m, 4, 400)
	got := step(shared, long, long, long, long)
	alone := newEngine(t, m, 4, 400)
	for i := range got {
		ses, err := testPolicy(alone, c).Open(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := ses.Start(0, policy.Key{Seed: 1, Task: "t", Attempt: i}, long); err != nil {
			t.Fatal(err)
		}
		want, err := ses.Step(t.Context(), []int{0})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[i].Tokens.Sampled, want[0].Tokens.Sampled) {
			t.Errorf("attempt %d: %v in a group, %v alone", i, got[i].Tokens.Sampled, want[0].Tokens.Sampled)
		}
		if err := ses.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Equal(got[0].Tokens.Sampled, got[1].Tokens.Sampled) {
		t.Error("two attempts sampled the same")
	}
	// Prompts that differ are never copied: one graph less, that of the copy.
	different := newEngine(t, m, 4, 400)
	step(different, long, suite.Prompt{User: long.User + "a"}, suite.Prompt{User: long.User + "b"}, suite.Prompt{User: long.User + "c"})
	if a, b := shared.Compilations(), different.Compilations(); a != b+1 {
		t.Errorf("%d graphs for one prompt, %d for four: want one more, that of the copy", a, b)
	}
}

// Wherever the context ends, in the prompt, in a turn or in an observation, the episode ends with that reason, one turn is
// cut, and the record is still the engine's context.
func TestContextOverflow(t *testing.T) {
	c := codec(t)
	m := model(t, c)
	s := &mini.Suite{Count: 1}
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Prompt(tasks[0])
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := c.Prompt(p.System, p.User)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for _, room := range []int{-3, 0, 1, 7, 30, 60} {
		pol := testPolicy(newEngine(t, m, 4, len(prompt)+room), c)
		for _, e := range play(t, pol, 1, 8, episode.Config{MaxTurns: 4}) {
			cut := 0
			for _, turn := range e.t.Turns {
				if turn.ErrorKind == string(episode.Cut) {
					cut++
				}
			}
			limited := e.t.End == trajectory.Context || e.t.End == trajectory.Tokens
			if e.t.Outcome.Truncated != limited || (cut == 1) != limited || cut > 1 || e.t.Outcome.Answer != "" {
				t.Errorf("room %d: end %s, truncated %v, %d cut turns", room, e.t.End, e.t.Outcome.Truncated, cut)
			}
			if len(e.tokens.IDs) > len(prompt)+room && room > 0 {
				t.Errorf("room %d: %d ids in a context of %d", room, len(e.tokens.IDs), len(prompt)+room)
			}
			if e.t.End != trajectory.Context {
				continue
			}
			switch last := e.t.Turns[len(e.t.Turns)-1]; {
			case len(e.tokens.IDs) == 0:
				places["prompt"]++
			case last.Tokens == 0:
				places["observation"]++
			default:
				places["turn"]++
			}
		}
		if room <= 0 && places["prompt"] == 0 {
			t.Errorf("room %d: the prompt fitted", room)
		}
	}
	if len(places) != 3 {
		t.Errorf("the context ended in %v: the test shows less than it says", places)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	c := codec(t)
	e := newEngine(t, model(t, c), 2, 64)
	for want, change := range map[string]func(p *lm.Policy){
		"MaxTokens is 0": func(p *lm.Policy) { p.MaxTokens = 0 },
		"temperature":    func(p *lm.Policy) { p.Sampling.Temperature = -1 },
		"top_p":          func(p *lm.Policy) { p.Sampling.TopP = 2 },
		"Codec":          func(p *lm.Policy) { p.Codec = nil },
		"Engine":         func(p *lm.Policy) { p.Engine = nil },
	} {
		p := testPolicy(e, c)
		change(p)
		if _, err := p.Open(t.Context(), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
	if _, err := testPolicy(e, c).Open(t.Context(), 0); err == nil {
		t.Error("a session without slots was opened")
	}
	ses, err := testPolicy(e, c).Open(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	if ses.Slots() != 2 {
		t.Errorf("%d slots granted, the engine has 2", ses.Slots())
	}
	ask := suite.Prompt{User: "stock of bolts"}
	if err := ses.Start(0, policy.Key{}, ask); err != nil {
		t.Fatal(err)
	}
	_, unstarted := ses.Step(t.Context(), []int{1})
	for want, err := range map[string]error{
		"slot 2 of 2":              ses.Start(2, policy.Key{}, ask),
		"slot 0 is taken":          ses.Start(0, policy.Key{}, ask),
		"slot 1 has no episode":    ses.Observe(1, policy.Observation{}),
		"slot -1 of 2":             ses.Observe(-1, policy.Observation{}),
		"step: slot 1 has no epis": unstarted,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if rs, err := ses.Step(t.Context(), nil); err != nil || len(rs) != 0 {
		t.Errorf("a step of no slots: %v, %v", rs, err)
	}
	if _, err := ses.Step(t.Context(), []int{0}); err != nil {
		t.Fatal(err)
	}
	if _, err := ses.Step(t.Context(), []int{0}); err == nil || !strings.Contains(err.Error(), "observation") {
		t.Errorf("a second turn without an observation: %v", err)
	}
	if err := ses.Close(); err != nil || len(e.Context(0)) != 0 {
		t.Errorf("closed: %v, context %v", err, e.Context(0))
	}
}

// A cancelled context ends the run with its cause.
func TestCancel(t *testing.T) {
	c := codec(t)
	ses, err := testPolicy(newEngine(t, model(t, c), 1, 64), c).Open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := ses.Start(0, policy.Key{}, suite.Prompt{User: "stock of bolts"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ses.Step(ctx, []int{0}); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

// Examples of demonstrations have the very layout of records: one codec serves both.
func TestDemonstrationsLookLikeRecords(t *testing.T) {
	c := codec(t)
	obs := "bolts: 512 on the shelf\nleft 0.5"
	ask := episode.Format("", "stock", json.RawMessage(`{"item":"bolts"}`))
	answer := episode.Format("", "finish", json.RawMessage(`{"answer":"512"}`))
	ids, mask, err := c.Episode("", "stock of bolts", []chat.Exchange{{Action: ask, Observation: obs}, {Action: answer}})
	if err != nil {
		t.Fatal(err)
	}
	var tok trajectory.TokenRecord
	prompt, err := c.Prompt("", "stock of bolts")
	if err != nil {
		t.Fatal(err)
	}
	tok.Append(prompt...)
	for i, text := range []string{ask, answer} {
		said, err := c.Action(text)
		if err != nil {
			t.Fatal(err)
		}
		if !c.IsStop(said[len(said)-1]) {
			t.Errorf("turn %d ends with %d, which is no stop id", i, said[len(said)-1])
		}
		if err := tok.AppendSampled(said, make([]float32, len(said))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			tok.Append(c.Observation(obs, said[len(said)-1])...)
		}
	}
	if !slices.Equal(ids, tok.IDs) {
		t.Errorf("a demonstration is\n%v, a record\n%v", ids, tok.IDs)
	}
	for i, m := range mask {
		if (m == 1) != tok.Mask[i] {
			t.Errorf("mask[%d] is %d, sampled %v", i, m, tok.Mask[i])
		}
	}
}
