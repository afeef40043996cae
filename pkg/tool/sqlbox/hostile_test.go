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

// hostile queries: each must end in an error that holds the text, with arithmetic allowed (so that the sandbox is tested,
// not the rule before it).
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
	{"WITH x AS (SELECT 1) DELETE FROM employees RETURNING *", "refused"},
	{"WITH x AS (SELECT 1) INSERT INTO orders SELECT 1,'a',2 FROM x", "refused"},
	{"WITH x AS (SELECT 1) UPDATE employees SET salary = 0", "refused"},
	{"CREATE TABLE t(a)", "only one SELECT"}, {"CREATE TEMP TABLE t AS SELECT 1", "only one SELECT"}, {"DROP TABLE employees", "only one SELECT"},
	{"ALTER TABLE employees RENAME TO e", "only one SELECT"}, {"VACUUM INTO 'evil.db'", "only one SELECT"}, {"REINDEX", "only one SELECT"},
	{"ANALYZE", "only one SELECT"}, {"BEGIN EXCLUSIVE", "only one SELECT"}, {"COMMIT", "only one SELECT"}, {"SAVEPOINT a", "only one SELECT"},
	{"EXPLAIN SELECT 1", "only one SELECT"}, {"EXPLAIN QUERY PLAN SELECT 1", "only one SELECT"},
	{"SELECT 1; DROP TABLE employees; --", "more than one"}, {"SELECT 1;SELECT 2", "more than one"}, {"SELECT ';' ; SELECT 2", "more than one"},
	{"SELECT 1 /* ; */ ; /* */ -- \n x", "more than one"}, {"SELECT 'a;\nSELECT 2", "unclosed quote"}, {`SELECT "a`, "unclosed quote"},
	{"SELECT [a", "unclosed quote"}, {"SELECT x'0", "unclosed quote"}, {"SELECT x'0'", "SQL error"}, {"SELECT 1\x00; DROP TABLE employees", "plain UTF-8"},
	{"SELECT '\xff\xfe'", "plain UTF-8"}, {"SELECT ?", "parameters"}, {"SELECT :a, @b, $c", "parameters"}, {"SELECT \\ 1", "unknown character"},
	{deep + "SELECT count(*) FROM c", "too long"}, {deep + "SELECT x FROM c WHERE x > 1", "too long"},
	{"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT max(x) FROM c", "too long"},
	{"WITH RECURSIVE c(x) AS (SELECT 'ab' UNION ALL SELECT x||x FROM c) SELECT length(max(x)) FROM c", "too"},
	{"SELECT count(*) FROM employees a, employees b, employees c, employees d, employees e", "too long"},
	{"SELECT a.name FROM employees a, employees b, employees c, employees d ORDER BY b.bonus, c.name, d.name", "too"},
	{"SELECT DISTINCT a.name||b.name||c.name||d.name FROM employees a, employees b, employees c, employees d ORDER BY 1", "too"},
	{"SELECT group_concat(a.name) FROM employees a, employees b, employees c, employees d", "too"},
	{"SELECT zeroblob(1000000000)", "refused"}, {"SELECT randomblob(1000000000)", "refused"}, {"SELECT printf('%1000000000d', 1)", "refused"},
	{"SELECT format('%1000000000d', 1)", "refused"}, {"SELECT hex(zeroblob(100))", "refused"}, {"SELECT char(0)", "refused"},
	{"SELECT length(replace(replace(replace(v, 'é', 'éééééééééé'), 'é', 'éééééééééé'), 'é', 'éééééééééé')) FROM odd WHERE length(v) > 1000", "too"},
	{"SELECT random()", "refused"}, {"SELECT name FROM employees ORDER BY random()", "refused"}, {"SELECT datetime('now')", "clock"},
	{"SELECT date()", "clock"}, {"SELECT strftime('%s','now')", "clock"}, {"SELECT CURRENT_TIMESTAMP", "clock"}, {"SELECT current_date", "clock"},
	{"SELECT \"datetime\"('now')", "refused"}, {"SELECT [julianday]('now')", "refused"}, {"SELECT unixepoch()", "clock"},
	{"SELECT sqlite_version()", "refused"}, {"SELECT last_insert_rowid()", "refused"}, {"SELECT changes()", "refused"}, {"SELECT total(n) FROM huge", "refused"},
	{"SELECT readfile('/etc/passwd')", "no such function"}, {"SELECT writefile('evil.txt', 'x')", "no such function"}, {"SELECT fts5(1)", "no such function"},
	{"SELECT * FROM json_each('[1,2]')", "refused"}, {"SELECT * FROM generate_series(1,1000000000)", "no such table"}, {"SELECT * FROM sqlite_dbpage", "no such table"},
	{"SELECT * FROM sqlite_temp_master", "refused"}, {"SELECT * FROM nowhere", "no such table"}, {"SELECT nonsense FROM employees", "no such column"},
	{"SELECT 9223372036854775807 + 1", "integer overflow"}, {"SELECT 9223372036854775808", "integer overflow"}, {"SELECT sum(n) FROM huge WHERE n > 0", "integer overflow"},
	{"SELECT abs(min(n)) FROM huge", "integer overflow"}, {"SELECT 9e999", "integer overflow"}, {"SELECT -9e999", "integer overflow"},
	{"SELECT 9223372036854775807 * 9223372036854775807", "integer overflow"},
	{"SELECT " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000), ""},
	{"SELECT 1" + strings.Repeat("+1", 1000), "SQL error"}, {"SELECT 1" + strings.Repeat(",1", 1000), "SQL error"},
	{"SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 100), "SQL error"},
	{"SELECT " + strings.Repeat("9", 5000), "bytes"}, {strings.Repeat("SELECT 1 ", 20_000), "bytes"},
	{"SELECT name FROM employees WHERE name LIKE '" + strings.Repeat("%a", 200) + "'", "LIKE"},
	{"SELECT", "SQL error"}, {"SELECT FROM", "SQL error"}, {"WITH", "SQL error"}, {"WITH x AS", "SQL error"}, {"select * from (select", "SQL error"},
	{"SELEC name FROM employees", "only one SELECT"}, {"🙂", "only one SELECT"}, {"SELECT 🙂", "no such column"}, {"null", "only one SELECT"},
	{"SELECT name FROM employees; ;SELECT 1", "more than one"}, {"SELECT * FROM employees, employees", "ambiguous"},
	{"WITH x AS (DELETE FROM employees RETURNING *) SELECT * FROM x", "SQL error"}, {"SELECT * FROM (DELETE FROM employees RETURNING id)", "SQL error"},
	{"SELECT 1\x0b;\x0cDELETE FROM employees", "unknown character"}, {"SELECT 1;\u00a0ATTACH 'evil.db' AS e", "more than one"},
	{"\uFEFFATTACH 'evil.db' AS e", "only one SELECT"}, {"\u200bDELETE FROM employees", "only one SELECT"}, {"((DELETE FROM employees))", "only one SELECT"},
	{"SELECT [load_extension]('x')", "refused"}, {"SELECT `load_extension`('x')", "refused"}, {"SELECT load_extension/**/('x')", "refused"},
	{"SELECT * FROM Pragma_Table_Info('employees')", "refused"}, {"SELECT * FROM main.pragma_user_version", "refused"},
	{"WITH x AS (SELECT 1) REPLACE INTO orders SELECT 1,'a',2", "refused"}, {"INSERT OR REPLACE INTO employees DEFAULT VALUES", "only one SELECT"},
	{"SELECT edit('x')", "no such function"}, {"SELECT fts3_tokenizer('x')", "refused"}, {"SELECT name FROM employees WHERE name MATCH 'x'", "refused"},
	{"SELECT - -9223372036854775808", "integer overflow"}, {"SELECT 9223372036854775807*2", "integer overflow"}, {"SELECT 1e308*10", "integer overflow"},
	{"SELECT sum(n + 0.0) FROM huge WHERE n > 0", "integer overflow"}, {"SELECT 9223372036854775807 + 1.0", "integer overflow"},
}

