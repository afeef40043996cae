package families

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Generate makes the data set of a config. The same config gives the same bytes everywhere. Every path is run and every guarantee checked
// before it returns.
func Generate(c Config) (*Suite, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Suite{cfg: c, draws: c.Seed, world: toolbox.NewWorld(c.Seed), tasks: map[string][]suite.Task{}}
	for _, t := range templates {
		tasks, err := s.ofTemplate(t, map[string]bool{})
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", t.name, err)
		}
		for _, t := range tasks {
			s.tasks[t.Split] = append(s.tasks[t.Split], t)
		}
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("generated data: %w", err)
	}
	return s, nil
}

// wordingsOf is how many wordings of an underlying task become tasks.
const wordingsOf = 2

// tries bounds the draws for one underlying task that is new and whose values are short enough.
const tries = 400

// ofTemplate makes the tasks of a template, none of them of a known underlying task. It stops early where the world has no further values for it.
func (s *Suite) ofTemplate(t template, known map[string]bool) ([]suite.Task, error) {
	want := max(4, int(math.Round(float64(s.cfg.Tasks)/wordingsOf*float64(t.weight)/1000)))
	var underlying [][]suite.Task
	for i := range want {
		tasks, err := s.underlying(t, i, known)
		if err != nil {
			return nil, err
		}
		if tasks == nil {
			break
		}
		underlying = append(underlying, tasks)
	}
	s.deal(t, underlying)
	return slices.Concat(underlying...), nil
}

// underlying draws one underlying task that is not among the known ones; nil if there is none left.
func (s *Suite) underlying(t template, index int, known map[string]bool) ([]suite.Task, error) {
	for attempt := range tries {
		b := newBuilder(s.world, s.cfg.Limits, rng.New(s.draws, "families/task", t.name, index, attempt), index)
		d := t.make(b)
		fact := t.name + "|" + strings.Join(d.values, "|")
		switch err := b.fits(); {
		case errors.Is(err, errTooLong) || known[fact]:
			continue
		case err != nil:
			return nil, err
		}
		known[fact] = true
		return s.tasksOf(t, index, fact, b, d)
	}
	return nil, nil
}

// tasksOf makes the tasks of an underlying one: the same paths under different wordings.
func (s *Suite) tasksOf(t template, index int, fact string, b *builder, d draft) ([]suite.Task, error) {
	if d.final == "" {
		d.final = d.answer.Values[0]
	}
	base := suite.Task{
		Answer: d.answer, Template: t.name, Fact: fact, Structure: t.group, Hops: len(b.needs), Difficulty: min(3, len(b.needs)),
		Evidence: mergedFacts(b.facts),
	}
	outcome, err := s.outcome(b.needs)
	if err != nil {
		return nil, err
	}
	base.Extra = encode(extra{Outcome: outcome})
	base.Paths = s.paths(b.needs, finish(b.summary(), d.final), finish("answer", guessOf(d.answer)))
	setGold(&base)
	var out []suite.Task
	for i := range wordingsOf {
		task := base
		w := (index + i) % len(d.wordings)
		task.ID = fmt.Sprintf("%s-%04d-%d", t.name, index, w)
		task.Question, task.Phrasing = d.wordings[w], fmt.Sprintf("%s-%d", t.name, w)
		out = append(out, task)
	}
	return out, nil
}

// mergedFacts drops facts that a task needs twice.
func mergedFacts(facts []source.Evidence) []source.Evidence {
	var out []source.Evidence
	for _, f := range facts {
		if !slices.ContainsFunc(out, func(e source.Evidence) bool { return e.Value == f.Value && slices.Equal(e.Sources, f.Sources) }) {
			out = append(out, f)
		}
	}
	return out
}

// outcome is what the sandbox holds after the first way of each need.
func (s *Suite) outcome(needs []need) (toolbox.Outcome, error) {
	state := toolbox.NewState(toolbox.Initial{})
	tools := map[string]tool.Tool{}
	for _, t := range s.world.Tools(state) {
		tools[t.Spec().Name] = t
	}
	for _, n := range needs {
		for _, c := range n.ways[0] {
			args, err := decode(c.Args)
			if err != nil {
				return toolbox.Outcome{}, err
			}
			if _, err := tools[c.Tool].Call(context.Background(), args); err != nil {
				return toolbox.Outcome{}, fmt.Errorf("%s%s: %w", c.Tool, c.Args, err)
			}
		}
	}
	return state.Outcome(), nil
}

// paths lists all combinations of the needs' ways by cost, the cheapest first, and then the failing attempts: the cheapest ways up to a need,
// its call that fails, and a guess.
func (s *Suite) paths(needs []need, final, guess suite.Call) []suite.Path {
	all := [][]suite.Call{nil}
	for _, n := range needs {
		var longer [][]suite.Call
		for _, p := range all {
			for _, w := range n.ways {
				longer = append(longer, slices.Concat(p, w))
			}
		}
		all = longer
	}
	prices := toolbox.Prices()
	var valid, failing []suite.Path
	for _, calls := range all {
		calls = append(calls, final)
		valid = append(valid, suite.Path{Calls: calls, Cost: costOf(calls, prices)})
	}
	byCost(valid)
	valid = valid[:min(len(valid), s.cfg.MaxValidPaths)]
	for i, n := range needs {
		if n.fails.Tool == "" {
			continue
		}
		var calls []suite.Call
		for _, before := range needs[:i] {
			calls = append(calls, cheapest(before.ways, prices)...)
		}
		calls = append(calls, n.fails, guess)
		failing = append(failing, suite.Path{Calls: calls, Cost: costOf(calls, prices), Fails: true})
	}
	return append(valid, failing...)
}

