package benchmark

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/table"
)

var nan = math.NaN()

// mostErrors is how many kinds of errors of the judge the page lists: an error may quote a reply, and then each is one of its own.
const mostErrors = 20

// longest is how much of a text a table shows, in characters.
const longest = 300

// said is a text of a policy, a task or a judge as a cell shows it.
func said(s string) string {
	if r := []rune(s); len(r) > longest {
		s = string(r[:longest]) + "…"
	}
	return table.Plain(s)
}

// markdown renders the summary as a page.
func (s *Summary) markdown(by Summarising) string {
	var b strings.Builder
	set := s.Info.Settings
	fmt.Fprintf(&b, "# Benchmark of %s on %s, split %s, %s budget\n\n", table.Plain(set.name()), set.Suite, set.Split, set.Budget)
	fmt.Fprintf(&b, "%d tasks, greedy decoding. Intervals are 95%% and over tasks. `-` is not defined. The figures are those of the programmatic check; the judge changes none of them.\n\n", s.Tasks)
	if s.Unplayed > 0 {
		fmt.Fprintf(&b, "**%d of %d tasks could not be played on** (a tool or the policy broke down) and are in no figure.\n\n", s.Unplayed, set.Tasks)
	}
	t := table.New(2, "figure", "what it is", "value")
	for _, c := range by.list() {
		t.Add(c.title, c.doc, s.Figures[c.name].Interval().Text(c.decimals))
	}
	t.Add("seconds of the policy, median", "what the policy took for a task, summed over its turns", s.Figures[latencyP50].Interval().Text(3))
	t.Add("seconds of the policy, 95%", "the same, at the 95th percentile by nearest rank", s.Figures[latencyP95].Interval().Text(3))
	b.WriteString(t.Markdown())
	for _, d := range s.Strata {
		fmt.Fprintf(&b, "\n## By %s\n\n", table.Plain(d.Title))
		header := []string{d.Title, "tasks"}
		for _, c := range by.list() {
			header = append(header, c.title)
		}
		t := table.New(1, header...)
		for _, g := range d.Groups {
			line := []string{table.Plain(g.Name), strconv.Itoa(g.Tasks)}
			for i, c := range by.list() {
				v := g.Figures[c.name].Interval()
				if i == 0 { // success with its interval, the rest without: the table stays readable
					line = append(line, v.Text(c.decimals))
				} else {
					line = append(line, eval.Decimals(v.Value, c.decimals))
				}
			}
			t.Add(line...)
		}
		b.WriteString(t.Markdown())
	}
	b.WriteString(s.Judge.markdown())
	if s.Against != nil {
		b.WriteString(s.Against.markdown())
	}
	return b.String()
}

// name is a policy in texts.
func (s Settings) name() string {
	if s.TrainSeed == 0 {
		return s.Policy
	}
	return fmt.Sprintf("%s (training seed %d)", s.Policy, s.TrainSeed)
}

func (j JudgeTotals) markdown() string {
	var b strings.Builder
	b.WriteString("\n## Judge\n\n")
	if j.Name == "" {
		fmt.Fprintf(&b, "No judge was asked: %s.\n", table.Plain(j.NotAsked))
		return b.String()
	}
	fmt.Fprintf(&b, "%s was asked for %d answers and gave %d verdicts: %d right, %d as the check has it, %d not.\n", table.Plain(j.Name), j.Asked, j.Verdicts, j.Correct, j.Agreement, len(j.Disagreements))
	if len(j.Errors) > 0 {
		t := table.New(1, "no verdict, because", "tasks")
		rest := 0
		for i, e := range slices.Sorted(maps.Keys(j.Errors)) {
			if i < mostErrors {
				t.Add(said(e), strconv.Itoa(j.Errors[e]))
			} else {
				rest += j.Errors[e]
			}
		}
		if rest > 0 {
			t.Add("other reasons, see "+ResultsFile, strconv.Itoa(rest))
		}
		fmt.Fprintf(&b, "\nThese answers have no verdict, which is neither right nor wrong. `--stage evaluate --again` asks once more.\n\n%s", t.Markdown())
	}
	if len(j.Disagreements) > 0 {
		t := table.New(6, "task", "answer", "gold", "check", "judge", "the judge's reason")
		for _, r := range j.Disagreements {
			t.Add(table.Plain(r.Task), said(r.Answer), said(strings.Join(r.Gold, "; ")), rightOrWrong(r.Correct), rightOrWrong(*r.Judge.Correct), said(r.Judge.Reason))
		}
		fmt.Fprintf(&b, "\n### Where judge and check differ\n\n%s", t.Markdown())
	}
	return b.String()
}

func rightOrWrong(correct bool) string {
	if correct {
		return "right"
	}
	return "wrong"
}

func (a *Against) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Against %s\n\n", table.Plain(a.Settings.name()))
	fmt.Fprintf(&b, "On the %d tasks that both played. Costs are means over the %d tasks that both solve; the gap is what the other one costs above the cheapest. Differences are this one minus the other one, with paired intervals.\n\n", a.Tasks, a.BothSolved)
	t := table.New(1, "figure", "value")
	number := func(f Figure) string { return eval.Decimals(f.Interval().Value, 4) }
	t.Add("tasks both solve", strconv.Itoa(a.BothSolved))
	t.Add("cost of the other one", number(a.CostThere))
	t.Add("cost of this one", number(a.Cost))
	t.Add("cheapest cost", number(a.Cheapest))
	t.Add("share of the gap closed", eval.Decimals(a.GapClosed.Interval().Value, 3))
	t.Add("tasks gained", strconv.Itoa(len(a.Gained)))
	t.Add("tasks lost", strconv.Itoa(len(a.Lost)))
	t.Add("exact p of gained against lost", strconv.FormatFloat(a.P, 'g', 3, 64))
	for _, m := range eval.Metrics {
		if f, ok := a.Difference[m.Name]; ok {
			t.Add("difference in "+m.Title, f.Interval().Signed(4))
		}
	}
	b.WriteString(t.Markdown())
	for _, d := range a.Strata {
		fmt.Fprintf(&b, "\n### By %s\n\n", table.Plain(d.Title))
		t := table.New(1, d.Title, "tasks", "success, difference", "both solve", "cost of the other one", "cost of this one", "cheapest", "gap closed", "gained", "lost")
		for _, g := range d.Groups {
			t.Add(table.Plain(g.Name), strconv.Itoa(g.Tasks), g.Difference["success_rate"].Interval().Signed(3), strconv.Itoa(g.BothSolved), number(g.CostThere), number(g.Cost), number(g.Cheapest),
				eval.Decimals(g.GapClosed.Interval().Value, 3), strconv.Itoa(len(g.Gained)), strconv.Itoa(len(g.Lost)))
		}
		b.WriteString(t.Markdown())
	}
	for _, l := range []struct {
		name  string
		tasks []string
	}{{"Gained", a.Gained}, {"Lost", a.Lost}} {
		if len(l.tasks) > 0 {
			fmt.Fprintf(&b, "\n%s: %s.\n", l.name, table.Plain(strings.Join(l.tasks, ", ")))
		}
	}
	return b.String()
}
