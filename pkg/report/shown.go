package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/table"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Sample picks at most n episodes, the same ones every time: a fixed random choice that takes every method, split and
// verdict in turn, so that no group drowns the others. They come back in the order given.
func Sample(trs []trajectory.Trajectory, n int, seed uint64) []trajectory.Trajectory {
	groups := map[string][]int{}
	for i := range trs {
		t := &trs[i]
		k := fmt.Sprintf("%s|%t", eval.KeyOf(t), t.Outcome.Verified)
		groups[k] = append(groups[k], i)
	}
	names := make([]string, 0, len(groups))
	for k, g := range groups {
		names = append(names, k)
		slices.SortFunc(g, func(a, b int) int { return compareDrawn(&trs[a], &trs[b], seed) })
	}
	slices.Sort(names)
	var picked []int
	for round := 0; len(picked) < min(n, len(trs)); round++ {
		for _, k := range names {
			if round < len(groups[k]) && len(picked) < n {
				picked = append(picked, groups[k][round])
			}
		}
	}
	slices.Sort(picked)
	out := make([]trajectory.Trajectory, len(picked))
	for i, p := range picked {
		out[i] = trs[p]
	}
	return out
}

func compareDrawn(a, b *trajectory.Trajectory, seed uint64) int {
	return cmp.Or(
		cmp.Compare(rng.Seed64(seed, "shown", a.EpisodeID), rng.Seed64(seed, "shown", b.EpisodeID)),
		cmp.Compare(a.EpisodeID, b.EpisodeID),
	)
}

// pick chooses n solved or failed episodes, as different as possible: at each step the one whose split, combination and
// diagnosis were chosen least often so far.
func pick(trs []*trajectory.Trajectory, n int, seed uint64) []*trajectory.Trajectory {
	pool := slices.Clone(trs)
	slices.SortFunc(pool, func(a, b *trajectory.Trajectory) int { return compareDrawn(a, b, seed) })
	kinds := make(map[*trajectory.Trajectory]string, len(pool))
	for _, t := range pool {
		kinds[t] = Diagnose(t)[0].Kind
	}
	taken := map[string]int{}
	var out []*trajectory.Trajectory
	for len(out) < n && len(pool) > 0 {
		best, least := 0, -1
		for i, t := range pool {
			seen := 3*taken["kind "+kinds[t]] + 2*taken["combination "+t.Task.Combination] + taken["split "+t.Split]
			if least < 0 || seen < least {
				best, least = i, seen
			}
		}
		t := pool[best]
		taken["kind "+kinds[t]]++
		taken["combination "+t.Task.Combination]++
		taken["split "+t.Split]++
		out = append(out, t)
		pool = slices.Delete(pool, best, best+1)
	}
	return out
}

// markdownOf renders one episode for people: the question, the diagnosis, the turns with their costs.
func markdownOf(t *trajectory.Trajectory) []byte {
	var b bytes.Buffer
	verdict := "failed"
	if t.Outcome.Verified {
		verdict = "solved"
	}
	fmt.Fprintf(&b, "# %s: %s\n\n%s\n\n", strings.ToUpper(verdict[:1])+verdict[1:], table.Plain(t.Task.ID), block(t.Task.Question))
	for i, f := range Diagnose(t) {
		if i == 0 {
			fmt.Fprintf(&b, "**Diagnosis:** %s", table.Plain(f.Text))
		} else {
			fmt.Fprintf(&b, "; %s", table.Plain(f.Text))
		}
	}
	fmt.Fprintf(&b, ".\n\n| | |\n| --- | --- |\n")
	row := func(name, value string) { fmt.Fprintf(&b, "| %s | %s |\n", name, cell(value)) }
	row("method", t.Method+", "+t.Decoding)
	row("split", t.Split)
	row("gold combination", t.Task.Combination)
	row("template, difficulty, hops", fmt.Sprintf("%s, %d, %d", t.Task.Template, t.Task.Difficulty, t.Task.Hops))
	row("gold", strings.Join(t.Task.Gold, ", "))
	row("answer", cmp.Or(t.Outcome.Answer, "-"))
	row("spend / optimal / budget", fmt.Sprintf("%s / %s / %s (%s)", t.Outcome.Spend, t.Task.OptimalCost, t.Task.Budget, t.BudgetMode))
	row("end", string(t.End))
	row("reward", eval.Number(t.Outcome.Reward.Total))
	row("episode", t.EpisodeID)
	for i := range t.Turns {
		turn := &t.Turns[i]
		fmt.Fprintf(&b, "\n## Turn %d: %s\n\n%s", i+1, table.Plain(turnTitle(turn)), Fenced("", turn.Text))
		if turn.Observation != "" {
			fmt.Fprintf(&b, "\n%s", Fenced("", turn.Observation))
		}
	}
	return b.Bytes()
}

