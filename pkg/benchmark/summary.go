package benchmark

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Figure is a figure with its interval. What is not defined is nil.
type Figure struct {
	Value *float64 `json:"value"`
	Lo    *float64 `json:"lo"`
	Hi    *float64 `json:"hi"`
}

func figure(i eval.Interval) Figure {
	defined := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return Figure{defined(i.Value), defined(i.Lo), defined(i.Hi)}
}

// Interval is the figure with NaN for what is not defined.
func (f Figure) Interval() eval.Interval {
	value := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	return eval.Interval{Value: value(f.Value), Lo: value(f.Lo), Hi: value(f.Hi)}
}

// Group is the figures of all tasks, or of those of one stratum.
type Group struct {
	Name    string            `json:"name"`
	Tasks   int               `json:"tasks"` // that were played to an end
	Figures map[string]Figure `json:"figures"`
}

// Breakdown is the strata of one dimension.
type Breakdown struct {
	Dimension string  `json:"dimension"`
	Title     string  `json:"title"`
	Groups    []Group `json:"groups"`
}

// Summary is summary.json. The figures are those of the programmatic check: the judge changes none of them.
type Summary struct {
	Info     Info `json:"info"`
	Unplayed int  `json:"unplayed"` // tasks that could not be played on, as a tool or the policy broke down; no figure counts them
	Group
	Strata  []Breakdown `json:"strata"`
	Judge   JudgeTotals `json:"judge"`
	Against *Against    `json:"against,omitempty"`
}

// JudgeTotals counts what the judge said.
type JudgeTotals struct {
	Name string `json:"name,omitempty"`
	// NotAsked says why there is no judge.
	NotAsked  string         `json:"not_asked,omitempty"`
	Asked     int            `json:"asked"`    // tasks with an answer
	Verdicts  int            `json:"verdicts"` // of Asked
	Correct   int            `json:"correct"`  // of Verdicts
	Agreement int            `json:"agree"`    // of Verdicts, those that are the check's
	Errors    map[string]int `json:"errors"`   // tasks without a verdict, by what went wrong
	// Disagreements are the tasks on which the judge and the check differ.
	Disagreements []Result `json:"disagreements"`
}

// column is a figure of the summary.
type column struct {
	name, title, doc string
	decimals         int
}

// shown are the figures of the summary in their order, of [eval.Metrics] and of [suite.CallColumns].
var shown = []string{"success_rate", "at_cheapest", "above_cheapest", "below_cheapest", "failed_call_tasks", "calls_per_task", "tool_accuracy", "argument_accuracy", "guess_rate"}

// Latencies are figures too: seconds that the policy took for a task.
const (
	latencyP50 = "policy_p50_s"
	latencyP95 = "policy_p95_s"
)

// Summarising is what a summary is made with.
type Summarising struct {
	Suite suite.Definition
	// Eval is how intervals are made.
	Eval eval.Options
	// Judge is the judge of the evaluation; nil for none, and NotAsked says why.
	Judge    Judge
	NotAsked string
	// Against is the folder of another benchmark that this one is compared with; nil for none.
	Against *Folder
}

// columns are those of the suite that greedy rows have, and those of every suite that it has not under the same name.
func (s Summarising) columns() []eval.Column {
	own := slices.DeleteFunc(slices.Clone(s.Suite.Columns), func(c eval.Column) bool { return c.Decoding != "" && c.Decoding != "greedy" })
	for _, c := range suite.CallColumns() {
		if !slices.ContainsFunc(own, func(o eval.Column) bool { return o.Name == c.Name }) {
			own = append(own, c)
		}
	}
	return own
}

// dimensions are the template and those of the suite.
func (s Summarising) dimensions() []eval.Dimension {
	return slices.DeleteFunc(eval.Dimensions(s.Suite.Dimensions), func(d eval.Dimension) bool {
		return d.Name != "template" && !slices.ContainsFunc(s.Suite.Dimensions, func(o eval.Dimension) bool { return o.Name == d.Name })
	})
}

// list is what the summary shows: first what every suite has, then the rest of the suite's own columns.
func (s Summarising) list() (out []column) {
	add := func(name string) {
		if i := eval.MetricIndex(name); i >= 0 {
			m := eval.Metrics[i]
			out = append(out, column{m.Name, m.Title, m.Doc, 3})
			return
		}
		for _, c := range s.columns() {
			if c.Name == name {
				decimals := 3
				if c.Total {
					decimals = 0
				}
				out = append(out, column{c.Name, c.Title, c.Doc, decimals})
			}
		}
	}
	for _, name := range shown {
		add(name)
	}
	for _, c := range s.columns() {
		if !slices.Contains(shown, c.Name) {
			add(c.Name)
		}
	}
	return out
}

