package sqlbox

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"fmt"
	"io"
	"slices"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/toolroute/toolroute/pkg/tool"
)

// maxPlaces bounds the places that are listed for one cell: the rows of a group, the rows that hold a maximum.
const maxPlaces = 32

// rows runs SQL of our own writing and hands on each row until next returns false.
func rows(ctx context.Context, c *sqlite3.SQLiteConn, sql string, args []driver.NamedValue, next func(v []driver.Value) (bool, error)) error {
	st, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	defer st.Close()
	s := st.(*sqlite3.SQLiteStmt)
	if !s.Readonly() {
		return fmt.Errorf("%w: only a plain SELECT is allowed", ErrRefused)
	}
	rs, err := s.QueryContext(ctx, args)
	if err != nil {
		return err
	}
	defer rs.Close()
	v := make([]driver.Value, len(rs.Columns()))
	for {
		if err := rs.Next(v); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if more, err := next(v); err != nil || !more {
			return err
		}
	}
}

// run runs a query. A query of plain columns also selects the ids of the rows that they are of; for an aggregate or a group the
// rows behind each line of the result are asked for afterwards.
func (db *DB) run(ctx context.Context, c *sqlite3.SQLiteConn, q *query) (Result, error) {
	var res Result
	for _, it := range q.items {
		res.Columns = append(res.Columns, quoteText(tool.CutText(it.header(), 64)))
	}
	items, folded := q.itemsSQL(), q.group != nil || q.items[0].expr.fn != ""
	var ids [][2]int // of each table of from: its columns in the row
	if !folded {
		for i := range q.from {
			id := q.from[i].idSQL()
			ids = append(ids, [2]int{len(items), len(items) + len(id)})
			items = append(items, id...)
		}
	} else if q.group != nil {
		items = append(items, q.group.sql())
	}
	size := 0
	var raw [][]driver.Value
	err := rows(ctx, c, q.sql(items), nil, func(v []driver.Value) (bool, error) {
		if len(res.Rows) == db.opt.MaxRows {
			res.Truncated = true
			return false, nil
		}
		row := make([]string, len(q.items))
		for i := range row {
			cell, err := db.cell(v[i])
			if err != nil {
				return false, fmt.Errorf("column %s: %w", res.Columns[i], err)
			}
			row[i] = cell
			size += len(cell)
		}
		if size > db.opt.MaxBytes {
			res.Truncated = true
			if len(res.Rows) == 0 {
				return false, fmt.Errorf("one row has more than %d bytes: select fewer columns", db.opt.MaxBytes)
			}
			return false, nil
		}
		res.Rows = append(res.Rows, row)
		if folded {
			raw = append(raw, slices.Clone(v))
			return true, nil
		}
		at := map[*from]string{}
		for i := range q.from {
			at[&q.from[i]] = idOf(v[ids[i][0]:ids[i][1]])
		}
		sources := make([][]string, len(row))
		for i, it := range q.items {
			if v[i] != nil && !q.told(it.expr.col) {
				sources[i] = q.places(it.expr.col, at)
			}
		}
		res.Sources = append(res.Sources, sources)
		return true, nil
	})
	if err != nil {
		return Result{}, err
	}
	for _, v := range raw {
		s, err := db.behind(ctx, c, q, v)
		if err != nil {
			return Result{}, err
		}
		res.Sources = append(res.Sources, s)
	}
	return res, nil
}

// told reports whether the query compares the column, or one that a join says is equal, with a literal, itself or by way of a
// subquery. Its cells are then no evidence: a policy could look for a row that holds what it guessed.
func (q *query) told(c *column) bool {
	class := q.class(c)
	var literal func(c cond) bool
	literal = func(c cond) bool {
		if c.col != nil && c.kind != "null" && slices.ContainsFunc(class, func(k *column) bool { return same(k, c.col) }) {
			if c.sub == nil || c.sub.items[0].expr.col != nil && c.sub.told(c.sub.items[0].expr.col) {
				return true
			}
		}
		return slices.ContainsFunc(c.parts, literal)
	}
	return slices.ContainsFunc(q.where, literal)
}

// class is a column and those that the joins say are equal to it.
func (q *query) class(c *column) []*column {
	known := []*column{c}
	for i := 0; i < len(known); i++ {
		for _, e := range q.on {
			for _, pair := range [][2]*column{{e.a, e.b}, {e.b, e.a}} {
				if same(pair[0], known[i]) && !slices.ContainsFunc(known, func(k *column) bool { return same(k, pair[1]) }) {
					known = append(known, pair[1])
				}
			}
		}
	}
	return known
}

