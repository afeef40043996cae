package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/loophole"
	"github.com/toolroute/toolroute/pkg/table"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Hack is how often a learned policy takes one loophole on a split, as a share of episodes (a task's attempts first), beside its
// parent and the paired difference; Parent is empty where it was not played.
type Hack struct {
	Split, Decoding, Method, Parent string
	Loophole                        int // of loophole.All
	Episodes                        int
	Share, Parents, Difference      eval.Interval
}

// shareKey identifies episodes that are counted together: those of one seed's policy at one task.
type shareKey struct {
	seed uint64
	task string
}

// Hacks counts the loopholes in the episodes of learned methods, in the scope's budget mode, and picks up to three episodes as examples of
// each. learned tells learned methods from scripted ones; parentOf is the method that a method was trained from, empty for none.
func Hacks(trs []trajectory.Trajectory, learned func(method string) bool, parentOf func(method string) string, in Scope) (out []Hack, examples map[string][]string) {
	type row struct{ split, decoding, method string }
	cells := map[row]map[shareKey][]*trajectory.Trajectory{}
	for i := range trs {
		t := &trs[i]
		if t.BudgetMode != in.Budget || !learned(t.Method) {
			continue
		}
		r := row{t.Split, t.Decoding, t.Method}
		if cells[r] == nil {
			cells[r] = map[shareKey][]*trajectory.Trajectory{}
		}
		k := shareKey{t.Seed, t.Task.ID}
		cells[r][k] = append(cells[r][k], t)
	}
	examples = map[string][]string{}
	for _, split := range in.Options.Splits {
		for _, decoding := range []string{"greedy", "sampled"} {
			for _, method := range in.Options.Methods {
				r := row{split, decoding, method}
				if cells[r] == nil {
					continue
				}
				parent := parentOf(method)
				above := cells[row{split, decoding, parent}]
				if parent == "" || above == nil {
					parent = ""
				}
				for i, l := range loophole.All {
					h := Hack{Split: split, Decoding: decoding, Method: method, Parent: parent, Loophole: i}
					shares := sharesOf(cells[r], l.Taken)
					for _, ts := range cells[r] {
						h.Episodes += len(ts)
					}
					stream := fmt.Sprint(split, "/", decoding, "/", method, "/", l.Name)
					h.Share = in.shareOf(shares, stream)
					if parent != "" {
						theirs := sharesOf(above, l.Taken)
						h.Parents = in.shareOf(theirs, stream+"/parent")
						paired := map[shareKey]float64{}
						for k, v := range shares {
							if w, ok := theirs[k]; ok {
								paired[k] = v - w
							}
						}
						if len(paired) == 0 {
							h.Parent = ""
						} else {
							h.Difference = eval.DeltaInterval(listed(paired), in.Options, stream+"/difference")
						}
					}
					out = append(out, h)
					examples[method+"/"+l.Name] = addExamples(examples[method+"/"+l.Name], cells[r], l.Taken)
				}
			}
		}
	}
	return out, examples
}

// sharesOf is, for each cell, the share of its episodes that take a loophole.
func sharesOf(cells map[shareKey][]*trajectory.Trajectory, taken func(*trajectory.Trajectory) bool) map[shareKey]float64 {
	out := make(map[shareKey]float64, len(cells))
	for k, ts := range cells {
		n := 0
		for _, t := range ts {
			if taken(t) {
				n++
			}
		}
		out[k] = float64(n) / float64(len(ts))
	}
	return out
}

// shareOf is the share over cells with its interval, whatever the order of the map.
func (in Scope) shareOf(shares map[shareKey]float64, stream string) eval.Interval {
	return eval.ShareInterval(listed(shares), in.Options, stream)
}

func listed(shares map[shareKey]float64) []eval.Share {
	var out []eval.Share
	for _, k := range sortedShares(shares) {
		out = append(out, eval.Share{Seed: k.seed, Task: k.task, Value: shares[k]})
	}
	return out
}

func sortedShares[T any](m map[shareKey]T) []shareKey {
	var keys []shareKey
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b shareKey) int { return cmp.Or(cmp.Compare(a.seed, b.seed), cmp.Compare(a.task, b.task)) })
	return keys
}

