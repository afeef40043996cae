package stage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/run"
)

// random returns an untrained model of a run's tiny preset, and the codec of the run's tokenizer.
func random(t *testing.T, e *Env) (*chat.Codec, *lm.Model) {
	t.Helper()
	if err := e.root().prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := e.root().codec()
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.NewRandom(e.backend, e.Config.Tiny.Model.Config(c.Tokenizer().VocabSize(), c.Stops()[0]), 3)
	if err != nil {
		t.Fatal(err)
	}
	return c, m
}

// untuned makes a random model the result of a recipe.
func untuned(t *testing.T, e *Env, recipe string, seed uint64) Trained {
	t.Helper()
	_, m := random(t, e)
	handmade(t, e, recipe, seed, func(dir string) ([]string, error) {
		return e.finish(dir, m, Trained{Recipe: recipe, Seed: seed}, Trained{})
	})
	parent, err := e.Result(recipe, seed)
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// A model that never writes a valid action is refused before any update: the error names the recipe, says the numbers and
// what to do, and how to train anyway. Nothing of the training is on disk then, and asking again gives the same answer.
func TestGateRefusesAnUntunedModel(t *testing.T) {
	const from, name, seed = "sft_lazy", "sft_lazy+grpo", 1
	e := small(t, "profile.tasks=3", "profile.attempts=4", "gate.pass_at_k=0.15", "gate.mixed=0.25", "gate.format=0.5", "episode.max_tokens_per_turn=6",
		"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16", "engine.slots=12", "engine.rows=[12]",
		"grpo.iterations=1", "grpo.prompts=2", "grpo.group_size=2", "grpo.eval_tasks=1", "grpo.update.epochs=1", "grpo.update.loss.beta=0")
	var log strings.Builder
	e.Options.Log = &log
	b, err := lm.OpenBackend("go") // the smallest of models: no time for compiling
	if err != nil {
		t.Fatal(err)
	}
	e.backend = b
	r := e.Config.Recipes[name]
	r.Override = false
	e.Config.Recipes[name] = r
	if r.From != from || r.Algorithm != "grpo" {
		t.Fatalf("recipe %s is %+v", name, r)
	}
	parent := untuned(t, e, from, seed)
	first := ""
	for range 2 {
		err := e.grpo(t.Context(), name, seed, parent)
		if !errors.Is(err, ErrNoGo) {
			t.Fatalf("error %v, want %v", err, ErrNoGo)
		}
		for _, want := range []string{name, "3 tasks, 12 episodes", "pass@4 0.000", "valid actions 0.000", "mixed groups 0.000", "needs 0.500", "needs 0.150", "needs 0.250",
			"warm up with supervised training", "recipes." + name + ".override"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the refusal does not say %q:\n%v", want, err)
			}
		}
		if first == "" {
			first = err.Error()
		} else if err.Error() != first {
			t.Errorf("asked again it says\n%v\nwant\n%s", err, first)
		}
	}
	if _, err := os.Stat(e.Run.Path(e.folder(seed, name))); !os.IsNotExist(err) {
		t.Errorf("the refused training left %s: %v", e.folder(seed, name), err)
	}
	if why, no := e.refused(name, seed); !no || !strings.Contains(why, name) || !strings.Contains(why, "needs 0.500") {
		t.Errorf("the later stages take the row for made: %v, %q", no, why)
	}
	r.Override = true
	e.Config.Recipes[name] = r
	if why, no := e.refused(name, seed); no {
		t.Errorf("the override does not hold for later stages: %q", why)
	}
	if err := e.grpo(t.Context(), name, seed, parent); err != nil {
		t.Fatalf("overridden: %v", err)
	}
	if made, err := e.Result(name, seed); err != nil || made.Steps != 1 || made.Episodes != 4 || made.Weights == parent.Weights && made.TrainedTokens == 0 {
		t.Errorf("overridden: %+v, %v", made, err)
	}
	if m, err := e.manifest(nil); err != nil || !slices.ContainsFunc(m.Notes, func(n string) bool {
		return strings.HasPrefix(n, name+", seed 1: trained all the same") && strings.Contains(n, "needs 0.500")
	}) {
		t.Errorf("the manifest does not say that the gate was overridden: %q, %v", m.Notes, err)
	}
	// Groups of equal rewards are counted, and warned of.
	curves, err := os.ReadFile(e.Run.Path(e.folder(seed, name), "metrics.jsonl"))
	if err != nil || !strings.Contains(string(curves), `"zero_variance_share":1`) {
		t.Errorf("metrics %s, %v", curves, err)
	}
	var graphs, allowed, updates int
	for line := range strings.Lines(log.String()) {
		if _, rest, ok := strings.Cut(line, name+": "); ok {
			if n, _ := fmt.Sscanf(rest, "%d graphs compiled for generation, the buckets allow %d; %d for updates", &graphs, &allowed, &updates); n == 3 {
				break
			}
		}
	}
	if graphs == 0 || graphs > allowed || updates == 0 {
		t.Errorf("%d graphs of %d allowed, %d for updates:\n%s", graphs, allowed, updates, log.String())
	}
	var p Profiled
	if err := run.ReadJSON(e.Run.Path("profile", from+".seed1.json"), &p); err != nil || p.Verdict.Go || len(p.Verdict.Failed) < 3 {
		t.Errorf("stored: %+v, %v", p.Verdict, err)
	}
}

