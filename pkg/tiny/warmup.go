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

// Warmup says how the copy warm-up goes.
type Warmup struct {
	Steps  int     `yaml:"steps" json:"steps"`   // at most, each attempt
	Rows   int     `yaml:"rows" json:"rows"`     // a step
	Length int     `yaml:"length" json:"length"` // tokens a row at most
	Start  int     `yaml:"start" json:"start"`   // ids that rows draw from at first
	Grow   int     `yaml:"grow" json:"grow"`     // steps until they draw from all
	Peak   float64 `yaml:"peak" json:"peak"`     // learning rate, after ramp steps
	Ramp   int     `yaml:"ramp" json:"ramp"`
	// Compare is how many steps follow in which numbers are compared, where the suite's texts do so, CompareLong how many more
	// in rows as long as rehearsed ones. Comparing is learned after copying and in steps of its own: among rows of copying,
	// which weigh more, it stays at chance. It forms in short rows, and is carried over to long ones; without steps in short
	// rows there are none in long ones either.
	Compare     int `yaml:"compare" json:"compare,omitempty"`
	CompareLong int `yaml:"compare_long" json:"compare_long,omitempty"`
	// Target ends the warm-up: the loss on held-out rows over the whole vocabulary, in nats a token.
	Target float64 `yaml:"target" json:"target"`
	// Accept is the largest loss that an attempt may end with. Above it the attempt is stuck, and the next one starts from
	// other initial weights.
	Accept float64 `yaml:"accept" json:"accept"`
	// Hope ends an attempt early: a training loss, on the ids drawn from so far, that is still above it at a check after
	// HopeAt steps. The circuit that copies forms suddenly or not at all.
	Hope     float64 `yaml:"hope" json:"hope"`
	HopeAt   int     `yaml:"hope_at" json:"hope_at"`
	Attempts int     `yaml:"attempts" json:"attempts"`
	// NoNumbers leaves the rows of numbers out, for the ablation that shows what they are for.
	NoNumbers  bool `yaml:"no_numbers" json:"no_numbers,omitempty"`
	CheckEvery int  `yaml:"check_every" json:"check_every"`
}

// Check names the first field that makes no sense.
func (w Warmup) Check() error {
	for name, v := range map[string]int{"steps": w.Steps, "rows": w.Rows, "length": w.Length, "attempts": w.Attempts, "check_every": w.CheckEvery} {
		if v < 1 {
			return fmt.Errorf("warmup.%s is %d: it must be at least 1", name, v)
		}
	}
	if w.Grow < 0 || w.Compare < 0 || w.CompareLong < 0 {
		return fmt.Errorf("warmup: grow is %d, compare %d and compare_long %d: want 0 or more", w.Grow, w.Compare, w.CompareLong)
	}
	if !(w.Target > 0 && w.Accept >= w.Target) {
		return fmt.Errorf("warmup: target %v and accept %v: want 0 < target <= accept", w.Target, w.Accept)
	}
	return nil
}

// WarmupResult says what the warm-up came to, attempt by attempt.
type WarmupResult struct {
	Attempts []WarmupAttempt `json:"attempts"`
	// Seconds, tokens and steps are of all attempts together.
	Steps           int     `json:"steps"`
	TrainedTokens   int64   `json:"trained_tokens"`
	ProcessedTokens int64   `json:"processed_tokens"`
	Seconds         float64 `json:"seconds"`
}

// WarmupAttempt is one attempt.
type WarmupAttempt struct {
	Init     uint64  `json:"init"` // seed of the initial weights
	Steps    int     `json:"steps"`
	CopyLoss float64 `json:"copy_loss"`
	Accepted bool    `json:"accepted"`
	// Compared is the share of held-out comparisons that are right at the end, where numbers were compared.
	Compared *float64 `json:"compared,omitempty"`
}

// ErrStuck says that no attempt formed a copy circuit.
var ErrStuck = errors.New("the copy warm-up is stuck")

// Progress is told of every step: of which part of the warm-up it is, such as "copying", and the loss of the part's rows.
type Progress func(part string, step, of int, loss float64)

// WarmUp makes a model that copies, or fails with ErrStuck. Of cur it takes the ids. dir keeps checkpoints and curves of
// each attempt; an interrupted warm-up goes on from there.
func WarmUp(ctx context.Context, b *lm.Backend, c *lm.Config, w Warmup, cur Curriculum, seed uint64, dir string, progress Progress) (*lm.Model, WarmupResult, error) {
	var res WarmupResult
	if err := w.Check(); err != nil {
		return nil, res, err
	}
	cur.Start, cur.Grow, cur.Rows, cur.Length, cur.Seed = w.Start, w.Grow, w.Rows, w.Length, seed
	w.leaveOut(&cur)
	if err := cur.Check(); err != nil {
		return nil, res, err
	}
	if w.Length > c.MaxPositions {
		return nil, res, fmt.Errorf("warmup.length is %d, the model has max_positions %d", w.Length, c.MaxPositions)
	}
	for attempt := range w.Attempts {
		m, a, sum, err := w.try(ctx, b, c, cur, attempt, filepath.Join(dir, fmt.Sprintf("attempt-%d", attempt)), progress)
		if err != nil {
			return nil, res, fmt.Errorf("copy warm-up, attempt %d: %w", attempt, err)
		}
		res.Attempts = append(res.Attempts, a)
		res.Steps, res.TrainedTokens, res.Seconds = res.Steps+sum.Steps, res.TrainedTokens+sum.TrainedTokens, res.Seconds+sum.Seconds
		res.ProcessedTokens += sum.ProcessedTokens
		if a.Accepted {
			return m, res, nil
		}
		slog.Warn("the copy warm-up did not form a copy circuit: starting again from other weights", "attempt", attempt, "copy_loss", a.CopyLoss, "accept", w.Accept)
		m.Weights.Free()
	}
	return nil, res, fmt.Errorf("%w: %d attempts, copy losses %v, none at most %v: allow more steps or attempts (warmup.steps, warmup.attempts)", ErrStuck, w.Attempts, losses(res.Attempts), w.Accept)
}

