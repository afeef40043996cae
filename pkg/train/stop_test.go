package train

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
)

func TestStopRule(t *testing.T) {
	at := func(kl, entropy, clip, norm float64) StepLog {
		u := GRPOUpdate{Steps: []GRPOStep{{GradNorm: norm, GRPODiagnostics: GRPODiagnostics{KL: kl, Entropy: entropy, ClipLow: clip / 2, ClipHigh: clip / 2}}}}
		return StepLog{Metrics: u.Metrics()}
	}
	calm, wild := at(0.01, 1, 0.02, 0.5), at(0.3, 0.1, 0.4, 20)
	for want, rule := range map[string]StopRule{
		"":         {},
		"kl":       {MaxKL: 0.2},
		"entropy":  {MinEntropy: 0.2},
		"clipped":  {MaxClip: 0.3},
		"gradient": {MaxGradNorm: 10},
	} {
		if got := rule.Stop([]StepLog{wild, calm}); got != "" {
			t.Errorf("%+v stops on a calm update: %s", rule, got)
		}
		if got := rule.Stop([]StepLog{calm, wild}); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%+v on a wild update: %q, want it to name %q", rule, got, want)
		}
	}
	patient := StopRule{MaxKL: 0.2, Patience: 2}
	if got := patient.Stop([]StepLog{wild, calm, wild}); got != "" {
		t.Errorf("patience 2 stops after one: %s", got)
	}
	if got := patient.Stop([]StepLog{calm, wild, wild}); got == "" {
		t.Error("patience 2 does not stop after two")
	}
}

// A replay over the lines of a log stops where the run itself would have.
func TestReplayIsStop(t *testing.T) {
	var lines []StepLog
	for i, kl := range []float64{0, 0.3, 0.1, 0.3, 0.4, 0.1, 0.5} {
		u := GRPOUpdate{Steps: []GRPOStep{{GradNorm: 1, GRPODiagnostics: GRPODiagnostics{KL: kl, Entropy: 0.5}}, {GradNorm: 3, GRPODiagnostics: GRPODiagnostics{KL: kl, Entropy: 0.3}}}}
		lines = append(lines, StepLog{Step: i + 1, Metrics: u.Metrics()})
	}
	for _, c := range []struct {
		rule StopRule
		want int
	}{{StopRule{MaxKL: 0.2}, 1}, {StopRule{MaxKL: 0.2, Patience: 2}, 4}, {StopRule{MaxKL: 0.2, Patience: 3}, -1}, {StopRule{}, -1},
		{StopRule{MinEntropy: 0.45}, 0}, {StopRule{MaxGradNorm: 1.5, Patience: 3}, 2}, {StopRule{MaxClip: 0.1}, -1}} {
		got, why := c.rule.Replay(lines)
		if got != c.want || (why == "") != (got < 0) {
			t.Errorf("%+v stops at line %d (%q), want %d", c.rule, got, why, c.want)
		}
		live := -1
		for i := range lines {
			if c.rule.Stop(lines[:i+1]) != "" {
				live = i
				break
			}
		}
		if live != got {
			t.Errorf("%+v ends the run at update %d, its replay at %d", c.rule, live, got)
		}
	}
}

func TestBoundsOfARule(t *testing.T) {
	rule := StopRule{MaxKL: 0.1, MaxClip: 0.2, Patience: 2}
	got := rule.Bounds()
	if len(got) != 2 || got[0].Diagnostic != "kl" || got[0].Rule != (StopRule{MaxKL: 0.1, Patience: 2}) || got[1].Diagnostic != "clip" || got[1].Limit != 0.2 {
		t.Fatalf("bounds %+v, want kl and clip, each as patient as the rule", got)
	}
	if v, ok := got[1].Value(StepLog{}, StepLog{Metrics: []Metric{{"clip_low", 0.25}, {"clip_high", 0.5}}}); !ok || v != 0.75 {
		t.Errorf("clip is %g, %t, want both sides: 0.75", v, ok)
	}
	if v, ok := got[0].Value(StepLog{}, StepLog{Metrics: []Metric{{"success", 1}}}); ok {
		t.Errorf("kl is %g in a line without it", v)
	}
}

// A line that lacks a diagnostic says nothing about it; one that is not a number is as bad as can be.
func TestMissingAndNaNDiagnostics(t *testing.T) {
	rule := StopRule{MaxKL: 0.1, MinEntropy: 0.05, MaxClip: 0.2, MaxGradNorm: 5}
	if got := rule.Broken(StepLog{}, StepLog{Metrics: []Metric{{"success", 0}}}); got != "" {
		t.Errorf("a line without diagnostics breaks the rule: %s", got)
	}
	for _, name := range []string{"kl", "entropy", "clip_low", "grad_norm"} {
		if got := rule.Broken(StepLog{}, StepLog{Metrics: []Metric{{name, math.NaN()}}}); !strings.Contains(got, "not a number") {
			t.Errorf("%s is not a number: %q", name, got)
		}
	}
}

func TestCheckOfARule(t *testing.T) {
	if err := (StopRule{MaxKL: 0.1, Patience: 2}).Check(); err != nil {
		t.Error(err)
	}
	for want, rule := range map[string]StopRule{"max_kl": {MaxKL: -1}, "min_entropy": {MinEntropy: math.NaN()}, "patience": {Patience: -1}} {
		if err := rule.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want it to name %s", rule, err, want)
		}
	}
}

