package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
)

// missing stands for a value that is not defined: no episode was solved, or nothing was measured.
const missing = "-"

func decimals(v float64, n int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
	}
	s := strconv.FormatFloat(v, 'f', n, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

func pValue(p float64) string {
	if p < 1e-4 {
		return "<0.0001"
	}
	return decimals(p, 4)
}

func withInterval(v eval.Interval, n int) string {
	s := decimals(v.Value, n)
	if s == missing || math.IsNaN(v.Lo) {
		return s
	}
	return fmt.Sprintf("%s [%s, %s]", s, decimals(v.Lo, n), decimals(v.Hi, n))
}

// table writes a markdown table; the first left columns are aligned left, the others right.
func table(b *bytes.Buffer, left int, header []string, lines [][]string) {
	write := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + cell(c) + " |")
		}
		b.WriteString("\n")
	}
	write(header)
	b.WriteString("|")
	for i := range header {
		if i < left {
			b.WriteString(" --- |")
		} else {
			b.WriteString(" ---: |")
		}
	}
	b.WriteString("\n")
	for _, l := range lines {
		write(l)
	}
}

// section is the part of a table that shares suite, split, budget mode, decoding and temperature.
func section(k eval.Key) string {
	s := fmt.Sprintf("%s, %s budget, %s", k.Split, k.Budget, k.Decoding)
	if k.Temperature != 0 {
		s += fmt.Sprintf(" (temperature %s)", eval.Number(k.Temperature))
	}
	return s
}

// resultsMarkdown is the results table for people: a section a split, budget mode and decoding.
func resultsMarkdown(title string, rows []eval.Row, own []eval.Column, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nValues in brackets are %.0f%% bootstrap intervals over tasks within seeds; `-` is not defined (no episode was solved). All columns with their intervals are in `results_table.csv`.\n", inline(title), 100*level)
	header := []string{"method", "model", "tasks", "seeds", "k"}
	for _, m := range eval.Metrics {
		header = append(header, m.Title)
	}
	for _, c := range own {
		header = append(header, orText(c.Title, c.Name))
	}
	trained := false
	for _, r := range rows {
		trained = trained || r.Training != nil
	}
	if trained {
		header = append(header, "training tokens", "training episodes", "training time (s)")
	}
	for from := 0; from < len(rows); {
		to := from
		var lines [][]string
		var notes []string
		for to < len(rows) && section(rows[to].Key) == section(rows[from].Key) {
			r := &rows[to]
			l := []string{r.Method, r.Model, strconv.Itoa(r.Tasks), strconv.Itoa(r.Seeds), strconv.Itoa(r.K)}
			for i, v := range r.Values {
				if i == 0 {
					l = append(l, withInterval(v, 3))
				} else {
					l = append(l, decimals(v.Value, 3))
				}
			}
			for _, v := range r.Own {
				l = append(l, decimals(v.Value, 3))
			}
			if trained {
				if t := r.Training; t != nil {
					l = append(l, strconv.FormatInt(t.Tokens, 10), strconv.FormatInt(t.Episodes, 10), decimals(t.WallSeconds, 0))
				} else {
					l = append(l, missing, missing, missing)
				}
			}
			if n := edgeNote(r, level); n != "" {
				notes = append(notes, n)
			}
			lines = append(lines, l)
			to++
		}
		fmt.Fprintf(&b, "\n## %s\n\n", inline(section(rows[from].Key)))
		table(&b, 2, header, lines)
		if len(notes) > 0 {
			fmt.Fprintf(&b, "\nA bootstrap interval has no width at 0 and 1; exact (Clopper-Pearson) bounds there, one attempt a task: %s.\n", strings.Join(notes, ", "))
		}
		from = to
	}
	b.WriteString("\n")
	for _, m := range eval.Metrics {
		fmt.Fprintf(&b, "- **%s** (`%s`): %s.\n", m.Title, m.Name, m.Doc)
	}
	return b.Bytes()
}

// edgeNote gives the bound that a bootstrap cannot: of a success rate of exactly 0 or 1.
func edgeNote(r *eval.Row, level float64) string {
	v := r.Get("success_rate").Value
	switch v {
	case 0:
		return fmt.Sprintf("%s at most %s", inline(r.Method), decimals(eval.ClopperPearson(0, r.Tasks, level).Hi, 3))
	case 1:
		return fmt.Sprintf("%s at least %s", inline(r.Method), decimals(eval.ClopperPearson(r.Tasks, r.Tasks, level).Lo, 3))
	}
	return ""
}

// strataMarkdown is a table of success, cost per solved and cost ratio with the strata side by side.
func strataMarkdown(title string, strata []eval.Stratum, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nSuccess rate with its %.0f%% bootstrap interval, mean cost of the solved episodes, cost over optimal, calls.\n", inline(title), 100*level)
	for from := 0; from < len(strata); {
		to := from
		var lines [][]string
		for to < len(strata) && section(strata[to].Key) == section(strata[from].Key) {
			s := &strata[to]
			lines = append(lines, []string{s.Method, s.Model, s.Name, strconv.Itoa(s.Tasks), withInterval(s.Get("success_rate"), 3),
				decimals(s.Get("mean_cost_per_solved").Value, 3), decimals(s.Get("cost_ratio").Value, 3), decimals(s.Get("calls_per_task").Value, 2)})
			to++
		}
		fmt.Fprintf(&b, "\n## %s\n\n", inline(section(strata[from].Key)))
		table(&b, 3, []string{"method", "model", strings.ReplaceAll(strata[from].Dimension, "_", " "), "tasks", "success", "cost per solved", "cost / optimal", "calls"}, lines)
		from = to
	}
	return b.Bytes()
}

