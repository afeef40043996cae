package suite

import "github.com/toolroute/toolroute/pkg/trajectory"

// Dimension sorts tasks into strata, which reports show apart. A task may belong to several strata, or to none.
type Dimension struct {
	Name  string // in the column stratum of results_by_stratum.csv
	File  string // its table is results_by_<File>.md; empty takes Name
	Title string // for people, after "Results by"
	Of    func(split string, t *trajectory.Task) []string
}

// SeenInTraining has two strata: "seen <what>" and "unseen <what>".
func SeenInTraining(name, what string, unseen func(split string, t *trajectory.Task) bool) Dimension {
	return Dimension{Name: name, Title: what + ", seen in training or not", Of: func(split string, t *trajectory.Task) []string {
		if unseen(split, t) {
			return []string{"unseen " + what}
		}
		return []string{"seen " + what}
	}}
}
