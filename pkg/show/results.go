package show

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// fixedRule reports whether a method is scripted and neither the oracle nor the parser of the suite's wordings.
func (e view) fixedRule(method string) bool {
	return method != stage.Oracle && method != stage.RuleParser && e.IsBaseline(method)
}

// bestRule returns the row of the best fixed rule. solves is false if no fixed rule solves any task: then no rule is the best.
func (e view) bestRule(rows []eval.Row) (b *eval.Row, solves bool) {
	b = best(rows, e.fixedRule)
	return b, b != nil && b.Get("success_rate").Value > 0
}

// collect gathers the episodes of the methods that keep wants.
func (e view) collect(ctx context.Context, keep func(method string) bool) (*eval.Collector, []trajectory.Trajectory, error) {
	all, err := e.Episodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	trs := slices.DeleteFunc(all, func(t trajectory.Trajectory) bool { return keep != nil && !keep(t.Method) })
	if len(trs) == 0 {
		return nil, nil, errors.New("of the methods asked for none has played here: play them first (in a notebook, the cells above), or name others")
	}
	c, err := eval.Collect(trs, e.Definition.Columns)
	return c, trs, err
}

// rows are the greedy rows of the results table, of the methods that keep wants.
func (e view) rows(ctx context.Context, keep func(string) bool) ([]eval.Row, error) {
	c, _, err := e.collect(ctx, keep)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(eval.Table(c, e.EvalOptions()), func(r eval.Row) bool { return r.Decoding != "greedy" }), nil
}

func number(v eval.Interval, digits int, interval bool) string {
	if !interval {
		return eval.Decimals(v.Value, digits)
	}
	return v.Text(digits)
}

// resultsGrid is the table of a notebook: the columns that the text speaks of, the suite's own, and below it what the learned rows were
// trained on.
func (e view) resultsGrid(rows []eval.Row) []Shown {
	header := []string{"split", "budget", "decoding", "method", "tasks", "seeds", "success", "cost", "cost per solved", "cost / optimal", "invalid actions"}
	for _, c := range e.Definition.Columns {
		header = append(header, c.Title)
	}
	var lines [][]string
	var trained []string
	for i := range rows {
		r := &rows[i]
		line := []string{r.Split, r.Budget, r.Decoding, r.Method, fmt.Sprint(r.Tasks), fmt.Sprint(r.Seeds), number(r.Get("success_rate"), 3, true), number(r.Get("mean_cost"), 2, false),
			number(r.Get("mean_cost_per_solved"), 2, false), number(r.Get("cost_ratio"), 2, false), number(r.Get("invalid_action_rate"), 3, false)}
		for _, v := range r.Own {
			line = append(line, number(v, 3, true))
		}
		lines = append(lines, line)
		if t := trainedOn(r.Training); t != "" {
			if t = "- " + r.Method + ": " + t + "."; !slices.Contains(trained, t) {
				trained = append(trained, t)
			}
		}
	}
	out := text("%s\nIn brackets 95%% intervals: bootstrap over tasks, and over seeds with them where a row has several; exact (Clopper-Pearson) where every task gives the same.\n", grid(4, header, lines))
	if len(trained) > 0 {
		out = append(out, text("What the learned rows were trained on, all steps before included:\n\n%s\n", strings.Join(trained, "\n"))...)
	}
	return out
}

// baselinePictures is the folder of the pictures of the scripted policies alone.
const baselinePictures = "notebook/baselines"

