package rollout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func tasksOf(t *testing.T, s *mini.Suite) []suite.Task {
	t.Helper()
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// withTokens makes a policy's text its tokens, a byte an id, and can break at chosen places.
type withTokens struct {
	policy.Policy
	slots  int                                        // granted at most; 0 is as asked
	step   func(n int, rs []policy.Reply) error       // after the n-th step
	reply  func(key policy.Key, r *policy.Reply)      // on every reply
	start  func(key policy.Key, p suite.Prompt) error // before every start
	closed *atomic.Int32
}

func (p withTokens) Open(ctx context.Context, slots int) (policy.Session, error) {
	if p.slots > 0 {
		slots = min(slots, p.slots)
	}
	s, err := p.Policy.Open(ctx, slots)
	return &tokenSession{Session: s, p: p, context: make([]string, slots), keys: make([]policy.Key, slots)}, err
}

type tokenSession struct {
	policy.Session
	p       withTokens
	context []string
	keys    []policy.Key
	steps   int
}

func ids(s string) []int32 {
	out := make([]int32, len(s))
	for i := range len(s) {
		out[i] = int32(s[i])
	}
	return out
}

func (s *tokenSession) Start(slot int, key policy.Key, p suite.Prompt) error {
	s.context[slot], s.keys[slot] = p.User, key
	if s.p.start != nil {
		if err := s.p.start(key, p); err != nil {
			return err
		}
	}
	return s.Session.Start(slot, key, p)
}

func (s *tokenSession) Observe(slot int, o policy.Observation) error {
	s.context[slot] = o.Text
	return s.Session.Observe(slot, o)
}

func (s *tokenSession) Step(ctx context.Context, slots []int) ([]policy.Reply, error) {
	rs, err := s.Session.Step(ctx, slots)
	for i := range rs {
		rs[i].Tokens = &policy.Tokens{Context: ids(s.context[slots[i]]), Sampled: ids(rs[i].Text), LogProbs: make([]float32, len(rs[i].Text))}
		rs[i].Latency = time.Duration(slots[i]+1) * time.Millisecond
		if s.p.reply != nil {
			s.p.reply(s.keys[slots[i]], &rs[i])
		}
	}
	s.steps++
	if err == nil && s.p.step != nil {
		err = s.p.step(s.steps, rs)
	}
	return rs, err
}

func (s *tokenSession) Close() error {
	if s.p.closed != nil {
		s.p.closed.Add(1)
	}
	return s.Session.Close()
}

func options() rollout.Options {
	return rollout.Options{Seed: 3, Reward: reward.Default(), Decoding: "sampled", Temperature: 1}
}

// canonical is the file's content without latencies.
func canonical(t *testing.T, path string) []byte {
	t.Helper()
	var b bytes.Buffer
	for tr, err := range trajectory.Stream(path) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := tr.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
	}
	return b.Bytes()
}

// play runs the random baseline, whose episodes differ in length, into files of the folder.
func play(t *testing.T, ctx context.Context, dir string, p policy.Policy, s *mini.Suite, opt rollout.Options) ([]trajectory.Trajectory, error) {
	t.Helper()
	out, err := rollout.OpenOutput(filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "tok.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}()
	opt.Output = out
	return rollout.Run(ctx, s, p, rollout.Attempts(tasksOf(t, s), 3), opt)
}

func random() withTokens { return withTokens{Policy: scripted.RandomTool(mini.Rules{})} }

func files(t *testing.T, dir string) (trajectories, tokens []byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "tok.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if extra, _ := fs.Glob(os.DirFS(dir), "*.pending"); len(extra) > 0 {
		t.Errorf("left behind: %v", extra)
	}
	return canonical(t, filepath.Join(dir, "t.jsonl")), b
}

// The files are the same for any number of slots and workers, whatever the tools' timing.
func TestSlotsDoNotMatter(t *testing.T) {
	var n atomic.Int64
	jitter := func(_ suite.Task, tools []tool.Tool) []tool.Tool {
		slow := tools[0]
		tools[0] = tool.Func{Def: slow.Spec(), Run: func(ctx context.Context, args map[string]any) (tool.Observation, error) {
			time.Sleep(time.Duration(n.Add(1)*7919%5) * 100 * time.Microsecond)
			return slow.Call(ctx, args)
		}}
		return tools
	}
	var wantT, wantTok []byte
	for i, c := range []struct{ slots, workers, granted int }{{1, 1, 0}, {3, 2, 0}, {64, 8, 0}, {1000, 3, 0}, {50, 4, 7}} {
		p := random()
		p.slots = c.granted
		opt := options()
		opt.Slots, opt.Workers = c.slots, c.workers
		dir := t.TempDir()
		trajs, err := play(t, context.Background(), dir, p, &mini.Suite{Count: 20, Wrap: jitter}, opt)
		if err != nil || len(trajs) != 60 {
			t.Fatalf("%+v: %d episodes, %v", c, len(trajs), err)
		}
		gotT, gotTok := files(t, dir)
		if i == 0 {
			wantT, wantTok = gotT, gotTok
			continue
		}
		if !bytes.Equal(gotT, wantT) || !bytes.Equal(gotTok, wantTok) {
			t.Errorf("%+v: the files differ from those of one slot", c)
		}
	}
}

