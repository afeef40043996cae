package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/reexec"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/rng"
)

// A process works on the kind of a training, the step to be killed at (0: none) and a folder.
func TestMain(m *testing.M) {
	reexec.Main(m, func(on string) error {
		part := strings.SplitN(on, ":", 3)
		return child(part[0], part[1], part[2])
	})
}

// child trains. After some steps of its own it is killed with SIGKILL a moment later, while it works on, or two steps on
// at the latest.
func child(kind, killAt, dir string) error {
	choice := lm.KindGo
	if os.Getenv("GOMLX_BACKEND") != "" {
		choice = "auto"
	}
	b, err := lm.OpenBackend(choice)
	if err != nil {
		return err
	}
	m, err := lm.NewRandom(b, testConfig(), 7)
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(killAt)
	if err != nil {
		return err
	}
	taken := 0
	step := func() {
		switch taken++; {
		case at > 0 && taken == at:
			go func() {
				time.Sleep(time.Duration(at) * time.Millisecond)
				killMyself()
			}()
		case at > 0 && taken == at+2:
			killMyself()
		}
	}
	if kind == "grpo" {
		return childGRPO(m, dir, step)
	}
	if kind == "dpo" {
		cfg := DPOConfig{Run: testSFT(dir).Run, Batch: BatchConfig{MicroBatchSize: 2, Lengths: []int{40}}, Schedule: Schedule{LearningRate: 1e-2, WarmupSteps: 2}}
		cfg.Run.Resume, cfg.Run.Epochs, cfg.Run.Accumulate = true, 8, 2
		cfg.Run.Progress = func(StepLog) error { step(); return nil }
		pairs := countingPairs(40)
		_, err = DPO(context.Background(), m, pairs[:32], pairs[32:], cfg)
		return err
	}
	cfg := testSFT(dir)
	cfg.Run.Resume = true
	cfg.Run.Epochs = 12 // more steps than all the kills together can let pass, when they come as late as they may
	cfg.Run.Progress = func(StepLog) error { step(); return nil }
	if kind == "lora" {
		if m.Adapter, err = lm.NewAdapter(m.Config, &lm.AdapterConfig{Rank: 2, Alpha: 4, TargetModules: lm.AllLinear}, 5); err != nil {
			return err
		}
		cfg.Run.Accumulate = 2
	}
	_, err = SFT(context.Background(), m, Fixed(counting(60, "train")), counting(10, "val"), cfg)
	return err
}

func killMyself() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
}

// childGRPO plays a made-up game: rollouts are random, their advantage is the share of even ids.
func childGRPO(m *lm.Model, dir string, step func()) error {
	g, err := NewGRPO(m, GRPOConfig{Seed: 2, Loss: GRPOLoss{Beta: 0.02}, Schedule: Schedule{LearningRate: 1e-2, WarmupSteps: 2}, Minibatches: 2, OldLogProbs: "recompute",
		Batch: BatchConfig{MicroBatchSize: 4, Lengths: []int{24}}})
	if err != nil {
		return err
	}
	defer g.Close()
	var state struct{ Games int }
	s, _, err := g.Open(GRPORunConfig{Dir: dir, Resume: true, Log: slog.New(slog.DiscardHandler)}, &state)
	if err != nil {
		return err
	}
	defer s.Close()
	for it := s.Updates(); it < 24; it++ {
		if lines, err := s.Lines(); err != nil || len(lines) != it || it > 0 && lines[it-1].Step != it {
			return fmt.Errorf("%d lines of metrics before update %d (%v): what a rule to stop by looks at is not what was done", len(lines), it+1, err)
		}
		u, err := g.Update(context.Background(), randomRollouts(it, 12))
		if err != nil {
			return err
		}
		state.Games += 12
		if err := s.Log(u, []Metric{{"games", float64(state.Games)}}, nil); err != nil {
			return err
		}
		if it%2 == 1 {
			if err := s.Save(state, it == 3, float64(it)); err != nil {
				return err
			}
		}
		step()
	}
	return nil
}

func randomRollouts(iteration, n int) []Rollout {
	var out []Rollout
	for i := range n {
		r := rng.New(9, "rollout", iteration, i)
		ro := Rollout{ID: fmt.Sprint(iteration, "/", i), Group: fmt.Sprint(i / 4), Truncated: i%5 == 0}
		for k := range 5 + r.IntN(12) {
			ro.IDs = append(ro.IDs, r.Int32N(24))
			sampled := uint8(0)
			if k > 2 && k%4 != 0 {
				sampled = 1
			}
			ro.Mask = append(ro.Mask, sampled)
			ro.LogProbs = append(ro.LogProbs, -3*float32(sampled))
		}
		if i/4 != 1 {
			ro.Advantage = float64(ro.IDs[3]%2)*2 - 1
		}
		out = append(out, ro)
	}
	return out
}

