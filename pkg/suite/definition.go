package suite

import (
	"context"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Definition is what settings, stages and reports know of a suite beside its data set. Each suite's package makes one, and pkg/suites lists
// them. The zero value of a field that is no name means that the suite has none of it.
type Definition struct {
	Name string
	// Version is raised when the same data set and settings show policies something else: prompts, tools' observations, verdicts, demonstrations or
	// preferences. It is in the key of every stage that depends on them. A test compares it with [Fingerprint].
	Version int
	// Settings returns a pointer to a new value of the suite's own settings: a struct with yaml and json tags. The section suite of the files
	// in configs/ fills it.
	Settings func() Settings

	// Policies are trained on the tasks of the split Train, and the split Val chooses between checkpoints.
	Train, Val string
	// Splits are the evaluated splits that every data set holds, in the order of the tables.
	Splits []string

	Demos  []string // the kinds of demonstrations
	Corpus []string // the kinds that the tiny preset's tokenizer is trained on; its copy rows are made of the first one
	Dates  bool     // texts hold dates, so that copy rows need them too
	Pairs  []string // the kinds of preferences, of a suite that is a Preferrer

	Rules     Rules                     // of the scripted baselines; nil leaves the oracle alone
	Threshold Threshold                 // of static_threshold
	Parser    func(train []Task) Parser // makes the parser of rule_parser from the train tasks

	// Families are pairs of tools that do the same at different prices. Routing is then shown by family, otherwise by combination of tools.
	Families []ToolFamily

	Columns    []Column       // of its own, in the results table
	Summary    []TitledColumn // what the README shows beside success; nil shows cost and calls
	Dimensions []Dimension    // of its own, beside those of every suite (difficulty, hops, combination, template, tags)
	Behaviours []Behaviour    // that a gate asks for
	// HistoryColumn is the column, a share, that histories of reinforcement are drawn by.
	HistoryColumn TitledColumn
	Regimes       []Regime // starts that reinforcement is compared on
	// Reference holds figures that an earlier system of this kind is reported to have reached. Nothing here reproduced them.
	Reference Reference

	// ExtraWorlds makes the further training worlds from, from+1, ..., from+n-1, counted from 0. The caller closes them.
	ExtraWorlds func(s Suite, from, n int) ([]Suite, error)
	// ExtraWorldSeed is the seed of extra world i of a run whose own world has this seed.
	ExtraWorldSeed func(seed uint64, i int) uint64
	// Stores reads a piece of each store from the data set's folder, for people to look at.
	Stores func(ctx context.Context, dir string) (Stores, error)
}

// Settings are a suite's own settings. seed is that of the run's world. The methods that end in Key return a value whose JSON is hashed: what
// was made with one key is made again under another.
type Settings interface {
	// Check names the settings that make no sense. Each text begins with a key of the settings.
	Check(seed uint64) []error
	Generate(dir string, seed uint64) error
	Open(dir string, seed uint64) (Suite, error)
	// DataKey is what decides the files of the data set.
	DataKey(seed uint64) any
	// OpenKey is what Open depends on. Settings with the same key share one opened suite.
	OpenKey(seed uint64) any
	// ShownKey is what decides prompts and demonstrations, beside the data set.
	ShownKey() any
	// RecipeKeys are the settings that a recipe can change for itself. Neither the data set nor evaluation may depend on them.
	RecipeKeys() []string
	// DerivedSplits are the evaluated splits that these settings add to Definition.Splits, in the order of the tables.
	DerivedSplits() []DerivedSplit
}

// DerivedSplit is an evaluated split that settings add.
type DerivedSplit struct {
	Name string
	// Tasks makes its tasks; nil where the opened suite holds them. evaluated returns the evaluated tasks of another split.
	Tasks func(s Suite, evaluated func(split string) ([]Task, error), seed uint64) ([]Task, error)
	// Key is what decides the tasks, beside the data set and their number; nil for nothing else.
	Key any
	// ToolNames are the names that tasks give to tools, where these are not the suite's own. A scripted method plays the split if its rules
	// know all of them.
	ToolNames []string
	Shifted   *Shifted // of a split at other prices; else nil
	Sources   *Sources // of a split whose facts stand in two stores; else nil
}

// Shifted connects a split at other prices with the split whose tasks it offers.
type Shifted struct {
	Usual  string                                  // the split at the usual prices
	Origin func(id string) (usual string, ok bool) // the id that a task has there
	Prices []PriceChange                           // of all tools, in the suite's order
}

// PriceChange is a tool's price in a shifted split, and its usual one.
type PriceChange struct {
	Tool       string
	Now, Usual price.Amount
}

// Sources are two tools that find the same facts. The gold path of a task calls the cheaper one.
type Sources struct {
	Tools  [2]string
	Prices func(t Task) string // the name of the task's price list
}

// Threshold configures static_threshold.
type Threshold struct {
	First    string  // the search that is always called
	Second   string  // the search that is called next if the first one found too little
	MinScore float64 // too little: the best score is lower than this or absent, or the call failed
}

// Column is a column that a suite adds to the results table.
type Column struct {
	Name, Title string
	Doc         string // the definition, below the table; may be empty
	// Ratio returns what an episode adds to the column's numerator and denominator.
	Ratio func(t *trajectory.Trajectory) (num, den float64)
	// Share says that the ratio lies between 0 and 1. Where resampling gives no width, its interval is then exact.
	Share bool
	// Total makes the column a count: the sum of num over all episodes of the row. den is not used.
	Total bool
	// MinBy, when set, names the group of an episode ("": none). The column is then the smallest of the groups' ratios.
	MinBy func(t *trajectory.Trajectory) string
	// MostBy, when set, names the group of an episode ("": none). Only the group with the largest sum of num counts in the numerator, all
	// episodes count in the denominator: what the best of some constant choices would have earned, chosen in hindsight. Resamples keep the
	// choice.
	MostBy func(t *trajectory.Trajectory) string
	// Decoding, when set, takes the value from the row of the same policy with this decoding: a greedy row can show a share of sampled
	// episodes.
	Decoding string
}

// ToolFamily is two tools for one purpose. Which of them a task's cheapest path calls depends on the task.
type ToolFamily struct {
	Name             string
	Cheaper, Pricier string // at the usual prices of a single call
}

// TitledColumn is a column of a file of results, shown under another title.
type TitledColumn struct{ Column, Title string }

// Behaviour is something that a policy must sample at least sometimes before it is reinforced: reinforcement learning amplifies what is
// sampled, and cannot find what never is.
type Behaviour struct {
	Name   string
	Among  func(trajectory.Trajectory) bool // the episodes that are looked at; nil is all
	Shown  func(trajectory.Trajectory) bool // an episode shows the behaviour
	Min    float64                          // share of these episodes that must show it; 0 asks for a single one
	Advice string                           // what to do when too few show it; empty gives a general one
}

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

// Stores are samples of what the tools read.
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
	Documents, Total int    // how many documents and passages the whole corpus has
	ID, Genre, Date  string
	Title            string
	Passages         []string
	Fact, Duplicate  string // two of the passages
}
