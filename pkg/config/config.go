// Package config resolves settings: the embedded defaults, what the suite and the profile change, a file given with
// --config, and assignments given with --set or by flags, in this order. The result is one typed struct; a key that it does
// not have is an error that names the nearest one.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/configs"
	"github.com/toolroute/toolroute/pkg/benchmark"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suites"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/train"
)

// Config is every setting of a run. See configs/default.yaml for what each means and its default.
type Config struct {
	Seed       uint64   `yaml:"seed" json:"seed"`
	TrainSeeds []uint64 `yaml:"train_seeds" json:"train_seeds"`
	// Suite is the suite's own settings, of the type that its package declares.
	Suite     suite.Settings    `yaml:"suite" json:"suite"`
	Episode   episode.Config    `yaml:"episode" json:"episode"`
	Reward    reward.Config     `yaml:"reward" json:"reward"`
	Gate      reward.Thresholds `yaml:"gate" json:"gate"`
	Profile   Profile           `yaml:"profile" json:"profile"`
	Baselines Baselines         `yaml:"baselines" json:"baselines"`
	Eval      Eval              `yaml:"eval" json:"eval"`
	// Judge is the language model that the benchmark asks for a second opinion.
	Judge benchmark.JudgeSettings `yaml:"judge" json:"judge"`
	// OwnData keeps the data sets in the profile's own run folder, so that a small data set does not replace that of the main job.
	OwnData bool `yaml:"own_data" json:"own_data"`
	// Models are what --model can name.
	Models map[string]Model `yaml:"models" json:"models"`
	Tiny   Tiny             `yaml:"tiny" json:"tiny"`
	Engine Engine           `yaml:"engine" json:"engine"`
	// SFT is what all recipes of supervised fine-tuning share.
	SFT train.SFTConfig `yaml:"sft" json:"sft"`
	// ReplayFraction is the share of SFT's tokens (0 to 0.9) that are rows of copy pre-training, mixed among the demonstrations.
	ReplayFraction float64 `yaml:"replay_fraction" json:"replay_fraction,omitempty"`
	// DPO is what all recipes that learn preferences share.
	DPO train.DPOConfig `yaml:"dpo" json:"dpo"`
	// GRPO is what all recipes of reinforcement learning share.
	GRPO rl.Config `yaml:"grpo" json:"grpo"`
	// Warnings are bounds on the diagnostics of finished runs of reinforcement learning: the report says when each was broken and whether
	// that announced a collapse. They do not change training.
	Warnings train.StopRule `yaml:"warnings" json:"warnings"`
	// MaxErrors is the share of the episodes of a rollout that may end with an error, of a tool or of the policy, before it stops.
	// They count in no rate, baseline or loss.
	MaxErrors float64 `yaml:"max_errors" json:"max_errors"`
	// MaxSteps bounds the length of every recipe, whatever its own settings say: the steps of supervised training, the iterations of
	// reinforcement. 0 is no bound.
	MaxSteps int `yaml:"max_steps" json:"max_steps,omitempty"`
	// Recipes are the policies that can be trained, by name. Train lists those that a run trains; their parents are trained too.
	Recipes map[string]Recipe `yaml:"recipes" json:"recipes"`
	Train   []string          `yaml:"train" json:"train"`
	// Publish says how a finished run is published: as its suite's story, as an experiment beside it, or not at all.
	Publish string `yaml:"publish" json:"publish"`
	// Checkpoints is how committed checkpoints are used and made. It decides no result of training and is in no stage's key.
	Checkpoints Checkpoints `yaml:"checkpoints" json:"checkpoints"`
}

// The values of Config.Publish.
const (
	// PublishStory replaces results/<suite>, models and the README's table included.
	PublishStory = "story"
	// PublishExperiment leaves tables, studies and the history in results/<suite>/experiments/<profile>.
	PublishExperiment = "experiment"
	// PublishNothing refuses publication: nothing is learned in a smoke run.
	PublishNothing = "nothing"
)

