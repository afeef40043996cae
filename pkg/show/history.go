package show

import (
	"context"
	"strings"

	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/study"
)

// History draws the suite's rate on the watched tasks over the iterations of reinforcement learning, and says where it began and ended.
// Without names it shows all recipes.
func History(names ...string) Exhibit {
	return func(_ context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		rs, err := e.reinforcement(names...)
		if err != nil {
			return nil, err
		}
		pic, ok := rs.Picture(e.Definition.HistoryColumn)
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
		return append(out, text("%s\nThe %s, with the iteration in brackets; mean of the seeds.\n", rs.Ends(e.Definition.HistoryColumn).Markdown(), e.Definition.HistoryColumn.Title)...), nil
	}
}

// Warnings says whether bounds on the diagnostics would have announced the collapse of a run of reinforcement learning,
// and how often they would have been a false alarm. Without names it looks at all recipes.
func Warnings(names ...string) Exhibit {
	return func(_ context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		rs, err := e.reinforcement(names...)
		if err != nil {
			return nil, err
		}
		ws := rs.Warnings()
		if len(ws) == 0 {
			return text("There is nothing to warn of: no run of reinforcement learning is in %s, or all bounds of `warnings` are off.\n", e.Run.Dir), nil
		}
		return text("%s", ws.Markdown()), nil
	}
}

// reinforcement reads the logs of the runs of reinforcement learning. It returns an error if logs come from other settings.
func (e view) reinforcement(names ...string) (study.Reinforcements, error) {
	if err := e.TrainedNow(names...); err != nil {
		return nil, err
	}
	return e.Reinforcement(names...)
}
