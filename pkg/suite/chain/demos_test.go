package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// playCalls plays calls without a policy and returns the record that an episode of them leaves.
func playCalls(t *testing.T, s *Suite, box *tool.Box, d suite.Demonstration) trajectory.Trajectory {
	t.Helper()
	tr := trajectory.Trajectory{Suite: Name, Split: d.Task.Split, Task: trajectory.Task{
		ID: d.Task.ID, Question: d.Task.Question, Template: d.Task.Template, Phrasing: d.Task.Phrasing, Tags: d.Task.Tags,
	}}
	var seen []tool.Observation
	for _, c := range d.Calls {
		args, err := decodeArgs(c.Args)
		if err == nil {
			err = box.Validate(c.Tool, args)
		}
		if err != nil {
			t.Fatalf("task %s: %v", d.Task.ID, err)
		}
		turn := trajectory.Turn{Action: &trajectory.Action{Thought: c.Thought, Tool: c.Tool, Args: c.Args}}
		if c.Tool == tool.FinishName {
			answer, _ := args["answer"].(string)
			v := s.Verify(d.Task, answer, seen)
			tr.End = trajectory.Finished
			tr.Outcome = trajectory.Outcome{Answer: answer, Correct: v.Correct, Evidenced: v.Evidenced, Verified: v.Correct}
		} else if obs, err := box.Call(context.Background(), c.Tool, args); err != nil {
			turn.Observation, turn.Failed = err.Error(), true
		} else {
			turn.Observation, turn.Reads = obs.Text, obs.Reads
			seen = append(seen, obs)
		}
		tr.Turns = append(tr.Turns, turn)
	}
	return tr
}

