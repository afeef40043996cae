package tiny

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/train"
)

// Preset is the architecture of a tiny model; the vocabulary comes from its tokenizer.
type Preset struct {
	Hidden       int     `yaml:"hidden" json:"hidden"`
	Layers       int     `yaml:"layers" json:"layers"`
	Heads        int     `yaml:"heads" json:"heads"`
	KVHeads      int     `yaml:"kv_heads" json:"kv_heads"`
	HeadDim      int     `yaml:"head_dim" json:"head_dim"`
	FFN          int     `yaml:"ffn" json:"ffn"`
	RopeTheta    float64 `yaml:"rope_theta" json:"rope_theta"`
	MaxPositions int     `yaml:"max_positions" json:"max_positions"`
}

// Config is the model's configuration for a vocabulary.
func (p Preset) Config(vocab int, eos int32) *lm.Config {
	return &lm.Config{Vocab: vocab, Hidden: p.Hidden, Layers: p.Layers, Heads: p.Heads, KVHeads: p.KVHeads, HeadDim: p.HeadDim, FFN: p.FFN,
		RopeTheta: p.RopeTheta, Eps: 1e-6, Tied: true, MaxPositions: p.MaxPositions, EOS: []int32{eos}, Pad: eos}
}

// CopyPretraining are the settings of copy pre-training.
type CopyPretraining struct {
	Steps           int     `yaml:"steps" json:"steps"`                       // at most, in each attempt
	MicroBatchSize  int     `yaml:"micro_batch_size" json:"micro_batch_size"` // rows of a step
	RowLength       int     `yaml:"length" json:"length"`                     // most tokens of a row
	VocabularyStart int     `yaml:"vocabulary_start" json:"vocabulary_start"` // ids that the first rows draw from
	VocabularySteps int     `yaml:"vocabulary_steps" json:"vocabulary_steps"` // steps until rows draw from all ids
	LearningRate    float64 `yaml:"learning_rate" json:"learning_rate"`       // after WarmupSteps steps
	WarmupSteps     int     `yaml:"warmup_steps" json:"warmup_steps"`         // of the learning rate
	// CompareSteps is the number of steps that compare numbers, after those that copy. CompareLongSteps is the number of further
	// steps on rows as long as those of replay. Both count only if the suite's texts compare numbers. Comparing needs steps of
	// its own: among rows of copying, which weigh more, it stays at chance. A model learns it in short rows first, and then
	// carries it over to long ones; it never learns it in long rows alone.
	CompareSteps     int `yaml:"compare" json:"compare,omitempty"`
	CompareLongSteps int `yaml:"compare_long" json:"compare_long,omitempty"`
	// TargetCopyLoss ends copying: a loss on held-out rows over the whole vocabulary, in nats a token.
	TargetCopyLoss float64 `yaml:"target_copy_loss" json:"target_copy_loss"`
	// MaxCopyLoss is the largest such loss with which an attempt succeeds. Above it, the next attempt starts from other initial
	// weights.
	MaxCopyLoss float64 `yaml:"max_copy_loss" json:"max_copy_loss"`
	// GiveUpAbove ends an attempt early, if the training loss is above it at a check after GiveUpAt steps. The copy circuit forms
	// suddenly or not at all. A GiveUpStep of 0 never gives up.
	GiveUpAbove float64 `yaml:"give_up_above" json:"give_up_above"`
	GiveUpAt    int     `yaml:"give_up_at" json:"give_up_at"`
	Attempts    int     `yaml:"attempts" json:"attempts"`
	// NoNumbers leaves the rows of numbers out, for the ablation that shows their use.
	NoNumbers  bool `yaml:"no_numbers" json:"no_numbers,omitempty"`
	CheckEvery int  `yaml:"check_every" json:"check_every"` // steps between two validations
}