// Baselines plays the scripted policies if they were not played, and shows their rows of the results table. Their
// pictures are left for Picture("notebook/baselines/...").
func Baselines(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	if err := e.Baselines(ctx); err != nil {
		return nil, err
	}
	c, trs, err := e.collect(ctx, e.IsBaseline)
	if err != nil {
		return nil, err
	}
	files, err := report.Files(report.Input{Title: "Baselines", Collected: c, Options: e.EvalOptions(), Budget: e.Config.Eval.BudgetModes[0], Decoding: "greedy",
		Headline: e.bestScripted(trs), Bounds: []string{stage.Oracle}})
	if err != nil {
		return nil, err
	}
	err = e.Making(baselinePictures, func() error {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if path.Ext(name) != ".png" {
				continue
			}
			if err := run.WriteFile(e.Run.Path(filepath.FromSlash(baselinePictures), filepath.FromSlash(name)), files[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err := e.rows(ctx, e.IsBaseline)
	if err != nil {
		return nil, err
	}
	return e.resultsGrid(rows), nil
}

// bestScripted returns the fixed rule that solved most episodes, and of equal ones the first. Without a fixed rule it returns the first
// scripted method.
func (e view) bestScripted(trs []trajectory.Trajectory) string {
	solved := map[string]int{}
	for _, t := range trs {
		if t.Outcome.Verified {
			solved[t.Method]++
		}
	}
	all := e.Config.Scripted()
	best := all[0]
	for _, m := range all {
		if e.fixedRule(m) && (!e.fixedRule(best) || solved[m] > solved[best]) {
			best = m
		}
	}
	return best
}

// sections groups rows by split and budget mode, in the order of the table.
func sections(rows []eval.Row) [][]eval.Row {
	var out [][]eval.Row
	for _, r := range rows {
		if n := len(out); n > 0 && out[n-1][0].Split == r.Split && out[n-1][0].Budget == r.Budget {
			out[n-1] = append(out[n-1], r)
			continue
		}
		out = append(out, []eval.Row{r})
	}
	return out
}

// best is the row with the highest success among those that want keeps, the cheaper of two equal ones; nil without any.
func best(rows []eval.Row, want func(method string) bool) *eval.Row {
	var out *eval.Row
	for i := range rows {
		r := &rows[i]
		if !want(r.Method) {
			continue
		}
		if out == nil || r.Get("success_rate").Value > out.Get("success_rate").Value ||
			r.Get("success_rate").Value == out.Get("success_rate").Value && r.Get("mean_cost").Value < out.Get("mean_cost").Value {
			out = r
		}
	}
	return out
}

func above(a, b *eval.Row) string {
	if a.Get("success_rate").Value > b.Get("success_rate").Value {
		return "above"
	}
	return "not above"
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

// BaselineFindings says what the baselines' rows show.
func BaselineFindings(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	rows, err := e.rows(ctx, e.IsBaseline)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, sec := range sections(rows) {
		if line := e.ofRules(sec); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return text("This suite has no scripted baseline beside the oracle.\n"), nil
	}
	return bullets(lines), nil
}

// ofRules says what the scripted rows of a section show; empty without a fixed rule or without the oracle.
func (e view) ofRules(sec []eval.Row) string {
	b, solves := e.bestRule(sec)
	o := best(sec, func(m string) bool { return m == stage.Oracle })
	if b == nil || o == nil {
		return ""
	}
	line := fmt.Sprintf("%s, %s budget: no fixed rule solves any task;", b.Split, b.Budget)
	if solves {
		line = fmt.Sprintf("%s, %s budget: the best fixed rule is %s with %s of the tasks solved at a mean cost of %s;", b.Split, b.Budget, b.Method,
			percent(b.Get("success_rate").Value), number(b.Get("mean_cost"), 2, false))
	}
	line += fmt.Sprintf(" the oracle solves %s at %s.", percent(o.Get("success_rate").Value), number(o.Get("mean_cost"), 2, false))
	if p := best(sec, func(m string) bool { return m == stage.RuleParser }); p != nil {
		line += fmt.Sprintf(" rule_parser, the hand-written parser of this suite's wordings, solves %s at %s.", percent(p.Get("success_rate").Value), number(p.Get("mean_cost"), 2, false))
	}
	for i := range sec {
		if r := &sec[i]; r.Method == "always_all_tools" && r.Get("mean_cost").Value > 0 {
			line += fmt.Sprintf(" Calling every tool costs %.1f times what the oracle spends and solves %s.", r.Get("mean_cost").Value/o.Get("mean_cost").Value, percent(r.Get("success_rate").Value))
		}
	}
	return line
}

// againstRules sets a learned row against the scripted ones.
func (e view) againstRules(l *eval.Row, sec []eval.Row) (line string) {
	if b, solves := e.bestRule(sec); b != nil && !solves {
		line = " No fixed rule solves any."
	} else if b != nil {
		line = fmt.Sprintf(" This is %s the best fixed rule, %s with %s.", above(l, b), b.Method, number(b.Get("success_rate"), 3, true))
	}
	if p := best(sec, func(m string) bool { return m == stage.RuleParser }); p != nil {
		line += fmt.Sprintf(" The hand-written parser of this suite's wordings, rule_parser, has %s.", number(p.Get("success_rate"), 3, true))
	}
	return line
}

// Evaluation trains and plays every policy of the profile as far as that is still to do, writes the report, and shows
// the results table. Pictures are left in the run folder.
func Evaluation(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	for _, work := range []func(context.Context) error{e.Baselines, e.Train, e.Evaluate, e.Report} {
		if err := work(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := e.rows(ctx, nil)
	if err != nil {
		return nil, err
	}
	return e.resultsGrid(rows), nil
}

// Sampled shows the sampled rows of the results table, in every budget mode that was sampled in: what the policies do sometimes, beside
// what they do greedily.
func Sampled(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	c, _, err := e.collect(ctx, nil)
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for _, r := range eval.Table(c, e.EvalOptions()) {
		if r.Decoding == "greedy" {
			continue
		}
		lines = append(lines, []string{r.Split, r.Budget, fmt.Sprintf("%g", r.Temperature), r.Method, fmt.Sprint(r.Tasks), fmt.Sprint(r.Seeds), r.Get("pass_at_1").Text(3), fmt.Sprint(r.K), r.Get("pass_at_k").Text(3),
			fmt.Sprint(r.PassKTasks), r.Get("mean_cost").Text(2), r.Get("cost_ratio").Text(2)})
	}
	if len(lines) == 0 {
		return text("Nothing was sampled: eval.sampled_budget_modes names no budget mode.\n"), nil
	}
	return text("%s\nIntervals as above. Tasks with fewer than k attempts are left out of pass@k; \"tasks of it\" says how many were left in.\n",
		grid(4, []string{"split", "budget", "temperature", "method", "tasks", "seeds", "pass@1", "k", "pass@k", "tasks of it", "cost", "cost / optimal"}, lines)), nil
}

// Comparisons compares every learned policy with the one that it was trained from, on the same tasks.
func Comparisons(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	all, err := e.compareAll(ctx)
	if err != nil {
		return nil, err
	}
	var out [][]string
	for i := range all {
		c := &all[i]
		out = append(out, []string{c.Later.Split, c.Later.Budget, c.Later.Method, c.Baseline.Method, fmt.Sprint(c.Tasks), c.Difference[eval.MetricIndex("success_rate")].Signed(3), c.Verdict("success_rate"),
			fmt.Sprint(len(c.Gained)), fmt.Sprint(len(c.Lost)), fmt.Sprintf("%.3g", c.McNemarP), c.Difference[eval.MetricIndex("mean_cost")].Signed(2)})
	}
	if len(out) == 0 {
		return text("This profile trains one policy only: there is nothing to compare.\n"), nil
	}
	return text("%s", grid(4, []string{"split", "budget", "method", "against", "tasks", "success added", "verdict", "tasks gained", "tasks lost", "p (McNemar)", "cost added"}, out)), nil
}

// compareAll compares each trained policy with the one it started from, both played greedily.
func (e view) compareAll(ctx context.Context) ([]eval.Comparison, error) {
	c, _, err := e.collect(ctx, nil)
	if err != nil {
		return nil, err
	}
	return eval.ComparePairs(c, e.TrainingSteps(), e.EvalOptions(), func(k eval.Key) bool { return k.Decoding == "greedy" })
}

// Routing shows which tools the headline policy calls for each gold combination, and which calls it wastes.
func Routing(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	file, err := e.MadeNow(".", "routing.md")
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, calls, _ := strings.Cut(string(b), "\n## ") // the counts of the matrix are in the picture
	return []Shown{{Picture: e.Run.Path("routing_matrix.png")}, {Markdown: "### " + calls}}, nil
}

var pageLink = regexp.MustCompile(`\]\([a-z]+_\d+\.md\)`)

// Trajectories lists the diagnosed episodes of the headline policy and shows the first solved and the first failed one
// in full.
func Trajectories(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	file, err := e.MadeNow(".", "trajectories/README.md")
	if err != nil {
		return nil, err
	}
	index, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// The pages are in the run folder; a notebook that is read elsewhere must not link there.
	out := text("%s", deeper(pageLink.ReplaceAllString(string(index), "]")))
	for _, name := range []string{"solved_1.md", "failed_1.md"} {
		b, err := os.ReadFile(e.Run.Path("trajectories", name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, text("%s", deeper(string(b)))...)
	}
	return out, nil
}

// deeper moves the headings of a page two levels down, so that it can stand below a heading of a notebook. Fenced blocks
// hold JSON and observations, whose lines may begin with anything: only lines outside of them are headings.
func deeper(page string) string {
	lines := strings.Split(page, "\n")
	fence := ""
	for i, l := range lines {
		switch {
		case fence == "" && strings.HasPrefix(l, "```"):
			fence = l[:len(l)-len(strings.TrimLeft(l, "`"))]
		case fence != "" && l == fence:
			fence = ""
		case fence == "" && strings.HasPrefix(l, "#"):
			lines[i] = "##" + l
		}
	}
	return strings.Join(lines, "\n")
}

// EvaluationFindings says what the results of the learned policies show, against the baselines and their parents.
func EvaluationFindings(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	rows, err := e.rows(ctx, nil)
	if err != nil {
		return nil, err
	}
	learned := func(m string) bool { return !e.IsBaseline(m) }
	var lines []string
	for _, sec := range sections(rows) {
		l := best(sec, learned)
		if l == nil {
			continue
		}
		line := fmt.Sprintf("%s, %s budget: no learned policy solves a task.", l.Split, l.Budget)
		if l.Get("success_rate").Value > 0 {
			line = fmt.Sprintf("%s, %s budget: the best learned policy is %s with a success of %s, its solved tasks at %s times the optimal cost.", l.Split, l.Budget, l.Method,
				number(l.Get("success_rate"), 3, true), number(l.Get("cost_ratio"), 2, false))
		}
		line += e.againstRules(l, sec)
		lines = append(lines, line)
	}
	all, err := e.compareAll(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		lines = append(lines, all[i].Sentence())
	}
	for _, r := range rows {
		var own []string
		for i, v := range r.Own {
			if !math.IsNaN(v.Value) {
				own = append(own, e.Definition.Columns[i].Title+" "+number(v, 3, true))
			}
		}
		if learned(r.Method) && len(own) > 0 {
			lines = append(lines, fmt.Sprintf("%s on %s: %s.", r.Method, r.Split, strings.Join(own, ", ")))
		}
	}
	if len(lines) == 0 {
		return text("No learned policy was evaluated in this profile.\n"), nil
	}
	return bullets(lines), nil
}