// TestKilledRunsResume kills runs with SIGKILL in the middle of work, resumes them, and wants the files of a run that
// was never interrupted, to the last digit.
func TestKilledRunsResume(t *testing.T) {
	for _, kind := range []string{"sft", "lora", "dpo", "grpo"} {
		t.Run(kind, func(t *testing.T) {
			whole, killed := t.TempDir(), t.TempDir()
			runChild(t, kind, whole, 0)
			// Before the first checkpoint, right after one, between two, and again at the same place.
			for _, steps := range []int{2, 3, 4, 1, 1} {
				runChild(t, kind, killed, steps)
			}
			runChild(t, kind, killed, 0)
			for _, name := range []string{"metrics.jsonl", "checkpoints/" + bestFile} {
				if got, want := readFile(t, killed, name), readFile(t, whole, name); !bytes.Equal(got, want) {
					t.Errorf("%s differs after kills:\n%s\nwant\n%s", name, got, want)
				}
			}
			a, b := lastCheckpoint(t, killed), lastCheckpoint(t, whole)
			if a.Step != b.Step || a.Tensors != b.Tensors {
				t.Errorf("last checkpoint: step %d with tensors %.12s, want step %d with %.12s", a.Step, a.Tensors, b.Step, b.Tensors)
			}
			if n := bytes.Count(readFile(t, whole, "metrics.jsonl"), []byte("\n")); n < 8 {
				t.Errorf("only %d lines of metrics", n)
			}
		})
	}
}

