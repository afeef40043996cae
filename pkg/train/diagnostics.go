package train

import "math"

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
	Pass, Minibatch    int
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

// DPORow is one answer of a batch of pairs as the diagnostics see it: the sums of the log-probabilities of policy and
// reference, and slices over its trained tokens.
type DPORow struct {
	Policy, Ref                 float32
	Entropy, Correct, MeanLogit []float32
}

// DPODiagnostics are TRL's metrics. A reward is beta (log p - log ref) of an answer.
type DPODiagnostics struct {
	Tokens          int
	Entropy         float64 // mean over all trained tokens
	Accuracy        float64 // share of chosen tokens that are the most probable
	LogitsChosen    float64 // mean logit over tokens and vocabulary
	LogitsRejected  float64
	RewardChosen    float64
	RewardRejected  float64
	RewardAccuracy  float64 // share of pairs whose chosen answer has the larger reward
	RewardMargin    float64
	LogProbChosen   float64 // mean of the answers' sums
	LogProbRejected float64
}

// Diagnose computes the diagnostics of pairs: chosen[i] and rejected[i] belong together.
func (l DPOLoss) Diagnose(chosen, rejected []DPORow) DPODiagnostics {
	l = l.withDefaults()
	var d DPODiagnostics
	var tokens, correct, entropy, logits [2]float64
	for side, rows := range [][]DPORow{chosen, rejected} {
		for _, r := range rows {
			tokens[side] += float64(len(r.Entropy))
			for i := range r.Entropy {
				entropy[side] += float64(r.Entropy[i])
				correct[side] += float64(r.Correct[i])
				logits[side] += float64(r.MeanLogit[i])
			}
		}
	}
	n := max(1, float64(len(chosen)))
	for i := range chosen {
		a := l.Beta * (float64(chosen[i].Policy) - float64(chosen[i].Ref))
		b := l.Beta * (float64(rejected[i].Policy) - float64(rejected[i].Ref))
		d.RewardChosen += a / n
		d.RewardRejected += b / n
		if prefers([2]float32{chosen[i].Policy, rejected[i].Policy}, [2]float32{chosen[i].Ref, rejected[i].Ref}) {
			d.RewardAccuracy += 1 / n
		}
		d.LogProbChosen += float64(chosen[i].Policy) / n
		d.LogProbRejected += float64(rejected[i].Policy) / n
	}
	d.RewardMargin = d.RewardChosen - d.RewardRejected
	d.Tokens = int(tokens[0] + tokens[1])
	d.LogitsChosen = logits[0] / max(1, tokens[0])
	d.LogitsRejected = logits[1] / max(1, tokens[1])
	d.Entropy = (entropy[0] + entropy[1]) / max(1, float64(d.Tokens))
	d.Accuracy = correct[0] / max(1, tokens[0])
	return d
}

// prefers reports whether the policy moved towards the chosen answer (first) and away from the rejected one, by more
// than the rounding of sums of log-probabilities: a policy that still is the reference prefers nothing.
func prefers(policy, ref [2]float32) bool {
	margin := float64(policy[0]) - float64(ref[0]) - (float64(policy[1]) - float64(ref[1]))
	return margin > 1e-6*(1+math.Abs(float64(policy[0]))+math.Abs(float64(policy[1])))
}
