package sqlbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

const deep = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) "

// hostile queries: each must end in an error that holds the text.
var hostile = []struct{ sql, want string }{
	{"", "empty"}, {"   \n\t ", "empty"}, {";", "empty"}, {";;; ;", "empty"}, {"-- only a comment", "empty"}, {"/* only */", "empty"},
	{"/* open", "empty"}, {"--\n;--", "empty"}, {"\uFEFF", "empty"},
	{"ATTACH DATABASE 'evil.db' AS e", "only one SELECT"},
	{"SELECT 1; ATTACH DATABASE 'evil.db' AS e", "more than one"},
	{"/**/aTTach 'evil.db' as e", "only one SELECT"},
	{"DETACH main", "only one SELECT"},
	{"PRAGMA writable_schema=1", "only one SELECT"}, {"PRAGMA table_info(employees)", "only one SELECT"},
	{"SELECT * FROM pragma_table_info('employees')", "refused"}, {"SELECT * FROM pragma_database_list", "refused"},
	{"SELECT * FROM pragma_writable_schema", "refused"}, {"SELECT * FROM pragma_query_only(0)", "refused"},
	{"SELECT count(*) FROM pragma_database_list", "refused"}, {"SELECT count(*) FROM json_each('[1]')", "refused"},
	{"SELECT * FROM pragma_function_list", "refused"},
	{"SELECT load_extension('./evil.so')", "refused"}, {"SELECT 1 WHERE load_extension('x','y') IS NULL", "refused"},
	{"INSERT INTO orders VALUES (1,'a',2)", "only one SELECT"}, {"UPDATE employees SET salary=0", "only one SELECT"},
	{"DELETE FROM employees RETURNING *", "only one SELECT"}, {"REPLACE INTO orders VALUES (1,'a',2)", "only one SELECT"},
	{"WITH x AS (SELECT 1) DELETE FROM employees RETURNING *", "only one SELECT"},
	{"WITH x AS (SELECT 1) INSERT INTO orders SELECT 1,'a',2 FROM x", "only one SELECT"},
	{"WITH x AS (SELECT 1) UPDATE employees SET salary = 0", "only one SELECT"},
	{"CREATE TABLE t(a)", "only one SELECT"}, {"CREATE TEMP TABLE t AS SELECT 1", "only one SELECT"}, {"DROP TABLE employees", "only one SELECT"},
	{"ALTER TABLE employees RENAME TO e", "only one SELECT"}, {"VACUUM INTO 'evil.db'", "only one SELECT"}, {"REINDEX", "only one SELECT"},
	{"ANALYZE", "only one SELECT"}, {"BEGIN EXCLUSIVE", "only one SELECT"}, {"COMMIT", "only one SELECT"}, {"SAVEPOINT a", "only one SELECT"},
	{"EXPLAIN SELECT 1", "only one SELECT"}, {"EXPLAIN QUERY PLAN SELECT 1", "only one SELECT"},
	{"SELECT 1; DROP TABLE employees; --", "more than one"}, {"SELECT 1;SELECT 2", "more than one"}, {"SELECT ';' ; SELECT 2", "more than one"},
	{"SELECT 1 /* ; */ ; /* */ -- \n x", "more than one"}, {"SELECT 'a;\nSELECT 2", "unclosed quote"}, {`SELECT "a`, "unclosed quote"},
	{"SELECT [a", "unclosed quote"}, {"SELECT x'0", "unclosed quote"}, {"SELECT x'0'", "refused"}, {"SELECT 1\x00; DROP TABLE employees", "plain UTF-8"},
	{"SELECT '\xff\xfe'", "plain UTF-8"}, {"SELECT ?", "parameters"}, {"SELECT :a, @b, $c", "parameters"}, {"SELECT \\ 1", "unknown character"},
	{deep + "SELECT count(*) FROM c", "only one SELECT"}, {deep + "SELECT x FROM c WHERE x > 1", "only one SELECT"},
	{"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT max(x) FROM c", "only one SELECT"},
	{"WITH RECURSIVE c(x) AS (SELECT 'ab' UNION ALL SELECT x||x FROM c) SELECT length(max(x)) FROM c", "only one SELECT"},
	{"SELECT count(*) FROM employees a, employees b, employees c, employees d, employees e", "refused"},
	{"SELECT a.name FROM employees a, employees b, employees c, employees d ORDER BY b.bonus, c.name, d.name", "refused"},
	{"SELECT DISTINCT a.name||b.name||c.name||d.name FROM employees a, employees b, employees c, employees d ORDER BY 1", "refused"},
	{"SELECT group_concat(a.name) FROM employees a, employees b, employees c, employees d", "refused"},
	{"SELECT zeroblob(1000000000)", "refused"}, {"SELECT randomblob(1000000000)", "refused"}, {"SELECT printf('%1000000000d', 1)", "refused"},
	{"SELECT format('%1000000000d', 1)", "refused"}, {"SELECT hex(zeroblob(100))", "refused"}, {"SELECT char(0)", "refused"},
	{"SELECT length(replace(replace(replace(v, 'é', 'éééééééééé'), 'é', 'éééééééééé'), 'é', 'éééééééééé')) FROM odd WHERE length(v) > 1000", "refused"},
	{"SELECT random()", "refused"}, {"SELECT name FROM employees ORDER BY random()", "refused"}, {"SELECT datetime('now')", "refused"},
	{"SELECT date()", "refused"}, {"SELECT strftime('%s','now')", "refused"}, {"SELECT CURRENT_TIMESTAMP", "refused"}, {"SELECT current_date", "refused"},
	{"SELECT \"datetime\"('now')", "refused"}, {"SELECT [julianday]('now')", "refused"}, {"SELECT unixepoch()", "refused"},
	{"SELECT sqlite_version()", "refused"}, {"SELECT last_insert_rowid()", "refused"}, {"SELECT changes()", "refused"}, {"SELECT total(n) FROM huge", "refused"},
	{"SELECT readfile('/etc/passwd')", "refused"}, {"SELECT writefile('evil.txt', 'x')", "refused"}, {"SELECT fts5(1)", "refused"},
	{"SELECT * FROM json_each('[1,2]')", "refused"}, {"SELECT * FROM generate_series(1,1000000000)", "refused"}, {"SELECT * FROM sqlite_dbpage", "refused"},
	{"SELECT * FROM sqlite_temp_master", "refused"}, {"SELECT * FROM nowhere", "refused"}, {"SELECT nonsense FROM employees", "refused"},
	{"SELECT 9223372036854775807 + 1", "refused"}, {"SELECT 9223372036854775808", "refused"}, {"SELECT sum(n) FROM huge WHERE n > 0", "integer overflow"},
	{"SELECT abs(min(n)) FROM huge", "refused"}, {"SELECT 9e999", "refused"}, {"SELECT -9e999", "refused"},
	{"SELECT 9223372036854775807 * 9223372036854775807", "refused"},
	{"SELECT " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000), "refused"},
	{"SELECT 1" + strings.Repeat("+1", 1000), "refused"}, {"SELECT 1" + strings.Repeat(",1", 1000), "refused"},
	{"SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 100), "refused"},
	{"SELECT " + strings.Repeat("9", 5000), "bytes"}, {strings.Repeat("SELECT 1 ", 20_000), "bytes"},
	{"SELECT name FROM employees WHERE name LIKE '" + strings.Repeat("%a", 200) + "'", "refused"},
	{"SELECT", "refused"}, {"SELECT FROM", "refused"}, {"WITH", "only one SELECT"}, {"WITH x AS", "only one SELECT"}, {"select * from (select", "refused"},
	{"SELEC name FROM employees", "only one SELECT"}, {"🙂", "only one SELECT"}, {"SELECT 🙂", "refused"}, {"null", "only one SELECT"},
	{"SELECT name FROM employees; ;SELECT 1", "more than one"}, {"SELECT * FROM employees, employees", "refused"},
	{"WITH x AS (DELETE FROM employees RETURNING *) SELECT * FROM x", "only one SELECT"}, {"SELECT * FROM (DELETE FROM employees RETURNING id)", "refused"},
	{"SELECT 1\x0b;\x0cDELETE FROM employees", "unknown character"}, {"SELECT 1;\u00a0ATTACH 'evil.db' AS e", "more than one"},
	{"\uFEFFATTACH 'evil.db' AS e", "only one SELECT"}, {"\u200bDELETE FROM employees", "only one SELECT"}, {"((DELETE FROM employees))", "only one SELECT"},
	{"SELECT [load_extension]('x')", "refused"}, {"SELECT `load_extension`('x')", "refused"}, {"SELECT load_extension/**/('x')", "refused"},
	{"SELECT * FROM Pragma_Table_Info('employees')", "refused"}, {"SELECT * FROM main.pragma_user_version", "refused"},
	{"WITH x AS (SELECT 1) REPLACE INTO orders SELECT 1,'a',2", "only one SELECT"}, {"INSERT OR REPLACE INTO employees DEFAULT VALUES", "only one SELECT"},
	{"SELECT edit('x')", "refused"}, {"SELECT fts3_tokenizer('x')", "refused"}, {"SELECT name FROM employees WHERE name MATCH 'x'", "refused"},
	{"SELECT - -9223372036854775808", "refused"}, {"SELECT 9223372036854775807*2", "refused"}, {"SELECT 1e308*10", "refused"},
	{"SELECT sum(n + 0.0) FROM huge WHERE n > 0", "refused"}, {"SELECT 9223372036854775807 + 1.0", "refused"},
}

