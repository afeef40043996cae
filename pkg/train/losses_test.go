package train

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// aligned gives the targets of ids [B, T] (the next id, 0 at the end) and shifts a mask of ids to the positions that
// predict them.
func aligned(ids []int32, mask []int64, b, t int) (targets []int32, shifted []float32) {
	targets, shifted = make([]int32, b*t), make([]float32, b*t)
	for i := range b {
		for j := range t - 1 {
			targets[i*t+j] = ids[i*t+j+1]
			shifted[i*t+j] = float32(mask[i*t+j+1])
		}
	}
	return targets, shifted
}

func maskedMean(x, mask []float32) float64 {
	var sum, n float64
	for i, m := range mask {
		if m > 0 {
			sum, n = sum+float64(x[i]), n+1
		}
	}
	return sum / max(1, n)
}

func TestEntropy(t *testing.T) {
	var rows []struct {
		Logits  []float32
		Entropy float64 `json:"entropy_nats"`
	}
	fixtures.JSON(t, "stats", "entropy.json", &rows)
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	rows = append(rows, struct {
		Logits  []float32
		Entropy float64 `json:"entropy_nats"`
	}{[]float32{0, -1e30}, 0}) // as good as certain
	for i, r := range rows {
		out := call(t, func(in []*graph.Node) []*graph.Node {
			s := NewTokenStats(in[0], in[1], 1)
			return []*graph.Node{s.Entropy}
		}, tensors.FromFlatDataAndDimensions(r.Logits, 1, 1, len(r.Logits)), tensors.FromFlatDataAndDimensions([]int32{0}, 1, 1))
		if got := float64(flat(out[0])[0]); math.Abs(got-r.Entropy) > 1e-5 {
			t.Errorf("row %d: entropy %v, want %v", i, got, r.Entropy)
		}
	}
}

func TestSFTLoss(t *testing.T) {
	var doc struct {
		Cases map[string]struct {
			Loss     float64
			NumItems *float64 `json:"num_items_in_batch"`
			LossType string   `json:"loss_type"`
			Entropy  float64
			Accuracy float64 `json:"mean_token_accuracy"`
			Labels   int     `json:"n_label_tokens"`
		}
	}
	fixtures.JSON(t, "losses", "sft.json", &doc)
	v := openVectors(t, "losses", "sft.safetensors")
	tolLoss, tolGrad, tolMetric := fixtures.ToleranceOf(t, "losses.loss"), fixtures.ToleranceOf(t, "losses.grad"), fixtures.ToleranceOf(t, "losses.metrics")
	var mostLoss, mostGrad, mostMetric float64
	for name, c := range doc.Cases {
		ids, shape := v.ints("input_ids")
		labels, _ := v.ints("labels." + name)
		mask := make([]int64, len(labels))
		for i, l := range labels {
			if l != -100 {
				mask[i] = 1
			}
		}
		targets, on := aligned(narrow(ids), mask, shape[0], shape[1])
		var n float64
		for _, m := range on {
			n += float64(m)
		}
		if int(n) != c.Labels {
			t.Errorf("%s: %v trained tokens, want %d", name, n, c.Labels)
		}
		if c.NumItems != nil {
			n = *c.NumItems
		}
		weights := make([]float32, len(on))
		for i, m := range on {
			weights[i] = m / float32(max(1, n))
		}
		out := call(t, func(in []*graph.Node) []*graph.Node {
			s := NewTokenStats(in[0], in[1], 1)
			loss := SFTLoss{Kind: c.LossType}.Build(s, in[2])
			return []*graph.Node{loss, graph.Gradient(loss, in[0])[0], s.Entropy, s.Correct}
		}, v.tensor("logits"), tensors.FromFlatDataAndDimensions(targets, shape...), tensors.FromFlatDataAndDimensions(weights, shape...))
		mostLoss = max(mostLoss, near(t, name+" loss", tolLoss, float64(flat(out[0])[0]), c.Loss))
		want, _ := v.floats("grad." + name)
		mostGrad = max(mostGrad, worst(t, name+" gradient", tolGrad, flat(out[1]), want))
		mostMetric = max(mostMetric, near(t, name+" entropy", tolMetric, maskedMean(flat(out[2]), on), c.Entropy),
			near(t, name+" accuracy", tolMetric, maskedMean(flat(out[3]), on), c.Accuracy))
	}
	t.Logf("largest differences over %d cases: loss %.2g, gradient %.2g, metrics %.2g", len(doc.Cases), mostLoss, mostGrad, mostMetric)
}

