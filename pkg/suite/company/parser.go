package company

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Parser is a hand-written parser of this suite's wordings: it takes a question apart into facts, hops, calculations and
// comparisons, and makes the calls that they need. It shows what rules reach whose author knows how the questions are worded. It is no
// learned policy. It sees the question, the price list and the observations, never a task. It has a lexicon, which says which tool, and
// which column, holds a fact of given words. The lexicon is read from the calls of the train split, as a learned policy could read it:
// "Norvik Pump warranty" to doc_search says that a warranty is in the documents, SELECT stock FROM products that a stock is in the
// database.
//
//   - Facts of the database that hop from one to the other are one SELECT with a subquery, two facts of one row one SELECT of two
//     columns, each pair in the grammar of the SQL tool.
//   - Words that the lexicon has for two tools go to the cheaper, and to the other if that shows nothing. Words that it does not have
//     go to the tools in the order of their prices, to SQL only where a column has their name.
//   - A passage is read by the rule of Rules. If no passage has the words, the parser reads the first one that is about the entity, is
//     not void, and has the words of no other fact of the lexicon.
type Parser struct {
	stores map[string][]string // the tools that hold a fact of these words
	rows   map[rowsKey]string  // a SELECT about the rows of an entity, {E} for its name
}

// rowsKey is how a question asks for rows: form and words.
type rowsKey struct{ form, words string }

// NewParser reads the lexicon from the questions and the gold calls of train tasks.
func NewParser(train []suite.Task) *Parser {
	p := &Parser{stores: map[string][]string{}, rows: map[rowsKey]string{}}
	for _, t := range train {
		t, _ = unmasked(t)
		for _, c := range t.GoldPath {
			p.learn(t.Question, c.Tool, argument(c.Tool, c.Args))
		}
	}
	return p
}

func argument(name string, args json.RawMessage) string {
	var fields map[string]string
	if json.Unmarshal(args, &fields) != nil {
		return "" // not a call of this suite
	}
	return fields[argName[name]]
}

var (
	columnSelect = regexp.MustCompile(`SELECT ([\w, ]+?) FROM \w+ WHERE name = (?:'|\()`)
	rowsSelect   = regexp.MustCompile(`^SELECT (?:\w+|\w+\([\w*]+\)) FROM \w+ WHERE \w+ = '([^']+)'$`)
)

func (p *Parser) learn(question, name, arg string) {
	note := func(words string) {
		if words != "" && !slices.Contains(p.stores[words], name) {
			p.stores[words] = append(p.stores[words], name)
		}
	}
	switch name {
	case ToolDoc, ToolWeb:
		if subject := firstName(arg); subject != "" {
			note(strings.TrimSpace(strings.TrimPrefix(arg, subject)))
		}
	case ToolSQL:
		plain := columnSelect.FindAllStringSubmatch(arg, -1)
		for _, m := range plain {
			for _, c := range strings.Split(m[1], ", ") {
				note(strings.ReplaceAll(c, "_", " "))
			}
		}
		if m := rowsSelect.FindStringSubmatch(arg); m != nil && len(plain) == 0 {
			if r := readQuestion(question); len(r.facts) == 1 && len(r.facts[0]) == 1 {
				p.rows[rowsKey{r.form, r.facts[0][0]}] = strings.ReplaceAll(arg, "'"+m[1]+"'", "'{E}'")
			}
		}
	}
}

// Knows implements scripted.Knower, as Rules does.
func (p *Parser) Knows(name string) bool { return argName[name] != "" }

// Next implements scripted.Parser.
func (p *Parser) Next(question string, tools []tool.Spec, seen []suite.Seen) (suite.Call, bool) {
	d := &dialogue{parser: p, tools: tools, seen: seen}
	answer, ok := d.answer(readQuestion(question))
	if d.next != nil {
		return *d.next, true
	}
	args, err := encode(map[string]string{"answer": answer})
	return suite.Call{Tool: tool.FinishName, Args: args}, ok && err == nil
}

// dialogue answers a question from the start, with the observations that there are, up to the first call that was not made.
type dialogue struct {
	parser *Parser
	tools  []tool.Spec
	seen   []suite.Seen
	next   *suite.Call
}

// call is the observation of a call; false when it failed, when its tool is not offered, or when it is still to be made.
func (d *dialogue) call(name, arg string) (string, bool) {
	if d.next != nil || !d.offers(name) {
		return "", false
	}
	if len(d.seen) > 0 {
		s := d.seen[0]
		d.seen = d.seen[1:]
		return s.Body, !s.Failed
	}
	args, err := encode(map[string]string{argName[name]: arg})
	if err == nil {
		d.next = &suite.Call{Tool: name, Args: args}
	}
	return "", false
}

func (d *dialogue) offers(name string) bool {
	return slices.ContainsFunc(d.tools, func(s tool.Spec) bool { return s.Name == name })
}

func (d *dialogue) price(name string) price.Amount {
	for _, s := range d.tools {
		if s.Name == name {
			return s.Price.Base // no tool of this suite has a price per unit
		}
	}
	return 0
}

