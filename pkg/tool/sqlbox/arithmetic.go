package sqlbox

import (
	"fmt"
	"slices"
	"strings"
)

// Aggregates that may stand over a plain column, and functions that may stand in comparisons.
var (
	aggregates    = setOf("count sum avg min max group_concat")
	textFunctions = setOf("length lower upper substr substring instr trim ltrim rtrim coalesce ifnull nullif typeof like glob")
	operators     = setOf("+ - / % || << >> & | ~ -> ->>")
)

// checkArithmetic holds the rule by which SQL does not do the calculator's work:
//
//  1. No operator of arithmetic, bits or concatenation stands anywhere: + - * / % || << >> & | ~ -> ->>. The sign of a
//     number (WHERE x > -5) and the star of a column list are not operators.
//  2. An item of a select list is a column, a star, one aggregate over one plain column (COUNT, SUM, AVG, MIN, MAX,
//     GROUP_CONCAT; DISTINCT and FILTER are allowed; COUNT(*)) or a subquery in brackets whose items are such. A literal is
//     an item only within EXISTS and IN (...). CASE, windows and VALUES stand nowhere.
//  3. Elsewhere (WHERE, HAVING, ON, GROUP BY, ORDER BY) comparisons may use those aggregates, CAST and the text functions
//     length, lower, upper, substr, instr, trim, coalesce, ifnull, nullif, typeof, like, glob.
//  4. An aggregate over a subquery in FROM or a CTE that itself aggregates or is a UNION is refused: that combines results.
//
// What breaks the rule fails with ErrArithmetic, whose text tells to use the calculator.
func checkArithmetic(toks []token, columns map[string]bool) error {
	p := &rule{toks: toks, columns: columns}
	if err := p.operators(); err != nil {
		return err
	}
	return p.group(0, len(toks), where{})
}

func useCalculator(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", ErrRefused, ErrArithmetic, fmt.Sprintf(format, args...))
}

type rule struct {
	toks    []token
	columns map[string]bool // of the file, in lower case
	derived bool            // some subquery in FROM, or CTE, seen so far aggregates or is compound
}

func (p *rule) operators() error {
	for i, t := range p.toks {
		if t.kind == word {
			switch {
			case t.text == "case" || t.text == "over" && p.at(i+1).is("(") || t.text == "window" && p.at(i+1).identifier() && p.at(i+2).is("as"):
				return useCalculator("%s is not allowed", upper(t.text))
			case t.text == "values" && p.at(i+1).is("("):
				return useCalculator("VALUES is not allowed")
			}
			continue
		}
		if t.kind != op {
			continue
		}
		switch {
		case (t.text == "-" || t.text == "+") && p.at(i+1).kind == num && (i == 0 || p.startsValue(i-1)):
			// a sign
		case t.text == "*":
			prev := p.at(i - 1)
			list := prev.is("select") || prev.is("distinct") || prev.is("all") || prev.is(",") || prev.is(".") ||
				prev.is("(") && p.at(i-2).is("count")
			if next := p.at(i + 1); !list || !(next.is("from") || next.is(",") || next.is(")") || next.kind == end) {
				return useCalculator("the operator * is not allowed")
			}
		case operators[t.text]:
			return useCalculator("the operator %s is not allowed", t.text)
		}
	}
	return nil
}

// startsValue reports whether after token i a value begins, so that a sign there is a sign.
func (p *rule) startsValue(i int) bool {
	t := p.toks[i]
	switch t.kind {
	case op:
		return t.text != ")" && t.text != "."
	case word:
		return reserved[t.text] && t.text != "end" && t.text != "null"
	}
	return false
}

const end kind = 255

func (p *rule) at(i int) token {
	if i < 0 || i >= len(p.toks) {
		return token{kind: end}
	}
	return p.toks[i]
}

// where says in what a group of tokens stands.
type where struct {
	comparison bool // within WHERE, HAVING, ON, GROUP BY or ORDER BY
	derived    bool // within FROM, or the body of a CTE
	literals   bool // EXISTS (...) or IN (...)
}