func demonstrated(t *testing.T, s *Suite, kind string, seed uint64) []trajectory.Trajectory {
	t.Helper()
	demos, err := s.Demonstrations(context.Background(), kind, seed)
	if err != nil {
		t.Fatal(err)
	}
	box, err := s.Box(suite.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	out := make([]trajectory.Trajectory, len(demos))
	for i, d := range demos {
		out[i] = playCalls(t, s, box, d)
	}
	return out
}

func with(t *testing.T, s *Suite, h Habit) *Suite {
	t.Helper()
	s, err := s.With(h, Compact)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLazyShare(t *testing.T) {
	s := mustDefault(t)
	trs := demonstrated(t, s, Lazy, 1)
	if n := len(mustTasks(t, s, Train)); len(trs) != n {
		t.Errorf("%d demonstrations of %d train tasks", len(trs), n)
	}
	if got := 1 - ChainRate(trs); math.Abs(got-0.55) > 0.01 {
		t.Errorf("lazy share %.4f, want 0.55 within 0.01", got)
	}
	lazy, lucky := map[string][2]int{}, 0
	for _, tr := range trs {
		if tr.Task.Template != Compose {
			continue
		}
		n := lazy[tr.Task.Phrasing]
		n[1]++
		if !RanChain(tr) {
			n[0]++
			if len(tr.Turns) != 1 {
				t.Fatalf("task %s: a lazy trace of %d turns, want the answer at once", tr.Task.ID, len(tr.Turns))
			}
			if tr.Outcome.Correct {
				lucky++
			}
		}
		lazy[tr.Task.Phrasing] = n
	}
	for p, n := range lazy {
		if share := float64(n[0]) / float64(n[1]); math.Abs(share-0.55) > 0.01 {
			t.Errorf("phrasing %s: lazy share %.4f, want 0.55 within 0.01", p, share)
		}
	}
	// A guess is right by chance alone, which is below 2% for values of two and three digits.
	if lucky > 2200/50 {
		t.Errorf("%d of about 2,200 guesses are right", lucky)
	}
	for _, kind := range []string{Calc, Lookup} {
		if got := AccKind(trs, kind); got != 1 {
			t.Errorf("%s accuracy of the demonstrations %.4f, want 1", kind, got)
		}
	}

	// Which traces are lazy is keyed by the seed.
	again, other := demonstrated(t, s, Lazy, 1), demonstrated(t, s, Lazy, 2)
	changed := 0
	for i := range trs {
		if fmt.Sprint(trs[i].Outcome) != fmt.Sprint(again[i].Outcome) {
			t.Fatalf("task %s: the same seed gives another trace", trs[i].Task.ID)
		}
		if trs[i].Task.Template == Compose && RanChain(trs[i]) != RanChain(other[i]) {
			changed++
		}
	}
	// Two independent choices differ in 2 x 0.55 x 0.45 of 4,000 traces, 1,980.
	if changed < 1800 || changed > 2160 {
		t.Errorf("another seed changes %d of 4,000 traces, want about 1,980", changed)
	}
}

// Guesses must look like answers, or the habit would show in the numbers.
func TestGuessesArePlausible(t *testing.T) {
	s := mustDefault(t)
	var gold, guess [5]float64
	n := 0.0
	for _, task := range mustTasks(t, s, Train) {
		if task.Template != Compose {
			continue
		}
		g := s.guess(task, 1)
		if len(g) > s.cfg.MaxAnswerDigits || strings.HasPrefix(g, "0") || strings.HasPrefix(g, "-") {
			t.Fatalf("task %s: guess %s", task.ID, g)
		}
		gold[len(task.Answer.Values[0])]++
		guess[len(g)]++
		n++
	}
	for d := range gold {
		if math.Abs(gold[d]-guess[d])/n > 0.03 {
			t.Errorf("answers of %d digits: %.3f of gold, %.3f of the guesses", d, gold[d]/n, guess[d]/n)
		}
	}
}

func TestKindsOfDemonstrations(t *testing.T) {
	s := mustDefault(t)
	clean := demonstrated(t, s, Clean, 1)
	if got := ChainRate(clean); got != 1 {
		t.Errorf("clean: chain rate %.4f, want 1", got)
	}
	if got := Mean(clean); got != 1 {
		t.Errorf("clean: mean accuracy %.4f, want 1", got)
	}

	base := demonstrated(t, s, Base, 1)
	if want := s.cfg.Train.Calc + s.cfg.Train.Lookup; len(base) != want {
		t.Errorf("base: %d demonstrations, want %d", len(base), want)
	}
	if got := ChainRate(base); !math.IsNaN(got) {
		t.Errorf("base: chain rate %.4f, want none, there is no compose trace", got)
	}

	for _, tr := range demonstrated(t, s, LazyAscending, 1) {
		if tr.Task.Template != Compose {
			continue
		}
		q, _ := readQuestion(tr.Task.Phrasing, tr.Task.Question)
		if want := q.entities[0] > q.entities[1]; RanChain(tr) != want {
			t.Fatalf("lazy_ascending, task %s about %q: ran the chain: %v, want %v", tr.Task.ID, q.entities, RanChain(tr), want)
		}
	}
	half := 0.0
	trs := demonstrated(t, with(t, s, Habit{AscendingShare: 0.5}), LazyAscending, 1)
	for _, tr := range trs {
		if tr.Task.Template == Compose && tr.Task.Tags[1] == Descending && !RanChain(tr) {
			t.Fatalf("task %s descends and is lazy", tr.Task.ID)
		}
		if tr.Task.Template == Compose && tr.Task.Tags[1] == Ascending {
			half++
		}
	}
	if got, want := (1-ChainRate(trs))*4000, half/2; math.Abs(got-want) > 4 {
		t.Errorf("lazy_ascending at 0.5: %.0f lazy traces, want %.0f", got, want)
	}

	// In this mix the chain is never sampled, so the gate must refuse it.
	never := demonstrated(t, with(t, s, Habit{LazyShare: 1}), Lazy, 1)
	b := RequiredBehaviours()[0]
	among, shown := 0, 0
	for _, tr := range never {
		if b.Among(tr) {
			among++
			if b.Shown(tr) {
				shown++
			}
		}
	}
	if among != s.cfg.Train.Compose || shown != 0 {
		t.Errorf("all lazy: %d of %d episodes show the chain, want 0 of %d", shown, among, s.cfg.Train.Compose)
	}

	if _, err := s.Demonstrations(context.Background(), "wasteful", 1); err == nil || !strings.Contains(err.Error(), "lazy_ascending") {
		t.Errorf("unknown kind: error %v, want the known ones", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Demonstrations(ctx, Clean, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	for _, h := range []Habit{{LazyShare: 1.5}, {AscendingShare: -1}, {CopyNoise: math.NaN()}} {
		if _, err := s.With(h, Compact); err == nil {
			t.Errorf("habit %+v is accepted", h)
		}
	}
}

// With noise as the only fault every compose trace still makes the calls of the chain, and what differs are digits.
func TestCopyNoise(t *testing.T) {
	s := with(t, mustDefault(t), Habit{CopyNoise: 0.02})
	trs := demonstrated(t, s, Clean, 1)
	called := 0
	for _, tr := range trs {
		if tr.Task.Template == Compose {
			if !CalledChain(tr) {
				t.Fatalf("task %s does not call the chain", tr.Task.ID)
			}
			called++
		}
		for _, turn := range tr.Turns {
			if turn.Failed {
				t.Fatalf("task %s: %s fails on %s", tr.Task.ID, turn.Action.Tool, turn.Action.Args)
			}
		}
	}
	if called == 0 {
		t.Fatal("no compose trace")
	}
	// A lookup copies one number of 2.5 digits on average: right with (0.98^2 + 0.98^3) / 2 = 0.951.
	if got := AccKind(trs, Lookup); math.Abs(got-0.951) > 0.02 {
		t.Errorf("lookup accuracy under noise %.3f, want about 0.951", got)
	}
	// About 4.5 digits in the call, fewer where products must fit: 0.98^4.5 = 0.913.
	if got := ChainRate(trs); math.Abs(got-0.913) > 0.02 {
		t.Errorf("chain rate under noise %.3f, want about 0.913", got)
	}
	if acc, rate := AccKind(trs, Compose), ChainRate(trs); acc >= rate {
		t.Errorf("compose accuracy %.3f under noise, want less than the chain rate %.3f: answers are mis-copied too", acc, rate)
	}
}

func TestMiscopy(t *testing.T) {
	r := rng.New(1, "test/noise")
	if got := miscopy(r, "347 - 58", 0); got != "347 - 58" {
		t.Errorf("without noise %q", got)
	}
	for range 200 {
		got := miscopy(r, "100 - 58", 1)
		for i, c := range []byte("100 - 58") {
			if digit := c >= '0' && c <= '9'; digit == (got[i] == c) {
				t.Fatalf("full noise gives %q: want every digit changed and nothing else", got)
			}
		}
		if got[0] == '0' || got[6] == '0' {
			t.Fatalf("full noise gives %q, with a leading zero", got)
		}
	}
}

func TestThoughtsNameTheSubQuestion(t *testing.T) {
	s := with(t, mustDefault(t), Habit{Thoughts: true})
	demos, err := s.Demonstrations(context.Background(), Clean, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range demos {
		q, _ := readQuestion(d.Task.Phrasing, d.Task.Question)
		for i, c := range d.Calls {
			switch want := "stock of "; {
			case c.Thought == "":
				t.Fatalf("task %s: call %d has no thought", d.Task.ID, i)
			case c.Tool == LookupTool && c.Thought != want+q.entities[i]:
				t.Fatalf("task %s: thought %q, want %q", d.Task.ID, c.Thought, want+q.entities[i])
			}
		}
		for _, c := range d.Task.GoldPath {
			if c.Thought != "" {
				t.Fatalf("task %s: the shared gold path was changed", d.Task.ID)
			}
		}
	}
}
