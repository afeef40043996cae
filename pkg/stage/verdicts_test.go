package stage

import (
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Beside the success on yes/no tasks stands what one verdict for all would have earned after the same calls.
func TestConstantVerdict(t *testing.T) {
	n := 0
	episodes := func(count int, gold, answer string, evidenced bool) (out []trajectory.Trajectory) {
		for range count {
			n++
			tr := trajectory.Trajectory{Suite: "company", Split: "test", Method: "m", BudgetMode: "soft", Decoding: "greedy", End: trajectory.Finished,
				Task: trajectory.Task{ID: fmt.Sprint(n), Gold: []string{gold}, AnswerType: "yesno"}}
			tr.Outcome = trajectory.Outcome{Answer: answer, Correct: answer == gold, Evidenced: evidenced, Verified: answer == gold && evidenced}
			out = append(out, tr)
		}
		return out
	}
	join := func(parts ...[]trajectory.Trajectory) (out []trajectory.Trajectory) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	other := episodes(5, "7", "7", true)
	for i := range other {
		other[i].Task.AnswerType = "number"
	}
	broken := episodes(2, "yes", "", true)
	for i := range broken {
		broken[i].End = trajectory.Turns
	}
	for _, c := range []struct {
		what              string
		trs               []trajectory.Trajectory
		success, constant string
		guesses           string
	}{
		// Says yes to everything: all that it earns is what the constant earns.
		{"constant", join(episodes(6, "yes", "yes", true), episodes(4, "no", "yes", true)), "0.6", "0.6", "0"},
		// Compares: 10 of 10, where a constant gets 6.
		{"comparing", join(episodes(6, "yes", "yes", true), episodes(4, "no", "no", true)), "1", "0.6", "0"},
		// Always wrong: worse than either constant, of which always no is the better.
		{"wrong", join(episodes(4, "yes", "no", true), episodes(6, "no", "yes", true)), "0", "0.6", "0"},
		// Without the evidence neither earns anything, and a right verdict is a guess.
		{"guessing", join(episodes(6, "yes", "yes", false), episodes(2, "no", "yes", false), episodes(2, "no", "no", true)), "0.2", "0.2", "0.6"},
		// An episode that gave no answer has no verdict to replace, and other tasks do not count.
		{"broken off", join(episodes(2, "yes", "yes", true), broken, other), "0.5", "0.5", "0"},
		{"none", other, "", "", "0"},
	} {
		collected, err := eval.Collect(c.trs, company.Columns())
		if err != nil {
			t.Fatal(err)
		}
		row := eval.Table(collected, eval.Options{Resamples: 200})[0]
		s, k := row.Own[0], row.Own[1]
		if eval.Number(s.Value) != c.success || eval.Number(k.Value) != c.constant || eval.Number(row.Get("guess_rate").Value) != c.guesses {
			t.Errorf("%s: success %v, constant %v, guesses %v; want %s, %s, %s", c.what, s.Value, k.Value, row.Get("guess_rate").Value, c.success, c.constant, c.guesses)
		}
		if c.constant != "" && !(k.Lo <= k.Value && k.Value <= k.Hi) {
			t.Errorf("%s: interval %v", c.what, k)
		}
	}
}
