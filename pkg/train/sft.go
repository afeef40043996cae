package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

// SFTLoss is the supervised loss on demonstrations: the negative log-likelihood of the trained tokens. A mask selects them: actions
// are trained; prompts, observations and padding are not.
//
//	nll   L = sum_t w_t (-log p_t)
//	dft   L = sum_t w_t (-p_t log p_t), no gradient through the factor p_t (dynamic fine-tuning, arXiv 2508.05629)
//
// where w_t is 1 / N on trained tokens and 0 elsewhere. N is the number of trained tokens of the whole optimizer step. So with
// gradient accumulation, every token of every micro-batch has the same weight (TRL's num_items_in_batch).
type SFTLoss struct {
	// Kind is "nll" (the default) or "dft".
	Kind string `json:"kind" yaml:"kind"`
}

// Check reports an unknown kind.
func (l SFTLoss) Check() error {
	switch l.Kind {
	case "", "nll", "dft":
		return nil
	}
	return fmt.Errorf("sft: kind is %q, which is none of nll, dft", l.Kind)
}

// Build returns the loss, a scalar, from the statistics of the targets and the weights w, [B, T]. Without a trained token the loss
// and its gradients are 0.
func (l SFTLoss) Build(s TokenStats, weights *graph.Node) *graph.Node {
	loss := graph.Neg(s.LogProb)
	if l.Kind == "dft" {
		loss = graph.Mul(loss, graph.StopGradient(graph.Exp(s.LogProb)))
	}
	on := graph.GreaterThan(weights, graph.ZerosLike(weights))
	return graph.ReduceAllSum(graph.Mul(weights, graph.Where(on, loss, graph.ZerosLike(loss))))
}

// SFTConfig is a run of supervised fine-tuning.
type SFTConfig struct {
	Run       RunConfig   `json:"run" yaml:"run"`
	Batch     BatchConfig `json:"batch" yaml:"batch"`
	Optimizer AdamW       `json:"optimizer" yaml:"optimizer"`
	// Schedule takes the run's number of steps if its Total is 0.
	Schedule Schedule `json:"schedule" yaml:"schedule"`
	Loss     SFTLoss  `json:"loss" yaml:"loss"`
	// Stop ends the run early; see [Summary].StoppedBy.
	Stop StopRule `json:"stop" yaml:"stop"`
}

// Source returns the examples of an epoch, counted from 0. It must return the same examples whenever it is called for the same
// epoch: a resumed run calls it again, and other data are an error. [Fixed] returns one list for all epochs. Another source may
// draw new examples for every epoch, from a random stream of (seed, epoch).
type Source func(epoch int) ([]Example, error)

// Fixed is the source that gives the same examples in every epoch.
func Fixed(examples []Example) Source {
	return func(int) ([]Example, error) { return examples, nil }
}

// SFT trains a model on demonstrations: its adapter if it has one, all its weights otherwise. Every epoch shuffles the examples by
// the stream (seed, "sft/order", epoch), lays them out in micro-batches of static shape, and trains on each once. Validation is
// the mean loss over the trained tokens of val, lower is better; a nil val means no validation.
//
// The run ends when its steps are done, the stop rule ends it, Progress returns [ErrStop], an error occurs, or ctx is cancelled. A
// cancelled run leaves a checkpoint. With the same configuration, data and backend a run repeats bit for bit, resumed or not.
func SFT(ctx context.Context, model *lm.Model, source Source, val []Example, cfg SFTConfig) (Summary, error) {
	if err := cfg.Loss.Check(); err != nil {
		return Summary{}, err
	}
	r, err := newSFT(model, source, val, cfg)
	if err != nil {
		return Summary{}, err
	}
	defer r.learner.close()
	return r.train(ctx)
}

// newSFT prepares a run.
func newSFT(model *lm.Model, source Source, val []Example, cfg SFTConfig) (*run, error) {
	cfg.Run = cfg.Run.withDefaults()
	if err := cfg.Run.Check(); err != nil {
		return nil, err
	}
	if err := cfg.Batch.Check(); err != nil {
		return nil, err
	}
	if err := cfg.Stop.Check(); err != nil {
		return nil, fmt.Errorf("sft: stop: %w", err)
	}
	r := &run{cfg: cfg.Run}
	r.method = method{
		kind:    "sft",
		stop:    cfg.Stop,
		epoch:   func(epoch int) (*epochPlan, error) { return planSFT(source, model.Config.Vocab, cfg, epoch) },
		micros:  func(p *epochPlan, step int) ([]microBatch, error) { return sftMicros(p, step, cfg.Batch), nil },
		metrics: sftMetrics,
	}
	var err error
	if r.total, err = totalSteps(cfg.Run, r.method); err != nil {
		return nil, err
	}
	if cfg.Schedule.Total == 0 {
		cfg.Schedule.Total = r.total
	}
	r.method.config = cfg
	if r.learner, err = newLearner(model, cfg.Optimizer, cfg.Schedule, cfg.Loss.objective(), cfg.Run.Accumulate == 1); err != nil {
		return nil, err
	}
	if len(val) > 0 {
		plan, err := cfg.layOut(val, model.Config.Vocab, nil)
		if err != nil {
			return nil, fmt.Errorf("validation: %w", err)
		}
		r.method.evaluate = func(ctx context.Context) ([]Metric, error) { return validateSFT(ctx, r.learner, plan, cfg.Batch) }
	}
	return r, nil
}