// runChild runs the child to its end, or to where it is killed.
func runChild(t *testing.T, kind, dir string, killAt int) {
	t.Helper()
	cmd := reexec.Command(t, fmt.Sprintf("%s:%d:%s", kind, killAt, dir))
	out, err := cmd.CombinedOutput()
	if killAt == 0 && err != nil {
		t.Fatalf("child %s: %v\n%s", kind, err, out)
	}
	if killAt > 0 && (err == nil || !strings.Contains(err.Error(), "killed")) {
		t.Fatalf("child %s was not killed after %d steps: %v\n%s", kind, killAt, err, out)
	}
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lastCheckpoint(t *testing.T, dir string) checkpoint {
	t.Helper()
	c, _, skipped, err := store{dir: filepath.Join(dir, "checkpoints")}.latest(nil)
	if err != nil || len(skipped) > 0 {
		t.Fatalf("last checkpoint of %s: %v, skipped %v", dir, err, skipped)
	}
	return c
}

// The time of a run is that of all its processes, up to the last checkpoint of each.
func TestSecondsOfAResumedRun(t *testing.T) {
	dir, clock := t.TempDir(), time.Unix(0, 0)
	var seconds []float64
	for range 3 {
		g, err := NewGRPO(testModel(t, backend(t)), GRPOConfig{Schedule: Schedule{LearningRate: 1e-2, WarmupSteps: 2}, Batch: BatchConfig{MicroBatchSize: 4, Lengths: []int{24}}})
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := g.Open(GRPORunConfig{Dir: dir, Resume: true, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return clock }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := g.Update(t.Context(), randomRollouts(s.Updates(), 12))
		if err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(10 * time.Second)
		if err := errors.Join(s.Log(u, nil, nil), s.Save(nil, false, 0)); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(time.Second)
		seconds = append(seconds, s.Seconds())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		g.Close()
		clock = clock.Add(time.Hour) // between two processes
	}
	if want := []float64{11, 21, 31}; !slices.Equal(seconds, want) {
		t.Errorf("seconds %v, want %v", seconds, want)
	}
}

// trainUntil trains in a folder and is interrupted at a step; 0 lets it end.
func trainUntil(t *testing.T, dir string, resume bool, step int) (Summary, error) {
	t.Helper()
	cfg := testSFT(dir)
	cfg.Run.Resume = resume
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Run.Progress = func(s StepLog) error {
		if s.Step == step {
			cancel()
		}
		return nil
	}
	return SFT(ctx, testModel(t, backend(t)), Fixed(counting(60, "train")), counting(10, "val"), cfg)
}

// A checkpoint that was damaged on disk is found out, said so, and the one before it is used: to the same end.
func TestDamagedCheckpoints(t *testing.T) {
	train := func(dir string, resume bool, max int) (Summary, error) { return trainUntil(t, dir, resume, max) }
	whole := t.TempDir()
	if _, err := train(whole, false, 0); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(dir string) error{
		"torn tensors": func(dir string) error {
			p := filepath.Join(dir, tensorsFile)
			st, err := os.Stat(p)
			if err != nil {
				return err
			}
			return os.Truncate(p, st.Size()/2)
		},
		"flipped bit": func(dir string) error { return flip(filepath.Join(dir, tensorsFile), -5) },
		"torn state":  func(dir string) error { return os.Truncate(filepath.Join(dir, stateFile), 40) },
		"other step": func(dir string) error {
			p := filepath.Join(dir, stateFile)
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, bytes.Replace(b, []byte(`"step": `), []byte(`"step": 1`), 1), 0o644)
		},
		"no tensors": func(dir string) error { return os.Remove(filepath.Join(dir, tensorsFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := train(dir, false, 7); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			s := store{dir: filepath.Join(dir, "checkpoints")}
			names, err := s.list()
			if err != nil || len(names) < 2 {
				t.Fatalf("checkpoints %v, %v", names, err)
			}
			newest := names[len(names)-1]
			if err := damage(filepath.Join(s.dir, newest)); err != nil {
				t.Fatal(err)
			}
			sum, err := train(dir, true, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(s.dir, damagedPrefix+newest)); err != nil {
				t.Errorf("the damaged checkpoint is not set aside: %v", err)
			}
			if len(sum.Warnings) != 1 || !strings.Contains(sum.Warnings[0], newest) {
				t.Errorf("warnings %q do not name %s", sum.Warnings, newest)
			}
			if sum.ResumedFrom == 0 || sum.ResumedFrom >= 7 {
				t.Errorf("resumed from step %d", sum.ResumedFrom)
			}
			if got, want := readFile(t, dir, "metrics.jsonl"), readFile(t, whole, "metrics.jsonl"); !bytes.Equal(got, want) {
				t.Errorf("the curve differs:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A run that was interrupted, and whose curve was cut or changed since, goes back to a checkpoint that the curve still covers, to the
// start where there is none: to the same end. Times that are gone decide nothing.
func TestShortenedMetrics(t *testing.T) {
	train := func(dir string, max int) (Summary, error) { return trainUntil(t, dir, true, max) }
	whole := t.TempDir()
	if _, err := train(whole, 0); err != nil {
		t.Fatal(err)
	}
	want := readFile(t, whole, metricsFile)
	edit := func(name string, change func(b []byte) []byte) func(dir string) error {
		return func(dir string) error {
			return os.WriteFile(filepath.Join(dir, name), change(readFile(t, dir, name)), 0o644)
		}
	}
	upTo := func(lines int) func(b []byte) []byte {
		return func(b []byte) []byte { return bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:lines], nil) }
	}
	for _, c := range []struct {
		name   string
		damage func(dir string) error
		warns  bool
		atMost int // the step that the run goes on from
	}{
		{"the last line is torn", edit(metricsFile, func(b []byte) []byte { return b[:len(b)-3] }), true, 6},
		{"six lines", edit(metricsFile, upTo(6)), true, 6},
		{"one line", edit(metricsFile, upTo(1)), true, 0},
		{"emptied", edit(metricsFile, upTo(0)), true, 0},
		{"removed", func(dir string) error { return os.Remove(filepath.Join(dir, metricsFile)) }, true, 0},
		{"a digit changed", edit(metricsFile, func(b []byte) []byte { return bytes.Replace(b, []byte(`"loss":`), []byte(`"loss":1`), 1) }), true, 0},
		{"longer", edit(metricsFile, func(b []byte) []byte { return append(b, "{\"step\":8,\"lo"...) }), false, 7},
		{"no times", func(dir string) error { return os.Remove(filepath.Join(dir, timingFile)) }, false, 7},
		{"torn times", edit(timingFile, func(b []byte) []byte { return b[:len(b)-9] }), false, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := train(dir, 7); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			sum, err := train(dir, 0)
			if err != nil {
				t.Fatal(err)
			}
			if sum.ResumedFrom > c.atMost || !c.warns && sum.ResumedFrom != c.atMost {
				t.Errorf("resumed from step %d, want at most %d", sum.ResumedFrom, c.atMost)
			}
			if warned := slices.ContainsFunc(sum.Warnings, func(w string) bool { return strings.Contains(w, metricsFile) }); warned != c.warns {
				t.Errorf("warnings %q", sum.Warnings)
			}
			if got := readFile(t, dir, metricsFile); !bytes.Equal(got, want) {
				t.Errorf("the curve differs:\n%s\nwant\n%s", got, want)
			}
			if a, b := lastCheckpoint(t, dir), lastCheckpoint(t, whole); a.Step != b.Step || a.Tensors != b.Tensors {
				t.Errorf("ended at step %d with tensors %.12s, want %d with %.12s", a.Step, a.Tensors, b.Step, b.Tensors)
			}
			for line := range bytes.Lines(readFile(t, dir, timingFile)) {
				if line[0] != '{' || !bytes.HasSuffix(line, []byte("}\n")) {
					t.Errorf("a torn line of times: %q", line)
				}
			}
		})
	}
}

func flip(path string, fromEnd int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[len(b)+fromEnd] ^= 1
	return os.WriteFile(path, b, 0o644)
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	dir := t.TempDir()
	data := counting(30, "train")
	cfg := testSFT(dir)
	if _, err := SFT(t.Context(), testModel(t, backend(t)), Fixed(data), nil, cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := SFT(t.Context(), testModel(t, backend(t)), Fixed(data), nil, cfg); err == nil || !strings.Contains(err.Error(), "earlier run") {
		t.Errorf("a second run in the folder: %v", err)
	}
	cfg.Run.Resume = true
	other := cfg
	other.Optimizer.WeightDecay = 0.5
	if _, err := SFT(t.Context(), testModel(t, backend(t)), Fixed(data), nil, other); err == nil || !strings.Contains(err.Error(), "optimizer.weight_decay = 0.01, this run has 0.5") {
		t.Errorf("another configuration: %v", err)
	}
	// Other data of the same length, on a run that is not done.
	dir = t.TempDir()
	cfg = testSFT(dir)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Run.Progress = func(StepLog) error { cancel(); return nil }
	if _, err := SFT(ctx, testModel(t, backend(t)), Fixed(data), nil, cfg); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	changed := append([]Example(nil), data...)
	changed[3].IDs = append([]int32(nil), changed[3].IDs...)
	changed[3].IDs[1]++
	cfg.Run.Resume, cfg.Run.Progress = true, nil
	if _, err := SFT(t.Context(), testModel(t, backend(t)), Fixed(changed), nil, cfg); err == nil || !strings.Contains(err.Error(), "data of epoch 0") {
		t.Errorf("other data: %v", err)
	}
}

// A checkpoint whose weights or moments are no sound numbers is neither written nor gone on from, and its tensor is named.
func TestUnsoundCheckpoints(t *testing.T) {
	for name, c := range map[string]struct {
		prefix string
		value  float32
		says   string
	}{
		"weight":        {"param.", float32(math.NaN()), "the value NaN at [0"},
		"first moment":  {"m.", float32(math.Inf(1)), "the value +Inf at [0"},
		"second moment": {"v.", -1, "a mean of squares"},
	} {
		dir := t.TempDir()
		cfg := testSFT(dir)
		cfg.Run.MaxSteps, cfg.Run.SaveEvery, cfg.Run.KeepLast = 4, 2, 5
		data := Fixed(counting(30, "train"))
		if _, err := SFT(t.Context(), testModel(t, backend(t)), data, nil, cfg); err != nil {
			t.Fatal(err)
		}
		s := store{filepath.Join(dir, "checkpoints"), 5}
		at, ts, skipped, err := s.latest(nil)
		if err != nil || len(skipped) > 0 || at.Step != 4 {
			t.Fatalf("step %d, %v, %v", at.Step, skipped, err)
		}
		// As another program would have written it: with hashes that fit.
		var all []safetensors.Tensor
		changed := ""
		for _, n := range slices.Sorted(maps.Keys(ts)) {
			x := ts[n]
			if changed == "" && strings.HasPrefix(n, c.prefix) {
				x.Data[0], changed = c.value, n
			}
			all = append(all, x)
		}
		folder := s.path(4)
		if err := safetensors.WriteFile(filepath.Join(folder, tensorsFile), all, nil); err != nil {
			t.Fatal(err)
		}
		if at.Tensors, err = hashFile(filepath.Join(folder, tensorsFile)); err != nil {
			t.Fatal(err)
		}
		at.Self = at.sum()
		if err := writeJSON(filepath.Join(folder, stateFile), at); err != nil {
			t.Fatal(err)
		}
		back, _, skipped, err := s.latest(nil)
		if err != nil || back.Step != 2 || len(skipped) != 1 || !strings.Contains(skipped[0].Error(), changed) || !strings.Contains(skipped[0].Error(), c.says) {
			t.Errorf("%s: went back to step %d (%v), for %v; want step 2, and %q of %s said", name, back.Step, err, skipped, c.says, changed)
		}
	}
}
