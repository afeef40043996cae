package sqlbox

import (
	"slices"
	"strings"
)

// resolver finds what the names of a query mean and holds it to the rules that its form does not show.
type resolver struct {
	db     *DB
	number int // of the last alias
}

func (r *resolver) query(q *query) error {
	for i := range q.from {
		f := &q.from[i]
		if f.table = r.db.table(f.name); f.table == nil {
			return refuse("no such table: %s", clip(f.name))
		}
		r.number++
		f.number = r.number
		for _, o := range q.from[:i] {
			if strings.EqualFold(o.called(), f.called()) {
				return refuse("two tables are called %s: give one a name with AS", clip(f.called()))
			}
		}
	}
	if err := r.joins(q); err != nil {
		return err
	}
	for i := range q.where {
		if err := r.cond(q, &q.where[i]); err != nil {
			return err
		}
	}
	return r.output(q)
}

func (f *from) called() string {
	if f.alias != "" {
		return f.alias
	}
	return f.name
}

func (r *resolver) column(q *query, c *column) error {
	for i := range q.from {
		f := &q.from[i]
		if c.of != "" && !strings.EqualFold(c.of, f.called()) {
			continue
		}
		if d := f.table.field(c.name); d != nil {
			if c.def != nil {
				return refuse("ambiguous column name: %s: write it with its table", clip(c.name))
			}
			c.at, c.def = f, d
		}
	}
	if c.def == nil {
		if c.quoted {
			return refuse("no such column: %s; texts stand in single quotes", clip(c.name))
		}
		return refuse("no such column: %s", clip(c.name))
	}
	return nil
}

// joins resolves the equalities and holds them to the rules for joins: each goes from a column that refers to a key to that
// key, and from one of the tables they lead to all the others. The result then has at most a row for each row of that table, so
// that no join multiplies rows, in number or in time.
func (r *resolver) joins(q *query) error {
	leads := make([][]int, len(q.from)) // from a table to those that it refers to
	for i := range q.on {
		e := &q.on[i]
		if e.using != "" {
			if err := r.using(q, e); err != nil {
				return err
			}
		} else {
			for _, c := range []*column{e.a, e.b} {
				if err := r.column(q, c); err != nil {
					return err
				}
			}
		}
		a, b := slices.IndexFunc(q.from, func(f from) bool { return f.number == e.a.at.number }), slices.IndexFunc(q.from, func(f from) bool { return f.number == e.b.at.number })
		switch {
		case a == b:
			return unsupported("a comparison of two columns of one table")
		case r.refers(e.a, e.b):
			leads[a] = append(leads[a], b)
		case r.refers(e.b, e.a):
			leads[b] = append(leads[b], a)
		default:
			return unsupported("%s = %s: tables are joined by a column that refers to the key of the other", clip(e.a.name), clip(e.b.name))
		}
	}
	for root := range q.from {
		reached := map[int]bool{}
		var visit func(int)
		visit = func(i int) {
			if !reached[i] {
				reached[i] = true
				for _, j := range leads[i] {
					visit(j)
				}
			}
		}
		visit(root)
		if len(reached) == len(q.from) {
			q.from[0], q.from[root] = q.from[root], q.from[0] // the first is now the one whose rows the result has
			r.moved(q, 0, root)
			return nil
		}
	}
	if len(q.on) < len(q.from)-1 {
		return unsupported("tables that are not joined: join each by JOIN … ON a column = the key that it refers to")
	}
	return unsupported("a join that multiplies rows: ask for each table's rows in a query of their own")
}

// moved corrects the columns of the equalities after two tables changed places.
func (r *resolver) moved(q *query, i, j int) {
	if i == j {
		return
	}
	a, b := &q.from[i], &q.from[j]
	for k := range q.on {
		for _, c := range []*column{q.on[k].a, q.on[k].b} {
			switch c.at {
			case a:
				c.at = b
			case b:
				c.at = a
			}
		}
	}
}

func (r *resolver) refers(a, b *column) bool {
	if a.def.refs.table == "" {
		return false
	}
	t, f := r.db.referred(a.def.refs)
	return f != nil && t == b.at.table && f == b.def
}

// using makes the equality of a USING: the one column of that name before, and that of the table that is joined.
func (r *resolver) using(q *query, e *equality) error {
	right := &q.from[e.right]
	e.b = &column{name: e.using, at: right, def: right.table.field(e.using)}
	for i := range e.right {
		if d := q.from[i].table.field(e.using); d != nil {
			if e.a != nil {
				return refuse("ambiguous column name: %s: join with ON", clip(e.using))
			}
			e.a = &column{name: e.using, at: &q.from[i], def: d}
		}
	}
	if e.a == nil || e.b.def == nil {
		return refuse("no such column in both tables: %s", clip(e.using))
	}
	return nil
}