func TestDPOLoss(t *testing.T) {
	var doc struct {
		Cases map[string]struct {
			Kinds     []string  `json:"loss_type"`
			Weights   []float64 `json:"loss_weights"`
			Beta      float64
			Smoothing float64 `json:"label_smoothing"`
			Mask      string
			Loss      float64
			Metrics   map[string]float64
		}
	}
	fixtures.JSON(t, "losses", "dpo.json", &doc)
	v := openVectors(t, "losses", "dpo.safetensors")
	tolLoss, tolGrad, tolMetric := fixtures.ToleranceOf(t, "losses.loss"), fixtures.ToleranceOf(t, "losses.grad"), fixtures.ToleranceOf(t, "losses.metrics")
	var mostLoss, mostGrad, mostMetric float64
	for name, c := range doc.Cases {
		ids, shape := v.ints("input_ids")
		mask, _ := v.ints("completion_mask." + c.Mask)
		targets, on := aligned(narrow(ids), mask, shape[0], shape[1])
		n := shape[0] / 2
		loss := DPOLoss{Kinds: c.Kinds, Weights: c.Weights, Beta: c.Beta, LabelSmoothing: c.Smoothing}
		if err := loss.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out := call(t, func(in []*graph.Node) []*graph.Node {
			s := NewTokenStats(in[0], in[2], 1)
			ref := NewTokenStats(in[1], in[2], 1)
			sums := PairSums{Policy: sumRows(s.LogProb, in[3]), Ref: sumRows(ref.LogProb, in[3]), Tokens: graph.ReduceSum(in[3], -1)}
			pairs := graph.Const(in[0].Graph(), float32(n))
			chosen := graph.ReduceAllSum(graph.Slice(sums.Tokens, graph.AxisRange(0, n)))
			l := loss.Build(sums, pairs, chosen)
			return []*graph.Node{l, graph.Gradient(l, in[0])[0], s.LogProb, s.Entropy, s.Correct, s.MeanLogit, sums.Policy, sums.Ref}
		}, v.tensor("logits"), v.tensor("ref_logits"), tensors.FromFlatDataAndDimensions(targets, shape...), tensors.FromFlatDataAndDimensions(on, shape...))
		mostLoss = max(mostLoss, near(t, name+" loss", tolLoss, float64(flat(out[0])[0]), c.Loss))
		want, _ := v.floats("grad." + name)
		mostGrad = max(mostGrad, worst(t, name+" gradient", tolGrad, flat(out[1]), want))
		for i, which := range []string{"policy", "ref"} {
			want, _ := v.floats("logps." + which + "." + c.Mask)
			worst(t, name+" sums of "+which, tolMetric, flat(out[6+i]), want)
		}
		var sides [2][]DPORow
		for row := range shape[0] {
			r := DPORow{Policy: flat(out[6])[row], Ref: flat(out[7])[row]}
			for i := row * shape[1]; i < (row+1)*shape[1]; i++ {
				if on[i] > 0 {
					r.Entropy = append(r.Entropy, flat(out[3])[i])
					r.Correct = append(r.Correct, flat(out[4])[i])
					r.MeanLogit = append(r.MeanLogit, flat(out[5])[i])
				}
			}
			sides[row/n] = append(sides[row/n], r)
		}
		d := loss.Diagnose(sides[0], sides[1])
		for key, got := range map[string]float64{
			"entropy": d.Entropy, "mean_token_accuracy": d.Accuracy, "logits/chosen": d.LogitsChosen, "logits/rejected": d.LogitsRejected,
			"rewards/chosen": d.RewardChosen, "rewards/rejected": d.RewardRejected, "rewards/accuracies": d.RewardAccuracy,
			"rewards/margins": d.RewardMargin, "logps/chosen": d.LogProbChosen, "logps/rejected": d.LogProbRejected,
		} {
			want, ok := c.Metrics[key]
			if !ok {
				t.Errorf("%s: no metric %s in the fixture", name, key)
			}
			mostMetric = max(mostMetric, near(t, name+" "+key, tolMetric, got, want))
		}
	}
	t.Logf("largest differences over %d cases: loss %.2g, gradient %.2g, metrics %.2g", len(doc.Cases), mostLoss, mostGrad, mostMetric)
}

