package sqlbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

// What the grammar has: each form with its result.
var accepted = []struct{ sql, want string }{
	{"SELECT name, salary FROM employees WHERE id = 7", "name | salary\nName 007 | 1060"},
	{"select COUNT(*) from employees;", "COUNT(*)\n200"},
	{"SELECT COUNT(*) AS n FROM employees WHERE city IS NULL;", "n\n50"},
	{"SELECT COUNT(city) n FROM employees", "n\n150"},
	{"SELECT SUM(salary) FROM employees -- comment; with 1+1\n", "SUM(salary)\n399000"},
	{"SELECT avg(bonus) FROM employees", "AVG(bonus)\n9.95"},
	{"SELECT MAX(name) FROM employees WHERE salary < 1100", "MAX(name)\nName 010"},
	{"SELECT name FROM employees WHERE salary > -5 AND hired BETWEEN '2003-01-01' AND '2003-12-31' ORDER BY salary DESC LIMIT 1", "name\nName 179"},
	{"SELECT name FROM employees WHERE city = 'Atlantis'", "no rows"},
	{"SELECT name FROM employees WHERE city = 'Atlantis' OR NOT (id <> 3) AND 1020 = salary", "name\nName 003"},
	{"SELECT name FROM employees WHERE id IN (3, 5) AND name NOT IN ('Name 005')", "name\nName 003"},
	{"SELECT id FROM employees", "id\n1\n2\n3\n… more rows not shown"},
	{"SELECT id FROM employees LIMIT 0", "no rows"},
	{"SELECT e.name, o.* FROM employees AS e JOIN orders o ON o.employee = e.id WHERE e.id = 2", "name | employee | item | amount\nName 002 | 2 | 'item|1' | 1"},
	{"SELECT e.name FROM employees e, orders AS o WHERE e.id = o.employee AND o.amount = 7 ORDER BY e.name DESC LIMIT 2", "name\nName 158\nName 108"},
	{"SELECT SUM(o.amount) FROM orders o INNER JOIN employees e ON e.id = o.employee AND e.city = 'Paris'", "SUM(amount)\n1200"},
	{"SELECT w.name FROM employees m JOIN employees w ON w.manager = m.id WHERE m.name = 'Name 001' ORDER BY w.name", "name\nName 006\nName 007\nName 008\n… more rows not shown"},
	{"SELECT name FROM employees WHERE id = (SELECT manager FROM employees WHERE name = 'Name 044')", "name\nName 008"},
	{"SELECT COUNT(*) FROM employees WHERE salary > (SELECT AVG(salary) FROM employees)", "COUNT(*)\n100"},
	{"SELECT name FROM employees WHERE id IN (SELECT employee FROM orders WHERE amount = 49) AND salary < 2000", "name\nName 050\nName 100"},
	{"SELECT city, COUNT(*) AS n FROM employees GROUP BY city ORDER BY n DESC, city LIMIT 2", "city | n\nNULL | 50\nMünchen | 50"},
	{"SELECT city FROM employees GROUP BY city ORDER BY city DESC", "city\nŁódź\nParis\nMünchen\n… more rows not shown"},
	{"SELECT hired, MIN(salary) FROM employees GROUP BY hired ORDER BY MIN(salary) LIMIT 1", "hired | MIN(salary)\n2000-03-01 | 1000"},
	{`SELECT "name", [city] FROM "employees" WHERE "employees"."id" = 2`, "name | city\nName 002 | Łódź"},
	{"SELECT /* a comment */ main.name FROM main.employees AS main WHERE id == 2", "name\nName 002"},
	{"SELECT c, name FROM pairs JOIN employees ON c = id WHERE b = 'b3'", "c | name\n4 | Name 004"},
	{"SELECT name FROM employees WHERE name = 'it''s -- ''; DROP TABLE employees'", "no rows"},
}

