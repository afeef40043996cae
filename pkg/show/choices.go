package show

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/table"
)

// Choices shows how often each policy chose the gold tool of a family, by family and direction, on a split. It is for suites with families.
func Choices(split string) Exhibit {
	return func(_ context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		file, err := e.MadeNow(".", "choices.csv")
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		t, err := table.ReadCSV(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var methods []string
		var lines [][]string
		right := map[[3]string]string{}
		for _, l := range t.Lines {
			if t.Cell(l, "split") != split {
				continue
			}
			method, family, tool := t.Cell(l, "method"), t.Cell(l, "family"), t.Cell(l, "gold tool")
			if !slices.Contains(methods, method) {
				methods = append(methods, method)
			}
			if line := []string{family, tool, t.Cell(l, "tasks")}; !slices.ContainsFunc(lines, func(l []string) bool { return l[0] == family && l[1] == tool }) {
				lines = append(lines, line)
			}
			right[[3]string{method, family, tool}] = t.Cell(l, "right choice")
		}
		for i, l := range lines {
			for _, m := range methods {
				v, ok := right[[3]string{m, l[0], l[1]}]
				if !ok {
					v = "-"
				}
				lines[i] = append(lines[i], v)
			}
		}
		if len(lines) == 0 {
			return text("No task of split %s asks for a choice between the tools of a family.\n", split), nil
		}
		return text("%s\nThe share of episodes of %s that called the gold tool of the family and not the other one, where the cheapest path does so.\n",
			grid(2, append([]string{"family", "gold tool", "tasks"}, methods...), lines), split), nil
	}
}
