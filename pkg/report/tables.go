package report

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/table"
)

// missing stands for a value that is not defined: no episode was solved, or nothing was measured.
const missing = "-"

func decimals(v float64, n int) string { return eval.Decimals(v, n) }

func pValue(p float64) string {
	if p < 1e-4 {
		return "<0.0001"
	}
	return decimals(p, 4)
}

// markdownTable renders a table whose first left columns are texts. Methods, models and tasks are named by users: their texts are escaped.
func markdownTable(left int, header []string, lines [][]string) string {
	out := &table.Table{Header: escaped(header), Left: left}
	for _, l := range lines {
		out.Add(escaped(l)...)
	}
	return out.Markdown()
}

func escaped(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = table.Plain(c)
	}
	return out
}

// section is the part of a table that shares suite, split, budget mode, decoding and temperature.
func section(k eval.Key) string {
	s := fmt.Sprintf("%s, %s budget, %s", k.Split, k.Budget, k.Decoding)
	if k.Temperature != 0 {
		s += fmt.Sprintf(" (temperature %s)", eval.Number(k.Temperature))
	}
	return s
}

// howIntervals says below a title how the intervals of a table are made.
func howIntervals(level float64) string {
	return fmt.Sprintf("In brackets %.0f%% intervals: bootstrap over tasks, and over training seeds with them where a row has several (few seeds give wide ones, and still too narrow); where every task gives the same share, the exact interval of Clopper and Pearson for so many tasks.", 100*level)
}

// resultsMarkdown is the results table for people: a section a split, budget mode and decoding.
func resultsMarkdown(title string, rows []eval.Row, own []eval.Column, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s `-` is not defined (no episode was solved). All columns with their intervals are in `results_table.csv`.\n", table.Plain(title), howIntervals(level))
	header := append([]string{"method", "model", "tasks", "seeds"}, valueTitles(own)...)
	for from := 0; from < len(rows); {
		to := from
		var lines [][]string
		for to < len(rows) && section(rows[to].Key) == section(rows[from].Key) {
			r := &rows[to]
			lines = append(lines, append([]string{r.Method, r.Model, strconv.Itoa(r.Tasks), strconv.Itoa(r.Seeds)}, values(r)...))
			to++
		}
		fmt.Fprintf(&b, "\n## %s\n\n", table.Plain(section(rows[from].Key)))
		b.WriteString(markdownTable(2, header, lines))
		from = to
	}
	b.WriteString("\n")
	for _, m := range eval.Metrics {
		fmt.Fprintf(&b, "- **%s** (`%s`): %s.\n", m.Title, m.Name, m.Doc)
	}
	for _, c := range own {
		if c.Doc != "" {
			fmt.Fprintf(&b, "- **%s** (`%s`): %s.\n", cmp.Or(c.Title, c.Name), c.Name, c.Doc)
		}
	}
	b.WriteString("- **k**, **tasks of pass@k** (`pass_at_k_tasks`): the k of pass@k, and the tasks with so many attempts; the others are left out of it.\n")
	trainedMarkdown(&b, rows)
	return b.Bytes()
}

// valueTitles are the columns of values.
func valueTitles(own []eval.Column) []string {
	var out []string
	for _, m := range eval.Metrics {
		out = append(out, m.Title)
		if m.Name == "pass_at_k" {
			out = append(out, "k", "tasks of pass@k")
		}
	}
	for _, c := range own {
		out = append(out, cmp.Or(c.Title, c.Name))
	}
	return out
}

// values returns the cells of a row: success with its interval, the other metrics without, and beside pass@k its k and its number of tasks.
func values(r *eval.Row) []string {
	var out []string
	for i, v := range r.Values {
		if i == 0 {
			out = append(out, v.Text(3))
		} else {
			out = append(out, decimals(v.Value, 3))
		}
		if eval.Metrics[i].Name == "pass_at_k" {
			out = append(out, strconv.Itoa(r.K), strconv.Itoa(r.PassKTasks))
		}
	}
	for _, v := range r.Own {
		out = append(out, decimals(v.Value, 3))
	}
	return out
}

