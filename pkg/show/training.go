package show

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/stage"
)

// TrainPolicy makes one policy and its ancestors, for every training seed, and shows the results. If the settings do not train it, the cell
// only says so.
func TrainPolicy(name string) Exhibit {
	return func(ctx context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		if !slices.Contains(e.Config.Train, name) {
			return text("The settings do not train %s here; they train %s (`train` in configs/).\n", name, strings.Join(e.Config.Train, ", ")), nil
		}
		for _, seed := range e.Config.SeedsOf(name) {
			if err := e.TrainRecipe(ctx, name, seed); err != nil {
				return nil, err
			}
		}
		line, err := e.Config.Lineage(name)
		if err != nil {
			return nil, err
		}
		return e.trainedGrid(append([]string{config.RootName}, line...))
	}
}

// trainedGrid lists the results of training by seed and recipe.
func (e view) trainedGrid(names []string) ([]Shown, error) {
	var lines [][]string
	for _, seed := range e.Config.SeedsOf(names[len(names)-1]) {
		for _, name := range names {
			t, err := e.Result(name, seed)
			if _, taken := e.Taken(names[len(names)-1], seed); err != nil && taken {
				continue // an ancestor of a committed checkpoint need not be made
			}
			if err != nil {
				return nil, err
			}
			dash := func(v string, there bool) string {
				if there {
					return v
				}
				return "-"
			}
			lines = append(lines, []string{name, fmt.Sprint(seed), fmt.Sprint(t.Steps), dash(fmt.Sprint(t.Demos), t.Demos > 0), dash(fmt.Sprint(t.Episodes), t.Episodes > 0),
				fmt.Sprint(t.TrainedTokens), dash(fmt.Sprintf("%.4f", t.ValLoss), t.ValLoss != 0), fmt.Sprintf("%.1f", t.Seconds)})
		}
	}
	return text("%s", grid(1, []string{"step of training", "seed", "updates", "demonstrations", "episodes", "trained tokens", "validation loss", "seconds"}, lines)), nil
}

// Curves draws what was logged while the named policies were trained; without names, of all that were trained.
func Curves(names ...string) Exhibit {
	return func(_ context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		runs, err := e.curvesOf(names)
		if err != nil {
			return nil, err
		}
		if len(runs) == 0 {
			return text("Nothing was trained yet, so there are no curves.\n"), nil
		}
		pictures, pngs, err := report.TrainingPNGs(runs)
		if err != nil {
			return nil, err
		}
		var out []Shown
		for i, name := range pictures {
			shown, err := e.picture(strings.Join(append([]string{name}, names...), "_"), pngs[i])
			if err != nil {
				return nil, err
			}
			out = append(out, shown...)
		}
		return out, nil
	}
}

func (e view) curvesOf(names []string) ([]report.TrainingRun, error) {
	if err := e.TrainedNow(names...); err != nil {
		return nil, err
	}
	runs, err := e.Curves()
	return slices.DeleteFunc(runs, func(r report.TrainingRun) bool {
		name, _, _ := strings.Cut(r.Name, ", seed ")
		return len(names) > 0 && !slices.Contains(names, name)
	}), err
}

// reported are the metrics that the sentences about training speak of, whichever a run has logged.
var reported = []struct{ metric, what string }{
	{"loss", "the training loss"},
	{"val/loss", "the validation loss"},
	{"accuracy", "the share of tokens predicted right"},
	{"reward_mean", "the mean reward"},
	{"success", "the success rate of the rollouts"},
	{"entropy", "the entropy"},
	{"kl", "the distance from the start (KL)"},
}

// TrainingFindings says how the logged figures moved from the first tenth of training to the last.
func TrainingFindings(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	runs, err := e.curvesOf(nil)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, r := range runs {
		var parts []string
		for _, m := range reported {
			if from, to, ok := ends(r.Records, m.metric); ok {
				parts = append(parts, fmt.Sprintf("%s from %.3f to %.3f", m.what, from, to))
			}
		}
		if len(parts) > 0 {
			lines = append(lines, fmt.Sprintf("%s, from the first tenth of its %d logged steps to the last: %s.", r.Name, len(r.Records), strings.Join(parts, ", ")))
		}
	}
	if len(lines) == 0 {
		return text("Nothing was trained yet.\n"), nil
	}
	return bullets(lines), nil
}

// ends are the means of a metric over the first and the last tenth of the records that have it.
func ends(records []report.MetricsRecord, metric string) (from, to float64, ok bool) {
	var v []float64
	for _, r := range records {
		if x, there := r.Values[metric]; there && !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	if len(v) < 2 {
		return 0, 0, false
	}
	n := max(1, len(v)/10)
	mean := func(part []float64) float64 {
		sum := 0.0
		for _, x := range part {
			sum += x
		}
		return sum / float64(len(part))
	}
	return mean(v[:n]), mean(v[len(v)-n:]), true
}
