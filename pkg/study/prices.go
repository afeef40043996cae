package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/table"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Shift compares a method at other prices with the same method at the usual ones, on the same tasks. Nothing should change.
type Shift struct {
	Method, Decoding           string
	Tasks, Episodes            int
	Usual, Shifted, Difference eval.Interval // of success
	Ratio, RatioShifted        eval.Interval // of cost to optimal cost, each at its own prices
	Same                       eval.Interval // share of attempts that called the same set of tools at both prices
}

// Shifts pairs the episodes of a shifted split with those of the same tasks at the usual prices, in the scope's budget mode: by task, seed
// and attempt.
func Shifts(trs []trajectory.Trajectory, split string, of suite.Shifted, in Scope) ([]Shift, error) {
	type attempt struct {
		method, decoding string
		shareKey
		attempt int
	}
	usual := map[attempt]*trajectory.Trajectory{}
	for i := range trs {
		if t := &trs[i]; t.Split == of.Usual && t.BudgetMode == in.Budget {
			usual[attempt{t.Method, t.Decoding, shareKey{t.Seed, t.Task.ID}, t.Attempt}] = t
		}
	}
	paired := &eval.Collector{}
	same := map[[2]string]map[shareKey][]bool{}
	episodes := map[[2]string]int{}
	for i := range trs {
		t := trs[i]
		if t.Split != split || t.BudgetMode != in.Budget {
			continue
		}
		id, _ := of.Origin(t.Task.ID)
		was := usual[attempt{t.Method, t.Decoding, shareKey{t.Seed, id}, t.Attempt}]
		if was == nil {
			continue
		}
		t.Task.ID = id // so that the two are one pair
		for _, x := range []*trajectory.Trajectory{was, &t} {
			if err := paired.Add(x); err != nil {
				return nil, err
			}
		}
		k := [2]string{t.Method, t.Decoding}
		if same[k] == nil {
			same[k] = map[shareKey][]bool{}
		}
		c := shareKey{t.Seed, id}
		same[k][c] = append(same[k][c], slices.Equal(calledTools(was), calledTools(&t)))
		episodes[k]++
	}
	opts := in.Options
	sets := paired.Sets(opts.Splits, opts.Methods)
	rows := eval.Table(paired, opts)
	var out []Shift
	for i := range sets {
		if sets[i].Key.Split != of.Usual {
			continue
		}
		for j := range sets {
			key := sets[i].Key
			if key.Split = split; sets[j].Key != key {
				continue
			}
			d, err := eval.Compare(&sets[i], &sets[j], opts)
			if err != nil {
				return nil, err
			}
			k := [2]string{key.Method, key.Decoding}
			s := Shift{Method: key.Method, Decoding: key.Decoding, Tasks: d.Tasks, Episodes: episodes[k],
				Usual: rows[i].Get("success_rate"), Shifted: rows[j].Get("success_rate"), Difference: d.Difference[eval.MetricIndex("success_rate")],
				Ratio: rows[i].Get("cost_ratio"), RatioShifted: rows[j].Get("cost_ratio")}
			shares := map[shareKey]float64{}
			for c, list := range same[k] {
				n := 0
				for _, yes := range list {
					if yes {
						n++
					}
				}
				shares[c] = float64(n) / float64(len(list))
			}
			s.Same = in.shareOf(shares, "same tools/"+key.String())
			out = append(out, s)
		}
	}
	return out, nil
}

// calledTools is the set of tools that an episode called, by name.
func calledTools(t *trajectory.Trajectory) []string {
	var out []string
	for i := range t.Turns {
		if t.Turns[i].Executed() && !slices.Contains(out, t.Turns[i].Action.Tool) {
			out = append(out, t.Turns[i].Action.Tool)
		}
	}
	slices.Sort(out)
	return out
}

// SourceUse is how often a method called which of the two sources of a fact, at one price list or ("all") at all of them.
type SourceUse struct {
	Method, Decoding, Prices, Cheaper string
	Tasks                             int
	Shares                            []eval.Interval // by SourceCalls
}

// SourceCalls lists which of the two sources an episode can call. Exactly one of them holds for each episode.
var SourceCalls = []struct {
	Title string
	holds func(cheaper, dearer bool) bool
}{
	{"cheaper only", func(c, d bool) bool { return c && !d }},
	{"dearer only", func(c, d bool) bool { return !c && d }},
	{"both", func(c, d bool) bool { return c && d }},
	{"neither", func(c, d bool) bool { return !c && !d }},
}