func byCost(paths []suite.Path) {
	slices.SortStableFunc(paths, func(a, b suite.Path) int { return int(a.Cost - b.Cost) })
}

func cheapest(ways [][]suite.Call, prices map[string]tool.Price) []suite.Call {
	return slices.MinFunc(ways, func(a, b []suite.Call) int { return int(costOf(a, prices) - costOf(b, prices)) })
}

// costOf is what calls are charged; finish is free.
func costOf(calls []suite.Call, prices map[string]tool.Price) price.Amount {
	var sum price.Amount
	for _, c := range calls {
		args, err := decode(c.Args)
		if err != nil {
			panic(err) // newCall wrote it
		}
		sum += prices[c.Tool].Of(args)
	}
	return sum
}

// guessOf is what an attempt that learned nothing might answer.
func guessOf(a suite.Answer) string {
	switch a.Type {
	case suite.Number:
		return "10"
	case suite.YesNo:
		return "yes"
	case suite.List:
		return strings.TrimSuffix(strings.Repeat("10, ", len(a.Values)), ", ")
	}
	return a.Values[0] // "done", or two verdicts: without evidence, right or wrong
}

// setGold makes the cheapest valid path the gold one, and sets what follows from it.
func setGold(t *suite.Task) {
	gold := t.Paths[0]
	t.GoldPath, t.OptimalCost = gold.Calls, gold.Cost
	called := map[string]bool{}
	for _, c := range gold.Calls {
		called[c.Tool] = true
	}
	t.Combination, t.Tags = nil, nil
	for _, name := range toolbox.Names() {
		if called[name] {
			t.Combination = append(t.Combination, name)
		}
	}
	for _, f := range Families() {
		switch cheaper, pricier := called[f.Cheaper], called[f.Pricier]; {
		case cheaper && pricier:
			t.Tags = append(t.Tags, familyTag+f.Name)
		case cheaper:
			t.Tags = append(t.Tags, familyTag+f.Name, choiceTag+f.Name+":"+f.Cheaper)
		case pricier:
			t.Tags = append(t.Tags, familyTag+f.Name, choiceTag+f.Name+":"+f.Pricier)
		}
	}
}

// The tags of a task: the families that its gold path calls a tool of, and the tool where it is only one of the two.
const (
	familyTag = "family:"
	choiceTag = "choice:"
)

// deal gives the underlying tasks of a template to the splits, each side of its crossover by itself.
func (s *Suite) deal(t template, underlying [][]suite.Task) {
	sides := map[string][]int{}
	for i, tasks := range underlying {
		side := strings.Join(slices.DeleteFunc(slices.Clone(tasks[0].Tags), func(tag string) bool { return !strings.HasPrefix(tag, choiceTag) }), " ")
		if t.group == groupMix {
			side = ""
		}
		sides[side] = append(sides[side], i)
	}
	for _, side := range slices.Sorted(maps.Keys(sides)) {
		at := sides[side]
		rng.New(s.cfg.Seed, "families/splits", t.name, side).Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
		n := float64(len(at))
		test := max(1, int(math.Round(s.cfg.Splits.Test*n)))
		val := int(math.Round((s.cfg.Splits.Test+s.cfg.Splits.Val)*n)) - test
		dpo := 0
		if t.group != groupPath {
			dpo = int(math.Round(s.cfg.Splits.DPOTrain * n))
		}
		for k, i := range at {
			split := SFTTrain
			switch {
			case k < test:
				split = Test
			case k < test+val:
				split = Val
			case k < test+val+dpo:
				split = DPOTrain
			}
			for j := range underlying[i] {
				underlying[i][j].Split = split
			}
		}
	}
}