// Checkpoints are the committed models below results/<suite>/checkpoints.
type Checkpoints struct {
	// Use is auto (instead of training that GoMLX's Go backend would have to do), never (train) or always.
	Use string `yaml:"use" json:"use"`
	// Publish lists the recipes whose models are published; empty is every recipe that has a method.
	Publish []string `yaml:"publish" json:"publish"`
	// MaxMB is the size that a suite's folder of results, models included, must stay below.
	MaxMB float64 `yaml:"max_mb" json:"max_mb"`
}

// The values of Checkpoints.Use.
const (
	UseAuto   = "auto"
	UseNever  = "never"
	UseAlways = "always"
)

// Model is a model that the policies of a run can descend from.
type Model struct {
	// Kind is tiny: the preset of the section tiny, trained from scratch.
	Kind string `yaml:"kind" json:"kind"`
}

// Tiny is the tiny preset: its sizes, its vocabulary and its copy pre-training.
type Tiny struct {
	Model           tiny.Preset          `yaml:"model" json:"model"`
	Tokenizer       Tokenizer            `yaml:"tokenizer" json:"tokenizer"`
	CopyPretraining tiny.CopyPretraining `yaml:"copy_pretraining" json:"copy_pretraining"`
}

// Tokenizer bounds the tiny preset's vocabulary.
type Tokenizer struct {
	MaxVocab int `yaml:"max_vocab" json:"max_vocab"`
	MinTexts int `yaml:"min_texts" json:"min_texts"`
}

// Engine sets the sizes of generation.
type Engine struct {
	Slots int `yaml:"slots" json:"slots"`
	// The shapes that graphs are compiled for: lengths of the cache, chunks of prefill, batch sizes, tokens of a decode call.
	Contexts []int `yaml:"contexts" json:"contexts"`
	Prefill  []int `yaml:"prefill" json:"prefill"`
	Rows     []int `yaml:"rows" json:"rows"`
	Decode   int   `yaml:"decode" json:"decode"`
}

// Recipe is one step of training: from a parent's weights, by an algorithm, on data.
type Recipe struct {
	// From names the parent recipe; "root" is the run's model: the tiny preset after copy pre-training.
	From string `yaml:"from" json:"from"`
	// Method is the name in tables; empty for a policy that is only a step on the way.
	Method string `yaml:"method" json:"method"`
	// Demos is the kind of demonstrations that SFT imitates, Rows how many of them at most (0: all).
	Demos string `yaml:"demos" json:"demos"`
	Rows  int    `yaml:"rows" json:"rows"`
	// Worlds is a number of further training worlds, which have other seeds and are never evaluated. SFT and DPO add their examples to
	// those of the run's own world. Reinforcement learning plays in so many further worlds instead of the run's own; those are never
	// imitated.
	Worlds int `yaml:"worlds" json:"worlds"`
	// Pairs is the kind of preferences that DPO learns from.
	Pairs string `yaml:"pairs" json:"pairs,omitempty"`
	// Algorithm is sft (the default), dpo or grpo.
	Algorithm string `yaml:"algorithm" json:"algorithm,omitempty"`
	// Override runs grpo although the gate refused.
	Override bool `yaml:"override" json:"override,omitempty"`
	// MaxTools, if it is not 0, leaves out the examples whose gold combination has more tools than this.
	MaxTools int `yaml:"max_tools" json:"max_tools,omitempty"`
	// TokensOf names another recipe. SFT goes on until this policy has as many trained tokens as the other one, ancestors included on both
	// sides. The other policy is trained first, and sft.run.max_steps does not apply.
	TokensOf string `yaml:"tokens_of" json:"tokens_of,omitempty"`
	// Choose lists recipes of reinforcement learning. A recipe with Choose trains nothing: its policy is the one of these that was best on val.
	Choose []string `yaml:"choose" json:"choose,omitempty"`
	// Seeds is the number of training seeds, from the first on, for which the recipe is trained; 0 is all of them.
	Seeds int `yaml:"seeds" json:"seeds,omitempty"`
	// Ablation says in a few words what the recipe changes, Against names the one it is compared with in the table of ablations.
	Ablation string `yaml:"ablation" json:"ablation,omitempty"`
	Against  string `yaml:"against" json:"against,omitempty"`
	// With holds settings for this recipe alone, with the keys of the whole file: {sft: {run: {max_steps: 250}}}. Of the suite's settings
	// it can change only those on which neither the data set nor evaluation depends.
	With With `yaml:"with" json:"with,omitempty"`
}