// trainingTitles are the columns of trainingCells.
var trainingTitles = []string{"training seeds", "demonstrations", "worlds of demonstrations", "episodes", "worlds of episodes", "trained tokens", "processed tokens", "time (s)"}

// trainingCells say what a learned row was trained on and what that cost.
func trainingCells(t *eval.Training) []string {
	count := func(n int64) string {
		if n == 0 {
			return missing
		}
		return strconv.FormatInt(n, 10)
	}
	worlds := func(seeds []uint64) string {
		if len(seeds) == 0 {
			return missing
		}
		return strconv.Itoa(len(seeds)) + ": " + seedList(seeds)
	}
	return []string{seedList(t.Seeds), count(t.Demonstrations), worlds(t.DemoWorlds), count(t.Episodes), worlds(t.RolloutWorlds), count(t.Tokens), count(t.Processed), decimals(t.WallSeconds, 0)}
}

func seedList(seeds []uint64) string {
	var out []string
	for _, s := range seeds {
		out = append(out, strconv.FormatUint(s, 10))
	}
	return strings.Join(out, ", ")
}

// trainedMarkdown lists once for every learned method what its policies were trained on.
func trainedMarkdown(b *bytes.Buffer, rows []eval.Row) {
	var lines [][]string
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Training == nil {
			continue
		}
		l := append([]string{r.Method, r.Model}, trainingCells(r.Training)...)
		if k := strings.Join(l, "\x00"); !seen[k] {
			seen[k] = true
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n## What the learned rows were trained on\n\nAll steps of training before a policy are counted with it; over several training seeds the mean of one. Worlds are listed by their seeds. " +
		"Trained tokens carry loss, processed ones went through the model; both count a token once a pass. The time is measured.\n\n")
	b.WriteString(markdownTable(2, append([]string{"method", "model"}, trainingTitles...), lines))
}

