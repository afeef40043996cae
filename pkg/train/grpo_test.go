package train

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/lm"
)

func testGRPO() GRPOConfig {
	return GRPOConfig{Seed: 2, Loss: GRPOLoss{Beta: 0.02}, Schedule: Schedule{LearningRate: 1e-2}, OldLogProbs: "recompute", Batch: BatchConfig{MicroBatchSize: 4, Lengths: []int{32}}}
}

func newTestGRPO(t *testing.T, cfg GRPOConfig) *GRPO {
	t.Helper()
	g, err := NewGRPO(testModel(t, backend(t)), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestGRPOMistakesAreNamed(t *testing.T) {
	g := newTestGRPO(t, testGRPO())
	for want, change := range map[string]func(r *Rollout){
		"log-probabilities: they": func(r *Rollout) { r.LogProbs = r.LogProbs[1:] },
		"mask of":                 func(r *Rollout) { r.Mask = append(r.Mask, 1) },
		"advantage is NaN":        func(r *Rollout) { r.Advantage = math.NaN() },
		"mask[0] is 1":            func(r *Rollout) { r.Mask = append([]uint8{1}, r.Mask[1:]...) },
		"sampled token":           func(r *Rollout) { r.LogProbs = append([]float32(nil), r.LogProbs...); r.LogProbs[3] = 0.5 },
		"vocabulary has 24":       func(r *Rollout) { r.IDs = append([]int32(nil), r.IDs...); r.IDs[1] = 24 },
		"raise batch lengths": func(r *Rollout) {
			r.IDs, r.Mask, r.LogProbs = make([]int32, 40), make([]uint8, 40), make([]float32, 40)
		},
	} {
		rows := randomRollouts(0, 4)
		change(&rows[2])
		_, err := g.Update(t.Context(), rows)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), rows[2].ID) {
			t.Errorf("error %v does not say %q and name the rollout", err, want)
		}
	}
	for want, change := range map[string]func(c *GRPOConfig){
		"sequence_level needs":      func(c *GRPOConfig) { c.Loss.SequenceLevel = true },
		`old_logprobs is "smapler"`: func(c *GRPOConfig) { c.OldLogProbs = "smapler" },
		"epochs":                    func(c *GRPOConfig) { c.Epochs = -1 },
		"lengths":                   func(c *GRPOConfig) { c.Batch.Lengths = nil },
	} {
		cfg := testGRPO()
		change(&cfg)
		if _, err := NewGRPO(testModel(t, backend(t)), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// However rows are packed and split into micro-batches, an update does the same.
func TestGRPOLayoutChangesNothing(t *testing.T) {
	for _, kind := range grpoKinds {
		var want GRPOUpdate
		for i, batch := range []BatchConfig{{MicroBatchSize: 12, Lengths: []int{32}, Unpacked: true}, {MicroBatchSize: 2, Lengths: []int{48}}, {MicroBatchSize: 5, Lengths: []int{8, 12, 20}, Unpacked: true}} {
			cfg := testGRPO()
			cfg.Batch, cfg.Loss.Kind, cfg.Loss.MaxCompletion, cfg.Minibatches = batch, kind, 20, 2
			got, err := newTestGRPO(t, cfg).Update(t.Context(), randomRollouts(1, 12))
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				want = got
				continue
			}
			for k := range want.Steps {
				a, b := got.Steps[k], want.Steps[k]
				if math.Abs(a.Loss-b.Loss) > 1e-5 || math.Abs(a.GradNorm-b.GradNorm) > 1e-4*b.GradNorm+1e-5 || math.Abs(a.KL-b.KL) > 1e-5 || a.Tokens != b.Tokens {
					t.Errorf("%s in %+v: step %d is %+v, want %+v", kind, batch, k, a, b)
				}
			}
		}
	}
}

// The numbers of an update on made-up rollouts, and what they must be.
func TestGRPOUpdate(t *testing.T) {
	cfg := testGRPO()
	cfg.Epochs, cfg.Minibatches = 3, 2
	g := newTestGRPO(t, cfg)
	rows := randomRollouts(0, 12) // groups of 4, the second without variance; every fifth truncated
	u, err := g.Update(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Steps) != 6 {
		t.Errorf("%d steps, want 6", len(u.Steps))
	}
	if math.Abs(u.ZeroVarianceShare-1./3) > 1e-12 || math.Abs(u.TruncatedShare-0.25) > 1e-12 {
		t.Errorf("zero-variance share %v and truncated share %v, want 1/3 and 1/4", u.ZeroVarianceShare, u.TruncatedShare)
	}
	var sampled, all int64
	for _, r := range rows {
		sampled += int64(trainedTokens(r.Mask))
		all += int64(len(r.IDs))
	}
	if u.TrainedTokens != 3*sampled || u.ProcessedTokens != 3*all {
		t.Errorf("counted %d and %d tokens, want %d and %d", u.TrainedTokens, u.ProcessedTokens, 3*sampled, 3*all)
	}
	// The sampler claimed -3 for every token: far from the truth, which must show.
	if u.SamplerGap < 0.1 || u.SamplerGapMax < u.SamplerGap {
		t.Errorf("sampler gap %v, at most %v", u.SamplerGap, u.SamplerGapMax)
	}
	first, last := u.Steps[0], u.Steps[5]
	if first.KL > 1e-9 || first.RatioMax > 1+1e-6 {
		t.Errorf("before any step: KL %v, largest ratio %v", first.KL, first.RatioMax)
	}
	if last.KL <= 0 || last.RatioMax <= 1.01 {
		t.Errorf("after five steps: KL %v, largest ratio %v", last.KL, last.RatioMax)
	}
	// Rollouts whose log-probabilities are the trainer's own have no gap.
	again := newTestGRPO(t, cfg)
	var checked []*scoredRollout
	for _, r := range rows {
		checked = append(checked, &scoredRollout{Rollout: r})
	}
	lps, err := again.rowLogProbs(t.Context(), checked, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].LogProbs = lps[i]
	}
	if u, err = again.Update(t.Context(), rows); err != nil || u.SamplerGapMax > 1e-5 {
		t.Errorf("sampler gap %v, error %v", u.SamplerGapMax, err)
	}
	if again.Compilations() != 3 { // gradient, apply, score
		t.Errorf("%d compilations, want 3", again.Compilations())
	}
	for _, m := range u.Metrics() {
		if !finite(m.Value) {
			t.Errorf("%s is %v", m.Name, m.Value)
		}
	}
}

// Twenty updates with rollouts of all lengths compile nothing after the first.
func TestGRPONeverRecompiles(t *testing.T) {
	cfg := testGRPO()
	cfg.Epochs, cfg.OldLogProbs = 1, "sampler"
	g := newTestGRPO(t, cfg)
	for it := range 20 {
		if _, err := g.Update(t.Context(), randomRollouts(it, 3+it%7)); err != nil {
			t.Fatal(err)
		}
	}
	if g.Compilations() != 3 {
		t.Errorf("%d compilations, want 3", g.Compilations())
	}
}

func TestGRPODropTruncated(t *testing.T) {
	cfg := testGRPO()
	cfg.DropTruncated = true
	g := newTestGRPO(t, cfg)
	rows := randomRollouts(0, 12)
	want := 0
	for _, r := range rows {
		if !r.Truncated {
			want += trainedTokens(r.Mask)
		}
	}
	u, err := g.Update(t.Context(), rows)
	if err != nil || u.Steps[0].Tokens != want {
		t.Errorf("%d tokens, want %d; error %v", u.Steps[0].Tokens, want, err)
	}
	// All truncated: nothing to learn, no NaN, and the weights move by weight decay alone (there is none).
	for i := range rows {
		rows[i].Truncated = true
	}
	g = newTestGRPO(t, cfg)
	before, err := hashWeights(g.learner.trained)
	if err != nil {
		t.Fatal(err)
	}
	if u, err = g.Update(t.Context(), rows); err != nil || u.Steps[0].Loss != 0 || u.Steps[0].GradNorm != 0 {
		t.Errorf("loss %v, gradient %v, error %v", u.Steps[0].Loss, u.Steps[0].GradNorm, err)
	}
	if after, err := hashWeights(g.learner.trained); err != nil || after != before {
		t.Errorf("the weights moved (%v)", err)
	}
}

func TestGRPOCancel(t *testing.T) {
	g := newTestGRPO(t, testGRPO())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Update(ctx, randomRollouts(0, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestGRPORun(t *testing.T) {
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	type state struct{ Position int }
	play := func(g *GRPO, s *GRPORun, until int) {
		t.Helper()
		for s.Updates() < until {
			u, err := g.Update(t.Context(), randomRollouts(s.Updates(), 6))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Log(u, nil, []Metric{{"rollout_seconds", 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	g := newTestGRPO(t, testGRPO())
	s, found, err := g.Open(GRPORunConfig{Dir: dir, Log: quiet}, nil)
	if err != nil || found {
		t.Fatalf("found %v, %v", found, err)
	}
	play(g, s, 2)
	if err := s.Save(state{2}, true, 0.5); err != nil {
		t.Fatal(err)
	}
	best, err := hashWeights(g.learner.trained)
	if err != nil {
		t.Fatal(err)
	}
	play(g, s, 4)
	if err := s.Save(state{4}, false, 0); err != nil {
		t.Fatal(err)
	}
	play(g, s, 5) // is lost
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	g = newTestGRPO(t, testGRPO())
	var got state
	s, found, err = g.Open(GRPORunConfig{Dir: dir, Resume: true, Log: quiet}, &got)
	if err != nil || !found || got.Position != 4 || s.Updates() != 4 || s.Best() == nil || s.Best().Value != 0.5 {
		t.Fatalf("found %v, state %+v, %v", found, got, err)
	}
	if n := strings.Count(string(readFile(t, dir, "metrics.jsonl")), "\n"); n != 4 {
		t.Errorf("%d lines of metrics after the resume, want 4", n)
	}
	if err := s.RestoreBest(); err != nil {
		t.Fatal(err)
	}
	if h, err := hashWeights(g.learner.trained); err != nil || h != best {
		t.Errorf("the best weights are not restored (%v)", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// Another start policy would be another reference.
	m, err := lm.NewRandom(backend(t), testConfig(), 8)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewGRPO(m, testGRPO())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, _, err := other.Open(GRPORunConfig{Dir: dir, Resume: true, Log: quiet}, &got); err == nil || !strings.Contains(err.Error(), "another policy") {
		t.Errorf("resumed with another policy: %v", err)
	}
}