func turnTitle(t *trajectory.Turn) string {
	switch {
	case t.Invalid():
		return "invalid action, " + t.ErrorKind
	case t.Action == nil:
		return "no action"
	case t.Refused:
		return t.Action.Tool + ", refused by the budget"
	case t.Failed:
		return fmt.Sprintf("%s failed, costs %s", t.Action.Tool, t.Price)
	case t.Action.Tool == trajectory.Finish:
		return trajectory.Finish
	}
	return fmt.Sprintf("%s, costs %s", t.Action.Tool, t.Price)
}

// Fenced puts a text that may itself hold fences into a longer one. language is the block's, or empty.
func Fenced(language, s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(s, "\n") + "\n" + fence + "\n"
}

// cell and block keep texts from being read as markup.
func cell(s string) string { return strings.ReplaceAll(table.Plain(s), "|", `\|`) }

func block(s string) string { return "> " + table.Plain(s) }

// diagnosed is a line of trajectories.jsonl: the record as it was written, with its diagnosis.
type diagnosed struct {
	Diagnosis  []string              `json:"diagnosis"`
	Trajectory trajectory.Trajectory `json:"trajectory"`
}

// shownFiles returns the files of the folder trajectories: up to five solved and five failed episodes of the headline
// method, each as a page of its own, and all of them as JSON lines.
func shownFiles(trs []trajectory.Trajectory, method string, seed uint64) (map[string][]byte, error) {
	var solved, failed []*trajectory.Trajectory
	for i := range trs {
		switch t := &trs[i]; {
		case t.Method != method:
		case t.Outcome.Verified:
			solved = append(solved, t)
		default:
			failed = append(failed, t)
		}
	}
	files := map[string][]byte{}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	var index bytes.Buffer
	fmt.Fprintf(&index, "# Diagnosed trajectories of %s\n\n", table.Plain(method))
	for _, part := range []struct {
		name string
		from []*trajectory.Trajectory
	}{{"solved", solved}, {"failed", failed}} {
		chosen := pick(part.from, 5, seed)
		fmt.Fprintf(&index, "## %d %s, of %d\n\n", len(chosen), part.name, len(part.from))
		for i, t := range chosen {
			name := fmt.Sprintf("%s_%d.md", part.name, i+1)
			files[name] = markdownOf(t)
			var texts []string
			for _, f := range Diagnose(t) {
				texts = append(texts, f.Text)
			}
			fmt.Fprintf(&index, "- [%s](%s): %s\n", table.Plain(t.Task.ID), name, table.Plain(strings.Join(texts, "; ")))
			if err := enc.Encode(diagnosed{texts, *t}); err != nil {
				return nil, fmt.Errorf("episode %s: %w", t.EpisodeID, err)
			}
		}
		index.WriteString("\n")
	}
	files["README.md"] = append(bytes.TrimRight(index.Bytes(), "\n"), '\n')
	files["trajectories.jsonl"] = lines.Bytes()
	return files, nil
}