// The profiles that are made, shown and published are those by which gates decide. If every recipe that starts from a policy has rewards of
// its own, a profile with the run's rewards, which an earlier run may have left, is not among them.
func TestProfilesThatGatesDecideBy(t *testing.T) {
	const from, name = "sft_lazy", "sft_lazy+grpo"
	e := small(t, "profile.tasks=2", "profile.attempts=2", "episode.max_tokens_per_turn=4", "engine.slots=4", "engine.rows=[4]", "recipes.paid={from: sft_lazy, method: paid, algorithm: grpo, with: {reward: {call: 0.05}}}",
		"train=[sft_lazy, paid]", "tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16")
	var err error
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	untuned(t, e, from, 1)
	check := func(when string, want ...string) {
		t.Helper()
		if err := e.Profiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		files, stored, err := e.storedProfiles()
		if err != nil {
			t.Fatal(err)
		}
		shown, err := e.profiles()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, p := range shown {
			got = append(got, p.Name)
			if p.Of.All.Episodes != 4 || stored[i].Policy != from {
				t.Errorf("%s: %s is of %d episodes of %s", when, p.Name, p.Of.All.Episodes, stored[i].Policy)
			}
		}
		if !slices.Equal(got, want) || len(files) != len(want) {
			t.Errorf("%s: profiles %v in %v, want %v", when, got, files, want)
		}
	}
	check("rewards of its own", from+" for paid")
	own := e.Run.Path(profileFile(from, 1))
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("no gate decides by %s, and it was made (%v)", own, err)
	}
	if err := run.WriteJSON(own, Profiled{Policy: from, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	check("an earlier run's", from+" for paid")
	e.Config.Train = []string{from, "paid", name}
	check("beside the run's own", from+" for paid", from)
	e.Config.Train = []string{from}
	if gates, err := e.gateSettings(from, 1); err != nil || len(gates) != 1 || gates[0] != e {
		t.Errorf("no gate: %d gates, %v, want the run itself", len(gates), err)
	}
}

// A group whose rewards differ by the rounding of sums alone is drawn again like any other of equal rewards.

// A prompt that does not fit the context is named with the setting to change, not with what it broke later.
func TestPromptBeyondTheContext(t *testing.T) {
	const from, name, seed = "sft_lazy", "sft_lazy+grpo", 1
	e := small(t, "episode.max_context=12", "grpo.iterations=1", "grpo.prompts=2", "grpo.group_size=2", "grpo.eval_every=0", "engine.slots=4", "engine.rows=[4]", "engine.contexts=[12]",
		"profile.tasks=1", "profile.attempts=2", "tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16")
	var err error
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	r := e.Config.Recipes[name]
	r.Override = true
	e.Config.Recipes[name] = r
	parent := untuned(t, e, from, seed)
	if err := e.grpo(t.Context(), name, seed, parent); err == nil || !strings.Contains(err.Error(), "episode.max_context 12") {
		t.Errorf("error %v, want one that names the setting", err)
	}
}
