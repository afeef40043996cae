// Package sqlbox is the SQL tool: one read-only SELECT at a time on a SQLite file, safe to give to a policy that writes
// anything. A query is cut into tokens and checked first (one statement, SELECT or WITH, and, by default, no arithmetic:
// see the rule at checkArithmetic), then compiled under an authorizer that allows reading the file's own tables and a list
// of deterministic functions, then run under limits of time, memory, rows and bytes. The file is opened read-only and
// immutable, so nothing can change it and nothing may change under it. What a query gives depends on the file and the text
// alone: functions of the clock and of chance are refused. The package does not migrate, update or attach databases; Create
// writes a new file in one go, byte-identical for the same content.
package sqlbox

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/toolroute/toolroute/pkg/tool"
)

// Options sets up a DB. The zero value has the documented defaults and refuses arithmetic.
type Options struct {
	MaxRows      int           // rows of a result; 0 is 50
	MaxBytes     int           // bytes of all cells of a result; 0 is 8,192
	MaxCellBytes int           // bytes of one cell; 0 is 512
	MaxSQLBytes  int           // bytes of a query; 0 is 4,000
	Timeout      time.Duration // of one query, once it has a connection; 0 is 2 s
	// MaxMemory bounds SQLite's heap in bytes. The limit is of the process, and the lowest ever asked for holds: a query
	// that meets it is run once more alone before it is refused, so the verdict does not depend on its neighbours.
	// 0 is 128 MiB.
	MaxMemory int64
	// Connections that queries share; 0 is the number of CPUs, at most 8. Further queries wait.
	Connections int
	// AllowArithmetic turns RefuseArithmetic, the default, off.
	AllowArithmetic bool
}

