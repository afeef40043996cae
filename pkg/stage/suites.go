package stage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/study"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/suite/company"
)

// kind is what the stages need to know of a suite beyond its interface. A new suite is one more entry of kinds.
type kind struct {
	data     func(config.Config) any // the settings that decide the data set
	generate func(dir string, c config.Config) error
	open     func(dir string, c config.Config) (suite.Suite, error)
	// opened is the settings that open depends on; nil where a recipe's own are applied elsewhere.
	opened func(config.Config) any
	// check reports settings that the suite cannot take; may be nil.
	check func(config.Config) error
	// rules are nil for a suite without scripted baselines beside the oracle.
	rules     scripted.Rules
	threshold scripted.Threshold // of static_threshold
	// parser makes the hand-written parser of rule_parser; nil where there is none.
	parser     func(suite.Suite) (scripted.Parser, error)
	columns    []eval.Column
	behaviours []reward.Behaviour
	rate       study.Rate // that histories of reinforcement are drawn by
	val        string     // the split that chooses checkpoints
	splits     []string   // evaluated splits, in the order of the tables
	// further are the evaluated splits that settings add. Of these, derived makes the tasks of those that the data set does not hold; ok is
	// false for another split. May be nil.
	further func(config.Config) []string
	derived func(s suite.Suite, c config.Config, split string) (tasks []suite.Task, ok bool, err error)
	// shown is the settings beyond the data set that decide what policies see and demonstrations hold.
	shown func(config.Config) any
	// demos is the kinds of demonstrations.
	demos []string
	// corpus is the kinds of demonstrations whose texts train the tiny preset's tokenizer.
	corpus []string
	// dates says that texts hold dates, which the copy warm-up then has rows of.
	dates bool
	// withHabit returns the suite with other demonstrations; nil where recipes cannot change them.
	withHabit func(s suite.Suite, h chain.Habit) (suite.Suite, error)
	// extra makes n further training worlds, those after the first from ones; nil where there are none: Open refuses
	// recipes that ask for some. The caller closes them.
	extra func(s suite.Suite, from, n int) ([]suite.Suite, error)
	// extraSeed is the seed of one of them, by the seed of the run's own world.
	extraSeed func(seed uint64, i int) uint64
	// regimes are starts that reinforcement is compared on; may be nil.
	regimes []Regime
	// look reads a piece of each store from the data set's folder; nil for a suite without stores to show.
	look func(ctx context.Context, dir string) (company.Look, error)
}

var kinds = map[string]kind{
	"company": {
		data: func(c config.Config) any {
			o := companyOptions(c)
			// What a suite is opened with decides nothing of the data set. The values are the defaults, so that their key stays.
			o.Style, o.Thoughts, o.NoPlan, o.RandomOffers, o.MaskTools, o.WastefulShare, o.NewWorldSeed = company.Compact, true, false, 0, 0, 0.5, 0
			return []any{o, company.Format}
		},
		generate: func(dir string, c config.Config) error {
			w, err := company.Generate(companyOptions(c))
			if err != nil {
				return err
			}
			defer w.Close()
			return w.Write(dir)
		},
		open: func(dir string, c config.Config) (suite.Suite, error) {
			return company.Open(dir, companyOptions(c))
		},
		opened:    func(c config.Config) any { return companyOptions(c) },
		check:     checkCompany,
		further:   furtherCompany,
		derived:   derivedCompany,
		columns:   verdictColumns(),
		rules:     company.Rules{},
		threshold: scripted.Threshold{First: company.ToolDoc, Second: company.ToolWeb, MinScore: company.MinScore},
		parser: func(s suite.Suite) (scripted.Parser, error) {
			tasks, err := s.Tasks(company.Train)
			return company.NewParser(tasks), err
		},
		rate:   study.Rate{Column: "success", Title: "success rate"},
		val:    company.Val,
		splits: []string{company.Test, company.HeldoutCombo, company.HeldoutTemplate},
		shown:  func(c config.Config) any { return c.Company },
		demos:  company.DemoKinds,
		corpus: []string{company.DemoOptimal, company.DemoBase},
		dates:  true,
		extra: func(s suite.Suite, from, n int) ([]suite.Suite, error) {
			worlds, err := s.(*company.Suite).Extra(from, n, 0)
			var out []suite.Suite
			for _, w := range worlds {
				out = append(out, w)
			}
			return out, err
		},
		extraSeed: company.ExtraSeed,
		look: func(ctx context.Context, dir string) (company.Look, error) {
			return company.LookAt(ctx, dir, "products", 5)
		},
	},
	"chain": {
		data: func(c config.Config) any { return chainConfig(c) },
		generate: func(dir string, c config.Config) error {
			s, err := chain.Generate(chainConfig(c))
			if err != nil {
				return err
			}
			return s.Write(dir)
		},
		open: func(dir string, c config.Config) (suite.Suite, error) {
			s, err := chain.Open(dir)
			if err != nil {
				return nil, err
			}
			return s.With(c.Habit, chain.Compact)
		},
		check:      checkChain,
		columns:    chainColumns(),
		behaviours: chainBehaviours(),
		rate:       study.Rate{Column: "chain_rate", Title: "chain rate"},
		regimes:    chainRegimes,
		val:        chain.Val,
		splits:     []string{chain.Test},
		shown:      func(c config.Config) any { return c.Habit },
		demos:      chain.DemonstrationKinds(),
		corpus:     []string{chain.Clean},
		withHabit: func(s suite.Suite, h chain.Habit) (suite.Suite, error) {
			return s.(*chain.Suite).With(h, chain.Compact)
		},
	},
}