// SourceUses counts the calls of the two sources, in the scope's budget mode.
// prices are the price lists of the split's tasks, by their ids.
func SourceUses(trs []trajectory.Trajectory, split string, tools [2]string, prices map[string]string, in Scope) []SourceUse {
	lists := slices.Compact(slices.Sorted(maps.Values(prices)))
	const all = "all"
	cells := map[[3]string]map[shareKey][]*trajectory.Trajectory{} // of a method, a decoding and a price list
	for i := range trs {
		t := &trs[i]
		list, ok := prices[t.Task.ID]
		if t.Split != split || t.BudgetMode != in.Budget || !ok {
			continue
		}
		for _, list := range []string{all, list} {
			k := [3]string{t.Method, t.Decoding, list}
			if cells[k] == nil {
				cells[k] = map[shareKey][]*trajectory.Trajectory{}
			}
			c := shareKey{t.Seed, t.Task.ID}
			cells[k][c] = append(cells[k][c], t)
		}
	}
	var out []SourceUse
	for _, decoding := range []string{"greedy", "sampled"} {
		for _, method := range in.Options.Methods {
			for _, list := range append([]string{all}, lists...) {
				cell := cells[[3]string{method, decoding, list}]
				if cell == nil {
					continue
				}
				r := SourceUse{Method: method, Decoding: decoding, Prices: list}
				ids := map[string]bool{}
				keys := sortedShares(cell)
				for _, k := range keys {
					ids[k.task] = true
				}
				r.Tasks = len(ids)
				if list != all { // the tasks of a price list agree on the cheaper source
					r.Cheaper = cell[keys[0]][0].Task.Combination
				}
				for _, what := range SourceCalls {
					shares := sharesOf(cell, func(t *trajectory.Trajectory) bool {
						called := calledTools(t)
						cheaper, dearer := tools[0], tools[1]
						if t.Task.Combination == tools[1] {
							cheaper, dearer = dearer, cheaper
						}
						return what.holds(slices.Contains(called, cheaper), slices.Contains(called, dearer))
					})
					r.Shares = append(r.Shares, in.shareOf(shares, fmt.Sprint("two_source/", method, "/", decoding, "/", list, "/", what.Title)))
				}
				out = append(out, r)
			}
		}
	}
	return out
}

// PricesMarkdown renders both studies of prices; empty where nothing of them was played.
func PricesMarkdown(shifts []Shift, split string, of suite.Shifted, sources []SourceUse) []byte {
	if len(shifts)+len(sources) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("# Prices\n\nIntervals are at 95%: bootstrap over tasks and seeds, exact where every task gives the same share.\n")
	if len(shifts) > 0 {
		fmt.Fprintf(&b, "\n## Other prices on the tasks of %s\n\nThe tasks of %s are tasks of %s, offered at ", of.Usual, split, of.Usual)
		for i, p := range of.Prices {
			fmt.Fprintf(&b, "%s%s %v instead of %v", []string{"", ", "}[min(1, i)], p.Tool, p.Now, p.Usual)
		}
		b.WriteString(". Only the tools of the gold path answer such a task, so the cheapest path is the same at any prices and a policy should do what it did. Success is compared by task; " +
			"\"same tools\" is the share of attempts that called the same set of tools at both prices, right or wrong. Greedy attempts differ by the prompt alone, sampled ones also by chance.\n\n")
		var lines [][]string
		for _, s := range shifts {
			lines = append(lines, []string{s.Method, s.Decoding, fmt.Sprint(s.Tasks), s.Usual.Text(3), s.Shifted.Text(3), s.Difference.Signed(3), s.Same.Text(3),
				s.Ratio.Text(3), s.RatioShifted.Text(3)})
		}
		b.WriteString((&table.Table{Header: []string{"method", "decoding", "tasks", "success, usual prices", "success, other prices", "difference", "same tools", "cost / optimal, usual", "cost / optimal, other"}, Lines: lines, Left: 2}).Markdown())
	}
	if len(sources) > 0 {
		b.WriteString("\n## Facts that stand in both corpora\n\nEach task has its price list, and the fact stands in the documents and on the web: the cheaper source is the right one. " +
			"Shares of attempts that called which of the two. A policy that ignores prices calls the same source at every list.\n\n")
		var lines [][]string
		for _, s := range sources {
			cheaper := s.Cheaper
			if cheaper == "" {
				cheaper = "-"
			}
			line := []string{s.Method, s.Decoding, s.Prices, cheaper, fmt.Sprint(s.Tasks)}
			for _, v := range s.Shares {
				line = append(line, v.Text(3))
			}
			lines = append(lines, line)
		}
		header := []string{"method", "decoding", "prices", "cheaper", "tasks"}
		for _, c := range SourceCalls {
			header = append(header, c.Title)
		}
		b.WriteString((&table.Table{Header: header, Lines: lines, Left: 4}).Markdown())
	}
	return []byte(b.String())
}

// PricesCSV has a line for each figure of both studies; empty where nothing of them was played. shifted and twoSources are the splits.
func PricesCSV(shifts []Shift, shifted string, sources []SourceUse, twoSources string) []byte {
	if len(shifts)+len(sources) == 0 {
		return nil
	}
	out := table.New(0, "split", "method", "decoding", "prices", "cheaper", "n_tasks", "figure", "value", "lo", "hi")
	put := func(v eval.Interval, cells ...string) {
		out.Add(append(cells, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))...)
	}
	for _, s := range shifts {
		for _, f := range []struct {
			name string
			v    eval.Interval
		}{{"success_usual", s.Usual}, {"success_shifted", s.Shifted}, {"success_difference", s.Difference}, {"same_tools", s.Same}, {"cost_ratio_usual", s.Ratio}, {"cost_ratio_shifted", s.RatioShifted}} {
			put(f.v, shifted, s.Method, s.Decoding, "", "", fmt.Sprint(s.Tasks), f.name)
		}
	}
	for _, s := range sources {
		for i, v := range s.Shares {
			put(v, twoSources, s.Method, s.Decoding, s.Prices, s.Cheaper, fmt.Sprint(s.Tasks), strings.ReplaceAll(SourceCalls[i].Title, " ", "_"))
		}
	}
	return out.CSV()
}
