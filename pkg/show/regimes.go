package show

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/table"
)

// Regimes shows how reinforcement, or further imitation, changes each kind of start. The figures are of this run if it trained all regimes,
// and else of the committed results; a sentence says which.
func Regimes(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	if e.Definition.Regimes == nil {
		return text("The suite %s has no regimes.\n", e.Options.Suite), nil
	}
	rows, from, err := e.regimeRows()
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for _, r := range e.Definition.Regimes {
		line := []string{r.Name}
		for _, m := range []string{r.Start, r.After} {
			line = append(line, m)
			if row, ok := rows[m]; ok {
				line = append(line, row.success.Text(3), row.rate.Text(3), row.sampled.Text(3))
			} else {
				line = append(line, "-", "-", "-")
			}
		}
		lines = append(lines, line)
	}
	rate := e.Definition.HistoryColumn.Title
	out := text("%s\n%s Split %s, greedy unless it says sampled; intervals as in the results.\n", grid(1, []string{"regime", "start", "success", rate, rate + ", sampled", "after", "success", rate, rate + ", sampled"}, lines), from, e.Splits()[0])
	if picture := filepath.Join(e.Results, "history.png"); strings.HasPrefix(from, "Committed") {
		if _, err := os.Stat(picture); err == nil {
			out = append(out, text("The %s on the watched tasks over the iterations of the committed runs:\n", rate)...)
			out = append(out, Shown{Picture: picture})
		}
	}
	return out, nil
}

// Reference shows the reported figures beside which the regimes stand, and says that nothing here reproduced them.
func Reference(_ context.Context, of *stage.Env) ([]Shown, error) {
	d := of.Definition
	if d.Reference.Lines == nil {
		return text("The suite %s has no reference figures.\n", d.Name), nil
	}
	regimes := ""
	if d.Regimes != nil {
		var lines [][]string
		for _, r := range d.Regimes {
			lines = append(lines, []string{r.Name, r.Reference})
		}
		regimes = grid(2, []string{"regime", "reference"}, lines) + "\n"
	}
	return text("**Reference figures, not reproduced**: an earlier system of this kind reported them, with a model, a tokenizer and tasks of its own. They say what was expected here, and nothing about this project's runs.\n\n%s\n%s%s\n",
		grid(1, d.Reference.Header, d.Reference.Lines), regimes, d.Reference.Note), nil
}

// regimeRow holds the figures of a method in the table of regimes.
type regimeRow struct{ success, rate, sampled eval.Interval }

// regimeRows are the rows of the methods of all regimes, and a sentence that says where they are from.
func (e view) regimeRows() (map[string]regimeRow, string, error) {
	trained := true
	for _, r := range e.Definition.Regimes {
		for _, m := range []string{r.Start, r.After} {
			trained = trained && slices.Contains(e.Methods(), m)
		}
	}
	file, from := filepath.Join(e.Results, "results_table.csv"), ""
	if trained {
		var err error
		if file, err = e.MadeNow(".", "results_table.csv"); err != nil {
			return nil, "", err
		}
		from = "Of this run."
	} else {
		var m run.Manifest
		if err := run.ReadJSON(filepath.Join(e.Results, "manifest.json"), &m); err != nil {
			return nil, "", fmt.Errorf("the profile %s does not train the regimes, and there are no committed results that have them: %w", e.Options.Profile, err)
		}
		from = fmt.Sprintf("Committed results (this profile does not train all regimes): profile %s, training seeds %s, revision %s.", m.Profile, seedList(m.Seeds), m.Revision)
	}
	rows, err := e.tableRows(file)
	return rows, from, err
}

// tableRows reads the greedy rows of the first evaluated split and the first budget mode from a results_table.csv, by method.
func (e view) tableRows(file string) (map[string]regimeRow, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := table.ReadCSV(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: make the report again", file, err)
	}
	out := map[string]regimeRow{}
	for _, line := range t.Lines {
		value := func(column string) float64 {
			if v, err := strconv.ParseFloat(t.Cell(line, column), 64); err == nil {
				return v
			}
			return math.NaN()
		}
		interval := func(column, ends string) eval.Interval {
			return eval.Interval{Value: value(column), Lo: value(ends + "_lo"), Hi: value(ends + "_hi")}
		}
		if t.Cell(line, "split") == e.Splits()[0] && t.Cell(line, "budget") == e.Config.Eval.BudgetModes[0] && t.Cell(line, "decoding") == "greedy" {
			c := e.Definition.HistoryColumn.Column
			out[t.Cell(line, "method")] = regimeRow{interval("success_rate", "success"), interval(c, c), interval(c+"_sampled", c+"_sampled")}
		}
	}
	return out, nil
}
