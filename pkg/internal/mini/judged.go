package mini

import (
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Judged is a suite in which the test decides which answers are right, whatever the tools showed.
type Judged struct {
	suite.Suite
	Right func(task suite.Task, answer string) bool
}

// Verify implements suite.Suite.
func (j Judged) Verify(task suite.Task, answer string, _ []tool.Observation) suite.Verdict {
	right := j.Right(task, answer)
	return suite.Verdict{Correct: right, Evidenced: right}
}
