package company

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Style is how prompts and observations are written.
type Style string

// The styles.
const (
	Compact Style = "compact" // for a tiny model: a price line a tool, the question, the budget; short observations
	Full    Style = "full"    // for an instruct model: instructions, descriptions, schema, grammar and an example
)

// Options says what world is made and how it is shown. Zero fields take the defaults named with them. Style, Thoughts, NoPlan,
// RandomOffers, MaskTools and the demonstration shares belong to the suite and may differ between Generate and Open. The other options
// belong to the data.
type Options struct {
	Seed         uint64
	Prices       map[string]price.Amount // default 1, 2, 5 and 0.5 in the order of Tools
	BudgetFactor float64                 // default 1.5 with a BudgetStep of 0.5
	BudgetStep   price.Amount            // beside a BudgetFactor, 0 does not round
	Counts       map[string]int          // tasks of each split; default DefaultCounts

	// RandomOffers is the share of train tasks (0..1) that offer a random set of tools (the gold ones among them) in random
	// order, at one of a few price lists. The optimal cost follows the offered prices. The data set does not hold them. Default 0.
	RandomOffers float64
	// MaskTools is the share of train tasks (0..1) whose tools have other names, drawn for each task, in random order; the prompt
	// says what each is. The data set does not hold them. Default 0, which is left out where options are hashed.
	MaskTools float64 `json:",omitempty"`
	// TwoSource adds the stratum two_source: facts that stand in both corpora, whose cheaper tool follows from the prices.
	TwoSource bool

	SQLRows      int // rows of a result, default 20
	SQLBytes     int // bytes of a result, default 1000
	Passages     int // passages of a search, default 2 (compact) or 4 (full)
	PassageWords int // words of a passage, default 40

	Style    Style // default Compact
	Thoughts bool  // demonstrations and gold paths carry the sub-question of each call
	NoPlan   bool  // thoughts name the sub-question alone, and not first what is to be done with its answer
	// WastefulShare is the share of "wasteful" demonstrations that hold needless calls, default 0.5; such a path has one to
	// WastefulCalls of them, default 2.
	WastefulShare float64
	WastefulCalls int

	// NewWorldSeed, when it is not 0, adds the split NewWorld: the test tasks of the world of that seed. It decides no file of the
	// data set.
	NewWorldSeed uint64 `json:",omitempty"`

	avoid map[string]bool // names not to use, see Suite.Extra
}

// DefaultPrices are the prices of the tools.
func DefaultPrices() map[string]price.Amount {
	return map[string]price.Amount{ToolSQL: price.Of(1), ToolDoc: price.Of(2), ToolWeb: price.Of(5), ToolCalc: price.Of(0.5)}
}

// DefaultCounts are the numbers of tasks of the splits.
func DefaultCounts() map[string]int {
	return map[string]int{Train: 3160, Val: 200, ValCombo: 60, Test: 520, HeldoutCombo: 200, HeldoutTemplate: 150, TwoSourceTest: 120}
}

// The splits. TwoSourceTest exists only when the stratum is on.
const (
	Train           = "train"
	Val             = "val"
	ValCombo        = "val_heldout_combo" // the held-out combinations, to watch in training: no test split is for that
	Test            = "test"
	HeldoutCombo    = "test_heldout_combo"
	HeldoutTemplate = "test_heldout_template"
	TwoSourceTest   = "test_two_source"
)

// The tags of strata.
const (
	TagUnseenPhrasing = "unseen_phrasing" // a wording that no train task has
	TagNewFilling     = "new_filling"     // a held-out combination in a structure trained with other tools
	TagNewStructure   = "new_structure"   // a held-out combination in a structure never trained
	TagTwoSource      = "two_source"      // the fact stands in both corpora
	TagLongNumber     = "long_number"     // a value of more than five digits
)

