package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

// GRPOLoss is the policy-gradient loss of group relative policy optimization (Shao et al., arXiv 2402.03300) over the
// sampled tokens of rollouts. With the ratio r = p / old of a token (or, at sequence level, of the geometric mean over
// its sequence: GSPO, arXiv 2507.18071), its rollout's advantage A, and z = log ref - log p,
//
//	surrogate  -min(min(r, Delta) A, clip(r, 1 - EpsLow, 1 + EpsHigh) A)
//	cispo      -stop(min(r, EpsHigh)) A log p                                  (MiniMax-M1, arXiv 2506.13585)
//	sapo       -A 4 s(tau (r - 1)) / tau, tau = TauPos where A > 0 else TauNeg (arXiv 2511.20347)
//	KL (k3)    + Beta (exp z - z - 1), times r with gradient if KLCorrected
//
// The loss is the sum of these terms times the tokens' weights, and the kinds differ in the weights alone (see
// TokenWeights):
//
//	grpo, sapo   1 / (rows * tokens of the row)
//	bnpo         1 / tokens of the optimizer step
//	dr_grpo      1 / (rows * MaxCompletion)                                    (arXiv 2503.20783)
//	dapo, cispo  1 / tokens of the rollout batch, over its optimizer steps     (arXiv 2503.14476)
//
// Observation tokens have mask 0 and weight 0: they count nowhere, but later tokens still attend to them.
type GRPOLoss struct {
	// Kind is "dapo" (the default), "grpo", "bnpo", "dr_grpo", "cispo" or "sapo".
	Kind string `json:"kind" yaml:"kind"`
	// EpsLow and EpsHigh bound the ratio; both 0 is the default of 0.2 and 0.28. For cispo EpsHigh is the bound itself.
	EpsLow  float64 `json:"eps_low" yaml:"eps_low"`
	EpsHigh float64 `json:"eps_high" yaml:"eps_high"`
	// Delta bounds the ratio from above where A < 0 too (two-sided clipping, arXiv 2505.07291); 0 does not.
	Delta float64 `json:"delta" yaml:"delta"`
	// Beta weighs the KL term; 0 leaves it out and needs no reference.
	Beta float64 `json:"beta" yaml:"beta"`
	// KLCorrected multiplies the KL term by the ratio, an unbiased gradient off policy.
	KLCorrected bool `json:"kl_corrected" yaml:"kl_corrected"`
	// SequenceLevel takes one ratio a sequence. Rows must then hold one sequence each.
	SequenceLevel bool `json:"sequence_level" yaml:"sequence_level"`
	// MaxCompletion is dr_grpo's constant length.
	MaxCompletion int `json:"max_completion" yaml:"max_completion"`
	// TauPos and TauNeg are sapo's temperatures; 0 is the default of 1.0 and 1.05.
	TauPos float64 `json:"tau_pos" yaml:"tau_pos"`
	TauNeg float64 `json:"tau_neg" yaml:"tau_neg"`
	// Temperature divides the logits, as it did when sampling; 0 is 1.
	Temperature float64 `json:"temperature" yaml:"-"`
}

var grpoKinds = []string{"dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo"}

func (l GRPOLoss) withDefaults() GRPOLoss {
	if l.Kind == "" {
		l.Kind = "dapo"
	}
	if l.EpsLow == 0 && l.EpsHigh == 0 {
		l.EpsLow, l.EpsHigh = 0.2, 0.28
	}
	if l.TauPos == 0 {
		l.TauPos = 1
	}
	if l.TauNeg == 0 {
		l.TauNeg = 1.05
	}
	if l.Temperature == 0 {
		l.Temperature = 1
	}
	return l
}

// Check reports the first field that makes no sense.
func (l GRPOLoss) Check() error {
	l = l.withDefaults()
	switch {
	case !slices.Contains(grpoKinds, l.Kind):
		return fmt.Errorf("grpo: kind is %q, which is none of %s", l.Kind, strings.Join(grpoKinds, ", "))
	case l.Kind == "dr_grpo" && l.MaxCompletion <= 0:
		return fmt.Errorf("grpo: dr_grpo needs max_completion > 0, the longest completion that sampling allows")
	case !(l.EpsLow >= 0 && l.EpsLow < 1):
		return fmt.Errorf("grpo: eps_low must lie in [0, 1), got %v", l.EpsLow)
	case !(l.EpsHigh >= 0):
		return fmt.Errorf("grpo: eps_high must be at least 0, got %v", l.EpsHigh)
	case l.Delta != 0 && !(l.Delta >= 1):
		return fmt.Errorf("grpo: delta bounds a ratio and must be at least 1, better above 1 + eps_high (0 turns it off), got %v", l.Delta)
	case !(l.Beta >= 0):
		return fmt.Errorf("grpo: beta must be at least 0, got %v", l.Beta)
	case !(l.TauPos > 0 && l.TauNeg > 0):
		return fmt.Errorf("grpo: tau_pos and tau_neg must be positive, got %v and %v", l.TauPos, l.TauNeg)
	case !(l.Temperature >= lm.MinTemperature && l.Temperature <= lm.MaxTemperature):
		return fmt.Errorf("grpo: temperature must lie in [%v, %v] (below it sampling is greedy, and a greedy rollout cannot be trained on), got %v", lm.MinTemperature, lm.MaxTemperature, l.Temperature)
	}
	return nil
}