// Every row of tokens is prompt, action, observation, action, ... exactly as they were, and ends with an action.
func TestTokens(t *testing.T) {
	s := &mini.Suite{Count: 12}
	seen := 0
	opt := options()
	opt.Slots, opt.PolicyVersion = 5, 42
	opt.Each = func(i int, tr trajectory.Trajectory, tok *trajectory.TokenRecord) error {
		if i != seen {
			t.Errorf("item %d came as number %d", i, seen)
		}
		seen++
		var text strings.Builder
		var mask []bool
		put := func(s string, sampled bool) {
			text.WriteString(s)
			for range len(s) {
				mask = append(mask, sampled)
			}
		}
		put(tr.Task.Question+"\nbudget "+tr.Task.Budget.String(), false)
		for j, turn := range tr.Turns {
			put(turn.Text, true)
			if j < len(tr.Turns)-1 {
				put(turn.Observation, false)
			}
		}
		if err := tok.Check(); err != nil || !reflect.DeepEqual(tok.IDs, ids(text.String())) || !reflect.DeepEqual(tok.Mask, mask) || tok.EpisodeID != tr.EpisodeID || tok.PolicyVersion != 42 {
			t.Errorf("%s: tokens do not spell the episode (%v)", tr.EpisodeID, err)
		}
		return nil
	}
	if _, err := rollout.Run(context.Background(), s, random(), rollout.Attempts(tasksOf(t, s), 2), opt); err != nil || seen != 24 {
		t.Errorf("%d episodes, %v", seen, err)
	}
}

// Stopped again and again, by every kind of fault, a run loses nothing that finished and ends with the same files.
func TestInterruptedRunsResume(t *testing.T) {
	s := &mini.Suite{Count: 20}
	want := t.TempDir()
	opt := options()
	opt.Slots = 4
	if _, err := play(t, context.Background(), want, random(), s, opt); err != nil {
		t.Fatal(err)
	}
	wantT, wantTok := files(t, want)
	for name, fault := range map[string]func(n int, cancel func(error)) error{
		"session error": func(int, func(error)) error { return errors.New("device lost") },
		"session panic": func(int, func(error)) error { panic("nil weights") },
		"cancel":        func(_ int, cancel func(error)) error { cancel(errors.New("interrupted")); return nil },
	} {
		dir := t.TempDir()
		stops := 0
		for last := -1; ; stops++ {
			if stops > 100 {
				t.Fatalf("%s: no end", name)
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			p := random()
			p.closed = new(atomic.Int32)
			p.step = func(n int, _ []policy.Reply) error {
				if n >= 9 { // an episode takes at most 8
					return fault(n, cancel)
				}
				return nil
			}
			trajs, err := play(t, ctx, dir, p, s, opt)
			cancel(nil)
			if p.closed.Load() != 1 && err != nil {
				t.Errorf("%s: the session was closed %d times", name, p.closed.Load())
			}
			if err == nil {
				if len(trajs) != 60 {
					t.Errorf("%s: %d episodes", name, len(trajs))
				}
				break
			}
			out, openErr := rollout.OpenOutput(filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "tok.bin"))
			if openErr != nil {
				t.Fatal(openErr)
			}
			if out.Len() != len(trajs) || len(trajs) <= last {
				t.Errorf("%s: %d on disk, %d returned, %d before", name, out.Len(), len(trajs), last)
			}
			last = len(trajs)
			if err := out.Close(); err != nil {
				t.Error(err)
			}
			if cause := map[string]string{"session error": "device lost", "session panic": "nil weights", "cancel": "interrupted"}[name]; !strings.Contains(err.Error(), cause) || !strings.Contains(err.Error(), "of 60 episodes done") {
				t.Errorf("%s: error %v does not say why or how far", name, err)
			}
			if name != "cancel" && !errors.Is(err, rollout.ErrSession) {
				t.Errorf("%s: %v is no session error", name, err)
			}
		}
		gotT, gotTok := files(t, dir)
		if stops < 2 || !bytes.Equal(gotT, wantT) || !bytes.Equal(gotTok, wantTok) {
			t.Errorf("%s: after %d stops the files differ from those of one run", name, stops)
		}
	}
}

