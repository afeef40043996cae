package show

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/suite"
)

// splitTasks is the tasks of one split.
type splitTasks struct {
	name  string
	tasks []suite.Task
}

func (e view) allTasks(ctx context.Context) (suite.Suite, []splitTasks, error) {
	s, err := e.Suite(ctx)
	if err != nil {
		return nil, nil, err
	}
	var out []splitTasks
	for _, name := range s.Splits() {
		tasks, err := s.Tasks(name)
		if err != nil {
			return nil, nil, err
		}
		if len(tasks) > 0 {
			out = append(out, splitTasks{name, tasks})
		}
	}
	return s, out, nil
}

// Settings says what the run is: the profile, the seeds, what is trained and how it is evaluated.
func Settings(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	c := e.Config
	tasks := "all tasks of a split"
	if c.Eval.NTasks > 0 {
		tasks = fmt.Sprintf("at most %d tasks of a split, stratified", c.Eval.NTasks)
	}
	return text("%s", grid(2, []string{"setting", "value"}, [][]string{
		{"profile", e.Options.Profile}, {"suite", e.Options.Suite}, {"seed of the world and the evaluation", fmt.Sprint(c.Seed)},
		{"seeds of training", strings.Trim(fmt.Sprint(c.TrainSeeds), "[]")}, {"policies trained", strings.Join(c.Train, ", ")},
		{"evaluated on", tasks}, {"budget modes", strings.Join(c.Eval.BudgetModes, ", ")}, {"bootstrap resamples", fmt.Sprint(c.Eval.Resamples)}})), nil
}

// Tools lists the tools of the world with their prices.
func Tools(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	s, splits, err := e.allTasks(ctx)
	if err != nil {
		return nil, err
	}
	task := usual(splits)
	task.Offers = nil // all tools, at their default prices
	p, err := s.Prompt(task)
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for _, t := range p.Tools {
		cost := t.Price.Base.String()
		if t.Price.PerUnit != 0 {
			cost += fmt.Sprintf(" + %s per %s", t.Price.PerUnit, t.Price.UnitArg)
		}
		lines = append(lines, []string{"`" + t.Name + "`", t.Description, cost})
	}
	return text("%s", grid(2, []string{"tool", "what it does", "price of a call"}, lines)), nil
}

// usual is the first task that is offered the suite's default tools.
func usual(splits []splitTasks) suite.Task {
	for _, s := range splits {
		for _, t := range s.tasks {
			if len(t.Offers) == 0 {
				return t
			}
		}
	}
	return splits[0].tasks[0]
}

// Tasks counts the tasks of every split by difficulty.
func Tasks(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	_, splits, err := e.allTasks(ctx)
	if err != nil {
		return nil, err
	}
	levels := map[int]bool{}
	for _, s := range splits {
		for _, t := range s.tasks {
			levels[t.Difficulty] = true
		}
	}
	var order []int
	for l := range levels {
		order = append(order, l)
	}
	slices.Sort(order)
	header := []string{"split", "tasks"}
	for _, l := range order {
		header = append(header, fmt.Sprintf("difficulty %d", l))
	}
	header = append(header, "templates", "combinations", "mean calls", "mean optimal cost")
	var lines [][]string
	for _, s := range splits {
		count, templates, combos, calls := map[int]int{}, map[string]bool{}, map[string]bool{}, 0
		for _, t := range s.tasks {
			count[t.Difficulty]++
			templates[t.Template], combos[t.CombinationKey()] = true, true
			calls += len(t.GoldPath) - 1 // the last call is finish
		}
		line := []string{s.name, fmt.Sprint(len(s.tasks))}
		for _, l := range order {
			line = append(line, fmt.Sprint(count[l]))
		}
		n := float64(len(s.tasks))
		lines = append(lines, append(line, fmt.Sprint(len(templates)), fmt.Sprint(len(combos)), fmt.Sprintf("%.2f", float64(calls)/n), fmt.Sprintf("%.2f", meanCost(s.tasks))))
	}
	return text("%s", grid(1, header, lines)), nil
}

func meanCost(tasks []suite.Task) float64 {
	var sum price.Amount
	for _, t := range tasks {
		sum += t.OptimalCost
	}
	return sum.Float() / float64(len(tasks))
}

