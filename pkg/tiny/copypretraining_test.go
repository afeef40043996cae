package tiny

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/train"
)

func backend(t testing.TB) *lm.Backend {
	t.Helper()
	b, err := lm.OpenBackend("go")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// small returns settings for a few seconds: there are 16 ids to copy, and a few dozen steps at least teach which ids these are.
func small() (*lm.Config, CopyPretraining, Curriculum) {
	cur := Curriculum{Separator: 0, RowStart: 1}
	for id := range int32(16) {
		cur.Vocabulary = append(cur.Vocabulary, 2+id)
	}
	p := Preset{Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 16, RopeTheta: 1e4, MaxPositions: 32}
	return p.Config(18, 0), CopyPretraining{Steps: 60, MicroBatchSize: 8, RowLength: 24, VocabularyStart: 16, LearningRate: 0.02, WarmupSteps: 2, TargetCopyLoss: 2.7, MaxCopyLoss: 2.75, Attempts: 2, CheckEvery: 5}, cur
}

func quiet(t *testing.T) {
	t.Helper()
	old := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(old) })
}

// pretrain runs copy pre-training and returns the bytes of its model too.
func pretrain(t *testing.T, ctx context.Context, c *lm.Config, w CopyPretraining, cur Curriculum, seed uint64, dir string, progress Progress) (string, PretrainingResult, error) {
	t.Helper()
	m, res, err := Pretrain(ctx, backend(t), c, w, cur, seed, dir, progress)
	res.Seconds = 0
	if m == nil {
		return "", res, err
	}
	defer m.Weights.Free()
	out := t.TempDir()
	if err := m.Save(out); err != nil {
		t.Fatal(err)
	}
	b, err2 := os.ReadFile(filepath.Join(out, "model.safetensors"))
	if err2 != nil {
		t.Fatal(err2)
	}
	return string(b), res, err
}

// Pre-training ends as soon as held-out rows are copied well enough, and says what it took.
func TestPretrainingAccepts(t *testing.T) {
	quiet(t)
	c, w, cur := small()
	var last int
	model, res, err := pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), func(part string, step, of int, loss float64) {
		if step != last+1 || of != w.Steps || !(loss > 0) {
			t.Errorf("progress %d of %d, loss %v after step %d", step, of, loss, last)
		}
		last = step
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Attempts) != 1 || model == "" {
		t.Fatalf("%+v", res)
	}
	a := res.Attempts[0]
	t.Logf("%+v", res)
	if !a.Accepted || a.CopyLoss > w.TargetCopyLoss || a.Steps >= w.Steps || a.Steps%w.CheckEvery != 0 || a.Steps != last || res.Steps != a.Steps || res.TrainedTokens < int64(a.Steps*w.MicroBatchSize) {
		t.Errorf("%+v, %d steps in all", res, last)
	}
}

// With too few steps to reach the target, every attempt fails. Each starts from other weights. The error names the loss of each
// attempt and what to change.
func TestPretrainingIsStuck(t *testing.T) {
	quiet(t)
	c, w, cur := small()
	w.Steps, w.TargetCopyLoss, w.MaxCopyLoss, w.Attempts = 3, 0.2, 0.6, 3
	model, res, err := pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), nil)
	if !errors.Is(err, ErrStuck) || model != "" || len(res.Attempts) != 3 || res.Steps != 9 {
		t.Fatalf("%v, %+v", err, res)
	}
	inits := map[uint64]bool{}
	for _, a := range res.Attempts {
		inits[a.InitSeed] = true
		if a.Accepted || a.CopyLoss <= w.MaxCopyLoss || a.Steps != 3 || !strings.Contains(err.Error(), fmt.Sprint(math.Round(a.CopyLoss*1000)/1000)) {
			t.Errorf("attempt %+v, error %v", a, err)
		}
	}
	if len(inits) != 3 || !strings.Contains(err.Error(), "copy_pretraining.steps") || !strings.Contains(err.Error(), "0.6") {
		t.Errorf("%d different starts, error %v", len(inits), err)
	}
}

// An attempt without hope ends at the first check after GiveUpStep steps, and the next one begins.
func TestHopelessAttemptsEndEarly(t *testing.T) {
	quiet(t)
	c, w, cur := small()
	w.Steps, w.TargetCopyLoss, w.MaxCopyLoss, w.GiveUpAbove, w.GiveUpAt, w.CheckEvery = 40, 0.2, 0.6, 0.7, 7, 5
	_, res, err := pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), nil)
	if !errors.Is(err, ErrStuck) || len(res.Attempts) != 2 {
		t.Fatalf("%v, %+v", err, res)
	}
	for _, a := range res.Attempts {
		if a.Steps != 10 || a.Accepted || a.CopyLoss <= w.GiveUpAbove {
			t.Errorf("%+v, want it to end after 10 steps", a)
		}
	}
	w.GiveUpAbove, w.Steps = 100, 12 // with hope it goes on to its end
	if _, res, err = pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), nil); !errors.Is(err, ErrStuck) || res.Attempts[0].Steps != 12 {
		t.Errorf("%v, %+v, want 12 steps", err, res)
	}
}

