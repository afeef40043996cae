package train

import (
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
	if v, ok := got[1].Value(StepLog{Metrics: []Metric{{"clip_low", 0.25}, {"clip_high", 0.5}}}); !ok || v != 0.75 {
		t.Errorf("clip is %g, %t, want both sides: 0.75", v, ok)
	}
	if v, ok := got[0].Value(StepLog{Metrics: []Metric{{"success", 1}}}); ok {
		t.Errorf("kl is %g in a line without it", v)
	}
}

// A line that lacks a diagnostic says nothing about it; one that is not a number is as bad as can be.
func TestMissingAndNaNDiagnostics(t *testing.T) {
	rule := StopRule{MaxKL: 0.1, MinEntropy: 0.05, MaxClip: 0.2, MaxGradNorm: 5}
	if got := rule.Broken(StepLog{Metrics: []Metric{{"success", 0}}}); got != "" {
		t.Errorf("a line without diagnostics breaks the rule: %s", got)
	}
	for _, name := range []string{"kl", "entropy", "clip_low", "grad_norm"} {
		if got := rule.Broken(StepLog{Metrics: []Metric{{name, math.NaN()}}}); !strings.Contains(got, "not a number") {
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