func TestAccepted(t *testing.T) {
	db := open(t, sqlbox.Options{MaxRows: 3})
	for _, c := range accepted {
		res, err := db.Query(t.Context(), c.sql)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
		} else if got := res.Text(); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.sql, got, c.want)
		}
	}
}

// What it does not have: ways to calculate, to print what the query was told, to count what the query made up. Those of the first
// block are of attacks that an earlier rule, a list of what is forbidden, let through.
var refused = []struct{ sql, want string }{
	{"SELECT SUM(salary) FROM employees, (SELECT id FROM orders LIMIT 44) WHERE name = 'X'", "a subquery in FROM"},
	{`SELECT SUM(x) FROM (SELECT "113" AS x FROM orders LIMIT 44)`, "a subquery in FROM"},
	{"SELECT COUNT(*) FROM (SELECT id FROM orders LIMIT (SELECT salary FROM employees WHERE name = 'X') OFFSET 73)", "a subquery in FROM"},
	{"SELECT COUNT(*) FROM employees LIMIT (SELECT id FROM employees)", "not supported"},
	{"SELECT name FROM employees LIMIT 5 OFFSET 3", "OFFSET"}, {"SELECT name FROM employees LIMIT 3, 5", "OFFSET"},
	{`SELECT SUM(v) FROM employees JOIN orders USING(name), (SELECT "493" AS v UNION ALL SELECT "-73")`, "a subquery in FROM"},
	{"SELECT AVG(v) FROM (SELECT 1 AS v UNION ALL SELECT 0)", "a subquery in FROM"},
	{`SELECT "48", "red" FROM employees LIMIT 1`, "no such column: 48; texts stand in single quotes"},
	{"SELECT name, (SELECT COUNT(*) FROM orders b WHERE b.amount <= a.amount) FROM employees a", "a subquery as a column"},
	{"SELECT group_concat(name) FROM employees", "the function group_concat"},
	{"SELECT COUNT(*) FROM employees WHERE instr(name, 'a') > 0", "use calculator"}, {"SELECT rtrim(name, 'x') FROM employees", "the function rtrim"},
	{"SELECT name FROM employees WHERE name LIKE '%a_a_a_a_b'", "LIKE"}, {"SELECT name FROM employees WHERE name GLOB 'a*'", "GLOB"},
	{"SELECT COUNT(*) FROM employees WHERE id <= 48", "keys compare with = and IN only"}, {"SELECT COUNT(*) FROM employees WHERE id BETWEEN 10 AND 57", "keys compare"},
	{"SELECT COUNT(*) FROM employees WHERE 48 >= id", "keys compare"}, {"SELECT COUNT(*) FROM employees WHERE id > (SELECT amount FROM orders WHERE employee = 9)", "keys compare"},
	{"SELECT COUNT(*) FROM employees WHERE NOT (id > 48)", "keys compare"}, {"SELECT COUNT(*) FROM orders WHERE employee < 48", "keys compare"},
	{"SELECT COUNT(*) FROM employees WHERE rowid <= 48", "no such column: rowid"},
	{"SELECT SUM(e.salary) FROM employees e JOIN orders o ON o.employee = e.id", "repeats the rows of employees"},
	{"SELECT MAX(e.salary) FROM orders o, employees e WHERE e.id = o.employee", "repeats the rows"},
	{"SELECT COUNT(e.name) FROM orders o JOIN employees e ON o.employee = e.id", "repeats the rows"},
	{"SELECT COUNT(*) FROM employees e JOIN orders o ON o.employee = e.id JOIN orders p ON p.employee = e.id", "a join that multiplies rows"},
	{"SELECT COUNT(*) FROM employees, orders", "not joined"}, {"SELECT COUNT(*) FROM employees e CROSS JOIN orders", "CROSS"},
	{"SELECT COUNT(*) FROM employees e JOIN orders o", "not joined"}, {"SELECT COUNT(*) FROM employees e JOIN orders o ON e.salary = o.amount", "refers to the key"},
	{"SELECT COUNT(*) FROM employees e JOIN orders o ON e.id <= o.employee", "not joined"}, {"SELECT COUNT(*) FROM employees e JOIN orders o ON o.employee = e.id OR e.id = o.amount", "not joined"},
	{"SELECT COUNT(*) FROM employees a LEFT JOIN orders b ON b.employee = a.id", "LEFT"}, {"SELECT * FROM employees NATURAL JOIN orders", "NATURAL"},
	{"SELECT SUM(hired) FROM employees", "SUM of texts"}, {"SELECT SUM(id) FROM employees", "SUM of a key"}, {"SELECT AVG(manager) FROM employees", "AVG of a key"},

	{"SELECT 48", "a number as a column"}, {"SELECT 'red' FROM employees", "a text as a column"}, {"SELECT -48 FROM employees", "use calculator"}, {"SELECT NULL FROM employees", "NULL"},
	{"SELECT 6*7", "use calculator"}, {"SELECT salary * 2 FROM employees", "use calculator"}, {"SELECT salary + bonus FROM employees", "use calculator"},
	{"SELECT SUM(salary * 2) FROM employees", "use calculator"}, {"SELECT SUM(salary) / 2 FROM employees", "use calculator"}, {"SELECT salary % 7 FROM employees", "use calculator"},
	{"SELECT name || city FROM employees", "use calculator"}, {"SELECT ~salary FROM employees", "use calculator"}, {"SELECT salary << 1 FROM employees", "use calculator"},
	{"SELECT name FROM employees WHERE salary > 2 * 500", "use calculator"}, {"SELECT name FROM employees WHERE salary + 1 = 1001", "use calculator"},
	{"SELECT name FROM employees WHERE salary = (SELECT MAX(salary) FROM employees) - 10", "use calculator"}, {"SELECT name FROM employees ORDER BY salary * -1", "use calculator"},
	{"SELECT name FROM employees LIMIT 2+3", "use calculator"}, {"SELECT abs(salary) FROM employees", "use calculator"}, {"SELECT round(bonus) FROM employees", "use calculator"},
	{"SELECT COUNT(*) FROM employees WHERE (salary = 5) + 1", "not supported"},
	{"SELECT MIN(salary), MAX(salary) FROM employees", "more than one aggregate"}, {"SELECT name, MAX(salary) FROM employees", "beside an aggregate"},
	{"SELECT city, name FROM employees GROUP BY city", "beside an aggregate or GROUP BY"}, {"SELECT COUNT(*) FROM employees ORDER BY name", "ORDER BY a column"},
	{"SELECT city FROM employees GROUP BY city ORDER BY SUM(salary)", "not selected"}, {"SELECT city FROM employees GROUP BY city, name", "more than one column"},
	{"SELECT MAX(salary, bonus) FROM employees", "more than one value"}, {"SELECT COUNT(DISTINCT name) FROM employees", "DISTINCT"}, {"SELECT DISTINCT city FROM employees", "DISTINCT"},
	{"SELECT COUNT(*) FILTER (WHERE city = 'Paris') FROM employees", "FILTER"}, {"SELECT COUNT(*) OVER () FROM employees", "OVER"},
	{"SELECT city FROM employees GROUP BY city HAVING COUNT(*) > 10", "HAVING"}, {"SELECT CASE WHEN salary > 5 THEN 1 ELSE 0 END FROM employees", "CASE"},
	{"SELECT name FROM employees UNION ALL SELECT item FROM orders", "UNION"}, {"SELECT name FROM employees WHERE EXISTS (SELECT id FROM employees)", "EXISTS"},
	{"SELECT name FROM employees e WHERE id IN (SELECT employee FROM orders WHERE amount = e.salary)", "no such column"},
	{"SELECT name FROM employees e WHERE id IN (SELECT employee FROM orders WHERE e.salary = 5)", "no such column: salary"},
	{"SELECT name FROM employees WHERE id IN (SELECT * FROM orders)", "more than one column"}, {"SELECT name FROM employees WHERE (SELECT id FROM employees) = id", "on the left"},
	{"SELECT name FROM employees WHERE name = \"Name 007\"", "no such column: Name 007; texts stand in single quotes"}, {"SELECT name FROM employees WHERE salary = bonus", "two columns of one table"},
	{"SELECT name FROM employees WHERE salary = 0x10", "write it as"}, {"SELECT name FROM employees WHERE salary = 1e3", "write it as"}, {"SELECT name FROM employees WHERE name = x'00'", "not supported"},
	{"SELECT name FROM employees WHERE name = NULL", "IS NULL"}, {"SELECT name FROM employees WHERE 1 = 1", "a column"}, {"SELECT name FROM employees WHERE name", "a comparison"},
	{"SELECT name COLLATE nocase FROM employees", "COLLATE"}, {"SELECT CAST(name AS INTEGER) FROM employees", "CAST"}, {"VALUES (1)", "only one SELECT"},
	{"WITH x AS (SELECT name FROM employees) SELECT name FROM x", "only one SELECT"}, {"SELECT name FROM sqlite_master", "no such table"}, {"SELECT name FROM nowhere", "no such table"},
	{"SELECT nothing FROM employees", "no such column"}, {"SELECT id FROM employees e, employees e", "two tables are called e"}, {"SELECT id FROM employees a, employees b WHERE a.manager = b.id", "ambiguous"},
	{"SELECT o.* FROM employees", "no such table: o"}, {"SELECT name FROM other.employees", "one database"},
	{"SELECT name FROM employees WHERE " + strings.Repeat("(", 300) + "id = 1" + strings.Repeat(")", 300), "nested"},
	{"SELECT name FROM employees WHERE " + strings.Repeat("NOT ", 300) + "id = 1", "nested"},
	{"SELECT name" + strings.Repeat(", name", 40) + " FROM employees", "more than 32 columns"}, {"SELECT a.name FROM employees a" + strings.Repeat(", employees", 9), "tables"},
}

