package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

var demoPrices = map[string]price.Amount{"sql_query": price.Of(1), "doc_search": price.Of(2), "web_search": price.Of(5), "calculator": price.Of(0.5)}

// newEpisode is a record with the given calls, "tool" or "tool!" (failed) or "tool-" (refused by the budget) or "?" (invalid
// action), that ends with an answer. Observations show the gold value 4821 where a call of the gold tool succeeds.
func newEpisode(method, task, gold, answer string, calls ...string) trajectory.Trajectory {
	t := trajectory.Trajectory{
		Version: trajectory.Version, EpisodeID: method + "/" + task, Suite: "company", Split: "test", Method: method, Model: "-",
		BudgetMode: "soft", Decoding: "greedy", End: trajectory.Finished,
		Task: trajectory.Task{ID: task, Question: "How many units did " + task + " ship?", Gold: []string{"4821"}, Combination: gold,
			Structure: "A", Template: "units_shipped", Difficulty: 1, Hops: 1, GoldCalls: map[string]int{}},
		Outcome: trajectory.Outcome{Answer: answer},
	}
	for _, g := range strings.Split(gold, "+") {
		t.Task.GoldCalls[g]++
		t.Task.OptimalCost += demoPrices[g]
	}
	t.Task.Budget = (t.Task.OptimalCost + t.Task.OptimalCost/2).RoundUp(price.Of(0.5))
	seen := false
	for _, c := range calls {
		turn := trajectory.Turn{ModelTime: 0.02, ToolTime: 0.001}
		name := strings.TrimRight(c, "!-")
		if c == "?" {
			turn.Text, turn.ErrorKind, turn.Observation = "I think the answer is near.", "no_block", "error: no block"
			t.Outcome.Invalid++
		} else {
			turn.Text = fmt.Sprintf("```json\n{\"tool\": %q, \"args\": {\"query\": %q}}\n```", name, task)
			turn.Action = &trajectory.Action{Tool: name, Args: json.RawMessage(fmt.Sprintf(`{"query":%q}`, task))}
			turn.Price = demoPrices[name]
			turn.Observation = "nothing of use"
			switch {
			case strings.HasSuffix(c, "!"):
				turn.Failed, turn.ErrorKind, turn.Observation = true, "call_failed", "error: no such table"
				t.Outcome.Failed++
			case strings.HasSuffix(c, "-"):
				turn.Observation, turn.Price, turn.Refused = fmt.Sprintf("refused: %s costs %s", name, demoPrices[name]), 0, true
				t.End, t.BudgetMode = trajectory.Budget, "hard"
			case t.Task.GoldCalls[name] > 0:
				turn.Observation, seen = "units | 4821\nleft 2", true
			}
			t.Outcome.Spend += turn.Price
		}
		t.Turns = append(t.Turns, turn)
	}
	if t.End == trajectory.Finished {
		t.Turns = append(t.Turns, trajectory.Turn{Text: fmt.Sprintf("```json\n{\"tool\": \"finish\", \"args\": {\"answer\": %q}}\n```", answer),
			Action: &trajectory.Action{Tool: "finish", Args: json.RawMessage(fmt.Sprintf(`{"answer":%q}`, answer))}})
		t.Outcome.Correct = answer == "4821"
		t.Outcome.Evidenced = seen
		t.Outcome.Verified = t.Outcome.Correct && seen
	}
	t.Outcome.Reward = reward.Of(reward.Default(), t)
	return t
}

// demoRun plays n tasks a split with invented methods of different skill: data for pictures and pages.
func demoRun(n int) []trajectory.Trajectory {
	methods := []struct {
		name  string
		skill [3]float64
		waste float64
		model float64
	}{
		{"always_cheapest", [3]float64{0.42, 0.12, 0.38}, 0.9, 1e-5}, {"always_all_tools", [3]float64{0.61, 0.35, 0.6}, 3, 1e-5},
		{"static_threshold", [3]float64{0.3, 0.02, 0.25}, 0.4, 1e-5}, {"random_tool", [3]float64{0.08, 0, 0.07}, 2, 1e-5},
		{"oracle", [3]float64{1, 1, 1}, 0, 1e-5}, {"zero_shot", [3]float64{0.11, 0, 0.1}, 1.5, 0.2}, {"sft", [3]float64{0.71, 0.2, 0.55}, 0.3, 0.15},
		{"sft_equal_tokens", [3]float64{0.73, 0.22, 0.56}, 0.28, 0.15}, {"grpo", [3]float64{0.31, 0.1, 0.3}, 0.5, 0.17}, {"sft+grpo", [3]float64{0.92, 0.71, 0.8}, 0.08, 0.14},
	}
	combos := []string{"sql_query", "doc_search", "web_search", "sql_query+calculator", "doc_search+calculator", "sql_query+web_search"}
	tools := []string{"sql_query", "doc_search", "web_search", "calculator"}
	var out []trajectory.Trajectory
	for _, m := range methods {
		model := "tiny"
		if m.model < 1e-3 {
			model = "-"
		}
		for s, split := range []string{"test", "test_heldout_combo", "test_heldout_template"} {
			for _, budget := range []string{"soft", "hard"} {
				for i := range n {
					r := rng.New(1, "demo", m.name, split, budget, i)
					gold := combos[i%len(combos)]
					if split == "test_heldout_combo" {
						gold = []string{"doc_search+web_search+calculator", "sql_query+doc_search"}[i%2]
					}
					calls := strings.Split(gold, "+")
					for r.Float64() < m.waste/(1+m.waste) {
						calls = append([]string{tools[r.IntN(4)]}, calls...)
					}
					answer := "4821"
					if r.Float64() > m.skill[s] {
						answer = []string{"4281", "17", "4821 units", ""}[r.IntN(4)]
						if r.IntN(2) == 0 && len(calls) > 1 {
							calls = calls[:len(calls)-1]
						}
						if r.IntN(4) == 0 {
							calls = append(calls, "?")
						}
					}
					t := newEpisode(m.name, fmt.Sprintf("%s-%03d", split, i), gold, answer, calls...)
					t.EpisodeID += "/" + budget
					t.Model, t.Split, t.BudgetMode = model, split, budget
					t.Task.Difficulty = 1 + i%3
					if split == "test_heldout_combo" {
						t.Task.Tags = []string{[]string{"new_filling", "new_structure"}[i%2]}
					} else if i%5 == 0 {
						t.Task.Tags = []string{"unseen_phrasing"}
					}
					for j := range t.Turns {
						t.Turns[j].ModelTime = m.model * (0.7 + 0.6*r.Float64())
					}
					out = append(out, t)
				}
			}
		}
	}
	return out
}

func demoInput(trs []trajectory.Trajectory) Input {
	in := Input{
		Title: "Company: routing between tools of different price", Headline: "sft+grpo", Bounds: []string{"oracle"},
		Compare: []eval.Pair{{Baseline: "sft", Later: "sft+grpo"}, {Baseline: "sft_equal_tokens", Later: "sft+grpo"}}, Trajectories: trs,
		Manifest: []byte("{\n  \"profile\": \"demo\"\n}\n"), Notes: []string{"Invented data for tests."},
	}
	in.Options.Splits = []string{"test", "test_heldout_combo", "test_heldout_template"}
	in.Options.Methods = []string{"always_cheapest", "always_all_tools", "static_threshold", "random_tool", "oracle", "zero_shot", "sft", "sft_equal_tokens", "grpo", "sft+grpo"}
	return in
}
