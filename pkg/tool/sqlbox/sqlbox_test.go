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
	"CREATE TABLE employees(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, salary INTEGER, bonus REAL, hired TEXT, manager INTEGER)",
	"CREATE TABLE orders(employee INTEGER NOT NULL, item TEXT, amount INTEGER)",
	"CREATE TABLE odd(v)",
	"CREATE TABLE huge(n INTEGER)",
	"CREATE INDEX orders_employee ON orders(employee)",
	"CREATE VIEW paris AS SELECT id, name FROM employees WHERE city = 'Paris'",
}

func rows(insert sqlbox.Insert) error {
	cities := []any{"Paris", "Łódź", "München", nil}
	for i := range 200 {
		if err := insert("employees", i+1, fmt.Sprintf("Name %03d", i+1), cities[i%4], 1000+10*i, 0.1*float64(i), fmt.Sprintf("20%02d-03-%02d", i%25, i%28+1), i/5); err != nil {
			return err
		}
		if err := insert("orders", i+1, "item|"+fmt.Sprint(i%7), i%50); err != nil {
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

func TestQuery(t *testing.T) {
	db := open(t, sqlbox.Options{MaxRows: 3})
	for _, c := range []struct{ sql, want string }{
		{"SELECT name, salary FROM employees WHERE id = 7", "name | salary\nName 007 | 1060"},
		{"select COUNT(*) from employees", "COUNT(*)\n200"},
		{"SELECT COUNT(*) AS n FROM employees WHERE city IS NULL;", "n\n50"},
		{"SELECT SUM(salary) FROM employees -- comment; with 1+1\n", "SUM(salary)\n399000"},
		{"SELECT avg(bonus) FROM employees", "avg(bonus)\n9.95"},
		{"SELECT MIN(salary), MAX(salary) FROM employees", "MIN(salary) | MAX(salary)\n1000 | 2990"},
		{"SELECT name FROM employees WHERE salary > -5 AND hired LIKE '2003-%' ORDER BY salary DESC LIMIT 1", "name\nName 179"},
		{"SELECT name FROM employees WHERE city = 'Atlantis'", "no rows"},
		{"SELECT id FROM employees", "id\n1\n2\n3\n… more rows not shown"},
		{"SELECT e.name, o.* FROM employees AS e JOIN orders o ON o.employee = e.id WHERE e.id = 2", "name | employee | item | amount\nName 002 | 2 | 'item|1' | 1"},
		{"SELECT city, COUNT(DISTINCT name) n FROM employees GROUP BY city HAVING COUNT(*) > 10 ORDER BY COUNT(*), city LIMIT 2", "city | n\nNULL | 50\nMünchen | 50"},
		{"WITH top AS (SELECT id, name FROM employees ORDER BY salary DESC LIMIT 2) SELECT name FROM top", "name\nName 200\nName 199"},
		{"WITH RECURSIVE up(id) AS (SELECT manager FROM employees WHERE id = 7 UNION SELECT e.manager FROM employees e JOIN up ON e.id = up.id) SELECT id FROM up", "id\n1\n0"},
		{"SELECT name FROM employees WHERE salary > (SELECT AVG(salary) FROM employees) AND lower(city) = 'paris' ORDER BY id LIMIT 1", "name\nName 101"},
		{"SELECT name FROM employees e WHERE EXISTS (SELECT 1 FROM orders WHERE employee = e.id AND amount = 49) AND id IN (50, 100)", "name\nName 050\nName 100"},
		{"SELECT COUNT(*) FILTER (WHERE city = 'Paris') FROM employees", "COUNT(*) FILTER (WHERE city = 'Paris')\n50"},
		{"SELECT name FROM paris LIMIT 1", "name\nName 001"},
		{"SELECT name FROM sqlite_master WHERE type = 'view'", "name\nparis"},
		{"SELECT name FROM employees WHERE city = \"Łódź\" LIMIT 1 /* double quotes */", "name\nName 002"},
		{"SELECT (SELECT MAX(amount) FROM orders) AS m FROM employees WHERE id = 1", "m\n49"},
		{"SELECT COUNT(name) FROM (SELECT DISTINCT name FROM employees WHERE city = 'Paris')", "COUNT(name)\n50"},
	} {
		res, err := db.Query(t.Context(), c.sql)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
		} else if got := res.Text(); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.sql, got, c.want)
		}
	}
}