func TestRefused(t *testing.T) {
	db := open(t, sqlbox.Options{})
	for _, c := range refused {
		res, err := db.Query(t.Context(), c.sql)
		switch {
		case err == nil:
			t.Errorf("%.120s gave %q, want it refused with %q", c.sql, res.Text(), c.want)
		case !errors.Is(err, sqlbox.ErrRefused) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 160:
			t.Errorf("%.120s: %v, want it refused with %q", c.sql, err, c.want)
		case errors.Is(err, sqlbox.ErrArithmetic) != strings.Contains(err.Error(), "use calculator"):
			t.Errorf("%.120s: %v is ErrArithmetic: %v", c.sql, err, errors.Is(err, sqlbox.ErrArithmetic))
		}
	}
}

// Where each cell is from: rows of the table, the equal cells of a join, the rows behind an aggregate.
func TestSources(t *testing.T) {
	db := open(t, sqlbox.Options{})
	sum := source(t, db, "SELECT SUM(salary) FROM employees WHERE city = 'Paris'")
	count := source(t, db, "SELECT COUNT(*) FROM employees WHERE city = 'Paris'")
	for _, c := range []struct{ sql, want string }{
		{"SELECT name, salary FROM employees WHERE id = 7", "employees.name@7 employees.salary@7"},
		{"SELECT salary FROM employees WHERE name = 'Name 007'", "employees.salary@7"},
		{"SELECT name FROM employees WHERE id = (SELECT employee FROM orders WHERE amount = 7 LIMIT 1)", "employees.name@8"},
		// Rows that are looked for by their value show nothing that was not told.
		{"SELECT name FROM employees WHERE name = 'Name 007'", ""}, {"SELECT salary FROM employees WHERE salary IN (1060, 1070)", ""},
		{"SELECT salary FROM employees WHERE salary >= 1060 AND NOT salary > 1060", ""}, {"SELECT salary FROM employees WHERE name = 'x' OR salary BETWEEN 1060 AND 1060", ""},
		{"SELECT MAX(salary) FROM employees WHERE salary = 1060", ""}, {"SELECT salary FROM employees WHERE salary = 1060 GROUP BY salary", ""},
		{"SELECT e.id FROM orders o JOIN employees e ON o.employee = e.id WHERE o.employee = 50", ""},
		{"SELECT salary FROM employees WHERE salary = (SELECT MAX(salary) FROM employees WHERE salary = 1060)", ""},
		{"SELECT amount FROM orders WHERE employee = 9", "orders.amount@9"},
		{"SELECT c FROM pairs WHERE b = 'b3'", "pairs.c@1,b3"},
		{"SELECT e.id FROM orders o JOIN employees e ON o.employee = e.id WHERE o.amount = 49 LIMIT 1", "employees.id@50 orders.employee@50"},
		{"SELECT MAX(salary) FROM employees WHERE id = 7", "employees.salary@7"},
		{"SELECT SUM(salary) FROM employees WHERE id IN (7, 1000)", "employees.salary@7"},
		{"SELECT AVG(salary) FROM employees WHERE name = 'Name 007'", "employees.salary@7"},
		{"SELECT city FROM employees WHERE id = 4", ""}, // NULL
		{"SELECT SUM(salary) FROM employees WHERE id = 1000", ""},
		{"SELECT SUM(salary) FROM employees WHERE NOT city <> 'Paris'", sum},
		{"SELECT COUNT(salary) FROM employees e WHERE 'Paris' = e.city", count},
	} {
		if got := source(t, db, c.sql); got != c.want {
			t.Errorf("%s: from %s, want %s", c.sql, got, c.want)
		}
	}
	if !strings.HasPrefix(sum, "SUM(employees.salary)#") || !strings.HasPrefix(count, "COUNT(employees)#") || strings.Contains(sum+count, " ") {
		t.Errorf("sum from %s, count from %s", sum, count)
	}
	for _, other := range []string{"SELECT SUM(salary) FROM employees WHERE city = 'München'", "SELECT SUM(salary) FROM employees", "SELECT AVG(salary) FROM employees WHERE city = 'Paris'"} {
		if got := source(t, db, other); got == sum || got == "" {
			t.Errorf("%s: from %s, as another sum", other, got)
		}
	}
	if got := source(t, db, "SELECT MIN(salary) FROM employees WHERE city = 'Paris'"); !strings.HasSuffix(got, " employees.salary@1") {
		t.Errorf("a minimum is from %s, want also its cell", got)
	}
	if got := source(t, db, "SELECT city, MAX(salary) FROM employees WHERE id IN (1, 5, 2) GROUP BY city ORDER BY MAX(salary)"); !strings.HasPrefix(got, "employees.city@2 employees.salary@2 employees.city@1 employees.city@5 MAX(employees.salary)#") || !strings.HasSuffix(got, " employees.salary@5") {
		t.Errorf("groups are from %s", got)
	}
}

