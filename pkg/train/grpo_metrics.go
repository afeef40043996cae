package train

import (
	"fmt"
	"math"
)

// The device returns log-probabilities and entropies for every token: a few thousand floats a batch. The diagnostics are computed
// from these in Go, in float64, so they need no graphs of their own.

// GRPORow has what the diagnostics need of one rollout. The slices have an entry for each sampled token.
type GRPORow struct {
	LogProb, Entropy []float32
	// Old and Ref are the log-probabilities under the sampling policy and under the reference. A nil Old means that the current
	// policy sampled, a nil Ref that there is no reference.
	Old, Ref  []float32
	Advantage float64
}

// GRPODiagnostics are means over the sampled tokens of a batch. They are those of TRL where it has the same.
type GRPODiagnostics struct {
	Tokens  int     `json:"tokens"`
	Entropy float64 `json:"entropy"`
	// KL is the k3 estimate of the divergence from the reference, times the ratio if the loss has KLCorrected. Without a reference
	// it is 0.
	KL float64 `json:"kl"`
	// ClipLow is the share of tokens with a ratio below 1 - EpsLow and a negative advantage. ClipHigh is the share with a ratio
	// above 1 + EpsHigh (cispo: above EpsHigh) and a positive advantage. Clip is their sum. At sequence level they are shares of
	// sequences.
	ClipLow  float64 `json:"clip_low"`
	ClipHigh float64 `json:"clip_high"`
	Clip     float64 `json:"clip"`
	// ClipLowMin and ClipHighMax are the smallest and the largest share of a row.
	ClipLowMin  float64 `json:"clip_low_min"`
	ClipHighMax float64 `json:"clip_high_max"`
	// RatioMax is the largest ratio of a token, or the largest inverse of one.
	RatioMax float64 `json:"ratio_max"`
}

// Diagnose computes the diagnostics of a batch under the loss's configuration.
func (l GRPOLoss) Diagnose(rows []GRPORow) GRPODiagnostics {
	l = l.withDefaults()
	d := GRPODiagnostics{ClipLowMin: math.Inf(1), RatioMax: 1}
	var low, high, units float64 // clipped tokens and all tokens; at sequence level, sequences
	for _, r := range rows {
		if len(r.LogProb) == 0 {
			d.ClipLowMin = min(d.ClipLowMin, 0)
			if l.SequenceLevel {
				units++
			}
			continue
		}
		rowLow, rowHigh := l.diagnoseRow(r, &d)
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

// diagnoseRow adds a row's tokens to the sums in d, and counts those that are clipped on either side.
func (l GRPOLoss) diagnoseRow(r GRPORow, d *GRPODiagnostics) (low, high float64) {
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
				high++
			}
		case ratio < 1-l.EpsLow && r.Advantage < 0:
			low++
		case ratio > 1+l.EpsHigh && r.Advantage > 0:
			high++
		}
	}
	return low, high
}

// GRPOStep is one optimizer step of an update.
type GRPOStep struct {
	Epoch, Minibatch   int
	Loss, GradNorm, LR float64
	GRPODiagnostics
}

// GRPOUpdate describes an update of the policy from one batch of rollouts.
type GRPOUpdate struct {
	Steps []GRPOStep
	// SamplerGap is the mean absolute difference between the sampler's and the trainer's log-probabilities of a sampled token, and
	// SamplerGapMax the largest. They are over the rollouts of the first optimizer step, before which the weights are those that
	// sampled. A mean above 1e-3 says that the trained policy is not the one that sampled.
	SamplerGap, SamplerGapMax float64
	// ZeroVarianceShare is the share of groups whose advantages are all 0, TruncatedShare that of truncated rollouts.
	ZeroVarianceShare, TruncatedShare float64
	// TrainedTokens counts sampled tokens and ProcessedTokens all tokens, once for every epoch.
	TrainedTokens, ProcessedTokens int64
}

// Metrics are the numbers to log: means over the optimizer steps, except for the last learning rate and the largest ratio.
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

// warnZeroVariance is the share of groups of equal rewards above which an update warns: it learns hardly anything.
const warnZeroVariance = 0.8

// warnSamplerGap is the SamplerGap above which an update warns: the trained policy is not the one that sampled.
const warnSamplerGap = 1e-3

// Warnings say what makes an update doubtful, for a log.
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
