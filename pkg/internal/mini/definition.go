package mini

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Definition is the mini suite as stages and reports know it: with columns, strata and an evaluated split of its own.
func Definition() suite.Definition {
	return suite.Definition{
		Name: "mini", Version: 1, Settings: func() suite.Settings { return &Settings{Count: 30} },
		Train: "train", Val: "train", Splits: []string{"train"},
		Demos: []string{"optimal"}, Corpus: []string{"optimal"},
		Rules: Rules{},
		Columns: []suite.Column{
			{Name: "shelf_rate", Title: "looked at the shelf", Share: true, Ratio: shelf},
			{Name: "argument_accuracy", Title: "right arguments", Share: true, Doc: "calls that are calls of the cheapest path, of all calls", Ratio: rightArguments},
		},
		Dimensions: []suite.Dimension{{Name: "asked", Title: "what is asked", Of: func(split string, t *trajectory.Task) []string {
			return []string{t.Template + " in " + split}
		}}},
		HistoryColumn: suite.TitledColumn{Column: "success", Title: "success rate"},
	}
}

// shelf reports an episode that called stock.
func shelf(t *trajectory.Trajectory) (num, den float64) {
	for _, turn := range t.Turns {
		if turn.Executed() && turn.Action.Tool == "stock" {
			return 1, 1
		}
	}
	return 0, 1
}

// rightArguments counts the calls, and those of them that the cheapest path has too, with the same arguments.
func rightArguments(t *trajectory.Trajectory) (num, den float64) {
	for _, turn := range t.Turns {
		if !turn.Executed() {
			continue
		}
		den++
		if slices.ContainsFunc(t.Task.GoldPath, func(c trajectory.Call) bool {
			return c.Tool == turn.Action.Tool && bytes.Equal(c.Args, turn.Action.Args)
		}) {
			num++
		}
	}
	return num, den
}

// Settings are the mini suite's own settings.
type Settings struct {
	Count int  `yaml:"count" json:"count"` // tasks
	Short bool `yaml:"short" json:"short"` // adds the split short: the tasks of one call
}

var _ suite.Settings = (*Settings)(nil)

// Check names what makes no sense.
func (s *Settings) Check(uint64) []error {
	if s.Count < 1 {
		return []error{fmt.Errorf("count is %d: it must be at least 1", s.Count)}
	}
	return nil
}

// Data is the number of tasks and the seed of their stock.
func (s *Settings) DataKey(seed uint64) any { return []any{seed, s.Count} }

// Generate writes the manifest alone: the tasks follow from the seed.
func (s *Settings) Generate(dir string, seed uint64) error {
	return run.WriteJSON(filepath.Join(dir, "manifest.json"), map[string]any{"seed": seed, "tasks": s.Count})
}

// Open makes the suite.
func (s *Settings) Open(_ string, seed uint64) (suite.Suite, error) {
	return &Suite{Seed: seed, Count: s.Count}, nil
}

// Opened is all of them.
func (s *Settings) OpenKey(uint64) any { return s }

// Shown is nothing: tasks are shown in one way.
func (s *Settings) ShownKey() any { return nil }

// Free is nothing.
func (s *Settings) RecipeKeys() []string { return nil }

// Further is the split short.
func (s *Settings) DerivedSplits() []suite.DerivedSplit {
	if !s.Short {
		return nil
	}
	return []suite.DerivedSplit{{Name: "short", Tasks: func(_ suite.Suite, usual func(string) ([]suite.Task, error), _ uint64) ([]suite.Task, error) {
		all, err := usual("train")
		var out []suite.Task
		for _, t := range all {
			if t.Hops == 1 {
				t.ID, t.Split = "short-"+t.ID, "short"
				out = append(out, t)
			}
		}
		return out, err
	}}}
}
