package train

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

func lengthsOf(pairs []Pair) []int {
	var out []int
	for _, p := range pairs {
		out = append(out, p.Len())
	}
	return out
}

// sumRows sums x [B, T] over the positions where mask is 1: [B].
func sumRows(x, mask *graph.Node) *graph.Node {
	on := graph.GreaterThan(mask, graph.ZerosLike(mask))
	return graph.ReduceSum(graph.Where(on, x, graph.ZerosLike(x)), -1)
}

// countingPairs prefer counting up to counting down.
func countingPairs(n int) []Pair {
	var out []Pair
	for _, e := range counting(n, "dpo") {
		worse := Example{IDs: append([]int32(nil), e.IDs...), Mask: e.Mask}
		for k := 1; k < len(worse.IDs); k++ {
			worse.IDs[k] = (worse.IDs[k-1] + 23) % 24
		}
		out = append(out, Pair{ID: e.ID, Chosen: e, Rejected: worse})
	}
	return out
}

// episodePairs are pairs as episodes make them: a prompt, actions that both sides begin with, observations between the actions,
// and sides that part after any of them, within an action too. Some sides are the beginning of the other.
func episodePairs(n int) []Pair {
	var out []Pair
	for i := range n {
		r := rng.New(3, "episode pairs", i)
		var prefix Example
		part := func(e *Example, most int, mask uint8) {
			for range 1 + r.IntN(most) {
				e.IDs, e.Mask = append(e.IDs, r.Int32N(24)), append(e.Mask, mask)
			}
		}
		part(&prefix, 9, 0)
		for range i % 3 {
			part(&prefix, 4, 1)
			part(&prefix, 3, 0)
		}
		if i%2 == 0 {
			part(&prefix, 3, 1)
		}
		side := func() Example {
			e := Example{IDs: slices.Clone(prefix.IDs), Mask: slices.Clone(prefix.Mask)}
			part(&e, 4, 1)
			part(&e, 2, 0)
			part(&e, 3, 1)
			return e
		}
		p := Pair{ID: string(rune('a' + i)), Chosen: side(), Rejected: side()}
		if i%5 == 4 {
			part(&p.Chosen, 3, 1)
			p.Rejected = Example{IDs: slices.Clone(p.Chosen.IDs), Mask: slices.Clone(p.Chosen.Mask)}
			part(&p.Rejected, 3, 1)
		}
		out = append(out, p)
	}
	return out
}

