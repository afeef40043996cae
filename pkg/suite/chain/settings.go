package chain

import "github.com/toolroute/toolroute/pkg/suite"

// Settings are the suite's own settings: its data set, and what is wrong with its demonstrations. configs/suite-chain.yaml says what each means.
type Settings struct {
	World Config `yaml:"world" json:"world"`
	Habit Habit  `yaml:"habit" json:"habit"`
}

func (s *Settings) config(seed uint64) Config {
	c := s.World
	c.Seed = seed
	return c
}

// Check names the settings whose values make no sense.
func (s *Settings) Check(seed uint64) (errs []error) {
	for _, err := range []error{s.config(seed).Validate(), s.Habit.Validate()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// DataKey is the config of the world.
func (s *Settings) DataKey(seed uint64) any { return s.config(seed) }

// Generate makes the data set.
func (s *Settings) Generate(dir string, seed uint64) error {
	made, err := Generate(s.config(seed))
	if err != nil {
		return err
	}
	return made.Write(dir)
}

// Open opens the data set with the habit.
func (s *Settings) Open(dir string, _ uint64) (suite.Suite, error) {
	opened, err := Open(dir)
	if err != nil {
		return nil, err
	}
	return opened.With(s.Habit, Compact)
}

// OpenKey is the habit.
func (s *Settings) OpenKey(uint64) any { return s.Habit }

// ShownKey is the habit.
func (s *Settings) ShownKey() any { return s.Habit }

// RecipeKeys is the habit.
func (s *Settings) RecipeKeys() []string { return []string{"habit"} }

// DerivedSplits is empty, because all evaluated tasks are in the data set.
func (s *Settings) DerivedSplits() []suite.DerivedSplit { return nil }
