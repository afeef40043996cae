package families

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
)

// Config decides the data set, and is written into its manifest.
type Config struct {
	Seed uint64 `yaml:"-" json:"seed"`
	// Tasks is how many tasks the bank aims at. Templates with few possible values stay below their part.
	Tasks         int    `yaml:"tasks" json:"tasks"`
	MaxValidPaths int    `yaml:"max_valid_paths" json:"max_valid_paths"`
	Splits        Shares `yaml:"splits" json:"splits"`
	Limits        Limits `yaml:"limits" json:"limits"`
	// OptimalShare of the random demonstrations take the cheapest path anyway.
	OptimalShare float64 `yaml:"optimal_share" json:"optimal_share"`
	Pairs        Pairs   `yaml:"pairs" json:"pairs"`
}

// Shares are the parts of the underlying tasks of a template that go to a split; the rest is sft_train. Templates that one tool serves give
// nothing to dpo_train.
type Shares struct {
	Test     float64 `yaml:"test" json:"test"`
	Val      float64 `yaml:"val" json:"val"`
	DPOTrain float64 `yaml:"dpo_train" json:"dpo_train"`
}

// Limits bound what a policy has to copy; 0 is no bound.
type Limits struct {
	MaxDigits int `yaml:"max_digits" json:"max_digits"` // digits of a number
	MaxBody   int `yaml:"max_body" json:"max_body"`     // characters of a text
}

// Pairs are the settings of preferences. Each is between two paths of a task.
type Pairs struct {
	MinCostGap float64  `yaml:"min_cost_gap" json:"min_cost_gap"` // of the rejected path, in price units
	MaxPerTask int      `yaml:"max_per_task" json:"max_per_task"`
	Heldout    []string `yaml:"heldout_families" json:"heldout_families"` // families without pairs
}

// View is how tasks are shown.
type View struct {
	Style      string `yaml:"style" json:"style"`             // compact or full
	MaxTools   int    `yaml:"max_tools" json:"max_tools"`     // tools that a task offers at most, those of its paths aside; 0 offers all 35
	TestPrices bool   `yaml:"test_prices" json:"test_prices"` // adds the split test_prices
}

// Training is what training alone depends on: its demonstrations, and the prices of its tasks.
type Training struct {
	Thoughts     bool    `yaml:"thoughts" json:"thoughts"`             // demonstrations name the sub-question before each call
	Recovery     float64 `yaml:"recovery_share" json:"recovery_share"` // of the recovery demonstrations that first make a call that fails, where a task has one
	RandomPrices float64 `yaml:"random_prices" json:"random_prices"`   // share of the tasks with prices of their own
}

// The styles of prompts.
const (
	Compact = "compact" // a line a tool with its price, for models trained on the suite
	Full    = "full"    // instructions, tools with schemas and prices and the action grammar, for models that never saw it
)

// Settings are the suite's own settings. configs/suite-families.yaml says what each means.
type Settings struct {
	World    Config   `yaml:"world" json:"world"`
	View     View     `yaml:"view" json:"view"`
	Training Training `yaml:"training" json:"training"`
}

func (s *Settings) config(seed uint64) Config {
	c := s.World
	c.Seed = seed
	return c
}

