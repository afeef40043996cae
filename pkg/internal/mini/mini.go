// Package mini is a suite small enough to read at a glance: a shelf of items, three priced tools, questions of one to
// three calls, and the rules a scripted policy needs. Tests and examples of the packages that play suites use it; it
// stands for no research question.
package mini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Suite is the mini suite. Wrap, when set, replaces the tools of an episode, for tests of what goes wrong.
type Suite struct {
	Seed  uint64
	Count int // tasks of split "train"; a third of each kind
	// Deadline of a tool call; 0 is the box's own.
	Deadline time.Duration
	Wrap     func(t suite.Task, tools []tool.Tool) []tool.Tool
}

var _ suite.Suite = (*Suite)(nil)

// tagCalculated is the tag of tasks whose answer stands in no store.
const tagCalculated = "calculated"

var names = []string{"bolts", "cups", "lamps", "mugs", "nails", "pens", "ropes", "tins"}

// Name implements suite.Suite.
func (s *Suite) Name() string { return "mini" }

// Splits implements suite.Suite.
func (s *Suite) Splits() []string { return []string{"train"} }

// world gives stock counts and prices of the items, from the seed.
func (s *Suite) world() (stock, cost map[string]int) {
	stock, cost = map[string]int{}, map[string]int{}
	r := rng.New(s.Seed, "mini world")
	for _, n := range names {
		stock[n], cost[n] = 100+r.IntN(900), 1000+r.IntN(9000)
	}
	return stock, cost
}

// Tasks implements suite.Suite.
func (s *Suite) Tasks(split string) ([]suite.Task, error) {
	if split != "train" {
		return nil, fmt.Errorf("suite mini has no split %q; it has train", split)
	}
	stock, cost := s.world()
	tasks := make([]suite.Task, s.Count)
	for i := range tasks {
		a := names[i%len(names)]
		t := suite.Task{ID: fmt.Sprintf("mini-%04d", i), Split: split, Phrasing: "p0", Hops: 1 + i%3, Difficulty: 1 + i%3}
		sa, ca := strconv.Itoa(stock[a]), strconv.Itoa(cost[a])
		call := func(name, arg, v string) suite.Call {
			return suite.Call{Tool: name, Args: json.RawMessage(fmt.Sprintf("{%q:%q}", arg, v))}
		}
		onShelf := source.Evidence{Value: sa, Sources: []string{"shelf:" + a}}
		inCatalog := source.Evidence{Value: ca, Sources: []string{"catalog:" + a}}
		var gold string
		switch i % 3 {
		case 0:
			t.Question, t.Template, t.Structure, t.Combination = "stock of "+a, "stock", "A", []string{"stock"}
			t.GoldPath, t.Evidence, gold, t.OptimalCost = []suite.Call{call("stock", "item", a)}, []source.Evidence{onShelf}, sa, price.Of(1)
		case 1:
			t.Question, t.Template, t.Structure, t.Combination = "price of "+a, "price", "A", []string{"catalog"}
			t.GoldPath, t.Evidence, gold, t.OptimalCost = []suite.Call{call("catalog", "query", a)}, []source.Evidence{inCatalog}, ca, price.Of(2)
		default:
			t.Question, t.Template, t.Structure, t.Combination = "value of "+a, "value", "A op B", []string{"stock", "catalog", "multiply"}
			gold = strconv.Itoa(stock[a] * cost[a])
			t.GoldPath = []suite.Call{call("stock", "item", a), call("catalog", "query", a), {Tool: "multiply", Args: json.RawMessage(`{"a":` + sa + `,"b":` + ca + `}`)}}
			t.Evidence, t.OptimalCost = []source.Evidence{onShelf, inCatalog, {Value: gold, Sources: []string{suite.CalculatedOf(sa, ca)}}}, price.Of(3.5)
		}
		t.GoldPath = append(t.GoldPath, call("finish", "answer", gold))
		t.Answer = suite.Answer{Type: suite.Number, Values: []string{gold}}
		if t.Hops == 3 {
			t.Tags = []string{tagCalculated}
		}
		t.Budget = (t.OptimalCost + t.OptimalCost/2).RoundUp(price.Of(0.5))
		t.Fact = t.Template + " " + a
		tasks[i] = t
	}
	return tasks, nil
}

// said is a sentence around a number that was read from a place.
func said(before string, n int, after, from string) tool.Observation {
	number := strconv.Itoa(n)
	return tool.Observation{Text: before + number + after, Reads: []source.Read{{Start: len(before), End: len(before) + len(number), From: []string{from}}}}
}

