package company

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// shownBy is the tool that can show a value at the evidence's places; empty where several could.
func shownBy(e source.Evidence) string {
	name := ""
	for _, place := range e.Sources {
		of := ToolSQL
		switch {
		case strings.HasPrefix(place, string(Doc)+":"):
			of = ToolDoc
		case strings.HasPrefix(place, string(Web)+":"):
			of = ToolWeb
		case strings.HasPrefix(place, "calculated:"):
			of = ToolCalc
		}
		if name != "" && name != of {
			return ""
		}
		name = of
	}
	return name
}

// everyToolShows reports whether each gold tool shows a value that no other tool can show, so that the evidence is incomplete without that tool.
func everyToolShows(t suite.Task) bool {
	for _, name := range t.Combination {
		if !t.HasTag(TagTwoSource) && !slices.ContainsFunc(t.Evidence, func(e source.Evidence) bool { return shownBy(e) == name }) {
			return false
		}
	}
	return true
}

// attempt is a call that was played and what it gave.
type attempt struct {
	tool string
	obs  tool.Observation
}

// attempts plays the calls that might show a task's answer. For each entity of the question it asks SQL for every column of its row and of
// the rows that refer to it, alone and under each aggregate, filtered by equality, sorted and cut after one to three rows. It asks for
// joins along declared keys, up and down, and for COUNT(*) of the rows of every table above, below and at each number of the question, and
// above the entity's own values. It also tries queries that would multiply or print values: aggregates over the repeated side of a join,
// ranges of keys, literals as columns. It asks the searches for the entity, the question, and both. It tells every tool the gold
// values: as text to look for, as literals that a row is found by, as an expression.
func (p *prober) attempts(t suite.Task) []attempt {
	var out []attempt
	try := func(name, arg string) {
		key := name + "\x00" + arg
		v, ok := p.shown.Load(key)
		if !ok {
			obs, err := p.w.stores.call(context.Background(), p.opt, name, arg)
			if err != nil {
				obs = tool.Said(err.Error())
			}
			v, _ = p.shown.LoadOrStore(key, obs)
		}
		if obs := v.(tool.Observation); len(obs.Reads) > 0 {
			out = append(out, attempt{name, obs})
		}
	}
	numbers := questionNumbers(t.Question)
	for _, e := range p.entities(t.Question) {
		for _, q := range p.sqlAbout(e) {
			try(ToolSQL, q)
		}
		for _, q := range countsAbout(e, numbers) {
			try(ToolSQL, q)
		}
		for _, name := range []string{ToolDoc, ToolWeb} {
			try(name, e.Name)
			try(name, e.Name+" "+contentWords(t.Question, []*Entity{e}))
		}
	}
	for _, name := range []string{ToolDoc, ToolWeb} {
		try(name, t.Question)
	}
	for _, v := range append(values(t.Evidence), t.Answer.Values...) {
		lit := "'" + strings.ReplaceAll(v, "'", "''") + "'"
		for _, q := range []string{"SELECT " + lit + " FROM departments", `SELECT "` + v + `" FROM departments`, "SELECT name AS \"" + v + "\" FROM departments",
			"SELECT name FROM departments WHERE name = " + lit, "SELECT MAX(" + v + ") FROM departments"} {
			try(ToolSQL, q)
		}
		for _, e := range p.entities(v) { // a name: the row that bears it
			try(ToolSQL, fmt.Sprintf("SELECT name FROM %s WHERE name = %s", e.Kind.table(), lit))
		}
		if isNumber(v) {
			for _, table := range schema {
				for _, c := range table.Columns {
					if c.Type == "INTEGER" || c.Type == "REAL" {
						try(ToolSQL, fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s LIMIT 5", c.Name, table.Name, c.Name, v))
					}
				}
			}
			for _, x := range []string{v, v + "+0", v + "*1", v + "-1+1", "100/100*" + v, "max(" + v + ", 0)"} {
				try(ToolCalc, x)
			}
			for _, n := range numbers {
				try(ToolCalc, fmt.Sprintf("%s+%s-%s", v, n, n))
			}
		}
		for _, name := range []string{ToolDoc, ToolWeb} {
			try(name, v)
		}
	}
	return out
}

// evidenced reports whether what these tools showed is the task's evidence.
func (p *prober) evidenced(t suite.Task, tools []string, tried []attempt) bool {
	anywhere := slices.ContainsFunc(t.Evidence, func(e source.Evidence) bool { return len(e.Sources) == 0 })
	places := map[string]bool{}
	for _, e := range t.Evidence {
		for _, s := range e.Sources {
			places[s] = true
		}
	}
	var seen []tool.Observation
	for _, a := range tried {
		if !slices.Contains(tools, a.tool) {
			continue
		}
		o := a.obs
		if !anywhere { // what was read elsewhere is no evidence: leave it out before texts are compared
			o.Reads = slices.DeleteFunc(slices.Clone(o.Reads), func(r source.Read) bool {
				return len(r.Of) == 0 && !slices.ContainsFunc(r.From, func(s string) bool { return places[s] })
			})
		}
		if len(o.Reads) > 0 {
			seen = append(seen, o)
		}
	}
	return len(t.Evidence) > 0 && suite.Evidenced(t.Question, t.Evidence, seen)
}

func values(es []source.Evidence) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = e.Value
	}
	return out
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789.") == "" && s != "" }

func questionNumbers(question string) []string {
	return strings.FieldsFunc(question, func(r rune) bool { return !unicode.IsDigit(r) })
}