// Check names the first field that makes no sense.
func (w CopyPretraining) Check() error {
	for name, v := range map[string]int{"steps": w.Steps, "micro_batch_size": w.MicroBatchSize, "length": w.RowLength, "attempts": w.Attempts, "check_every": w.CheckEvery} {
		if v < 1 {
			return fmt.Errorf("copy_pretraining.%s is %d: it must be at least 1", name, v)
		}
	}
	if w.VocabularySteps < 0 || w.CompareSteps < 0 || w.CompareLongSteps < 0 {
		return fmt.Errorf("copy_pretraining: vocabulary_steps is %d, compare %d and compare_long %d: want 0 or more", w.VocabularySteps, w.CompareSteps, w.CompareLongSteps)
	}
	if !(w.TargetCopyLoss > 0 && w.MaxCopyLoss >= w.TargetCopyLoss) {
		return fmt.Errorf("copy_pretraining: target_copy_loss is %v and max_copy_loss %v: want 0 < target_copy_loss <= max_copy_loss", w.TargetCopyLoss, w.MaxCopyLoss)
	}
	return nil
}

// PretrainingResult is the outcome of copy pre-training.
type PretrainingResult struct {
	Attempts []PretrainingAttempt `json:"attempts"`
	// Steps, tokens and seconds are sums over all attempts.
	Steps           int     `json:"steps"`
	TrainedTokens   int64   `json:"trained_tokens"`
	ProcessedTokens int64   `json:"processed_tokens"`
	Seconds         float64 `json:"seconds"`
}

// PretrainingAttempt is one attempt.
type PretrainingAttempt struct {
	InitSeed uint64  `json:"init"` // seed of the initial weights
	Steps    int     `json:"steps"`
	CopyLoss float64 `json:"copy_loss"`
	Accepted bool    `json:"accepted"`
	// CompareAccuracy is the share of held-out comparisons that are right at the end, where numbers were compared.
	CompareAccuracy *float64 `json:"compared,omitempty"`
}

// ErrStuck says that no attempt formed a copy circuit.
var ErrStuck = errors.New("copy pre-training is stuck")

// Progress is called after every step. part is "copying" or "comparing", of the number of the part's steps, and loss the training
// loss.
type Progress func(part string, step, of int, loss float64)

// Pretrain makes a model that copies, or fails with ErrStuck. Of cur it uses the ids; the settings decide the rest. dir gets the
// checkpoints and curves of each attempt, from which an interrupted call goes on.
func Pretrain(ctx context.Context, b *lm.Backend, c *lm.Config, w CopyPretraining, cur Curriculum, seed uint64, dir string, progress Progress) (*lm.Model, PretrainingResult, error) {
	var res PretrainingResult
	if err := w.Check(); err != nil {
		return nil, res, err
	}
	cur.StartVocabulary, cur.GrowSteps, cur.BatchSize, cur.RowLength, cur.Seed = w.VocabularyStart, w.VocabularySteps, w.MicroBatchSize, w.RowLength, seed
	w.leaveOut(&cur)
	if err := cur.Check(); err != nil {
		return nil, res, err
	}
	if w.RowLength > c.MaxPositions {
		return nil, res, fmt.Errorf("copy_pretraining.length is %d, the model has max_positions %d", w.RowLength, c.MaxPositions)
	}
	for attempt := range w.Attempts {
		m, a, sum, err := w.try(ctx, b, c, cur, attempt, filepath.Join(dir, fmt.Sprintf("attempt-%d", attempt)), progress)
		if err != nil {
			return nil, res, fmt.Errorf("copy pre-training, attempt %d: %w", attempt, err)
		}
		res.Attempts = append(res.Attempts, a)
		res.Steps, res.TrainedTokens, res.Seconds = res.Steps+sum.Steps, res.TrainedTokens+sum.TrainedTokens, res.Seconds+sum.Seconds
		res.ProcessedTokens += sum.ProcessedTokens
		if a.Accepted {
			return m, res, nil
		}
		slog.Warn("copy pre-training formed no copy circuit: starting again from other weights", "attempt", attempt, "copy_loss", a.CopyLoss, "max_copy_loss", w.MaxCopyLoss)
		m.Weights.Free()
	}
	return nil, res, fmt.Errorf("%w: %d attempts, copy losses %v, none at most %v: allow more steps or attempts (tiny.copy_pretraining.steps, tiny.copy_pretraining.attempts)", ErrStuck, w.Attempts, losses(res.Attempts), w.MaxCopyLoss)
}

