package sqlbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

// NULL, the text NULL, the empty text, blobs and texts that read like them are all shown apart.
func TestEveryKindOfValueIsDistinct(t *testing.T) {
	db := open(t, sqlbox.Options{MaxCellBytes: 80})
	res, err := db.Query(t.Context(), "SELECT v FROM odd")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"NULL", "'NULL'", "''", "x'00ff'", "x''", "'x''00ff'''", "' padded '", `'a\nb'`, "it's", "42", "42", "1.5"}
	for i, w := range want {
		if got := res.Rows[i][0]; got != w {
			t.Errorf("row %d: %s, want %s", i, got, w)
		}
	}
	if last := res.Rows[len(want)][0]; len(last) > 80 || !strings.HasSuffix(last, "[cut: 200000 bytes in all]") {
		t.Errorf("long text: %d bytes: %s", len(last), last)
	}
}

// A text of a mebibyte is shown cut.
func TestLongText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.db")
	err := sqlbox.Create(path, []string{"CREATE TABLE notes(body TEXT)"}, func(insert sqlbox.Insert) error {
		return insert("notes", strings.Repeat("a", 1<<20))
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlbox.Open(path, sqlbox.Options{MaxCellBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	res, err := db.Query(t.Context(), "SELECT body FROM notes")
	if err != nil || len(res.Rows) != 1 || len(res.Rows[0][0]) > 100 || !strings.Contains(res.Rows[0][0], "[cut: 1048576 bytes in all]") {
		t.Errorf("%.200v, %v", res, err)
	}
}

func BenchmarkQuery(b *testing.B) {
	db := open(b, sqlbox.Options{})
	for b.Loop() {
		if _, err := db.Query(context.Background(), "SELECT SUM(salary) FROM employees WHERE city = 'Paris'"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCaps(t *testing.T) {
	db := open(t, sqlbox.Options{MaxRows: 1000, MaxBytes: 100})
	res, err := db.Query(t.Context(), "SELECT name FROM employees")
	if err != nil || !res.Truncated || len(res.Rows) != 12 { // 12 names of 8 bytes are 96
		t.Errorf("%d rows, truncated %v, %v; want 12 rows, truncated", len(res.Rows), res.Truncated, err)
	}
	if _, err := db.Query(t.Context(), "SELECT v, v, v FROM odd WHERE v >= 'éé' AND v < 'éê'"); err == nil || !strings.Contains(err.Error(), "fewer columns") {
		t.Errorf("a row beyond the cap: %v", err)
	}
}

func TestReals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	values := []float64{0.1 + 0.2, 300, -0.5, 1e15, 123456789012345678, 1e-7, 2.5e18, math.Copysign(0, -1), 3074457345618259968, -1.7e18 / 3}
	want := []string{"0.3", "300", "-0.5", "1000000000000000", "123456789012346000", "1e-07", "2500000000000000000", "0", "3074457345618260000", "-566666666666667000"}
	err := sqlbox.Create(path, []string{"CREATE TABLE r(v REAL)"}, func(insert sqlbox.Insert) error {
		for _, v := range values {
			if err := insert("r", v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlbox.Open(path, sqlbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	res, err := db.Query(t.Context(), "SELECT v FROM r")
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if res.Rows[i][0] != want[i] {
			t.Errorf("%v is shown as %s, want %s", values[i], res.Rows[i][0], want[i])
		}
	}
}

func TestCreateIsByteIdentical(t *testing.T) {
	a, b := create(t), create(t)
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(x) == 0 || !bytes.Equal(x, y) {
		t.Error("two files of the same content differ")
	}
	// And it replaces a file that is there.
	if err := sqlbox.Create(a, schema[:2], func(sqlbox.Insert) error { return nil }); err != nil || hash(t, a) == hash(t, b) {
		t.Errorf("not replaced: %v", err)
	}
}

func TestCreateErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	insert := func(table string, values ...any) func(sqlbox.Insert) error {
		return func(in sqlbox.Insert) error { return in(table, values...) }
	}
	for _, c := range []struct {
		schema string
		rows   func(sqlbox.Insert) error
		want   string
	}{
		{"CREATE TABLE t(a", insert("t", 1), "CREATE TABLE t(a"},
		{"CREATE TABLE t(a DATE)", insert("t", 1), "column a is declared DATE"},
		{"CREATE TABLE t(a)", insert("u", 1), "table u: is not in the schema"},
		{"CREATE TABLE t(a, b)", insert("t", 1), "1 values for 2 columns"},
		{"CREATE TABLE t(a)", insert("t", time.Now()), "column a: a value of type time.Time"},
		{"CREATE TABLE t(a)", insert("t", math.NaN()), "column a: NaN"},
		{"CREATE TABLE t(a)", insert("t", "\xff"), "column a: the text is not valid UTF-8"},
		{"CREATE TABLE t(id INTEGER PRIMARY KEY)", insert("t", nil), "column id: the key must be given"},
		{"CREATE TABLE t(a NOT NULL)", insert("t", nil), "NOT NULL constraint failed: t.a"},
		{"CREATE TABLE t(a)", func(sqlbox.Insert) error { return errors.New("no more rows") }, "no more rows"},
	} {
		err := sqlbox.Create(path, []string{c.schema}, c.rows)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.schema, err, c.want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestKeysOfEveryKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.db")
	err := sqlbox.Create(path, []string{
		"CREATE TABLE plain(a TEXT)", "CREATE TABLE keyed(a TEXT, id INTEGER PRIMARY KEY)",
		"CREATE TABLE text_key(k TEXT PRIMARY KEY, v INTEGER)", "CREATE TABLE pair(a INTEGER, b INTEGER, PRIMARY KEY(a, b)) WITHOUT ROWID",
	}, func(insert sqlbox.Insert) error {
		return errors.Join(insert("plain", "x"), insert("plain", "y"), insert("keyed", "x", 70), insert("text_key", "k", true), insert("pair", 1, 2))
	})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlbox.Open(path, sqlbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for sql, want := range map[string]string{
		"SELECT a FROM plain": "a\nx\ny", "SELECT id FROM keyed": "id\n70", "SELECT * FROM pair": "a | b\n1 | 2", "SELECT v FROM text_key": "v\n1",
	} {
		if res, err := db.Query(t.Context(), sql); err != nil || res.Text() != want {
			t.Errorf("%s: %q, %v; want %q", sql, res.Text(), err, want)
		}
	}
	if got := fmt.Sprint(db.Tables()); got != "[{keyed [a id]} {pair [a b]} {plain [a]} {text_key [k v]}]" {
		t.Errorf("tables: %s", got)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.db"): "no such file", dir: "is a directory", text: "not a database",
	} {
		if _, err := sqlbox.Open(path, sqlbox.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %s: %v, want an error with %q", path, err, want)
		}
	}
	if _, err := sqlbox.Open(create(t), sqlbox.Options{MaxRows: -1}); err == nil || !strings.Contains(err.Error(), "MaxRows") {
		t.Errorf("MaxRows -1: %v", err)
	}
}

// Two thousand callers at once get the answers that one gets; the context of one ends that one alone.
func TestManyCallers(t *testing.T) {
	db := open(t, sqlbox.Options{MaxMemory: 32 << 20, Connections: 4, Timeout: time.Minute})
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			id := i%200 + 1
			want := fmt.Sprintf("Name %03d", id)
			res, err := db.Query(context.Background(), fmt.Sprintf("SELECT name FROM employees WHERE id = %d", id))
			if err != nil || res.Rows[0][0] != want {
				t.Errorf("id %d: %v, %v", id, res, err)
			}
		})
	}
	wg.Wait()
}

func TestTool(t *testing.T) {
	db := open(t, sqlbox.Options{})
	box, err := tool.NewBox([]tool.Tool{sqlbox.NewTool(db, "sql_query", "the company database", tool.Price{Base: price.Unit})})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	got, err := box.Call(t.Context(), "sql_query", map[string]any{"query": "SELECT salary FROM employees WHERE id = 3"})
	if err != nil || got.Text != "salary\n1020" || len(got.Reads) != 1 || got.Reads[0].From[0] != "employees.salary@3" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := box.Call(t.Context(), "sql_query", map[string]any{"query": ""}); !errors.Is(err, sqlbox.ErrRefused) {
		t.Errorf("empty query: %v", err)
	}
}

// A query that meets the memory limit says so, and others go on.
func TestMemoryLimit(t *testing.T) {
	db := large(t, sqlbox.Options{MaxMemory: 8 << 20, Timeout: time.Minute})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			sql, want := "SELECT b FROM big WHERE id = 1", error(nil)
			if i == 0 {
				sql, want = "SELECT id FROM big ORDER BY a, b", sqlbox.ErrMemory
			}
			if _, err := db.Query(t.Context(), sql); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", sql, err, want)
			}
		})
	}
	wg.Wait()
}