func (o Options) filled() (Options, error) {
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"MaxRows", &o.MaxRows, 50}, {"MaxBytes", &o.MaxBytes, 8192}, {"MaxCellBytes", &o.MaxCellBytes, 512},
		{"MaxSQLBytes", &o.MaxSQLBytes, 4000}, {"Connections", &o.Connections, min(8, runtime.GOMAXPROCS(0))},
	} {
		if *f.v < 0 {
			return o, fmt.Errorf("option %s is %d: must not be negative", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if o.Timeout < 0 || o.MaxMemory < 0 {
		return o, errors.New("options Timeout and MaxMemory must not be negative")
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = 128 << 20
	}
	return o, nil
}

// Table is a table of the file, for prompts.
type Table struct {
	Name    string
	Columns []string
}

// DB is an open file. It is safe for concurrent use by any number of goroutines.
type DB struct {
	path    string
	opt     Options
	tables  []Table
	columns map[string]bool // of all tables, in lower case
	conns   chan *sqlite3.SQLiteConn
	all     []*sqlite3.SQLiteConn
	closed  chan struct{}
	once    sync.Once
}

// alone is held shared by every query and exclusively by one that met the memory limit, which is the process's.
var alone sync.RWMutex

// Open opens a SQLite file for queries. Tables with a column declared DATE, DATETIME, TIMESTAMP or BOOLEAN are refused:
// the driver would rewrite their values.
func Open(path string, opt Options) (*DB, error) {
	opt, err := opt.filled()
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if fi.IsDir() {
		return nil, fmt.Errorf("open database %s: is a directory", path)
	}
	db := &DB{path: path, opt: opt, conns: make(chan *sqlite3.SQLiteConn, opt.Connections), closed: make(chan struct{})}
	for range opt.Connections {
		c, err := db.connect()
		if err != nil {
			db.Close()
			return nil, fmt.Errorf("open database %s: %w", path, err)
		}
		db.all = append(db.all, c)
		db.conns <- c
	}
	db.columns = map[string]bool{}
	for _, t := range db.tables {
		for _, c := range t.Columns {
			db.columns[strings.ToLower(c)] = true
		}
	}
	return db, nil
}

// dsn quotes a path for SQLite's URI file names.
func dsn(path, params string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	u := url.URL{Path: filepath.ToSlash(abs)}
	return "file:" + u.EscapedPath() + "?" + params, nil
}

var limits = map[int]int{
	sqlite3.SQLITE_LIMIT_LENGTH:              2 << 20,
	sqlite3.SQLITE_LIMIT_SQL_LENGTH:          1 << 16,
	sqlite3.SQLITE_LIMIT_COLUMN:              100,
	sqlite3.SQLITE_LIMIT_EXPR_DEPTH:          50,
	sqlite3.SQLITE_LIMIT_COMPOUND_SELECT:     10,
	sqlite3.SQLITE_LIMIT_VDBE_OP:             25_000,
	sqlite3.SQLITE_LIMIT_FUNCTION_ARG:        10,
	sqlite3.SQLITE_LIMIT_ATTACHED:            0,
	sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
	sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER:     1,
	sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH:       1,
	sqlite3.SQLITE_LIMIT_WORKER_THREADS:      0,
}

func (db *DB) connect() (*sqlite3.SQLiteConn, error) {
	name, err := dsn(db.path, "mode=ro&immutable=1&_query_only=1")
	if err != nil {
		return nil, err
	}
	dc, err := (&sqlite3.SQLiteDriver{}).Open(name)
	if err != nil {
		return nil, err
	}
	c := dc.(*sqlite3.SQLiteConn)
	for _, p := range []string{
		fmt.Sprintf("PRAGMA hard_heap_limit=%d", db.opt.MaxMemory), "PRAGMA cache_size=-1000", "PRAGMA temp_store=MEMORY",
		"PRAGMA mmap_size=0", "PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON",
	} {
		if _, err := c.Exec(p, nil); err != nil {
			c.Close()
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	tables, err := schemaOf(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	db.tables = tables
	for id, v := range limits {
		c.SetLimit(id, v)
	}
	readable := map[string]bool{"sqlite_master": true, "sqlite_schema": true}
	for _, t := range tables {
		readable[strings.ToLower(t.Name)] = true
	}
	c.RegisterAuthorizer(func(action int, a, b, schema string) int {
		return authorize(readable, action, a, b, schema)
	})
	return c, nil
}

// schemaOf lists the tables and views, by name.
func schemaOf(c *sqlite3.SQLiteConn) ([]Table, error) {
	names, err := plain(c, "SELECT name FROM sqlite_schema WHERE type IN ('table','view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")
	if err != nil {
		return nil, err
	}
	var out []Table
	for _, n := range names {
		t := Table{Name: n[0]}
		cols, err := plain(c, "SELECT name, type FROM pragma_table_xinfo('"+strings.ReplaceAll(n[0], "'", "''")+"') ORDER BY cid")
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", n[0], err)
		}
		for _, col := range cols {
			switch strings.ToLower(col[1]) {
			case "date", "datetime", "timestamp", "boolean":
				return nil, fmt.Errorf("table %s: column %s is declared %s: declare it TEXT or INTEGER", n[0], col[0], col[1])
			}
			t.Columns = append(t.Columns, col[0])
		}
		out = append(out, t)
	}
	return out, nil
}

// plain runs a query of our own that gives texts.
func plain(c *sqlite3.SQLiteConn, sql string) ([][]string, error) {
	rows, err := c.Query(sql, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out [][]string
	for {
		v := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(v); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		r := make([]string, len(v))
		for i := range v {
			r[i] = fmt.Sprint(v[i])
		}
		out = append(out, r)
	}
}

// Tables lists the tables and views of the file by name, with their columns in order.
func (db *DB) Tables() []Table { return db.tables }

// Path is the file.
func (db *DB) Path() string { return db.path }

// Close closes the file once the queries under way have ended.
func (db *DB) Close() error {
	var errs []error
	db.once.Do(func() {
		close(db.closed)
		for range db.all {
			errs = append(errs, (<-db.conns).Close())
		}
	})
	return errors.Join(errs...)
}

// Causes of a failed query; compare with errors.Is. Any other error is SQLite's own.
var (
	ErrRefused    = errors.New("refused")
	ErrArithmetic = errors.New("use calculator")
	ErrTimeout    = errors.New("the query took too long")
	ErrMemory     = errors.New("the query needs too much memory")
	ErrClosed     = errors.New("the database is closed")
)

// Query runs one SELECT. Its errors are short and made for observations; the end of ctx gives the cause of ctx.
func (db *DB) Query(ctx context.Context, sql string) (Result, error) {
	if err := db.check(sql); err != nil {
		return Result{}, err
	}
	var c *sqlite3.SQLiteConn
	select {
	case <-db.closed:
		return Result{}, ErrClosed
	default:
	}
	select {
	case c = <-db.conns:
	case <-db.closed:
		return Result{}, ErrClosed
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	defer func() { db.conns <- c }()
	alone.RLock()
	res, err := db.timed(ctx, c, sql)
	alone.RUnlock()
	if errors.Is(err, ErrMemory) {
		alone.Lock()
		defer alone.Unlock()
		res, err = db.timed(ctx, c, sql)
	}
	return res, err
}

func (db *DB) timed(ctx context.Context, c *sqlite3.SQLiteConn, sql string) (Result, error) {
	qctx, cancel := context.WithTimeout(ctx, db.opt.Timeout)
	defer cancel()
	res, err := db.run(qctx, c, sql)
	if err != nil {
		return Result{}, db.explain(ctx, qctx, err)
	}
	return res, nil
}

func (db *DB) run(ctx context.Context, c *sqlite3.SQLiteConn, sql string) (Result, error) {
	st, err := c.Prepare(sql)
	if err != nil {
		return Result{}, err
	}
	defer st.Close()
	s := st.(*sqlite3.SQLiteStmt)
	if !s.Readonly() || s.NumInput() != 0 {
		return Result{}, fmt.Errorf("%w: only a plain SELECT is allowed", ErrRefused)
	}
	rows, err := s.QueryContext(ctx, nil)
	if err != nil {
		return Result{}, err
	}
	defer rows.Close()
	return db.collect(rows)
}

// explain makes SQLite's and the driver's errors short and clear.
func (db *DB) explain(ctx, qctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var se sqlite3.Error
	switch {
	case qctx.Err() != nil:
		return fmt.Errorf("%w (limit %v)", ErrTimeout, db.opt.Timeout)
	case !errors.As(err, &se):
		return err
	}
	text := strings.TrimSpace(tool.CutText(se.Error(), 200))
	switch se.Code {
	case sqlite3.ErrNomem:
		return fmt.Errorf("%w (limit %d MiB)", ErrMemory, db.opt.MaxMemory>>20)
	case sqlite3.ErrAuth:
		return fmt.Errorf("%w: %s", ErrRefused, strings.TrimPrefix(text, "authorization denied: "))
	case sqlite3.ErrInterrupt:
		return fmt.Errorf("%w (limit %v)", ErrTimeout, db.opt.Timeout)
	}
	if fn, ok := strings.CutPrefix(text, "not authorized to use function: "); ok {
		return refuse("the function %s is not allowed", clip(fn))
	}
	return fmt.Errorf("SQL error: %s", text)
}

// NewTool makes a database a priced tool with one argument, query. The DB stays the caller's to close.
func NewTool(db *DB, name, description string, price tool.Price) tool.Func {
	return tool.Func{
		Def: tool.Spec{
			Name: name, Description: description, Price: price,
			Parameters: tool.StringSchema("query", "one SELECT"),
		},
		Run: func(ctx context.Context, args map[string]any) (string, error) {
			query, _ := args["query"].(string)
			res, err := db.Query(ctx, query)
			if err != nil {
				return "", err
			}
			return res.Text(), nil
		},
	}
}