// combinations counts the tasks of each gold combination in each split, smaller combinations first.
func combinations(splits []splitTasks) (names []string, count map[string][]int) {
	count = map[string][]int{}
	for i, s := range splits {
		for _, t := range s.tasks {
			k := t.CombinationKey()
			if count[k] == nil {
				count[k] = make([]int, len(splits))
				names = append(names, k)
			}
			count[k][i]++
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := strings.Count(a, "+") - strings.Count(b, "+"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return names, count
}

// Combinations counts the tasks by the tools that their cheapest path needs: which combinations are trained on, and
// which are met for the first time in evaluation.
func Combinations(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	_, splits, err := e.allTasks(ctx)
	if err != nil {
		return nil, err
	}
	header := []string{"tools needed"}
	for _, s := range splits {
		header = append(header, s.name)
	}
	names, count := combinations(splits)
	var lines [][]string
	for _, k := range names {
		line := []string{k}
		for _, n := range count[k] {
			line = append(line, fmt.Sprint(n))
		}
		lines = append(lines, line)
	}
	return text("%s", grid(1, header, lines)), nil
}

// Costs draws how the optimal cost is distributed in each split.
func Costs(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	_, splits, err := e.allTasks(ctx)
	if err != nil {
		return nil, err
	}
	panel := report.Panel{X: "optimal cost (price units)", Y: "share of tasks at most that dear", Rate: true}
	for _, s := range splits {
		if s.name != e.Definition.Train && !slices.Contains(e.Splits(), s.name) {
			continue
		}
		costs := make([]float64, len(s.tasks))
		for i, t := range s.tasks {
			costs[i] = t.OptimalCost.Float()
		}
		slices.Sort(costs)
		line := report.Line{Name: s.name}
		share := 0.0
		for i, c := range costs {
			if i+1 == len(costs) || costs[i+1] != c {
				next := float64(i+1) / float64(len(costs))
				line.X, line.Y = append(line.X, c, c), append(line.Y, share, next) // a step
				share = next
			}
		}
		panel.Lines = append(panel.Lines, line)
	}
	png, err := report.Picture{Name: "optimal_costs", Title: "What the cheapest path costs", Subtitle: "Share of the tasks of a split whose cheapest proven path costs at most so much.", Panels: []report.Panel{panel}}.PNG()
	if err != nil {
		return nil, err
	}
	return e.picture("optimal_costs", png)
}

// Task shows what a policy sees of a task of a split, and the cheapest path beside it, which it does not see.
func Task(name string) Exhibit {
	return func(ctx context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		s, t, err := e.example(ctx, name)
		if err != nil {
			return nil, err
		}
		p, err := s.Prompt(t)
		if err != nil {
			return nil, err
		}
		seen := p.User
		if p.System != "" {
			seen = p.System + "\n\n" + p.User
		}
		var path []string
		for _, c := range t.GoldPath {
			path = append(path, fmt.Sprintf("`%s` `%s`", c.Tool, c.Args))
		}
		return text("Task `%s`, template %s, difficulty %d. The policy sees:\n\n%s\nIt does not see the gold answer, **%s**, nor the cheapest path, which costs %s: %s.\n",
			t.ID, t.Template, t.Difficulty, report.Fenced("text", seen), strings.Join(t.Answer.Values, ", "), t.OptimalCost, strings.Join(path, ", then ")), nil
	}
}

// Episode plays the task of Task by its cheapest path and shows the episode.
func Episode(name string) Exhibit {
	return func(ctx context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		s, t, err := e.example(ctx, name)
		if err != nil {
			return nil, err
		}
		tasks := []suite.Task{t}
		trs, err := rollout.Run(ctx, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), rollout.Options{Seed: e.Config.Seed, Slots: 1, Episode: e.Rules(e.Config.Eval.BudgetModes[0]),
			Reward: e.Config.Reward, Method: "oracle", Decoding: "greedy"})
		if err != nil {
			return nil, err
		}
		// The headings of an episode are those of a page of its own. Here they stand within a notebook, so they move down.
		return text("%s", strings.ReplaceAll(strings.Replace(report.Episode(&trs[0]), "# ", "### ", 1), "\n## ", "\n#### ")), nil
	}
}

// example is the task of a split with the longest gold path, the first of several.
func (e view) example(ctx context.Context, name string) (suite.Suite, suite.Task, error) {
	s, err := e.Suite(ctx)
	if err != nil {
		return nil, suite.Task{}, err
	}
	tasks, err := s.Tasks(name)
	if err != nil {
		return nil, suite.Task{}, err
	}
	if len(tasks) == 0 {
		return nil, suite.Task{}, fmt.Errorf("split %s has no tasks in this profile", name)
	}
	best := tasks[0]
	for _, t := range tasks {
		if len(t.GoldPath) > len(best.GoldPath) {
			best = t
		}
	}
	return s, best, nil
}

// WorldFindings says what the tables and pictures of the world show.
func WorldFindings(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	s, splits, err := e.allTasks(ctx)
	if err != nil {
		return nil, err
	}
	trained := map[string]bool{}
	total, budgeted := 0, 0
	var slack float64
	for _, sp := range splits {
		total += len(sp.tasks)
		for _, t := range sp.tasks {
			if sp.name == e.Definition.Train {
				trained[t.CombinationKey()] = true
			}
			if t.Budget > 0 && t.OptimalCost > 0 {
				budgeted++
				slack += t.Budget.Float() / t.OptimalCost.Float()
			}
		}
	}
	lines := []string{fmt.Sprintf("The %s world has %d tasks in %d splits; every one has a gold path that was executed and verified when it was made.", s.Name(), total, len(splits))}
	if budgeted > 0 {
		lines = append(lines, fmt.Sprintf("Budgets leave room for %.2f times the optimal cost on average: a detour or two, not calling everything.", slack/float64(budgeted)))
	}
	for _, sp := range splits {
		if !slices.Contains(e.Splits(), sp.name) {
			continue
		}
		unseen := 0
		for _, t := range sp.tasks {
			if !trained[t.CombinationKey()] {
				unseen++
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %d of %d tasks (%.0f%%) need a combination of tools that no training task needs; the mean optimal cost is %.2f.",
			sp.name, unseen, len(sp.tasks), 100*float64(unseen)/float64(len(sp.tasks)), meanCost(sp.tasks)))
	}
	return bullets(lines), nil
}