// group checks the tokens from i to j, those between two brackets or the whole query. Where they hold no SELECT of their own
// they are an expression or a list.
func (p *rule) group(i, j int, w where) error {
	const (
		none = iota
		list
		from
		rest
		cte
	)
	state := none
	aggregating, compound, queries := false, false, 0
	if p.at(i).is("with") {
		state = cte
	}
	item := i
	for k := i; k < j; k++ {
		t := p.toks[k]
		switch {
		case t.is("select"):
			queries++
			state, item = list, k+1
			if n := p.at(k + 1); n.is("distinct") || n.is("all") {
				item++
			}
		case t.is("union") || t.is("intersect") || t.is("except"):
			if state == list { // a query without FROM
				a, err := p.item(item, k, w)
				if err != nil {
					return err
				}
				aggregating = aggregating || a
			}
			compound, state = true, rest
		case state == list && (t.is(",") || t.is("from") || t.is("where") || t.is("group") || t.is("order") || t.is("limit") || t.is("having")):
			a, err := p.item(item, k, w)
			if err != nil {
				return err
			}
			aggregating = aggregating || a
			item = k + 1
			switch {
			case t.is("from"):
				state = from
			case !t.is(","):
				state = rest
			}
		case state == from && (t.is("where") || t.is("group") || t.is("order") || t.is("having") || t.is("limit") || t.is("on") || t.is("using")):
			state = rest
		case state == rest && (t.is("join") || t.is("from")):
			state = from
		}
		if !t.is("(") {
			continue
		}
		shut, err := p.shut(k, j)
		if err != nil {
			return err
		}
		if state != list { // the brackets of a select item were checked, or are, with the item
			inner := w
			prev := p.at(k - 1)
			switch state {
			case from, cte:
				inner.derived = true
			default:
				inner.comparison = true
			}
			inner.literals = prev.is("exists") || prev.is("in")
			if (state == rest || state == none) && prev.identifier() {
				if err := p.call(k-1, shut); err != nil {
					return err
				}
				if aggregates[prev.text] {
					k = shut
					continue
				}
			}
			if err := p.group(k+1, shut, inner); err != nil {
				return err
			}
		}
		k = shut
	}
	if state == list {
		a, err := p.item(item, j, w)
		if err != nil {
			return err
		}
		aggregating = aggregating || a
	}
	if queries > 0 && !w.comparison {
		if aggregating && p.derived {
			return useCalculator("an aggregate over a subquery that aggregates or is a UNION is not allowed")
		}
		p.derived = p.derived || w.derived && (aggregating || compound)
	}
	return nil
}

func (p *rule) shut(i, j int) (int, error) {
	depth := 0
	for k := i; k < j; k++ {
		switch {
		case p.toks[k].is("("):
			depth++
		case p.toks[k].is(")"):
			if depth--; depth == 0 {
				return k, nil
			}
		}
	}
	return 0, refuse("a bracket is not closed")
}

// item checks one item of a select list, tokens i to j, and reports whether it is an aggregate.
func (p *rule) item(i, j int, w where) (aggregate bool, err error) {
	if i >= j {
		return false, nil // SQLite reports it
	}
	k := i
	switch t := p.toks[i]; {
	case t.is("*"):
		k++
	case t.is("("):
		shut, err := p.shut(i, j)
		if err != nil {
			return false, err
		}
		if !p.at(i + 1).is("select") {
			return false, useCalculator("a select item must be a column or one aggregate over a column")
		}
		if err := p.group(i+1, shut, where{}); err != nil {
			return false, err
		}
		k = shut + 1
	case t.kind == num || t.kind == str || t.kind == blob || t.is("null") || (t.is("-") || t.is("+")) && p.at(i+1).kind == num:
		if !w.literals {
			return false, useCalculator("a select item must be a column or one aggregate over a column, not a literal")
		}
		if k++; t.kind == op {
			k++
		}
	case t.kind == word && p.at(i+1).is("("):
		shut, err := p.shut(i+1, j)
		if err != nil {
			return false, err
		}
		if !aggregates[t.text] {
			return false, useCalculator("%s(…) is not allowed as a select item: one aggregate over a column is", clip(t.text))
		}
		if err := p.call(i, shut); err != nil {
			return false, err
		}
		aggregate, k = true, shut+1
		if p.at(k).is("filter") && p.at(k+1).is("(") {
			end, err := p.shut(k+1, j)
			if err != nil {
				return false, err
			}
			if err := p.group(k+2, end, where{comparison: true}); err != nil {
				return false, err
			}
			k = end + 1
		}
	case t.identifier():
		k = p.column(i, j)
	default:
		return false, useCalculator("a select item must be a column or one aggregate over a column")
	}
	if p.at(k).is("as") && k < j {
		k++
	}
	if k < j && (p.toks[k].kind == quoted || p.toks[k].kind == str || p.toks[k].identifier()) {
		k++
	}
	if k < j {
		return false, useCalculator("a select item must be a column or one aggregate over a column")
	}
	return aggregate, nil
}

// column measures name, table.name, table.* or schema.table.name from token i.
func (p *rule) column(i, j int) int {
	k := i + 1
	for k+1 < j && p.toks[k].is(".") && (p.toks[k+1].kind == word || p.toks[k+1].kind == quoted || p.toks[k+1].is("*")) {
		k += 2
	}
	return k
}

// call checks the call of a function whose name is token i and whose closing bracket is token shut.
func (p *rule) call(i, shut int) error {
	fn := p.toks[i].text
	switch {
	case p.toks[i].kind == quoted:
		return useCalculator("the function %s is not allowed", clip(fn))
	case aggregates[fn]:
		a := i + 2
		if p.at(a).is("distinct") {
			a++
		}
		if fn == "count" && (p.at(a).is("*") && a+1 == shut || a == shut) {
			return nil
		}
		k := a
		if p.at(a).identifier() {
			k = p.column(a, shut)
		}
		if fn == "group_concat" && p.at(k).is(",") && p.at(k+1).kind == str {
			k += 2
		}
		if last := p.at(k - 1); last.kind == quoted && !p.columns[strings.ToLower(last.text)] {
			return useCalculator("%s takes one plain column, and there is none named %s", upper(fn), clip(last.text))
		}
		if k == a || k != shut || slices.ContainsFunc(p.toks[a:k], func(t token) bool { return t.is("*") }) {
			return useCalculator("%s takes one plain column", upper(fn))
		}
		return nil
	case textFunctions[fn]:
		return nil
	}
	return useCalculator("the function %s is not allowed", clip(fn))
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
