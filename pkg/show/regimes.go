package show

import (
	"context"
	"encoding/csv"
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
)

// Regimes shows what reinforcement, or more imitation, makes of each kind of start: from this run where it trained all of them, else
// from the committed results, and it says so.
func Regimes(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	if e.Regimes() == nil {
		return text("The suite %s has no regimes.\n", e.Options.Suite), nil
	}
	rows, from, err := e.regimeRows()
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for _, r := range e.Regimes() {
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
	rate := e.Rate().Title
	out := text("%s\n%s Split %s, greedy unless it says sampled; intervals as in the results.\n", grid(1, []string{"regime", "start", "success", rate, rate + ", sampled", "after", "success", rate, rate + ", sampled"}, lines), from, e.Splits()[0])
	if picture := filepath.Join(e.Results(), "history.png"); strings.HasPrefix(from, "Committed") {
		if _, err := os.Stat(picture); err == nil {
			out = append(out, text("The %s on the watched tasks over the iterations of the committed runs:\n", rate)...)
			out = append(out, Shown{Picture: picture})
		}
	}
	return out, nil
}

// Reference shows the figures that the regimes are set up against, as what they are.
func Reference(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	if e.Regimes() == nil {
		return text("The suite %s has no reference figures.\n", e.Options.Suite), nil
	}
	var lines [][]string
	for _, r := range e.Regimes() {
		lines = append(lines, []string{r.Name, r.Reference})
	}
	return text("**Reference figures, not reproduced**: an earlier system of this kind reported them, with a model, a tokenizer and tasks of its own. They say what was expected here, and nothing about this project's runs.\n\n%s\n%s\n"+
		"%s\n",
		grid(1, e.Reference().Header, e.Reference().Lines), grid(2, []string{"regime", "reference"}, lines), e.Reference().Note), nil
}

// regimeRow is what a regime's table has of a method.
type regimeRow struct{ success, rate, sampled eval.Interval }

// regimeRows are the rows of the methods of all regimes, and a sentence that says where they are from.
func (e view) regimeRows() (map[string]regimeRow, string, error) {
	trained := true
	for _, r := range e.Regimes() {
		for _, m := range []string{r.Start, r.After} {
			trained = trained && slices.Contains(e.Methods(), m)
		}
	}
	file, from := filepath.Join(e.Results(), "results_table.csv"), ""
	if trained {
		var err error
		if file, err = e.MadeNow(".", "results_table.csv"); err != nil {
			return nil, "", err
		}
		from = "Of this run."
	} else {
		var m run.Manifest
		if err := run.ReadJSON(filepath.Join(e.Results(), "manifest.json"), &m); err != nil {
			return nil, "", fmt.Errorf("the profile %s does not train the regimes, and there are no committed results that have them: %w", e.Options.Profile, err)
		}
		from = fmt.Sprintf("Committed results (this profile does not train all regimes): profile %s, training seeds %s, revision %s.", m.Profile, stage.SeedList(m.Seeds), m.Revision)
	}
	rows, err := e.tableRows(file)
	return rows, from, err
}

// tableRows reads the greedy rows of the first evaluated split and the first budget mode from a results table.
func (e view) tableRows(file string) (map[string]regimeRow, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s is empty: make the report again", file)
	}
	at := map[string]int{}
	for i, name := range lines[0] {
		at[name] = i
	}
	out := map[string]regimeRow{}
	for _, l := range lines[1:] {
		cell := func(name string) string {
			if i, ok := at[name]; ok {
				return l[i]
			}
			return ""
		}
		value := func(name string) float64 {
			if v, err := strconv.ParseFloat(cell(name), 64); err == nil {
				return v
			}
			return math.NaN()
		}
		read := func(name, ends string) eval.Interval {
			return eval.Interval{Value: value(name), Lo: value(ends + "_lo"), Hi: value(ends + "_hi")}
		}
		if cell("split") == e.Splits()[0] && cell("budget") == e.Config.Eval.BudgetModes[0] && cell("decoding") == "greedy" {
			c := e.Rate().Column
			out[cell("method")] = regimeRow{read("success_rate", "success"), read(c, c), read(c+"_sampled", c+"_sampled")}
		}
	}
	return out, nil
}
