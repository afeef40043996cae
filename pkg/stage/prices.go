package stage

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// shift is a method at other prices than the usual ones, on the same tasks: what changed, where nothing should.
type shift struct {
	method, decoding           string
	tasks, episodes            int
	usual, shifted, difference eval.Interval // of success
	ratio, ratioShifted        eval.Interval // of cost to optimal cost, each at its own prices
	same                       eval.Interval // share of attempts that called the same set of tools at both prices
}

// shifts pairs the episodes of the split of shifted prices with those of the same tasks at the usual prices, in the first budget mode: by
// task, seed and attempt.
func (e *Env) shifts(trs []trajectory.Trajectory) ([]shift, error) {
	type attempt struct {
		method, decoding string
		shareKey
		attempt int
	}
	budget := e.Config.Eval.BudgetModes[0]
	usual := map[attempt]*trajectory.Trajectory{}
	for i := range trs {
		if t := &trs[i]; t.Split == company.Test && t.BudgetMode == budget {
			usual[attempt{t.Method, t.Decoding, shareKey{t.Seed, t.Task.ID}, t.Attempt}] = t
		}
	}
	paired := &eval.Collector{}
	same := map[[2]string]map[shareKey][]bool{}
	episodes := map[[2]string]int{}
	for i := range trs {
		t := trs[i]
		if t.Split != TestPrices || t.BudgetMode != budget {
			continue
		}
		id, _ := company.Origin(t.Task.ID)
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
	opts := e.evalOptions()
	sets := paired.Sets(opts.Splits, opts.Methods)
	rows := eval.Table(paired, opts)
	var out []shift
	for i := range sets {
		if sets[i].Key.Split != company.Test {
			continue
		}
		for j := range sets {
			key := sets[i].Key
			if key.Split = TestPrices; sets[j].Key != key {
				continue
			}
			d, err := eval.Compare(&sets[i], &sets[j], opts)
			if err != nil {
				return nil, err
			}
			k := [2]string{key.Method, key.Decoding}
			s := shift{method: key.Method, decoding: key.Decoding, tasks: d.Tasks, episodes: episodes[k],
				usual: rows[i].Get("success_rate"), shifted: rows[j].Get("success_rate"), difference: d.Difference[eval.MetricIndex("success_rate")],
				ratio: rows[i].Get("cost_ratio"), ratioShifted: rows[j].Get("cost_ratio")}
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
			s.same = e.shareOf(shares, "same tools/"+key.String())
			out = append(out, s)
		}
	}
	return out, nil
}

// calledTools is the set of tools that an episode called, by name.
func calledTools(t *trajectory.Trajectory) []string {
	var out []string
	for i := range t.Turns {
		if eval.Executed(t, i) && !slices.Contains(out, t.Turns[i].Action.Tool) {
			out = append(out, t.Turns[i].Action.Tool)
		}
	}
	slices.Sort(out)
	return out
}

// source is how often a method called which of the two sources of a fact, at one price list or ("all") at all of them.
type source struct {
	method, decoding, prices, cheaper string
	tasks                             int
	shares                            []eval.Interval // by sourceCalls
}

// sourceCalls are what can happen on a task of two sources; the first two overlap with none of the others.
var sourceCalls = []struct {
	title string
	holds func(cheaper, dearer bool) bool
}{
	{"cheaper only", func(c, d bool) bool { return c && !d }},
	{"dearer only", func(c, d bool) bool { return !c && d }},
	{"both", func(c, d bool) bool { return c && d }},
	{"neither", func(c, d bool) bool { return !c && !d }},
}

// twoSources counts the calls of the two sources in the episodes of the stratum two_source, in the first budget mode.
func (e *Env) twoSources(s suite.Suite, trs []trajectory.Trajectory) ([]source, error) {
	if !slices.Contains(e.splits(), company.TwoSourceTest) {
		return nil, nil
	}
	tasks, err := s.Tasks(company.TwoSourceTest)
	if err != nil {
		return nil, err
	}
	byID := map[string]suite.Task{}
	var lists []string
	for _, t := range tasks {
		byID[t.ID] = t
		if l := company.PriceList(t); !slices.Contains(lists, l) {
			lists = append(lists, l)
		}
	}
	slices.Sort(lists)
	const all = "all"
	cells := map[[3]string]map[shareKey][]*trajectory.Trajectory{} // of a method, a decoding and a price list
	for i := range trs {
		t := &trs[i]
		task, ok := byID[t.Task.ID]
		if t.Split != company.TwoSourceTest || t.BudgetMode != e.Config.Eval.BudgetModes[0] || !ok {
			continue
		}
		for _, list := range []string{all, company.PriceList(task)} {
			k := [3]string{t.Method, t.Decoding, list}
			if cells[k] == nil {
				cells[k] = map[shareKey][]*trajectory.Trajectory{}
			}
			c := shareKey{t.Seed, t.Task.ID}
			cells[k][c] = append(cells[k][c], t)
		}
	}
	var out []source
	for _, decoding := range []string{"greedy", "sampled"} {
		for _, method := range e.methods() {
			for _, list := range append([]string{all}, lists...) {
				of := cells[[3]string{method, decoding, list}]
				if of == nil {
					continue
				}
				r := source{method: method, decoding: decoding, prices: list}
				ids := map[string]bool{}
				for k, ts := range of {
					ids[k.task] = true
					if list != all {
						r.cheaper = ts[0].Task.Combination
					}
				}
				r.tasks = len(ids)
				for _, what := range sourceCalls {
					shares := sharesOf(of, func(t *trajectory.Trajectory) bool {
						called := calledTools(t)
						cheaper, dearer := company.ToolDoc, company.ToolWeb
						if t.Task.Combination == company.ToolWeb {
							cheaper, dearer = dearer, cheaper
						}
						return what.holds(slices.Contains(called, cheaper), slices.Contains(called, dearer))
					})
					r.shares = append(r.shares, e.shareOf(shares, fmt.Sprint("two_source/", method, "/", decoding, "/", list, "/", what.title)))
				}
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// pricesMarkdown is prices.md; empty where nothing of it was played.
func (e *Env) pricesMarkdown(shifts []shift, sources []source) []byte {
	if len(shifts)+len(sources) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("# Prices\n\nIntervals are at 95%: bootstrap over tasks and seeds, exact where every task gives the same share.\n")
	if len(shifts) > 0 {
		b.WriteString("\n## Other prices on the tasks of test\n\nThe tasks of " + TestPrices + " are tasks of test, offered at ")
		for i, t := range company.Tools {
			p, ok := e.Config.Eval.ShiftedPrices[t]
			if !ok {
				p = e.Config.Company.Prices[t]
			}
			fmt.Fprintf(&b, "%s%s %v instead of %v", []string{"", ", "}[min(1, i)], t, p, e.Config.Company.Prices[t])
		}
		b.WriteString(". Only the tools of the gold path answer such a task, so the cheapest path is the same at any prices and a policy should do what it did. Success is compared by task; " +
			"\"same tools\" is the share of attempts that called the same set of tools at both prices, right or wrong. Greedy attempts differ by the prompt alone, sampled ones also by chance.\n\n")
		var lines [][]string
		for _, s := range shifts {
			lines = append(lines, []string{s.method, s.decoding, fmt.Sprint(s.tasks), number(s.usual, 3, true), number(s.shifted, 3, true), s.difference.Signed(3), number(s.same, 3, true),
				number(s.ratio, 3, true), number(s.ratioShifted, 3, true)})
		}
		b.WriteString(grid(2, []string{"method", "decoding", "tasks", "success, usual prices", "success, other prices", "difference", "same tools", "cost / optimal, usual", "cost / optimal, other"}, lines))
	}
	if len(sources) > 0 {
		b.WriteString("\n## Facts that stand in both corpora\n\nEach task has its price list, and the fact stands in the documents and on the web: the cheaper source is the right one. " +
			"Shares of attempts that called which of the two. A policy that ignores prices calls the same source at every list.\n\n")
		var lines [][]string
		for _, s := range sources {
			cheaper := s.cheaper
			if cheaper == "" {
				cheaper = "-"
			}
			line := []string{s.method, s.decoding, s.prices, cheaper, fmt.Sprint(s.tasks)}
			for _, v := range s.shares {
				line = append(line, number(v, 3, true))
			}
			lines = append(lines, line)
		}
		header := []string{"method", "decoding", "prices", "cheaper", "tasks"}
		for _, c := range sourceCalls {
			header = append(header, c.title)
		}
		b.WriteString(grid(4, header, lines))
	}
	return []byte(b.String())
}

// pricesCSV is prices.csv: a line for each figure of prices.md.
func pricesCSV(shifts []shift, sources []source) []byte {
	if len(shifts)+len(sources) == 0 {
		return nil
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"split", "method", "decoding", "prices", "cheaper", "n_tasks", "figure", "value", "lo", "hi"})
	put := func(v eval.Interval, cells ...string) {
		_ = w.Write(append(cells, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi)))
	}
	for _, s := range shifts {
		for _, f := range []struct {
			name string
			v    eval.Interval
		}{{"success_usual", s.usual}, {"success_shifted", s.shifted}, {"success_difference", s.difference}, {"same_tools", s.same}, {"cost_ratio_usual", s.ratio}, {"cost_ratio_shifted", s.ratioShifted}} {
			put(f.v, TestPrices, s.method, s.decoding, "", "", fmt.Sprint(s.tasks), f.name)
		}
	}
	for _, s := range sources {
		for i, v := range s.shares {
			put(v, company.TwoSourceTest, s.method, s.decoding, s.prices, s.cheaper, fmt.Sprint(s.tasks), strings.ReplaceAll(sourceCalls[i].title, " ", "_"))
		}
	}
	w.Flush()
	return b.Bytes()
}
