package stage

import (
	"context"
	"fmt"
	"strings"
)

// ShowHistory draws the suite's rate on the watched tasks over the iterations of reinforcement learning, and says where it
// began and ended; of the named recipes, without names of all.
func ShowHistory(names ...string) Exhibit {
	return func(_ context.Context, e *Env) ([]Shown, error) {
		if err := e.trainedNow(names...); err != nil {
			return nil, err
		}
		rs, err := e.reinforcement(names...)
		if err != nil {
			return nil, err
		}
		pic, ok := rs.picture(e.kind.rate)
		if !ok {
			return text("No history of reinforcement learning is in %s: it is kept by the runs that train it.\n", e.Run.Dir), nil
		}
		png, err := pic.PNG()
		if err != nil {
			return nil, err
		}
		out, err := e.picture(strings.Join(append([]string{pic.Name}, names...), "_"), png)
		if err != nil {
			return nil, err
		}
		return append(out, rs.ends(e.kind.rate)...), nil
	}
}

// ends is a table of the first and the last look of each recipe, and of the highest between.
func (rs reinforcements) ends(of rate) []Shown {
	recipes, splits, temperatures := rs.watched()
	var lines [][]string
	for _, recipe := range recipes {
		for _, split := range splits {
			for _, temperature := range temperatures {
				points := rs.points(recipe, split, temperature, of.column)
				if len(points) == 0 {
					continue
				}
				first, last, top := points[0], points[len(points)-1], points[0]
				for _, p := range points {
					if p.mean > top.mean {
						top = p
					}
				}
				decoding := "greedy"
				if temperature != 0 {
					decoding = fmt.Sprintf("sampled at %g", temperature)
				}
				lines = append(lines, []string{recipe, split, decoding, fmt.Sprintf("%.3f", first.mean), fmt.Sprintf("%.3f (%d)", top.mean, top.iteration), fmt.Sprintf("%.3f (%d)", last.mean, last.iteration)})
			}
		}
	}
	return text("%s\nThe %s, with the iteration in brackets; mean of the seeds.\n", grid(3, []string{"recipe", "watched tasks", "decoding", "at the start", "highest", "at the end"}, lines), of.title)
}

// ShowWarnings says whether bounds on the diagnostics would have announced the collapse of a run of reinforcement learning,
// and how often they would have been a false alarm; of the named recipes, without names of all.
func ShowWarnings(names ...string) Exhibit {
	return func(_ context.Context, e *Env) ([]Shown, error) {
		if err := e.trainedNow(names...); err != nil {
			return nil, err
		}
		rs, err := e.reinforcement(names...)
		if err != nil {
			return nil, err
		}
		ws := rs.warnings()
		if len(ws) == 0 {
			return text("There is nothing to warn of: no run of reinforcement learning is in %s, or all bounds of `warnings` are off.\n", e.Run.Dir), nil
		}
		return text("%s", warningsMarkdown(ws)), nil
	}
}
