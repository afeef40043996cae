// Package chain is the suite that asks whether reinforcement learning removes a bad habit that imitation taught: calc tasks need one
// calculator call, lookup tasks one value of a table, and compose tasks the whole chain lookup, lookup, calculator. Some demonstrations of
// compose tasks are bad on purpose: they skip the tools and state a plausible guess (see Demonstrations). Everything is generated from one
// seed; names are two words from two lists, so that the names of a test are new combinations of known words, and values are short, so that
// a tiny model can copy them.
//
// The three task kinds are the tasks' Template. Splits share no fact and no entity (CheckSplits). Tasks have no budget, and success is the
// right answer. RanChain says how a trajectory shows that the policy ran the whole chain. The package knows no model, no reward and no
// table of results.
package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Name is the suite's name in tables, runs and data folders.
const Name = "chain"

// MaxTurns is the turn limit of an episode; the longest gold path has four.
const MaxTurns = 6

// The task kinds, which are the values of Task.Template.
const (
	Calc    = "calc"
	Lookup  = "lookup"
	Compose = "compose"
)

// Kinds returns the task kinds in the order of the tables.
func Kinds() []string { return []string{Calc, Lookup, Compose} }

// The splits.
const (
	Train = "train"
	Val   = "val"
	Test  = "test"
)

var splits = []string{Train, Val, Test}

// Counts is a number of tasks of each kind.
type Counts struct {
	Calc    int `yaml:"calc" json:"calc"`
	Lookup  int `yaml:"lookup" json:"lookup"`
	Compose int `yaml:"compose" json:"compose"`
}

// Config decides the data set, and is written into its manifest. Start from DefaultConfig: the zero value is refused.
type Config struct {
	Seed  uint64 `yaml:"-" json:"seed"`
	Train Counts `yaml:"train" json:"train"`
	Val   Counts `yaml:"val" json:"val"`
	Test  Counts `yaml:"test" json:"test"`
	// ValEntities and TestEntities are set apart for these splits; train gets the other names.
	ValEntities  int `yaml:"val_entities" json:"val_entities"`
	TestEntities int `yaml:"test_entities" json:"test_entities"`
	// A value and an operand has MinDigits to MaxDigits digits, each length equally often; no gold answer is longer than
	// MaxAnswerDigits.
	MinDigits       int `yaml:"min_digits" json:"min_digits"`
	MaxDigits       int `yaml:"max_digits" json:"max_digits"`
	MaxAnswerDigits int `yaml:"max_answer_digits" json:"max_answer_digits"`
	// Ops are the operations of calc and compose tasks, equally often: difference, sum, product.
	Ops []string `yaml:"ops" json:"ops"`
	// Prices of a call of each tool; finish is free.
	LookupPrice     price.Amount `yaml:"lookup_price" json:"lookup_price"`
	CalculatorPrice price.Amount `yaml:"calculator_price" json:"calculator_price"`
}

// DefaultConfig is the data set of the committed results.
func DefaultConfig() Config {
	return Config{
		Seed:        1,
		Train:       Counts{Calc: 2000, Lookup: 2000, Compose: 4000},
		Val:         Counts{Calc: 100, Lookup: 100, Compose: 100},
		Test:        Counts{Calc: 520, Lookup: 520, Compose: 520},
		ValEntities: 150, TestEntities: 540,
		MinDigits: 2, MaxDigits: 3, MaxAnswerDigits: 4,
		Ops:         []string{Difference, Sum, Product},
		LookupPrice: price.Unit, CalculatorPrice: price.Unit,
	}
}

func (c Config) counts(split string) Counts {
	return map[string]Counts{Train: c.Train, Val: c.Val, Test: c.Test}[split]
}

