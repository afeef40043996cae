// Package families is the suite of 35 priced tools, ten pairs of which do the same at different prices. Which tool of a pair a task's cheapest
// path calls depends on the task: on the number of cities, the size of a number, the length of a mail. So a policy that learned which tool wins
// more often is told apart from one that learned the condition.
//
// Every task lists its valid paths by cost, the gold path first, and attempts that look cheap and fail. All of them were run when the data set
// was made (CheckPaths). An underlying task comes in two wordings, both in one split; splits share no underlying task (CheckSplits).
//
// A task is solved if its answer is right, every fact that it rests on was stated by a tool, and the sandbox holds what it should. A second mail
// is a mistake. The tools and their tables are in package toolbox.
package families

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Name is the suite's name in tables, runs and data folders.
const Name = "families"

// The splits. Demonstrations are of sft_train, preferences of dpo_train.
const (
	SFTTrain = "sft_train"
	DPOTrain = "dpo_train"
	Val      = "val"
	Test     = "test"
	// TestPrices is the tasks of test at prices drawn anew for each of them.
	TestPrices = "test_prices"
)

var splits = []string{SFTTrain, DPOTrain, Val, Test}

// Families are the pairs of tools by their main tools. A file is also read and a calendar also listed by a second call of the cheaper way.
func Families() []suite.ToolFamily {
	var out []suite.ToolFamily
	for _, f := range toolbox.Families() {
		out = append(out, suite.ToolFamily{Name: f.Name, Cheaper: f.Cheaper[0], Pricier: f.Pricier[0]})
	}
	return out
}

// Suite is a generated or opened data set. It is safe for concurrent use.
type Suite struct {
	cfg   Config
	draws uint64 // the seed of the tasks; that of the world but for extra task banks
	view  View
	train Training
	world *toolbox.World
	tasks map[string][]suite.Task
}

var (
	_ suite.Suite     = (*Suite)(nil)
	_ suite.Preferrer = (*Suite)(nil)
)

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

// Box implements suite.Suite. Each box has a sandbox of its own.
func (s *Suite) Box(t suite.Task) (*tool.Box, error) {
	tools := s.world.Tools(toolbox.NewState(toolbox.Initial{}))
	var offers []tool.Offer
	for _, o := range t.Offers {
		offers = append(offers, tool.Offer(o))
	}
	if offers != nil { // a box of fewer tools is made faster
		tools = slices.DeleteFunc(tools, func(x tool.Tool) bool {
			return !slices.ContainsFunc(offers, func(o tool.Offer) bool { return o.Tool == x.Spec().Name })
		})
	}
	b, err := tool.NewBox(append(tools, tool.Finish()), tool.WithOffers(offers...))
	if err != nil {
		return nil, fmt.Errorf("tools of task %s: %w", t.ID, err)
	}
	return b, nil
}

// Verify implements suite.Suite. The sandbox is rebuilt from the facts that the episode's calls stated, so that a call that was not made
// changes nothing.
func (s *Suite) Verify(t suite.Task, answer string, seen []tool.Observation) suite.Verdict {
	x, err := extraOf(t)
	holds := err == nil && toolbox.Rebuild(toolbox.Initial{}, seen).Equal(x.Outcome)
	return suite.Verdict{Correct: holds && t.Answer.Matches(answer), Evidenced: suite.Evidenced(t.Question, t.Evidence, seen)}
}