func TestHostile(t *testing.T) {
	path := create(t)
	dir := filepath.Dir(path)
	before := hash(t, path)
	db, err := sqlbox.Open(path, sqlbox.Options{AllowArithmetic: true, Timeout: 150 * time.Millisecond, MaxMemory: 32 << 20, MaxRows: 5})
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
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%.80q took %v", c.sql, took)
		}
		switch {
		case err == nil && c.want != "":
			t.Errorf("%.80q gave %q, want an error with %q", c.sql, res.Text(), c.want)
		case err != nil && (!strings.Contains(err.Error(), c.want) || len(err.Error()) > 300):
			t.Errorf("%.80q: error %q, want one with %q", c.sql, err, c.want)
		case err == nil && len(res.Text()) > 9000:
			t.Errorf("%.80q: observation of %d bytes", c.sql, len(res.Text()))
		}
		if c.want == "" || c.want == "too" {
			t.Logf("%.80q: %v, %v", c.sql, res, err)
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

func TestErrorKinds(t *testing.T) {
	db := open(t, sqlbox.Options{Timeout: 50 * time.Millisecond, MaxMemory: 32 << 20})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by the test")
	cancel(stop)
	if _, err := db.Query(ctx, "SELECT name FROM employees"); !errors.Is(err, stop) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := db.Query(t.Context(), "SELECT a.id FROM employees a, employees b, employees c, employees d, employees e WHERE a.id = -1 AND e.id < d.id"); err != nil {
		t.Errorf("a query that the index ends at once: %v", err)
	}
	for sql, want := range map[string]error{
		"DROP TABLE employees": sqlbox.ErrRefused, "SELECT random()": sqlbox.ErrRefused, "SELECT salary*2 FROM employees": sqlbox.ErrArithmetic,
		"SELECT COUNT(*) FROM employees a, employees b, employees c, employees d": sqlbox.ErrTimeout,
	} {
		if _, err := db.Query(t.Context(), sql); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", sql, err, want)
		}
	}
	db.Close()
	if _, err := db.Query(t.Context(), "SELECT name FROM employees"); !errors.Is(err, sqlbox.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func FuzzQuery(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.sql)
	}
	for _, c := range arithmeticCases {
		f.Add(c.sql)
	}
	path := create(f)
	before := hash(f, path)
	var dbs []*sqlbox.DB
	for _, allow := range []bool{false, true} {
		db, err := sqlbox.Open(path, sqlbox.Options{AllowArithmetic: allow, Timeout: 20 * time.Millisecond, MaxMemory: 32 << 20, MaxRows: 5})
		if err != nil {
			f.Fatal(err)
		}
		defer db.Close()
		dbs = append(dbs, db)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		for _, db := range dbs {
			res, err := db.Query(context.Background(), sql)
			if err != nil && (len(err.Error()) > 400 || err.Error() == "") {
				t.Errorf("error of %d bytes: %v", len(err.Error()), err)
			}
			if err == nil && len(res.Text()) > 20_000 {
				t.Errorf("observation of %d bytes", len(res.Text()))
			}
		}
		if hash(t, path) != before {
			t.Fatal("the file has changed")
		}
	})
}
