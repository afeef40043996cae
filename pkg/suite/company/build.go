package company

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
)

// Lookup is one fact that a task rests on: where it stands, of whom, and its value.
type Lookup struct {
	Store   Store  `json:"store"`
	Subject string `json:"subject"`
	Words   string `json:"words"` // of the attribute
	Value   string `json:"value"`
}

// Extra is what a company task keeps in suite.Task.Extra.
type Extra struct {
	Lookups []Lookup `json:"lookups,omitempty"`
	Result  string   `json:"result,omitempty"` // of the calculator
	// Mask is the tool behind each name that a masked task offers (Options.MaskTools); no file of a data set holds one.
	Mask map[string]string `json:"mask,omitempty"`
}

// step is a call of a gold path and the values that its observation must show.
type step struct {
	tool    string
	arg     string // the one argument of every tool
	thought string
	shows   []string
}

// candidate is a task before it was executed and proved.
type candidate struct {
	question string
	phrasing string
	steps    []step
	answer   suite.Answer
	extra    Extra
	facts    []string
	long     bool
	plan     string // what is to be done with the facts, in the words of the question; empty for one fact
	last     string // the comparison of values that the answer is, with its verdict; empty where there is none
}

// planMark separates the plan of a thought from the sub-question.
const planMark = "; "

// about is the sub-question of a thought. What is asked for stands last, right before the tool. So the choice of the tool follows from the
// words next to it, whatever else the thought holds.
func about(subject, what string) string { return subject + ": " + what }

// argName is the one argument of each tool.
var argName = map[string]string{ToolSQL: "query", ToolDoc: "query", ToolWeb: "query", ToolCalc: "expression"}

func (w *World) ref(e *Entity, a *attr) *Entity { return w.byName[e.values[a.key]] }

// look is the step that looks one fact up.
func look(e *Entity, a *attr) (step, Lookup) {
	v := e.values[a.key]
	l := Lookup{Store: a.store, Subject: e.Name, Words: a.words, Value: v}
	s := step{tool: a.store.tool(), thought: about(e.Name, a.words), shows: []string{v}}
	if a.store == SQL {
		s.arg = fmt.Sprintf("SELECT %s FROM %s WHERE name = '%s'", a.key, a.kind.table(), e.Name)
	} else {
		s.arg = e.Name + " " + a.words
	}
	return s, l
}

const factSep = " + "

func factKey(store Store, subject, key string) string {
	return string(store) + ":" + subject + ":" + key
}

// subjectsOf lists the names of the entities whose facts a task rests on.
func subjectsOf(t suite.Task) (out []string) {
	for _, f := range strings.Split(t.Fact, factSep) {
		if p := strings.SplitN(f, ":", 3); len(p) == 3 {
			out = append(out, p[1])
		}
	}
	return out
}

// long reports whether values have more than five digits.
func (a *attr) long() bool { return a.typ == tNum && a.hi > 99999 }

func (a *attr) answer(v string) suite.Answer {
	t := suite.String
	switch a.typ {
	case tNum, tDec:
		t = suite.Number
	case tDate:
		t = suite.Date
	}
	return suite.Answer{Type: t, Values: []string{v}, Unit: a.unit}
}

// commonUnit is the unit of two facts, empty where they differ.
func commonUnit(a, b *attr) string {
	if a.unit == b.unit {
		return a.unit
	}
	return ""
}