// objective wraps the loss for the learner. Its extra input is the weights.
func (l SFTLoss) objective() objective {
	return objective{
		name: "sft", temperature: 1,
		loss: func(s TokenStats, extra []*graph.Node) *graph.Node { return l.Build(s, extra[0]) },
		keep: func(s TokenStats) []*graph.Node { return []*graph.Node{s.Entropy, s.Correct} },
	}
}

// planSFT shuffles and lays out the examples of one epoch.
func planSFT(source Source, vocab int, cfg SFTConfig, epoch int) (*epochPlan, error) {
	examples, err := source(epoch)
	if err != nil {
		return nil, fmt.Errorf("examples of epoch %d: %w", epoch, err)
	}
	return cfg.layOut(examples, vocab, rng.New(cfg.Run.Seed, "sft/order", epoch).Perm(len(examples)))
}

// layOut puts examples into micro-batches, and micro-batches into optimizer steps. order permutes the examples; nil keeps them as
// they are. Examples without a trained token are left out.
func (cfg SFTConfig) layOut(examples []Example, vocab int, order []int) (*epochPlan, error) {
	hash := sha256.New()
	var chosen []Example
	var lengths []int
	for i := range examples {
		e := examples[i]
		if order != nil {
			e = examples[order[i]]
		}
		if err := e.Check(); err != nil {
			return nil, err
		}
		if err := inVocabulary("example", e.ID, e.IDs, vocab); err != nil {
			return nil, err
		}
		if err := hashRow(hash, e); err != nil {
			return nil, err
		}
		if trainedTokens(e.Mask) > 0 {
			chosen = append(chosen, e)
			lengths = append(lengths, len(e.IDs))
		}
	}
	micros, err := cfg.Batch.plan(lengths, func(i int) string { return fmt.Sprintf("example %q", chosen[i].ID) })
	if err != nil {
		return nil, err
	}
	return &epochPlan{steps: cfg.Run.inSteps(micros), hash: hex.EncodeToString(hash.Sum(nil)), examples: chosen}, nil
}

// sftBatches fills the micro-batches of a step.
func sftBatches(p *epochPlan, step int, c BatchConfig) []*Batch {
	examples := p.examples.([]Example)
	var out []*Batch
	for _, l := range p.steps[step] {
		out = append(out, c.fill(l, func(i int) ([]int32, []uint8) { return examples[i].IDs, examples[i].Mask }))
	}
	return out
}

// sftMicros fills the micro-batches of a step, with the weights: 1 over the trained tokens of the whole step.
func sftMicros(p *epochPlan, step int, c BatchConfig) []microBatch {
	batches := sftBatches(p, step, c)
	return weighSFT(batches)
}

// weighSFT adds the weights to the batches of a step.
func weighSFT(batches []*Batch) []microBatch {
	var n float64
	for _, b := range batches {
		for _, m := range b.Mask {
			n += float64(m)
		}
	}
	var out []microBatch
	for _, b := range batches {
		weights := make([]float32, len(b.Mask))
		for i, m := range b.Mask {
			weights[i] = m * float32(1/max(1, n))
		}
		out = append(out, microBatch{Batch: b, extra: []*tensors.Tensor{b.perToken(weights)}})
	}
	return out
}

// sftMetrics are means over the trained tokens of a step.
func sftMetrics(micros []microBatch, r stepResult) []Metric {
	var n, entropy, correct float64
	for i, mb := range micros {
		for at, m := range mb.Mask {
			if m > 0 {
				n++
				entropy += float64(r.kept[i][0][at])
				correct += float64(r.kept[i][1][at])
			}
		}
	}
	n = max(1, n)
	return []Metric{{"entropy", entropy / n}, {"accuracy", correct / n}}
}

// validateSFT computes mean loss and accuracy over all trained tokens of the plan.
func validateSFT(ctx context.Context, l *learner, p *epochPlan, c BatchConfig) ([]Metric, error) {
	var n, loss, correct float64
	for step := range p.steps {
		for _, b := range sftBatches(p, step, c) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			v, err := l.scores(b, nil)
			if err != nil {
				return nil, err
			}
			for i, m := range b.Mask {
				if m > 0 {
					n++
					loss -= float64(v.logProb[i])
					correct += float64(v.correct[i])
				}
			}
		}
	}
	n = max(1, n)
	return []Metric{{"val/loss", loss / n}, {"val/accuracy", correct / n}}, nil
}
