package eval

import (
	"slices"

	"github.com/toolroute/toolroute/pkg/suite"
)

// Metric is a ratio of two sums over cells. That form holds every rate and cost of the results table, and lets the
// bootstrap resample two numbers a cell instead of trajectories. Where the denominator's sum is 0 (no solved episode, no
// action) the metric is not defined: NaN, shown as "-" and left empty in CSV.
type Metric struct {
	Name  string // the column
	Title string // for people, with the unit
	Doc   string // the definition
	Share bool   // it lies between 0 and 1
	Ratio func(c *Cell, k int) (num, den float64)
}

// Metrics are the columns of the results table in their stable order. A new metric is one more line.
var Metrics = []Metric{
	{"success_rate", "success", "mean over the attempts of a task, then over tasks", true, func(c *Cell, _ int) (float64, float64) {
		return c.mean(func(e *Episode) float64 { return indicator(e.Verified) }), 1
	}},
	{"mean_cost", "cost", "mean spend of an episode", false, func(c *Cell, _ int) (float64, float64) {
		return c.mean(spend), 1
	}},
	{"mean_cost_per_solved", "cost per solved", "mean spend of the solved episodes", false, func(c *Cell, _ int) (float64, float64) {
		return c.solved(spend), c.solved(one)
	}},
	{"cost_ratio", "cost / optimal", "sum of spend over sum of optimal cost, solved episodes", false, func(c *Cell, _ int) (float64, float64) {
		return c.solved(spend), c.solved(func(e *Episode) float64 { return e.Task.OptimalCost.Float() })
	}},
	{"success_per_unit_cost", "success / cost", "success rate over mean cost", false, func(c *Cell, _ int) (float64, float64) {
		return c.mean(func(e *Episode) float64 { return indicator(e.Verified) }), c.mean(spend)
	}},
	{"invalid_action_rate", "invalid actions", "invalid actions over all actions", true, func(c *Cell, _ int) (float64, float64) {
		return c.sum(func(e *Episode) float64 { return float64(e.Invalid) }), c.sum(func(e *Episode) float64 { return float64(e.Actions) })
	}},
	{"guess_rate", "right guesses", "share of episodes whose answer is right but was seen in no observation", true, func(c *Cell, _ int) (float64, float64) {
		return c.mean(func(e *Episode) float64 { return indicator(e.Guess) }), 1
	}},
	{"calls_per_task", "calls", "executed tool calls of an episode, failed ones included", false, func(c *Cell, _ int) (float64, float64) {
		return c.mean(func(e *Episode) float64 { return float64(e.Calls) }), 1
	}},
	{"pass_at_1", "pass@1", "unbiased pass@1", true, func(c *Cell, _ int) (float64, float64) { return c.passAt(1) }},
	{"pass_at_k", "pass@k", "unbiased pass@k over the tasks with at least k attempts", true, func(c *Cell, k int) (float64, float64) { return c.passAt(k) }},
}

// MetricIndex returns the position of a metric in Metrics, or -1.
func MetricIndex(name string) int {
	return slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name })
}

// Column is a column that a suite adds to the results table.
type Column = suite.Column

// ToolFamily is two tools for one purpose.
type ToolFamily = suite.ToolFamily

// TitledColumn is a column of the results table under the title that the README shows.
type TitledColumn = suite.TitledColumn

func one(*Episode) float64     { return 1 }
func spend(e *Episode) float64 { return e.Spend.Float() }
func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *Cell) sum(f func(*Episode) float64) float64 {
	s := 0.0
	for i := range c.Episodes {
		s += f(&c.Episodes[i])
	}
	return s
}

func (c *Cell) mean(f func(*Episode) float64) float64 { return c.sum(f) / float64(len(c.Episodes)) }

func (c *Cell) solved(f func(*Episode) float64) float64 {
	return c.sum(func(e *Episode) float64 {
		if e.Verified {
			return f(e)
		}
		return 0
	})
}

// passAt weighs a cell 1 when it has k attempts and 0 when it has fewer.
func (c *Cell) passAt(k int) (num, den float64) {
	n := len(c.Episodes)
	if k < 1 || n < k {
		return 0, 0
	}
	return PassAtK(n, int(c.solved(one)), k), 1
}
