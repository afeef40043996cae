package rl

import (
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// summarize are the figures of some episodes that an iteration logs.
func summarize(trs []trajectory.Trajectory, columns []eval.Column) []train.Metric {
	var solved, spend, solvedSpend, solvedOptimal, actions, invalid, truncated, calls float64
	mix := map[string]float64{}
	for i := range trs {
		t := &trs[i]
		spend += t.Outcome.Spend.Float()
		if t.Outcome.Verified {
			solved++
			solvedSpend += t.Outcome.Spend.Float()
			solvedOptimal += t.Task.OptimalCost.Float()
		}
		if t.Outcome.Truncated {
			truncated++
		}
		for _, turn := range t.Turns {
			actions++
			if turn.Invalid() {
				invalid++
			} else if turn.Called() { // a call that a hard budget refused was not made
				mix[turn.Action.Tool]++
				calls++
			}
		}
	}
	n := float64(len(trs))
	out := []train.Metric{{Name: "success", Value: solved / n}, {Name: "spend", Value: spend / n},
		{Name: "format_valid", Value: 1 - invalid/max(1, actions)}, {Name: "truncated", Value: truncated / n}}
	if solvedOptimal > 0 {
		out = append(out, train.Metric{Name: "cost_ratio", Value: solvedSpend / solvedOptimal})
	}
	for _, name := range toolNames(trs) {
		out = append(out, train.Metric{Name: "tool_mix_" + name, Value: mix[name] / max(1, calls)})
	}
	return append(out, ratios(trs, columns)...)
}

// ratios are the suite's own columns, those that are ratios over the episodes of any decoding.
func ratios(trs []trajectory.Trajectory, columns []eval.Column) (out []train.Metric) {
	for _, c := range columns {
		if c.Ratio == nil || c.Decoding != "" || c.MostBy != nil { // what a constant choice earns is no figure of training
			continue
		}
		var num, den float64
		for i := range trs {
			a, b := c.Ratio(&trs[i])
			num, den = num+a, den+b
		}
		if den > 0 {
			out = append(out, train.Metric{Name: c.Name, Value: num / den})
		}
	}
	return out
}

// timing are the figures of a rollout that differ from run to run: seconds as they passed, tokens a second, mean seconds a call of each tool.
func timing(trs []trajectory.Trajectory, tokens int, seconds float64) []train.Metric {
	out := []train.Metric{{Name: "rollout_seconds", Value: seconds}, {Name: "generate_tokens_per_second", Value: float64(tokens) / seconds}}
	for _, name := range toolNames(trs) {
		if s, n := toolSeconds(trs, name); n > 0 {
			out = append(out, train.Metric{Name: "tool_seconds_" + name, Value: s / float64(n)})
		}
	}
	return out
}

// sampledTokens counts the ids that the policy sampled.
func sampledTokens(eps []playedEpisode) (n int) {
	for _, p := range eps {
		for _, sampled := range p.tokens.Mask {
			if sampled {
				n++
			}
		}
	}
	return n
}

// toolNames lists the tools that were called, sorted.
func toolNames(trs []trajectory.Trajectory) []string {
	var out []string
	for i := range trs {
		for _, turn := range trs[i].Turns {
			if turn.Called() && !slices.Contains(out, turn.Action.Tool) {
				out = append(out, turn.Action.Tool)
			}
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}

func toolSeconds(trs []trajectory.Trajectory, name string) (seconds float64, n int) {
	for i := range trs {
		for _, turn := range trs[i].Turns {
			if turn.Called() && turn.Action.Tool == name {
				seconds += turn.ToolTime
				n++
			}
		}
	}
	return seconds, n
}
