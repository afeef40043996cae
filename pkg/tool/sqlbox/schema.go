package sqlbox

import (
	"fmt"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// table is a table of the file as queries see it.
type table struct {
	name   string
	fields []field
	id     []string // the columns that tell its rows apart: the row id, or the primary key where there is none
}

// field is a column of a table.
type field struct {
	name   string
	typ    string
	pk     bool
	unique bool // no two rows have the same value: a primary key or UNIQUE of this column alone
	refs   ref  // what it is declared to refer to
}

type ref struct{ table, column string }

// key reports whether the column tells rows apart or refers to them. Such columns compare by = and IN only: rows counted over a
// range of dense keys would be a subtraction.
func (f *field) key() bool { return f.pk || f.unique || f.refs.table != "" }

func (t *table) field(name string) *field {
	for i := range t.fields {
		if strings.EqualFold(t.fields[i].name, name) {
			return &t.fields[i]
		}
	}
	return nil
}

func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func sqlName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// schemaOf lists the tables by name; views and SQLite's own tables are left out.
func schemaOf(c *sqlite3.SQLiteConn) ([]table, error) {
	names, err := plain(c, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")
	if err != nil {
		return nil, err
	}
	var out []table
	for _, n := range names {
		t := table{name: n[0]}
		if err := t.read(c); err != nil {
			return nil, fmt.Errorf("table %s: %w", n[0], err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (t *table) read(c *sqlite3.SQLiteConn) error {
	name := sqlText(t.name)
	cols, err := plain(c, "SELECT name, type, pk FROM pragma_table_xinfo("+name+") ORDER BY cid")
	if err != nil {
		return err
	}
	var keys []string
	for _, col := range cols {
		switch strings.ToLower(col[1]) {
		case "date", "datetime", "timestamp", "boolean":
			return fmt.Errorf("column %s is declared %s: declare it TEXT or INTEGER", col[0], col[1])
		}
		t.fields = append(t.fields, field{name: col[0], typ: col[1], pk: col[2] != "0"})
		if col[2] != "0" {
			keys = append(keys, col[0])
		}
	}
	if len(keys) == 1 {
		t.field(keys[0]).unique = true
	}
	indexes, err := plain(c, `SELECT (SELECT name FROM pragma_index_info(l.name)) FROM pragma_index_list(`+name+`) AS l
		WHERE l."unique" = 1 AND l.partial = 0 AND (SELECT COUNT(*) FROM pragma_index_info(l.name)) = 1`)
	if err != nil {
		return err
	}
	for _, ix := range indexes {
		if f := t.field(ix[0]); f != nil {
			f.unique = true
		}
	}
	refs, err := plain(c, `SELECT "from", "table", COALESCE("to", '') FROM pragma_foreign_key_list(`+name+`) AS k
		WHERE (SELECT COUNT(*) FROM pragma_foreign_key_list(`+name+`) WHERE id = k.id) = 1 ORDER BY id DESC`)
	if err != nil {
		return err
	}
	for _, r := range refs {
		if f := t.field(r[0]); f != nil {
			f.refs = ref{r[1], r[2]}
		}
	}
	without, err := plain(c, "SELECT wr FROM pragma_table_list("+name+") WHERE schema = 'main'")
	if err != nil {
		return err
	}
	if len(without) == 1 && without[0][0] == "1" {
		t.id = keys
		return nil
	}
	for _, id := range []string{"rowid", "_rowid_", "oid"} {
		if t.field(id) == nil {
			t.id = []string{id}
			return nil
		}
	}
	return fmt.Errorf("its columns hide the row id under all of its names: rename one of rowid, _rowid_, oid")
}

// referred is the field that a reference leads to, nil where it is not a key of one table alone.
func (db *DB) referred(r ref) (*table, *field) {
	t := db.table(r.table)
	if t == nil {
		return nil, nil
	}
	if r.column == "" {
		for i := range t.fields {
			if t.fields[i].pk && t.fields[i].unique {
				return t, &t.fields[i]
			}
		}
		return t, nil
	}
	if f := t.field(r.column); f != nil && f.unique {
		return t, f
	}
	return t, nil
}

func (db *DB) table(name string) *table {
	for i := range db.schema {
		if strings.EqualFold(db.schema[i].name, name) {
			return &db.schema[i]
		}
	}
	return nil
}