// reference is a column of a table that refers to a kind of entities.
type reference struct {
	table  *Table
	column string
}

func references(k Kind) (out []reference) {
	for i := range schema {
		for _, c := range schema[i].Columns {
			if strings.HasPrefix(c.Type, "TEXT REFERENCES "+k.table()+"(") {
				out = append(out, reference{&schema[i], c.Name})
			}
		}
	}
	return out
}

func schemaTable(name string) *Table {
	return &schema[slices.IndexFunc(schema, func(t Table) bool { return t.Name == name })]
}

var sqlAggregates = []string{"COUNT", "SUM", "AVG", "MIN", "MAX"}

// sqlAbout lists the SQL of attempts that depends on the entity alone.
func (p *prober) sqlAbout(e *Entity) []string {
	if v, ok := p.forms.Load(e); ok {
		return v.([]string)
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	own := schemaTable(e.Kind.table())
	add("SELECT * FROM %s WHERE name = '%s'", own.Name, e.Name)
	add("SELECT '%s' FROM %s", e.Name, own.Name)
	for _, c := range own.Columns {
		add("SELECT %s FROM %s WHERE name = '%s'", c.Name, own.Name, e.Name)
		for _, f := range sqlAggregates {
			add("SELECT %s(%s) FROM %s WHERE name = '%s'", f, c.Name, own.Name, e.Name)
		}
		up, ok := strings.CutPrefix(c.Type, "TEXT REFERENCES ")
		if !ok {
			continue
		}
		up, _, _ = strings.Cut(up, "(")
		add("SELECT u.* FROM %s o JOIN %s u ON o.%s = u.name WHERE o.name = '%s'", own.Name, up, c.Name, e.Name)
		add("SELECT * FROM %s WHERE name = (SELECT %s FROM %s WHERE name = '%s')", up, c.Name, own.Name, e.Name)
		for _, uc := range schemaTable(up).Columns {
			add("SELECT SUM(u.%s) FROM %s o JOIN %s u ON o.%s = u.name WHERE o.name = '%s'", uc.Name, own.Name, up, c.Name, e.Name)
		}
		if up != "departments" { // its other rows
			add("SELECT COUNT(*) FROM %s WHERE %s = (SELECT %s FROM %s WHERE name = '%s')", own.Name, c.Name, c.Name, own.Name, e.Name)
		}
	}
	for _, r := range references(e.Kind) {
		where := fmt.Sprintf("%s WHERE %s = '%s'", r.table.Name, r.column, e.Name)
		add("SELECT * FROM %s", where)
		add("SELECT COUNT(*) FROM %s", where)
		for _, c := range r.table.Columns {
			for _, f := range sqlAggregates {
				add("SELECT %s(%s) FROM %s", f, c.Name, where)
			}
			for _, dir := range []string{"", " DESC"} {
				add("SELECT %s FROM %s ORDER BY %s%s LIMIT 3", c.Name, where, c.Name, dir)
			}
			if c.Type == "TEXT" {
				add("SELECT %s, COUNT(*) FROM %s GROUP BY %s", c.Name, where, c.Name)
			}
		}
		for _, oc := range own.Columns { // the value once for each row that refers to the entity: their sum would be a product
			if oc.Type == "INTEGER" || oc.Type == "REAL" {
				add("SELECT SUM(o.%s) FROM %s r JOIN %s o ON r.%s = o.name WHERE o.name = '%s'", oc.Name, r.table.Name, own.Name, r.column, e.Name)
			}
		}
		for _, below := range schema { // rows that refer to those rows
			for _, c := range below.Columns {
				if to, ok := strings.CutPrefix(c.Type, "TEXT REFERENCES "+r.table.Name+"("); ok {
					key := strings.TrimSuffix(to, ")")
					add("SELECT COUNT(*) FROM %s b JOIN %s r ON b.%s = r.%s WHERE r.%s = '%s'", below.Name, r.table.Name, c.Name, key, r.column, e.Name)
					for _, bc := range below.Columns {
						if bc.Type == "INTEGER" {
							add("SELECT SUM(b.%s) FROM %s b JOIN %s r ON b.%s = r.%s WHERE r.%s = '%s'", bc.Name, below.Name, r.table.Name, c.Name, key, r.column, e.Name)
						}
					}
				}
			}
		}
	}
	p.forms.Store(e, out)
	return out
}

// countsAbout lists counts of rows below, at and above the numbers of the question and the entity's own values.
func countsAbout(e *Entity, numbers []string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	own := schemaTable(e.Kind.table())
	for _, c := range own.Columns {
		if c.Type != "INTEGER" {
			continue
		}
		for _, op := range []string{"<", "<=", ">", ">=", "="} {
			for _, n := range numbers {
				add("SELECT COUNT(*) FROM %s WHERE %s %s %s", own.Name, c.Name, op, n)
				add("SELECT COUNT(*) FROM %s WHERE name = '%s' AND %s %s %s", own.Name, e.Name, c.Name, op, n)
			}
			add("SELECT COUNT(*) FROM %s WHERE %s %s (SELECT %s FROM %s WHERE name = '%s')", own.Name, c.Name, op, c.Name, own.Name, e.Name)
		}
		add("SELECT COUNT(*) FROM orders WHERE rowid <= (SELECT %s FROM %s WHERE name = '%s')", c.Name, own.Name, e.Name)
		add("SELECT COUNT(*) FROM orders WHERE id <= 'ORD10' AND id > (SELECT %s FROM %s WHERE name = '%s')", c.Name, own.Name, e.Name)
	}
	return out
}
