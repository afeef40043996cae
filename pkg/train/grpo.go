package train

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

// GRPOConfig configures the updates of a policy from rollouts.
type GRPOConfig struct {
	Seed      uint64      `json:"seed" yaml:"-"`
	Loss      GRPOLoss    `json:"loss" yaml:"loss"`
	Optimizer AdamW       `json:"optimizer" yaml:"optimizer"`
	Schedule  Schedule    `json:"schedule" yaml:"schedule"`
	Batch     BatchConfig `json:"batch" yaml:"batch"`
	// Epochs is the number of passes over the rollouts of an update; default 2.
	Epochs int `json:"epochs" yaml:"epochs"`
	// Minibatches is the number of optimizer steps of an epoch; default 1. With more than one, every epoch shuffles the
	// rollouts by the stream (seed, "grpo/order", update, epoch) and splits them evenly.
	Minibatches int `json:"minibatches" yaml:"minibatches"`
	// OldLogProbs says where the log-probabilities in the ratio's denominator come from. "sampler", the default, takes those of the
	// rollouts. "recompute" takes those of one more forward pass, before the first step of the update.
	OldLogProbs string `json:"old_logprobs" yaml:"old_logprobs"`
	// DropTruncated leaves truncated rollouts out of the loss. They still count as rows.
	DropTruncated bool `json:"drop_truncated" yaml:"drop_truncated"`
}

func (c GRPOConfig) withDefaults() GRPOConfig {
	if c.Epochs == 0 {
		c.Epochs = 2
	}
	if c.Minibatches == 0 {
		c.Minibatches = 1
	}
	if c.OldLogProbs == "" {
		c.OldLogProbs = "sampler"
	}
	c.Loss = c.Loss.withDefaults()
	return c
}

// Steps is the number of optimizer steps of one update.
func (c GRPOConfig) Steps() int {
	c = c.withDefaults()
	return c.Epochs * c.Minibatches
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
	case c.Epochs < 1 || c.Minibatches < 1:
		return fmt.Errorf("grpo: epochs and minibatches must be at least 1, got %d and %d", c.Epochs, c.Minibatches)
	case c.OldLogProbs != "sampler" && c.OldLogProbs != "recompute":
		return fmt.Errorf("grpo: old_logprobs is %q, which is none of sampler, recompute", c.OldLogProbs)
	case c.Loss.SequenceLevel && !c.Batch.Unpacked:
		return fmt.Errorf("grpo: sequence_level needs batch unpacked: true, so that a row is a sequence")
	}
	return nil
}

// GRPO updates a policy from rollouts with advantages. The caller plays the episodes and computes the advantages. The
// reference of the KL term is the policy as it was when NewGRPO was called: a frozen copy of the trained weights. For a fresh
// adapter that is the base model. Not safe for concurrent use.
type GRPO struct {
	cfg       GRPOConfig
	learner   *learner
	reference *lm.Weights // nil where Beta is 0
	updates   int
	run       *GRPORun
}

// NewGRPO prepares updates of a model: of its adapter if it has one, of all its weights otherwise. The caller closes it.
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
			g.learner.close()
			return nil, err
		}
	}
	return g, nil
}

// Compilations counts the graphs compiled so far.
func (g *GRPO) Compilations() int { return g.learner.compilations() }

// Close frees moments, programs and the reference. The model keeps its weights.
func (g *GRPO) Close() {
	g.learner.close()
	if g.reference != nil {
		g.reference.Free()
	}
}

// scoredRollout is a rollout with its log-probabilities under the old policy and under the reference. Both are aligned with
// IDs, as LogProbs is; ref is nil without a reference.
type scoredRollout struct {
	Rollout
	old, ref []float32
}

// Update takes Epochs x Minibatches optimizer steps on the rollouts. If it fails, or if ctx is cancelled between two steps,
// the policy may have taken some of them: go back to a checkpoint then.
func (g *GRPO) Update(ctx context.Context, rollouts []Rollout) (GRPOUpdate, error) {
	var u GRPOUpdate
	if len(rollouts) < g.cfg.Minibatches {
		return u, fmt.Errorf("grpo: %d rollouts cannot be split into %d minibatches", len(rollouts), g.cfg.Minibatches)
	}
	rows, err := g.prepare(rollouts, &u)
	if err != nil {
		return u, err
	}
	if err := g.scoreRows(ctx, rows); err != nil {
		return u, err
	}
	var tokensPerStep float64
	for _, r := range rows {
		tokensPerStep += float64(trainedTokens(r.Mask))
	}
	tokensPerStep /= float64(g.cfg.Minibatches)
	for epoch := range g.cfg.Epochs {
		for i, minibatch := range g.minibatches(rows, epoch) {
			if err := ctx.Err(); err != nil {
				return u, fmt.Errorf("grpo: update %d stopped: %w", g.updates, err)
			}
			step, err := g.step(minibatch, tokensPerStep, &u)
			if err != nil {
				return u, err
			}
			step.Epoch, step.Minibatch = epoch, i
			u.Steps = append(u.Steps, step)
		}
	}
	g.updates++
	return u, nil
}

// minibatches splits the rows of an epoch. A single minibatch keeps their order.
func (g *GRPO) minibatches(rows []*scoredRollout, epoch int) [][]*scoredRollout {
	n := g.cfg.Minibatches
	if n == 1 {
		return [][]*scoredRollout{rows}
	}
	order := rng.New(g.cfg.Seed, "grpo/order", g.updates, epoch).Perm(len(rows))
	out := make([][]*scoredRollout, n)
	for k := range out {
		for _, i := range order[k*len(rows)/n : (k+1)*len(rows)/n] {
			out[k] = append(out[k], rows[i])
		}
	}
	return out
}