// build makes the candidate of a template's variant about an entity (nil for a structure without facts). ok is false where
// the world holds no sensible task of it (for example equal values to compare).
func (w *World) build(r *rand.Rand, t *template, v variant, e *Entity, phrasing string) (c candidate, ok bool) {
	words := map[string]string{"{op}": ops[v.op]}
	var a, b *attr
	if e != nil {
		words["{E}"] = e.Name
		if t.structure != aggregate && t.structure != listOf {
			a = attribute(v.a)
			if v.op == string(Web) && t.tag == TagTwoSource { // the other of its two sources
				other := *a
				other.store = Web
				a = &other
			}
			words["{a}"] = a.words
			if v.b != "" {
				b = attribute(v.b)
				words["{b}"] = b.words
			}
		}
	}
	add := func(s step, l Lookup, key string) {
		c.steps = append(c.steps, s)
		c.extra.Lookups = append(c.extra.Lookups, l)
		c.facts = append(c.facts, factKey(l.Store, l.Subject, key))
	}
	fact := func(e *Entity, a *attr) string {
		s, l := look(e, a)
		add(s, l, a.key)
		return l.Value
	}
	calc := func(expr, thought string) bool {
		res, err := evaluate(expr)
		whole, _, _ := strings.Cut(res, ".")
		if err != nil || strings.HasPrefix(res, "-") || len(whole) > 5 {
			return false
		}
		c.steps = append(c.steps, step{tool: ToolCalc, arg: expr, thought: thought, shows: []string{res}})
		c.extra.Result = res
		c.answer = suite.Answer{Type: suite.Number, Values: []string{res}}
		return true
	}
	// compute calculates with two values. In the structures of further it calculates with the result again.
	compute := func(x, y string) bool {
		expr, thought := expression(v.op, x, y), phrase(v.op, x, y)
		if word, again := further[t.structure]; again {
			m := 2 + r.IntN(8)
			times := fmt.Sprintf(" times %d", m)
			expr, thought, c.plan = fmt.Sprintf("(%s)*%d", expr, m), thought+times, c.plan+times
			words[word] = fmt.Sprint(m)
		}
		return calc(expr, thought)
	}
	yesno := func(yes bool) {
		c.answer = suite.Answer{Type: suite.YesNo, Values: []string{map[bool]string{true: "yes", false: "no"}[yes]}}
	}
	k := 2 + r.IntN(98)
	if v.op == "*" {
		k = 2 + r.IntN(18)
	}
	if v.op == "%" {
		k = 5 * (1 + r.IntN(19))
	}
	words["{k}"] = fmt.Sprint(k)

	switch t.structure {
	case oneFact:
		c.answer = a.answer(fact(e, a))
		c.long = a.long()
	case aggregate:
		ok = w.buildAggregate(&c, v, e, words, add)
		if !ok {
			return c, false
		}
	case listOf:
		ok = w.buildList(&c, v, e, words, add)
		if !ok {
			return c, false
		}
	case hop:
		c.plan, c.long = b.words+" of "+a.words, b.long()
		f := w.ref(e, a)
		if a.store == SQL && b.store == SQL {
			value := f.values[b.key]
			s := step{tool: ToolSQL, thought: about(e.Name, c.plan), shows: []string{value}}
			s.arg = fmt.Sprintf("SELECT %s FROM %s WHERE name = (SELECT %s FROM %s WHERE name = '%s')", b.key, b.kind.table(), a.key, a.kind.table(), e.Name)
			add(s, Lookup{SQL, f.Name, b.words, value}, b.key)
			c.facts = append(c.facts, factKey(SQL, e.Name, a.key))
			c.answer = b.answer(value)
			break
		}
		fact(e, a)
		c.answer = b.answer(fact(f, b))
	case aboveConst:
		x := number(fact(e, a))
		k = x - 1 - r.IntN(1+x/4)
		if r.IntN(2) == 0 {
			k = x + 1 + r.IntN(1+x/4)
		}
		words["{k}"] = fmt.Sprint(k)
		yesno(x > k)
		c.plan = fmt.Sprintf("%s above %d", a.words, k)
		c.last = compared(x, k, c.answer.Values[0])
	case opConst, opConstConst:
		x := fact(e, a)
		c.plan = phrase(v.op, a.words, fmt.Sprint(k))
		if !compute(x, fmt.Sprint(k)) {
			return c, false
		}
		c.answer.Unit = a.unit
	case opFacts, opFactsConst:
		var x, y string
		if a.store == SQL && b.store == SQL {
			x, y = e.values[a.key], e.values[b.key]
			s, l := look(e, a)
			s.arg = fmt.Sprintf("SELECT %s, %s FROM %s WHERE name = '%s'", a.key, b.key, a.kind.table(), e.Name)
			s.thought = about(e.Name, a.words+" and "+b.words)
			s.shows = []string{x, y}
			add(s, l, a.key)
			c.extra.Lookups = append(c.extra.Lookups, Lookup{SQL, e.Name, b.words, y})
			c.facts = append(c.facts, factKey(SQL, e.Name, b.key))
		} else {
			x, y = fact(e, a), fact(e, b)
		}
		c.plan = phrase(v.op, a.words, b.words)
		if !compute(x, y) {
			return c, false
		}
		if v.op != "*" {
			c.answer.Unit = commonUnit(a, b)
		}
	case versus:
		x, y := number(fact(e, a)), number(fact(e, b))
		if x == y {
			return c, false
		}
		yesno(x > y)
		c.plan = a.words + " above " + b.words
		c.last = compared(x, y, c.answer.Values[0])
	case hopOpConst, hopOpConstConst:
		c.plan = phrase(v.op, b.words+" of "+a.words, fmt.Sprint(k))
		f := w.ref(e, a)
		fact(e, a)
		x := fact(f, b)
		if !compute(x, fmt.Sprint(k)) {
			return c, false
		}
		c.answer.Unit = b.unit
	case chain:
		last := attribute(v.c)
		words["{c}"] = last.words
		c.plan = last.words + " of " + b.words + " of " + a.words
		f := w.ref(e, a)
		g := w.ref(f, b)
		fact(e, a)
		fact(f, b)
		c.answer = last.answer(fact(g, last))
	case both:
		c.plan = a.words + " and " + b.words
		x, y := fact(e, a), fact(e, b)
		c.answer = suite.Answer{Type: suite.List, Values: []string{x, y}, Unit: commonUnit(a, b)}
	case constOp:
		if !w.buildConst(r, &c, v.op, words, calc, false) {
			return c, false
		}
	case constOpOp:
		if !w.buildConst(r, &c, v.op, words, calc, true) {
			return c, false
		}
	default:
		panic("company: template " + t.name + ": no structure " + t.structure)
	}
	c.question = replaceAll(phrasing, words)
	return c, true
}