// Validate says which field is wrong and what to write instead.
func (c Config) Validate() error {
	sp := c.Splits
	switch {
	case c.Tasks < 400 || c.Tasks > 100_000:
		return fmt.Errorf("world.tasks is %d: want 400 to 100000, so that each of the %d templates is in every split", c.Tasks, len(templates))
	case c.MaxValidPaths < 1 || c.MaxValidPaths > 64:
		return fmt.Errorf("world.max_valid_paths is %d: want 1 to 64", c.MaxValidPaths)
	case !(sp.Test > 0 && sp.Val > 0 && sp.DPOTrain > 0 && sp.Test+sp.Val+sp.DPOTrain < 1):
		return fmt.Errorf("world.splits is test %v, val %v, dpo_train %v: want shares above 0 that leave a part for sft_train", sp.Test, sp.Val, sp.DPOTrain)
	case c.Limits.MaxDigits != 0 && c.Limits.MaxDigits < 5:
		return fmt.Errorf("world.limits.max_digits is %d: want 0 (no bound) or at least 5, the digits of a large prime", c.Limits.MaxDigits)
	case c.Limits.MaxBody != 0 && c.Limits.MaxBody < 150:
		return fmt.Errorf("world.limits.max_body is %d: want 0 (no bound) or at least 150, beyond the %d characters of a short mail", c.Limits.MaxBody, toolbox.MaxShortBody)
	case c.Pairs.MaxPerTask < 1:
		return fmt.Errorf("world.pairs.max_per_task is %d: want at least 1", c.Pairs.MaxPerTask)
	case !(c.Pairs.MinCostGap >= 0):
		return fmt.Errorf("world.pairs.min_cost_gap is %v: want at least 0", c.Pairs.MinCostGap)
	case !(c.OptimalShare >= 0 && c.OptimalShare <= 1):
		return fmt.Errorf("world.optimal_share is %v: want a share from 0 to 1", c.OptimalShare)
	}
	for _, h := range c.Pairs.Heldout {
		var names []string
		for _, f := range Families() {
			names = append(names, f.Name)
		}
		if !slices.Contains(names, h) {
			return fmt.Errorf("world.pairs.heldout_families: unknown family %q: want some of %s", h, strings.Join(names, ", "))
		}
	}
	return nil
}

// Validate says which field is wrong and what to write instead.
func (v View) Validate() error {
	if v.Style != Compact && v.Style != Full {
		return fmt.Errorf("view.style is %q: want %s or %s", v.Style, Compact, Full)
	}
	if v.MaxTools < 0 {
		return fmt.Errorf("view.max_tools is %d: want at least 0", v.MaxTools)
	}
	return nil
}

// Validate says which field is wrong and what to write instead.
func (t Training) Validate() error {
	if !(t.Recovery >= 0 && t.Recovery <= 1) {
		return fmt.Errorf("training.recovery_share is %v: want a share from 0 to 1", t.Recovery)
	}
	if !(t.RandomPrices >= 0 && t.RandomPrices <= 1) {
		return fmt.Errorf("training.random_prices is %v: want a share from 0 to 1", t.RandomPrices)
	}
	return nil
}

// Check names the settings whose values make no sense.
func (s *Settings) Check(seed uint64) (errs []error) {
	for _, err := range []error{s.config(seed).Validate(), s.View.Validate(), s.Training.Validate()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// DataKey is the world, with what the listed demonstrations and pairs depend on.
func (s *Settings) DataKey(seed uint64) any { return s.config(seed) }

// Generate makes the data set.
func (s *Settings) Generate(dir string, seed uint64) error {
	made, err := Generate(s.config(seed))
	if err != nil {
		return err
	}
	return made.Write(dir)
}

// Open opens the data set with the view.
func (s *Settings) Open(dir string, _ uint64) (suite.Suite, error) {
	data, err := Open(dir)
	if err != nil {
		return nil, err
	}
	return data.With(s.View, s.Training)
}

// opened is what decides how an opened data set looks, beside its files. The split test_prices is made by [Settings.DerivedSplits] and is no part
// of it.
type opened struct {
	Style    string
	MaxTools int
	Training Training
}

// OpenKey is the view and the settings of training.
func (s *Settings) OpenKey(uint64) any { return opened{s.View.Style, s.View.MaxTools, s.Training} }

// ShownKey is the view and the settings of training.
func (s *Settings) ShownKey() any { return s.OpenKey(0) }

// RecipeKeys is the section that training alone depends on.
func (s *Settings) RecipeKeys() []string { return []string{"training"} }

// DerivedSplits is the split at other prices.
func (s *Settings) DerivedSplits() []suite.DerivedSplit {
	if !s.View.TestPrices {
		return nil
	}
	return []suite.DerivedSplit{{Name: TestPrices, Key: priceVersion, Tasks: func(w suite.Suite, evaluated func(string) ([]suite.Task, error), seed uint64) ([]suite.Task, error) {
		own, ok := w.(*Suite)
		if !ok {
			return nil, errors.New("prices of their own are for tasks of the families suite")
		}
		tasks, err := evaluated(Test)
		if err != nil {
			return nil, err
		}
		out := make([]suite.Task, len(tasks))
		for i, t := range tasks {
			if out[i], err = own.repriced(t, testFactors, seed); err != nil {
				return nil, err
			}
			out[i].ID, out[i].Split = t.ID+"@prices", TestPrices
		}
		return out, nil
	}}}
}