// Decided is the recipe without the fields that only describe it. Its training depends on all that is left.
func (r Recipe) Decided() Recipe {
	r.Ablation, r.Against, r.Seeds = "", "", 0
	return r
}

// Profile is the reward profile that the gate reads.
type Profile struct {
	Tasks       int     `yaml:"tasks" json:"tasks"`
	Attempts    int     `yaml:"attempts" json:"attempts"`
	Temperature float64 `yaml:"temperature" json:"temperature"`
}

// Baselines are the scripted policies that are played.
type Baselines struct {
	Methods     []string `yaml:"methods" json:"methods"`
	BudgetModes []string `yaml:"budget_modes" json:"budget_modes"`
	MinScore    float64  `yaml:"min_score" json:"min_score"`
}

// Eval is how methods are evaluated.
type Eval struct {
	NTasks      int     `yaml:"n_tasks" json:"n_tasks"`
	Attempts    int     `yaml:"attempts" json:"attempts"`
	Temperature float64 `yaml:"temperature" json:"temperature"`
	// PassK is the k of pass@k, beside which pass@1 always stands; 0 is all attempts of a row.
	PassK       int      `yaml:"pass_k" json:"pass_k"`
	BudgetModes []string `yaml:"budget_modes" json:"budget_modes"`
	// SampledBudgetModes are the budget modes of the sampled rows of learned methods.
	SampledBudgetModes []string `yaml:"sampled_budget_modes" json:"sampled_budget_modes"`
	Resamples          int      `yaml:"resamples" json:"resamples"`
	Headline           string   `yaml:"headline" json:"headline"`
	// Methods are the methods that are played, scripted and learned; empty is all of them.
	Methods []string `yaml:"methods" json:"methods,omitempty"`
	// Splits are the evaluated splits, of those that the suite has; empty is all of them.
	Splits []string `yaml:"splits" json:"splits,omitempty"`
}

// Profiles are the profiles that have a settings file.
func Profiles() []string { return configs.Names("profile-") }

// suitesOf are the suites for which a profile has settings of its own. A profile with those of one suite alone is an experiment of that suite.
func suitesOf(profile string) (out []string) {
	for _, suite := range suites.Names() {
		if _, err := configs.Read("profile-" + profile + "-" + suite); err == nil {
			out = append(out, suite)
		}
	}
	return out
}

// Load resolves the settings of a suite under a profile. file may be empty; sets are assignments such as "eval.attempts=8".
func Load(name, profile, file string, sets []string) (Config, error) {
	var c Config
	of, err := suites.Find(name)
	if err != nil {
		return c, err
	}
	c.Suite = of.Settings()
	if !slices.Contains(Profiles(), profile) {
		return c, fmt.Errorf("no profile is named %q; the profiles are %s", profile, strings.Join(Profiles(), ", "))
	}
	if only := suitesOf(profile); len(only) == 1 && only[0] != name {
		return c, fmt.Errorf("profile %s is of the suite %s and changes nothing that %s trains; take another profile, or --suite %s", profile, only[0], name, only[0])
	}
	var layers []Layer
	for _, embedded := range []string{"default", "suite-" + name, "profile-" + profile, "profile-" + profile + "-" + name} {
		b, err := configs.Read(embedded)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, err
		}
		layers = append(layers, Layer{Name: "configs/" + embedded + ".yaml", YAML: b})
	}
	if file != "" {
		b, err := readFile(file)
		if err != nil {
			return c, fmt.Errorf("--config: %w", err)
		}
		layers = append(layers, Layer{Name: file, YAML: b})
	}
	for _, s := range sets {
		l, err := Assignment(s)
		if err != nil {
			return c, err
		}
		layers = append(layers, l)
	}
	origin, err := merge(&c, layers...)
	if err != nil {
		return c, err
	}
	return c, located(c.check(), origin)
}

