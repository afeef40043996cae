package company

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

// maskNames are what the tools of a masked task are called. They say nothing of a tool. Each is a word of the sentences with which passages
// of either corpus end. So the tiny preset's tokenizer has it as one token, whatever the seed and the number of tasks. No question, name or
// call holds any of them.
var maskNames = []string{"annex", "available", "board", "comment", "confirmed", "earlier", "edition", "expected", "figure", "further",
	"notice", "reasons", "request", "told", "until", "weekend"}

// holds is what the compact prompt of a masked task says of a tool: what it takes, or what its passages are. The words are of the
// calls and passages that every train split shows, and no name of a mask.
var holds = map[string]string{ToolSQL: "SELECT", ToolDoc: "notes", ToolWeb: "reports", ToolCalc: "expression"}

// mask gives a share of the train tasks (Options.MaskTools) tools under other names, in random order: neither the name of a tool nor
// the place of its line says what it is. Which tasks and which names depends on the world's seed and the task alone. Prices and costs stay
// the same.
func (s *Suite) mask() {
	for i := range s.tasks[Train] {
		t := &s.tasks[Train][i]
		r := rng.New(s.opt.Seed, "company masked tools", t.ID)
		if r.Float64() < s.opt.MaskTools {
			s.maskTask(t, r)
		}
	}
}

func (s *Suite) maskTask(t *suite.Task, r *rand.Rand) {
	as := drawMask(r)
	t.Offers = slices.Clone(s.offers(*t))
	r.Shuffle(len(t.Offers), func(a, b int) { t.Offers[a], t.Offers[b] = t.Offers[b], t.Offers[a] })
	*t = masked(*t, as)
}

// Masked returns tasks with their tools under other names and in random order, drawn for each task as for train tasks
// (Options.MaskTools). Ids get a suffix and the tasks are of another split; prices, costs and all else are the same.
func (s *Suite) Masked(split string, tasks []suite.Task) []suite.Task {
	out := slices.Clone(tasks)
	for i := range out {
		t := &out[i]
		if maskOf(*t) == nil {
			s.maskTask(t, rng.New(s.opt.Seed, "company masked split", t.ID))
		}
		t.ID, t.Split = t.ID+"@masked", split
	}
	return out
}

// drawMask names every tool, in the order of Tools, so that the names do not depend on what a task offers.
func drawMask(r *rand.Rand) map[string]string {
	as := map[string]string{}
	for i, at := range r.Perm(len(maskNames))[:len(Tools)] {
		as[Tools[i]] = maskNames[at]
	}
	return as
}

// masked returns the task with its offers and its gold path under the names that as gives to tools. The combination keeps the tools' own
// names: it says what kind of task this is, and no policy sees it. If as is empty, the task stays as it is.
func masked(t suite.Task, as map[string]string) suite.Task {
	if len(as) == 0 {
		return t
	}
	x := extraOf(t)
	x.Mask = map[string]string{}
	t.Offers = slices.Clone(t.Offers)
	for i, o := range t.Offers {
		x.Mask[as[o.Tool]] = o.Tool
		t.Offers[i].Tool = as[o.Tool]
	}
	t.GoldPath = renamed(t.GoldPath, as)
	return withExtra(t, x)
}

// unmasked returns a task with its tools under their own names, and the names that it had for them; nil for a task that is not
// masked.
func unmasked(t suite.Task) (suite.Task, map[string]string) {
	names := maskOf(t)
	if names == nil {
		return t, nil
	}
	as := map[string]string{}
	t.Offers = slices.Clone(t.Offers)
	for i, o := range t.Offers {
		as[names[o.Tool]] = o.Tool
		t.Offers[i].Tool = names[o.Tool]
	}
	t.GoldPath = renamed(t.GoldPath, names)
	x := extraOf(t)
	x.Mask = nil
	return withExtra(t, x), as
}

// maskOf is the tool behind each name of a masked task; nil for a task whose tools have their own names.
func maskOf(t suite.Task) map[string]string {
	return extraOf(t).Mask
}

// ownName is the tool that a task offers under this name.
func ownName(name string, mask map[string]string) string {
	if tool, ok := mask[name]; ok {
		return tool
	}
	return name
}

func renamed(calls []suite.Call, names map[string]string) []suite.Call {
	out := slices.Clone(calls)
	for i, c := range out {
		if name, ok := names[c.Tool]; ok {
			out[i].Tool = name
		}
	}
	return out
}

func withExtra(t suite.Task, x Extra) suite.Task {
	b, err := encode(x)
	if err != nil {
		panic(err) // strings always marshal
	}
	t.Extra = b
	return t
}

// inMask words an error of a tool with the names of a masked task, because an error of the database names the calculator.
func inMask(err error, mask map[string]string) error {
	if !errors.Is(err, sqlbox.ErrArithmetic) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(mask)) {
		if mask[name] == ToolCalc {
			return maskedError{strings.ReplaceAll(err.Error(), ToolCalc, name), err}
		}
	}
	return err
}

// maskedError is an error of a tool as a masked task words it.
type maskedError struct {
	text string
	err  error
}

func (e maskedError) Error() string { return e.text }
func (e maskedError) Unwrap() error { return e.err }