// GRPOTokens are the inputs of the loss beside the policy's log-probabilities, all float32 [B, T] and aligned with
// them. A nil Old means that the policy itself sampled (the ratio is 1 and only its gradient counts); a nil Ref is
// allowed where Beta is 0.
type GRPOTokens struct {
	Mask, Weights, Advantages, Old, Ref *graph.Node
}

// Build returns the loss, a scalar, from the policy's log-probabilities [B, T].
func (l GRPOLoss) Build(logProb *graph.Node, in GRPOTokens) *graph.Node {
	l = l.withDefaults()
	zero := graph.ZerosLike(logProb)
	on := graph.GreaterThan(in.Mask, zero)
	masked := func(x *graph.Node) *graph.Node { return graph.Where(on, x, zero) }

	lp := masked(logProb)
	old := graph.StopGradient(lp)
	if in.Old != nil {
		old = masked(in.Old)
	}
	logRatio := graph.Sub(lp, old)
	if l.SequenceLevel {
		count := graph.MaxScalar(graph.ReduceAndKeep(in.Mask, graph.ReduceSum, -1), 1)
		mean := graph.Div(graph.ReduceAndKeep(logRatio, graph.ReduceSum, -1), count)
		logRatio = masked(graph.BroadcastToDims(mean, lp.Shape().Dimensions...))
	}
	ratio := graph.Exp(logRatio)
	a := in.Advantages

	var loss *graph.Node
	switch l.Kind {
	case "cispo":
		bounded := graph.StopGradient(graph.MinScalar(ratio, l.EpsHigh))
		loss = graph.Neg(graph.Mul(graph.Mul(bounded, a), lp))
	case "sapo":
		g := lp.Graph()
		tau := graph.Where(graph.GreaterThan(a, zero), graph.BroadcastToDims(graph.Const(g, float32(l.TauPos)), lp.Shape().Dimensions...),
			graph.BroadcastToDims(graph.Const(g, float32(l.TauNeg)), lp.Shape().Dimensions...))
		soft := graph.Div(graph.MulScalar(graph.Sigmoid(graph.Mul(tau, graph.AddScalar(ratio, -1))), 4), tau)
		loss = graph.Neg(graph.Mul(soft, a))
	default:
		// Select rather than Min and Clip: at r = 1, where every on-policy step stands, both sides of the min are
		// equal and the gradient must be that of the unclipped one.
		plain := ratio
		if l.Delta > 0 {
			plain = upper(plain, l.Delta)
		}
		plain = graph.Mul(plain, a)
		fixed := graph.StopGradient(graph.Mul(graph.MinScalar(graph.MaxScalar(ratio, 1-l.EpsLow), 1+l.EpsHigh), a))
		loss = graph.Neg(graph.Where(graph.LessThan(fixed, graph.StopGradient(plain)), fixed, plain))
	}
	if l.Beta > 0 {
		z := graph.Sub(masked(in.Ref), lp)
		kl := graph.AddScalar(graph.Sub(graph.Exp(z), z), -1)
		if l.KLCorrected {
			kl = graph.Mul(kl, ratio)
		}
		loss = graph.Add(loss, graph.MulScalar(kl, l.Beta))
	}
	return graph.ReduceAllSum(graph.Mul(in.Weights, masked(loss)))
}

// upper is min(x, bound) whose gradient is 0 above the bound.
func upper(x *graph.Node, bound float64) *graph.Node {
	b := graph.BroadcastToDims(graph.Const(x.Graph(), float32(bound)), x.Shape().Dimensions...)
	return graph.Where(graph.GreaterThan(x, b), b, x)
}

