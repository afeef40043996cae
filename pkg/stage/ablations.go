package stage

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
)

// gauge is a column of the table of ablations: a metric of the rows of one decoding.
type gauge struct{ name, title, decoding, metric string }

var gauges = []gauge{
	{"success", "success, greedy", "greedy", "success_rate"},
	{"pass_at_1", "pass@1", "sampled", "pass_at_1"},
	{"pass_at_k", "pass@k", "sampled", "pass_at_k"},
	{"cost_ratio", "cost / optimal, greedy", "greedy", "cost_ratio"},
	{"cost_ratio_sampled", "cost / optimal, sampled", "sampled", "cost_ratio"},
}

// ablation is a row: what a recipe came to on a split, and the paired difference to the one it is compared with. A figure
// that is not defined, or a row that was not played, is NaN.
type ablation struct {
	split, recipe, method, changes, against string
	seeds, tasks, k, kTasks                 int             // kTasks have the k attempts of pass@k
	values, difference                      []eval.Interval // by gauges; no difference in the rows compared with
}

// ablations sets every recipe that says what it changes against the one it names, on every split, in the first budget mode. The rows
// of a split begin with those that others are compared with.
func (e *Env) ablations(c *eval.Collector) ([]ablation, error) {
	opts := e.evalOptions()
	budget := e.Config.Eval.BudgetModes[0]
	var compared, all []string
	for _, name := range e.Config.Train {
		if r := e.Config.Recipes[name]; r.Ablation != "" {
			all = append(all, name)
			if !slices.Contains(compared, r.Against) && e.Config.Recipes[r.Against].Ablation == "" {
				compared = append(compared, r.Against)
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	rank := func(name string) int {
		if at := slices.Index(e.Config.Train, name); at >= 0 {
			return at
		}
		return len(e.Config.Train)
	}
	slices.SortStableFunc(compared, func(a, b string) int { return rank(a) - rank(b) })
	sets := c.Sets(opts.Splits, opts.Methods)
	find := func(method, split, decoding string) *eval.Set {
		for i := range sets {
			if k := sets[i].Key; k.Method == method && k.Split == split && k.Budget == budget && k.Decoding == decoding {
				return &sets[i]
			}
		}
		return nil
	}
	rows := eval.Table(c, opts)
	row := func(method, split, decoding string) *eval.Row {
		for i := range rows {
			if k := rows[i].Key; k.Method == method && k.Split == split && k.Budget == budget && k.Decoding == decoding {
				return &rows[i]
			}
		}
		return nil
	}
	none := (&eval.Row{}).Get("") // not defined
	var out []ablation
	for _, split := range e.splits() {
		for _, name := range append(slices.Clone(compared), all...) {
			r := e.Config.Recipes[name]
			a := ablation{split: split, recipe: name, method: r.Method}
			for _, m := range gauges {
				v := none
				if found := row(r.Method, split, m.decoding); found != nil {
					v, a.seeds, a.tasks = found.Get(m.metric), max(a.seeds, found.Seeds), max(a.tasks, found.Tasks)
					if m.metric == "pass_at_k" {
						a.k, a.kTasks = found.K, found.PassKTasks
					}
				}
				a.values = append(a.values, v)
			}
			if r.Ablation == "" {
				out = append(out, a)
				continue
			}
			pair := e.changed(name)
			a.changes, a.against = r.Ablation, pair.Baseline
			differences := map[string]eval.Comparison{}
			for _, decoding := range []string{"greedy", "sampled"} {
				mine, theirs := find(pair.Later, split, decoding), find(pair.Baseline, split, decoding)
				if mine == nil || theirs == nil {
					continue
				}
				d, err := eval.Compare(ofSeeds(theirs, mine), ofSeeds(mine, theirs), opts)
				if err != nil {
					return nil, err
				}
				differences[decoding] = d
			}
			for _, m := range gauges {
				v := none
				if d, ok := differences[m.decoding]; ok {
					v = d.Difference[eval.MetricIndex(m.metric)]
				}
				a.difference = append(a.difference, v)
			}
			out = append(out, a)
		}
	}
	return out, nil
}

// ofSeeds is the part of a set that was trained with a seed that the other one has too, so that an ablation of one seed is paired with that
// very seed; all of it where they have none in common.
func ofSeeds(s, other *eval.Set) *eval.Set {
	have := map[uint64]bool{}
	for i := range other.Cells {
		have[other.Cells[i].Seed] = true
	}
	part := &eval.Set{Key: s.Key}
	for _, c := range s.Cells {
		if have[c.Seed] {
			part.Cells = append(part.Cells, c)
		}
	}
	if len(part.Cells) == 0 {
		return s
	}
	return part
}

func ablationsMarkdown(rows []ablation, seeds int) []byte {
	var b strings.Builder
	b.WriteString("# Ablations\n\nEach row changes one thing. Below a figure, the paired difference to the row that is named under \"against\", on the same tasks and seeds; " +
		"intervals are at 95% (bootstrap over tasks and seeds, exact where every task gives the same), and a difference whose interval excludes 0 is **bold**. Success is greedy; pass@1 and pass@k are of sampled attempts.\n")
	if seeds > 1 {
		fmt.Fprintf(&b, "\n%d training seeds, where a row has them all (ablations.csv says how many): seeds are resampled together with tasks, and a difference is over the seeds that both rows have.\n", seeds)
	}
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].split == rows[from].split {
			to++
		}
		part := rows[from:to]
		k, tasks := 0, 0
		for _, r := range part {
			k, tasks = max(k, r.k), max(tasks, r.tasks)
		}
		header := []string{"method", "changes", "against"}
		for _, m := range gauges {
			header = append(header, strings.Replace(m.title, "pass@k", fmt.Sprintf("pass@%d", k), 1))
		}
		var lines [][]string
		for _, r := range part {
			line := []string{r.method, r.changes, r.against}
			if r.tasks == 0 {
				line[1] += " (not played)"
			}
			for i, v := range r.values {
				s := number(v, 3, true)
				if gauges[i].metric == "pass_at_k" && r.k > 0 {
					s += passNote(r.k, k, r.kTasks, r.tasks)
				}
				if r.difference != nil {
					if d := r.difference[i].Signed(3); d != "-" {
						if r.difference[i].Excludes0() {
							d = "**" + d + "**"
						}
						s += "<br>" + d
					}
				}
				line = append(line, s)
			}
			lines = append(lines, line)
		}
		fmt.Fprintf(&b, "\n## %s, %d tasks\n\n%s", part[0].split, tasks, grid(3, header, lines))
		from = to
	}
	return []byte(b.String())
}

// passNote says of a pass@k what its column does not: another k than the column's, and tasks left out for too few attempts.
func passNote(k, of, counted, tasks int) string {
	var parts []string
	if k != of {
		parts = append(parts, fmt.Sprintf("pass@%d", k))
	}
	if counted < tasks {
		parts = append(parts, fmt.Sprintf("%d of %d tasks", counted, tasks))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}

func ablationsCSV(rows []ablation) []byte {
	header := []string{"split", "recipe", "method", "changes", "against", "seeds", "n_tasks", "k", "pass_at_k_tasks"}
	for _, m := range gauges {
		header = append(header, m.name, m.name+"_lo", m.name+"_hi", m.name+"_difference", m.name+"_difference_lo", m.name+"_difference_hi")
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(header) // a buffer takes everything
	for _, r := range rows {
		line := []string{r.split, r.recipe, r.method, r.changes, r.against, fmt.Sprint(r.seeds), fmt.Sprint(r.tasks), fmt.Sprint(r.k), fmt.Sprint(r.kTasks)}
		for i, v := range r.values {
			line = append(line, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
			if r.difference == nil {
				line = append(line, "", "", "")
				continue
			}
			d := r.difference[i]
			line = append(line, eval.Number(d.Value), eval.Number(d.Lo), eval.Number(d.Hi))
		}
		_ = w.Write(line)
	}
	w.Flush()
	return b.Bytes()
}
