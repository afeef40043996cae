package sqlbox

import (
	"fmt"
	"strings"
)

// sql writes a resolved query: every name is quoted and stands with its table, every literal is written anew.
func (q *query) sql(items []string) string {
	var b strings.Builder
	b.WriteString("SELECT " + strings.Join(items, ", ") + " FROM " + q.tablesSQL() + q.whereSQL())
	if q.group != nil {
		b.WriteString(" GROUP BY " + q.group.sql())
	}
	for i, k := range q.order {
		b.WriteString(map[bool]string{true: " ORDER BY ", false: ", "}[i == 0] + k.expr.sql())
		if k.desc {
			b.WriteString(" DESC")
		}
	}
	if q.limit >= 0 {
		fmt.Fprintf(&b, " LIMIT %d", q.limit)
	}
	return b.String()
}

func (q *query) whereSQL(more ...string) string {
	var all []string
	for _, e := range q.on {
		all = append(all, e.a.sql()+" = "+e.b.sql())
	}
	for i := range q.where {
		all = append(all, q.where[i].sql())
	}
	all = append(all, more...)
	if len(all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(all, " AND ")
}

func (c *column) sql() string { return fmt.Sprintf("t%d.%s", c.at.number, sqlName(c.def.name)) }

func (e expr) sql() string {
	switch {
	case e.fn == "":
		return e.col.sql()
	case e.col == nil:
		return "COUNT(*)"
	}
	return e.fn + "(" + e.col.sql() + ")"
}

// header is the name of a result's column.
func (it item) header() string {
	switch {
	case it.alias != "":
		return it.alias
	case it.expr.fn == "":
		return it.expr.col.def.name
	case it.expr.col == nil:
		return "COUNT(*)"
	}
	return it.expr.fn + "(" + it.expr.col.def.name + ")"
}

func (q *query) itemsSQL() []string {
	out := make([]string, len(q.items))
	for i, it := range q.items {
		out[i] = it.expr.sql()
	}
	return out
}

// idSQL lists the columns that tell a table's rows apart.
func (f *from) idSQL() []string {
	out := make([]string, len(f.table.id))
	for i, id := range f.table.id {
		out[i] = fmt.Sprintf("t%d.%s", f.number, sqlName(id))
		if len(f.table.id) == 1 && f.table.field(id) == nil {
			out[i] = fmt.Sprintf("t%d.%s", f.number, id)
		}
	}
	return out
}

func (c *cond) sql() string {
	not := map[bool]string{true: "NOT ", false: ""}[c.not]
	switch c.kind {
	case "not":
		return "NOT (" + c.parts[0].sql() + ")"
	case "and", "or":
		parts := make([]string, len(c.parts))
		for i := range c.parts {
			parts[i] = c.parts[i].sql()
		}
		return "(" + strings.Join(parts, map[string]string{"and": " AND ", "or": " OR "}[c.kind]) + ")"
	case "null":
		return c.col.sql() + " IS " + not + "NULL"
	case "between":
		return c.col.sql() + " " + not + "BETWEEN " + c.lits[0].sql() + " AND " + c.lits[1].sql()
	case "in":
		return c.col.sql() + " " + not + "IN (" + c.right() + ")"
	}
	if c.sub != nil {
		return c.col.sql() + " " + c.op + " (" + c.right() + ")"
	}
	return c.col.sql() + " " + c.op + " " + c.right()
}

func (c *cond) right() string {
	if c.sub != nil {
		return c.sub.sql(c.sub.itemsSQL())
	}
	lits := make([]string, len(c.lits))
	for i, l := range c.lits {
		lits[i] = l.sql()
	}
	return strings.Join(lits, ", ")
}

func (l literal) sql() string {
	if l.number {
		return l.text
	}
	return sqlText(l.text)
}

// Normal gives a query as it would be run, without the row ids that are selected beside its columns: one text for all the ways
// of writing it. Its errors are those of Query.
func (db *DB) Normal(sql string) (string, error) {
	q, err := db.parse(sql)
	if err != nil {
		return "", err
	}
	items := q.itemsSQL()
	for i, it := range q.items {
		if it.alias != "" {
			items[i] += " AS " + sqlName(it.alias)
		}
	}
	return q.sql(items), nil
}

// place names a cell: table.column@row.
func place(f *from, field string, id string) string { return f.table.name + "." + field + "@" + id }
