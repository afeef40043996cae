package eval

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// None names the used combination of an episode that called no tool.
const None = "none"

// Confusion is the routing confusion matrix of a set: how often tasks of a gold combination were played with each used
// combination. The used combination of an episode is the set of tools it called, whether a call failed or not: calling is
// the routing decision, and it is paid for either way.
type Confusion struct {
	Gold, Used []string
	Count      [][]int // [gold][used] episodes
}

// Routing counts the episodes of a set. Rows are sorted by number of tools and name; columns start with the same
// combinations in the same order, so that right choices lie on the diagonal, followed by combinations that are gold nowhere.
func Routing(s *Set) Confusion {
	order := ToolOrder(s.Cells)
	labels := map[string]string{} // canonical set of tools -> the label that tasks use
	for i := range s.Cells {
		t := s.Cells[i].Task
		labels[combination(goldTools(&s.Cells[i]), order)] = t.Combination
	}
	counts := map[[2]string]int{}
	gold, other := map[string]bool{}, map[string]bool{}
	for i := range s.Cells {
		c := &s.Cells[i]
		g := c.Task.Combination
		gold[g] = true
		for j := range c.Episodes {
			used := UsedCombination(&c.Episodes[j], order)
			if l, ok := labels[used]; ok {
				used = l
			}
			other[used] = true
			counts[[2]string{g, used}]++
		}
	}
	m := Confusion{Gold: combinationsOf(gold)}
	for g := range gold {
		delete(other, g)
	}
	m.Used = append(slices.Clone(m.Gold), combinationsOf(other)...)
	for _, g := range m.Gold {
		line := make([]int, len(m.Used))
		for j, u := range m.Used {
			line[j] = counts[[2]string{g, u}]
		}
		m.Count = append(m.Count, line)
	}
	return m
}

// Accuracy is the share of episodes whose used combination is the gold one.
func (m *Confusion) Accuracy() float64 {
	right, all := 0, 0
	for i, line := range m.Count {
		right += line[i]
		for _, n := range line {
			all += n
		}
	}
	return divide(float64(right), float64(all))
}

// UsedCombination joins the tools that an episode called with "+", in the given order of tools (others after, by name).
func UsedCombination(e *Episode, order []string) string {
	var used []string
	for _, t := range e.Tools {
		if t.Used > 0 {
			used = append(used, t.Tool)
		}
	}
	return combination(used, order)
}

func goldTools(c *Cell) []string {
	var tools []string
	for name, n := range c.Task.GoldCalls {
		if n > 0 && name != trajectory.Finish {
			tools = append(tools, name)
		}
	}
	return tools
}

func combination(tools, order []string) string {
	if len(tools) == 0 {
		return None
	}
	rank := func(s string) int {
		if i := slices.Index(order, s); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(tools, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return strings.Join(tools, "+")
}

// ToolOrder returns an order of tools that agrees with the order in which the gold combinations name them, as far as they
// agree among themselves; ties go by name.
func ToolOrder(cells []Cell) []string {
	before := map[string]map[string]bool{} // tool -> tools that come earlier somewhere
	for i := range cells {
		names := strings.Split(cells[i].Task.Combination, "+")
		for j, n := range names {
			if n == "" {
				continue
			}
			if before[n] == nil {
				before[n] = map[string]bool{}
			}
			for _, m := range names[:j] {
				before[n][m] = true
			}
		}
	}
	var left, order []string
	for n := range before {
		left = append(left, n)
	}
	slices.Sort(left)
	for len(left) > 0 {
		pick := 0 // on a cycle the first by name goes first
		for i, n := range left {
			if !slices.ContainsFunc(left, func(m string) bool { return before[n][m] }) {
				pick = i
				break
			}
		}
		order = append(order, left[pick])
		left = slices.Delete(left, pick, pick+1)
	}
	return order
}

func combinationsOf(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	size := func(s string) int {
		if s == None {
			return 0
		}
		return 1 + strings.Count(s, "+")
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
	return out
}

// ToolUse sums the calls of one tool over the episodes of a set, against the gold paths of the same episodes.
type ToolUse struct {
	Tool       string
	Gold, Used int
	Wasted     int          // calls beyond those of the gold path
	WastedCost price.Amount // what these cost, at the episode's mean price of the tool
	Saved      int          // calls of the gold path that a solved episode did without
	Missing    int          // calls of the gold path that a failed episode did not make
	Avoided    int          // episodes that neither needed the tool nor called it: calls saved against calling every tool
	Failed     int
}

// CallsByTool returns the use of every tool that occurs in a gold path or a call of the set, by name.
func CallsByTool(s *Set) []ToolUse {
	byTool := map[string]*ToolUse{}
	for i := range s.Cells {
		for j := range s.Cells[i].Episodes {
			for _, t := range s.Cells[i].Episodes[j].Tools {
				if byTool[t.Tool] == nil {
					byTool[t.Tool] = &ToolUse{Tool: t.Tool}
				}
			}
		}
	}
	out := make([]ToolUse, 0, len(byTool))
	for _, u := range byTool {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b ToolUse) int { return cmp.Compare(a.Tool, b.Tool) })
	for i := range s.Cells {
		for j := range s.Cells[i].Episodes {
			e := &s.Cells[i].Episodes[j]
			for u := range out {
				k, found := slices.BinarySearchFunc(e.Tools, out[u].Tool, func(t ToolCalls, name string) int { return cmp.Compare(t.Tool, name) })
				if found {
					out[u].add(e.Tools[k], e.Verified)
				} else {
					out[u].Avoided++
				}
			}
		}
	}
	return out
}

func (u *ToolUse) add(t ToolCalls, solved bool) {
	u.Gold += t.Gold
	u.Used += t.Used
	u.Failed += t.Failed
	if extra := t.Used - t.Gold; extra > 0 {
		u.Wasted += extra
		u.WastedCost += price.Amount(math.Round(float64(t.Spend) * float64(extra) / float64(t.Used)))
	} else if solved {
		u.Saved -= extra
	} else {
		u.Missing -= extra
	}
	if t.Gold == 0 && t.Used == 0 {
		u.Avoided++
	}
}
