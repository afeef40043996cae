package sqlbox

import (
	"strings"
)

// add puts a condition that must hold to the others; equalities of two columns are joins.
func (q *query) add(c cond) {
	switch {
	case c.kind == "and":
		for _, part := range c.parts {
			q.add(part)
		}
	case c.kind == "compare" && c.col2 != nil && c.op == "=":
		q.on = append(q.on, equality{a: c.col, b: c.col2})
	default:
		q.where = append(q.where, c)
	}
}

func (p *parser) or() (cond, error) { return p.chain("or", p.and) }

func (p *parser) and() (cond, error) { return p.chain("and", p.not) }

func (p *parser) chain(word string, part func() (cond, error)) (cond, error) {
	c, err := part()
	if err != nil || !p.peek().is(word) {
		return c, err
	}
	all := cond{kind: word, parts: []cond{c}}
	for p.take(word) {
		if c, err = part(); err != nil {
			return c, err
		}
		all.parts = append(all.parts, c)
	}
	return all, nil
}

func (p *parser) not() (cond, error) {
	if p.take("not") {
		if err := p.enter(); err != nil {
			return cond{}, err
		}
		c, err := p.not()
		p.depth--
		return cond{kind: "not", parts: []cond{c}}, err
	}
	if p.peek().is("(") && !p.at(p.pos+1).is("select") {
		if err := p.enter(); err != nil {
			return cond{}, err
		}
		p.pos++
		c, err := p.or()
		p.depth--
		if err != nil {
			return c, err
		}
		if err := p.expect(")"); err != nil {
			return c, err
		}
		if n := p.peek(); n.kind == op && (arithmetic[n.text] || comparisons[n.text] != "") {
			return c, unsupported("%q here", n.text)
		}
		return c, nil
	}
	return p.test()
}

// comparisons maps operators to how they are written.
var comparisons = map[string]string{"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

var mirrored = map[string]string{"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// test reads one test of a column.
func (p *parser) test() (cond, error) {
	t := p.peek()
	if t.kind == str || t.kind == num || (t.is("-") || t.is("+")) && p.at(p.pos+1).kind == num {
		l, err := p.literal()
		if err != nil {
			return cond{}, err
		}
		o, ok := comparisons[p.peek().text]
		if p.peek().kind != op || !ok {
			return cond{}, p.unexpected("a comparison")
		}
		p.pos++
		c, err := p.column()
		return cond{kind: "compare", col: c, op: mirrored[o], lits: []literal{l}}, err
	}
	if t.is("(") {
		return cond{}, unsupported("a subquery on the left of a comparison")
	}
	col, err := p.column()
	if err != nil {
		return cond{}, err
	}
	if p.take("is") {
		not := p.take("not")
		return cond{kind: "null", col: col, not: not}, p.expect("null")
	}
	not := p.take("not")
	switch {
	case p.take("in"):
		return p.in(col, not)
	case p.take("between"):
		c := cond{kind: "between", col: col, not: not}
		for i := range 2 {
			if i == 1 {
				if err := p.expect("and"); err != nil {
					return c, err
				}
			}
			l, err := p.literal()
			if err != nil {
				return c, err
			}
			c.lits = append(c.lits, l)
		}
		return c, nil
	case not:
		return cond{}, p.unexpected("IN or BETWEEN")
	}
	o, ok := comparisons[p.peek().text]
	if p.peek().kind != op || !ok {
		return cond{}, p.unexpected("a comparison")
	}
	p.pos++
	c := cond{kind: "compare", col: col, op: o}
	switch n := p.peek(); {
	case n.is("(") && p.at(p.pos+1).is("select"):
		c.sub, err = p.subquery()
	case n.identifier() && !(n.kind == word && p.at(p.pos+1).is("(")):
		c.col2, err = p.column()
	default:
		var l literal
		l, err = p.literal()
		c.lits = []literal{l}
	}
	return c, err
}

func (p *parser) in(col *column, not bool) (cond, error) {
	c := cond{kind: "in", col: col, not: not}
	if p.peek().is("(") && p.at(p.pos+1).is("select") {
		var err error
		c.sub, err = p.subquery()
		return c, err
	}
	if err := p.expect("("); err != nil {
		return c, err
	}
	for {
		l, err := p.literal()
		if err != nil {
			return c, err
		}
		c.lits = append(c.lits, l)
		if !p.take(",") {
			return c, p.expect(")")
		}
	}
}

func (p *parser) subquery() (*query, error) {
	p.pos++
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	if n := p.peek(); n.kind == op && arithmetic[n.text] {
		return nil, p.unexpected("")
	}
	return q, nil
}

// literal reads a text or a number, which may have a sign.
func (p *parser) literal() (literal, error) {
	sign := ""
	if t := p.peek(); (t.is("-") || t.is("+")) && p.at(p.pos+1).kind == num {
		if t.is("-") {
			sign = "-"
		}
		p.pos++
	}
	t := p.peek()
	var l literal
	switch {
	case t.kind == str:
		l.text = strings.ReplaceAll(t.text[1:len(t.text)-1], "''", "'")
	case t.kind == num && decimal(t.text):
		l = literal{sign + t.text, true}
	case t.kind == num:
		return l, unsupported("the number %s: write it as 12 or 12.5", clip(t.text))
	case t.is("null"):
		return l, unsupported("a comparison with NULL: write IS NULL")
	case t.kind == quoted:
		return l, unsupported("%q as a text: texts stand in single quotes", clip(t.text))
	default:
		return l, p.unexpected("a number or a text in single quotes")
	}
	p.pos++
	if n := p.peek(); n.kind == op && arithmetic[n.text] {
		return l, p.unexpected("")
	}
	return l, nil
}

// decimal reports whether a number is digits with at most one point.
func decimal(s string) bool {
	whole, frac, point := strings.Cut(s, ".")
	return strings.Trim(whole+frac, "0123456789") == "" && whole+frac != "" && (!point || frac != "" || whole != "")
}

func upper(s string) string { return strings.ToUpper(clip(s)) }