// Box implements suite.Suite.
func (s *Suite) Box(t suite.Task) (*tool.Box, error) {
	stock, cost := s.world()
	tools := []tool.Tool{
		tool.Func{
			Def: tool.Spec{Name: "stock", Description: "how many are on the shelf", Parameters: tool.StringSchema("item", "name"), Price: tool.Price{Base: price.Of(1)}},
			Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
				n, ok := stock[args["item"].(string)]
				if !ok {
					return tool.Observation{}, errors.New("no such item")
				}
				return said(fmt.Sprintf("%s: ", args["item"]), n, " on the shelf", "shelf:"+args["item"].(string)), nil
			},
		},
		tool.Func{
			Def: tool.Spec{Name: "catalog", Description: "searches the catalogue", Parameters: tool.StringSchema("query", "words"), Price: tool.Price{Base: price.Of(2)}},
			Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
				for _, n := range names {
					if strings.Contains(args["query"].(string), n) {
						return said("[score 4.2] "+n+" cost ", cost[n], " each", "catalog:"+n), nil
					}
				}
				return tool.Said("[score 0.1] nothing like it"), nil
			},
		},
		tool.Func{
			Def: tool.Spec{Name: "multiply", Description: "multiplies", Price: tool.Price{Base: price.Of(0.5)},
				Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"],"additionalProperties":false}`)},
			Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
				a, ok1 := new(big.Int).SetString(args["a"].(json.Number).String(), 10)
				b, ok2 := new(big.Int).SetString(args["b"].(json.Number).String(), 10)
				if !ok1 || !ok2 {
					return tool.Observation{}, errors.New("whole numbers only")
				}
				return tool.Calculated(new(big.Int).Mul(a, b).String(), a.String(), b.String()), nil
			},
		},
		tool.Finish(),
	}
	if s.Wrap != nil {
		tools = s.Wrap(t, tools)
	}
	offers := make([]tool.Offer, len(t.Offers))
	for i, o := range t.Offers {
		offers[i] = tool.Offer(o)
	}
	return tool.NewBox(tools, tool.WithOffers(offers...), tool.WithDeadline(s.Deadline))
}

// Prompt implements suite.Suite.
func (s *Suite) Prompt(t suite.Task) (suite.Prompt, error) {
	box, err := s.Box(t)
	if err != nil {
		return suite.Prompt{}, err
	}
	defer box.Close()
	return suite.Prompt{User: t.Question + "\nbudget " + t.Budget.String(), Question: t.Question, Tools: box.Specs(), Budget: t.Budget}, nil
}

// Verify implements suite.Suite: exact integers, and every piece of evidence where it may be read.
func (s *Suite) Verify(t suite.Task, answer string, seen []tool.Observation) suite.Verdict {
	got, ok := new(big.Int).SetString(strings.TrimSpace(answer), 10)
	want, _ := new(big.Int).SetString(t.Answer.Values[0], 10)
	return suite.Verdict{Correct: ok && got.Cmp(want) == 0, Evidenced: suite.Evidenced(t.Question, t.Evidence, seen)}
}

// Demonstrations implements suite.Suite: the gold paths.
func (s *Suite) Demonstrations(_ context.Context, kind string, _ uint64) ([]suite.Demonstration, error) {
	if kind != "optimal" {
		return nil, fmt.Errorf("suite mini has no demonstrations %q; it has optimal", kind)
	}
	tasks, err := s.Tasks("train")
	out := make([]suite.Demonstration, len(tasks))
	for i, t := range tasks {
		out[i] = suite.Demonstration{Task: t, Calls: t.GoldPath}
	}
	return out, err
}

// Rules are the suite's rules for scripted policies: ask for the last word of the question, multiply the two numbers seen.
type Rules struct{}

var _ suite.Rules = Rules{}

var (
	numbers = regexp.MustCompile(`\d{3,}`)
	score   = regexp.MustCompile(`^\[score (\d+\.\d+)\]`)
)

func (Rules) find(seen []suite.Seen, name string) string {
	for _, s := range seen {
		if s.Tool == name && !s.Failed {
			return numbers.FindString(s.Body)
		}
	}
	return ""
}

// Call implements suite.Rules.
func (r Rules) Call(question, name string, seen []suite.Seen) (json.RawMessage, bool) {
	item := question[strings.LastIndexByte(question, ' ')+1:]
	switch name {
	case "stock":
		return json.RawMessage(fmt.Sprintf(`{"item":%q}`, item)), true
	case "catalog":
		return json.RawMessage(fmt.Sprintf(`{"query":%q}`, item)), true
	case "multiply":
		a, b := r.find(seen, "stock"), r.find(seen, "catalog")
		return json.RawMessage(`{"a":` + a + `,"b":` + b + `}`), a != "" && b != ""
	}
	return nil, false
}

// Fallback implements suite.Rules: the calculator without two numbers multiplies ones.
func (r Rules) Fallback(_, name string, _ []suite.Seen) (json.RawMessage, bool) {
	return json.RawMessage(`{"a":1,"b":1}`), name == "multiply"
}

// Extract implements suite.Rules.
func (r Rules) Extract(question string, seen []suite.Seen) (string, bool) {
	for word, name := range map[string]string{"stock ": "stock", "price ": "catalog", "value ": "multiply"} {
		if strings.HasPrefix(question, word) {
			v := r.find(seen, name)
			return v, v != ""
		}
	}
	return "", false
}

// Score implements suite.Rules.
func (Rules) Score(s suite.Seen) (float64, bool) {
	m := score.FindStringSubmatch(s.Body)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil
}