func TestUpdateWarnings(t *testing.T) {
	if got := (GRPOUpdate{ZeroVarianceShare: 0.5, SamplerGap: 1e-5}).Warnings(); len(got) != 0 {
		t.Errorf("warnings %q of a good update", got)
	}
	if got := (GRPOUpdate{ZeroVarianceShare: 1, SamplerGap: 0.1}).Warnings(); len(got) != 2 {
		t.Errorf("warnings %q, want two", got)
	}
}

// The rise of the loss is held against the first line of the whole run, not of the lines that are looked at.
func TestRiseOfTheLoss(t *testing.T) {
	line := func(loss float64) StepLog { return StepLog{Metrics: []Metric{{"loss", loss}}} }
	rule := StopRule{MaxLossRise: 2, Patience: 2}
	var lines []StepLog
	for i, loss := range []float64{3, 5.5, 1, 4.9, 5.1, 5.2} {
		lines = append(lines, line(loss))
		if why := rule.Stop(lines); (why != "") != (i == 5) {
			t.Errorf("after the loss %g: %q", loss, why)
		}
	}
	if why := rule.Stop(lines); !strings.Contains(why, "rise of the loss 2.2 is above 2") {
		t.Errorf("the reason is %q", why)
	}
	if at, _ := rule.Replay(lines); at != 5 {
		t.Errorf("the replay stops at %d", at)
	}
}

// exploding is a run whose learning rate is far too high from its sixth step on.
func exploding(dir string, peak float64) SFTConfig {
	cfg := testSFT(dir)
	cfg.Schedule = Schedule{LearningRate: peak, WarmupSteps: 6}
	cfg.Run.MaxSteps, cfg.Run.Epochs, cfg.Run.RestoreBest, cfg.Run.Log = 30, 0, false, slog.New(slog.DiscardHandler)
	cfg.Stop = StopRule{MaxLossRise: 2, Patience: 3}
	return cfg
}

// A run whose loss explodes is broken off: with the weights of the best validation before, or as an error where there is none.
func TestExplodingLossEndsARun(t *testing.T) {
	data, val := Fixed(counting(30, "train")), counting(6, "val")
	sound := exploding(t.TempDir(), 0.003)
	sum, err := SFT(t.Context(), testModel(t, backend(t)), data, val, sound)
	if err != nil || sum.StoppedBy != "" || sum.Steps != 30 {
		t.Fatalf("a sound run: stopped by %q after %d steps, error %v", sum.StoppedBy, sum.Steps, err)
	}

	none := exploding(t.TempDir(), 30)
	none.Run.EvalEvery = 0
	_, err = SFT(t.Context(), testModel(t, backend(t)), data, val, none)
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "rise of the loss") || !strings.Contains(err.Error(), "schedule.learning_rate") {
		t.Errorf("without a checkpoint to go back to: error %v", err)
	}

	cfg := exploding(t.TempDir(), 30)
	cfg.Run.EvalEvery = 1
	m := testModel(t, backend(t))
	sum, err = SFT(t.Context(), m, data, val, cfg)
	if err != nil || sum.Best == nil || !strings.Contains(sum.StoppedBy, "rise of the loss") || sum.Steps >= 30 {
		t.Fatalf("stopped by %q after %d steps, best %+v, error %v", sum.StoppedBy, sum.Steps, sum.Best, err)
	}
	// The weights are those of a run that ends at the best step.
	short := exploding(t.TempDir(), 30)
	short.Run.MaxSteps, short.Schedule.Total, short.Stop = sum.Best.Step, 30, StopRule{}
	want := testModel(t, backend(t))
	if _, err := SFT(t.Context(), want, data, nil, short); err != nil {
		t.Fatal(err)
	}
	a, errA := hashWeights(m.Weights)
	b, errB := hashWeights(want.Weights)
	if errA != nil || errB != nil || a != b {
		t.Errorf("weights %s, want those of step %d, %s (%v, %v)", a, sum.Best.Step, b, errA, errB)
	}
	// Begun again in its folder, it ends where it did.
	cfg.Run.Resume = true
	again, err := SFT(t.Context(), testModel(t, backend(t)), data, val, cfg)
	if err != nil || again.StoppedBy != sum.StoppedBy || again.Steps != sum.Steps || *again.Best != *sum.Best {
		t.Errorf("again: stopped by %q after %d steps, best %+v, error %v; want %q after %d, %+v", again.StoppedBy, again.Steps, again.Best, err, sum.StoppedBy, sum.Steps, sum.Best)
	}
}

// A step whose loss is no number ends every run the same way, whatever its rule.
func TestLossThatIsNoNumberEndsARun(t *testing.T) {
	cfg := exploding(t.TempDir(), 1e38)
	cfg.Stop, cfg.Run.EvalEvery = StopRule{}, 1
	data, val := Fixed(counting(30, "train")), counting(6, "val")
	m := testModel(t, backend(t))
	sum, err := SFT(t.Context(), m, data, val, cfg)
	if err != nil || sum.Best == nil || !strings.Contains(sum.StoppedBy, "not finite") {
		t.Fatalf("stopped by %q, best %+v, error %v", sum.StoppedBy, sum.Best, err)
	}
	if _, err := (SFT(t.Context(), m, data, val, exploding(t.TempDir(), 0.003))); err != nil { // the weights are sound
		t.Errorf("going on from the kept weights: %v", err)
	}
	cfg = exploding("", 1e38)
	cfg.Run.EvalEvery = 0
	if _, err := SFT(t.Context(), testModel(t, backend(t)), data, val, cfg); !errors.Is(err, ErrDiverged) {
		t.Errorf("without a folder: error %v", err)
	}
}