// The splits of test tasks that are offered otherwise: at other prices (eval.shifted_prices), and with tools under other names
// (eval.masked_tasks).
const (
	TestPrices = "test_prices"
	TestMasked = "test_masked"
)

func furtherCompany(c config.Config) []string {
	var out []string
	if len(c.Eval.ShiftedPrices) > 0 {
		out = append(out, TestPrices)
	}
	if c.Eval.MaskedTasks > 0 {
		out = append(out, TestMasked)
	}
	if c.Company.TwoSource {
		out = append(out, company.TwoSourceTest)
	}
	if c.Eval.NewWorldSeed != 0 {
		out = append(out, company.NewWorld)
	}
	return out
}

func derivedCompany(s suite.Suite, c config.Config, split string) ([]suite.Task, bool, error) {
	n := 0
	switch split {
	case TestPrices:
		n = c.Eval.ShiftedTasks
	case TestMasked:
		n = c.Eval.MaskedTasks
	default:
		return nil, false, nil
	}
	tasks, err := s.Tasks(company.Test)
	if err != nil {
		return nil, true, err
	}
	// Of the tasks that are evaluated as usual too, or there would be nothing to compare with.
	tasks = suite.Stratified(suite.Stratified(tasks, c.Eval.NTasks, c.Seed), n, c.Seed)
	if split == TestMasked {
		return s.(*company.Suite).Masked(split, tasks), true, nil
	}
	tasks, err = s.(*company.Suite).At(c.Eval.ShiftedPrices, split, tasks)
	return tasks, true, err
}

func checkCompany(c config.Config) error {
	if c.Eval.NewWorldSeed != 0 && c.Eval.NewWorldSeed == c.Seed {
		return fmt.Errorf("eval.new_world_seed is %d, the seed of the run's own world: take one that was never used", c.Seed)
	}
	same := len(c.Eval.ShiftedPrices) > 0
	for _, name := range slices.Sorted(maps.Keys(c.Eval.ShiftedPrices)) {
		if !slices.Contains(company.Tools, name) {
			return fmt.Errorf("eval.shifted_prices: no tool is named %q; the tools are %s", name, strings.Join(company.Tools, ", "))
		}
		if c.Eval.ShiftedPrices[name] <= 0 {
			return fmt.Errorf("eval.shifted_prices.%s: a price must be above 0", name)
		}
		same = same && c.Eval.ShiftedPrices[name] == c.Company.Prices[name]
	}
	if same {
		return errors.New("eval.shifted_prices are the prices that all tasks have: change one, or leave it empty")
	}
	return nil
}

func checkChain(c config.Config) error {
	if len(c.Eval.ShiftedPrices) > 0 {
		return errors.New("eval.shifted_prices: the tools of suite chain have no prices; leave it empty")
	}
	if c.Eval.MaskedTasks > 0 {
		return errors.New("eval.masked_tasks: the tools of suite chain have no other names; leave it 0")
	}
	if c.Eval.NewWorldSeed != 0 {
		return errors.New("eval.new_world_seed: suite chain has no further worlds; leave it 0")
	}
	return nil
}

// chainConfig is the data set of the chain suite; its seed is the run's.
func chainConfig(c config.Config) chain.Config {
	cfg := c.Chain
	cfg.Seed = c.Seed
	return cfg
}

func companyOptions(c config.Config) company.Options {
	o := c.Company
	counts := map[string]int{}
	for split, n := range map[string]int{company.Train: o.Train, company.Val: o.Val, company.Test: o.Test,
		company.HeldoutCombo: o.HeldoutCombo, company.HeldoutTemplate: o.HeldoutTemplate} {
		if n > 0 {
			counts[split] = n
		}
	}
	return company.Options{Seed: c.Seed, Prices: o.Prices, BudgetFactor: o.BudgetFactor, BudgetStep: o.BudgetStep, Counts: counts,
		RandomOffers: o.RandomOffers, MaskTools: o.MaskTools, TwoSource: o.TwoSource, Passages: o.Passages, PassageWords: o.PassageWords,
		Style: company.Style(o.Style), Thoughts: o.Thoughts, NoPlan: !o.Plan, WastefulShare: o.WastefulShare, NewWorldSeed: c.Eval.NewWorldSeed}
}

func chainColumns() []eval.Column {
	var out []eval.Column
	for _, c := range chain.Columns() {
		out = append(out, eval.Column(c))
	}
	return out
}

func chainBehaviours() []reward.Behaviour {
	var out []reward.Behaviour
	for _, b := range chain.RequiredBehaviours() {
		out = append(out, reward.Behaviour(b))
	}
	return out
}
