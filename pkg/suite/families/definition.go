package families

import (
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Definition is the suite as stages and reports know it.
func Definition() suite.Definition {
	return suite.Definition{
		Name: Name, Version: 1, Settings: func() suite.Settings { return new(Settings) },
		Train: SFTTrain, Val: Val, Splits: []string{Test},
		Demos: DemonstrationKinds(), Corpus: []string{DemoRandom, DemoRecovery}, Dates: true, Pairs: PairKinds(),
		Families: Families(), Columns: Columns(),
		Summary: []suite.TitledColumn{{Column: "at_cheapest", Title: "at the cheapest cost"}, {Column: "above_cheapest", Title: "cost above the cheapest"}, {Column: "failed_call_tasks", Title: "tasks with a failed call"},
			{Column: "lucky_rate", Title: "lucky"}, {Column: "choice_accuracy_min_family", Title: "worst family's choice"}, {Column: "calls_per_task", Title: "calls"}},
		Dimensions:     []suite.Dimension{{Name: "tool_family", Title: "family of tools", Of: func(_ string, t *trajectory.Task) []string { return tagged(t.Tags, familyTag) }}},
		HistoryColumn:  suite.TitledColumn{Column: "at_cheapest", Title: "at the cheapest cost"},
		Reference:      reference,
		ExtraWorlds:    func(s suite.Suite, from, n int) ([]suite.Suite, error) { return s.(*Suite).ExtraWorlds(from, n) },
		ExtraWorldSeed: ExtraWorldSeed,
	}
}

// tagged are the rests of the tags that begin so.
func tagged(tags []string, prefix string) []string {
	var out []string
	for _, tag := range tags {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			out = append(out, rest)
		}
	}
	return out
}

// reference is the reference's table on 500 test tasks.
var reference = suite.Reference{
	Header: []string{"reference, Qwen2.5-1.5B, 500 test tasks", "base", "SFT (A)", "SFT + DPO (B)"},
	Lines: [][]string{
		{"success", "0%", "97.6%", "92.6%"},
		{"at the cheapest cost", "-", "48.8%", "66.3%"},
		{"cost above the cheapest", "-", "28.5%", "11.4%"},
		{"below the cheapest cost", "-", "0%", "3.0%"},
		{"tasks with a failed call", "-", "1", "40"},
		{"calls per task", "9.9", "3.2", "3.1"},
	},
	Note: "Its DPO learned in some families which direction is the majority, and not the condition.",
}

// Columns are the suite's columns in their stable order: those of cost and calls that any suite can have, and among them lucky answers and the
// worst choice.
func Columns() []suite.Column {
	common := suite.CallColumns()
	at := 1 + slices.IndexFunc(common, func(c suite.Column) bool { return c.Name == "failed_call_tasks" })
	return slices.Insert(common, at,
		suite.Column{Name: "lucky_rate", Title: "lucky", Share: true, Doc: "right answers that no tool's statement proves; they are not solved",
			Ratio: func(t *trajectory.Trajectory) (num, den float64) {
				return indicator(t.End == trajectory.Finished && t.Outcome.Correct && !t.Outcome.Evidenced), 1
			}},
		suite.Column{Name: "choice_accuracy_min_family", Title: "worst family's choice", Share: true,
			Doc: "the smallest share, over families and directions, of episodes that called the right tool of the family and not the other; of tasks that ask for one choice",
			MinBy: func(t *trajectory.Trajectory) string {
				if of := tagged(t.Task.Tags, choiceTag); len(of) == 1 {
					return of[0]
				}
				return ""
			},
			Ratio: rightChoice})
}

// rightChoice is whether an episode of a task that asks for one choice called the right tool of the family and not the other one.
func rightChoice(t *trajectory.Trajectory) (num, den float64) {
	of := tagged(t.Task.Tags, choiceTag)
	if len(of) != 1 {
		return 0, 0
	}
	family, gold, _ := strings.Cut(of[0], ":")
	called := calls(t)
	for _, f := range Families() {
		if f.Name != family {
			continue
		}
		other := f.Cheaper
		if gold == f.Cheaper {
			other = f.Pricier
		}
		return indicator(called[gold] > 0 && called[other] == 0), 1
	}
	return 0, 0
}

// calls counts the executed calls of each tool.
func calls(t *trajectory.Trajectory) map[string]int {
	out := map[string]int{}
	for _, turn := range t.Turns {
		if turn.Executed() {
			out[turn.Action.Tool]++
		}
	}
	return out
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
