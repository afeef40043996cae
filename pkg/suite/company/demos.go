package company

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
)

// The kinds of demonstrations.
const (
	// DemoOptimal is the gold path of every train task.
	DemoOptimal = "optimal"
	// DemoBase shows the format and single calls only: one fact or one calculation a path, as many of each tool. It holds no
	// path of several tools and no preference for the cheap one.
	DemoBase = "base"
	// DemoWasteful is the gold path of every train task, a share of them (Options.WastefulShare) with needless calls.
	DemoWasteful = "wasteful"
)

// DemoKinds lists the kinds of demonstrations.
var DemoKinds = []string{DemoOptimal, DemoBase, DemoWasteful}

// Demonstrations implements suite.Suite: paths on tasks of the train split, in an order that the seed shuffles.
func (s *Suite) Demonstrations(ctx context.Context, kind string, seed uint64) ([]suite.Demonstration, error) {
	var out []suite.Demonstration
	switch kind {
	case DemoOptimal, DemoWasteful:
		for _, t := range s.tasks[Train] {
			calls := t.GoldPath
			if kind == DemoWasteful {
				calls = s.wasted(t, seed)
			}
			out = append(out, suite.Demonstration{Task: t, Calls: calls})
		}
	case DemoBase:
		var err error
		if out, err = s.base(seed); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("company: no demonstrations of kind %q; the kinds are %s", kind, strings.Join(DemoKinds, ", "))
	}
	r := rng.New(seed, "company demonstrations", kind)
	r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out, ctx.Err()
}

// wasted is the path of the "wasteful" demonstration of a task.
func (s *Suite) wasted(t suite.Task, seed uint64) []suite.Call {
	plain, as := unmasked(t)
	return renamed(s.waste(rng.New(seed, "company wasteful", t.ID), plain), as)
}

// PairWasteful prefers the gold path to the wasteful demonstration of the same task, where that one wastes a call.
const PairWasteful = "wasteful"

// Preferences implements suite.Preferrer, in an order that the seed shuffles.
func (s *Suite) Preferences(ctx context.Context, kind string, seed uint64) ([]suite.Preference, error) {
	if kind != PairWasteful {
		return nil, fmt.Errorf("company: no preferences of kind %q; there is %s", kind, PairWasteful)
	}
	var out []suite.Preference
	for _, t := range s.tasks[Train] {
		if calls := s.wasted(t, seed); len(calls) > len(t.GoldPath) {
			out = append(out, suite.Preference{Task: t, Chosen: t.GoldPath, Rejected: calls})
		}
	}
	r := rng.New(seed, "company preferences", kind)
	r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out, ctx.Err()
}

// waste puts needless calls into a gold path: the same query to a tool that does not hold the fact, or a call twice.
func (s *Suite) waste(r *rand.Rand, t suite.Task) []suite.Call {
	if r.Float64() >= s.opt.WastefulShare || s.opt.WastefulCalls == 0 {
		return t.GoldPath
	}
	calls := slices.Clone(t.GoldPath)
	for range 1 + r.IntN(s.opt.WastefulCalls) {
		at := r.IntN(len(calls) - 1) // not after finish
		c := calls[at]
		var others []suite.Call
		for _, o := range s.offers(t) {
			if arg, ok := elsewhere(c, o.Tool, t); ok && o.Tool != c.Tool {
				args, err := encode(map[string]string{argName[o.Tool]: arg})
				if err == nil {
					others = append(others, suite.Call{Thought: c.Thought, Tool: o.Tool, Args: args})
				}
			}
		}
		others = append(others, c) // the same call again
		calls = slices.Insert(calls, at+r.IntN(2), others[r.IntN(len(others))])
	}
	return calls
}

// elsewhere is the argument by which another tool would be asked for the fact that a call looks up.
func elsewhere(c suite.Call, name string, t suite.Task) (string, bool) {
	if c.Tool == ToolCalc || name == ToolCalc {
		return "", false
	}
	for _, l := range extraOf(t).Lookups {
		if !strings.Contains(string(c.Args), l.Subject) {
			continue
		}
		if name == ToolSQL {
			k := kindOf(l.Subject)
			return fmt.Sprintf("SELECT * FROM %s WHERE name = '%s'", k.table(), l.Subject), k != ""
		}
		return l.Subject + " " + l.Words, true
	}
	return "", false
}

// kindOf tells the kind of an entity from the last word of its name; a person is an employee.
func kindOf(name string) Kind {
	words := strings.Fields(name)
	if len(words) != 2 {
		return ""
	}
	for _, k := range kinds {
		if slices.Contains(kindWords[k], words[1]) {
			return k
		}
	}
	switch {
	case slices.Contains(projectSecond, words[1]):
		return Project
	case slices.Contains(surnames, words[1]):
		return Employee
	}
	return ""
}

var (
	binaryExpr  = regexp.MustCompile(`^([\d.]+)([-+*])([\d.]+)$`)
	percentExpr = regexp.MustCompile(`^([\d.]+)\*([\d.]+)/100$`)
	plainSelect = regexp.MustCompile(`^SELECT \w+ FROM \w+ WHERE name = '[^']+'$`)
)

