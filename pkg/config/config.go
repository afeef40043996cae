// Package config resolves settings: the embedded defaults, what the suite and the profile change, a file given with
// --config, and assignments given with --set or by flags, in this order. The result is one typed struct; a key that it does
// not have is an error that names the nearest one.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/configs"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/suite/chain"
)

// Config is every setting of a run. See configs/default.yaml for what each means and its default.
type Config struct {
	Seed       uint64            `yaml:"seed" json:"seed"`
	TrainSeeds []uint64          `yaml:"train_seeds" json:"train_seeds"`
	Company    Company           `yaml:"company" json:"company"`
	Chain      chain.Config      `yaml:"chain" json:"chain"`
	Episode    episode.Config    `yaml:"episode" json:"episode"`
	Reward     reward.Config     `yaml:"reward" json:"reward"`
	Gate       reward.Thresholds `yaml:"gate" json:"gate"`
	Profile    Profile           `yaml:"profile" json:"profile"`
	Baselines  Baselines         `yaml:"baselines" json:"baselines"`
	Eval       Eval              `yaml:"eval" json:"eval"`
}

// Company is the settings of the company suite.
type Company struct {
	BudgetFactor    float64                 `yaml:"budget_factor" json:"budget_factor"`
	BudgetStep      price.Amount            `yaml:"budget_step" json:"budget_step"`
	Prices          map[string]price.Amount `yaml:"prices" json:"prices"`
	Style           string                  `yaml:"style" json:"style"`
	Thoughts        bool                    `yaml:"thoughts" json:"thoughts"`
	RandomOffers    float64                 `yaml:"random_offers" json:"random_offers"`
	TwoSource       bool                    `yaml:"two_source" json:"two_source"`
	Passages        int                     `yaml:"passages" json:"passages"`
	PassageWords    int                     `yaml:"passage_words" json:"passage_words"`
	WastefulShare   float64                 `yaml:"wasteful_share" json:"wasteful_share"`
	Train           int                     `yaml:"train_tasks" json:"train_tasks"`
	Val             int                     `yaml:"val_tasks" json:"val_tasks"`
	Test            int                     `yaml:"test_tasks" json:"test_tasks"`
	HeldoutCombo    int                     `yaml:"heldout_combo_tasks" json:"heldout_combo_tasks"`
	HeldoutTemplate int                     `yaml:"heldout_template_tasks" json:"heldout_template_tasks"`
}

// Profile is the reward profile that the gate reads.
type Profile struct {
	Tasks       int     `yaml:"tasks" json:"tasks"`
	K           int     `yaml:"k" json:"k"`
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
	NTasks      int      `yaml:"n_tasks" json:"n_tasks"`
	K           int      `yaml:"k" json:"k"`
	Temperature float64  `yaml:"temperature" json:"temperature"`
	PassK       []int    `yaml:"pass_k" json:"pass_k"`
	BudgetModes []string `yaml:"budget_modes" json:"budget_modes"`
	Resamples   int      `yaml:"resamples" json:"resamples"`
	Headline    string   `yaml:"headline" json:"headline"`
}

// Suites are the suites that have settings.
func Suites() []string { return []string{"company", "chain"} }

// Profiles are the profiles that have a settings file.
func Profiles() []string { return configs.Names("profile-") }

// Load resolves the settings of a suite under a profile. file may be empty; sets are assignments such as "eval.k=8".
func Load(suite, profile, file string, sets []string) (Config, error) {
	var c Config
	if !slices.Contains(Suites(), suite) {
		return c, fmt.Errorf("no suite is named %q; the suites are %s", suite, strings.Join(Suites(), ", "))
	}
	if !slices.Contains(Profiles(), profile) {
		return c, fmt.Errorf("no profile is named %q; the profiles are %s", profile, strings.Join(Profiles(), ", "))
	}
	var layers []Layer
	for _, name := range []string{"default", "suite-" + suite, "profile-" + profile, "profile-" + profile + "-" + suite} {
		b, err := configs.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, err
		}
		layers = append(layers, Layer{"configs/" + name + ".yaml", b})
	}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return c, fmt.Errorf("--config: %w", err)
		}
		layers = append(layers, Layer{file, b})
	}
	for _, s := range sets {
		l, err := Assignment(s)
		if err != nil {
			return c, err
		}
		layers = append(layers, l)
	}
	c.Chain = chain.DefaultConfig()
	if err := Merge(&c, layers...); err != nil {
		return c, err
	}
	return c, c.check()
}

// check names the first field that makes no sense; suites and packages check their own.
func (c Config) check() error {
	positive := func(name string, v int) error {
		if v < 1 {
			return fmt.Errorf("%s is %d: it must be at least 1", name, v)
		}
		return nil
	}
	modes := func(name string, list []string) error {
		if len(list) == 0 {
			return fmt.Errorf("%s is empty: name soft, hard or none", name)
		}
		for _, m := range list {
			if m != string(episode.Soft) && m != string(episode.Hard) && m != string(episode.None) {
				return fmt.Errorf("%s: %q is none of soft, hard, none", name, m)
			}
		}
		return nil
	}
	if len(c.TrainSeeds) == 0 {
		return errors.New("train_seeds is empty: name at least one seed")
	}
	_, err := c.Episode.Normalize()
	errs := []error{
		err, c.Reward.Validate(), c.Gate.Validate(),
		positive("profile.tasks", c.Profile.Tasks), positive("profile.k", c.Profile.K), positive("eval.k", c.Eval.K), positive("eval.resamples", c.Eval.Resamples),
		modes("baselines.budget_modes", c.Baselines.BudgetModes), modes("eval.budget_modes", c.Eval.BudgetModes),
	}
	if c.Eval.NTasks < 0 {
		errs = append(errs, fmt.Errorf("eval.n_tasks is %d: it must be 0 (the whole split) or more", c.Eval.NTasks))
	}
	for _, k := range c.Eval.PassK {
		if k < 1 || k > c.Eval.K {
			errs = append(errs, fmt.Errorf("eval.pass_k: %d is not in 1..%d (eval.k)", k, c.Eval.K))
		}
	}
	for _, t := range []struct {
		name string
		v    float64
	}{{"profile.temperature", c.Profile.Temperature}, {"eval.temperature", c.Eval.Temperature}} {
		if !(t.v > 0 && t.v <= 10) {
			errs = append(errs, fmt.Errorf("%s is %v: sampling needs a temperature above 0, at most 10", t.name, t.v))
		}
	}
	return errors.Join(errs...)
}