// leaveOut removes the kinds of rows that the settings leave out.
func (w CopyPretraining) leaveOut(cur *Curriculum) {
	if w.NoNumbers {
		cur.Digits, cur.Dates, cur.Above = nil, false, 0
	}
	if w.CompareSteps == 0 {
		cur.Above = 0
	}
}

func losses(as []PretrainingAttempt) []float64 {
	out := make([]float64, len(as))
	for i, a := range as {
		out[i] = math.Round(a.CopyLoss*1000) / 1000
	}
	return out
}

func (w CopyPretraining) try(ctx context.Context, b *lm.Backend, c *lm.Config, cur Curriculum, attempt int, dir string, progress Progress) (*lm.Model, PretrainingAttempt, train.Summary, error) {
	a := PretrainingAttempt{InitSeed: rng.Seed64(cur.Seed, "tiny/init", attempt), CopyLoss: math.NaN()}
	m, err := lm.NewRandom(b, c, a.InitSeed)
	if err != nil {
		return nil, a, train.Summary{}, err
	}
	cur.Seed = rng.Seed64(cur.Seed, "tiny/copy", attempt)
	above := cur.Above
	cur.Above = 0
	held := cur
	held.GrowSteps, held.Seed = 0, rng.Seed64(cur.Seed, "tiny/copy/held-out")
	held.BatchSize = 4 * w.MicroBatchSize
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, a, train.Summary{}, err
	}
	source := func(epoch int) ([]train.Example, error) { return examples(cur, epoch), nil } // an epoch is a step
	sum, err := train.SFT(ctx, m, source, examples(held, 0), train.SFTConfig{
		Run: train.RunConfig{Seed: cur.Seed, MaxSteps: w.Steps, EvalEvery: w.CheckEvery, SaveEvery: w.CheckEvery, Dir: dir, Resume: true,
			Progress: func(l train.StepLog) error {
				loss, _ := l.Get("loss")
				if progress != nil {
					progress("copying", l.Step, w.Steps, loss)
				}
				if v, ok := l.Get("val/loss"); ok && (v <= w.TargetCopyLoss || w.GiveUpAt > 0 && l.Step >= w.GiveUpAt && loss > w.GiveUpAbove) {
					return train.ErrStop
				}
				return nil
			}},
		Batch:     train.BatchConfig{MicroBatchSize: w.MicroBatchSize, Lengths: []int{w.RowLength}, Unpacked: true},
		Optimizer: train.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, MaxGradNorm: 1},
		Schedule:  train.Schedule{Kind: "constant", LearningRate: w.LearningRate, WarmupSteps: w.WarmupSteps},
	})
	if err != nil {
		return nil, a, sum, err
	}
	if v, ok := sum.Last.Get("val/loss"); ok { // also if the attempt ended in an earlier process
		a.CopyLoss = v
	}
	a.Steps, a.Accepted = sum.Steps, a.CopyLoss <= w.MaxCopyLoss
	if !a.Accepted || above == 0 {
		return m, a, sum, nil
	}
	cur.Above = above
	long := cur
	long.BatchSize, long.RowLength = max(1, w.MicroBatchSize/longRowFactor), min(w.LongRow(), c.MaxPositions)
	for _, p := range []struct {
		name  string
		rows  Curriculum
		steps int
		kind  string // of the learning rate's schedule; its peak is half of that of copying, so that copying is not lost
	}{{"compare", cur, w.CompareSteps, "constant"}, {"compare-long", long, w.CompareLongSteps, "cosine"}} {
		if p.steps == 0 {
			continue
		}
		p.rows.GrowSteps, p.rows.Seed = 0, rng.Seed64(cur.Seed, "tiny", p.name)
		more, err := w.compare(ctx, m, p.rows, p.steps, train.Schedule{Kind: p.kind, LearningRate: w.LearningRate / 2, WarmupSteps: w.WarmupSteps, Floor: 0.05}, filepath.Join(dir, p.name), progress)
		if err != nil {
			return nil, a, sum, err
		}
		right, _ := more.Last.Get("val/accuracy")
		a.CompareAccuracy = &right
		sum.Steps, sum.TrainedTokens, sum.Seconds = sum.Steps+more.Steps, sum.TrainedTokens+more.TrainedTokens, sum.Seconds+more.Seconds
		sum.ProcessedTokens += more.ProcessedTokens
	}
	return m, a, sum, nil
}

