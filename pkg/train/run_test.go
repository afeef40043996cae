package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

func testConfig() *lm.Config {
	return &lm.Config{Vocab: 24, Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 32, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 64, Pad: -1}
}

func testModel(t testing.TB, b *lm.Backend) *lm.Model {
	t.Helper()
	m, err := lm.NewRandom(b, testConfig(), 7)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// counting makes examples that a tiny model learns in a few steps: a random start, then every id one above the last.
func counting(n int, purpose string) []Example {
	var out []Example
	for i := range n {
		r := rng.New(1, purpose, i)
		e := Example{ID: fmt.Sprintf("%s-%d", purpose, i)}
		for k := range 4 + r.IntN(7) {
			if k == 0 {
				e.IDs, e.Mask = append(e.IDs, r.Int32N(24)), append(e.Mask, 0)
			} else {
				e.IDs, e.Mask = append(e.IDs, (e.IDs[k-1]+1)%24), append(e.Mask, 1)
			}
		}
		out = append(out, e)
	}
	return out
}

func testSFT(dir string) SFTConfig {
	return SFTConfig{
		Run:   RunConfig{Seed: 3, Epochs: 3, EvalEvery: 4, SaveEvery: 3, Dir: dir, Log: slog.New(slog.DiscardHandler)},
		Batch: BatchConfig{Rows: 4, Lengths: []int{24}}, Optimizer: AdamW{WeightDecay: 0.01, MaxGradNorm: 1},
		Schedule: Schedule{Kind: "cosine", Peak: 3e-2, Warmup: 2, Floor: 0.1},
	}
}

func TestSFTLearns(t *testing.T) {
	dir := t.TempDir()
	m := testModel(t, backend(t))
	cfg := testSFT(dir)
	cfg.Run.Epochs, cfg.Run.RestoreBest = 6, true
	var lines []StepLog
	cfg.Run.Progress = func(s StepLog) error { lines = append(lines, s); return nil }
	val := counting(20, "val")
	sum, err := SFT(t.Context(), m, Fixed(counting(60, "train")), val, cfg)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := lines[0].Get("loss")
	last, _ := sum.Last.Get("loss")
	if last > first/2 {
		t.Errorf("loss went from %v to %v", first, last)
	}
	if lr, _ := lines[0].Get("lr"); lr != 0 {
		t.Errorf("the first step of a warm-up has lr %v, want 0", lr)
	}
	if len(lines) != sum.Steps || sum.Best == nil {
		t.Errorf("%d steps, %d reported, best %v", sum.Steps, len(lines), sum.Best)
	}
	var trained, processed int64
	for _, e := range counting(60, "train") {
		trained += 6 * int64(trainedTokens(e.Mask))
		processed += 6 * int64(len(e.IDs))
	}
	if sum.TrainedTokens != trained || sum.ProcessedTokens != processed {
		t.Errorf("counted %d trained and %d processed tokens, want %d and %d", sum.TrainedTokens, sum.ProcessedTokens, trained, processed)
	}
	if sum.Compilations != 2 { // the step and the scoring of validation: one static shape
		t.Errorf("%d compilations, want 2", sum.Compilations)
	}
	// The model is the best one: validating it again gives the best value.
	r, err := newSFT(m, Fixed(val), val, SFTConfig{Run: RunConfig{}, Batch: cfg.Batch})
	if err != nil {
		t.Fatal(err)
	}
	defer r.learner.close()
	again, err := r.course.evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again[0].Value != sum.Best.Value {
		t.Errorf("the restored model validates at %v, the best was %v", again[0].Value, sum.Best.Value)
	}
	t.Logf("loss %.3f to %.3f in %d steps, best validation %.3f at step %d", first, last, sum.Steps, sum.Best.Value, sum.Best.Step)
}

// When validation gets worse, its best checkpoint outlives the newest ones and is what the model ends with.
func TestRestoreBest(t *testing.T) {
	dir := t.TempDir()
	cfg := testSFT(dir)
	cfg.Run.RestoreBest, cfg.Run.KeepLast, cfg.Run.EvalEvery, cfg.Run.SaveEvery = true, 1, 1, 1
	val := counting(10, "val")
	for i := range val { // counts down: the better the training, the worse this
		for k := 1; k < len(val[i].IDs); k++ {
			val[i].IDs[k] = (val[i].IDs[k-1] + 23) % 24
		}
	}
	m := testModel(t, backend(t))
	sum, err := SFT(t.Context(), m, Fixed(counting(60, "train")), val, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Best.Step > sum.Steps/2 {
		t.Fatalf("the best validation is at step %d of %d", sum.Best.Step, sum.Steps)
	}
	s := store{dir: filepath.Join(dir, "checkpoints")}
	names, err := s.list()
	if err != nil || len(names) != 2 {
		t.Errorf("checkpoints %v, want the best and the last; %v", names, err)
	}
	_, ts, err := s.read(filepath.Base(s.path(sum.Best.Step)))
	if err != nil {
		t.Fatal(err)
	}
	host, err := m.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range host {
		if !slices.Equal(p.Data, ts["param."+p.Name].Data) {
			t.Errorf("%s is not that of the best checkpoint", p.Name)
		}
	}
}

// Packing, the row length and the number of micro-batches must not change what is learned.
func TestPackingChangesNothing(t *testing.T) {
	examples := counting(24, "train")
	curve := func(batch BatchConfig, accumulate int) []float64 {
		cfg := testSFT("")
		cfg.Run.Accumulate, cfg.Batch, cfg.Run.Epochs = accumulate, batch, 0
		cfg.Run.MaxSteps = 5
		var losses []float64
		cfg.Run.Progress = func(s StepLog) error {
			x, _ := s.Get("loss")
			losses = append(losses, x)
			return nil
		}
		if _, err := SFT(t.Context(), testModel(t, backend(t)), Fixed(examples), nil, cfg); err != nil {
			t.Fatal(err)
		}
		return losses
	}
	want := curve(BatchConfig{Rows: 24, Lengths: []int{12}, Unpacked: true}, 1)
	for name, got := range map[string][]float64{
		"packed":           curve(BatchConfig{Rows: 10, Lengths: []int{40}}, 1),
		"accumulated":      curve(BatchConfig{Rows: 6, Lengths: []int{12}, Unpacked: true}, 4),
		"packed into many": curve(BatchConfig{Rows: 1, Lengths: []int{24}}, 50),
		"buckets":          curve(BatchConfig{Rows: 3, Lengths: []int{6, 8, 12}, Unpacked: true}, 8),
	} {
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-5 {
				t.Errorf("%s: loss of step %d is %v, one row an example gives %v", name, i, got[i], want[i])
			}
		}
	}
}

func TestPlanKeepsEveryExampleOnce(t *testing.T) {
	r := rng.New(5, "lengths")
	lengths := make([]int, 300)
	sum := 0
	for i := range lengths {
		lengths[i] = 1 + r.IntN(60)
		sum += lengths[i]
	}
	for _, c := range []BatchConfig{{Rows: 4, Lengths: []int{64}}, {Rows: 1, Lengths: []int{60}}, {Rows: 7, Lengths: []int{16, 32, 60}, Unpacked: true}} {
		micros, err := c.plan(lengths, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		room := 0
		for _, m := range micros {
			used := map[[2]int]bool{}
			room += c.Rows * m.length
			for _, p := range m.places {
				if seen[p.item] {
					t.Fatalf("%+v: item %d is placed twice", c, p.item)
				}
				seen[p.item] = true
				for k := range lengths[p.item] {
					at := [2]int{p.row, p.at + k}
					if p.row >= c.Rows || p.at+k >= m.length || used[at] {
						t.Fatalf("%+v: item %d overlaps or leaves its row at %v", c, p.item, at)
					}
					used[at] = true
				}
			}
		}
		if len(seen) != len(lengths) {
			t.Errorf("%+v: %d of %d items are placed", c, len(seen), len(lengths))
		}
		t.Logf("%+v: %d batches, %.0f%% of the positions used", c, len(micros), 100*float64(sum)/float64(room))
	}
}

func TestUserMistakesAreNamed(t *testing.T) {
	good := Example{ID: "ok", IDs: []int32{1, 2, 3}, Mask: []uint8{0, 1, 1}}
	base := testSFT("")
	for want, change := range map[string]func(e *Example, c *SFTConfig){
		"mask of 2":          func(e *Example, c *SFTConfig) { e.Mask = e.Mask[:2] },
		"no tokens":          func(e *Example, c *SFTConfig) { e.IDs, e.Mask = nil, nil },
		"mask[1] is 7":       func(e *Example, c *SFTConfig) { e.Mask = []uint8{0, 7, 1} },
		"ids[2] is 99":       func(e *Example, c *SFTConfig) { e.IDs = []int32{1, 2, 99} },
		"longest row":        func(e *Example, c *SFTConfig) { c.Batch.Lengths = []int{2} },
		"rows must":          func(e *Example, c *SFTConfig) { c.Batch.Rows = 0 },
		"lengths is empty":   func(e *Example, c *SFTConfig) { c.Batch.Lengths = nil },
		"no token to train":  func(e *Example, c *SFTConfig) { e.Mask = []uint8{1, 0, 0} },
		"restore_best needs": func(e *Example, c *SFTConfig) { c.Run.RestoreBest = true },
		"save_every":         func(e *Example, c *SFTConfig) { c.Run.SaveEvery = -1 },
		"peak":               func(e *Example, c *SFTConfig) { c.Schedule.Peak = -1 },
	} {
		e, c := good, base
		change(&e, &c)
		_, err := SFT(t.Context(), testModel(t, backend(t)), Fixed([]Example{e}), nil, c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestStopAndCancel(t *testing.T) {
	cfg := testSFT(t.TempDir())
	cfg.Run.SaveEvery = 0
	cfg.Run.Progress = func(s StepLog) error {
		if s.Step == 4 {
			return ErrStop
		}
		return nil
	}
	data := Fixed(counting(30, "train"))
	sum, err := SFT(t.Context(), testModel(t, backend(t)), data, nil, cfg)
	if err != nil || !sum.Stopped || sum.Steps != 4 {
		t.Fatalf("stopped %v after %d steps, error %v", sum.Stopped, sum.Steps, err)
	}
	// Resuming a run that was stopped in order does nothing more.
	cfg.Run.Resume = true
	if sum, err = SFT(t.Context(), testModel(t, backend(t)), data, nil, cfg); err != nil || sum.Steps != 4 {
		t.Errorf("after the resume %d steps, error %v", sum.Steps, err)
	}
	// A cancelled run leaves a checkpoint of the step it got to.
	cfg = testSFT(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Run.SaveEvery = 0
	cfg.Run.Progress = func(s StepLog) error {
		if s.Step == 2 {
			cancel()
		}
		return nil
	}
	if _, err = SFT(ctx, testModel(t, backend(t)), data, nil, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	cfg.Run.Resume, cfg.Run.Progress = true, nil
	if sum, err = SFT(t.Context(), testModel(t, backend(t)), data, nil, cfg); err != nil || sum.ResumedFrom != 2 {
		t.Errorf("resumed from %d, error %v", sum.ResumedFrom, err)
	}
}

// On XLA, where real runs train, the same seed gives the same bits, and the curve is the Go backend's but for rounding.
func TestXLARepeats(t *testing.T) {
	curve := func(b *lm.Backend) []float64 {
		cfg := testSFT("")
		cfg.Run.Epochs, cfg.Run.MaxSteps = 0, 6
		var out []float64
		cfg.Run.Progress = func(s StepLog) error {
			loss, _ := s.Get("loss")
			norm, _ := s.Get("grad_norm")
			out = append(out, loss, norm)
			return nil
		}
		if _, err := SFT(t.Context(), testModel(t, b), Fixed(counting(60, "train")), nil, cfg); err != nil {
			t.Fatal(err)
		}
		return out
	}
	xla := xlaBackend(t)
	first, again, plain := curve(xla), curve(xla), curve(openBackend(t, lm.KindGo))
	for i := range first {
		if first[i] != again[i] {
			t.Errorf("value %d: %v, then %v", i, first[i], again[i])
		}
		if math.Abs(first[i]-plain[i]) > 1e-3*math.Abs(plain[i]) {
			t.Errorf("value %d: %v on XLA, %v on Go", i, first[i], plain[i])
		}
	}
}

// childEnv makes the test binary run one training instead of the tests: kind, step to be killed at (0: none), folder.
const childEnv = "TOOLROUTE_TRAIN_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		part := strings.SplitN(spec, ":", 3)
		if err := child(part[0], part[1], part[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
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
	cfg := testSFT(dir)
	cfg.Run.Resume = true
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
	g, err := NewGRPO(m, GRPOConfig{Seed: 2, Loss: GRPOLoss{Beta: 0.02}, Schedule: Schedule{Peak: 1e-2, Warmup: 2}, Minibatches: 2, Old: "recompute",
		Batch: BatchConfig{Rows: 4, Lengths: []int{24}}})
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
	for it := s.Updates(); it < 12; it++ {
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
	for _, kind := range []string{"sft", "lora", "grpo"} {
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
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d:%s", childEnv, kind, killAt, dir))
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
	c, _, skipped, err := store{dir: filepath.Join(dir, "checkpoints")}.latest()
	if err != nil || len(skipped) > 0 {
		t.Fatalf("last checkpoint of %s: %v, skipped %v", dir, err, skipped)
	}
	return c
}

// A checkpoint that was damaged on disk is found out, said so, and the one before it is used: to the same end.
func TestDamagedCheckpoints(t *testing.T) {
	data, val := Fixed(counting(60, "train")), counting(10, "val")
	train := func(dir string, resume bool, max int) (Summary, error) {
		cfg := testSFT(dir)
		cfg.Run.Resume = resume
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg.Run.Progress = func(s StepLog) error {
			if s.Step == max {
				cancel()
			}
			return nil
		}
		return SFT(ctx, testModel(t, backend(t)), data, val, cfg)
	}
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

func TestRunFiles(t *testing.T) {
	dir := t.TempDir()
	cfg := testSFT(dir)
	now := time.Unix(1000, 0)
	cfg.Run.Now = func() time.Time { now = now.Add(time.Second / 4); return now }
	sum, err := SFT(t.Context(), testModel(t, backend(t)), Fixed(counting(60, "train")), counting(10, "val"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(readFile(t, dir, "metrics.jsonl")), []byte("\n"))
	if len(lines) != sum.Steps {
		t.Fatalf("%d lines for %d steps", len(lines), sum.Steps)
	}
	events := readEvents(t, filepath.Join(dir, "events.out.tfevents.0000000000.toolroute"))
	if events[0].version != "brain.Event:2" {
		t.Errorf("first event %+v", events[0])
	}
	byStep := map[int]map[string]float32{}
	for _, e := range events {
		if len(e.scalars) > 0 {
			byStep[e.step] = e.scalars
		}
	}
	for i, line := range lines {
		var m map[string]float64
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if int(m["step"]) != i+1 {
			t.Errorf("line %d is of step %v", i, m["step"])
		}
		for name, v := range m {
			if got := byStep[i+1][name]; name != "step" && got != float32(v) {
				t.Errorf("step %d: event %s = %v, metrics.jsonl %v", i+1, name, got, v)
			}
		}
		if _, ok := byStep[i+1]["tokens_per_second"]; !ok {
			t.Errorf("step %d has no tokens_per_second", i+1)
		}
		if _, ok := m["val/loss"]; ok != ((i+1)%4 == 0 || i+1 == sum.Steps) {
			t.Errorf("step %d: validation %v", i+1, ok)
		}
	}
	names, err := store{dir: filepath.Join(dir, "checkpoints")}.list()
	if err != nil || len(names) < 2 || len(names) > 3 { // the last two and the best
		t.Errorf("checkpoints %v, %v", names, err)
	}
	if sum.Seconds <= 0 || sum.Seconds != float64(int(sum.Seconds*4))/4 {
		t.Errorf("counted %v seconds on the given clock", sum.Seconds)
	}
}
