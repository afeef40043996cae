package rl

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/train"
)

// History is the eval points of one run, in the order in which they were made.
type History struct {
	Recipe string
	Seed   uint64
	Points []EvalPoint
}

var historyColumns = []string{"iteration", "split", "temperature", "episodes"}

// HistoryCSV has a line for each eval point, and a column for each value that any point has, in the order of their first appearance. The cell
// is empty where a point lacks the value: there is no cost ratio, for example, where nothing was solved.
func HistoryCSV(points []EvalPoint) []byte { return historiesCSV([]History{{Points: points}}, false) }

// HistoriesCSV has the histories of several runs in one table: the columns of HistoryCSV after recipe and seed.
func HistoriesCSV(runs []History) []byte { return historiesCSV(runs, true) }

func historiesCSV(runs []History, named bool) []byte {
	var names []string
	for _, r := range runs {
		for _, p := range r.Points {
			for _, v := range p.Values {
				if !slices.Contains(names, v.Name) {
					names = append(names, v.Name)
				}
			}
		}
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	put := func(recipe, seed string, cells ...[]string) {
		line := slices.Concat(cells...)
		if named {
			line = append([]string{recipe, seed}, line...)
		}
		_ = w.Write(line) // a buffer takes everything
	}
	put("recipe", "seed", historyColumns, names)
	for _, r := range runs {
		for _, p := range r.Points {
			values := make([]string, len(names))
			for i, name := range names {
				if v, ok := p.Get(name); ok {
					values[i] = number(v)
				}
			}
			put(r.Recipe, fmt.Sprint(r.Seed), []string{fmt.Sprint(p.Iteration), p.Split, number(p.Temperature), fmt.Sprint(p.Episodes)}, values)
		}
	}
	w.Flush()
	return b.Bytes()
}

// ReadHistory reads what HistoryCSV wrote. Its errors name the line.
func ReadHistory(r io.Reader) ([]EvalPoint, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	n := len(historyColumns)
	if len(lines) == 0 || len(lines[0]) < n || !slices.Equal(lines[0][:n], historyColumns) {
		return nil, fmt.Errorf("a history begins with the columns %v", historyColumns)
	}
	var out []EvalPoint
	for i, line := range lines[1:] {
		p := EvalPoint{Split: line[1]}
		var bad error
		number := func(s string) float64 {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil && bad == nil {
				bad = fmt.Errorf("line %d: %q is not a number", i+2, s)
			}
			return v
		}
		p.Iteration, p.Temperature, p.Episodes = int(number(line[0])), number(line[2]), int(number(line[3]))
		for j, name := range lines[0][n:] {
			if s := line[n+j]; s != "" {
				p.Values = append(p.Values, train.Metric{Name: name, Value: number(s)})
			}
		}
		if bad != nil {
			return nil, bad
		}
		out = append(out, p)
	}
	return out, nil
}
