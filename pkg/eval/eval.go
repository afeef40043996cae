// Package eval turns trajectories into numbers: success, costs, rates, latencies and pass@k with bootstrap intervals, the
// same by stratum, the routing confusion matrix, calls wasted and saved by tool, and paired comparisons of two methods. It
// reads nothing but trajectories (a suite adds its own columns as data), draws no pictures and writes no files.
//
// The unit of everything is the cell: all attempts of one method on one task with one seed. Rates of episodes are averaged
// within a cell first, so a task with more attempts weighs no more than another; ratios of sums (cost per solved, cost
// ratio, invalid-action rate) pool the episodes of all cells. Intervals resample
// seeds and tasks together; see bootstrap.go.
package eval

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Key says which row of the results table an episode belongs to.
type Key struct {
	Suite, Method, Model, Split, Budget, Decoding string
	Temperature                                   float64
}

func (k Key) String() string {
	return fmt.Sprintf("%s/%s/%s/%s/%s/%s/%g", k.Suite, k.Method, k.Model, k.Split, k.Budget, k.Decoding, k.Temperature)
}

// KeyOf returns the row of a trajectory.
func KeyOf(t *trajectory.Trajectory) Key {
	return Key{t.Suite, t.Method, t.Model, t.Split, t.BudgetMode, t.Decoding, t.Temperature}
}

// Episode is what evaluation keeps of a trajectory: numbers, no text. Task is shared by the episodes of a task and has no
// question and no gold values.
type Episode struct {
	Task      *trajectory.Task
	Seed      uint64
	Attempt   int
	End       trajectory.EndReason
	Verified  bool
	Guess     bool // right, but not seen in any observation
	Truncated bool
	Spend     price.Amount
	Actions   int // turns, valid or not
	Invalid   int
	Failed    int
	Calls     int // executed tool calls, failed ones included, finish not
	Tools     []ToolCalls
	ModelTime float64 // seconds, sum over the turns
	ToolTime  float64

	own []ownValue
}

// ToolCalls counts the calls of one tool in one episode; episodes list tools by name.
type ToolCalls struct {
	Tool       string
	Gold, Used int
	Failed     int
	Spend      price.Amount
}

type ownValue struct {
	num, den float64
	group    string
}

func digest(t *trajectory.Trajectory, task *trajectory.Task, columns []Column) Episode {
	o := &t.Outcome
	e := Episode{
		Task: task, Seed: t.Seed, Attempt: t.Attempt, End: t.End,
		Verified: o.Verified, Guess: t.Guess(), Truncated: o.Truncated,
		Spend: o.Spend, Actions: len(t.Turns), Invalid: o.Invalid, Failed: o.Failed,
	}
	byTool := map[string]*ToolCalls{}
	at := func(name string) *ToolCalls {
		c := byTool[name]
		if c == nil {
			c = &ToolCalls{Tool: name}
			byTool[name] = c
		}
		return c
	}
	for name, n := range t.Task.GoldCalls {
		if name != trajectory.Finish {
			at(name).Gold = n
		}
	}
	for i := range t.Turns {
		turn := &t.Turns[i]
		e.ModelTime += turn.ModelTime
		e.ToolTime += turn.ToolTime
		if !t.Turns[i].Executed() {
			continue
		}
		e.Calls++
		c := at(turn.Action.Tool)
		c.Used++
		c.Spend += turn.Price
		if turn.Failed {
			c.Failed++
		}
	}
	for _, c := range byTool {
		e.Tools = append(e.Tools, *c)
	}
	slices.SortFunc(e.Tools, func(a, b ToolCalls) int { return cmp.Compare(a.Tool, b.Tool) })
	for _, c := range columns {
		v := ownValue{}
		if c.Ratio != nil {
			v.num, v.den = c.Ratio(t)
		}
		if c.MinBy != nil {
			v.group = c.MinBy(t)
		}
		if c.MostBy != nil {
			v.group = c.MostBy(t)
		}
		e.own = append(e.own, v)
	}
	return e
}

// Cell is all attempts of one method on one task with one seed, in the order of the attempts.
type Cell struct {
	Seed     uint64
	Task     *trajectory.Task
	Episodes []Episode
}

// Set is the cells of one row, sorted by seed and task.
type Set struct {
	Key   Key
	Cells []Cell
}