func (d *dialogue) answer(r reading) (string, bool) {
	if len(r.facts) == 0 && len(r.terms) < 2 || len(r.facts) > 0 && r.entity == "" {
		return "", false
	}
	if len(r.facts) == 1 && len(r.facts[0]) == 1 {
		if sql, ok := d.parser.rows[rowsKey{r.form, r.facts[0][0]}]; ok && !strings.Contains(r.entity, "'") {
			body, ok := d.call(ToolSQL, strings.ReplaceAll(sql, "{E}", r.entity))
			return strings.Join(cells(strings.Split(body, "\n")), ", "), ok && body != "no rows"
		}
	}
	values, ok := d.facts(r)
	if !ok {
		return "", false
	}
	// A fact stands in terms as an empty string, in order.
	terms := slices.Clone(r.terms)
	for i := range terms {
		if terms[i] == "" && len(values) > 0 {
			terms[i], values = values[0], values[1:]
		}
	}
	switch {
	case r.form == "compare" && len(terms) == 2:
		x, ok1 := suite.ParseNumber(terms[0])
		y, ok2 := suite.ParseNumber(terms[1])
		return map[bool]string{true: "yes", false: "no"}[ok1 && ok2 && x.Cmp(y) > 0], ok1 && ok2
	case r.form == "both":
		return strings.Join(terms, ", "), true
	case len(r.ops) == 0 && r.times == "":
		return terms[0], true
	}
	expr := terms[0]
	for i, op := range r.ops {
		expr = expression(op, expr, terms[i+1])
	}
	for _, term := range terms {
		if _, ok := suite.ParseNumber(term); !ok {
			return "", false
		}
	}
	if r.times != "" {
		expr = "(" + expr + ")*" + r.times
	}
	return d.call(ToolCalc, expr)
}

// facts finds the values of a reading's facts.
func (d *dialogue) facts(r reading) ([]string, bool) {
	if len(r.facts) == 2 && len(r.facts[0]) == 1 && len(r.facts[1]) == 1 {
		a, b := d.column(r.entity, r.facts[0][0]), d.column(r.entity, r.facts[1][0])
		if a.table != "" && a.table == b.table {
			body, ok := d.call(ToolSQL, fmt.Sprintf("SELECT %s, %s FROM %s WHERE name = '%s'", a.column, b.column, a.table, r.entity))
			lines := strings.Split(body, "\n") // the full style has a line with the names of the columns first
			cell := strings.Split(lines[len(lines)-1], " | ")
			return cell, ok && len(cell) == 2
		}
	}
	var values []string
	for _, hops := range r.facts {
		subject := r.entity
		for i := 0; i < len(hops); i++ {
			// Two hops within the database are one query.
			if at := d.column(subject, hops[i]); i+1 < len(hops) && at.refers != "" && d.holds(hops[i+1], ToolSQL) && columnOf(at.refers, hops[i+1]) {
				body, ok := d.call(ToolSQL, fmt.Sprintf("SELECT %s FROM %s WHERE name = (SELECT %s FROM %s WHERE name = '%s')",
					strings.ReplaceAll(hops[i+1], " ", "_"), at.refers, at.column, at.table, subject))
				if c := cells(strings.Split(body, "\n")); ok && body != "no rows" && len(c) == 1 {
					subject = c[0]
					i++
					continue
				}
				return nil, false
			}
			v, ok := d.fact(subject, hops[i])
			if !ok {
				return nil, false
			}
			subject = v
		}
		values = append(values, subject)
	}
	return values, true
}

// fact looks one fact up, in the tools that may hold it, the cheapest first.
func (d *dialogue) fact(subject, words string) (string, bool) {
	names := slices.Clone(d.parser.stores[words])
	if len(names) == 0 {
		names = []string{ToolSQL, ToolDoc, ToolWeb}
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(d.price(a) - d.price(b)) })
	for _, name := range names {
		if name == ToolSQL {
			if at := d.column(subject, words); at.table != "" {
				body, ok := d.call(name, selectOne(at, subject))
				if c := cells(strings.Split(body, "\n")); ok && body != "no rows" && len(c) == 1 {
					return c[0], true
				}
			}
		} else if body, ok := d.call(name, subject+" "+words); ok {
			if v := readPassages(body, need{subject, words}); v != "" {
				return v, true
			}
			if v := readPassages(d.parser.unnamed(body), need{subject, ""}); v != "" {
				return v, true
			}
		}
		if d.next != nil {
			return "", false
		}
	}
	return "", false
}

// unnamed are the passages that hold the words of no fact of the lexicon. One of them may say the asked-for fact in other words.
func (p *Parser) unnamed(body string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(body, "\n"), func(line string) bool {
		line = strings.ToLower(line)
		for words := range p.stores { // whether there is one does not depend on the order
			if strings.Contains(line, words) {
				return true
			}
		}
		return false
	}), "\n")
}

func (d *dialogue) holds(words, name string) bool {
	tools := d.parser.stores[words]
	return len(tools) == 0 || slices.Contains(tools, name)
}

// place is where the database keeps a fact; refers is the table that its value is the name of a row of, if any.
type place struct{ table, column, refers string }

// column finds the column of a subject's table that these words name.
func (d *dialogue) column(subject, words string) place {
	if strings.Contains(subject, "'") || !d.holds(words, ToolSQL) {
		return place{}
	}
	name := strings.ReplaceAll(words, " ", "_")
	for _, t := range schema {
		if t.Name != kindOf(subject).table() {
			continue
		}
		for _, c := range t.Columns {
			if c.Name == name {
				refers, _, _ := strings.Cut(strings.TrimPrefix(c.Type, "TEXT REFERENCES "), "(")
				if refers == c.Type {
					refers = ""
				}
				return place{t.Name, name, refers}
			}
		}
	}
	return place{}
}

func columnOf(table, words string) bool {
	return slices.ContainsFunc(schema, func(t Table) bool {
		return t.Name == table && slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == strings.ReplaceAll(words, " ", "_") })
	})
}

func selectOne(at place, subject string) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE name = '%s'", at.column, at.table, subject)
}
