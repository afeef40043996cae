package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

// DPOLoss is the loss of direct preference optimization on pairs of a chosen and a rejected answer to one prompt (Rafailov et al.,
// arXiv 2305.18290). Let log p be the log-probability of an answer under the policy, and log ref that under the reference, both
// summed over its trained tokens, and
//
//	d = (log p(chosen) - log ref(chosen)) - (log p(rejected) - log ref(rejected))
//
// The loss is a weighted sum of the terms that Kinds names. Each is a mean over the pairs, except for sft:
//
//	sigmoid       -log s(beta d)
//	robust        (-(1-e) log s(beta d) + e log s(-beta d)) / (1 - 2e)   with label smoothing e (arXiv 2403.00409)
//	hinge         max(0, 1 - beta d)                                     (SLiC, arXiv 2305.10425)
//	ipo           (d' - 1/(2 beta))^2                                    (arXiv 2310.12036)
//	sigmoid_norm  -log s(beta d')                                        (Tulu 3, arXiv 2411.15124)
//	sft           -log p of a token, averaged over all chosen tokens of the optimizer step
//
// where s is the logistic function, and d' is d with means over an answer's tokens in place of sums.
type DPOLoss struct {
	// Kinds are the terms; empty means {"sigmoid"}.
	Kinds []string `json:"kinds" yaml:"kinds"`
	// Weights are the weights of the terms, parallel to Kinds; empty means all 1.
	Weights []float64 `json:"weights" yaml:"weights"`
	// Beta is how strongly the loss holds the policy to the reference; 0 means the default of 0.1.
	Beta float64 `json:"beta" yaml:"beta"`
	// LabelSmoothing is the share of wrongly labeled pairs that robust assumes; below 0.5.
	LabelSmoothing float64 `json:"label_smoothing" yaml:"label_smoothing"`
}

func (l DPOLoss) withDefaults() DPOLoss {
	if len(l.Kinds) == 0 {
		l.Kinds = []string{"sigmoid"}
	}
	if len(l.Weights) == 0 {
		l.Weights = make([]float64, len(l.Kinds))
		for i := range l.Weights {
			l.Weights[i] = 1
		}
	}
	if l.Beta == 0 {
		l.Beta = 0.1
	}
	return l
}

// Check reports the first field that makes no sense.
func (l DPOLoss) Check() error {
	l = l.withDefaults()
	if len(l.Kinds) != len(l.Weights) {
		return fmt.Errorf("dpo: %d kinds %v but %d weights", len(l.Kinds), l.Kinds, len(l.Weights))
	}
	for _, k := range l.Kinds {
		switch k {
		case "sigmoid", "robust", "hinge", "ipo", "sigmoid_norm", "sft":
		default:
			return fmt.Errorf("dpo: unknown kind %q (sigmoid, robust, hinge, ipo, sigmoid_norm, sft)", k)
		}
	}
	if !(l.Beta > 0) {
		return fmt.Errorf("dpo: beta must be positive, got %v", l.Beta)
	}
	if !(l.LabelSmoothing >= 0 && l.LabelSmoothing < 0.5) {
		return fmt.Errorf("dpo: label_smoothing must lie in [0, 0.5), got %v", l.LabelSmoothing)
	}
	return nil
}

// PairSums are the inputs of a DPO loss for n pairs, one value for every answer: 0 to n-1 are the chosen answers, n to 2n-1 the
// rejected ones.
type PairSums struct {
	// Policy and Ref are the answers' log-probabilities under policy and reference, [2n].
	Policy, Ref *graph.Node
	// Tokens is the number of trained tokens of each answer, [2n].
	Tokens *graph.Node
}