func (r *resolver) cond(q *query, c *cond) error {
	for i := range c.parts {
		if err := r.cond(q, &c.parts[i]); err != nil {
			return err
		}
	}
	if c.col == nil {
		return nil
	}
	if err := r.column(q, c.col); err != nil {
		return err
	}
	if c.col2 != nil {
		return unsupported("a comparison of two columns: compare with a number, a text or a subquery")
	}
	if c.col.def.key() && (c.kind == "between" || c.kind == "compare" && c.op != "=" && c.op != "<>") {
		return unsupported("%s is a key: keys compare with = and IN only", clip(c.col.name))
	}
	if c.sub == nil {
		return nil
	}
	if err := r.query(c.sub); err != nil {
		return err
	}
	if len(c.sub.items) != 1 {
		return unsupported("a subquery of more than one column")
	}
	return nil
}

// output resolves the select list, GROUP BY and ORDER BY. Stars become the columns they stand for.
func (r *resolver) output(q *query) error {
	var items []item
	var agg *expr
	for _, it := range q.items {
		if !it.star {
			if it.expr.col != nil {
				if err := r.column(q, it.expr.col); err != nil {
					return err
				}
			}
			items = append(items, it)
			continue
		}
		found := false
		for _, f := range byNumber(q.from) {
			if it.of == "" || strings.EqualFold(it.of, f.called()) {
				found = true
				for k := range f.table.fields {
					items = append(items, item{expr: expr{col: &column{name: f.table.fields[k].name, at: f, def: &f.table.fields[k]}}})
				}
			}
		}
		if !found {
			return refuse("no such table: %s", clip(it.of))
		}
	}
	if q.items = items; len(items) > maxItems {
		return refuse("more than %d columns", maxItems)
	}
	if q.group != nil {
		if err := r.column(q, q.group); err != nil {
			return err
		}
	}
	for i := range items {
		e := &items[i].expr
		switch {
		case e.fn != "" && agg != nil:
			return unsupported("more than one aggregate in a query")
		case e.fn != "":
			agg = e
			if e.col != nil && e.col.at != &q.from[0] {
				return unsupported("%s over a join that repeats the rows of %s: ask %s alone", e.fn, clip(e.col.at.name), clip(e.col.at.name))
			}
			if e.fn == "SUM" || e.fn == "AVG" {
				switch typ := strings.ToUpper(e.col.def.typ); { // SQLite would make numbers of texts: 2012 of 2012-12-01
				case e.col.def.key():
					return unsupported("%s of a key", e.fn)
				case strings.Contains(typ, "CHAR") || strings.Contains(typ, "CLOB") || strings.Contains(typ, "TEXT"):
					return unsupported("%s of texts", e.fn)
				}
			}
		}
	}
	for _, it := range items {
		if it.expr.fn == "" && (agg != nil || q.group != nil) && !same(it.expr.col, q.group) {
			return unsupported("the column %s beside an aggregate or GROUP BY: only the column of GROUP BY can stand there", clip(it.expr.col.name))
		}
	}
	for i := range q.order {
		e := &q.order[i].expr
		if e.fn == "" && e.col.of == "" { // the name of an item
			for _, it := range items {
				if it.alias != "" && strings.EqualFold(it.alias, e.col.name) {
					*e = it.expr
					break
				}
			}
		}
		if e.col != nil && e.col.def == nil {
			if err := r.column(q, e.col); err != nil {
				return err
			}
		}
		isAgg := agg != nil && e.fn == agg.fn && (e.col == nil && agg.col == nil || same(e.col, agg.col))
		switch {
		case e.fn != "" && !isAgg:
			return unsupported("ORDER BY an aggregate that is not selected")
		case e.fn == "" && (agg != nil || q.group != nil) && !same(e.col, q.group):
			return unsupported("ORDER BY a column beside an aggregate: by the aggregate or the column of GROUP BY")
		}
	}
	return nil
}

func same(a, b *column) bool { return a != nil && b != nil && a.at == b.at && a.def == b.def }

// byNumber lists tables in the order in which the query has them.
func byNumber(fs []from) []*from {
	out := make([]*from, len(fs))
	for i := range fs {
		out[i] = &fs[i]
	}
	slices.SortFunc(out, func(a, b *from) int { return a.number - b.number })
	return out
}