// An error in one slot ends that episode; the others go on.
func TestPolicyErrorEndsOneEpisode(t *testing.T) {
	s := &mini.Suite{Count: 9}
	p := random()
	p.reply = func(key policy.Key, r *policy.Reply) {
		if key.Task == "mini-0004" {
			*r = policy.Reply{Err: errors.New("quota")}
		}
	}
	opt := options()
	opt.MaxErrors = 0.1
	trajs, err := rollout.Run(context.Background(), s, p, rollout.Attempts(tasksOf(t, s), 1), opt)
	if err != nil || len(trajs) != 9 {
		t.Fatalf("%d episodes, %v", len(trajs), err)
	}
	for i, tr := range trajs {
		if (tr.End == trajectory.Error) != (i == 4) || (i == 4) != (tr.Cause == "quota") {
			t.Errorf("episode %d: end %s, cause %q", i, tr.End, tr.Cause)
		}
	}
}

// What breaks the machinery stops the run with its cause, soon, and the episodes that were done are returned.
func TestFaultsStopTheRun(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	third := func(run func(context.Context, map[string]any) (tool.Observation, error)) func(suite.Task, []tool.Tool) []tool.Tool {
		return func(t suite.Task, tools []tool.Tool) []tool.Tool {
			if t.ID == "mini-0003" {
				tools[0] = tool.Func{Def: tools[0].Spec(), Run: run}
			}
			return tools
		}
	}
	all := func(p withTokens) withTokens { p.Policy = scripted.AlwaysAllTools(mini.Rules{}); return p }
	for _, c := range []struct {
		name  string
		suite suite.Suite
		p     withTokens
		want  error
		text  string
	}{
		{"tool hangs", &mini.Suite{Count: 9, Deadline: 50 * time.Millisecond, Wrap: third(func(context.Context, map[string]any) (tool.Observation, error) {
			<-hang
			return tool.Observation{}, nil
		})}, all(withTokens{}), tool.ErrDeadline, "mini-0003"},
		{"tool panics", &mini.Suite{Count: 9, Wrap: third(func(context.Context, map[string]any) (tool.Observation, error) { panic("index out of range") })}, all(withTokens{}), tool.ErrPanic, "index out of range"},
		{"verifier panics", panicking{&mini.Suite{Count: 9}}, all(withTokens{}), rollout.ErrPanic, "no gold"},
		{"session hangs", &mini.Suite{Count: 9}, all(withTokens{step: func(n int, _ []policy.Reply) error {
			if n == 2 {
				<-hang
			}
			return nil
		}}), rollout.ErrStuck, "step"},
		{"start fails", &mini.Suite{Count: 9}, all(withTokens{start: func(k policy.Key, _ suite.Prompt) error {
			if k.Task == "mini-0005" {
				return errors.New("prompt of 9000 tokens, context is 512")
			}
			return nil
		}}), rollout.ErrSession, "mini-0005"},
	} {
		opt := options()
		opt.Slots, opt.StepDeadline = 4, 100*time.Millisecond
		s := &mini.Suite{Count: 9}
		began := time.Now()
		trajs, err := rollout.Run(context.Background(), c.suite, c.p, rollout.Attempts(tasksOf(t, s), 1), opt)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "goroutine") {
			t.Errorf("%s: %v, want %v and %q", c.name, err, c.want, c.text)
		}
		if d := time.Since(began); d > 5*time.Second || len(trajs) == 9 {
			t.Errorf("%s: stopped after %v with %d episodes", c.name, d, len(trajs))
		}
	}
}

type panicking struct{ *mini.Suite }

func (panicking) Verify(t suite.Task, _ string, _ []tool.Observation) suite.Verdict {
	if t.ID == "mini-0003" {
		panic("no gold")
	}
	return suite.Verdict{}
}

func TestThousandsAtOnce(t *testing.T) {
	s := &mini.Suite{Count: 3000}
	opt := options()
	opt.Slots = 3000
	last := rollout.Progress{}
	opt.Progress = func(p rollout.Progress) {
		if p.Done < last.Done {
			t.Errorf("progress went back from %d to %d", last.Done, p.Done)
		}
		last = p
	}
	trajs, err := rollout.Run(context.Background(), s, scripted.Oracle(tasksOf(t, s)), rollout.Attempts(tasksOf(t, s), 1), opt)
	if err != nil || len(trajs) != 3000 {
		t.Fatalf("%d episodes, %v", len(trajs), err)
	}
	if last.Done != 3000 || last.Total != 3000 || last.MeanReward != 1 || last.Solved != 1 || last.Left != 0 {
		t.Errorf("progress %+v", last)
	}
	for _, tr := range trajs {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Fatalf("%s: %+v", tr.EpisodeID, tr.Outcome)
		}
	}
}