// source joins the sources of a result's cells.
func source(t *testing.T, db *sqlbox.DB, sql string) string {
	t.Helper()
	res, err := db.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var all []string
	for _, row := range res.Sources {
		for _, cell := range row {
			all = append(all, cell...)
		}
	}
	return strings.Join(all, " ")
}

// The parts of an observation are its cells, with a header or without one; headers and marks are no part.
func TestPartsOfAnObservation(t *testing.T) {
	db := open(t, sqlbox.Options{MaxRows: 2})
	res, err := db.Query(t.Context(), "SELECT name AS salary, city FROM employees WHERE id IN (4, 3, 5)")
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[bool]string{true: "salary | city\nName 003 | München\nName 004 | NULL\n… more rows not shown", false: "Name 003 | München\nName 004 | NULL\n… more rows not shown"} {
		obs := res.Observation(header)
		var parts []string
		for _, r := range obs.Reads {
			p, ok := r.Part(obs.Text)
			if !ok {
				t.Fatalf("%v lies outside of %q", r, obs.Text)
			}
			parts = append(parts, p+"="+strings.Join(r.From, ","))
		}
		if got := strings.Join(parts, "; "); obs.Text != want || got != "Name 003=employees.name@3; München=employees.city@3; Name 004=employees.name@4" {
			t.Errorf("%q has the parts %s", obs.Text, got)
		}
	}
}

