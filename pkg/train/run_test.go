package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"reflect"
	"slices"
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
		Batch: BatchConfig{MicroBatchSize: 4, Lengths: []int{24}}, Optimizer: AdamW{WeightDecay: 0.01, MaxGradNorm: 1},
		Schedule: Schedule{Kind: "cosine", LearningRate: 3e-2, WarmupSteps: 2, Floor: 0.1},
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
	again, err := r.method.evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again[0].Value != sum.Best.Value {
		t.Errorf("the restored model validates at %v, the best was %v", again[0].Value, sum.Best.Value)
	}
	t.Logf("loss %.3f to %.3f in %d steps, best validation %.3f at step %d", first, last, sum.Steps, sum.Best.Value, sum.Best.Step)
}

// When validation gets worse, its best checkpoint outlives the newest ones and is what the model ends with.
// A run for a number of trained tokens ends with the step that reaches it, in whatever epoch that is.
func TestTrainTokens(t *testing.T) {
	b := backend(t)
	data := counting(30, "tokens")
	perEpoch := int64(0)
	for _, e := range data {
		perEpoch += int64(trainedTokens(e.Mask))
	}
	for _, want := range []int64{1, perEpoch / 2, perEpoch, perEpoch + perEpoch/3} {
		cfg := testSFT(t.TempDir())
		cfg.Run.TrainTokens, cfg.Run.MaxSteps = want, 1 // the tokens decide
		var counts []float64
		cfg.Run.Progress = func(s StepLog) error {
			n, _ := s.Get("trained_tokens")
			counts = append(counts, n)
			return nil
		}
		sum, err := SFT(t.Context(), testModel(t, b), Fixed(data), nil, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if sum.TrainedTokens < want || sum.Steps != len(counts) || len(counts) > 1 && int64(counts[len(counts)-2]) >= want {
			t.Errorf("asked for %d tokens of %d an epoch: trained %d in %d steps, %v", want, perEpoch, sum.TrainedTokens, sum.Steps, counts)
		}
		if lr, _ := sum.Last.Get("lr"); sum.Steps > 4 && lr > 0.15*cfg.Schedule.LearningRate {
			t.Errorf("the last of %d steps has lr %v: the schedule does not end with the run", sum.Steps, lr)
		}
	}
	cfg := testSFT("")
	cfg.Run.TrainTokens = 5
	if _, err := SFT(t.Context(), testModel(t, b), Fixed(nil), nil, cfg); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("no data: %v", err)
	}
}

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
	want := curve(BatchConfig{MicroBatchSize: 24, Lengths: []int{12}, Unpacked: true}, 1)
	for name, got := range map[string][]float64{
		"packed":           curve(BatchConfig{MicroBatchSize: 10, Lengths: []int{40}}, 1),
		"accumulated":      curve(BatchConfig{MicroBatchSize: 6, Lengths: []int{12}, Unpacked: true}, 4),
		"packed into many": curve(BatchConfig{MicroBatchSize: 1, Lengths: []int{24}}, 50),
		"buckets":          curve(BatchConfig{MicroBatchSize: 3, Lengths: []int{6, 8, 12}, Unpacked: true}, 8),
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
	for _, c := range []BatchConfig{{MicroBatchSize: 4, Lengths: []int{64}}, {MicroBatchSize: 1, Lengths: []int{60}}, {MicroBatchSize: 7, Lengths: []int{16, 32, 60}, Unpacked: true}} {
		micros, err := c.plan(lengths, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		room := 0
		for _, m := range micros {
			used := map[[2]int]bool{}
			room += c.MicroBatchSize * m.length
			for _, p := range m.places {
				if seen[p.item] {
					t.Fatalf("%+v: item %d is placed twice", c, p.item)
				}
				seen[p.item] = true
				for k := range lengths[p.item] {
					at := [2]int{p.row, p.at + k}
					if p.row >= c.MicroBatchSize || p.at+k >= m.length || used[at] {
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
		"mask of 2":             func(e *Example, c *SFTConfig) { e.Mask = e.Mask[:2] },
		"no tokens":             func(e *Example, c *SFTConfig) { e.IDs, e.Mask = nil, nil },
		"mask[1] is 7":          func(e *Example, c *SFTConfig) { e.Mask = []uint8{0, 7, 1} },
		"ids[2] is 99":          func(e *Example, c *SFTConfig) { e.IDs = []int32{1, 2, 99} },
		"longest row":           func(e *Example, c *SFTConfig) { c.Batch.Lengths = []int{2} },
		"micro_batch_size must": func(e *Example, c *SFTConfig) { c.Batch.MicroBatchSize = 0 },
		"lengths is empty":      func(e *Example, c *SFTConfig) { c.Batch.Lengths = nil },
		"no token to train":     func(e *Example, c *SFTConfig) { e.Mask = []uint8{1, 0, 0} },
		"restore_best needs":    func(e *Example, c *SFTConfig) { c.Run.RestoreBest = true },
		"save_every":            func(e *Example, c *SFTConfig) { c.Run.SaveEvery = -1 },
		"learning_rate":         func(e *Example, c *SFTConfig) { c.Schedule.LearningRate = -1 },
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
	// Resuming a run that was stopped in order does nothing more, and says what its last step was.
	last := sum.Last
	cfg.Run.Resume = true
	if sum, err = SFT(t.Context(), testModel(t, backend(t)), data, nil, cfg); err != nil || sum.Steps != 4 || last.Step != 4 || !reflect.DeepEqual(sum.Last, last) {
		t.Errorf("after the resume %d steps, error %v, last step %+v, was %+v", sum.Steps, err, sum.Last, last)
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
