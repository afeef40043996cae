package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/tiny"
)

// Trained is the result of one step of training, stored as result.json in its folder. Totals include the ancestors.
type Trained struct {
	Recipe          string                  `json:"recipe"`
	Seed            uint64                  `json:"seed"`
	Backend         string                  `json:"backend,omitempty"` // that trained it; empty in runs from before this was recorded
	Weights         string                  `json:"weights"`           // SHA-256 of model.safetensors
	Steps           int                     `json:"steps"`
	TrainedTokens   int64                   `json:"trained_tokens"`
	Processed       int64                   `json:"processed_tokens"`
	Episodes        int64                   `json:"episodes"`
	Seconds         float64                 `json:"seconds"`
	TotalTokens     int64                   `json:"total_trained_tokens"`
	TotalProcessed  int64                   `json:"total_processed_tokens"`
	TotalDemos      int                     `json:"total_demonstrations"`
	TotalEpisodes   int64                   `json:"total_episodes"`
	TotalSeconds    float64                 `json:"total_seconds"`
	Demos           int                     `json:"demonstrations,omitempty"`
	ValLoss         float64                 `json:"val_loss,omitempty"`
	CopyPretraining *tiny.PretrainingResult `json:"copy_pretraining,omitempty"`
	// Kept is the iteration whose weights the policy has, where reinforcement kept the best on val; 0 is the start.
	Kept *int `json:"kept_iteration,omitempty"`
	// Stopped says why training ended early: a stop rule, or a step that was not finite. It is empty for a run that reached its end.
	Stopped string `json:"stopped,omitempty"`
	// Chosen is set for a policy that was not trained but chosen among others: the recipe that made it. ChosenBy is its mean reward on val.
	Chosen   string  `json:"chosen,omitempty"`
	ChosenBy float64 `json:"chosen_by,omitempty"`
}

// folder of a recipe's run below the run folder.
func (e *Env) folder(seed uint64, recipe string) string {
	return filepath.Join("train", fmt.Sprintf("seed%d", seed), recipe)
}