type grpoSettings struct {
	LossType      string `json:"loss_type"`
	Beta          float64
	Corrected     bool     `json:"kl_bias_correction"`
	EpsLow        float64  `json:"eps_low"`
	EpsHigh       float64  `json:"eps_high"`
	Delta         *float64 `json:"delta"`
	Level         string
	Tool          bool
	OnPolicy      bool    `json:"on_policy"`
	MaskedRow     bool    `json:"masked_row"`
	Accum         int     `json:"accum"`
	StepsPerGen   float64 `json:"steps_per_generation"`
	NumItems      float64 `json:"num_items"`
	MaxCompletion int     `json:"max_completion_length"`
	Temperature   float64
}

func (s grpoSettings) loss() GRPOLoss {
	l := GRPOLoss{Kind: s.LossType, EpsLow: s.EpsLow, EpsHigh: s.EpsHigh, Beta: s.Beta, KLCorrected: s.Corrected,
		SequenceLevel: s.Level == "sequence", MaxCompletion: s.MaxCompletion, Temperature: s.Temperature}
	if s.Delta != nil {
		l.Delta = *s.Delta
	}
	return l
}

// rightPart writes completion values [B, C] to the last C of T positions, shifted to the positions that predict them.
func rightPart[N float32 | int64](x []N, b, c, t int) []float32 {
	out := make([]float32, b*t)
	for i := range b {
		for j := range c {
			out[i*t+t-c+j-1] = float32(x[i*c+j])
		}
	}
	return out
}

