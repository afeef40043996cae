package rl

import (
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// summarize computes the figures that are logged of some episodes: means over the episodes, shares of actions and of calls, and the suite's
// own ratios.
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

// ratios computes the suite's own columns that are ratios over episodes, whatever their decoding.
func ratios(trs []trajectory.Trajectory, columns []eval.Column) (out []train.Metric) {
	for _, c := range columns {
		if c.Ratio == nil || c.Decoding != "" || c.MostBy != nil { // MostBy columns say what a constant choice would earn, not what the policy did
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

// timing computes the figures that differ from run to run: wall-clock seconds, generated tokens a second, mean seconds a call of each tool.
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
func sampledTokens(episodes []tokenizedEpisode) (n int) {
	for _, p := range episodes {
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

// toolSeconds adds up the time of a tool's calls, and counts them.
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