// cells maps the place of every cell of the file to what a query shows of it.
func cells(t testing.TB, db *sqlbox.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range db.Tables() {
		res, err := db.Query(context.Background(), "SELECT * FROM "+table.Name)
		if err != nil || res.Truncated {
			t.Fatalf("%s: %v, truncated %v", table.Name, err, res.Truncated)
		}
		for i, row := range res.Rows {
			for k, s := range res.Sources[i] {
				for _, place := range s {
					if !strings.HasPrefix(place, fmt.Sprintf("%s.%s@", table.Name, table.Columns[k])) {
						t.Fatalf("%s of %s", place, table.Name)
					}
					out[place] = row[k]
				}
			}
		}
	}
	return out
}

// Whatever is written, the file stays as it is, an error is short, and what is shown is in the file: every cell of a result that is
// no aggregate has what stands at the places named for it. A query written anew from its parsed form gives the same.
func FuzzQuery(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.sql)
	}
	for _, c := range accepted {
		f.Add(c.sql)
	}
	for _, c := range refused {
		f.Add(c.sql)
	}
	path := create(f)
	stat, err := os.Stat(path)
	if err != nil {
		f.Fatal(err)
	}
	all, err := sqlbox.Open(path, sqlbox.Options{MaxRows: 1000, MaxBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	stored := cells(f, all)
	if err := all.Close(); err != nil {
		f.Fatal(err)
	}
	db, err := sqlbox.Open(path, sqlbox.Options{Timeout: 5e9, MaxRows: 5, MaxMemory: 32 << 20})
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	f.Fuzz(func(t *testing.T, sql string) {
		res, err := db.Query(context.Background(), sql)
		if fi, serr := os.Stat(path); serr != nil || fi.Size() != stat.Size() || fi.ModTime() != stat.ModTime() {
			t.Fatalf("the file has changed: %v", serr)
		}
		normal, perr := db.Normal(sql)
		if err != nil {
			if len(err.Error()) > 400 || err.Error() == "" || errors.Is(err, sqlbox.ErrTimeout) || errors.Is(err, sqlbox.ErrMemory) {
				t.Errorf("error of %d bytes: %v", len(err.Error()), err)
			}
			return
		}
		if perr != nil {
			t.Fatalf("runs, but is not parsed: %v", perr)
		}
		again, err := db.Query(context.Background(), normal)
		if len(normal) < 4000 && (err != nil || fmt.Sprint(again) != fmt.Sprint(res)) {
			t.Errorf("written anew as %s it gives %v, %v; want %v", normal, again, err, res)
		}
		if twice, err := db.Normal(normal); len(normal) < 4000 && (err != nil || twice != normal) {
			t.Errorf("%s is written anew as %s, %v", normal, twice, err)
		}
		if len(res.Text()) > 20_000 {
			t.Errorf("observation of %d bytes", len(res.Text()))
		}
		for i, row := range res.Rows {
			for k, cell := range row {
				for _, place := range res.Sources[i][k] {
					if v, ok := stored[place]; !strings.Contains(place, "#") && (!ok || v != cell) {
						t.Errorf("%s shows %s, said to be %s, where %s stands", sql, cell, place, v)
					}
				}
				if len(res.Sources[i][k]) == 0 && cell != "NULL" && !strings.Contains(normal, " WHERE ") {
					t.Errorf("%s shows %s, from nowhere", sql, cell)
				}
			}
		}
	})
}