// strataCSV has every metric of every stratum.
func strataCSV(strata []eval.Stratum) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	header := []string{"suite", "method", "model", "split", "budget", "decoding", "temperature", "stratum", "value", "n_tasks"}
	for _, m := range eval.Metrics {
		header = append(header, m.Name, m.Name+"_lo", m.Name+"_hi")
	}
	if err := w.Write(header); err != nil {
		return nil, err
	}
	for _, s := range strata {
		l := []string{s.Suite, s.Method, s.Model, s.Split, s.Budget, s.Decoding, eval.Number(s.Temperature), s.Dimension, s.Name, strconv.Itoa(s.Tasks)}
		for _, v := range s.Values {
			l = append(l, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
		}
		if err := w.Write(l); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// latencyTables are the measured times of the rows, apart from the results, which do not depend on a clock.
func latencyTables(rows []eval.Row, level float64) (md, table_ []byte, err error) {
	var m, c bytes.Buffer
	fmt.Fprintf(&m, "# Latency\n\nSeconds of an episode, summed over its turns: of the model, and of the tools (simulated latency included). Nearest-rank quantiles over episodes, %.0f%% bootstrap intervals. Measured: they differ from run to run.\n\n", 100*level)
	w := csv.NewWriter(&c)
	header := []string{"suite", "method", "model", "split", "budget", "decoding", "temperature"}
	for _, n := range []string{"model_p50_s", "model_p95_s", "tool_p50_s", "tool_p95_s", "total_p50_s", "total_p95_s"} {
		header = append(header, n, n+"_lo", n+"_hi")
	}
	if err := w.Write(header); err != nil {
		return nil, nil, err
	}
	var lines [][]string
	for _, r := range rows {
		l := []string{r.Method, r.Model, section(r.Key)}
		rec := []string{r.Suite, r.Method, r.Model, r.Split, r.Budget, r.Decoding, eval.Number(r.Temperature)}
		for _, v := range []eval.Interval{r.Latency.ModelP50, r.Latency.ModelP95, r.Latency.ToolP50, r.Latency.ToolP95, r.Latency.TotalP50, r.Latency.TotalP95} {
			l = append(l, seconds(v.Value))
			rec = append(rec, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
		}
		lines = append(lines, l)
		if err := w.Write(rec); err != nil {
			return nil, nil, err
		}
	}
	table(&m, 3, []string{"method", "model", "rows", "model p50", "model p95", "tools p50", "tools p95", "total p50", "total p95"}, lines)
	w.Flush()
	return m.Bytes(), c.Bytes(), w.Error()
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

// routingMarkdown is the confusion matrix of a set and the use of each tool.
func routingMarkdown(m eval.Confusion, tools []eval.ToolUse, of string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Routing of %s\n\nRows: gold combination. Columns: the tools an episode called, failed calls included. %.1f%% of the episodes called exactly the gold combination.\n\n", inline(of), 100*m.Accuracy())
	lines := make([][]string, len(m.Gold))
	for i, g := range m.Gold {
		lines[i] = []string{g}
		for _, n := range m.Count[i] {
			lines[i] = append(lines[i], strconv.Itoa(n))
		}
	}
	table(&b, 1, append([]string{"gold \\ used"}, m.Used...), lines)
	b.WriteString("\n## Calls by tool\n\nWasted: beyond the gold path. Saved: gold calls that solved episodes did without; missing: those that failed episodes did not make. Avoided: episodes that neither needed nor called the tool, against calling every tool.\n\n")
	lines = nil
	for _, t := range tools {
		lines = append(lines, []string{t.Tool, strconv.Itoa(t.Gold), strconv.Itoa(t.Used), strconv.Itoa(t.Wasted), t.WastedCost.String(),
			strconv.Itoa(t.Saved), strconv.Itoa(t.Missing), strconv.Itoa(t.Avoided), strconv.Itoa(t.Failed)})
	}
	table(&b, 1, []string{"tool", "gold calls", "calls", "wasted", "cost of wasted", "saved", "missing", "avoided", "failed"}, lines)
	return b.Bytes()
}

// comparisonsMarkdown lists paired comparisons; "improves" and "worsens" are said only where the interval excludes 0.
func comparisonsMarkdown(cs []eval.Comparison, level float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Paired comparisons\n\nB against A on the tasks that both played: difference B - A with its paired %.0f%% bootstrap interval. The verdict is on success and says improves or worsens only where the interval excludes 0. Lost and gained: tasks that one solves, in at least half of its attempts, and the other does not; p: exact McNemar test of these counts alone. Gap closed: share of A's cost above the optimum that B removes on the tasks both solve.\n\n", 100*level)
	var lines [][]string
	for i := range cs {
		c := &cs[i]
		verdict := "no difference shown"
		switch {
		case c.Improves("success_rate"):
			verdict = "improves"
		case c.Worsens("success_rate"):
			verdict = "worsens"
		}
		lines = append(lines, []string{c.A.Method, c.B.Method, section(c.A), strconv.Itoa(c.Tasks),
			withInterval(c.Difference[eval.MetricIndex("success_rate")], 3), verdict, withInterval(c.Difference[eval.MetricIndex("mean_cost")], 3),
			withInterval(c.Difference[eval.MetricIndex("mean_cost_per_solved")], 3), strconv.Itoa(len(c.Lost)), strconv.Itoa(len(c.Gained)), pValue(c.McNemarP),
			strconv.Itoa(c.BothSolved), decimals(c.CostA, 4), decimals(c.CostB, 4), decimals(c.OptimalCost, 4), decimals(c.GapClosed, 2)})
	}
	table(&b, 3, []string{"A", "B", "rows", "tasks", "success", "verdict", "cost", "cost per solved", "lost", "gained", "p", "both solve", "cost A", "cost B", "optimal", "gap closed"}, lines)
	return b.Bytes()
}
