package train

import (
	"strings"
	"testing"
)

func TestStopRule(t *testing.T) {
	at := func(kl, entropy, clip, norm float64) GRPOUpdate {
		return GRPOUpdate{Steps: []GRPOStep{{GradNorm: norm, GRPODiagnostics: GRPODiagnostics{KL: kl, Entropy: entropy, ClipLow: clip / 2, ClipHigh: clip / 2}}}}
	}
	calm, wild := at(0.01, 1, 0.02, 0.5), at(0.3, 0.1, 0.4, 20)
	for want, rule := range map[string]StopRule{
		"":         {},
		"kl":       {MaxKL: 0.2},
		"entropy":  {MinEntropy: 0.2},
		"clipped":  {MaxClip: 0.3},
		"gradient": {MaxGradNorm: 10},
	} {
		if got := rule.Stop([]GRPOUpdate{wild, calm}); got != "" {
			t.Errorf("%+v stops on a calm update: %s", rule, got)
		}
		if got := rule.Stop([]GRPOUpdate{calm, wild}); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%+v on a wild update: %q, want it to name %q", rule, got, want)
		}
	}
	patient := StopRule{MaxKL: 0.2, Patience: 2}
	if got := patient.Stop([]GRPOUpdate{wild, calm, wild}); got != "" {
		t.Errorf("patience 2 stops after one: %s", got)
	}
	if got := patient.Stop([]GRPOUpdate{calm, wild, wild}); got == "" {
		t.Error("patience 2 does not stop after two")
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
