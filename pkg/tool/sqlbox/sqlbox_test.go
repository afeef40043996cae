package sqlbox_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

var schema = []string{
	"CREATE TABLE employees(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, salary INTEGER, bonus REAL, hired TEXT, manager INTEGER REFERENCES employees(id))",
	"CREATE TABLE orders(employee INTEGER NOT NULL REFERENCES employees(id), item TEXT, amount INTEGER)",
	"CREATE TABLE pairs(a INTEGER, b TEXT UNIQUE, c INTEGER REFERENCES employees, PRIMARY KEY(a, b)) WITHOUT ROWID",
	"CREATE TABLE odd(v)",
	"CREATE TABLE huge(n INTEGER)",
	"CREATE INDEX orders_employee ON orders(employee)",
	"CREATE VIEW paris AS SELECT id, name FROM employees WHERE city = 'Paris'",
}

func manager(i int) any {
	if i < 5 {
		return nil
	}
	return i / 5
}

func rows(insert sqlbox.Insert) error {
	cities := []any{"Paris", "Łódź", "München", nil}
	for i := range 200 {
		if err := insert("employees", i+1, fmt.Sprintf("Name %03d", i+1), cities[i%4], 1000+10*i, 0.1*float64(i), fmt.Sprintf("20%02d-03-%02d", i%25, i%28+1), manager(i)); err != nil {
			return err
		}
		if err := insert("orders", i+1, "item|"+fmt.Sprint(i%7), i%50); err != nil {
			return err
		}
	}
	for i := range 10 {
		if err := insert("pairs", i/2, fmt.Sprint("b", i), i+1); err != nil {
			return err
		}
	}
	for _, v := range []any{nil, "NULL", "", []byte{0, 255}, []byte{}, "x'00ff'", " padded ", "a\nb", "it's", 42, "42", 1.5, strings.Repeat("é", 100_000)} {
		if err := insert("odd", v); err != nil {
			return err
		}
	}
	for _, n := range []int64{1<<63 - 1, 1<<63 - 1, -1 << 63} {
		if err := insert("huge", n); err != nil {
			return err
		}
	}
	return nil
}

func create(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world ?#%20.db")
	if err := sqlbox.Create(path, schema, rows); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, opt sqlbox.Options) *sqlbox.DB {
	t.Helper()
	db, err := sqlbox.Open(create(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func hash(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}