// Train makes the policies that the profile lists, for every training seed, with the ancestors they need. If the gate refuses a policy, the
// policy and its row are left out, and the manifest says so.
func (e *Env) Train(ctx context.Context) error {
	if _, err := e.useCommitted(ctx, e.candidates(e.Config.Train...), e.Config.TrainSeeds); err != nil {
		return err
	}
	for _, seed := range e.Config.TrainSeeds {
		for _, name := range e.Config.Train {
			if !slices.Contains(e.Config.SeedsOf(name), seed) {
				continue
			}
			err := e.TrainRecipe(ctx, name, seed)
			if no := (*noGoError)(nil); errors.As(err, &no) { // the log has the verdict already
				e.Logf("%s (seed %d): left out, as the gate says no-go to %s; set recipes.%s.override to train it anyway", name, seed, no.recipe, no.recipe)
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// refused reports whether a policy is missing because the gate said no-go to it or to one of its ancestors, and says why.
func (e *Env) refused(name string, seed uint64) (string, bool) {
	line, err := e.Config.Lineage(name)
	if err != nil {
		return "", false
	}
	for _, n := range line {
		r := e.Config.Recipes[n]
		if v, no := e.noGo(n, seed); no && !r.Override {
			return fmt.Sprintf("%s, seed %d: left out, %s", name, seed, v), true
		}
		if r.TokensOf != "" {
			if why, no := e.refused(r.TokensOf, seed); no {
				return fmt.Sprintf("%s, seed %d: left out, as it is to be as long as %s", name, seed, why), true
			}
		}
	}
	return e.noneToChoose(name, seed)
}

// noGo returns the gate's recorded verdict on a recipe if it is no-go. The recipe may have overridden it.
func (e *Env) noGo(name string, seed uint64) (v reward.Verdict, no bool) {
	r := e.Config.Recipes[name]
	if !algorithmOf(r).gated {
		return v, false
	}
	sub, err := e.with(name)
	if err != nil {
		return v, false
	}
	var p Profiled
	file, _ := sub.profileOf(r.From, seed)
	if err := e.Run.ReadJSON(profileStage(file), file, &p); err != nil {
		return v, false
	}
	return p.Verdict, !p.Verdict.Go
}

// TrainRecipe makes one policy and its ancestors, or takes it from its committed checkpoint.
func (e *Env) TrainRecipe(ctx context.Context, name string, seed uint64) error {
	line, err := e.Config.Lineage(name)
	if err != nil {
		return err
	}
	if len(e.Config.Recipes[name].Choose) > 0 {
		return e.choose(ctx, name, seed)
	}
	if take, err := e.useCommitted(ctx, []string{name}, []uint64{seed}); err != nil {
		return err
	} else if take {
		return e.take(ctx, name, seed)
	}
	if err := e.root().make(ctx, seed); err != nil {
		return err
	}
	for _, n := range line {
		if err := e.recipe(ctx, n, seed); err != nil {
			return err
		}
	}
	return nil
}

// decides lists everything that decides a step of training; the stage's key is the hash of the list. parent is the hash of the parent's
// weights.
func (e *Env) decides(name string, seed uint64, parent string) ([]any, error) {
	var read string
	var err error
	if name == config.RootName {
		_, read, err = e.root().tokenizer()
	} else {
		read, err = e.dataKey()
	}
	return e.decidedBy(name, seed, parent, read), err
}

// decidedBy is the list of decides for a step that reads a file of the given hash: the tokenizer for the root, the data set's manifest for
// a recipe. Nothing in it may depend on the machine: committed checkpoints are compared with it on other machines.
func (e *Env) decidedBy(name string, seed uint64, parent, read string) []any {
	var out []any
	for _, d := range e.decisions(name, seed, parent, read) {
		if d.value != nil {
			out = append(out, d.value)
		}
	}
	return out
}

func (e *Env) decisions(name string, seed uint64, parent, read string) []decision {
	if name == config.RootName {
		return e.root().decided(seed, read)
	}
	return algorithmOf(e.Config.Recipes[name]).decided(e, name, seed, parent, read)
}

func (e *Env) key(name string, seed uint64, parent string) (string, error) {
	parts, err := e.decides(name, seed, parent)
	return run.Key(parts...), err
}

// with returns the run with the settings of one recipe.
func (e *Env) with(name string) (*Env, error) {
	cfg, err := e.Config.For(name)
	return &Env{Options: e.Options, Config: cfg, Definition: e.Definition, Run: e.Run, Data: e.Data, Results: e.Results, shared: e.shared,
		whole: cmp.Or(e.whole, e), recipeName: name}, err
}

// finish saves a model with its tokenizer and its result.
func (e *Env) finish(dir string, m *lm.Model, t, parent Trained) ([]string, error) {
	t.Backend = m.Backend.Kind
	if err := m.Save(e.Run.Path(dir, "model")); err != nil {
		return nil, err
	}
	m.Weights.Free()
	tok, _, err := e.root().tokenizer()
	if err != nil {
		return nil, err
	}
	if err := run.WriteFile(e.Run.Path(dir, "model", "tokenizer.json"), tok); err != nil {
		return nil, err
	}
	if t.Weights, err = run.HashFile(e.Run.Path(dir, "model", "model.safetensors")); err != nil {
		return nil, err
	}
	t.TotalTokens, t.TotalEpisodes, t.TotalSeconds = parent.TotalTokens+t.TrainedTokens, parent.TotalEpisodes+t.Episodes, parent.TotalSeconds+t.Seconds
	t.TotalProcessed, t.TotalDemos = parent.TotalProcessed+t.Processed, parent.TotalDemos+t.Demos
	result := filepath.Join(dir, "result.json")
	return []string{result, filepath.Join(dir, "model", "model.safetensors"), filepath.Join(dir, "model", "config.json"), filepath.Join(dir, "model", "tokenizer.json")},
		run.WriteJSON(e.Run.Path(result), t)
}

// metricsFile holds, in the folder of a policy, what was logged while it was trained.
const metricsFile = "metrics.jsonl"

// Result reads the result of a step of training.
func (e *Env) Result(name string, seed uint64) (Trained, error) {
	var t Trained
	dir := e.folder(seed, name)
	err := e.Run.ReadJSON(dir, filepath.Join(dir, "result.json"), &t)
	if errors.Is(err, run.ErrNotDone) {
		return t, &untrainedError{name, seed, err}
	}
	return t, err
}

// recipe runs one step of training with the settings that hold for it.
func (e *Env) recipe(ctx context.Context, name string, seed uint64) error {
	sub, err := e.with(name)
	if err != nil {
		return err
	}
	r := sub.Config.Recipes[name]
	parent, err := e.Result(r.From, seed)
	if err != nil {
		return err
	}
	return algorithmOf(r).train(sub, ctx, name, seed, parent)
}

// load reads a trained model on the run's backend.
func (e *Env) load(name string, seed uint64) (*lm.Model, error) {
	b, err := e.Backend()
	if err != nil {
		return nil, err
	}
	dir := e.folder(seed, name)
	if err := e.Run.Unchanged(dir); err != nil {
		return nil, err
	}
	return lm.Load(b, e.Run.Path(dir, "model"))
}