func TestHostile(t *testing.T) {
	path := create(t)
	dir := filepath.Dir(path)
	before := hash(t, path)
	db, err := sqlbox.Open(path, sqlbox.Options{MaxMemory: 32 << 20, MaxRows: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if len(hostile) < 60 {
		t.Fatalf("%d hostile queries, want at least 60", len(hostile))
	}
	for _, c := range hostile {
		start := time.Now()
		res, err := db.Query(t.Context(), c.sql)
		if took := time.Since(start); took > time.Second {
			t.Errorf("%.80q took %v", c.sql, took)
		}
		if err == nil {
			t.Errorf("%.80q gave %q, want an error with %q", c.sql, res.Text(), c.want)
		} else if !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%.80q: error %q, want one with %q", c.sql, err, c.want)
		}
	}
	if res, err := db.Query(t.Context(), "SELECT COUNT(*) FROM employees"); err != nil || res.Rows[0][0] != "200" {
		t.Errorf("after the hostile queries: %v, %v", res, err)
	}
	if got := hash(t, path); got != before {
		t.Error("the file has changed")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files beside the database: %v, %v", entries, err)
	}
	if _, err := os.Stat("evil.db"); err == nil {
		t.Error("evil.db was written")
	}
}

// large is a file whose queries take long enough to be stopped.
func large(t *testing.T, opt sqlbox.Options) *sqlbox.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large.db")
	err := sqlbox.Create(path, []string{"CREATE TABLE big(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)"}, func(insert sqlbox.Insert) error {
		for i := range 300_000 {
			if err := insert("big", i, strings.Repeat("x", 100), i*7919%300_007); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlbox.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// slow is a query that takes seconds on the large file: many tests of every row, and a sort.
var slow = "SELECT id FROM big WHERE " + strings.Repeat("(a <> 'y' OR a = 'z') AND ", 100) + "b <> 5 ORDER BY a, b"

// A query ends with its context, with the limit of time and with Close, whichever comes first, and says which it was.
func TestQueriesEnd(t *testing.T) {
	stop := errors.New("stopped by the user")
	for name, c := range map[string]struct {
		limit time.Duration
		want  error
		end   func(db *sqlbox.DB, cancel context.CancelCauseFunc)
	}{
		"the limit":   {50 * time.Millisecond, sqlbox.ErrTimeout, func(*sqlbox.DB, context.CancelCauseFunc) {}},
		"its context": {time.Minute, stop, func(_ *sqlbox.DB, cancel context.CancelCauseFunc) { cancel(stop) }},
		"Close":       {time.Minute, sqlbox.ErrClosed, func(db *sqlbox.DB, _ context.CancelCauseFunc) { db.Close() }},
	} {
		db := large(t, sqlbox.Options{Timeout: c.limit, Connections: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		const callers = 3 // of one connection: the others wait
		errs := make(chan error, callers)
		for range callers {
			go func() {
				_, err := db.Query(ctx, slow)
				errs <- err
			}()
		}
		time.Sleep(30 * time.Millisecond)
		start := time.Now()
		c.end(db, cancel)
		for range callers {
			if err := <-errs; !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s: the queries ended %v later", name, took)
		}
		cancel(nil)
	}
}

func TestErrorKinds(t *testing.T) {
	db := open(t, sqlbox.Options{})
	stop := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := db.Query(ctx, "SELECT name FROM employees"); !errors.Is(err, stop) {
		t.Errorf("canceled: %v", err)
	}
	for sql, want := range map[string]error{
		"DROP TABLE employees": sqlbox.ErrRefused, "SELECT random()": sqlbox.ErrRefused, "SELECT salary*2 FROM employees": sqlbox.ErrArithmetic,
	} {
		if _, err := db.Query(t.Context(), sql); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", sql, err, want)
		}
	}
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := db.Query(t.Context(), "SELECT name FROM employees"); !errors.Is(err, sqlbox.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