// longRowFactor is how much longer the rows of replay, and of the last comparisons, are than those of copying. In an episode, what
// is compared or copied stands among hundreds of other tokens. After short rows alone, comparisons are at chance there.
const longRowFactor = 3

// LongRow is the largest number of tokens of a row of replay.
func (w CopyPretraining) LongRow() int { return longRowFactor * w.RowLength }

// compare trains a model that copies to tell the larger of two numbers. It validates on rows of comparisons alone.
func (w CopyPretraining) compare(ctx context.Context, m *lm.Model, cur Curriculum, steps int, schedule train.Schedule, dir string, progress Progress) (train.Summary, error) {
	held := cur
	held.Seed = rng.Seed64(cur.Seed, "tiny/compare/held-out")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return train.Summary{}, err
	}
	var verdicts []train.Example
	for _, x := range examples(held, 0) {
		if onlyVerdicts(x, cur) {
			verdicts = append(verdicts, x)
		}
	}
	source := func(epoch int) ([]train.Example, error) { return examples(cur, epoch), nil }
	return train.SFT(ctx, m, source, verdicts, train.SFTConfig{
		Run: train.RunConfig{Seed: cur.Seed, MaxSteps: steps, EvalEvery: w.CheckEvery, SaveEvery: w.CheckEvery, Dir: dir, Resume: true,
			Progress: func(l train.StepLog) error {
				if loss, ok := l.Get("loss"); ok && progress != nil {
					progress("comparing", l.Step, steps, loss)
				}
				return nil
			}},
		Batch:     train.BatchConfig{MicroBatchSize: cur.BatchSize, Lengths: []int{cur.RowLength}, Unpacked: true},
		Optimizer: train.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, MaxGradNorm: 1},
		Schedule:  schedule,
	})
}

// onlyVerdicts reports whether x is a row of comparisons. Such a row trains verdicts only. Its ids do not tell it apart, because a
// row of copying may have them too.
func onlyVerdicts(x train.Example, c Curriculum) bool {
	for i, m := range x.Mask {
		if m == 1 && x.IDs[i] != c.Yes && x.IDs[i] != c.No {
			return false
		}
	}
	return slices.Contains(x.Mask, 1)
}

func examples(c Curriculum, step int) []train.Example {
	ids, loss := c.Batch(step)
	return asExamples(fmt.Sprintf("copy/%d", step), ids, loss)
}

func asExamples(name string, ids [][]int32, loss [][]bool) []train.Example {
	out := make([]train.Example, len(ids))
	for i := range ids {
		mask := make([]uint8, len(ids[i]))
		for j, l := range loss[i] {
			if l {
				mask[j] = 1
			}
		}
		out[i] = train.Example{ID: fmt.Sprintf("%s/%d", name, i), IDs: ids[i], Mask: mask}
	}
	return out
}

// WithReplay is a source of the examples and of rows of copy pre-training, which are new in every epoch. fraction is the rows' share
// of all tokens. Of cur it uses the ids and the seed.
func WithReplay(xs []train.Example, fraction float64, w CopyPretraining, cur Curriculum) (train.Source, error) {
	if fraction == 0 {
		return train.Fixed(xs), nil
	}
	cur.StartVocabulary, cur.BatchSize, cur.RowLength = min(w.VocabularyStart, len(cur.Vocabulary)), w.MicroBatchSize, w.LongRow()
	w.leaveOut(&cur)
	if err := cur.Check(); err != nil {
		return nil, err
	}
	tokens := 0
	for _, x := range xs {
		tokens += len(x.IDs)
	}
	return func(epoch int) ([]train.Example, error) {
		ids, loss := cur.Replay(int(fraction/(1-fraction)*float64(tokens)), epoch)
		return append(slices.Clone(xs), asExamples(fmt.Sprintf("rehearsal/%d", epoch), ids, loss)...), nil
	}, nil
}