// Build returns the loss, a scalar. pairs is the number of pairs of the whole optimizer step, and chosenTokens the number of
// trained tokens of their chosen answers; both are float32 scalars. A pair whose chosen answer has no tokens is padding and is not
// counted.
func (l DPOLoss) Build(s PairSums, pairs, chosenTokens *graph.Node) *graph.Node {
	l = l.withDefaults()
	n := s.Policy.Shape().Dimensions[0] / 2
	first := func(x *graph.Node) *graph.Node { return graph.Slice(x, graph.AxisRange(0, n)) }
	second := func(x *graph.Node) *graph.Node { return graph.Slice(x, graph.AxisRange(n, 2*n)) }
	delta := graph.Sub(s.Policy, s.Ref)
	margin := graph.Sub(first(delta), second(delta))
	perToken := graph.Div(delta, graph.MaxScalar(s.Tokens, 1))
	meanMargin := graph.Sub(first(perToken), second(perToken))
	real := graph.GreaterThan(first(s.Tokens), graph.ZerosLike(first(s.Tokens)))
	mean := func(x *graph.Node) *graph.Node {
		return graph.Div(graph.ReduceAllSum(graph.Where(real, x, graph.ZerosLike(x))), graph.MaxScalar(pairs, 1))
	}
	var total *graph.Node
	for i, kind := range l.Kinds {
		var term *graph.Node
		switch kind {
		case "sigmoid":
			term = mean(softplus(graph.MulScalar(margin, -l.Beta)))
		case "sigmoid_norm":
			term = mean(softplus(graph.MulScalar(meanMargin, -l.Beta)))
		case "robust":
			e := l.LabelSmoothing
			right, wrong := softplus(graph.MulScalar(margin, -l.Beta)), softplus(graph.MulScalar(margin, l.Beta))
			term = mean(graph.DivScalar(graph.Sub(graph.MulScalar(right, 1-e), graph.MulScalar(wrong, e)), 1-2*e))
		case "hinge":
			h := graph.OneMinus(graph.MulScalar(margin, l.Beta))
			term = mean(graph.Where(graph.GreaterThan(h, graph.ZerosLike(h)), h, graph.ZerosLike(h)))
		case "ipo":
			term = mean(graph.Square(graph.AddScalar(meanMargin, -1/(2*l.Beta))))
		case "sft":
			term = graph.Neg(graph.Div(graph.ReduceAllSum(first(s.Policy)), graph.MaxScalar(chosenTokens, 1)))
		default:
			panic(fmt.Errorf("dpo: unknown kind %q", kind))
		}
		if w := l.Weights[i]; w != 1 {
			term = graph.MulScalar(term, w)
		}
		if total == nil {
			total = term
		} else {
			total = graph.Add(total, term)
		}
	}
	return total
}

// softplus is log(1 + exp(x)), that is -log s(-x), without overflow. The usual form max(x, 0) + log(1 + exp(-|x|)) has no gradient
// at x = 0 in either part, and every run starts at 0.
func softplus(x *graph.Node) *graph.Node {
	top := graph.StopGradient(graph.MaxScalar(x, 0))
	return graph.Add(top, graph.Log(graph.Add(graph.Exp(graph.Sub(x, top)), graph.Exp(graph.Neg(top)))))
}

// DPOConfig is a run of direct preference optimization.
type DPOConfig struct {
	Run       RunConfig `json:"run" yaml:"run"`
	Optimizer AdamW     `json:"optimizer" yaml:"optimizer"`
	// Schedule takes the run's number of steps if its Total is 0.
	Schedule Schedule `json:"schedule" yaml:"schedule"`
	// Batch lays the pairs out, each as one sequence that holds the common prefix once: see [Pair.Len].
	Batch BatchConfig `json:"batch" yaml:"batch"`
	Loss  DPOLoss     `json:"loss" yaml:"loss"`
	// Stop ends the run early; see [Summary].StoppedBy.
	Stop StopRule `json:"stop" yaml:"stop"`
}

// Check reports the first field that makes no sense.
func (cfg DPOConfig) Check() error {
	for _, part := range []interface{ Check() error }{cfg.Run, cfg.Batch, cfg.Loss} {
		if err := part.Check(); err != nil {
			return err
		}
	}
	if cfg.Run.TrainTokens > 0 {
		return errors.New("dpo: train_tokens bounds supervised training only: set max_steps or epochs")
	}
	if err := cfg.Stop.Check(); err != nil {
		return fmt.Errorf("dpo: stop: %w", err)
	}
	return nil
}

// Steps is the number of optimizer steps that these pairs make, as the run's configuration has it.
func (cfg DPOConfig) Steps(pairs []Pair) (int, error) {
	if err := cfg.Check(); err != nil {
		return 0, err
	}
	cfg.Run = cfg.Run.withDefaults()
	return totalSteps(cfg.Run, cfg.method(pairs, math.MaxInt32))
}

// DPO trains a model on preferences: its adapter if it has one, all its weights otherwise. In every epoch the pairs are put in
// the order of the stream (seed, "dpo/order", epoch). Validation is the loss over the pairs of val (nil: none); the best is the
// lowest.
//
// The reference is the policy as it is given. DPO keeps no frozen copy of its weights. It computes the log-probability of every
// answer once before the first step, and keeps these in memory. A resumed run computes them again. So the caller must give it
// the policy that the run started from; another one is an error.
//
// A trained token of the pair's common prefix counts once in the summary's tokens, and in the log-probabilities of both answers.
// The run ends, resumes and repeats as [SFT] does.
func DPO(ctx context.Context, model *lm.Model, pairs, val []Pair, cfg DPOConfig) (Summary, error) {
	r, err := newDPO(ctx, model, pairs, val, cfg)
	if err != nil {
		return Summary{}, err
	}
	defer r.learner.close()
	return r.train(ctx)
}