// Pre-training that is interrupted at any step of any attempt, or after its end, comes to the same verdicts and the same weights.
// The last loss of each attempt is above its best loss, so the test fails if a verdict uses the best one.
func TestPretrainingResumes(t *testing.T) {
	quiet(t)
	c, w, cur := small()
	w.Steps, w.CheckEvery, w.LearningRate, w.TargetCopyLoss, w.MaxCopyLoss, w.Attempts = 8, 1, 0.2, 0.01, 0.02, 2
	var seed uint64
	var probe PretrainingResult
	for seed = 1; ; seed++ {
		if seed > 12 {
			t.Fatal("no seed whose first attempt ends worse than its best and than the second")
		}
		dir := t.TempDir()
		var err error
		if _, probe, err = pretrain(t, t.Context(), c, w, cur, seed, dir, nil); !errors.Is(err, ErrStuck) {
			t.Fatal(err)
		}
		if best := bestLoss(t, filepath.Join(dir, "attempt-0")); probe.Attempts[0].CopyLoss > probe.Attempts[1].CopyLoss && best < probe.Attempts[0].CopyLoss {
			w.MaxCopyLoss = max(best, probe.Attempts[1].CopyLoss)
			break
		}
	}
	want, res, err := pretrain(t, t.Context(), c, w, cur, seed, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Attempts) != 2 || res.Attempts[0].Accepted || !res.Attempts[1].Accepted {
		t.Fatalf("%+v, want the second attempt accepted", res)
	}
	dir := t.TempDir()
	for _, stop := range []int{3, 2, 6} { // within the first attempt, again, and within the second
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, _, err := pretrain(t, ctx, c, w, cur, seed, dir, func(string, int, int, float64) {
			if n++; n == stop {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped after %d steps: %v", stop, err)
		}
	}
	for _, when := range []string{"after interruptions", "after its end"} {
		got, again, err := pretrain(t, t.Context(), c, w, cur, seed, dir, nil)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got != want || !reflect.DeepEqual(again, res) {
			t.Errorf("%s: %+v, uninterrupted %+v, equal weights %v", when, again, res, got == want)
		}
	}
}

func bestLoss(t *testing.T, dir string) float64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for line := range strings.Lines(string(b)) {
		var s train.StepLog
		if err := s.UnmarshalJSON([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if v, ok := s.Get("val/loss"); ok {
			all = append(all, v)
		}
	}
	return slices.Min(all)
}

func TestPretrainingMistakesAreNamed(t *testing.T) {
	for want, change := range map[string]func(w *CopyPretraining, cur *Curriculum){
		"copy_pretraining.steps is 0":            func(w *CopyPretraining, _ *Curriculum) { w.Steps = 0 },
		"copy_pretraining.micro_batch_size is 0": func(w *CopyPretraining, _ *Curriculum) { w.MicroBatchSize = 0 },
		"copy_pretraining.attempts is -1":        func(w *CopyPretraining, _ *Curriculum) { w.Attempts = -1 },
		"copy_pretraining.check_every is 0":      func(w *CopyPretraining, _ *Curriculum) { w.CheckEvery = 0 },
		"max_copy_loss 0.1":                      func(w *CopyPretraining, _ *Curriculum) { w.MaxCopyLoss = 0.1 },
		"target_copy_loss is 0":                  func(w *CopyPretraining, _ *Curriculum) { w.TargetCopyLoss = 0 },
		"start 7":                                func(w *CopyPretraining, _ *Curriculum) { w.VocabularyStart = 7 },
		"3 ids to copy":                          func(_ *CopyPretraining, cur *Curriculum) { cur.Vocabulary = cur.Vocabulary[:3] },
		"the model's vocabulary":                 func(_ *CopyPretraining, cur *Curriculum) { cur.Vocabulary[3] = 99 },
		"length 20 must":                         func(w *CopyPretraining, _ *Curriculum) { w.RowLength = 20 },
		"max_positions 32":                       func(w *CopyPretraining, _ *Curriculum) { w.RowLength = 64 },
	} {
		c, w, cur := small()
		change(&w, &cur)
		if _, _, err := pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}

// After copying come the steps in which numbers are compared, where the suite's texts do so; the share that is right then is
// reported, and interrupted pre-training goes on to the same model.
func TestPretrainingCompares(t *testing.T) {
	quiet(t)
	c, w, cur := small()
	for id := range int32(10) {
		cur.Digits = append(cur.Digits, 2+id)
	}
	plain, res, err := pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), nil)
	if err != nil || res.Attempts[0].CompareAccuracy != nil {
		t.Fatalf("without comparisons: %+v, %v", res, err)
	}
	cur.Above, cur.Yes, cur.No = 12, 13, 14
	if same, _, err := pretrain(t, t.Context(), c, w, cur, 1, t.TempDir(), nil); err != nil || same != plain {
		t.Errorf("with 0 steps of comparing another model than without, %v", err)
	}
	w.CompareSteps, w.CompareLongSteps = 6, 4
	dir := t.TempDir()
	parts := map[string]int{}
	model, res, err := pretrain(t, t.Context(), c, w, cur, 1, dir, func(part string, step, of int, loss float64) { parts[part]++ })
	if err != nil {
		t.Fatal(err)
	}
	a := res.Attempts[0]
	if a.CompareAccuracy == nil || *a.CompareAccuracy < 0 || *a.CompareAccuracy > 1 || res.Steps != a.Steps+w.CompareSteps+w.CompareLongSteps || model == plain {
		t.Errorf("attempt %+v of %+v", a, res)
	}
	if parts["copying"] != a.Steps || parts["comparing"] != w.CompareSteps+w.CompareLongSteps {
		t.Errorf("progress of %v steps", parts)
	}
	if again, _, err := pretrain(t, t.Context(), c, w, cur, 1, dir, nil); err != nil || again != model {
		t.Errorf("resumed after its end: another model, %v", err)
	}
}