// leaveOut takes the kinds of rows away that the settings do not want.
func (w Warmup) leaveOut(cur *Curriculum) {
	if w.NoNumbers {
		cur.Digits, cur.Dates, cur.Above = nil, false, 0
	}
	if w.Compare == 0 {
		cur.Above = 0
	}
}

func losses(as []WarmupAttempt) []float64 {
	out := make([]float64, len(as))
	for i, a := range as {
		out[i] = math.Round(a.CopyLoss*1000) / 1000
	}
	return out
}

func (w Warmup) try(ctx context.Context, b *lm.Backend, c *lm.Config, cur Curriculum, attempt int, dir string, progress Progress) (*lm.Model, WarmupAttempt, train.Summary, error) {
	a := WarmupAttempt{Init: rng.Seed64(cur.Seed, "tiny/init", attempt), CopyLoss: math.NaN()}
	m, err := lm.NewRandom(b, c, a.Init)
	if err != nil {
		return nil, a, train.Summary{}, err
	}
	cur.Seed = rng.Seed64(cur.Seed, "tiny/copy", attempt)
	above := cur.Above
	cur.Above = 0
	held := cur
	held.Grow, held.Seed = 0, rng.Seed64(cur.Seed, "tiny/copy/held-out")
	held.Rows = 4 * w.Rows
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
				if v, ok := l.Get("val/loss"); ok && (v <= w.Target || w.HopeAt > 0 && l.Step >= w.HopeAt && loss > w.Hope) {
					return train.ErrStop
				}
				return nil
			}},
		Batch:     train.BatchConfig{Rows: w.Rows, Lengths: []int{w.Length}, Unpacked: true},
		Optimizer: train.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, MaxGradNorm: 1},
		Schedule:  train.Schedule{Kind: "constant", Peak: w.Peak, Warmup: w.Ramp},
	})
	if err != nil {
		return nil, a, sum, err
	}
	if v, ok := sum.Last.Get("val/loss"); ok { // of an attempt that ended in an earlier process too
		a.CopyLoss = v
	}
	a.Steps, a.Accepted = sum.Steps, a.CopyLoss <= w.Accept
	if !a.Accepted || above == 0 {
		return m, a, sum, nil
	}
	cur.Above = above
	long := cur
	long.Rows, long.Length = max(1, w.Rows/longRowFactor), min(w.LongRow(), c.MaxPositions)
	for _, p := range []struct {
		name  string
		rows  Curriculum
		steps int
		kind  string // of learning rate, half of that of copying, which is there to be kept: it falls at the very end
	}{{"compare", cur, w.Compare, "constant"}, {"compare-long", long, w.CompareLong, "cosine"}} {
		if p.steps == 0 {
			continue
		}
		p.rows.Grow, p.rows.Seed = 0, rng.Seed64(cur.Seed, "tiny", p.name)
		more, err := w.compare(ctx, m, p.rows, p.steps, train.Schedule{Kind: p.kind, Peak: w.Peak / 2, Warmup: w.Ramp, Floor: 0.05}, filepath.Join(dir, p.name), progress)
		if err != nil {
			return nil, a, sum, err
		}
		right, _ := more.Last.Get("val/accuracy")
		a.Compared = &right
		sum.Steps, sum.TrainedTokens, sum.Seconds = sum.Steps+more.Steps, sum.TrainedTokens+more.TrainedTokens, sum.Seconds+more.Seconds
		sum.ProcessedTokens += more.ProcessedTokens
	}
	return m, a, sum, nil
}

// longRowFactor is how much longer rows are in which numbers are compared, and rehearsed ones, than those of copying: what is
// compared or copied in an episode stands among hundreds of other tokens. After short rows alone, comparisons are at chance there.
const longRowFactor = 3

// LongRow is how many tokens a rehearsed row has at most.
func (w Warmup) LongRow() int { return longRowFactor * w.Length }

// compare teaches a model that copies to tell the larger of two numbers. Validation is on rows of comparisons alone.
func (w Warmup) compare(ctx context.Context, m *lm.Model, cur Curriculum, steps int, schedule train.Schedule, dir string, progress Progress) (train.Summary, error) {
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
		Batch:     train.BatchConfig{Rows: cur.Rows, Lengths: []int{cur.Length}, Unpacked: true},
		Optimizer: train.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, MaxGradNorm: 1},
		Schedule:  schedule,
	})
}

// onlyVerdicts tells a row of comparisons by what it trains: the ids of a comparison can stand in a row of copying too.
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

// Rehearse is a source of the examples and, fresh in every epoch, of rows of the warm-up that make up the given share of the
// tokens. Of cur it takes the ids and the seed.
func Rehearse(xs []train.Example, share float64, w Warmup, cur Curriculum) (train.Source, error) {
	if share == 0 {
		return train.Fixed(xs), nil
	}
	cur.Start, cur.Rows, cur.Length = min(w.Start, len(cur.Vocabulary)), w.Rows, w.LongRow()
	w.leaveOut(&cur)
	if err := cur.Check(); err != nil {
		return nil, err
	}
	tokens := 0
	for _, x := range xs {
		tokens += len(x.IDs)
	}
	return func(epoch int) ([]train.Example, error) {
		ids, loss := cur.Rehearsal(int(share/(1-share)*float64(tokens)), epoch)
		return append(slices.Clone(xs), asExamples(fmt.Sprintf("rehearsal/%d", epoch), ids, loss)...), nil
	}, nil
}
