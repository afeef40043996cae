package train

import "math"

// DPORow has what the diagnostics need of one answer. Policy and Ref are its log-probabilities under policy and reference, summed
// over its trained tokens. The slices have an entry for each trained token.
type DPORow struct {
	Policy, Ref                 float32
	Entropy, Correct, MeanLogit []float32
}

// DPODiagnostics are TRL's metrics. The reward of an answer is beta (log p - log ref).
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

// prefers reports whether the policy, compared with the reference, favors the chosen answer (index 0) over the rejected one. The
// difference must exceed the rounding of sums of log-probabilities, so that a policy equal to the reference prefers nothing.
func prefers(policy, ref [2]float32) bool {
	margin := float64(policy[0]) - float64(ref[0]) - (float64(policy[1]) - float64(ref[1]))
	return margin > 1e-6*(1+math.Abs(float64(policy[0]))+math.Abs(float64(policy[1])))
}