// base makes single-call tasks of the facts and calculations of the train tasks, as many of each tool.
func (s *Suite) base(seed uint64) ([]suite.Demonstration, error) {
	byTool := map[string][]suite.Demonstration{}
	asked := map[string]bool{}
	for _, t := range s.tasks[Train] {
		t, as := unmasked(t)
		if t.HasTag(TagTwoSource) {
			continue // their one call is the cheaper of two, a preference that base must not show
		}
		x := extraOf(t)
		for i, c := range t.GoldPath[:len(t.GoldPath)-1] {
			d, ok, err := s.single(seed, t, x, i, c)
			if err != nil {
				return nil, err
			}
			if ok && !asked[d.Task.Question] {
				asked[d.Task.Question] = true
				d.Task.ID = fmt.Sprintf("%s/base%d", t.ID, i)
				d.Task = masked(d.Task, as)
				d.Calls = d.Task.GoldPath
				byTool[c.Tool] = append(byTool[c.Tool], d)
			}
		}
	}
	least := -1
	for _, name := range Tools {
		if n := len(byTool[name]); least < 0 || n < least {
			least = n
		}
	}
	var out []suite.Demonstration
	for _, name := range Tools {
		list := byTool[name]
		r := rng.New(seed, "company base", name)
		r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		out = append(out, list[:least]...)
	}
	return out, nil
}

// evidenceOf is what a task's evidence says of one value that a tool shows.
func evidenceOf(t suite.Task, name, value string) []source.Evidence {
	return slices.DeleteFunc(slices.Clone(t.Evidence), func(e source.Evidence) bool { return e.Value != value || shownBy(e) != name })
}

// single makes a task that needs only one call of a gold path.
func (s *Suite) single(seed uint64, t suite.Task, x Extra, i int, c suite.Call) (d suite.Demonstration, ok bool, err error) {
	var args map[string]string
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return d, false, fmt.Errorf("company: task %s: arguments of %s: %w", t.ID, c.Tool, err)
	}
	arg := args[argName[c.Tool]]
	r := rng.New(seed, "company base", t.ID, i)
	b := suite.Task{Split: t.Split, Difficulty: 1, Template: "base_" + c.Tool, Combination: []string{c.Tool}, Offers: t.Offers}
	thought := ""
	var evidence []source.Evidence
	if c.Tool == ToolCalc {
		q := ""
		if m := percentExpr.FindStringSubmatch(arg); m != nil {
			q = fmt.Sprintf("%s percent of %s", m[1], m[2])
		} else if m := binaryExpr.FindStringSubmatch(arg); m != nil {
			q = fmt.Sprintf("%s %s %s", m[1], ops[m[2]], m[3])
		} else {
			return d, false, nil
		}
		frames := []string{"What is %s?", "Compute %s.", "How much is %s?"}
		b.Question, thought = fmt.Sprintf(frames[r.IntN(len(frames))], q), q
		b.Structure, b.Answer = constOp, suite.Answer{Type: suite.Number, Values: []string{x.Result}}
		b.Fact = "const:" + arg
		evidence = evidenceOf(t, ToolCalc, x.Result)
		b.Extra, err = encode(Extra{Result: x.Result})
	} else {
		if i >= len(x.Lookups) || c.Tool == ToolSQL && !plainSelect.MatchString(arg) {
			return d, false, nil
		}
		l := x.Lookups[i]
		evidence = evidenceOf(t, c.Tool, l.Value)
		typ, frames := suite.String, askThing
		if _, num := suite.ParseNumber(l.Value); num {
			typ = suite.Number
		} else if _, e := time.Parse(time.DateOnly, l.Value); e == nil {
			typ, frames = suite.Date, askDate
		} else if kindOf(l.Value) == Employee {
			frames = askWho
		}
		b.Question = replaceAll(frames[r.IntN(len(frames))], map[string]string{"{a}": l.Words, "{E}": l.Subject})
		b.Structure, b.Hops, b.Answer = oneFact, 1, suite.Answer{Type: typ, Values: []string{l.Value}}
		b.Fact, thought = string(l.Store)+":"+l.Subject+":"+l.Words, about(l.Subject, l.Words)
		b.Extra, err = encode(Extra{Lookups: []Lookup{l}})
	}
	if err != nil {
		return d, false, err
	}
	finish, err := encode(map[string]string{"answer": b.Answer.Values[0]})
	if err != nil {
		return d, false, err
	}
	call := suite.Call{Tool: c.Tool, Args: c.Args}
	if s.opt.Thoughts {
		call.Thought = thought
	}
	b.Evidence = evidence
	end := suite.Call{Tool: "finish", Args: finish}
	if s.opt.Thoughts {
		end.Thought = "answer"
	}
	b.GoldPath = []suite.Call{call, end}
	b.Phrasing = b.Template
	s.reprice(&b)
	return suite.Demonstration{Task: b, Calls: b.GoldPath}, true, nil
}