// method is the part of a run that needs no model. vocab bounds the ids.
func (cfg DPOConfig) method(pairs []Pair, vocab int) method {
	return method{
		kind: "dpo",
		stop: cfg.Stop,
		epoch: func(epoch int) (*epochPlan, error) {
			return cfg.layOut(pairs, vocab, rng.New(cfg.Run.Seed, "dpo/order", epoch).Perm(len(pairs)))
		},
		metrics: func(micros []microBatch, res stepResult) []Metric { return cfg.Loss.metrics(micros, res) },
	}
}

// newDPO prepares a run.
func newDPO(ctx context.Context, model *lm.Model, pairs, val []Pair, cfg DPOConfig) (*run, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.Run = cfg.Run.withDefaults()
	r := &run{cfg: cfg.Run, method: cfg.method(pairs, model.Config.Vocab)}
	var err error
	if r.total, err = totalSteps(cfg.Run, r.method); err != nil {
		return nil, err
	}
	if cfg.Schedule.Total == 0 {
		cfg.Schedule.Total = r.total
	}
	if r.learner, err = newLearner(model, cfg.Optimizer, cfg.Schedule, cfg.Loss.objective(), cfg.Run.Accumulate == 1); err != nil {
		return nil, err
	}
	start, err := hashWeights(r.learner.trained)
	if err != nil {
		return nil, err
	}
	r.method.config = struct {
		DPOConfig
		Start string `json:"start"`
	}{cfg, start}
	plan, err := cfg.layOut(pairs, model.Config.Vocab, nil)
	if err != nil {
		return nil, err
	}
	ref, err := cfg.sums(ctx, r.learner, plan)
	if err != nil {
		return nil, err
	}
	r.method.micros = func(p *epochPlan, step int) ([]microBatch, error) { return cfg.micros(p, step, ref), nil }
	if len(val) > 0 {
		valPlan, err := cfg.layOut(val, model.Config.Vocab, nil)
		if err != nil {
			return nil, fmt.Errorf("validation: %w", err)
		}
		if r.method.evaluate, err = cfg.validator(ctx, r.learner, valPlan); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// objective wraps the loss for the learner. Its extra inputs are those of [sumSides], and the step's numbers of pairs and of chosen tokens.
func (l DPOLoss) objective() objective {
	return objective{
		name: "dpo", temperature: 1, branches: true,
		loss: func(s TokenStats, in []*graph.Node) *graph.Node {
			return l.Build(sumSides(s.LogProb, in[0], in[1], in[2]), in[3], in[4])
		},
		keep: func(s TokenStats) []*graph.Node {
			return []*graph.Node{s.LogProb, s.Entropy, s.Correct, s.MeanLogit}
		},
	}
}

// pairPlan is the data of an epoch: its pairs in order, the index of each in the given list, and the slots of a micro-batch.
type pairPlan struct {
	pairs []Pair
	index []int
	slots int
}

// layOut puts pairs into micro-batches. order permutes the pairs; nil keeps them as they are.
func (cfg DPOConfig) layOut(pairs []Pair, vocab int, order []int) (*epochPlan, error) {
	hash := sha256.New()
	var data pairPlan
	var lengths []int
	for i := range pairs {
		at := i
		if order != nil {
			at = order[i]
		}
		p := pairs[at]
		if err := p.Check(); err != nil {
			return nil, err
		}
		for _, e := range p.sides() {
			if err := inVocabulary("pair", p.ID, e.IDs, vocab); err != nil {
				return nil, err
			}
			if err := hashRow(hash, e); err != nil {
				return nil, err
			}
		}
		lengths = append(lengths, p.Len())
		data.pairs, data.index = append(data.pairs, p), append(data.index, at)
	}
	micros, err := cfg.Batch.plan(lengths, func(i int) string { return fmt.Sprintf("pair %q", data.pairs[i].ID) })
	if err != nil {
		return nil, err
	}
	data.slots = cfg.Batch.slotsFor(lengths)
	return &epochPlan{steps: cfg.Run.inSteps(micros), hash: hex.EncodeToString(hash.Sum(nil)), examples: data}, nil
}

// micros fills the micro-batches of a step. ref has the reference's log-probabilities of each pair: chosen, rejected.
func (cfg DPOConfig) micros(p *epochPlan, step int, ref [][2]float32) []microBatch {
	data := p.examples.(pairPlan)
	var out []microBatch
	var pairs, tokens float32
	for _, l := range p.steps[step] {
		b, sides := cfg.Batch.fillPairs(l, data.pairs, data.slots)
		for slot, place := range l.places {
			for side := range sides.ref {
				sides.ref[side][slot] = ref[data.index[place.item]][side]
			}
			pairs++
			tokens += float32(trainedTokens(data.pairs[place.item].Chosen.Mask))
		}
		out = append(out, microBatch{Batch: b, pairs: sides, extra: sides.tensors(b)})
	}
	for i := range out {
		out[i].extra = append(out[i].extra, tensors.FromScalar(pairs), tensors.FromScalar(tokens))
	}
	return out
}

// sums computes the log-probabilities of a plan's pairs under the current weights: chosen, rejected, by index in the given list.
func (cfg DPOConfig) sums(ctx context.Context, l *learner, p *epochPlan) ([][2]float32, error) {
	data := p.examples.(pairPlan)
	out := make([][2]float32, len(data.pairs))
	for _, step := range p.steps {
		for _, lay := range step {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			b, sides := cfg.Batch.fillPairs(lay, data.pairs, data.slots)
			v, err := l.scores(b, nil)
			if err != nil {
				return nil, err
			}
			for side := range sides.of {
				for slot, sum := range sides.sums(side, v.logProb)[:sides.pairs] {
					out[data.index[lay.places[slot].item]][side] = sum
				}
			}
		}
	}
	return out, nil
}

// metrics computes the diagnostics of a step.
func (l DPOLoss) metrics(micros []microBatch, r stepResult) []Metric {
	var sides [2][]DPORow
	for k, mb := range micros {
		for side := range sides {
			sides[side] = append(sides[side], mb.pairs.rows(side, r.kept[k])...)
		}
	}
	d := l.Diagnose(sides[0], sides[1])
	return []Metric{{"entropy", d.Entropy}, {"accuracy", d.Accuracy}, {"logits/chosen", d.LogitsChosen}, {"logits/rejected", d.LogitsRejected},
		{"rewards/chosen", d.RewardChosen}, {"rewards/rejected", d.RewardRejected}, {"rewards/accuracies", d.RewardAccuracy},
		{"rewards/margins", d.RewardMargin}, {"logps/chosen", d.LogProbChosen}, {"logps/rejected", d.LogProbRejected}}
}

// validator returns a function that computes the loss over all pairs of a plan, and the share of pairs whose chosen answer is
// preferred. The reference is the policy at the time of the call.
func (cfg DPOConfig) validator(ctx context.Context, l *learner, p *epochPlan) (func(context.Context) ([]Metric, error), error) {
	data := p.examples.(pairPlan)
	ref, err := cfg.sums(ctx, l, p)
	if err != nil {
		return nil, err
	}
	n := len(data.pairs)
	program, err := lm.NewProgram(l.model.Backend, "dpo/validate", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{cfg.Loss.Build(PairSums{Policy: in[0], Ref: in[1], Tokens: in[2]}, in[3], in[4])}
	})
	if err != nil {
		return nil, err
	}
	bySide := func(sums [][2]float32) []float32 {
		out := make([]float32, 2*n)
		for i, s := range sums {
			out[i], out[n+i] = s[0], s[1]
		}
		return out
	}
	tokens := make([]float32, 2*n)
	var chosen float32
	for i, pair := range data.pairs {
		tokens[i], tokens[n+i] = float32(trainedTokens(pair.Chosen.Mask)), float32(trainedTokens(pair.Rejected.Mask))
		chosen += tokens[i]
	}
	return func(ctx context.Context) ([]Metric, error) {
		now, err := cfg.sums(ctx, l, p)
		if err != nil {
			return nil, err
		}
		out, err := program.Call(bySide(now), bySide(ref), tokens, float32(n), chosen)
		if err != nil {
			return nil, err
		}
		host, err := download(out)
		if err != nil {
			return nil, err
		}
		right := 0.0
		for i := range now {
			if prefers(now[i], ref[i]) {
				right += 1 / float64(n)
			}
		}
		return []Metric{{"val/loss", float64(host[0][0])}, {"val/rewards/accuracies", right}}, nil
	}, nil
}
