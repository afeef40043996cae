package company

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Settings are the suite's own settings: its data set, how tasks are shown, and the evaluated splits beyond it. configs/suite-company.yaml
// says what each means.
type Settings struct {
	BudgetFactor    float64                 `yaml:"budget_factor" json:"budget_factor"`
	BudgetStep      price.Amount            `yaml:"budget_step" json:"budget_step"`
	Prices          map[string]price.Amount `yaml:"prices" json:"prices"`
	Style           string                  `yaml:"style" json:"style"`
	Thoughts        bool                    `yaml:"thoughts" json:"thoughts"`
	Plan            bool                    `yaml:"plan" json:"plan"`
	RandomOffers    float64                 `yaml:"random_offers" json:"random_offers"`
	MaskTools       float64                 `yaml:"mask_tools" json:"mask_tools,omitempty"`
	TwoSource       bool                    `yaml:"two_source" json:"two_source"`
	Passages        int                     `yaml:"passages" json:"passages"`
	PassageWords    int                     `yaml:"passage_words" json:"passage_words"`
	WastefulShare   float64                 `yaml:"wasteful_share" json:"wasteful_share"`
	Train           int                     `yaml:"train_tasks" json:"train_tasks"`
	Val             int                     `yaml:"val_tasks" json:"val_tasks"`
	Test            int                     `yaml:"test_tasks" json:"test_tasks"`
	HeldoutCombo    int                     `yaml:"heldout_combo_tasks" json:"heldout_combo_tasks"`
	HeldoutTemplate int                     `yaml:"heldout_template_tasks" json:"heldout_template_tasks"`
	// ShiftedPrices, where it is not empty, adds the split test_prices: ShiftedTasks of the test tasks (0: all), stratified, offered at these
	// prices. A tool that is not named keeps its own.
	ShiftedPrices map[string]price.Amount `yaml:"shifted_prices" json:"shifted_prices,omitempty"`
	ShiftedTasks  int                     `yaml:"shifted_tasks" json:"shifted_tasks,omitempty"`
	// MaskedTasks, when it is not 0, adds the split test_masked: so many test tasks, stratified, with tools under other names.
	MaskedTasks int `yaml:"masked_tasks" json:"masked_tasks,omitempty"`
	// NewWorldSeed, when it is not 0, adds the split test_new_world: the test tasks of the world of that seed.
	NewWorldSeed uint64 `yaml:"new_world_seed" json:"new_world_seed,omitempty"`
}

// The splits of test tasks that are offered in another way: at other prices (shifted_prices), and with tools under other names (masked_tasks).
const (
	TestPrices = "test_prices"
	TestMasked = "test_masked"
)

// Options are what the settings say of a world.
func (s *Settings) Options(seed uint64) Options {
	counts := map[string]int{}
	for split, n := range map[string]int{Train: s.Train, Val: s.Val, Test: s.Test, HeldoutCombo: s.HeldoutCombo, HeldoutTemplate: s.HeldoutTemplate} {
		if n > 0 {
			counts[split] = n
		}
	}
	return Options{Seed: seed, Prices: s.Prices, BudgetFactor: s.BudgetFactor, BudgetStep: s.BudgetStep, Counts: counts,
		RandomOffers: s.RandomOffers, MaskTools: s.MaskTools, TwoSource: s.TwoSource, Passages: s.Passages, PassageWords: s.PassageWords,
		Style: Style(s.Style), Thoughts: s.Thoughts, NoPlan: !s.Plan, WastefulShare: s.WastefulShare, NewWorldSeed: s.NewWorldSeed}
}

// DataKey is what decides the data set. Settings that apply when a suite is opened do not decide it, and have their defaults here.
func (s *Settings) DataKey(seed uint64) any {
	o := s.Options(seed)
	o.Style, o.Thoughts, o.NoPlan, o.RandomOffers, o.MaskTools, o.WastefulShare, o.NewWorldSeed = Compact, true, false, 0, 0, 0.5, 0
	return []any{o, Format}
}

// Generate makes the data set and proves its gold paths.
func (s *Settings) Generate(dir string, seed uint64) error {
	w, err := Generate(s.Options(seed))
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Write(dir)
}

// Open opens the data set as the settings show it.
func (s *Settings) Open(dir string, seed uint64) (suite.Suite, error) {
	return Open(dir, s.Options(seed))
}

// OpenKey is all of the options.
func (s *Settings) OpenKey(seed uint64) any { return s.Options(seed) }

// ShownKey is the settings without those of derived splits, which change nothing of the other splits.
func (s *Settings) ShownKey() any {
	c := *s
	c.ShiftedPrices, c.ShiftedTasks, c.MaskedTasks, c.NewWorldSeed = nil, 0, 0, 0
	return c
}

// RecipeKeys are the settings that are applied when the suite is opened.
func (s *Settings) RecipeKeys() []string {
	return []string{"random_offers", "thoughts", "plan", "wasteful_share", "mask_tools"}
}

