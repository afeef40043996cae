package suite

import (
	"context"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Definition is what settings, stages and reports know of a suite beside its data set. Its package makes one; pkg/suites lists them.
type Definition struct {
	Name string
	// Version is raised when the same data set and settings show policies something else: prompts, tools' observations, verdicts, demonstrations or
	// preferences. It is in the key of every stage that depends on them. A test compares it with [Fingerprint].
	Version int
	// Settings returns a pointer to the suite's own settings, without values: a struct with yaml and json tags, which the section suite of
	// the files in configs/ fills.
	Settings func() Settings
	// Train and Val are the splits that policies are trained on and checkpoints chosen by.
	Train, Val string
	// Splits are the evaluated splits that every data set holds, in the order of the tables.
	Splits []string
	// Demos are the kinds of demonstrations. Those of Corpus are what the tiny preset's tokenizer is trained on, the first also what its
	// copy rows are made of. Dates says that texts hold dates, which copy rows then hold too.
	Demos, Corpus []string
	Dates         bool
	// Pairs are the kinds of preferences; nil for a suite that is no Preferrer.
	Pairs []string

	// Rules are what the scripted baselines go by, Threshold those of static_threshold; nil for a suite with the oracle alone.
	Rules     Rules
	Threshold Threshold
	// Parser makes the hand-written parser of rule_parser from the train tasks; nil where there is none.
	Parser func(train []Task) Parser

	Columns []Column // of its own, in the results table
	// Summary are the columns of the results table that the README shows beside success; nil are cost and calls.
	Summary    []SummaryColumn
	Dimensions []Dimension // of its own, beside those of every suite (difficulty, hops, combination, template, tags)
	Behaviours []Behaviour // that a gate asks for
	Rate       Rate        // that histories of reinforcement are drawn by
	Regimes    []Regime    // starts that reinforcement is compared on; may be nil
	// Reference is a table of figures that an earlier system of this kind is reported to have reached; nothing here reproduced them.
	Reference Reference

	// Extra makes n further training worlds, those after the first from ones, and ExtraSeed says the seed of the i-th by that of the run's
	// own world. nil where there are none. The caller closes them.
	Extra     func(s Suite, from, n int) ([]Suite, error)
	ExtraSeed func(seed uint64, i int) uint64
	// Stores reads a piece of each store from the data set's folder; nil for a suite without stores to show.
	Stores func(ctx context.Context, dir string) (Stores, error)
}

// Settings are a suite's own settings. seed is that of the run's world.
type Settings interface {
	// Check names what makes no sense. Each text begins with a key of the settings.
	Check(seed uint64) []error
	// Data is what decides the files of the data set; its JSON is hashed.
	Data(seed uint64) any
	Generate(dir string, seed uint64) error
	Open(dir string, seed uint64) (Suite, error)
	// Opened is what Open depends on: the same suite serves settings that agree in it.
	Opened(seed uint64) any
	// Shown is what decides, beside the data set, what policies see and demonstrations hold; its JSON is hashed.
	Shown() any
	// Free are the keys that a recipe can change for itself: those that neither the data set nor what evaluation shows depends on.
	Free() []string
	// Further are the evaluated splits that these settings add, in the order of the tables.
	Further() []FurtherSplit
}

// FurtherSplit is an evaluated split that settings add.
type FurtherSplit struct {
	Name string
	// Tasks makes its tasks; nil where the opened suite holds them. usual are the tasks of a split as they are evaluated.
	Tasks func(s Suite, usual func(split string) ([]Task, error), seed uint64) ([]Task, error)
	// ToolNames are the names that its tasks may give to tools, where these are not the suite's own. A scripted method plays the split if its
	// rules know all of them.
	ToolNames []string
	// Decided is what decides the tasks beside their number; nil where the data set does.
	Decided any
	// Shifted says that the tasks are those of another split at other prices, Sources that their facts stand in two stores; may be nil.
	Shifted *Shifted
	Sources *Sources
}

// Shifted is how the tasks of a split at other prices belong to those of the usual one.
type Shifted struct {
	Usual  string                                  // the split that the tasks are of
	Origin func(id string) (usual string, ok bool) // the id of the usual task
	Prices []PriceChange                           // of all tools, in the suite's order
}

// PriceChange is a tool's price in a shifted split, and its usual one.
type PriceChange struct {
	Tool       string
	Now, Usual price.Amount
}

// Sources are two tools that hold the same facts; a task's gold combination is the cheaper one at its prices.
type Sources struct {
	Tools  [2]string
	Prices func(t Task) string // names the task's price list
}

// Threshold configures static_threshold.
type Threshold struct {
	First    string  // the search that is always tried
	Second   string  // the search to escalate to
	MinScore float64 // escalate when the first one's best score is lower, absent or the call failed
}

// Column is a column that a suite adds to the results table.
type Column struct {
	Name, Title string
	Doc         string // the definition, below the table; may be empty
	// Ratio returns what an episode adds to the column's numerator and denominator.
	Ratio func(t *trajectory.Trajectory) (num, den float64)
	// Share says that the ratio lies between 0 and 1, so that it has an exact interval where resampling gives none.
	Share bool
	// Total makes the column the sum of num over all episodes of the row, a count, instead of a ratio; den is not used.
	Total bool
	// MinBy, when set, makes the column the smallest of the ratios of each group ("" belongs to none).
	MinBy func(t *trajectory.Trajectory) string
	// MostBy, when set, lets the numerators of one group count alone, that with the greatest sum in the row ("" belongs to none); all
	// denominators count. It is what the best of some constant choices would have earned, chosen in hindsight; resamples keep the choice.
	MostBy func(t *trajectory.Trajectory) string
	// Decoding, when set, takes the value from the row that differs in decoding and temperature alone: a greedy row can
	// show a share among sampled episodes.
	Decoding string
}

// SummaryColumn is a column of results_table.csv under a title of its own.
type SummaryColumn struct{ Column, Title string }

// Behaviour is something a policy must do at least sometimes, because reinforcement learning amplifies what is sampled
// and cannot find what never is.
type Behaviour struct {
	Name string
	// Among restricts the episodes that are looked at; nil is all.
	Among func(trajectory.Trajectory) bool
	Shown func(trajectory.Trajectory) bool
	Min   float64 // share of the looked-at episodes that must show it; 0 asks for one at least
	// Advice says what to do when it is not sampled; empty gives a general one.
	Advice string
}

// Rate is a column that is a share, and what it is called.
type Rate struct{ Column, Title string }

// Regime is a start of reinforcement and what is made of it.
type Regime struct {
	Name         string
	Start, After string // methods
	Reference    string // what an earlier system of this kind is reported to have done there
}

// Reference is a table of reported figures.
type Reference struct {
	Header []string
	Lines  [][]string
	Note   string
}

// Stores are a piece of each store of a data set, for people who want to see what the tools read.
type Stores struct {
	Tables  []TableSample
	Corpora []CorpusSample
}

// TableSample is a table of a database: its columns, how many rows it has, and the first of them where they are shown.
type TableSample struct {
	Name    string
	Columns []string
	Rows    int
	First   [][]string
}

// CorpusSample is a document of a corpus in which a fact stands beside its near-duplicate.
type CorpusSample struct {
	Heading, Noun    string // "The documents", "document"
	Documents, Total int    // documents and passages of the whole corpus
	ID, Genre, Date  string
	Title            string
	Passages         []string
	Fact, Duplicate  string // two of the passages
}