// seedsMarkdown is the table of single seeds, the pooled row below the seeds that it is made of.
func seedsMarkdown(rows []eval.SeedRow, pooled []eval.Row, own []eval.Column, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Results by training seed\n\nWhat the rows of several seeds in `results_table.md` are pooled of: the intervals of one seed are over tasks alone, those of all are over seeds too. %s All columns are in `results_by_seed.csv`.\n", howIntervals(level))
	header := append([]string{"method", "model", "seed", "tasks"}, valueTitles(own)...)
	for from := 0; from < len(rows); {
		to := from
		var lines [][]string
		for to < len(rows) && section(rows[to].Key) == section(rows[from].Key) {
			r := &rows[to]
			lines = append(lines, append([]string{r.Method, r.Model, strconv.FormatUint(r.Seed, 10), strconv.Itoa(r.Tasks)}, values(&r.Row)...))
			to++
			if to == len(rows) || rows[to].Key != r.Key {
				for i := range pooled {
					if all := &pooled[i]; all.Key == r.Key {
						lines = append(lines, append([]string{r.Method, r.Model, fmt.Sprintf("all %d", all.Seeds), strconv.Itoa(all.Tasks)}, values(all)...))
					}
				}
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\n", table.Plain(section(rows[from].Key)))
		b.WriteString(markdownTable(2, header, lines))
		from = to
	}
	return b.Bytes()
}

// strataMarkdown is a table of success, cost per solved and cost ratio with the strata side by side.
func strataMarkdown(title string, strata []eval.Stratum, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nSuccess rate, mean cost of the solved episodes, cost over optimal, calls. %s\n", table.Plain(title), howIntervals(level))
	for from := 0; from < len(strata); {
		to := from
		var lines [][]string
		for to < len(strata) && section(strata[to].Key) == section(strata[from].Key) {
			s := &strata[to]
			lines = append(lines, []string{s.Method, s.Model, s.Name, strconv.Itoa(s.Tasks), s.Get("success_rate").Text(3),
				decimals(s.Get("mean_cost_per_solved").Value, 3), decimals(s.Get("cost_ratio").Value, 3), decimals(s.Get("calls_per_task").Value, 2)})
			to++
		}
		fmt.Fprintf(&b, "\n## %s\n\n", table.Plain(section(strata[from].Key)))
		b.WriteString(markdownTable(3, []string{"method", "model", strings.ReplaceAll(strata[from].Dimension, "_", " "), "tasks", "success", "cost per solved", "cost / optimal", "calls"}, lines))
		from = to
	}
	return b.Bytes()
}

// strataTable has every metric of every stratum.
func strataTable(strata []eval.Stratum) *table.Table {
	header := []string{"suite", "method", "model", "split", "budget", "decoding", "temperature", "stratum", "value", "n_tasks", "k", "pass_at_k_tasks"}
	for _, m := range eval.Metrics {
		header = append(header, m.Name, m.Name+"_lo", m.Name+"_hi")
	}
	out := table.New(0, header...)
	for _, s := range strata {
		l := []string{s.Suite, s.Method, s.Model, s.Split, s.Budget, s.Decoding, eval.Number(s.Temperature), s.Dimension, s.Name, strconv.Itoa(s.Tasks), strconv.Itoa(s.K), strconv.Itoa(s.PassKTasks)}
		for _, v := range s.Values {
			l = append(l, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
		}
		out.Add(l...)
	}
	return out
}

// latencyQuantiles are the measured times of a row, in the order of the columns.
func latencyQuantiles(r *eval.Row) []eval.Interval {
	l := &r.Latency
	return []eval.Interval{l.ModelP50, l.ModelP95, l.ToolP50, l.ToolP95, l.TotalP50, l.TotalP95}
}

// latencyMarkdown shows the measured times. They stand apart from the results, which do not depend on a clock.
func latencyMarkdown(rows []eval.Row, level float64) []byte {
	var lines [][]string
	for i := range rows {
		r := &rows[i]
		l := []string{r.Method, r.Model, section(r.Key)}
		for _, v := range latencyQuantiles(r) {
			l = append(l, seconds(v.Value))
		}
		lines = append(lines, l)
	}
	return fmt.Appendf(nil, "# Latency\n\nSeconds of an episode, summed over its turns: of the model, and of the tools (simulated latency included). Nearest-rank quantiles over episodes, %.0f%% bootstrap intervals. Measured: they differ from run to run.\n\n%s",
		100*level, markdownTable(3, []string{"method", "model", "rows", "model p50", "model p95", "tools p50", "tools p95", "total p50", "total p95"}, lines))
}

// latencyTable is the same with the intervals.
func latencyTable(rows []eval.Row) *table.Table {
	header := []string{"suite", "method", "model", "split", "budget", "decoding", "temperature"}
	for _, n := range []string{"model_p50_s", "model_p95_s", "tool_p50_s", "tool_p95_s", "total_p50_s", "total_p95_s"} {
		header = append(header, n, n+"_lo", n+"_hi")
	}
	out := table.New(0, header...)
	for i := range rows {
		r := &rows[i]
		l := []string{r.Suite, r.Method, r.Model, r.Split, r.Budget, r.Decoding, eval.Number(r.Temperature)}
		for _, v := range latencyQuantiles(r) {
			l = append(l, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
		}
		out.Add(l...)
	}
	return out
}

func seconds(v float64) string {
	switch {
	case math.IsNaN(v):
		return missing
	case v == 0:
		return "0"
	case v < 1e-3:
		return fmt.Sprintf("%.0f µs", v*1e6)
	case v < 1:
		return fmt.Sprintf("%.1f ms", v*1e3)
	}
	return fmt.Sprintf("%.2f s", v)
}

// familiesMarkdown is what a set chose in each family, and the use of each tool.
func familiesMarkdown(choices []eval.Choice, tools []eval.ToolUse, of string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Routing of %s\n\nEach line is the tasks whose cheapest path calls this tool of a family and not the other one. An episode called the tool alone, the other one alone, both, or neither; failed calls count.\n\n", table.Plain(of))
	var lines [][]string
	for _, c := range choices {
		lines = append(lines, []string{c.Family, c.Gold, strconv.Itoa(c.Tasks), strconv.Itoa(c.Right), strconv.Itoa(c.Other), strconv.Itoa(c.Both), strconv.Itoa(c.Neither), fmt.Sprintf("%.3f", c.Accuracy())})
	}
	b.WriteString(markdownTable(2, []string{"family", "gold tool", "tasks", "gold alone", "other alone", "both", "neither", "right choice"}, lines))
	b.WriteString(callsByTool(tools))
	return b.Bytes()
}

// choicesMarkdown explains the table of all methods' choices.
func choicesMarkdown(t *table.Table) []byte {
	return []byte("# Choices by family\n\nEach line is a policy on the tasks whose cheapest path calls this tool of a family and not the other one. An episode called the tool alone, the other one alone, both, or neither; failed calls count. Right choice is the share that called the gold tool alone; right and solved, the share that also ended in a verified answer.\n\n" + t.Markdown())
}

// routingMarkdown is the confusion matrix of a set and the use of each tool.
func routingMarkdown(m eval.Confusion, tools []eval.ToolUse, of string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Routing of %s\n\nRows: gold combination. Columns: the tools an episode called, failed calls included. %.1f%% of the episodes called exactly the gold combination.\n\n", table.Plain(of), 100*m.Accuracy())
	lines := make([][]string, len(m.Gold))
	for i, g := range m.Gold {
		lines[i] = []string{g}
		for _, n := range m.Count[i] {
			lines[i] = append(lines[i], strconv.Itoa(n))
		}
	}
	b.WriteString(markdownTable(1, append([]string{"gold \\ used"}, m.Used...), lines))
	b.WriteString(callsByTool(tools))
	return b.Bytes()
}

func callsByTool(tools []eval.ToolUse) string {
	var b strings.Builder
	b.WriteString("\n## Calls by tool\n\nWasted: beyond the gold path. Saved: gold calls that solved episodes did without; missing: those that failed episodes did not make. Avoided: episodes that neither needed nor called the tool, against calling every tool.\n\n")
	var lines [][]string
	for _, t := range tools {
		lines = append(lines, []string{t.Tool, strconv.Itoa(t.Gold), strconv.Itoa(t.Used), strconv.Itoa(t.Wasted), t.WastedCost.String(),
			strconv.Itoa(t.Saved), strconv.Itoa(t.Missing), strconv.Itoa(t.Avoided), strconv.Itoa(t.Failed)})
	}
	b.WriteString(markdownTable(1, []string{"tool", "gold calls", "calls", "wasted", "cost of wasted", "saved", "missing", "avoided", "failed"}, lines))
	return b.String()
}

// comparisonsMarkdown lists paired comparisons, each of a later policy with its baseline. It names a gain or a loss only if the interval
// excludes 0.
func comparisonsMarkdown(cs []eval.Comparison, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Paired comparisons\n\nEach method against the one that it is measured by, on the tasks that both played: the difference is what the method has more, with its paired %.0f%% bootstrap interval over tasks (and over training seeds with them). "+
		"Where no task differs the interval of a share is the exact bound of what so many tasks would not have shown (Clopper and Pearson); a cost has none then. The verdict is on success and says a gain or a loss only where the interval excludes 0. "+
		"Lost and gained: tasks that one solves, in at least half of its attempts, and the other does not; p: exact McNemar test of these counts alone. Gap closed: share of the other's cost above the optimum that the method removes on the tasks both solve.\n\n", 100*level)
	var lines [][]string
	for i := range cs {
		c := &cs[i]
		lines = append(lines, []string{c.Later.Method, c.Baseline.Method, section(c.Later), strconv.Itoa(c.Tasks),
			c.Difference[eval.MetricIndex("success_rate")].Signed(3), c.Verdict("success_rate"), c.Difference[eval.MetricIndex("mean_cost")].Signed(3),
			c.Difference[eval.MetricIndex("mean_cost_per_solved")].Signed(3), strconv.Itoa(len(c.Gained)), strconv.Itoa(len(c.Lost)), pValue(c.McNemarP),
			strconv.Itoa(c.BothSolved), decimals(c.CostLater, 4), decimals(c.CostBaseline, 4), decimals(c.OptimalCost, 4), decimals(c.GapClosed, 2)})
	}
	b.WriteString(markdownTable(3, []string{"method", "against", "rows", "tasks", "success added", "verdict", "cost added", "cost per solved added", "gained", "lost", "p", "both solve", "cost", "cost of the other", "optimal", "gap closed"}, lines))
	return b.Bytes()
}