func TestDPORun(t *testing.T) {
	pairs := countingPairs(24)
	dir := t.TempDir()
	cfg := DPOConfig{Run: RunConfig{Seed: 1, Epochs: 4, Accumulate: 2, EvalEvery: 4, Dir: dir, Log: slog.New(slog.DiscardHandler)},
		Batch: BatchConfig{MicroBatchSize: 3, Lengths: []int{32}}, Schedule: Schedule{LearningRate: 3e-3}, Loss: DPOLoss{Kinds: []string{"sigmoid", "sft"}, Weights: []float64{1, 0.2}}}
	var lines []StepLog
	cfg.Run.Progress = func(l StepLog) error { lines = append(lines, l); return nil }
	sum, err := DPO(t.Context(), testModel(t, backend(t)), pairs[:20], pairs[20:], cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := cfg.Steps(pairs[:20]); err != nil || sum.Steps != want {
		t.Errorf("%d steps, Steps says %d (%v)", sum.Steps, want, err)
	}
	first, _ := lines[0].Get("rewards/margins")
	if last, _ := sum.Last.Get("rewards/margins"); math.Abs(first) > 1e-6 || last < 0.1 {
		t.Errorf("the margin went from %v, where policy and reference are one, to %v", first, last)
	}
	if acc, _ := sum.Last.Get("rewards/accuracies"); acc < 0.9 {
		t.Errorf("reward accuracy %v at the end", acc)
	}
	if right, ok := sum.Last.Get("val/rewards/accuracies"); !ok || right < 0.75 {
		t.Errorf("validation accuracy %v", right)
	}
	if sum.Best == nil || sum.Best.Value > 1.2 {
		t.Errorf("best validation %+v", sum.Best)
	}
	// A run that is done is only loaded again.
	cfg.Run.Resume = true
	if again, err := DPO(t.Context(), testModel(t, backend(t)), pairs[:20], pairs[20:], cfg); err != nil || again.ResumedFrom != sum.Steps {
		t.Errorf("resumed from %d of %d, %v", again.ResumedFrom, sum.Steps, err)
	}
	// Another policy would be another reference.
	other, err := lm.NewRandom(backend(t), testConfig(), 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DPO(t.Context(), other, pairs[:20], pairs[20:], cfg); err == nil || !strings.Contains(err.Error(), "start") {
		t.Errorf("resumed from another policy: %v", err)
	}
	cfg = DPOConfig{Batch: BatchConfig{MicroBatchSize: 4, Lengths: []int{16}}}
	bad := []Pair{{ID: "p1", Chosen: pairs[0].Chosen, Rejected: Example{IDs: []int32{1, 2}, Mask: []uint8{1, 0}}}}
	if _, err := DPO(t.Context(), testModel(t, backend(t)), bad, nil, cfg); err == nil || !strings.Contains(err.Error(), `rejected row of pair "p1" has no trained token`) {
		t.Errorf("nothing to train: %v", err)
	}
	cfg.Run.TrainTokens = 100
	if _, err := cfg.Steps(pairs); err == nil || !strings.Contains(err.Error(), "train_tokens") {
		t.Errorf("so many tokens: %v", err)
	}
}

// A run that is cancelled leaves a checkpoint, and goes on from it to the files of one that was not.
func TestDPOCancelled(t *testing.T) {
	pairs := countingPairs(24)
	train := func(ctx context.Context, dir string, step func(n int)) error {
		cfg := DPOConfig{Run: RunConfig{Seed: 1, Epochs: 3, EvalEvery: 2, Dir: dir, Resume: true, Log: slog.New(slog.DiscardHandler)},
			Batch: BatchConfig{MicroBatchSize: 2, Lengths: []int{32}}, Schedule: Schedule{LearningRate: 3e-3}}
		cfg.Run.Progress = func(l StepLog) error { step(l.Step); return nil }
		_, err := DPO(ctx, testModel(t, backend(t)), pairs[:20], pairs[20:], cfg)
		return err
	}
	whole, cut := t.TempDir(), t.TempDir()
	if err := train(t.Context(), whole, func(int) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := train(ctx, cut, func(n int) {
		if n == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || lastCheckpoint(t, cut).Step != 5 {
		t.Fatalf("cancelled at step 5: error %v, checkpoint of step %d", err, lastCheckpoint(t, cut).Step)
	}
	if err := train(t.Context(), cut, func(int) {}); err != nil {
		t.Fatal(err)
	}
	if got, want := readFile(t, cut, "metrics.jsonl"), readFile(t, whole, "metrics.jsonl"); !bytes.Equal(got, want) {
		t.Errorf("metrics after the cut:\n%s\nwant\n%s", got, want)
	}
	if a, b := lastCheckpoint(t, cut), lastCheckpoint(t, whole); a.Tensors != b.Tensors || a.Step != b.Step {
		t.Errorf("the last checkpoint has tensors %.12s, want %.12s", a.Tensors, b.Tensors)
	}
}

// A pair whose answers are the same tokens teaches nothing, however they came to be the same, and is refused by name.
func TestPairOfEqualAnswers(t *testing.T) {
	row := func(ids []int32, mask ...uint8) Example { return Example{ID: "x", IDs: ids, Mask: mask} }
	a := row([]int32{1, 2, 3, 4}, 0, 0, 1, 1)
	for name, p := range map[string]Pair{
		"the same":              {"twice", a, a},
		"more after the answer": {"twice", a, row([]int32{1, 2, 3, 4, 9}, 0, 0, 1, 1, 0)},
	} {
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), `pair "twice"`) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, p := range map[string]Pair{
		"another token":                         {"two", a, row([]int32{1, 2, 3, 5}, 0, 0, 1, 1)},
		"a longer one":                          {"two", a, row([]int32{1, 2, 3, 4, 5}, 0, 0, 1, 1, 1)},
		"another observation between the turns": {"two", row([]int32{1, 2, 7, 4}, 0, 1, 0, 1), row([]int32{1, 2, 8, 4}, 0, 1, 0, 1)},
	} {
		if err := p.Check(); err != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
	cfg := DPOConfig{Run: RunConfig{MaxSteps: 1}, Batch: BatchConfig{MicroBatchSize: 2, Lengths: []int{24}}, Schedule: Schedule{LearningRate: 1e-3}}
	if _, err := DPO(t.Context(), testModel(t, backend(t)), []Pair{{"same", a, a}}, nil, cfg); err == nil || !strings.Contains(err.Error(), `pair "same"`) {
		t.Errorf("training on it: error %v", err)
	}
}

// Pairs that share their prefix, and rows that several pairs share, give the loss and the gradients of a row for every answer: to 1e-5
// of the largest value, which is float32's rounding over such sums.
func TestSharedPrefixChangesNothing(t *testing.T) {
	pairs := episodePairs(14)
	loss := DPOLoss{Kinds: []string{"sigmoid", "sft", "ipo", "sigmoid_norm"}, Weights: []float64{1, 0.2, 0.01, 0.5}, Beta: 0.3}
	m := testModel(t, backend(t))
	ref := make([][2]float32, len(pairs))
	rows := &Batch{}
	*rows = *newBatch(2*len(pairs), 48)
	refs := make([]float32, 2*len(pairs))
	var tokens float32
	shared := 0
	for i, p := range pairs {
		ref[i] = [2]float32{-20 - float32(i), -25 + float32(i)}
		tokens += float32(trainedTokens(p.Chosen.Mask))
		shared += p.prefix()
		for side, e := range p.sides() {
			row := side*len(pairs) + i
			rows.put(row*rows.Len, 1, e.IDs, e.Mask, 0, len(e.IDs))
			refs[row] = ref[i][side]
		}
	}
	if shared < 100 {
		t.Fatalf("the pairs share %d tokens: too few to show anything", shared)
	}
	gradients := func(obj objective, micros []microBatch) [][]float32 {
		l, err := newLearner(m, AdamW{}, Schedule{}, obj, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		zeros, err := zerosLike(l.trained)
		if err != nil {
			t.Fatal(err)
		}
		sums := zeros.Tensors()
		var total float32
		for _, mb := range micros {
			out, err := l.grad.Call(append(l.weights(l.trained), sums, mb.tensors(), mb.extra)...)
			if err != nil {
				t.Fatal(err)
			}
			total += flat(out[0])[0]
			sums = out[len(out)-len(sums):]
		}
		result := [][]float32{{total}}
		for _, s := range sums {
			result = append(result, flat(s))
		}
		return result
	}
	apart := objective{name: "apart", temperature: 1, keep: func(TokenStats) []*graph.Node { return nil },
		loss: func(s TokenStats, in []*graph.Node) *graph.Node {
			return loss.Build(PairSums{Policy: sumRows(s.LogProb, in[0]), Ref: in[1], Tokens: graph.ReduceSum(in[0], -1)}, in[2], in[3])
		}}
	want := gradients(apart, []microBatch{{Batch: rows, extra: []*tensors.Tensor{rows.perToken(rows.Mask),
		tensors.FromFlatDataAndDimensions(refs, len(refs)), tensors.FromScalar(float32(len(pairs))), tensors.FromScalar(tokens)}}})
	for name, batch := range map[string]BatchConfig{
		"a pair a row":  {MicroBatchSize: 14, Lengths: []int{80}, Unpacked: true},
		"packed":        {MicroBatchSize: 5, Lengths: []int{160}},
		"micro-batches": {MicroBatchSize: 2, Lengths: []int{90}},
	} {
		cfg := DPOConfig{Run: RunConfig{Accumulate: 100}, Batch: batch}
		plan, err := cfg.layOut(pairs, m.Config.Vocab, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := gradients(loss.objective(), cfg.micros(plan, 0, ref))
		worst := 0.0
		for i := range want {
			scale := 0.0
			for _, x := range want[i] {
				scale = max(scale, math.Abs(float64(x)))
			}
			for k := range want[i] {
				worst = max(worst, math.Abs(float64(got[i][k]-want[i][k]))/scale)
			}
		}
		if !(worst < 1e-5) {
			t.Errorf("%s: loss and gradients differ by up to %.2g of the largest", name, worst)
		}
		t.Logf("%s, %d micro-batches: largest difference %.2g", name, len(plan.steps[0]), worst)
	}
}

// Only actions are in a term of the loss, each in the answers that it is part of: what observations, prompts and padding are
// predicted with changes no value, and gets no gradient.
func TestPairsTrainOnActionsOnly(t *testing.T) {
	pairs := episodePairs(14)
	cfg := DPOConfig{Run: RunConfig{Accumulate: 1}, Batch: BatchConfig{MicroBatchSize: 5, Lengths: []int{160}}}
	plan, err := cfg.layOut(pairs, 24, nil)
	if err != nil {
		t.Fatal(err)
	}
	loss := DPOLoss{Kinds: []string{"sigmoid", "robust", "hinge", "ipo", "sigmoid_norm", "sft"}, LabelSmoothing: 0.1}
	seen := 0
	for step, layouts := range plan.steps {
		mb := cfg.micros(plan, step, make([][2]float32, len(pairs)))[0]
		for slot, place := range layouts[0].places {
			seen++
			for side, e := range pairs[place.item].sides() {
				var got, want []int32
				for i, of := range mb.pairs.of[side] {
					if int(of) == slot+1 {
						got = append(got, mb.Targets[i])
					}
				}
				for i := 1; i < len(e.IDs); i++ {
					if e.Mask[i] == 1 {
						want = append(want, e.IDs[i])
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("pair %s, %s: trained on %v, the actions are %v", pairs[place.item].ID, sideNames[side], got, want)
				}
			}
		}
		value := func(elsewhere float32) (float32, []float32) {
			x := make([]float32, len(mb.Mask))
			for i, m := range mb.Mask {
				if x[i] = elsewhere; m > 0 {
					x[i] = -float32(mb.Targets[i]) / 10
				}
			}
			out := call(t, func(in []*graph.Node) []*graph.Node {
				l := loss.Build(sumSides(in[0], in[1], in[2], in[3]), in[4], in[5])
				return []*graph.Node{l, graph.Gradient(l, in[0])[0]}
			}, append([]*tensors.Tensor{mb.perToken(x)}, mb.extra...)...)
			return flat(out[0])[0], flat(out[1])
		}
		a, gradient := value(0)
		if b, _ := value(-1e20); a != b || math.IsNaN(float64(a)) {
			t.Errorf("what is no action moves the loss from %v to %v", a, b)
		}
		for i, g := range gradient {
			if mb.Mask[i] == 0 && g != 0 {
				t.Errorf("position %d predicts no action and has the gradient %v", i, g)
			}
			if of := mb.pairs.of; mb.Mask[i] > 0 && of[chosenSide][i] == 0 && of[rejectedSide][i] == 0 {
				t.Errorf("the action token at position %d is in no answer", i)
			}
		}
	}
	if seen != len(pairs) {
		t.Errorf("%d of %d pairs are in a batch", seen, len(pairs))
	}
}

// The graph has room for the pairs of every order, so none is compiled a second time.
func TestSlotsHoldEveryOrder(t *testing.T) {
	pairs := episodePairs(20)
	for _, batch := range []BatchConfig{{MicroBatchSize: 3, Lengths: []int{90}}, {MicroBatchSize: 3, Lengths: []int{90}, Unpacked: true}} {
		cfg := DPOConfig{Run: RunConfig{Accumulate: 1}, Batch: batch}
		slots := 0
		for order := range 40 {
			plan, err := cfg.layOut(pairs, 24, rng.New(1, "order", order).Perm(len(pairs)))
			if err != nil {
				t.Fatal(err)
			}
			if n := plan.examples.(pairPlan).slots; order > 0 && n != slots {
				t.Fatalf("%d slots in one order, %d in another", n, slots)
			} else {
				slots = n
			}
			for _, s := range plan.steps {
				if n := len(s[0].places); n > slots {
					t.Fatalf("a batch has %d pairs, the slots are %d", n, slots)
				}
			}
		}
	}
}

// A pair of episodes is cut to the step at which they part: common actions carry no loss, and nothing follows the two that differ.
func TestFirstDifference(t *testing.T) {
	row := func(ids []int32, mask ...uint8) Example { return Example{ID: "x", IDs: ids, Mask: mask} }
	//                                 prompt  action  seen  action      seen action
	chosen := row([]int32{1, 2, 10, 11, 3, 20, 21, 22, 4, 30}, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1)
	rejected := row([]int32{1, 2, 10, 11, 3, 20, 25, 4, 26, 5, 31}, 0, 0, 1, 1, 0, 1, 1, 0, 1, 0, 1)
	got := Pair{ID: "p", Chosen: chosen, Rejected: rejected}.FirstDifference()
	want := Pair{ID: "p", Chosen: row([]int32{1, 2, 10, 11, 3, 20, 21, 22}, 0, 0, 0, 0, 0, 1, 1, 1), Rejected: row([]int32{1, 2, 10, 11, 3, 20, 25}, 0, 0, 0, 0, 0, 1, 1)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if chosen.Mask[2] != 1 {
		t.Error("the given pair was changed")
	}
	// Sides that part in what a tool said, or of which one is the start of the other, have no such step.
	for _, p := range []Pair{{Chosen: row([]int32{1, 10, 3, 20}, 0, 1, 0, 1), Rejected: row([]int32{1, 10, 4, 20}, 0, 1, 0, 1)}, {Chosen: row([]int32{1, 10}, 0, 1), Rejected: row([]int32{1, 10, 3, 20}, 0, 1, 0, 1)}} {
		if got := p.FirstDifference(); !reflect.DeepEqual(got, p) {
			t.Errorf("%v became %v", p, got)
		}
	}
}