// Where is the part of the set whose tasks are kept.
func (s *Set) Where(keep func(t *trajectory.Task) bool) Set {
	out := Set{Key: s.Key}
	for _, c := range s.Cells {
		if keep(c.Task) {
			out.Cells = append(out.Cells, c)
		}
	}
	return out
}

// Collector gathers trajectories one at a time, so that a run larger than memory can be evaluated. The zero value collects
// without columns of a suite. It is not safe for concurrent use.
type Collector struct {
	Columns []Column // set before the first Add
	tasks   map[[3]string]*trajectory.Task
	sets    map[Key]map[cellKey]*Cell
}

type cellKey struct {
	seed uint64
	task string
}

// Add takes one trajectory in; the collector keeps no reference to it. An attempt that was added before is an error: it
// would be counted twice.
// An episode with the end reason error could not be played on. It says nothing of the policy, so it is left out of everything.
func (c *Collector) Add(t *trajectory.Trajectory) error {
	if t.End == trajectory.Error {
		return nil
	}
	if t.Task.ID == "" {
		return fmt.Errorf("episode %q: task.id is empty", t.EpisodeID)
	}
	if c.sets == nil {
		c.sets, c.tasks = map[Key]map[cellKey]*Cell{}, map[[3]string]*trajectory.Task{}
	}
	tk := [3]string{t.Suite, t.Split, t.Task.ID}
	task := c.tasks[tk]
	if task == nil {
		task = new(trajectory.Task)
		*task = t.Task
		task.Question, task.Gold, task.GoldPath, task.Paths = "", nil, nil, nil
		c.tasks[tk] = task
	}
	if t.Task.OptimalCost != task.OptimalCost { // prices may differ between methods' worlds; keep the episode's own
		own := *task
		own.OptimalCost, own.Budget = t.Task.OptimalCost, t.Task.Budget
		task = &own
	}
	key, ck := KeyOf(t), cellKey{t.Seed, t.Task.ID}
	if c.sets[key] == nil {
		c.sets[key] = map[cellKey]*Cell{}
	}
	cell := c.sets[key][ck]
	if cell == nil {
		cell = &Cell{Seed: t.Seed, Task: task}
		c.sets[key][ck] = cell
	}
	i, dup := slices.BinarySearchFunc(cell.Episodes, t.Attempt, func(e Episode, a int) int { return cmp.Compare(e.Attempt, a) })
	if dup {
		return fmt.Errorf("episode %q: attempt %d of task %s, seed %d, occurs twice in %s", t.EpisodeID, t.Attempt, t.Task.ID, t.Seed, key)
	}
	cell.Episodes = slices.Insert(cell.Episodes, i, digest(t, task, c.Columns))
	return nil
}

// Sets returns what was collected, in the order of the results table: by suite, split, budget mode, decoding, temperature,
// model and method; splits and methods follow the given lists first, others by name. It does not depend on the order in
// which trajectories came.
func (c *Collector) Sets(splits, methods []string) []Set {
	sets := make([]Set, 0, len(c.sets))
	for key, cells := range c.sets {
		s := Set{Key: key, Cells: make([]Cell, 0, len(cells))}
		for _, cell := range cells {
			s.Cells = append(s.Cells, *cell)
		}
		slices.SortFunc(s.Cells, func(a, b Cell) int {
			return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Task.ID, b.Task.ID))
		})
		sets = append(sets, s)
	}
	rank := func(list []string, s string) int {
		if i := slices.Index(list, s); i >= 0 {
			return i
		}
		return len(list)
	}
	slices.SortFunc(sets, func(x, y Set) int {
		a, b := x.Key, y.Key
		return cmp.Or(
			cmp.Compare(a.Suite, b.Suite),
			cmp.Compare(rank(splits, a.Split), rank(splits, b.Split)), cmp.Compare(a.Split, b.Split),
			-cmp.Compare(a.Budget, b.Budget), // soft before none before hard: the headline first
			cmp.Compare(a.Decoding, b.Decoding), cmp.Compare(a.Temperature, b.Temperature),
			cmp.Compare(rank(methods, a.Method), rank(methods, b.Method)), cmp.Compare(a.Method, b.Method),
			cmp.Compare(a.Model, b.Model),
		)
	})
	return sets
}

// Collect gathers a slice of trajectories.
func Collect(trs []trajectory.Trajectory, columns []Column) (*Collector, error) {
	c := &Collector{Columns: columns}
	for i := range trs {
		if err := c.Add(&trs[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}