// replaceAll fills placeholders, in a fixed order.
func replaceAll(s string, words map[string]string) string {
	for _, k := range []string{"{a}", "{b}", "{c}", "{op}", "{k}", "{m}", "{n}", "{E}"} {
		s = strings.ReplaceAll(s, k, words[k])
	}
	return s
}

func (w *World) buildConst(r *rand.Rand, c *candidate, op string, words map[string]string, calc func(string, string) bool, three bool) bool {
	x, y, z := 11+r.IntN(389), 11+r.IntN(89), 11+r.IntN(89)
	if op == "%" {
		x = 5 * (1 + r.IntN(19))
		y = 20 + r.IntN(480)
	}
	expr := expression(op, fmt.Sprint(x), fmt.Sprint(y))
	if op == "%" {
		expr = expression(op, fmt.Sprint(y), fmt.Sprint(x))
	}
	thought := fmt.Sprintf("%d %s %d", x, ops[op], y)
	if three {
		x, y = 11+r.IntN(89), 2+r.IntN(18)
		if op == "*" {
			z = 2 + r.IntN(8)
		}
		expr = fmt.Sprintf("%d*%d%s%d", x, y, op, z)
		thought = fmt.Sprintf("%d times %d %s %d", x, y, ops[op], z)
		words["{n}"] = fmt.Sprint(z)
	}
	words["{k}"], words["{m}"] = fmt.Sprint(x), fmt.Sprint(y)
	c.facts = append(c.facts, "const:"+expr)
	return calc(expr, thought)
}

// buildAggregate makes a candidate that asks for an aggregate. v.op names the aggregate, which decides the words of the question, the query
// and its value.
func (w *World) buildAggregate(c *candidate, v variant, e *Entity, words map[string]string, add func(step, Lookup, string)) bool {
	var text, sql, value string
	count, sum, top := 0, 0, 0
	scan := func(table, by, of string) {
		for _, row := range w.rowsOf(table, by, e.Name) {
			count++
			if of != "" {
				n := number(row[w.column(table, of)])
				sum += n
				top = max(top, n)
			}
		}
	}
	switch v.op {
	case "order_count":
		scan("orders", "customer", "")
		text, sql, value = "orders", "SELECT COUNT(*) FROM orders WHERE customer = '%s'", fmt.Sprint(count)
	case "product_count":
		scan("products", "supplier", "")
		text, sql, value = "products", "SELECT COUNT(*) FROM products WHERE supplier = '%s'", fmt.Sprint(count)
	case "sold_sum":
		scan("order_items", "product", "quantity")
		text, sql, value = "total quantity", "SELECT SUM(quantity) FROM order_items WHERE product = '%s'", fmt.Sprint(sum)
	case "price_max":
		scan("products", "supplier", "unit_price")
		text, sql, value = "highest unit price", "SELECT MAX(unit_price) FROM products WHERE supplier = '%s'", fmt.Sprint(top)
	case "stock_sum":
		scan("products", "supplier", "stock")
		text, sql, value = "total stock", "SELECT SUM(stock) FROM products WHERE supplier = '%s'", fmt.Sprint(sum)
	default:
		panic("company: no aggregate " + v.op)
	}
	if count < 2 {
		return false
	}
	words["{a}"] = text
	add(step{tool: ToolSQL, arg: fmt.Sprintf(sql, e.Name), thought: about(e.Name, text), shows: []string{value}},
		Lookup{SQL, e.Name, text, value}, v.op)
	c.answer = suite.Answer{Type: suite.Number, Values: []string{value}}
	return true
}

