package company

import (
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Columns say what success on yes/no tasks is worth. One value in two is right by chance, so beside the success there stands
// what a constant verdict after the same calls would have earned: of the row's yes/no episodes the share that answered, had all
// the evidence, and has the gold verdict that is the more frequent of such episodes. It is the better of the two constants in
// hindsight, so more than a policy could earn that does not compare; what success has above it is the comparison. A right verdict
// without the evidence is no success in either column: it is a guess, and counted as one.
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