// check is every guarantee of a data set: all paths hold (CheckPaths), no two splits share anything (CheckSplits), and both directions of a
// family are common (CheckBalance).
func (s *Suite) check() error {
	if err := CheckSplits(s.tasks); err != nil {
		return err
	}
	if s.draws == s.cfg.Seed && s.cfg.Tasks >= balancedFrom {
		if err := CheckBalance(s.tasks); err != nil {
			return err
		}
	}
	var all []suite.Task
	for _, split := range splits {
		all = append(all, s.tasks[split]...)
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for part := range slices.Chunk(indices(len(all)), max(1, len(all)/max(1, runtime.GOMAXPROCS(0)))) {
		wg.Go(func() {
			for _, i := range part {
				errs[i] = s.CheckPaths(all[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// CheckSplits reports a task, a wording or an underlying task that two splits share.
func CheckSplits(tasks map[string][]suite.Task) error {
	split := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		for _, t := range tasks[name] {
			if t.Split != name {
				return fmt.Errorf("task %s says it is of split %s and stands in %s", t.ID, t.Split, name)
			}
			for _, k := range []string{"task " + t.ID, "question " + t.Question, "underlying task " + t.Fact} {
				if other, ok := split[k]; ok && other != name {
					return fmt.Errorf("%s stands in the splits %s and %s", k, other, name)
				}
				split[k] = name
			}
		}
	}
	return nil
}

// CheckPaths runs every path of a task and reports the first thing that does not hold: a valid path answers rightly and with evidence, an
// attempt that fails does not, each costs what it says, the valid ones stand first and by cost, and the gold path is the first of them.
func (s *Suite) CheckPaths(t suite.Task) error {
	fail := func(i int, format string, a ...any) error {
		return fmt.Errorf("task %s: path %d "+format, append([]any{t.ID, i}, a...)...)
	}
	if len(t.Paths) == 0 || t.Paths[0].Fails {
		return fmt.Errorf("task %s has no valid path", t.ID)
	}
	if t.OptimalCost != t.Paths[0].Cost || !sameCalls(t.GoldPath, t.Paths[0].Calls) {
		return fail(0, "is not the gold path")
	}
	for i, p := range t.Paths {
		if i > 0 {
			before := t.Paths[i-1]
			if before.Fails && !p.Fails || before.Fails == p.Fails && !p.Fails && before.Cost > p.Cost {
				return fail(i, "stands after a path that is pricier or fails")
			}
		}
		verdict, cost, err := s.run(t, p.Calls)
		switch right := verdict.Correct && verdict.Evidenced; {
		case err != nil:
			return fail(i, "%w", err)
		case cost != p.Cost:
			return fail(i, "costs %s and says %s", cost, p.Cost)
		case right && p.Fails:
			return fail(i, "is listed as failing and solves the task")
		case !right && !p.Fails:
			return fail(i, "does not solve the task (right answer %t, evidence %t)", verdict.Correct, verdict.Evidenced)
		}
	}
	return nil
}

func sameCalls(a, b []suite.Call) bool {
	return slices.EqualFunc(a, b, func(x, y suite.Call) bool { return x.Tool == y.Tool && string(x.Args) == string(y.Args) })
}

// run plays calls in a sandbox of their own. A call that fails is charged and gives nothing.
func (s *Suite) run(t suite.Task, calls []suite.Call) (v suite.Verdict, cost price.Amount, err error) {
	box, err := s.Box(t)
	if err != nil {
		return v, 0, err
	}
	defer box.Close()
	var seen []tool.Observation
	for i, c := range calls {
		args, err := decode(c.Args)
		if err == nil {
			err = box.Validate(c.Tool, args)
		}
		if err != nil {
			return v, 0, fmt.Errorf("call %d: %w", i, err)
		}
		cost += box.Charge(c.Tool, args)
		if c.Tool == tool.FinishName {
			answer, _ := args["answer"].(string)
			if i != len(calls)-1 {
				return v, 0, fmt.Errorf("call %d finishes before the path ends", i)
			}
			return s.Verify(t, answer, seen), cost, nil
		}
		if obs, err := box.Call(context.Background(), c.Tool, args); err == nil {
			seen = append(seen, obs)
		}
	}
	return v, 0, errors.New("the path does not finish")
}

// extra is what a task holds beside what every suite's tasks do: what the sandbox must hold in the end.
type extra struct {
	Outcome toolbox.Outcome `json:"outcome"`
}

func extraOf(t suite.Task) (extra, error) {
	var x extra
	if len(t.Extra) == 0 {
		return x, nil
	}
	if err := json.Unmarshal(t.Extra, &x); err != nil {
		return x, fmt.Errorf("task %s: extra: %w", t.ID, err)
	}
	return x, nil
}

// balancedFrom is the size from which a data set must be balanced: in a smaller one a direction is a handful of tasks.
const balancedFrom = 4000

// minDirection is the least share that a direction of a family has among the tasks of a split that ask for a choice in it.
const minDirection = 0.15

// CheckBalance reports a family of which a split for training or the test has hardly any task in one direction.
func CheckBalance(tasks map[string][]suite.Task) error {
	for _, split := range []string{SFTTrain, DPOTrain, Test} {
		n := map[string]int{}
		for _, t := range tasks[split] {
			for _, tag := range t.Tags {
				n[tag]++
			}
		}
		for _, f := range Families() {
			cheaper, pricier := n[choiceTag+f.Name+":"+f.Cheaper], n[choiceTag+f.Name+":"+f.Pricier]
			if least := minDirection * float64(cheaper+pricier); cheaper+pricier == 0 || float64(cheaper) < least || float64(pricier) < least {
				return fmt.Errorf("family %s: in %s the cheaper tool is right in %d tasks and the pricier one in %d, want a share of %v of each", f.Name, split, cheaper, pricier, minDirection)
			}
		}
	}
	return nil
}
