package company

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Name is the suite's name.
const Name = "company"

// Suite plays the tasks of a world. It is safe for concurrent use.
type Suite struct {
	opt    Options
	splits []string
	tasks  map[string][]suite.Task
	stores *stores
	owned  *World // closed with the suite, nil when the stores are the suite's own
	other  newWorld
}

var _ suite.Suite = (*Suite)(nil)

// Open opens a data set that Write made and checks every file against the manifest. Of the options it takes the style, thoughts,
// plan, caps of observations, random offers, masked tools and demonstration shares; prices and the budget rule are those of the
// data unless given here, and then the optimal costs and budgets are computed anew (the gold path is the cheapest at any prices,
// see CheckCheapest).
func Open(dir string, opt Options) (*Suite, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	if err := m.verify(dir); err != nil {
		return nil, err
	}
	reprice := opt.Prices != nil || opt.BudgetFactor != 0
	opt.Seed, opt.TwoSource = m.Seed, m.Options.TwoSource
	if opt.Prices == nil {
		opt.Prices = m.Options.Prices
	}
	if opt.BudgetFactor == 0 {
		opt.BudgetFactor, opt.BudgetStep = m.Options.BudgetFactor, m.Options.BudgetStep
	}
	setDefault(&opt.SQLRows, m.Options.SQLRows)
	setDefault(&opt.SQLBytes, m.Options.SQLBytes)
	setDefault(&opt.PassageWords, m.Options.PassageWords)
	if opt, err = opt.withDefaults(); err != nil {
		return nil, err
	}
	s := &Suite{opt: opt, splits: splitNames(opt.TwoSource), tasks: map[string][]suite.Task{}, stores: &stores{}}
	for _, split := range s.splits {
		if s.tasks[split], err = readLines[suite.Task](filepath.Join(dir, tasksFile(split))); err != nil {
			return nil, err
		}
	}
	docs, err := readLines[Document](filepath.Join(dir, docsFile))
	if err != nil {
		return nil, err
	}
	pages, err := readLines[Document](filepath.Join(dir, webFile))
	if err != nil {
		return nil, err
	}
	if s.stores.db, err = openDB(filepath.Join(dir, dbFile), opt); err != nil {
		return nil, fmt.Errorf("company data set: %w", err)
	}
	s.stores.docs, s.stores.web = index(Doc, docs), index(Web, pages)
	s.prepare(reprice)
	return s, nil
}

// Suite plays the world's tasks in memory, without a data set on disk. The style, thoughts, random offers, masked tools and
// demonstration shares are those of the options given to Generate. The world must stay open.
func (w *World) Suite() *Suite {
	s := &Suite{opt: w.opt, splits: w.Splits(), tasks: map[string][]suite.Task{}, stores: w.stores}
	for k, v := range w.tasks {
		s.tasks[k] = slices.Clone(v)
	}
	s.prepare(false)
	return s
}

// prepare adapts the tasks to the options of the suite.
func (s *Suite) prepare(reprice bool) {
	for _, tasks := range s.tasks {
		for i := range tasks {
			t := &tasks[i]
			if !s.opt.Thoughts || s.opt.NoPlan {
				t.GoldPath = slices.Clone(t.GoldPath)
				for k := range t.GoldPath {
					c := &t.GoldPath[k]
					if !s.opt.Thoughts {
						c.Thought = ""
					} else if _, sub, ok := strings.Cut(c.Thought, planMark); ok {
						c.Thought = sub
					}
				}
			}
			if reprice {
				s.reprice(t)
			}
		}
	}
	s.randomize()
	s.mask()
}

func (s *Suite) reprice(t *suite.Task) {
	t.OptimalCost = 0
	for _, o := range s.offers(*t) {
		for _, c := range t.GoldPath {
			if c.Tool == o.Tool {
				t.OptimalCost += o.Price.Base
			}
		}
	}
	t.Budget = s.opt.budget(t.OptimalCost)
}