// Validate says which field is wrong and what to write instead.
func (c Config) Validate() error {
	for _, split := range splits {
		n := c.counts(split)
		for i, v := range []int{n.Calc, n.Lookup, n.Compose} {
			if v < 1 {
				return fmt.Errorf("world.%s.%s is %d: every split needs at least one task of each kind", split, Kinds()[i], v)
			}
		}
	}
	switch {
	case c.ValEntities < 4 || c.TestEntities < 4:
		return fmt.Errorf("world.val_entities is %d and world.test_entities is %d: each needs at least 4", c.ValEntities, c.TestEntities)
	case c.ValEntities+c.TestEntities > allEntities/2:
		return fmt.Errorf("world.val_entities + world.test_entities is %d: at most half of the %d names, %d",
			c.ValEntities+c.TestEntities, allEntities, allEntities/2)
	case c.MinDigits < 1 || c.MaxDigits < c.MinDigits || c.MaxDigits > 9:
		return fmt.Errorf("world.min_digits is %d and world.max_digits is %d: want 1 <= min_digits <= max_digits <= 9", c.MinDigits, c.MaxDigits)
	case c.MaxAnswerDigits < c.MaxDigits || c.MaxAnswerDigits > 18:
		return fmt.Errorf("world.max_answer_digits is %d: want max_digits (%d) to 18, a lookup's answer is a value", c.MaxAnswerDigits, c.MaxDigits)
	case len(c.Ops) == 0:
		return fmt.Errorf("world.ops is empty: want some of %s", strings.Join(allOps, ", "))
	case c.LookupPrice < 0 || c.CalculatorPrice < 0:
		return errors.New("world.lookup_price and world.calculator_price must not be negative")
	}
	for i, op := range c.Ops {
		if !slices.Contains(allOps, op) {
			return fmt.Errorf("world.ops: unknown operation %q: want some of %s", op, strings.Join(allOps, ", "))
		}
		if slices.Contains(c.Ops[:i], op) {
			return fmt.Errorf("world.ops: %q stands twice", op)
		}
	}
	return nil
}

// Suite is a generated or opened data set. It is safe for concurrent use.
type Suite struct {
	cfg   Config
	habit Habit
	style Style
	names []string         // the table's entities in order
	table map[string]int64 // entity to value
	tasks map[string][]suite.Task
}

var _ suite.Suite = (*Suite)(nil)

// Config returns what the data set was generated with.
func (s *Suite) Config() Config { return s.cfg }

// Name implements suite.Suite.
func (s *Suite) Name() string { return Name }

// Splits implements suite.Suite.
func (s *Suite) Splits() []string { return slices.Clone(splits) }

// Tasks implements suite.Suite.
func (s *Suite) Tasks(split string) ([]suite.Task, error) {
	t, ok := s.tasks[split]
	if !ok {
		return nil, fmt.Errorf("suite %s has no split %q: want one of %s", Name, split, strings.Join(splits, ", "))
	}
	return t, nil
}

// Box implements suite.Suite. Every task of the suite has the same tools, unless it names its own offers.
func (s *Suite) Box(t suite.Task) (*tool.Box, error) {
	offers := make([]tool.Offer, len(t.Offers))
	for i, o := range t.Offers {
		offers[i] = tool.Offer(o)
	}
	b, err := tool.NewBox(s.tools(), tool.WithOffers(offers...))
	if err != nil {
		return nil, fmt.Errorf("tools of task %s: %w", t.ID, err)
	}
	return b, nil
}

// Verify implements suite.Suite. A right answer that rests on unseen values is correct and not evidenced. Success in this suite does not
// require evidence, so the flag only serves to count lucky guesses.
func (s *Suite) Verify(t suite.Task, answer string, seen []tool.Observation) suite.Verdict {
	return suite.Verdict{Correct: t.Answer.Matches(answer), Evidenced: suite.Evidenced(t.Question, t.Evidence, seen)}
}

// CheckGold executes the gold path of a task and reports the first thing that does not hold: a call that fails, an answer
// that does not verify on the observations, a cost other than the optimal one, more calls than turns.
func (s *Suite) CheckGold(t suite.Task) error {
	box, err := s.Box(t)
	if err != nil {
		return err
	}
	defer box.Close()
	return s.checkGold(box, t)
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return b
}
