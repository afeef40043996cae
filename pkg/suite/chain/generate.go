package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Generate makes the data set of a config: the same config gives the same tasks everywhere. Every gold path is executed
// and the splits are checked before it returns.
func Generate(cfg Config) (*Suite, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := newSuite(cfg)
	g := generator{cfg: cfg, table: s.table, calcFacts: map[string]bool{}}
	entities := deal(cfg, s.names)
	// The evaluated splits come first: train gets the remaining facts.
	for _, split := range []string{Test, Val, Train} {
		tasks, err := g.split(split, entities[split])
		if err != nil {
			return nil, fmt.Errorf("generate split %s: %w", split, err)
		}
		s.tasks[split] = tasks
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("generated data: %w", err)
	}
	return s, nil
}

func newSuite(cfg Config) *Suite {
	names, table := makeTable(cfg)
	return &Suite{cfg: cfg, habit: DefaultHabit(), style: Compact, names: names, table: table, tasks: map[string][]suite.Task{}}
}

type generator struct {
	cfg       Config
	table     map[string]int64
	calcFacts map[string]bool // of all splits so far
}

// tries bounds the draws for one task. Only a config that leaves next to nothing to draw from reaches the bound.
const tries = 20000

func (g *generator) split(split string, entities []string) ([]suite.Task, error) {
	n := g.cfg.counts(split)
	var tasks []suite.Task
	for i := range n.Calc {
		t, err := g.calc(split, i)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	if most := len(entities) * len(wordings(Lookup, "")); n.Lookup > most {
		return nil, fmt.Errorf("world.%s.lookup is %d: %d entities in %d wordings make at most %d", split, n.Lookup, len(entities),
			len(wordings(Lookup, "")), most)
	}
	for i := range n.Lookup {
		tasks = append(tasks, g.lookup(split, i, entities))
	}
	facts := map[string]bool{}
	for i := range n.Compose {
		t, err := g.compose(split, i, entities, facts)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	// Mixed, so that any prefix of a split holds all kinds.
	rng.New(g.cfg.Seed, "chain/order", split).Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	return tasks, nil
}

func (g *generator) calc(split string, i int) (suite.Task, error) {
	op := g.cfg.Ops[i%len(g.cfg.Ops)]
	r := rng.New(g.cfg.Seed, "chain/calc", split, i)
	for range tries {
		a, b := g.cfg.draw(r), g.cfg.draw(r)
		fact := fmt.Sprintf("%s/%d/%d", op, a, b)
		if op != Difference && b < a {
			fact = fmt.Sprintf("%s/%d/%d", op, b, a)
		}
		answer := apply(op, a, b)
		if !g.cfg.fits(answer) || g.calcFacts[fact] {
			continue
		}
		g.calcFacts[fact] = true
		e, gold := expression(op, a, b), strconv.FormatInt(answer, 10)
		t := g.task(Calc, split, i, pick(r, wordings(Calc, "")), "", "", e, gold)
		t.Fact, t.Evidence = fact, source.Values(gold)
		t.Combination, t.Structure, t.Difficulty, t.Hops = []string{CalculatorTool}, "op", 1, 1
		t.GoldPath = []suite.Call{calculate(e), finish(gold)}
		t.OptimalCost = g.cfg.CalculatorPrice
		return t, nil
	}
	return suite.Task{}, noMore(Calc, op, i)
}

func (g *generator) lookup(split string, i int, entities []string) suite.Task {
	// Round by round over the entities, in another wording each round.
	a, round := entities[i%len(entities)], i/len(entities)
	w := wordings(Lookup, "")
	first := rng.New(g.cfg.Seed, "chain/lookup", split, a).IntN(len(w))
	gold := strconv.FormatInt(g.table[a], 10)
	t := g.task(Lookup, split, i, w[(first+round)%len(w)], a, "", "", gold)
	t.Fact, t.Evidence = "stock/"+a, source.Values(gold)
	t.Combination, t.Structure, t.Difficulty, t.Hops = []string{LookupTool}, "A", 1, 1
	t.GoldPath = []suite.Call{lookUp(a), finish(gold)}
	t.OptimalCost = g.cfg.LookupPrice
	return t
}

func (g *generator) compose(split string, i int, entities []string, facts map[string]bool) (suite.Task, error) {
	op := g.cfg.Ops[i%len(g.cfg.Ops)]
	r := rng.New(g.cfg.Seed, "chain/compose", split, i)
	for range tries {
		a, b := pick(r, entities), pick(r, entities)
		lo, hi := min(a, b), max(a, b)
		fact := op + "/" + lo + "/" + hi
		va, vb := g.table[a], g.table[b]
		answer := apply(op, va, vb)
		if a == b || !g.cfg.fits(answer) || facts[fact] {
			continue
		}
		facts[fact] = true
		gold := strconv.FormatInt(answer, 10)
		t := g.task(Compose, split, i, pick(r, wordings(Compose, op)), a, b, "", gold)
		t.Fact, t.Evidence = fact, source.Values(strconv.FormatInt(va, 10), strconv.FormatInt(vb, 10))
		t.Combination, t.Structure, t.Difficulty, t.Hops = []string{LookupTool, CalculatorTool}, "A op A", 2, 2
		if op == Product {
			t.Difficulty = 3
		}
		t.Tags = []string{op, order(a, b)}
		t.GoldPath = []suite.Call{lookUp(a), lookUp(b), calculate(expression(op, va, vb)), finish(gold)}
		t.OptimalCost = 2*g.cfg.LookupPrice + g.cfg.CalculatorPrice
		return t, nil
	}
	return suite.Task{}, noMore(Compose, op, i)
}

// The tags of compose tasks that say whether the question names its entities in ascending order.
const (
	Ascending  = "ascending"
	Descending = "descending"
)

func order(a, b string) string {
	if a < b {
		return Ascending
	}
	return Descending
}

func (g *generator) task(kind, split string, i int, p phrasing, a, b, e, gold string) suite.Task {
	return suite.Task{
		ID: fmt.Sprintf("%s-%s-%04d", split, kind, i), Split: split, Question: p.render(a, b, e),
		Answer:   suite.Answer{Type: suite.Number, Values: []string{gold}},
		Template: kind, Phrasing: p.id,
	}
}

func noMore(kind, op string, i int) error {
	return fmt.Errorf("no further %s task with op %s after %d: ask for fewer tasks, leave the op out of world.ops, or raise world.max_digits or world.max_answer_digits",
		kind, op, i)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func lookUp(name string) suite.Call {
	return suite.Call{Tool: LookupTool, Args: mustJSON(map[string]string{"name": name})}
}

func calculate(e string) suite.Call {
	return suite.Call{Tool: CalculatorTool, Args: mustJSON(map[string]string{"expression": e})}
}

func finish(answer string) suite.Call {
	return suite.Call{Tool: tool.FinishName, Args: mustJSON(map[string]string{"answer": answer})}
}

// check executes every gold path and checks the splits against each other.
func (s *Suite) check() error {
	box, err := s.Box(suite.Task{})
	if err != nil {
		return err
	}
	defer box.Close()
	for _, split := range splits {
		for _, t := range s.tasks[split] {
			if err := s.checkGold(box, t); err != nil {
				return err
			}
		}
	}
	return CheckSplits(s.tasks[Train], s.tasks[Val], s.tasks[Test])
}

func (s *Suite) checkGold(box *tool.Box, t suite.Task) error {
	if n := len(t.GoldPath); n == 0 || n > MaxTurns {
		return fmt.Errorf("task %s: the gold path has %d calls, want 1 to %d", t.ID, n, MaxTurns)
	}
	var seen []tool.Observation
	var spend price.Amount
	for i, c := range t.GoldPath {
		args, err := decodeArgs(c.Args)
		if err == nil {
			err = box.Validate(c.Tool, args)
		}
		if err != nil {
			return fmt.Errorf("task %s: gold call %d: %w", t.ID, i+1, err)
		}
		spend += box.Charge(c.Tool, args)
		if c.Tool == tool.FinishName {
			answer, _ := args["answer"].(string)
			switch v := s.Verify(t, answer, seen); {
			case i != len(t.GoldPath)-1:
				return fmt.Errorf("task %s: gold call %d finishes before the path ends", t.ID, i+1)
			case !v.Correct:
				return fmt.Errorf("task %s: the gold path answers %s, gold is %v", t.ID, answer, t.Answer.Values)
			case !v.Evidenced:
				return fmt.Errorf("task %s: the gold path does not show %v", t.ID, t.Evidence)
			case spend != t.OptimalCost:
				return fmt.Errorf("task %s: the gold path costs %s, optimal_cost is %s", t.ID, spend, t.OptimalCost)
			}
			return nil
		}
		obs, err := box.Call(context.Background(), c.Tool, args)
		if err != nil {
			return fmt.Errorf("task %s: gold call %d: %w", t.ID, i+1, err)
		}
		seen = append(seen, obs)
	}
	return fmt.Errorf("task %s: the gold path does not finish", t.ID)
}

func decodeArgs(raw json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return m, nil
}

// CheckSplits reports the first task id that stands twice, and the first question, fact or entity that two of the splits share. If there is
// none, no split uses a table entry of another.
func CheckSplits(splits ...[]suite.Task) error {
	type owner struct {
		split int
		id    string
	}
	ids, owners := map[string]bool{}, map[string]owner{}
	for i, tasks := range splits {
		for _, t := range tasks {
			if ids[t.ID] {
				return fmt.Errorf("task id %s stands twice", t.ID)
			}
			ids[t.ID] = true
			keys := []string{"question " + t.Question, "fact " + t.Fact}
			q, ok := readQuestion(t.Phrasing, t.Question)
			if !ok || q.kind != t.Template {
				return fmt.Errorf("task %s: the question is not one of phrasing %q", t.ID, t.Phrasing)
			}
			for _, e := range q.entities {
				keys = append(keys, "entity "+canonical(e))
			}
			for _, k := range keys {
				if o, taken := owners[k]; taken && o.split != i {
					return fmt.Errorf("tasks %s and %s of two splits share the %s", o.id, t.ID, k)
				}
				owners[k] = owner{i, t.ID}
			}
		}
	}
	return nil
}

// Entities returns the names of the table in order.
func (s *Suite) Entities() []string { return slices.Clone(s.names) }
