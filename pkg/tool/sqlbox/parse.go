package sqlbox

import (
	"fmt"
	"strings"
)

// The parsed form of a query. Nothing of the text beyond it reaches SQLite: what runs is written from it (see render.go).
type (
	query struct {
		items []item
		from  []from
		on    []equality // of ON, USING and the AND terms of WHERE
		where []cond     // all hold
		group *column
		order []orderKey
		limit int // -1 is none
	}
	from struct {
		name, alias string
		quoted      bool
		table       *table // set by resolve
		number      int    // of the alias that it is written with
	}
	item struct {
		star  bool // of one table, or of all where of is empty
		of    string
		expr  expr
		alias string
	}
	// expr is a column, an aggregate of one, or COUNT(*).
	expr struct {
		fn  string // empty for a plain column; else COUNT, SUM, AVG, MIN or MAX
		col *column
	}
	orderKey struct {
		expr expr
		desc bool
	}
	column struct {
		of, name string
		quoted   bool // in ""
		at       *from
		def      *field
	}
	equality struct {
		a, b  *column
		using string // the column of a USING, a and b unset
		right int    // the table that USING joins
	}
	// cond is one of: all or any of its parts, the opposite of its one part, or a test of a column.
	cond struct {
		kind  string // "and", "or", "not", "compare", "in", "null", "between"
		parts []cond
		col   *column
		col2  *column // of "compare" with a column
		op    string
		not   bool
		lits  []literal
		sub   *query
	}
	literal struct {
		text   string // of a text without its quotes; of a number as written, with its sign
		number bool
	}
)

// Bounds of a query.
const (
	maxDepth  = 20 // of brackets and subqueries
	maxItems  = 32
	maxTables = 8
	maxLimit  = 1_000_000
)

type parser struct {
	toks  []token
	pos   int
	depth int
}

// parse reads one SELECT of the grammar in the package doc.
func parse(toks []token) (*query, error) {
	p := &parser{toks: toks}
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	if p.peek().kind != end {
		return nil, p.unexpected("")
	}
	return q, nil
}

const end kind = 255

func (p *parser) at(i int) token {
	if i < 0 || i >= len(p.toks) {
		return token{kind: end}
	}
	return p.toks[i]
}

func (p *parser) peek() token { return p.at(p.pos) }

func (p *parser) take(text string) bool {
	if p.peek().is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.take(text) {
		return p.unexpected(upper(text))
	}
	return nil
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return refuse("nested more than %d deep", maxDepth)
	}
	return nil
}

// arithmetic are the operators whose work is the calculator's.
var arithmetic = setOf("+ - * / % || << >> & | ~")

// mathFunctions are functions that the calculator has, or that would make numbers of texts.
var mathFunctions = setOf("abs round total length instr ceil ceiling floor sqrt pow power mod sign trunc exp ln log log10 unicode iif")

func useCalculator(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", ErrRefused, ErrArithmetic, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return refuse("not supported: %s", fmt.Sprintf(format, args...))
}

// words that begin what the grammar leaves out.
var leftOut = setOf("distinct all union intersect except with values case cast over filter having offset left right full outer natural cross " +
	"like glob match regexp exists collate isnull notnull escape window recursive not null limit order group on using indexed")

// unexpected says why the next token cannot stand here; want names what could, where one thing alone can.
func (p *parser) unexpected(want string) error {
	t := p.peek()
	next := p.at(p.pos + 1)
	switch {
	case t.kind == op && arithmetic[t.text]:
		return useCalculator("the operator %s is not allowed", t.text)
	case t.kind == num && next.kind == op && arithmetic[next.text]:
		return useCalculator("the operator %s is not allowed", next.text)
	case t.kind == word && next.is("("):
		switch {
		case mathFunctions[t.text]:
			return useCalculator("the function %s is not allowed", clip(t.text))
		case leftOut[t.text]:
			return unsupported("%s here", upper(t.text))
		case !reserved[t.text]:
			return unsupported("the function %s", clip(t.text))
		}
	case t.kind == word && leftOut[t.text]:
		return unsupported("%s here", upper(t.text))
	}
	if t.kind == end {
		if want != "" {
			return refuse("the query ends where %s should stand", want)
		}
		return refuse("the query ends too early")
	}
	if want != "" {
		return unsupported("%q where %s should stand", clip(t.text), want)
	}
	return unsupported("%q here", clip(t.text))
}

func (p *parser) query() (*query, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.expect("select"); err != nil {
		return nil, err
	}
	q := &query{limit: -1}
	for {
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		if q.items = append(q.items, it); len(q.items) > maxItems {
			return nil, refuse("more than %d columns", maxItems)
		}
		if !p.take(",") {
			break
		}
	}
	if err := p.expect("from"); err != nil {
		return nil, err
	}
	if err := p.tables(q); err != nil {
		return nil, err
	}
	if p.take("where") {
		c, err := p.or()
		if err != nil {
			return nil, err
		}
		q.add(c)
	}
	if p.take("group") {
		if err := p.expect("by"); err != nil {
			return nil, err
		}
		c, err := p.column()
		if err != nil {
			return nil, err
		}
		if q.group = c; p.peek().is(",") {
			return nil, unsupported("GROUP BY more than one column")
		}
	}
	if p.take("order") {
		if err := p.orderBy(q); err != nil {
			return nil, err
		}
	}
	return q, p.limit(q)
}

