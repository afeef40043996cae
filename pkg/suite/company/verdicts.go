package company

import (
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Columns say what success on yes/no tasks is worth. One verdict in two is right by chance. So a second column beside the success shows
// what a constant verdict after the same calls would have earned. Take the row's yes/no episodes that answered and had all the evidence,
// and find their more frequent gold verdict: the column is the share of all yes/no episodes that are among these and have that verdict. The
// constant is chosen in hindsight, so a policy that does not compare could not earn more. A policy compares only as far as its success lies
// above the constant. A right verdict without the evidence is a success in neither column: it is counted as a guess.
func Columns() []suite.Column {
	return []suite.Column{
		{Name: "yesno_success", Title: "success, yes/no", Share: true, Doc: "success on the yes/no tasks", Ratio: func(t *trajectory.Trajectory) (num, den float64) {
			return one(isVerdict(t) && t.Outcome.Verified), one(isVerdict(t))
		}},
		{Name: "yesno_constant", Title: "constant verdict, yes/no", Share: true, Doc: "what the better of always yes and always no would have earned on them after the same calls: of all, the share that " +
			"answered with all the evidence and has that verdict as gold; success above it is comparing", Ratio: func(t *trajectory.Trajectory) (num, den float64) {
			return one(isVerdict(t) && t.End == trajectory.Finished && t.Outcome.Evidenced), one(isVerdict(t))
		}, MostBy: func(t *trajectory.Trajectory) string {
			if !isVerdict(t) || len(t.Task.Gold) == 0 {
				return ""
			}
			return t.Task.Gold[0]
		}},
	}
}

func isVerdict(t *trajectory.Trajectory) bool { return t.Task.AnswerType == string(suite.YesNo) }

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
