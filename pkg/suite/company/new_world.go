package company

import (
	"fmt"
	"sync"

	"github.com/toolroute/toolroute/pkg/suite"
)

// NewWorld is the split of the test tasks of another world: other entities, other values, the same templates. It exists when
// Options.NewWorldSeed is set. The world is made in memory when its tasks are first asked for.
const NewWorld = "test_new_world"

// newWorld makes the other world once.
type newWorld struct {
	once  sync.Once
	suite *Suite
	err   error
}

func (s *Suite) another() (*Suite, error) {
	if s.opt.NewWorldSeed == 0 {
		return nil, fmt.Errorf("company: split %s needs the seed of its world", NewWorld)
	}
	s.other.once.Do(func() {
		opt := s.opt
		opt.Seed, opt.NewWorldSeed, opt.avoid = s.opt.NewWorldSeed, 0, nil
		if opt.Seed == s.opt.Seed {
			s.other.err = fmt.Errorf("company: the new world has seed %d, which is the data set's own", opt.Seed)
			return
		}
		w, err := Generate(opt)
		if err != nil {
			s.other.err = fmt.Errorf("company: world of seed %d: %w", opt.Seed, err)
			return
		}
		o := w.Suite()
		o.owned = w
		tasks := o.tasks[Test]
		for i := range tasks {
			tasks[i].ID, tasks[i].Split = "new-"+tasks[i].ID, NewWorld
		}
		o.tasks = map[string][]suite.Task{NewWorld: tasks}
		s.other.suite = o
	})
	return s.other.suite, s.other.err
}

// home is the suite whose stores hold the facts of a task.
func (s *Suite) home(t suite.Task) (*Suite, error) {
	if t.Split == NewWorld && s.opt.NewWorldSeed != 0 {
		return s.another()
	}
	return s, nil
}
