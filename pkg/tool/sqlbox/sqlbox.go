// Package sqlbox is the SQL tool: one read-only SELECT at a time on a SQLite file, safe to give to a policy that writes
// anything. A query is parsed by the small grammar below, its names are looked up, and what SQLite runs is written anew from the
// parsed form, so that nothing else reaches it; what the grammar does not have is refused in a short text. Behind it stand an
// authorizer, limits of time, memory, rows and bytes, and a file opened read-only and immutable, so that nothing can change it and
// nothing may change under it. No query combines values or prints what it was told, so SQL does no work of a calculator and shows
// no value that is not in the file: a result says of each cell where it was read (see Result).
//
// Grammar (keywords in any case; comments, a closing semicolon and quoted names are allowed):
//
//	query    = SELECT item {, item} FROM tables [WHERE cond] [GROUP BY column] [ORDER BY key {, key}] [LIMIT number]
//	item     = * | table.* | column [[AS] name] | aggregate [[AS] name]        one aggregate a query; beside it only the column of GROUP BY
//	aggregate= COUNT(*) | (COUNT | SUM | AVG | MIN | MAX)(column)              SUM and AVG of numbers that are no keys
//	tables   = table [[AS] name] {, tables | [INNER] JOIN table (ON cond | USING (column))}
//	cond     = test | cond AND cond | cond OR cond | NOT cond | (cond)
//	test     = column (= | <> | < | <= | > | >=) (literal | (query)) | column [NOT] IN (literal {, literal} | query)
//	         | column [NOT] BETWEEN literal AND literal | column IS [NOT] NULL | column = column      (the last joins tables)
//	key      = (column | aggregate) [ASC | DESC];    literal = number | 'text';    a subquery has one column and names its own tables only
//	joins    : every table is joined by a column declared to refer to a key = that key; no join repeats the rows that are counted or summed
//	keys     : a column that is a key or refers to one compares by = and IN only
//
// Sources: a cell is "table.column@row id" (and, where a join says that another column is equal, that column's cell too); an
// aggregate is "SUM(table.column)#hash of the row ids" or "COUNT(table)#hash"; SUM, AVG, MIN and MAX of one row are that row's
// cell, and MIN and MAX list the cells that hold them. A column that the query compares with a literal has no sources in it:
// a row that is looked for by its value would be an echo.
//
// The package does not migrate, update or attach databases; Create writes a new file in one go, byte-identical for the same
// content.
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

// Options sets up a DB. The zero value has the documented defaults.
type Options struct {
	MaxRows      int           // rows of a result; 0 is 50
	MaxBytes     int           // bytes of all cells of a result; 0 is 8,192
	MaxCellBytes int           // bytes of one cell; 0 is 512
	MaxSQLBytes  int           // bytes of a query; 0 is 4,000
	Timeout      time.Duration // of one query, once it has a connection; 0 is 2 s
	// MaxMemory bounds SQLite's own heap in bytes: pages, sorting, compiled queries. The limit is of the process, and the lowest
	// ever asked for holds: a query that meets it is run once more alone before it is refused, so the verdict does not depend
	// on its neighbours. Beside it the driver copies one row at a time, of at most 32 cells of 2 MiB. 0 is 128 MiB.
	MaxMemory int64
	// Connections that queries share; 0 is the number of CPUs, at most 8. Further queries wait.
	Connections int
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
	path   string
	opt    Options
	schema []table
	conns  chan *sqlite3.SQLiteConn
	all    []*sqlite3.SQLiteConn
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	once   sync.Once
}

// The memory limit is the process's. Every query holds one place among these; one that met the limit holds all of them.
var (
	places    = make(chan struct{}, 256)
	exclusive = make(chan struct{}, 1)
)

// hold takes n places, none when the context ends first.
func hold(ctx context.Context, n int) (release func(), err error) {
	if n > 1 {
		select {
		case exclusive <- struct{}{}:
			defer func() { <-exclusive }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for i := range n {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			for range i {
				<-places
			}
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		for range n {
			<-places
		}
	}, nil
}

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
	db := &DB{path: path, opt: opt, conns: make(chan *sqlite3.SQLiteConn, opt.Connections)}
	db.ctx, db.end = context.WithCancel(context.Background())
	for range opt.Connections {
		c, err := db.connect()
		if err != nil {
			db.Close()
			return nil, fmt.Errorf("open database %s: %w", path, err)
		}
		db.all = append(db.all, c)
		db.conns <- c
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
	sqlite3.SQLITE_LIMIT_EXPR_DEPTH:          1000, // a chain of ANDs; brackets are bounded by the parser
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
	db.schema = tables
	for id, v := range limits {
		c.SetLimit(id, v)
	}
	readable := map[string]bool{}
	for _, t := range tables {
		readable[strings.ToLower(t.name)] = true
	}
	c.RegisterAuthorizer(func(action int, a, b, schema string) int {
		return authorize(readable, action, a, b, schema)
	})
	return c, nil
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

// Tables lists the tables of the file by name, with their columns in order. Views cannot be asked and are left out.
func (db *DB) Tables() []Table {
	out := make([]Table, len(db.schema))
	for i, t := range db.schema {
		out[i].Name = t.name
		for _, f := range t.fields {
			out[i].Columns = append(out[i].Columns, f.name)
		}
	}
	return out
}

// Path is the file.
func (db *DB) Path() string { return db.path }

// closeWait bounds how long Close waits for a query that was told to stop. Every query of the grammar stops within milliseconds.
const closeWait = 10 * time.Second

// Close stops the queries under way and closes the file.
func (db *DB) Close() error {
	var errs []error
	db.once.Do(func() {
		db.end()
		wait := time.NewTimer(closeWait)
		defer wait.Stop()
		for range db.all {
			select {
			case c := <-db.conns:
				errs = append(errs, c.Close())
			case <-wait.C:
				errs = append(errs, fmt.Errorf("close database %s: a query did not stop within %v", db.path, closeWait))
				return
			}
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
	q, err := db.parse(sql)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(db.ctx, func() { cancel(ErrClosed) })()
	if db.ctx.Err() != nil {
		return Result{}, ErrClosed
	}
	var c *sqlite3.SQLiteConn
	select {
	case c = <-db.conns:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	defer func() { db.conns <- c }()
	res, err := db.timed(ctx, c, q, 1)
	if errors.Is(err, ErrMemory) {
		res, err = db.timed(ctx, c, q, cap(places))
	}
	return res, err
}

// timed runs a query while it holds n of the places for queries.
func (db *DB) timed(ctx context.Context, c *sqlite3.SQLiteConn, q *query, n int) (Result, error) {
	release, err := hold(ctx, n)
	if err != nil {
		return Result{}, err
	}
	defer release()
	qctx, cancel := context.WithTimeout(ctx, db.opt.Timeout)
	defer cancel()
	res, err := db.run(qctx, c, q)
	if err != nil {
		return Result{}, db.explain(ctx, qctx, err)
	}
	return res, nil
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
	return fmt.Errorf("SQL error: %s", text)
}

// NewTool makes a database a priced tool with one argument, query. The DB stays the caller's to close.
func NewTool(db *DB, name, description string, price tool.Price) tool.Func {
	return tool.Func{
		Def: tool.Spec{
			Name: name, Description: description, Price: price,
			Parameters: tool.StringSchema("query", "one SELECT"),
		},
		Run: func(ctx context.Context, args map[string]any) (tool.Observation, error) {
			query, _ := args["query"].(string)
			res, err := db.Query(ctx, query)
			if err != nil {
				return tool.Observation{}, err
			}
			return res.Observation(true), nil
		},
	}
}