func TestGRPOLoss(t *testing.T) {
	var doc struct {
		Cases map[string]struct {
			Config  grpoSettings
			Loss    float64
			Metrics map[string]float64
		}
	}
	fixtures.JSON(t, "losses", "grpo.json", &doc)
	v := openVectors(t, "losses", "grpo.safetensors")
	tolLoss, tolGrad, tolMetric := fixtures.ToleranceOf(t, "losses.loss"), fixtures.ToleranceOf(t, "losses.grad"), fixtures.ToleranceOf(t, "losses.metrics")
	var mostLoss, mostGrad, mostMetric float64

	prompts, ps := v.ints("prompt_ids")
	completions, cs := v.ints("completion_ids")
	b, c, total := cs[0], cs[1], ps[1]+cs[1]
	targets := make([]int32, b*total)
	for i := range b {
		row := append(narrow(prompts[i*ps[1]:(i+1)*ps[1]]), narrow(completions[i*c:(i+1)*c])...)
		copy(targets[i*total:], row[1:])
	}
	adv, _ := v.floats("advantages")
	old, _ := v.floats("old_logprobs")
	ref, _ := v.floats("ref_logprobs")
	for name, cs := range doc.Cases {
		s := cs.Config
		loss := s.loss()
		if err := loss.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		mask, _ := v.ints("completion_mask")
		if s.MaskedRow {
			mask, _ = v.ints("completion_mask.masked_row")
		}
		if s.Tool {
			tool, _ := v.ints("tool_mask")
			for i := range mask {
				mask[i] *= tool[i]
			}
		}
		accum := max(1, s.Accum)
		tokens := make([]int, b*accum) // the other micro-batches are like this one
		for i := range tokens {
			for _, m := range mask[i%b*c : (i%b+1)*c] {
				tokens[i] += int(m)
			}
		}
		var batchTokens float64
		if s.NumItems > 0 {
			batchTokens = s.NumItems * float64(accum) / s.StepsPerGen
		}
		perRow := loss.TokenWeights(tokens, batchTokens)[:b]
		on := rightPart(mask, b, c, total)
		weights, advantages := make([]float32, b*total), make([]float32, b*total)
		for i := range on {
			weights[i] = on[i] * float32(perRow[i/total])
			advantages[i] = adv[i/total]
		}
		args := []*tensors.Tensor{v.tensor("logits"), tensors.FromFlatDataAndDimensions(targets, b, total)}
		for _, x := range [][]float32{on, weights, advantages, rightPart(old, b, c, total), rightPart(ref, b, c, total)} {
			args = append(args, tensors.FromFlatDataAndDimensions(x, b, total))
		}
		out := call(t, func(in []*graph.Node) []*graph.Node {
			stats := NewTokenStats(in[0], in[1], loss.withDefaults().Temperature)
			tok := GRPOTokens{Mask: in[2], Weights: in[3], Advantages: in[4], Ref: in[6]}
			if !s.OnPolicy {
				tok.Old = in[5]
			}
			l := loss.Build(stats.LogProb, tok)
			return []*graph.Node{l, graph.Gradient(l, in[0])[0], stats.LogProb, stats.Entropy}
		}, args...)
		mostLoss = max(mostLoss, near(t, name+" loss", tolLoss, float64(flat(out[0])[0]), cs.Loss))
		want, _ := v.floats("grad." + name)
		mostGrad = max(mostGrad, worst(t, name+" gradient", tolGrad, flat(out[1]), want))

		lp, entropy := flat(out[2]), flat(out[3])
		rows := make([]GRPORow, b)
		for i := range b {
			rows[i].Advantage = float64(adv[i])
			for j := range c {
				if mask[i*c+j] == 0 {
					continue
				}
				at := i*total + total - c + j - 1
				rows[i].LogProb = append(rows[i].LogProb, lp[at])
				rows[i].Entropy = append(rows[i].Entropy, entropy[at])
				if !s.OnPolicy {
					rows[i].Old = append(rows[i].Old, old[i*c+j])
				}
				if s.Beta > 0 {
					rows[i].Ref = append(rows[i].Ref, ref[i*c+j])
				}
			}
		}
		d := loss.Diagnose(rows)
		got := map[string]float64{"entropy": d.Entropy, "kl": d.KL, "clip_ratio/low_mean": d.ClipLow, "clip_ratio/high_mean": d.ClipHigh,
			"clip_ratio/region_mean": d.Clip, "clip_ratio/low_min": d.ClipLowMin, "clip_ratio/high_max": d.ClipHighMax, "cispo_clip_ratio": d.ClipHigh}
		for key, want := range cs.Metrics {
			g, ok := got[key]
			if !ok {
				t.Errorf("%s: metric %s is not computed", name, key)
			}
			mostMetric = max(mostMetric, near(t, name+" "+key, tolMetric, g, want))
		}
	}
	t.Logf("largest differences over %d cases: loss %.2g, gradient %.2g, metrics %.2g", len(doc.Cases), mostLoss, mostGrad, mostMetric)
}

// A row whose log-probability is -inf under the mask (a padded position of a real model can be) must not spoil the sum.
func TestLossesIgnoreInfinitiesUnderTheMask(t *testing.T) {
	inf := float32(math.Inf(-1))
	out := call(t, func(in []*graph.Node) []*graph.Node {
		lp, w := in[0], in[1]
		sft := SFTLoss{}.Build(TokenStats{LogProb: lp}, w)
		grpo := GRPOLoss{Beta: 0.1}.Build(lp, GRPOTokens{Mask: w, Weights: w, Advantages: graph.OnesLike(w), Old: graph.ZerosLike(w), Ref: graph.ZerosLike(w)})
		return []*graph.Node{graph.ConvertDType(sft, dtypes.Float32), grpo, graph.Gradient(sft, lp)[0], graph.Gradient(grpo, lp)[0]}
	}, tensors.FromValue([][]float32{{-1, inf}}), tensors.FromValue([][]float32{{1, 0}}))
	for i, o := range out {
		for _, x := range flat(o) {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Errorf("output %d is %v", i, flat(o))
			}
		}
	}
}

func TestTemperatureOfTheLoss(t *testing.T) {
	for _, v := range []float64{1e-10, 1e-40, -1, math.NaN(), math.Inf(1), 1e300} {
		if err := (GRPOLoss{Temperature: v}).Check(); err == nil || !strings.Contains(err.Error(), "temperature") {
			t.Errorf("temperature %v: error %v", v, err)
		}
	}
}