// Summarise writes summary.json and summary.md, of states that are evaluated.
func (f *Folder) Summarise(ctx context.Context, s Summarising) error {
	states, err := f.States()
	if err != nil {
		return err
	}
	results, err := f.Results(s.Judge)
	if err != nil {
		return err
	}
	judge := ""
	if s.Judge != nil {
		judge = s.Judge.Name()
	}
	parts := []any{summaryStage, format, judge, s.NotAsked, s.Eval.Resamples, s.Eval.Seed, s.Eval.Level}
	for _, file := range []string{StatesFile, ResultsFile} {
		hash, err := run.HashFile(f.Path(file))
		if err != nil {
			return err
		}
		parts = append(parts, hash)
	}
	var other []trajectory.Trajectory
	if s.Against != nil {
		if other, err = f.comparable(s.Against); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		hash, err := run.HashFile(s.Against.Path(StatesFile))
		if err != nil {
			return err
		}
		parts = append(parts, s.Against.Dir, hash)
	}
	// The columns and dimensions are code of the suite: their names stand for them, as the program's revision would be too much.
	for _, c := range s.columns() {
		parts = append(parts, c.Name)
	}
	for _, d := range s.dimensions() {
		parts = append(parts, d.Name)
	}
	return f.Stage(ctx, summaryStage, run.Key(parts...), func() ([]string, error) {
		sum, err := f.summary(states, results, other, s)
		if err != nil {
			return nil, err
		}
		if err := run.WriteJSON(f.Path(SummaryJSON), sum); err != nil {
			return nil, err
		}
		return []string{SummaryJSON, SummaryMD}, run.WriteFile(f.Path(SummaryMD), []byte(sum.markdown(s)))
	})
}

func (f *Folder) summary(states []trajectory.Trajectory, results []Result, other []trajectory.Trajectory, s Summarising) (*Summary, error) {
	out := &Summary{Info: f.Info, Judge: totals(results, s)}
	for i := range states {
		if states[i].End == trajectory.Error {
			out.Unplayed++
		}
	}
	c, err := eval.Collect(states, s.columns())
	if err != nil {
		return nil, err
	}
	rows := eval.Table(c, s.Eval)
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: none of %d tasks could be played to an end, so there is nothing to summarise", f.Path(StatesFile), len(states))
	}
	if len(rows) > 1 {
		return nil, fmt.Errorf("%s: it holds states of %s and of %s", f.Path(StatesFile), rows[0].Key, rows[1].Key)
	}
	row := rows[0]
	out.Group = Group{Name: "all", Tasks: row.Tasks, Figures: figures(c.Columns, row.Values, row.Own)}
	out.Figures[latencyP50], out.Figures[latencyP95] = figure(row.Latency.ModelP50), figure(row.Latency.ModelP95)
	for _, d := range s.dimensions() {
		b := Breakdown{Dimension: d.Name, Title: d.Title}
		for _, st := range eval.Strata(c, d, s.Eval) {
			b.Groups = append(b.Groups, Group{Name: st.Name, Tasks: st.Tasks, Figures: figures(c.Columns, st.Values, st.Own)})
		}
		if len(b.Groups) > 0 { // a dimension may be of other splits
			out.Strata = append(out.Strata, b)
		}
	}
	if s.Against != nil {
		if out.Against, err = against(s, states, other); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func figures(columns []eval.Column, values, own []eval.Interval) map[string]Figure {
	out := map[string]Figure{}
	for i, m := range eval.Metrics {
		if !strings.HasPrefix(m.Name, "pass_at") { // a task is played once
			out[m.Name] = figure(values[i])
		}
	}
	for i, c := range columns {
		out[c.Name] = figure(own[i])
	}
	return out
}

func totals(results []Result, s Summarising) JudgeTotals {
	t := JudgeTotals{NotAsked: s.NotAsked, Errors: map[string]int{}, Disagreements: []Result{}}
	if s.Judge != nil {
		t.Name = s.Judge.Name()
	}
	for _, r := range results {
		if r.Judge == nil {
			continue
		}
		t.Asked++
		if r.Judge.Correct == nil {
			t.Errors[r.Judge.Error]++
			continue
		}
		t.Verdicts++
		if *r.Judge.Correct {
			t.Correct++
		}
		if r.disagrees() {
			t.Disagreements = append(t.Disagreements, r)
		} else {
			t.Agreement++
		}
	}
	return t
}
