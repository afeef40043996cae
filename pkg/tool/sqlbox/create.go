package sqlbox

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/toolroute/toolroute/pkg/wholefile"
)

// Insert adds one row to a table: a value for each of its columns, in their order. Values are nil, bool (stored as 0 or 1),
// int, int64, float64, string and []byte.
type Insert func(table string, values ...any) error

// Create writes a new database file, replacing one that is there: schema holds statements (CREATE TABLE, CREATE INDEX,
// CREATE VIEW), rows adds the rows. The same schema and rows in the same order give the same bytes: rows are numbered in
// order of insertion (or by their INTEGER PRIMARY KEY), written in one transaction and packed by VACUUM INTO. The file
// appears under its name only when it is whole.
func Create(path string, schema []string, rows func(insert Insert) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create database %s: %w", path, err)
		}
	}()
	dir, err := os.MkdirTemp(filepath.Dir(path), ".sqlbox-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	raw, packed := filepath.Join(dir, "raw.db"), filepath.Join(dir, "packed.db")
	if err := fill(raw, packed, schema, rows); err != nil {
		return err
	}
	f, err := os.OpenFile(packed, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = errors.Join(f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return wholefile.Replace(packed, path)
}

func fill(raw, packed string, schema []string, rows func(Insert) error) (err error) {
	name, err := dsn(raw, "_journal_mode=OFF&_synchronous=OFF&_foreign_keys=1")
	if err != nil {
		return err
	}
	dc, err := (&sqlite3.SQLiteDriver{}).Open(name)
	if err != nil {
		return err
	}
	c := dc.(*sqlite3.SQLiteConn)
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Exec("BEGIN", nil); err != nil {
		return err
	}
	for _, s := range schema {
		if _, err := c.Exec(s, nil); err != nil {
			return fmt.Errorf("%w in %s", err, clip(strings.Join(strings.Fields(s), " ")))
		}
	}
	if _, err := schemaOf(c); err != nil {
		return err
	}
	w := &writer{conn: c, tables: map[string]*tableWriter{}}
	defer w.close()
	if err := rows(w.insert); err != nil {
		return err
	}
	w.close()
	if _, err := c.Exec("COMMIT", nil); err != nil {
		return err
	}
	_, err = c.Exec("VACUUM INTO ?", []driver.Value{packed})
	return err
}

type writer struct {
	conn   *sqlite3.SQLiteConn
	tables map[string]*tableWriter
}

type tableWriter struct {
	stmt    *sqlite3.SQLiteStmt
	columns []string
	key     int  // the column that is the row id, -1 when there is none
	numbers bool // row ids are numbered here
	n       int64
}

func (w *writer) close() {
	for _, t := range w.tables {
		t.stmt.Close()
	}
	clear(w.tables)
}

func (w *writer) insert(table string, values ...any) error {
	t, ok := w.tables[table]
	if !ok {
		var err error
		if t, err = w.open(table); err != nil {
			return err
		}
		w.tables[table] = t
	}
	if len(values) != len(t.columns) {
		return fmt.Errorf("table %s: row %d has %d values for %d columns", table, t.n+1, len(values), len(t.columns))
	}
	t.n++
	var args []driver.Value
	if t.numbers {
		args = append(args, t.n)
	}
	for i, v := range values {
		x, err := storable(v)
		if err == nil && i == t.key && x == nil {
			err = errors.New("the key must be given: a number that the database chose would hide a mistake")
		}
		if err != nil {
			return fmt.Errorf("table %s: row %d: column %s: %w", table, t.n, t.columns[i], err)
		}
		args = append(args, x)
	}
	if _, err := t.stmt.Exec(args); err != nil {
		return fmt.Errorf("table %s: row %d: %w", table, t.n, err)
	}
	return nil
}

func (w *writer) open(table string) (*tableWriter, error) {
	lit := "'" + strings.ReplaceAll(table, "'", "''") + "'"
	cols, err := plain(w.conn, "SELECT name, type, pk FROM pragma_table_info("+lit+") ORDER BY cid")
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", table, err)
	}
	if len(cols) == 0 {
		return nil, fmt.Errorf("table %s: is not in the schema", table)
	}
	t := &tableWriter{key: -1}
	keys := 0
	for i, c := range cols {
		t.columns = append(t.columns, c[0])
		if c[2] != "0" {
			if keys++; strings.EqualFold(c[1], "integer") {
				t.key = i
			}
		}
	}
	if keys != 1 {
		t.key = -1
	}
	var names []string
	if t.key < 0 {
		without, err := plain(w.conn, "SELECT wr FROM pragma_table_list("+lit+") WHERE schema = 'main'")
		if err != nil || len(without) != 1 {
			return nil, errors.Join(fmt.Errorf("table %s: not an ordinary table", table), err)
		}
		if t.numbers = without[0][0] == "0"; t.numbers {
			names = append(names, "rowid")
		}
	}
	for _, c := range t.columns {
		names = append(names, `"`+strings.ReplaceAll(c, `"`, `""`)+`"`)
	}
	stmt, err := w.conn.Prepare(`INSERT INTO "` + strings.ReplaceAll(table, `"`, `""`) + `"(` + strings.Join(names, ", ") +
		") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")")
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", table, err)
	}
	t.stmt = stmt.(*sqlite3.SQLiteStmt)
	return t, nil
}

func storable(v any) (driver.Value, error) {
	switch v := v.(type) {
	case nil, int64, []byte:
		return v, nil
	case int:
		return int64(v), nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v cannot be stored", v)
		}
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New("the text is not valid UTF-8")
		}
		return v, nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be stored", v)
}
