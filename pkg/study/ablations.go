package study

import (
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/table"
)

// Figure is a column of the table of ablations: a metric of the rows of one decoding.
type Figure struct{ Name, Title, Decoding, Metric string }

// Figures are the columns of the table of ablations.
var Figures = []Figure{
	{"success", "success, greedy", "greedy", "success_rate"},
	{"pass_at_1", "pass@1", "sampled", "pass_at_1"},
	{"pass_at_k", "pass@k", "sampled", "pass_at_k"},
	{"cost_ratio", "cost / optimal, greedy", "greedy", "cost_ratio"},
	{"cost_ratio_sampled", "cost / optimal, sampled", "sampled", "cost_ratio"},
}

// Ablation is a row: what a recipe came to on a split, and the paired difference to the one it is compared with. A figure
// that is not defined, or a row that was not played, is NaN.
type Ablation struct {
	Split, Recipe, Method, Changes, Against string
	Seeds, Tasks, K, KTasks                 int             // KTasks have the K attempts of pass@k
	Values, Difference                      []eval.Interval // by Figures; no difference in the rows compared with
}

// Change is a recipe in the table of ablations. Changes says in a few words what it changes of the method Against; both are empty for a recipe
// that others are compared with.
type Change struct{ Recipe, Method, Changes, Against string }

// Ablations sets every change against the method that it names, on every split, in the scope's budget mode, in the order of changes.
func Ablations(c *eval.Collector, changes []Change, in Scope) ([]Ablation, error) {
	opts, budget := in.Options, in.Budget
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
	var out []Ablation
	for _, split := range opts.Splits {
		for _, r := range changes {
			a := Ablation{Split: split, Recipe: r.Recipe, Method: r.Method, Changes: r.Changes, Against: r.Against}
			for _, m := range Figures {
				v := none
				if found := row(r.Method, split, m.Decoding); found != nil {
					v, a.Seeds, a.Tasks = found.Get(m.Metric), max(a.Seeds, found.Seeds), max(a.Tasks, found.Tasks)
					if m.Metric == "pass_at_k" {
						a.K, a.KTasks = found.K, found.PassKTasks
					}
				}
				a.Values = append(a.Values, v)
			}
			if r.Changes == "" {
				out = append(out, a)
				continue
			}
			differences := map[string]eval.Comparison{}
			for _, decoding := range []string{"greedy", "sampled"} {
				mine, theirs := find(r.Method, split, decoding), find(r.Against, split, decoding)
				if mine == nil || theirs == nil {
					continue
				}
				d, err := eval.Compare(ofSeeds(theirs, mine), ofSeeds(mine, theirs), opts)
				if err != nil {
					return nil, err
				}
				differences[decoding] = d
			}
			for _, m := range Figures {
				v := none
				if d, ok := differences[m.Decoding]; ok {
					v = d.Difference[eval.MetricIndex(m.Metric)]
				}
				a.Difference = append(a.Difference, v)
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

// AblationsMarkdown renders a section for each split. seeds is the number of training seeds.
func AblationsMarkdown(rows []Ablation, seeds int) []byte {
	var b strings.Builder
	b.WriteString("# Ablations\n\nEach row changes one thing. Below a figure, the paired difference to the row that is named under \"against\", on the same tasks and seeds; " +
		"intervals are at 95% (bootstrap over tasks and seeds, exact where every task gives the same), and a difference whose interval excludes 0 is **bold**. Success is greedy; pass@1 and pass@k are of sampled attempts.\n")
	if seeds > 1 {
		fmt.Fprintf(&b, "\n%d training seeds, where a row has them all (ablations.csv says how many): seeds are resampled together with tasks, and a difference is over the seeds that both rows have.\n", seeds)
	}
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Split == rows[from].Split {
			to++
		}
		part := rows[from:to]
		k, tasks := 0, 0
		for _, r := range part {
			k, tasks = max(k, r.K), max(tasks, r.Tasks)
		}
		header := []string{"method", "changes", "against"}
		for _, m := range Figures {
			header = append(header, strings.Replace(m.Title, "pass@k", fmt.Sprintf("pass@%d", k), 1))
		}
		var lines [][]string
		for _, r := range part {
			line := []string{r.Method, r.Changes, r.Against}
			if r.Tasks == 0 {
				line[1] += " (not played)"
			}
			for i, v := range r.Values {
				s := v.Text(3)
				if Figures[i].Metric == "pass_at_k" && r.K > 0 {
					s += passNote(r.K, k, r.KTasks, r.Tasks)
				}
				if r.Difference != nil {
					if d := r.Difference[i].Signed(3); d != "-" {
						if r.Difference[i].Excludes0() {
							d = "**" + d + "**"
						}
						s += "<br>" + d
					}
				}
				line = append(line, s)
			}
			lines = append(lines, line)
		}
		fmt.Fprintf(&b, "\n## %s, %d tasks\n\n%s", part[0].Split, tasks, (&table.Table{Header: header, Lines: lines, Left: 3}).Markdown())
		from = to
	}
	return []byte(b.String())
}

// passNote qualifies a pass@k: it names a k other than the column's, and the tasks left out for too few attempts.
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

// AblationsCSV has a line for each row.
func AblationsCSV(rows []Ablation) []byte {
	header := []string{"split", "recipe", "method", "changes", "against", "seeds", "n_tasks", "k", "pass_at_k_tasks"}
	for _, m := range Figures {
		header = append(header, m.Name, m.Name+"_lo", m.Name+"_hi", m.Name+"_difference", m.Name+"_difference_lo", m.Name+"_difference_hi")
	}
	out := table.New(0, header...)
	for _, r := range rows {
		line := []string{r.Split, r.Recipe, r.Method, r.Changes, r.Against, fmt.Sprint(r.Seeds), fmt.Sprint(r.Tasks), fmt.Sprint(r.K), fmt.Sprint(r.KTasks)}
		for i, v := range r.Values {
			line = append(line, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
			if r.Difference == nil {
				line = append(line, "", "", "")
				continue
			}
			d := r.Difference[i]
			line = append(line, eval.Number(d.Value), eval.Number(d.Lo), eval.Number(d.Hi))
		}
		out.Add(line...)
	}
	return out.CSV()
}