// DerivedSplits are the splits of shifted prices, masked tools, two sources and a new world, as far as the settings ask for them.
func (s *Settings) DerivedSplits() []suite.DerivedSplit {
	var out []suite.DerivedSplit
	if len(s.ShiftedPrices) > 0 {
		f := suite.DerivedSplit{Name: TestPrices, Key: s.ShiftedPrices, Shifted: &suite.Shifted{Usual: Test, Origin: Origin}}
		for _, t := range Tools {
			now, ok := s.ShiftedPrices[t]
			if !ok {
				now = s.Prices[t]
			}
			f.Shifted.Prices = append(f.Shifted.Prices, suite.PriceChange{Tool: t, Now: now, Usual: s.Prices[t]})
		}
		f.Tasks = s.offered(s.ShiftedTasks, func(of *Suite, tasks []suite.Task) ([]suite.Task, error) {
			return of.At(s.ShiftedPrices, TestPrices, tasks)
		})
		out = append(out, f)
	}
	if s.MaskedTasks > 0 {
		out = append(out, suite.DerivedSplit{Name: TestMasked, ToolNames: maskNames,
			Tasks: s.offered(s.MaskedTasks, func(of *Suite, tasks []suite.Task) ([]suite.Task, error) { return of.Masked(TestMasked, tasks), nil })})
	}
	if s.TwoSource {
		out = append(out, suite.DerivedSplit{Name: TwoSourceTest, Sources: &suite.Sources{Tools: [2]string{ToolDoc, ToolWeb}, Prices: PriceList}})
	}
	if s.NewWorldSeed != 0 {
		out = append(out, suite.DerivedSplit{Name: NewWorld, Key: s.NewWorldSeed})
	}
	return out
}

// offered makes a split of n test tasks that are offered in another way. It takes tasks that are also evaluated as usual, so that the two
// can be compared.
func (s *Settings) offered(n int, offer func(of *Suite, tasks []suite.Task) ([]suite.Task, error)) func(suite.Suite, func(string) ([]suite.Task, error), uint64) ([]suite.Task, error) {
	return func(of suite.Suite, usual func(string) ([]suite.Task, error), seed uint64) ([]suite.Task, error) {
		tasks, err := usual(Test)
		if err != nil {
			return nil, err
		}
		return offer(of.(*Suite), suite.Stratified(tasks, n, seed))
	}
}

// most is the largest number of tasks of a split.
const most = 20000

// Check names the settings whose values make no sense.
func (s *Settings) Check(seed uint64) (errs []error) {
	say := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	within := func(key string, v, lo, hi float64, what string) {
		if !(v >= lo && v <= hi) { // NaN too
			say("%s is %v: it is %s, %v to %v", key, v, what, lo, hi)
		}
	}
	between := func(key string, v, lo, hi int) {
		switch {
		case v < lo:
			say("%s is %d: it must be at least %d", key, v, lo)
		case v > hi:
			say("%s is %d: it must be at most %d", key, v, hi)
		}
	}
	within("random_offers", s.RandomOffers, 0, 1, "a share of tasks")
	within("mask_tools", s.MaskTools, 0, 1, "a share of tasks")
	within("wasteful_share", s.WastefulShare, 0, 1, "a share of demonstrations")
	if s.WastefulShare == 0 {
		say("wasteful_share is 0: without waste these demonstrations are the optimal ones (demos: optimal)")
	}
	within("budget_factor", s.BudgetFactor, 1, 1000, "times the optimal cost; below 1 no task can be solved in its budget")
	if s.BudgetStep < 0 {
		say("budget_step is %v: it must be 0 (budgets are not rounded) or more", s.BudgetStep)
	}
	between("passages", s.Passages, 0, 1000)
	between("passage_words", s.PassageWords, 1, 65536)
	for _, n := range []struct {
		key string
		v   int
	}{{"train_tasks", s.Train}, {"val_tasks", s.Val}, {"test_tasks", s.Test}, {"heldout_combo_tasks", s.HeldoutCombo}, {"heldout_template_tasks", s.HeldoutTemplate}} {
		if n.v < 0 {
			say("%s is %d: it must be 0 (the data set's own number) or more", n.key, n.v)
		} else if n.v > most {
			say("%s is %d: it must be at most %d", n.key, n.v, most)
		}
	}
	if s.MaskedTasks < 0 {
		say("masked_tasks is %d: it must be 0 (no such split) or more", s.MaskedTasks)
	}
	if s.ShiftedTasks < 0 {
		say("shifted_tasks is %d: it must be 0 (all of test) or more", s.ShiftedTasks)
	}
	if st := Style(s.Style); st != Compact && st != Full {
		say("style: %q is none of %s, %s", s.Style, Compact, Full)
	}
	if s.NewWorldSeed != 0 && s.NewWorldSeed == seed {
		say("new_world_seed is %d, the seed of the run's own world: take one that was never used", seed)
	}
	errs = append(errs, checkPrices("prices", s.Prices)...)
	return append(errs, s.checkShifted()...)
}

// checkPrices names a tool that the suite does not have, and a price that is not above 0.
func checkPrices(key string, prices map[string]price.Amount) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if !slices.Contains(Tools, name) {
			errs = append(errs, fmt.Errorf("%s: no tool is named %q; the tools are %s", key, name, strings.Join(Tools, ", ")))
		} else if prices[name] <= 0 {
			errs = append(errs, fmt.Errorf("%s.%s: a price must be above 0", key, name))
		}
	}
	return errs
}

func (s *Settings) checkShifted() []error {
	errs := checkPrices("shifted_prices", s.ShiftedPrices)
	if len(errs) > 0 || len(s.ShiftedPrices) == 0 {
		return errs
	}
	for name, p := range s.ShiftedPrices {
		if p != s.Prices[name] {
			return nil
		}
	}
	return []error{errors.New("shifted_prices are the prices that all tasks have: change one, or leave it empty")}
}
