package families

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
)

// ExtraWorldSeed is the seed that the tasks of extra bank i are drawn from.
func ExtraWorldSeed(seed uint64, i int) uint64 { return rng.Seed64(seed, "families/extra", i) }

// ExtraWorlds makes further banks of training tasks over the same tables, numbered from on. None of their tasks is an underlying task of this data
// set, whatever its split. They are for models that learn to read and copy from scratch, for which one bank is too little.
func (s *Suite) ExtraWorlds(from, n int) ([]suite.Suite, error) {
	own := map[string]bool{}
	for _, tasks := range s.tasks {
		for _, t := range tasks {
			own[t.Fact] = true
		}
	}
	var out []suite.Suite
	for i := from; i < from+n; i++ {
		bank := &Suite{cfg: s.cfg, draws: ExtraWorldSeed(s.cfg.Seed, i), world: s.world, tasks: map[string][]suite.Task{}}
		for _, t := range templates {
			tasks, err := bank.ofTemplate(t, maps.Clone(own))
			if err != nil {
				return nil, fmt.Errorf("extra bank %d: template %s: %w", i, t.name, err)
			}
			for _, x := range tasks {
				x.ID, x.Split = fmt.Sprintf("x%d-%s", i, x.ID), SFTTrain
				bank.tasks[SFTTrain] = append(bank.tasks[SFTTrain], x)
			}
		}
		if err := bank.check(); err != nil {
			return nil, fmt.Errorf("extra bank %d: %w", i, err)
		}
		shown, err := bank.With(s.view, s.train)
		if err != nil {
			return nil, err
		}
		for _, split := range slices.DeleteFunc(s.Splits(), func(split string) bool { return split == SFTTrain }) {
			shown.tasks[split] = nil
		}
		out = append(out, shown)
	}
	return out, nil
}