// prepare checks the rollouts, clears the masks of truncated ones if they are to be dropped, and fills in u's shares.
func (g *GRPO) prepare(rollouts []Rollout, u *GRPOUpdate) ([]*scoredRollout, error) {
	vocab := g.learner.model.Config.Vocab
	informative := map[string]bool{} // by group: whether any advantage is not 0
	var rows []*scoredRollout
	for _, r := range rollouts {
		if err := r.Check(); err != nil {
			return nil, err
		}
		if err := inVocabulary("rollout", r.ID, r.IDs, vocab); err != nil {
			return nil, err
		}
		informative[r.Group] = informative[r.Group] || r.Advantage != 0
		if r.Truncated {
			u.TruncatedShare += 1 / float64(len(rollouts))
			if g.cfg.DropTruncated {
				r.Mask = make([]uint8, len(r.Mask))
			}
		}
		rows = append(rows, &scoredRollout{Rollout: r})
	}
	for _, has := range informative { // equal terms are added: the map's order does not matter
		if !has {
			u.ZeroVarianceShare += 1 / float64(len(informative))
		}
	}
	return rows, nil
}

// scoreRows fills in old and ref.
func (g *GRPO) scoreRows(ctx context.Context, rows []*scoredRollout) error {
	for _, r := range rows {
		r.old = r.LogProbs
	}
	if g.cfg.OldLogProbs == "recompute" {
		current, err := g.rowLogProbs(ctx, rows, nil)
		if err != nil {
			return err
		}
		for i, r := range rows {
			r.old = current[i]
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

// rowLogProbs scores rows under weights; nil means the current ones. Entry t of a row belongs to its token t; the first is 0.
func (g *GRPO) rowLogProbs(ctx context.Context, rows []*scoredRollout, weights *lm.Weights) ([][]float32, error) {
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

func (g *GRPO) layouts(rows []*scoredRollout) ([]layout, error) {
	lengths := make([]int, len(rows))
	for i, r := range rows {
		lengths[i] = len(r.IDs)
	}
	return g.cfg.Batch.plan(lengths, func(i int) string { return fmt.Sprintf("rollout %q", rows[i].ID) })
}

func (g *GRPO) fill(l layout, rows []*scoredRollout) *Batch {
	return g.cfg.Batch.fill(l, func(i int) ([]int32, []uint8) { return rows[i].IDs, rows[i].Mask })
}

// step takes one optimizer step on rows, and adds to u's counts. tokensPerStep is what [GRPOLoss.TokenWeights] calls batchTokens.
func (g *GRPO) step(rows []*scoredRollout, tokensPerStep float64, u *GRPOUpdate) (GRPOStep, error) {
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
	weights := g.cfg.Loss.TokenWeights(tokens, tokensPerStep)
	micros := make([]microBatch, len(layouts))
	for i, l := range layouts {
		micros[i] = g.microBatch(l, rows, weights)
	}
	res, err := g.learner.update(micros)
	if err != nil {
		return GRPOStep{}, err
	}
	diagnosed, gap := diagnosisRows(rows, layouts, micros, res)
	if len(u.Steps) == 0 { // the weights of the forward pass were still those that sampled
		u.SamplerGap, u.SamplerGapMax = gap.mean(), gap.max
	}
	return GRPOStep{Loss: res.loss, GradNorm: res.gradNorm, LR: res.lr, GRPODiagnostics: g.cfg.Loss.Diagnose(diagnosed)}, nil
}

// microBatch fills a micro-batch with the rows of a layout and with the inputs of the loss.
func (g *GRPO) microBatch(l layout, rows []*scoredRollout, weights []float64) microBatch {
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
	return microBatch{Batch: b, extra: extra}
}

// samplerGap collects the absolute differences between the sampler's and the trainer's log-probabilities.
type samplerGap struct{ sum, max, tokens float64 }

func (s *samplerGap) add(sampler, trainer float32) {
	d := math.Abs(float64(trainer) - float64(sampler))
	s.sum, s.max, s.tokens = s.sum+d, max(s.max, d), s.tokens+1
}

func (s samplerGap) mean() float64 { return s.sum / max(1, s.tokens) }

// diagnosisRows picks the sampled tokens out of a step's results.
func diagnosisRows(rows []*scoredRollout, layouts []layout, micros []microBatch, res stepResult) ([]GRPORow, samplerGap) {
	out := make([]GRPORow, len(rows))
	var gap samplerGap
	for k, l := range layouts {
		logProb, entropy := res.kept[k][0], res.kept[k][1]
		for _, p := range l.places {
			r, at := rows[p.item], p.row*l.length+p.at
			d := GRPORow{Advantage: r.Advantage}
			for t := range len(r.IDs) - 1 {
				if micros[k].Mask[at+t] == 0 {
					continue
				}
				gap.add(r.LogProbs[t+1], logProb[at+t])
				d.LogProb = append(d.LogProb, logProb[at+t])
				d.Entropy = append(d.Entropy, entropy[at+t])
				d.Old = append(d.Old, r.old[t+1])
				if r.ref != nil {
					d.Ref = append(d.Ref, r.ref[t+1])
				}
			}
			out[p.item] = d
		}
	}
	return out, gap
}
