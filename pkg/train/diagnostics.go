package train

import "math"

// TokenValues are what one pass over a batch tells of every token, flattened row by row; all slices that are set have
// the same length. They come back from the device whole (a few thousand floats), so that every diagnostic is plain Go
// in float64 over the very tokens that were trained, and none needs a graph of its own.
type TokenValues struct {
	// LogProb and Entropy are the policy's, in nats; Correct is 1 where the target was the most probable token.
	LogProb, Entropy, Correct []float32
	// MeanLogit is the mean of the logits over the vocabulary.
	MeanLogit []float32
}

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

// DPOBatch is what the diagnostics of a batch of pairs need: token values and mask [2n, T] flattened, and the rows'
// sums of log-probabilities of policy and reference [2n]; rows 0..n-1 are chosen, n..2n-1 rejected.
type DPOBatch struct {
	Values      TokenValues
	Mask        []float32
	Policy, Ref []float32
}

// DPODiagnostics are TRL's metrics. A reward is beta (log p - log ref) of an answer.
type DPODiagnostics struct {
	Tokens          int     `json:"tokens"`
	Entropy         float64 `json:"entropy"`
	Accuracy        float64 `json:"accuracy"`
	LogitsChosen    float64 `json:"logits_chosen"`
	LogitsRejected  float64 `json:"logits_rejected"`
	RewardChosen    float64 `json:"reward_chosen"`
	RewardRejected  float64 `json:"reward_rejected"`
	RewardAccuracy  float64 `json:"reward_accuracy"`
	RewardMargin    float64 `json:"reward_margin"`
	LogProbChosen   float64 `json:"log_prob_chosen"`
	LogProbRejected float64 `json:"log_prob_rejected"`
}

// Diagnose computes the diagnostics of a batch of pairs. Entropy and accuracy are means over the chosen tokens and over
// all tokens as TRL takes them; pairs without tokens only pad the batch and are left out.
func (l DPOLoss) Diagnose(b DPOBatch) DPODiagnostics {
	l = l.withDefaults()
	var d DPODiagnostics
	n := len(b.Policy) / 2
	width := len(b.Mask) / (2 * n)
	var pairs float64
	var side [2]struct{ tokens, logits, correct, entropy float64 }
	for row := range 2 * n {
		s := &side[row/n]
		for i := row * width; i < (row+1)*width; i++ {
			if b.Mask[i] > 0 {
				s.tokens++
				s.logits += float64(b.Values.MeanLogit[i])
				s.correct += float64(b.Values.Correct[i])
				s.entropy += float64(b.Values.Entropy[i])
			}
		}
	}
	for i := range n {
		pairs++
		chosen := l.Beta * (float64(b.Policy[i]) - float64(b.Ref[i]))
		rejected := l.Beta * (float64(b.Policy[n+i]) - float64(b.Ref[n+i]))
		d.RewardChosen += chosen
		d.RewardRejected += rejected
		if chosen > rejected {
			d.RewardAccuracy++
		}
		d.LogProbChosen += float64(b.Policy[i])
		d.LogProbRejected += float64(b.Policy[n+i])
	}
	for _, x := range []*float64{&d.RewardChosen, &d.RewardRejected, &d.RewardAccuracy, &d.LogProbChosen, &d.LogProbRejected} {
		*x /= max(1, pairs)
	}
	d.RewardMargin = d.RewardChosen - d.RewardRejected
	d.Tokens = int(side[0].tokens + side[1].tokens)
	d.LogitsChosen = side[0].logits / max(1, side[0].tokens)
	d.LogitsRejected = side[1].logits / max(1, side[1].tokens)
	d.Entropy = (side[0].entropy + side[1].entropy) / max(1, float64(d.Tokens))
	d.Accuracy = side[0].correct / max(1, side[0].tokens)
	return d
}
