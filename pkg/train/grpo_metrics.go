package train

import (
	"fmt"
	"math"
)

// The diagnostics come back from the device token by token (a few thousand floats a batch), so that every one of them
// is plain Go in float64 over the very tokens that were trained, and none needs a graph of its own.

// GRPORow is one rollout of a GRPO batch as the diagnostics see it: slices over its sampled tokens only.
type GRPORow struct {
	LogProb, Entropy []float32
	// Old and Ref may be nil: the policy itself, and no reference.
	Old, Ref  []float32
	Advantage float64
}

// GRPODiagnostics are means over the sampled tokens of a batch, TRL's metrics of the same names where it has them.
type GRPODiagnostics struct {
	Tokens  int     `json:"tokens"`
	Entropy float64 `json:"entropy"`
	// KL is the k3 estimate of the divergence from the reference, times the ratio if the loss is KLCorrected; 0 without a reference.
	KL float64 `json:"kl"`
	// ClipLow counts ratios below 1 - EpsLow with a negative advantage, ClipHigh above 1 + EpsHigh with a positive
	// one, Clip both. At sequence level they are shares of sequences. For cispo ClipHigh counts ratios above EpsHigh.
	ClipLow  float64 `json:"clip_low"`
	ClipHigh float64 `json:"clip_high"`
	Clip     float64 `json:"clip"`
	// ClipLowMin and ClipHighMax are the extremes over the rows.
	ClipLowMin  float64 `json:"clip_low_min"`
	ClipHighMax float64 `json:"clip_high_max"`
	// RatioMax is the largest ratio, or inverse ratio, of a token.
	RatioMax float64 `json:"ratio_max"`
}

// Diagnose computes the diagnostics of a batch under the loss's configuration.
func (l GRPOLoss) Diagnose(rows []GRPORow) GRPODiagnostics {
	l = l.withDefaults()
	d := GRPODiagnostics{ClipLowMin: math.Inf(1), RatioMax: 1}
	var low, high, units float64
	for _, r := range rows {
		if len(r.LogProb) == 0 {
			d.ClipLowMin = min(d.ClipLowMin, 0)
			if l.SequenceLevel {
				units++
			}
			continue
		}
		logRatio := make([]float64, len(r.LogProb))
		var sum float64
		for i, lp := range r.LogProb {
			if r.Old != nil {
				logRatio[i] = float64(lp) - float64(r.Old[i])
			}
			sum += logRatio[i]
			d.RatioMax = max(d.RatioMax, math.Exp(math.Abs(logRatio[i])))
		}
		if l.SequenceLevel {
			for i := range logRatio {
				logRatio[i] = sum / float64(len(logRatio))
			}
		}
		var rowLow, rowHigh float64
		for i, lp := range r.LogProb {
			ratio := math.Exp(logRatio[i])
			d.Tokens++
			d.Entropy += float64(r.Entropy[i])
			if r.Ref != nil {
				z := float64(r.Ref[i]) - float64(lp)
				kl := math.Exp(z) - z - 1
				if l.KLCorrected {
					kl *= ratio
				}
				d.KL += kl
			}
			switch {
			case l.Kind == "cispo":
				if ratio > l.EpsHigh && r.Advantage > 0 {
					rowHigh++
				}
			case ratio < 1-l.EpsLow && r.Advantage < 0:
				rowLow++
			case ratio > 1+l.EpsHigh && r.Advantage > 0:
				rowHigh++
			}
		}
		n := float64(len(r.LogProb))
		d.ClipLowMin, d.ClipHighMax = min(d.ClipLowMin, rowLow/n), max(d.ClipHighMax, rowHigh/n)
		if l.SequenceLevel {
			rowLow, rowHigh, n = rowLow/n, rowHigh/n, 1
		}
		low, high, units = low+rowLow, high+rowHigh, units+n
	}
	if math.IsInf(d.ClipLowMin, 1) {
		d.ClipLowMin = 0
	}
	if d.Tokens > 0 {
		d.Entropy /= float64(d.Tokens)
		d.KL /= float64(d.Tokens)
	}
	if units > 0 {
		d.ClipLow, d.ClipHigh = low/units, high/units
		d.Clip = d.ClipLow + d.ClipHigh
	}
	return d
}

// GRPOStep is one optimizer step of an update.
type GRPOStep struct {
	Epoch, Minibatch   int
	Loss, GradNorm, LR float64
	GRPODiagnostics
}

// GRPOUpdate is what one rollout batch did to the policy.
type GRPOUpdate struct {
	Steps []GRPOStep
	// SamplerGap is the mean, SamplerGapMax the largest absolute difference of the sampler's and the trainer's
	// log-probabilities of a sampled token, under the very weights that sampled it: over the rollouts of the first step.
	// A gap above 1e-3 means that the policy that is trained is not the one that played.
	SamplerGap, SamplerGapMax float64
	// ZeroVarianceShare is the share of groups whose advantages are all 0, TruncatedShare that of truncated rollouts.
	ZeroVarianceShare, TruncatedShare float64
	// TrainedTokens counts sampled tokens times passes, ProcessedTokens all tokens times passes.
	TrainedTokens, ProcessedTokens int64
}

// Metrics are the numbers to log: means over the optimizer steps, but the last learning rate.
func (u GRPOUpdate) Metrics() []Metric {
	mean := func(get func(s GRPOStep) float64) float64 {
		var sum float64
		for _, s := range u.Steps {
			sum += get(s)
		}
		return sum / max(1, float64(len(u.Steps)))
	}
	var lr, ratio float64
	for _, s := range u.Steps {
		lr, ratio = s.LR, max(ratio, s.RatioMax)
	}
	return []Metric{
		{"loss", mean(func(s GRPOStep) float64 { return s.Loss })},
		{"lr", lr},
		{"grad_norm", mean(func(s GRPOStep) float64 { return s.GradNorm })},
		{"entropy", mean(func(s GRPOStep) float64 { return s.Entropy })},
		{"kl", mean(func(s GRPOStep) float64 { return s.KL })},
		{"clip_low", mean(func(s GRPOStep) float64 { return s.ClipLow })},
		{"clip_high", mean(func(s GRPOStep) float64 { return s.ClipHigh })},
		{"ratio_max", ratio},
		{"sampler_gap", u.SamplerGap},
		{"sampler_gap_max", u.SamplerGapMax},
		{"zero_variance_share", u.ZeroVarianceShare},
		{"truncated_share", u.TruncatedShare},
	}
}

// warnZeroVariance is the share of groups without variance above which an update is hardly worth its time.
const warnZeroVariance = 0.8

// warnSamplerGap is the mean difference of log-probabilities above which the trainer does not see the sampler's policy.
const warnSamplerGap = 1e-3

// Warnings say what makes an update doubtful, in words for a log.
func (u GRPOUpdate) Warnings() []string {
	var out []string
	if u.ZeroVarianceShare > warnZeroVariance {
		out = append(out, fmt.Sprintf("%.0f%% of the groups have equal rewards and teach nothing: the loss near 0 is no fault, the tasks are too hard or too easy for the policy", 100*u.ZeroVarianceShare))
	}
	if u.SamplerGap > warnSamplerGap {
		out = append(out, fmt.Sprintf("sampler and trainer differ by %.2g in the log-probability of a token (more than %g): other weights, temperature or ids than were sampled with", u.SamplerGap, warnSamplerGap))
	}
	return out
}
