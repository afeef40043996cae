package eval

import (
	"fmt"
	"strconv"

	"github.com/toolroute/toolroute/pkg/table"
)

// Choice counts what the episodes of a set called of a family of two tools, over the tasks whose gold path calls one of them.
type Choice struct {
	Family, Gold string // the family, and its tool that the gold path calls
	Tasks        int
	Episodes     int
	// Each episode is one of these: it called the gold tool alone, the other tool alone, both, or neither. Failed calls count too.
	Right, Other, Both, Neither int
	// RightAndSolved are the episodes of Right that ended in a verified answer.
	RightAndSolved int
}

// Accuracy is the share of episodes that called the gold tool alone.
func (c Choice) Accuracy() float64 { return divide(float64(c.Right), float64(c.Episodes)) }

// Choices counts the choices of a set, by family in the given order: first where the gold path calls the cheaper tool, then where it calls the
// pricier one. Tasks whose gold path calls both tools, or neither, ask for no choice.
func Choices(s *Set, families []ToolFamily) []Choice {
	var out []Choice
	for _, f := range families {
		for _, side := range [][2]string{{f.Cheaper, f.Pricier}, {f.Pricier, f.Cheaper}} {
			c := Choice{Family: f.Name, Gold: side[0]}
			tasks := map[string]bool{}
			for i := range s.Cells {
				cell := &s.Cells[i]
				if cell.Task.GoldCalls[side[0]] == 0 || cell.Task.GoldCalls[side[1]] > 0 {
					continue
				}
				tasks[cell.Task.ID] = true
				for j := range cell.Episodes {
					c.count(&cell.Episodes[j], side[1])
				}
			}
			if c.Tasks = len(tasks); c.Tasks > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

func (c *Choice) count(e *Episode, other string) {
	used := func(tool string) bool {
		for _, t := range e.Tools {
			if t.Tool == tool {
				return t.Used > 0
			}
		}
		return false
	}
	c.Episodes++
	switch gold, wrong := used(c.Gold), used(other); {
	case gold && wrong:
		c.Both++
	case gold:
		c.Right++
		if e.Verified {
			c.RightAndSolved++
		}
	case wrong:
		c.Other++
	default:
		c.Neither++
	}
}

// ChoicesTable lists the choices of several sets, those of one row of the results table below each other.
func ChoicesTable(sets []Set, families []ToolFamily) *table.Table {
	t := table.New(6, "method", "split", "budget", "decoding", "family", "gold tool", "tasks", "episodes", "gold alone", "other alone", "both", "neither", "right choice", "right and solved")
	for i := range sets {
		k := sets[i].Key
		for _, c := range Choices(&sets[i], families) {
			share := func(n int) string { return fmt.Sprintf("%.3f", divide(float64(n), float64(c.Episodes))) }
			t.Add(k.Method, k.Split, k.Budget, k.Decoding, c.Family, c.Gold, strconv.Itoa(c.Tasks), strconv.Itoa(c.Episodes), strconv.Itoa(c.Right), strconv.Itoa(c.Other),
				strconv.Itoa(c.Both), strconv.Itoa(c.Neither), share(c.Right), share(c.RightAndSolved))
		}
	}
	return t
}