// readFile reads no more than a file of settings may have, so that a device or a wrong file does not fill the memory.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBytes+8))
}

// located adds to each error that begins with a key where the setting got its value.
func located(errs []error, origin map[string]string) error {
	for i, err := range errs {
		if at, ok := origin[keyIn(err)]; ok {
			errs[i] = fault{fmt.Sprintf("%v (set in %s)", err, at), err}
		}
	}
	return errors.Join(errs...)
}

// For returns the settings as a recipe sees them.
func (c Config) For(name string) (Config, error) {
	out, err := c.merged(name)
	if n := c.MaxSteps; err == nil && n > 0 {
		out.SFT.Run.MaxSteps, out.DPO.Run.MaxSteps, out.GRPO.Iterations = bounded(out.SFT.Run.MaxSteps, n), bounded(out.DPO.Run.MaxSteps, n), min(out.GRPO.Iterations, n)
	}
	return out, err
}

// bounded returns the smaller of steps and n. steps of 0 is no bound.
func bounded(steps, n int) int {
	if steps == 0 {
		return n
	}
	return min(steps, n)
}

// merged are the settings with those that a recipe changes.
func (c Config) merged(name string) (Config, error) {
	r, ok := c.Recipes[name]
	if !ok || len(r.With) == 0 {
		return c, nil
	}
	out := c
	if err := r.With.apply(reflect.ValueOf(&out).Elem()); err != nil {
		return c, fmt.Errorf("recipes.%s.with.%w", name, err)
	}
	return out, nil
}

// Asked reports whether the episodes of a method are asked for.
func (c Config) Asked(method string) bool {
	return len(c.Eval.Methods) == 0 || slices.Contains(c.Eval.Methods, method)
}

// Scripted are the scripted methods that are played.
func (c Config) Scripted() []string {
	return slices.DeleteFunc(slices.Clone(c.Baselines.Methods), func(m string) bool { return !c.Asked(m) })
}

// RootName is the parent of a recipe that starts from the run's model. For the tiny preset, that is the
// model after copy pre-training.
const RootName = "root"

// Lineage lists a recipe and its ancestors, oldest first.
func (c Config) Lineage(name string) ([]string, error) {
	var out []string
	for name != RootName {
		r, ok := c.Recipes[name]
		if !ok {
			at := ""
			if len(out) > 0 {
				at = fmt.Sprintf("recipes.%s.from: ", out[len(out)-1])
			}
			known := slices.Sorted(maps.Keys(c.Recipes))
			if near := Nearest(name, known); near != "" {
				return nil, fmt.Errorf("%sno recipe is named %q; did you mean %q?", at, name, near)
			}
			return nil, fmt.Errorf("%sno recipe is named %q; there are %s", at, name, strings.Join(known, ", "))
		}
		if slices.Contains(out, name) {
			return nil, fmt.Errorf("recipes.%s.from: it descends from itself", name)
		}
		if err := c.hasStart(name); err != nil {
			return nil, err
		}
		out = append(out, name)
		if len(r.Choose) > 0 {
			break // its candidates have ancestors of their own
		}
		name = r.From
	}
	slices.Reverse(out)
	return out, nil
}

// check names the settings that make no sense, by their keys. Suites check their own settings. The settings of recipes are checked only if
// those of the run are sound, because recipes start from them.
func (c Config) check() []error {
	errs := slices.Concat(c.runValues(), c.values())
	sound := len(errs) == 0
	for _, name := range slices.Sorted(maps.Keys(c.Recipes)) {
		errs = append(errs, c.checkRecipe(name, sound)...)
	}
	errs = append(errs, c.checkMethods()...)
	for _, name := range c.Train {
		if _, err := c.Lineage(name); err != nil {
			errs = append(errs, fmt.Errorf("train: %w", err))
		}
	}
	for _, name := range c.Checkpoints.Publish {
		if _, err := c.Lineage(name); err != nil {
			errs = append(errs, fmt.Errorf("checkpoints.publish: %w", err))
		}
	}
	return errs
}
