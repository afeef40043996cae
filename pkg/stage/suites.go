package stage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
)

// shown holds what decides, beside the data set, what policies see, what their actions lead to and what reward they earn: the suite's
// settings for it, and versions of the code. It is in the key of every stage that plays or trains on episodes.
type shown struct {
	Settings any `json:"settings"`
	Suite    int `json:"suite"`
	Rollout  int `json:"rollout"`
}

func (e *Env) shown() shown {
	return shown{e.Config.Suite.ShownKey(), e.Definition.Version, rollout.Version}
}

// Splits are the evaluated splits, in the order of the tables.
func (e *Env) Splits() []string {
	out := evaluated(e.Definition, e.Config)
	if chosen := e.Config.Eval.Splits; len(chosen) > 0 {
		out = slices.DeleteFunc(out, func(s string) bool { return !slices.Contains(chosen, s) })
	}
	return out
}

// evaluated are the splits that a suite's data sets hold, and those that its settings add.
func evaluated(d suite.Definition, c config.Config) []string {
	out := slices.Clone(d.Splits)
	for _, f := range c.Suite.DerivedSplits() {
		out = append(out, f.Name)
	}
	return out
}

// checkSplits names a chosen split that is not evaluated with these settings.
func checkSplits(d suite.Definition, c config.Config) error {
	have := evaluated(d, c)
	for _, s := range c.Eval.Splits {
		if !slices.Contains(have, s) {
			return fmt.Errorf("eval.splits: no evaluated split is named %q; with these settings there are %s", s, strings.Join(have, ", "))
		}
	}
	return nil
}

// derived returns an evaluated split that settings add. It returns false for a split that every data set holds.
func (e *Env) derived(split string) (suite.DerivedSplit, bool) {
	for _, f := range e.Config.Suite.DerivedSplits() {
		if f.Name == split {
			return f, true
		}
	}
	return suite.DerivedSplit{}, false
}

// tasks returns the tasks of a split that are evaluated: all, or a sample.
func (e *Env) tasks(s suite.Suite, split string) ([]suite.Task, error) {
	return e.draw(s, split, e.Config.Eval.NTasks, e.Config.Seed)
}

// draw returns n tasks of a split, stratified by template and difficulty; all for n = 0. Which ones depends on the seed alone.
func (e *Env) draw(s suite.Suite, split string, n int, seed uint64) ([]suite.Task, error) {
	all, err := e.splitTasks(s, split)
	if err != nil {
		return nil, err
	}
	return suite.Stratified(all, n, seed), nil
}

// splitTasks returns all tasks of a split: of one that every data set holds, or of one that the settings add.
func (e *Env) splitTasks(s suite.Suite, split string) ([]suite.Task, error) {
	if f, ok := e.derived(split); ok && f.Tasks != nil {
		return f.Tasks(s, func(usual string) ([]suite.Task, error) { return e.tasks(s, usual) }, e.Config.Seed)
	}
	return s.Tasks(split)
}