func (o Options) withDefaults() (Options, error) {
	if o.Prices == nil {
		o.Prices = DefaultPrices()
	}
	for _, t := range Tools {
		if p, ok := o.Prices[t]; !ok || p <= 0 {
			return o, fmt.Errorf("company: prices: %s must have a price above 0", t)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(o.Prices)) {
		if !slices.Contains(Tools, t) {
			return o, fmt.Errorf("company: prices: no tool is named %q; the tools are %v", t, Tools)
		}
	}
	def := DefaultCounts()
	for _, s := range slices.Sorted(maps.Keys(o.Counts)) {
		if _, ok := def[s]; !ok {
			return o, fmt.Errorf("company: counts: no split is named %q", s)
		}
		if o.Counts[s] < 0 {
			return o, fmt.Errorf("company: counts: %s is negative", s)
		}
		def[s] = o.Counts[s]
	}
	o.Counts = def
	if !o.TwoSource {
		delete(o.Counts, TwoSourceTest)
	}
	others := 0
	for s, n := range o.Counts {
		if s != Train {
			others += n
		}
	}
	if n := o.Counts[Train]; n > 0 && n < fewestTrain && others > 0 {
		return o, fmt.Errorf("company: train_tasks is %d: other splits use the words of train alone; %s", n, smallest)
	}
	if o.Style == "" {
		o.Style = Compact
	}
	if o.Style != Compact && o.Style != Full {
		return o, fmt.Errorf("company: style %q: must be %s or %s", o.Style, Compact, Full)
	}
	if o.BudgetFactor == 0 { // a factor that is given comes with its step, which may be 0
		o.BudgetFactor, o.BudgetStep = 1.5, price.Of(0.5)
	}
	setDefault(&o.SQLRows, 20)
	setDefault(&o.SQLBytes, 1000)
	setDefault(&o.PassageWords, 40)
	setDefault(&o.WastefulShare, 0.5)
	setDefault(&o.WastefulCalls, 2)
	if o.Passages == 0 {
		o.Passages = map[Style]int{Compact: 2, Full: 4}[o.Style]
	}
	switch {
	case !(o.BudgetFactor >= 1): // NaN too
		return o, fmt.Errorf("company: budget_factor %v: below 1 no task can be solved in its budget", o.BudgetFactor)
	case !(o.BudgetFactor <= maxBudgetFactor):
		return o, fmt.Errorf("company: budget_factor %v: it must be at most %d", o.BudgetFactor, maxBudgetFactor)
	case o.BudgetStep > price.Max:
		return o, fmt.Errorf("company: budget_step %v: it must be at most %v", o.BudgetStep, price.Max)
	case o.RandomOffers < 0 || o.RandomOffers > 1:
		return o, fmt.Errorf("company: random_offers %v: is a share, 0 to 1", o.RandomOffers)
	case !(o.MaskTools >= 0 && o.MaskTools <= 1): // NaN too
		return o, fmt.Errorf("company: mask_tools %v: is a share, 0 to 1", o.MaskTools)
	case o.WastefulShare < 0 || o.WastefulShare > 1:
		return o, fmt.Errorf("company: wasteful_share %v: is a share, 0 to 1", o.WastefulShare)
	case o.SQLRows < 0 || o.SQLBytes < 0 || o.Passages < 0 || o.PassageWords < 0 || o.WastefulCalls < 0 || o.BudgetStep < 0:
		return o, fmt.Errorf("company: caps, counts and steps must not be negative")
	}
	return o, o.budgets()
}

// maxBudgetFactor is far above any factor whose budget an episode could reach.
const maxBudgetFactor = 1000

// budgets reports prices whose budgets no amount can hold.
func (o Options) budgets() error {
	var all price.Amount // a gold path calls each tool once at most
	for _, t := range Tools {
		all += o.Prices[t]
	}
	if _, err := all.Scale(o.BudgetFactor); err != nil {
		return fmt.Errorf("company: prices and budget_factor: %w", err)
	}
	return nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// budget is BudgetFactor times the optimal cost, rounded up to BudgetStep, and at most the largest amount, see budgets.
func (o Options) budget(optimal price.Amount) price.Amount {
	b, err := optimal.Scale(o.BudgetFactor)
	if err != nil {
		return price.Max
	}
	return b.RoundUp(o.BudgetStep)
}

// offers is the default price list as a task would carry it.
func (o Options) offers() []suite.Offer {
	out := make([]suite.Offer, len(Tools))
	for i, t := range Tools {
		out[i].Tool = t
		out[i].Price.Base = o.Prices[t]
	}
	return out
}
