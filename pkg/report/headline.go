package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/table"
)

// costSummary holds the columns beside success for a suite that names none.
var costSummary = []eval.TitledColumn{{Column: "mean_cost", Title: "mean cost"}, {Column: "cost_ratio", Title: "cost / optimal"},
	{Column: "success_per_unit_cost", Title: "success / cost"}, {Column: "calls_per_task", Title: "calls"}}

// Headline renders the greedy rows of one budget mode of a results_table.csv as Markdown, for the README: success, and the columns that a suite
// names; nil are cost and calls. A second table says what the learned rows were trained on.
func Headline(results []byte, budget string, columns []eval.TitledColumn) (string, error) {
	all, err := table.ReadCSV(results)
	if err != nil {
		return "", fmt.Errorf("results_table.csv: %w", err)
	}
	if columns == nil {
		columns = costSummary
	}
	for _, c := range columns {
		if !all.Has(c.Column) {
			return "", fmt.Errorf("results_table.csv: no column %s, which the suite's summary asks for", c.Column)
		}
	}
	header := []string{"method", "split", "seeds", "success"}
	for _, c := range columns {
		header = append(header, c.Title)
	}
	out := table.New(len(header), header...)
	trained := table.New(9, "method", "training seeds", "demonstrations", "of worlds", "episodes", "in worlds", "trained tokens", "processed tokens", "minutes")
	for _, line := range all.Lines {
		get := func(column string) string { return all.Cell(line, column) }
		if get("budget") != budget || get("decoding") != "greedy" {
			continue
		}
		cells := []string{get("method"), get("split"), get("seeds"), fmt.Sprintf("%s (%s to %s)", threeDecimals(get("success_rate")), threeDecimals(get("success_lo")), threeDecimals(get("success_hi")))}
		for _, c := range columns {
			cells = append(cells, threeDecimals(get(c.Column)))
		}
		out.Add(cells...)
		seen := slices.ContainsFunc(trained.Lines, func(l []string) bool { return l[0] == get("method") })
		if all.Has("train_demonstrations") && get("train_tokens") != "" && !seen {
			trained.Add(trainedOn(get)...)
		}
	}
	if len(trained.Lines) == 0 {
		return out.Markdown(), nil
	}
	return out.Markdown() + "\nWhat the learned rows were trained on, all steps before included, a training seed:\n\n" + trained.Markdown(), nil
}

// trainedOn are the cells of what a learned row was trained on; get reads a column of the row.
func trainedOn(get func(column string) string) []string {
	count := func(column string) string {
		if v := get(column); v != "" && v != "0" {
			return v
		}
		return missing
	}
	minutes := missing
	if s, err := strconv.ParseFloat(get("train_wall_s"), 64); err == nil {
		minutes = strconv.FormatFloat(s/60, 'f', 1, 64)
	}
	return []string{get("method"), strings.ReplaceAll(cmp.Or(get("train_seeds"), missing), " ", ", "), count("train_demonstrations"), count("train_demo_worlds"), count("train_episodes"),
		count("train_rollout_worlds"), count("train_tokens"), count("train_processed_tokens"), minutes}
}

// threeDecimals rounds a number of a CSV file. Other texts stay, and an empty one is missing.
func threeDecimals(cell string) string {
	if cell == "" {
		return missing
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return cell
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}