// TokenWeights returns the weight of one token of every row of an optimizer step, from the rows' numbers of sampled
// tokens (0 for a row that is masked whole; it still counts as a row). The loss of the step is the weighted sum over
// all its rows, however they are laid out in micro-batches. batchTokens is the denominator of dapo and cispo: the
// sampled tokens of the whole rollout batch over the optimizer steps of one pass; 0 means the tokens of this step.
func (l GRPOLoss) TokenWeights(tokens []int, batchTokens float64) []float64 {
	l = l.withDefaults()
	var sum float64
	for _, n := range tokens {
		sum += float64(n)
	}
	if batchTokens == 0 {
		batchTokens = sum
	}
	rows := float64(len(tokens))
	out := make([]float64, len(tokens))
	for i, n := range tokens {
		switch l.Kind {
		case "grpo", "sapo":
			out[i] = 1 / (rows * max(1, float64(n)))
		case "bnpo":
			out[i] = 1 / max(1, sum)
		case "dr_grpo":
			out[i] = 1 / (rows * float64(l.MaxCompletion))
		default:
			out[i] = 1 / max(1, batchTokens)
		}
	}
	return out
}

// GRPOConfig configures the updates of a policy from rollouts.
type GRPOConfig struct {
	Seed      uint64      `json:"seed" yaml:"-"`
	Loss      GRPOLoss    `json:"loss" yaml:"loss"`
	Optimizer AdamW       `json:"optimizer" yaml:"optimizer"`
	Schedule  Schedule    `json:"schedule" yaml:"schedule"`
	Batch     BatchConfig `json:"batch" yaml:"batch"`
	// Passes over every rollout batch; default 2.
	Passes int `json:"passes" yaml:"passes"`
	// Minibatches is the number of optimizer steps of a pass; default 1. With more, every pass deals the rollouts out
	// anew, in the order of the stream (seed, "grpo/order", update, pass).
	Minibatches int `json:"minibatches" yaml:"minibatches"`
	// Old says where the log-probabilities in the ratio's denominator come from: "sampler" (the default: the rollouts')
	// or "recompute" (one more forward pass of the policy before it is changed).
	Old string `json:"old" yaml:"old"`
	// DropTruncated leaves truncated rollouts out of the loss; they still count as rows.
	DropTruncated bool `json:"drop_truncated" yaml:"drop_truncated"`
}

func (c GRPOConfig) withDefaults() GRPOConfig {
	if c.Passes == 0 {
		c.Passes = 2
	}
	if c.Minibatches == 0 {
		c.Minibatches = 1
	}
	if c.Old == "" {
		c.Old = "sampler"
	}
	c.Loss = c.Loss.withDefaults()
	return c
}

// Steps is the number of optimizer steps of one update.
func (c GRPOConfig) Steps() int {
	c = c.withDefaults()
	return c.Passes * c.Minibatches
}

// Check reports the first field that makes no sense.
func (c GRPOConfig) Check() error {
	c = c.withDefaults()
	for _, part := range []interface{ Check() error }{c.Loss, c.Optimizer, c.Schedule, c.Batch} {
		if err := part.Check(); err != nil {
			return err
		}
	}
	switch {
	case c.Passes < 1 || c.Minibatches < 1:
		return fmt.Errorf("grpo: passes and minibatches must be at least 1, got %d and %d", c.Passes, c.Minibatches)
	case c.Old != "sampler" && c.Old != "recompute":
		return fmt.Errorf("grpo: old is %q, which is none of sampler, recompute", c.Old)
	case c.Loss.SequenceLevel && !c.Batch.Unpacked:
		return fmt.Errorf("grpo: sequence_level needs batch unpacked: true, so that a row is a sequence")
	}
	return nil
}

// GRPO updates a policy from rollouts: the part of reinforcement learning between the advantages and the new weights.
// Playing the episodes, rewards and the loop around both are the caller's. The reference of the KL term is the policy as
// it was when NewGRPO was called: a frozen copy of the trained weights, which for a fresh adapter is the base model.
// Not safe for concurrent use.
type GRPO struct {
	cfg       GRPOConfig
	learner   *learner
	reference *lm.Weights // nil where Beta is 0
	updates   int
	run       *GRPORun
}