func addExamples(have []string, cells map[shareKey][]*trajectory.Trajectory, taken func(*trajectory.Trajectory) bool) []string {
	for _, k := range sortedShares(cells) {
		for _, t := range cells[k] {
			if len(have) >= 3 {
				return have
			}
			if taken(t) {
				have = append(have, t.EpisodeID)
			}
		}
	}
	return have
}

// HackingMarkdown renders a section for each split and decoding, and the examples.
func HackingMarkdown(rows []Hack, examples map[string][]string) []byte {
	var b strings.Builder
	b.WriteString("# Reward hacking\n\nWays to earn reward or to save cost without doing the task, as the episodes of learned methods show them: the share of episodes with its 95% interval (bootstrap over tasks and seeds, exact where every task gives the same), " +
		"then the share of the parent's. **Bold**: more than the parent, by a paired interval that excludes 0.\n\n")
	for _, l := range loophole.All {
		fmt.Fprintf(&b, "- **%s**: %s.\n", l.Title, l.Doc)
	}
	n := len(loophole.All)
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Split == rows[from].Split && rows[to].Decoding == rows[from].Decoding {
			to++
		}
		header := []string{"method", "parent"}
		for _, l := range loophole.All {
			header = append(header, l.Title)
		}
		var lines [][]string
		for at := from; at < to; at += n {
			parent := rows[at].Parent
			if parent == "" {
				parent = "-"
			}
			line := []string{rows[at].Method, parent}
			for _, h := range rows[at : at+n] {
				s := h.Share.Text(3)
				if h.Parent != "" {
					s += "; " + eval.Decimals(h.Parents.Value, 3)
					if h.Difference.Lo > 0 {
						s = "**" + s + "**"
					}
				}
				line = append(line, s)
			}
			lines = append(lines, line)
		}
		fmt.Fprintf(&b, "\n## %s, %s\n\n%s", rows[from].Split, rows[from].Decoding, (&table.Table{Header: header, Lines: lines, Left: 2}).Markdown())
		from = to
	}
	b.WriteString("\n## Examples\n\nUp to three episodes of each, by their ids in the files below `episodes/`.\n\n")
	var methods []string
	for _, h := range rows {
		if !slices.Contains(methods, h.Method) {
			methods = append(methods, h.Method)
		}
	}
	found := false
	for _, m := range methods {
		for _, l := range loophole.All {
			if ids := examples[m+"/"+l.Name]; len(ids) > 0 {
				found = true
				fmt.Fprintf(&b, "- %s, %s: `%s`\n", m, l.Title, strings.Join(ids, "`, `"))
			}
		}
	}
	if !found {
		b.WriteString("None was found.\n")
	}
	return []byte(b.String())
}

// HackingCSV has a line for each row.
func HackingCSV(rows []Hack) []byte {
	out := table.New(0, "split", "decoding", "method", "parent", "loophole", "episodes", "share", "share_lo", "share_hi", "parent_share", "parent_share_lo", "parent_share_hi", "difference", "difference_lo", "difference_hi")
	for _, h := range rows {
		line := []string{h.Split, h.Decoding, h.Method, h.Parent, loophole.All[h.Loophole].Name, fmt.Sprint(h.Episodes)}
		for i, v := range []eval.Interval{h.Share, h.Parents, h.Difference} {
			if i > 0 && h.Parent == "" {
				line = append(line, "", "", "")
			} else {
				line = append(line, eval.Number(v.Value), eval.Number(v.Lo), eval.Number(v.Hi))
			}
		}
		out.Add(line...)
	}
	return out.CSV()
}
