package stage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/train"
)

const preferring = "recipes.sft+dpo={from: base, method: sft+dpo, algorithm: dpo, pairs: wasteful, max_tools: 1}"

// An untrained policy learns to prefer the gold path to the same path with needless calls, also on pairs that it was not trained on. A
// training that was cut off in the middle ends with the same weights.
func TestDPO(t *testing.T) {
	tiny := []string{preferring, "suite.wasteful_share=1", "dpo.run={max_steps: 10, eval_every: 5, save_every: 1}", "dpo.batch={micro_batch_size: 2, lengths: [512]}", "dpo.schedule={kind: constant, learning_rate: 0.003, warmup_steps: 0}",
		"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16"}
	open := func() *Env {
		e := smallCompany(t, tiny...)
		var err error
		if e.backend, err = lm.OpenBackend("go"); err != nil {
			t.Fatal(err)
		}
		untuned(t, e, "base", 1)
		return e
	}
	e := open()
	if err := e.recipe(t.Context(), "sft+dpo", 1); err != nil {
		t.Fatal(err)
	}
	lines, err := e.metrics("sft+dpo", 1)
	if err != nil || len(lines) != 10 {
		t.Fatalf("%d lines of metrics, %v", len(lines), err)
	}
	first, last := lines[0].Values, lines[len(lines)-1].Values
	// At the start policy and reference are one, up to the rounding of sums that were taken in other rows.
	if math.Abs(first["rewards/margins"]) > 1e-4 || !(last["rewards/margins"] > 0.01) || !(last["loss"] < first["loss"]) {
		t.Errorf("from margin %v and loss %v to %v and %v: nothing was learned", first["rewards/margins"], first["loss"], last["rewards/margins"], last["loss"])
	}
	if acc := last["val/rewards/accuracies"]; !(acc > 0.7) {
		t.Errorf("of the pairs that were kept apart %v are in order, want most", acc)
	}
	got, err := e.Result("sft+dpo", 1)
	parent, errP := e.Result("base", 1)
	if err != nil || errP != nil || got.Weights == parent.Weights || got.Demos == 0 || got.TrainedTokens == 0 || got.Steps != 10 {
		t.Errorf("result %+v (%v, %v)", got, err, errP)
	}
	cut := open()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // waits until a few steps are logged
		for ctx.Err() == nil {
			if b, err := os.ReadFile(cut.Run.Path(cut.folder(1, "sft+dpo"), metricsFile)); err == nil && bytes.Count(b, []byte("\n")) >= 3 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := cut.recipe(ctx, "sft+dpo", 1); !errors.Is(err, context.Canceled) {
		t.Fatalf("cut off: error %v", err)
	}
	if err := cut.recipe(t.Context(), "sft+dpo", 1); err != nil {
		t.Fatal(err)
	}
	if again, err := cut.Result("sft+dpo", 1); err != nil || again.Weights != got.Weights {
		t.Errorf("cut off and resumed, the weights are %.12s (%v), want %.12s", again.Weights, err, got.Weights)
	}
}

// If DPO cannot learn from a recipe, the error names the field before anything is trained.
func TestDPOMistakes(t *testing.T) {
	for _, c := range []struct{ suite, set, want string }{
		{"chain", "recipes.x={from: root, method: x, algorithm: dpo, pairs: wasteful}", "recipes.x.algorithm: suite chain has no preferences to learn from"},
		{"company", "recipes.x={from: base, method: x, algorithm: dpo}", `recipes.x.pairs: "" is no kind of preferences of this suite; there are wasteful`},
		{"company", "recipes.x={from: base, method: x, algorithm: dpo, pairs: wastefull}", `"wastefull" is no kind of preferences`},
		{"company", "recipes.x={from: base, method: x, algorithm: dpo, pairs: wasteful, demos: optimal}", "recipes.x.demos: dpo has no use for demonstrations"},
		{"company", "recipes.x={from: base, method: x, demos: optimal, pairs: wasteful}", "recipes.x.pairs: only dpo learns from preferences"},
		{"company", "dpo.batch.micro_batch_size=0", "dpo.batch.micro_batch_size must be at least 1"},
		{"company", "dpo.batch.lengths=[1000000]", "dpo.batch.lengths is 1000000"},
		{"company", "dpo.run.epochs=0", "dpo.run.epochs"},
		{"company", "dpo.schedule.kind=sine", "dpo.schedule"},
		{"company", "dpo.loss.kinds=[kto]", "dpo.loss"},
		{"company", "dpo.loss.beta=-1", "dpo.loss.beta"},
	} {
		_, err := Open(Options{Suite: c.suite, Profile: "smoke", Out: t.TempDir(), Log: io.Discard, Set: []string{c.set}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.set, err, c.want)
		}
	}
}

// Both sides of every pair are of one task, begin with the same prompt and the same actions, and end with the action at which they part.
func TestPreferencesOfCompany(t *testing.T) {
	e := smallCompany(t, preferring, "suite.wasteful_share=1")
	if err := e.root().prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	pairs, err := e.pairs(t.Context(), "sft+dpo", 1, []int{512})
	if err != nil || len(pairs) < 20 {
		t.Fatalf("%d pairs, %v", len(pairs), err)
	}
	for _, p := range pairs {
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		start := 0
		for p.Chosen.Mask[start] == 0 {
			start++
		}
		for i := range start {
			if p.Chosen.IDs[i] != p.Rejected.IDs[i] || p.Rejected.Mask[i] != 0 {
				t.Fatalf("pair %s: the prompts differ at token %d", p.ID, i)
			}
		}
		for side, e := range map[string]train.Example{"chosen": p.Chosen, "rejected": p.Rejected} {
			if slices.Contains(e.Mask[start:], 0) {
				t.Errorf("pair %s: the %s side does not end with the action at which the sides part", p.ID, side)
			}
		}
	}
	again, err := e.pairs(t.Context(), "sft+dpo", 1, []int{512})
	if err != nil || len(again) != len(pairs) || again[3].ID != pairs[3].ID {
		t.Errorf("asked again, the pairs are others (%v)", err)
	}
}

func TestNoPreferences(t *testing.T) {
	e := smallCompany(t, "recipes.sft+dpo={from: base, method: sft+dpo, algorithm: dpo, pairs: wasteful}", "suite.wasteful_share=0.000000001")
	if err := e.root().prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pairs, err := e.pairs(t.Context(), "sft+dpo", 1, []int{512}); err == nil || err.Error() != "sft+dpo: there are no preferences to learn from" {
		t.Errorf("%d pairs, error %v", len(pairs), err)
	}
}