func (p *parser) orderBy(q *query) error {
	if err := p.expect("by"); err != nil {
		return err
	}
	for {
		e, err := p.expr()
		if err != nil {
			return err
		}
		k := orderKey{expr: e}
		if p.take("desc") {
			k.desc = true
		} else {
			p.take("asc")
		}
		if q.order = append(q.order, k); len(q.order) > maxItems {
			return refuse("ORDER BY more than %d columns", maxItems)
		}
		if !p.take(",") {
			return nil
		}
	}
}

func (p *parser) limit(q *query) error {
	if !p.take("limit") {
		return nil
	}
	t := p.peek()
	if t.kind != num || strings.Trim(t.text, "0123456789") != "" {
		return p.unexpected("a number")
	}
	n := 0
	for _, d := range t.text {
		n = min(10*n+int(d-'0'), maxLimit)
	}
	q.limit = n
	p.pos++
	if next := p.peek(); next.is(",") || next.kind == op && arithmetic[next.text] {
		if next.is(",") {
			return unsupported("OFFSET")
		}
		return p.unexpected("")
	}
	return nil
}

func (p *parser) item() (item, error) {
	if p.take("*") {
		return item{star: true}, nil
	}
	if t := p.peek(); t.identifier() && p.at(p.pos+1).is(".") && p.at(p.pos+2).is("*") {
		p.pos += 3
		return item{star: true, of: t.text}, nil
	}
	e, err := p.expr()
	if err != nil {
		return item{}, err
	}
	it := item{expr: e}
	if p.take("as") {
		if t := p.peek(); !t.identifier() {
			return it, p.unexpected("a name")
		}
	}
	if t := p.peek(); t.identifier() {
		it.alias = t.text
		p.pos++
	}
	return it, nil
}

var aggregates = setOf("count sum avg min max")

// expr reads a column, COUNT(*) or an aggregate of a column.
func (p *parser) expr() (expr, error) {
	t := p.peek()
	switch {
	case t.kind == str:
		return expr{}, unsupported("a text as a column: only what the tables hold can be selected")
	case t.kind == num && !(p.at(p.pos+1).kind == op && arithmetic[p.at(p.pos+1).text]):
		return expr{}, unsupported("a number as a column: only what the tables hold can be selected")
	case t.kind == word && aggregates[t.text] && p.at(p.pos+1).is("("):
		p.pos += 2
		e := expr{fn: upper(t.text)}
		if t.text == "count" && p.take("*") {
			return e, p.expect(")")
		}
		c, err := p.column()
		if err != nil {
			return e, err
		}
		e.col = c
		if p.peek().is(",") {
			return e, unsupported("%s of more than one value", e.fn)
		}
		if err := p.expect(")"); err != nil {
			return e, err
		}
		if n := p.peek(); n.is("filter") || n.is("over") {
			return e, unsupported("%s", upper(n.text))
		}
		return e, nil
	case t.is("(") && p.at(p.pos+1).is("select"):
		return expr{}, unsupported("a subquery as a column")
	}
	c, err := p.column()
	return expr{col: c}, err
}

// column reads a column's name, with or without its table's.
func (p *parser) column() (*column, error) {
	t := p.peek()
	if !t.identifier() || t.kind == word && p.at(p.pos+1).is("(") {
		return nil, p.unexpected("a column")
	}
	p.pos++
	c := &column{name: t.text, quoted: t.kind == quoted}
	if p.take(".") {
		if t = p.peek(); !t.identifier() {
			return nil, p.unexpected("a column")
		}
		p.pos++
		c.of, c.name = c.name, t.text
	}
	if n := p.peek(); n.kind == op && arithmetic[n.text] {
		return nil, p.unexpected("")
	}
	return c, nil
}

func (p *parser) tables(q *query) error {
	if err := p.table(q); err != nil {
		return err
	}
	for {
		switch {
		case p.take(","):
			if err := p.table(q); err != nil {
				return err
			}
		case p.peek().is("join") || p.peek().is("inner"):
			if p.take("inner") && !p.peek().is("join") {
				return p.unexpected("JOIN")
			}
			p.pos++
			if err := p.table(q); err != nil {
				return err
			}
			if err := p.joined(q); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (p *parser) table(q *query) error {
	t := p.peek()
	if t.is("(") {
		return unsupported("a subquery in FROM")
	}
	if !t.identifier() {
		return p.unexpected("a table")
	}
	p.pos++
	if p.peek().is("(") {
		return unsupported("the table function %s", clip(t.text))
	}
	f := from{name: t.text, quoted: t.kind == quoted}
	if p.take(".") {
		if n := p.peek(); !strings.EqualFold(f.name, "main") || !n.identifier() {
			return refuse("there is one database, main: tables stand in FROM by their name")
		}
		f.name = p.peek().text
		p.pos++
	}
	if p.take("as") && !p.peek().identifier() {
		return p.unexpected("a name")
	}
	if t := p.peek(); t.identifier() && !joinWords[t.text] {
		f.alias = t.text
		p.pos++
	}
	if q.from = append(q.from, f); len(q.from) > maxTables {
		return refuse("more than %d tables", maxTables)
	}
	return nil
}

// joinWords are words that SQLite lets name a table and that here go on with the query.
var joinWords = setOf("inner indexed")

func (p *parser) joined(q *query) error {
	switch {
	case p.take("on"):
		c, err := p.or()
		if err != nil {
			return err
		}
		q.add(c)
		return nil
	case p.take("using"):
		if err := p.expect("("); err != nil {
			return err
		}
		t := p.peek()
		if !t.identifier() {
			return p.unexpected("a column")
		}
		p.pos++
		q.on = append(q.on, equality{using: t.text, right: len(q.from) - 1})
		if p.peek().is(",") {
			return unsupported("USING more than one column")
		}
		return p.expect(")")
	}
	return nil // the equality may stand in WHERE
}