// places are the cells that a value of a column is in: its own, and those that the joins say are equal to it.
func (q *query) places(c *column, at map[*from]string) []string {
	var out []string
	for _, k := range q.class(c) {
		if id, ok := at[k.at]; ok {
			out = append(out, place(k.at, k.def.name, id))
		}
	}
	return out
}

// behind finds the rows behind one line of a result with an aggregate or a group, and says of each of its values where it is
// from. The value of an aggregate is from "FUNCTION(table.column)#" and a hash of the rows it was made of (those with a value),
// COUNT from "COUNT(table)#" and the hash; SUM, AVG, MIN and MAX of one row are that row's cell, and MIN and MAX also the cells that
// hold it.
func (db *DB) behind(ctx context.Context, c *sqlite3.SQLiteConn, q *query, v []driver.Value) ([][]string, error) {
	root := &q.from[0]
	at := root
	var agg *expr
	for i := range q.items {
		if q.items[i].expr.fn != "" {
			agg = &q.items[i].expr
		}
	}
	if agg == nil {
		at = q.group.at
	}
	items := at.idSQL()
	n := len(items)
	groupID := [2]int{}
	if q.group != nil {
		id := q.group.at.idSQL()
		groupID = [2]int{len(items), len(items) + len(id)}
		items = append(items, id...)
	}
	if agg != nil && agg.col != nil {
		items = append(items, agg.col.sql())
	}
	var more []string
	var args []driver.NamedValue
	if q.group != nil {
		more = append(more, q.group.sql()+" IS ?")
		args = append(args, driver.NamedValue{Ordinal: 1, Value: v[len(v)-1]})
	}
	sql := "SELECT " + strings.Join(items, ", ") + " FROM " + q.tablesSQL() + q.whereSQL(more...)
	var result driver.Value
	for i := range q.items {
		if q.items[i].expr.fn != "" {
			result = v[i]
		}
	}
	var ids, extreme, groups []string
	err := rows(ctx, c, sql, args, func(r []driver.Value) (bool, error) {
		id := idOf(r[:n])
		if q.group != nil && len(groups) < maxPlaces {
			if p := place(q.group.at, q.group.def.name, idOf(r[groupID[0]:groupID[1]])); !slices.Contains(groups, p) {
				groups = append(groups, p)
			}
		}
		if agg == nil || agg.col != nil && r[len(r)-1] == nil {
			return true, nil
		}
		ids = append(ids, id)
		if agg.fn == "MIN" || agg.fn == "MAX" {
			if equalValue(r[len(r)-1], result) && len(extreme) < maxPlaces {
				extreme = append(extreme, place(root, agg.col.def.name, id))
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	out := make([][]string, len(q.items))
	for i, it := range q.items {
		switch {
		case v[i] == nil || it.expr.fn != "COUNT" && q.told(it.expr.col):
		case it.expr.fn == "":
			out[i] = groups
		case it.expr.fn == "COUNT":
			out[i] = []string{fmt.Sprintf("COUNT(%s)#%s", root.table.name, hashOf(ids))}
		case len(ids) == 1:
			out[i] = []string{place(root, agg.col.def.name, ids[0])}
		default:
			out[i] = append([]string{fmt.Sprintf("%s(%s.%s)#%s", agg.fn, root.table.name, agg.col.def.name, hashOf(ids))}, extreme...)
		}
	}
	return out, nil
}

func (q *query) tablesSQL() string {
	var out []string
	for _, f := range byNumber(q.from) {
		out = append(out, fmt.Sprintf("%s AS t%d", sqlName(f.table.name), f.number))
	}
	return strings.Join(out, ", ")
}

// idOf writes the id of a row.
func idOf(vs []driver.Value) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = fmt.Sprint(v)
		if b, ok := v.([]byte); ok {
			parts[i] = fmt.Sprintf("x'%x'", b)
		}
	}
	return strings.Join(parts, ",")
}

func equalValue(a, b driver.Value) bool {
	if x, ok := a.([]byte); ok {
		y, ok := b.([]byte)
		return ok && string(x) == string(y)
	}
	if _, ok := b.([]byte); ok {
		return false
	}
	return a == b
}

// hashOf names a set of rows.
func hashOf(ids []string) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(ids, "\n"))))[:16]
}
