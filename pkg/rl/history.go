package stage

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/train"
)

// historyFile holds, in the folder of a run of reinforcement learning, what was seen on the watched splits over its
// iterations.
const historyFile = "history.csv"

// Look is what a policy in training did on a sample of a split after some iterations; 0 is where it started from.
type Look struct {
	Iteration   int            `json:"iteration"`
	Split       string         `json:"split"`
	Temperature float64        `json:"temperature"` // 0 is greedy
	Episodes    int            `json:"episodes"`
	Values      []train.Metric `json:"values"`
}

// Get returns one of the values.
func (l Look) Get(name string) (float64, bool) {
	for _, v := range l.Values {
		if v.Name == name {
			return v.Value, true
		}
	}
	return 0, false
}

var historyColumns = []string{"iteration", "split", "temperature", "episodes"}

// historyCSV has a line for each look and a column for each value that any of them has, in the order they first appear.
// A value that a look does not have (a cost ratio where nothing was solved) is left empty.
func historyCSV(looks []Look) []byte { return looksCSV([]reinforced{{looks: looks}}, false) }

// looksCSV is the histories of several runs in one table, with the recipe and the seed of each line before the columns of
// historyCSV; alone, these are left out.
func looksCSV(runs []reinforced, named bool) []byte {
	var names []string
	for _, r := range runs {
		for _, l := range r.looks {
			for _, v := range l.Values {
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
		for _, l := range r.looks {
			values := make([]string, len(names))
			for i, name := range names {
				if v, ok := l.Get(name); ok {
					values[i] = number(v)
				}
			}
			put(r.recipe, fmt.Sprint(r.seed), []string{fmt.Sprint(l.Iteration), l.Split, number(l.Temperature), fmt.Sprint(l.Episodes)}, values)
		}
	}
	w.Flush()
	return b.Bytes()
}

// readHistory reads what historyCSV wrote.
func readHistory(r io.Reader) ([]Look, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	n := len(historyColumns)
	if len(lines) == 0 || len(lines[0]) < n || !slices.Equal(lines[0][:n], historyColumns) {
		return nil, fmt.Errorf("a history begins with the columns %v", historyColumns)
	}
	var out []Look
	for i, line := range lines[1:] {
		l := Look{Split: line[1]}
		var bad error
		number := func(s string) float64 {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil && bad == nil {
				bad = fmt.Errorf("line %d: %q is not a number", i+2, s)
			}
			return v
		}
		l.Iteration, l.Temperature, l.Episodes = int(number(line[0])), number(line[2]), int(number(line[3]))
		for j, name := range lines[0][n:] {
			if s := line[n+j]; s != "" {
				l.Values = append(l.Values, train.Metric{Name: name, Value: number(s)})
			}
		}
		if bad != nil {
			return nil, bad
		}
		out = append(out, l)
	}
	return out, nil
}