// NewGRPO prepares updates of a model: of its adapter if it has one, of all its weights otherwise. Close it after use.
func NewGRPO(model *lm.Model, cfg GRPOConfig) (*GRPO, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	g := &GRPO{cfg: cfg}
	var err error
	if g.learner, err = newLearner(model, cfg.Optimizer, cfg.Schedule, cfg.Loss.objective(), false); err != nil {
		return nil, err
	}
	if cfg.Loss.Beta > 0 {
		if g.reference, err = g.learner.trained.Clone(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// objective makes the loss trainable. Its inputs are mask, weights, advantages, old and, with a KL term, reference.
func (l GRPOLoss) objective() objective {
	l = l.withDefaults()
	return objective{
		name: "grpo", temperature: l.Temperature,
		loss: func(s TokenStats, in []*graph.Node) *graph.Node {
			tokens := GRPOTokens{Mask: in[0], Weights: in[1], Advantages: in[2], Old: in[3]}
			if l.Beta > 0 {
				tokens.Ref = in[4]
			}
			return l.Build(s.LogProb, tokens)
		},
		keep: func(s TokenStats) []*graph.Node { return []*graph.Node{s.LogProb, s.Entropy} },
	}
}

// Compilations counts the graphs compiled so far.
func (g *GRPO) Compilations() int { return g.learner.compilations() }

// Close frees what the updates needed; the model keeps its weights.
func (g *GRPO) Close() {
	g.learner.close()
	if g.reference != nil {
		g.reference.Free()
	}
}

// policyRow is a rollout with what scoring found: log-probabilities aligned with its ids, as the rollout's own are.
type policyRow struct {
	Rollout
	old, ref []float32
}

// Update takes Passes x Minibatches optimizer steps on one batch of rollouts. When it fails or ctx is cancelled between
// steps, the policy may have taken some of them: go back to a checkpoint.
func (g *GRPO) Update(ctx context.Context, rollouts []Rollout) (GRPOUpdate, error) {
	var u GRPOUpdate
	if len(rollouts) < g.cfg.Minibatches {
		return u, fmt.Errorf("grpo: %d rollouts cannot be dealt out to %d minibatches", len(rollouts), g.cfg.Minibatches)
	}
	rows, err := g.prepare(rollouts, &u)
	if err != nil {
		return u, err
	}
	if err := g.scoreRows(ctx, rows); err != nil {
		return u, err
	}
	var batchTokens float64
	for _, r := range rows {
		batchTokens += float64(trainedTokens(r.Mask))
	}
	batchTokens /= float64(g.cfg.Minibatches)
	for pass := range g.cfg.Passes {
		order := make([]int, len(rows))
		for i := range order {
			order[i] = i
		}
		if g.cfg.Minibatches > 1 {
			order = rng.New(g.cfg.Seed, "grpo/order", g.updates, pass).Perm(len(rows))
		}
		for mini := range g.cfg.Minibatches {
			if err := ctx.Err(); err != nil {
				return u, fmt.Errorf("grpo: update %d stopped: %w", g.updates, err)
			}
			var part []*policyRow
			for _, i := range order[mini*len(rows)/g.cfg.Minibatches : (mini+1)*len(rows)/g.cfg.Minibatches] {
				part = append(part, rows[i])
			}
			step, err := g.step(part, batchTokens, &u)
			if err != nil {
				return u, err
			}
			step.Pass, step.Minibatch = pass, mini
			u.Steps = append(u.Steps, step)
		}
	}
	g.updates++
	return u, nil
}

// prepare checks the rollouts and counts.
func (g *GRPO) prepare(rollouts []Rollout, u *GRPOUpdate) ([]*policyRow, error) {
	vocab := g.learner.model.Config.Vocab
	mixed := map[string]bool{}
	var rows []*policyRow
	for _, r := range rollouts {
		if err := r.Check(); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(r.IDs, func(id int32) bool { return int(id) >= vocab }); i >= 0 {
			return nil, fmt.Errorf("rollout %q: ids[%d] is %d, the model's vocabulary has %d", r.ID, i, r.IDs[i], vocab)
		}
		mixed[r.Group] = mixed[r.Group] || r.Advantage != 0
		if r.Truncated {
			u.TruncatedShare += 1 / float64(len(rollouts))
			if g.cfg.DropTruncated {
				r.Mask = make([]uint8, len(r.Mask))
			}
		}
		rows = append(rows, &policyRow{Rollout: r})
	}
	for _, m := range mixed { // a count: the order does not matter
		if !m {
			u.ZeroVarianceShare += 1 / float64(len(mixed))
		}
	}
	return rows, nil
}

// scoreRows fills old and ref.
func (g *GRPO) scoreRows(ctx context.Context, rows []*policyRow) error {
	for _, r := range rows {
		r.old = r.LogProbs
	}
	if g.cfg.Old == "recompute" {
		now, err := g.rowLogProbs(ctx, rows, nil)
		if err != nil {
			return err
		}
		for i, r := range rows {
			r.old = now[i]
		}
	}
	if g.reference != nil {
		refs, err := g.rowLogProbs(ctx, rows, g.reference)
		if err != nil {
			return err
		}
		for i, r := range rows {
			r.ref = refs[i]
		}
	}
	return nil
}

// rowLogProbs scores rows under weights (nil: the present ones). Entry t of a row is of its token t; 0 for the first.
func (g *GRPO) rowLogProbs(ctx context.Context, rows []*policyRow, weights *lm.Weights) ([][]float32, error) {
	layouts, err := g.layouts(rows)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(rows))
	for _, l := range layouts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := g.learner.scores(g.fill(l, rows), weights)
		if err != nil {
			return nil, err
		}
		for _, p := range l.places {
			n := len(rows[p.item].IDs)
			at := p.row*l.length + p.at
			out[p.item] = append(make([]float32, 1, n), v.logProb[at:at+n-1]...)
		}
	}
	return out, nil
}

func (g *GRPO) layouts(rows []*policyRow) ([]layout, error) {
	lengths := make([]int, len(rows))
	for i, r := range rows {
		lengths[i] = len(r.IDs)
	}
	return g.cfg.Batch.plan(lengths, func(i int) string { return fmt.Sprintf("rollout %q", rows[i].ID) })
}

func (g *GRPO) fill(l layout, rows []*policyRow) *Batch {
	return g.cfg.Batch.fill(l, func(i int) ([]int32, []uint8) { return rows[i].IDs, rows[i].Mask })
}

// step takes one optimizer step on rows.
func (g *GRPO) step(rows []*policyRow, batchTokens float64, u *GRPOUpdate) (GRPOStep, error) {
	layouts, err := g.layouts(rows)
	if err != nil {
		return GRPOStep{}, err
	}
	tokens := make([]int, len(rows))
	for i, r := range rows {
		tokens[i] = trainedTokens(r.Mask)
		u.TrainedTokens += int64(tokens[i])
		u.ProcessedTokens += int64(len(r.IDs))
	}
	weights := g.cfg.Loss.TokenWeights(tokens, batchTokens)
	var micros []microBatch
	for _, l := range layouts {
		b := g.fill(l, rows)
		w, a, old, ref := make([]float32, len(b.Mask)), make([]float32, len(b.Mask)), make([]float32, len(b.Mask)), make([]float32, len(b.Mask))
		for _, p := range l.places {
			r, at := rows[p.item], p.row*l.length+p.at
			for t := range len(r.IDs) - 1 { // position t predicts token t+1
				w[at+t] = b.Mask[at+t] * float32(weights[p.item])
				a[at+t] = float32(r.Advantage)
				old[at+t] = r.old[t+1]
				if r.ref != nil {
					ref[at+t] = r.ref[t+1]
				}
			}
		}
		extra := []*tensors.Tensor{b.perToken(b.Mask), b.perToken(w), b.perToken(a), b.perToken(old)}
		if g.reference != nil {
			extra = append(extra, b.perToken(ref))
		}
		micros = append(micros, microBatch{Batch: b, extra: extra})
	}
	res, err := g.learner.update(micros)
	if err != nil {
		return GRPOStep{}, err
	}
	diag := make([]GRPORow, len(rows))
	var gap, gapMax, sampled float64
	for k, l := range layouts {
		for _, p := range l.places {
			r, at := rows[p.item], p.row*l.length+p.at
			d := GRPORow{Advantage: r.Advantage}
			for t := range len(r.IDs) - 1 {
				if micros[k].Mask[at+t] == 0 {
					continue
				}
				lp := res.kept[k][0][at+t]
				away := math.Abs(float64(lp) - float64(r.LogProbs[t+1]))
				gap, gapMax, sampled = gap+away, max(gapMax, away), sampled+1
				d.LogProb = append(d.LogProb, lp)
				d.Entropy = append(d.Entropy, res.kept[k][1][at+t])
				d.Old = append(d.Old, r.old[t+1])
				if r.ref != nil {
					d.Ref = append(d.Ref, r.ref[t+1])
				}
			}
			diag[p.item] = d
		}
	}
	if len(u.Steps) == 0 { // the weights were still those that sampled
		u.SamplerGap, u.SamplerGapMax = gap/max(1, sampled), gapMax
	}
	return GRPOStep{Loss: res.loss, GradNorm: res.gradNorm, LR: res.lr, GRPODiagnostics: g.cfg.Loss.Diagnose(diag)}, nil
}