func (s *Suite) offers(t suite.Task) []suite.Offer {
	if len(t.Offers) > 0 {
		return t.Offers
	}
	return s.opt.offers()
}

// Close closes the stores.
func (s *Suite) Close() error {
	if o := s.other.suite; o != nil {
		defer o.Close()
	}
	if s.owned != nil {
		return s.owned.Close()
	}
	return s.stores.Close()
}

// Name implements suite.Suite.
func (s *Suite) Name() string { return Name }

// Splits implements suite.Suite.
func (s *Suite) Splits() []string { return slices.Clone(s.splits) }

// Tasks implements suite.Suite.
func (s *Suite) Tasks(split string) ([]suite.Task, error) {
	if split == NewWorld && s.opt.NewWorldSeed != 0 {
		o, err := s.another()
		if err != nil {
			return nil, err
		}
		return o.tasks[NewWorld], nil
	}
	t, ok := s.tasks[split]
	if !ok {
		return nil, fmt.Errorf("company: no split is named %q; the splits are %v", split, s.splits)
	}
	return t, nil
}

// Box implements suite.Suite. The stores behind the tools are shared and read-only.
func (s *Suite) Box(t suite.Task) (*tool.Box, error) {
	h, err := s.home(t)
	if err != nil {
		return nil, err
	}
	return h.stores.newBox(s.opt, s.offers(t), maskOf(t))
}

// Verify implements suite.Suite: the answer against gold (see suite.Answer), every evidence value against what was read (see suite.Evidenced).
func (s *Suite) Verify(t suite.Task, answer string, seen []tool.Observation) suite.Verdict {
	return suite.Verdict{Correct: t.Answer.Matches(answer), Evidenced: suite.Evidenced(t.Question, t.Evidence, seen)}
}

// Describe counts the suite's tasks, for people.
func (s *Suite) Describe() string {
	out := ""
	for _, split := range s.splits {
		c := Count(s.tasks[split])
		out += fmt.Sprintf("%s: %d tasks, %d templates\n", split, c.Tasks, len(c.Template))
		for _, k := range slices.Sorted(maps.Keys(c.Pairs)) {
			out += fmt.Sprintf("  %5d  %s\n", c.Pairs[k], k)
		}
	}
	return out
}

// ExtraWorldSeed is the seed of a suite's further training world i.
func ExtraWorldSeed(seed uint64, i int) uint64 { return rng.Seed64(seed, "company extra world", i) }

// ExtraWorlds makes the further training worlds from, ..., from+n-1, counted from 0. Their seeds are derived from that of the suite, their other
// options are the suite's. They hold train tasks alone: train of them each, 0 for the default number. No name that a task of another split of this
// suite rests on occurs in them. A world lives in memory, its database in a temporary file, until it is closed.
func (s *Suite) ExtraWorlds(from, n, train int) ([]*Suite, error) {
	opt := s.opt
	opt.NewWorldSeed = 0
	opt.Counts = map[string]int{Val: 0, ValCombo: 0, Test: 0, HeldoutCombo: 0, HeldoutTemplate: 0, TwoSourceTest: 0}
	if train > 0 {
		opt.Counts[Train] = train
	}
	opt.avoid = map[string]bool{}
	for _, split := range s.splits {
		if split == Train {
			continue
		}
		for _, t := range s.tasks[split] {
			for _, name := range subjectsOf(t) {
				opt.avoid[name] = true
			}
		}
	}
	var out []*Suite
	for i := from; i < from+n; i++ {
		opt.Seed = ExtraWorldSeed(s.opt.Seed, i)
		w, err := Generate(opt)
		if err != nil {
			for _, o := range out {
				o.Close()
			}
			return nil, fmt.Errorf("extra world %d: %w", i, err)
		}
		e := w.Suite()
		e.owned = w
		for k := range e.tasks[Train] {
			e.tasks[Train][k].ID = fmt.Sprintf("extra%d-%s", i+1, e.tasks[Train][k].ID)
		}
		out = append(out, e)
	}
	return out, nil
}