func (w *World) buildList(c *candidate, v variant, e *Entity, words map[string]string, add func(step, Lookup, string)) bool {
	by := map[string]string{"products": "supplier", "projects": "manager", "sites": "region"}[v.op]
	var names []string
	for _, row := range w.rowsOf(v.op, by, e.Name) {
		names = append(names, row[0])
	}
	if len(names) < 2 || len(names) > 3 {
		return false
	}
	words["{a}"] = v.op
	s := step{tool: ToolSQL, arg: fmt.Sprintf("SELECT name FROM %s WHERE %s = '%s'", v.op, by, e.Name), thought: about(e.Name, v.op), shows: names}
	for i, n := range names {
		if i == 0 {
			add(s, Lookup{SQL, e.Name, v.op, n}, v.op)
		} else {
			c.extra.Lookups = append(c.extra.Lookups, Lookup{SQL, e.Name, v.op, n})
		}
	}
	c.answer = suite.Answer{Type: suite.List, Values: names}
	return true
}

func expression(op, x, y string) string {
	if op == "%" {
		return fmt.Sprintf("%s*%s/100", y, x) // in the order of its words
	}
	return x + op + y
}

// phrase says an operation in words. Its operands are names of facts in a plan, and values in the thought before the calculation.
func phrase(op, x, y string) string {
	if op == "%" {
		return y + " percent of " + x
	}
	return x + " " + ops[op] + " " + y
}

func number(s string) int {
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() {
		panic("company: " + s + " is not a whole number")
	}
	return int(r.Num().Int64())
}

// task turns a candidate into a task at a price list.
func (w *World) task(t *template, c candidate, offers []suite.Offer, own bool) (suite.Task, error) {
	prices := map[string]suite.Offer{}
	for _, o := range offers {
		prices[o.Tool] = o
	}
	out := suite.Task{
		Question: c.question, Answer: c.answer, Structure: t.structure, Difficulty: t.difficulty, Hops: len(c.extra.Lookups), Template: t.name,
		Phrasing: t.name + "/" + c.phrasing, Fact: strings.Join(c.facts, factSep),
	}
	if len(c.facts) != len(c.extra.Lookups) && len(c.extra.Lookups) > 0 {
		out.Hops = len(c.facts) // facts that one query joins
	}
	if own {
		out.Offers = offers
	}
	if t.tag != "" {
		out.Tags = append(out.Tags, t.tag)
	}
	if c.long {
		out.Tags = append(out.Tags, TagLongNumber)
	}
	for _, s := range c.steps {
		args, err := encode(map[string]string{argName[s.tool]: s.arg})
		if err != nil {
			return out, err
		}
		out.GoldPath = append(out.GoldPath, suite.Call{Thought: c.planned(s.thought), Tool: s.tool, Args: args})
		out.OptimalCost += prices[s.tool].Price.Base
		out.Combination = append(out.Combination, s.tool)
	}
	slices.SortFunc(out.Combination, func(a, b string) int { return slices.Index(Tools, a) - slices.Index(Tools, b) })
	out.Combination = slices.Compact(out.Combination)
	if len(out.Combination) != len(c.steps) {
		return out, fmt.Errorf("template %s: a tool is called twice", t.name)
	}
	answer := strings.Join(c.answer.Values, ", ")
	args, err := encode(map[string]string{"answer": answer})
	if err != nil {
		return out, err
	}
	last := "answer"
	if c.plan != "" {
		last = c.planned(cmp.Or(c.last, answer))
	}
	out.GoldPath = append(out.GoldPath, suite.Call{Thought: last, Tool: "finish", Args: args})
	out.Budget = w.opt.budget(out.OptimalCost)
	out.Extra, err = encode(c.extra)
	return out, err
}

// compared says a comparison with its verdict, "91 above 105 no", and then, as every thought before finish does, the answer.
func compared(x, y int, verdict string) string {
	return fmt.Sprintf("%d above %d %s", x, y, verdict) + planMark + verdict
}

// planned is the thought before a call: the plan, which is the same in every turn, and what this turn does. So the next call follows from
// the words of the thought, and not from the tools that were called so far.
func (c *candidate) planned(now string) string {
	if c.plan == "" {
		return now
	}
	return c.plan + planMark + now
}

// encode writes JSON on one line without HTML escapes and with a space after separators left out.
func encode(v any) (json.RawMessage, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), nil
}