// A second set of items on the same files plays only what is new, and keeps what other sets put there.
func TestMoreItems(t *testing.T) {
	s := &mini.Suite{Count: 10}
	dir := t.TempDir()
	tasks := tasksOf(t, s)
	for _, n := range []int{4, 10} {
		out, err := rollout.OpenOutput(filepath.Join(dir, "t.jsonl"), "")
		if err != nil {
			t.Fatal(err)
		}
		fresh := 0
		p := random()
		p.start = func(policy.Key, suite.Prompt) error { fresh++; return nil }
		opt := options()
		opt.Output = out
		trajs, err := rollout.Run(context.Background(), s, p, rollout.Attempts(tasks[:n], 1), opt)
		if want := map[int]int{4: 4, 10: 6}[n]; err != nil || len(trajs) != n || fresh != want {
			t.Errorf("%d items: %d records, %d played, %v; want %d played", n, len(trajs), fresh, err, want)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}
	if kept, err := trajectory.ReadFile(filepath.Join(dir, "t.jsonl")); err != nil || len(kept) != 10 {
		t.Errorf("%d records, %v", len(kept), err)
	}
}

func TestOptionErrors(t *testing.T) {
	s := &mini.Suite{Count: 2}
	tasks := tasksOf(t, s)
	twice := []rollout.Item{{Task: tasks[0]}, {Task: tasks[1]}, {Task: tasks[0]}}
	for want, c := range map[string]func(*rollout.Options) []rollout.Item{
		"attempts":    func(*rollout.Options) []rollout.Item { return twice },
		"decoding":    func(o *rollout.Options) []rollout.Item { o.Decoding = "beam"; return nil },
		"reward":      func(o *rollout.Options) []rollout.Item { o.Reward = reward.Config{}; return nil },
		"max_turns":   func(o *rollout.Options) []rollout.Item { o.Episode.MaxTurns = -1; return nil },
		"slots":       func(o *rollout.Options) []rollout.Item { o.Slots = -1; return nil },
		"budget_mode": func(o *rollout.Options) []rollout.Item { o.Episode.Budget = "x"; return nil },
	} {
		opt := options()
		items := c(&opt)
		if _, err := rollout.Run(context.Background(), s, random(), items, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}

// Replaying the recorded texts gives the recorded verdicts, rewards included.
func TestReplay(t *testing.T) {
	s := &mini.Suite{Count: 12}
	p := random()
	n := 0
	p.reply = func(key policy.Key, r *policy.Reply) {
		// A few faults of every sort.
		switch n++; {
		case n%11 == 0:
			r.Text, r.Stop = r.Text+"\nObservation: 42", policy.StopEOS
		case n%13 == 0:
			r.Text, r.Stop = r.Text[:len(r.Text)/2], policy.StopLength
		case n%17 == 0:
			r.Text, r.Stop = r.Text[:len(r.Text)/2], policy.StopContext
		}
	}
	// The random baseline takes an invalid action for a fault of its own, so its episode then ends with an error: replayed too.
	items := rollout.Attempts(tasksOf(t, s), 2)
	opt := options()
	opt.Slots, opt.MaxErrors = 1, 1
	want, err := rollout.Run(context.Background(), s, p, items, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Slots = 16
	got, err := rollout.Run(context.Background(), s, scripted.Replay(want), items, opt)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[trajectory.EndReason]bool{}
	for i := range want {
		ends[want[i].End] = true
		for j := range want[i].Turns {
			want[i].Turns[j].Tokens = 0 // a replay samples none
		}
		a, _ := want[i].Canonical()
		b, _ := got[i].Canonical()
		if !bytes.Equal(a, b) {
			t.Errorf("%s\n%s", a, b)
		}
	}
	for _, e := range []trajectory.EndReason{trajectory.Finished, trajectory.Tokens, trajectory.Context, trajectory.Error} {
		if !ends[e] {
			t.Errorf("no episode ended with %s: the test shows less than it says", e)
		}
	}
}

func TestProgressString(t *testing.T) {
	p := rollout.Progress{Done: 5, Total: 10, Resumed: 2, Elapsed: 3 * time.Second, Left: 5 * time.Second, MeanReward: 0.5, Solved: 0.6}
	if got, want := fmt.Sprint(p), "5/10 episodes, reward 0.500, solved 0.600, 3s, 2 from an earlier run, about 5s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
