package sqlbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

// The rule on arithmetic: what is refused, and its near neighbours that are not.
var arithmeticCases = []struct {
	sql     string
	refused bool
}{
	{"SELECT salary*2 FROM employees", true},
	{"SELECT salary * bonus FROM employees", true},
	{"SELECT salary+1 FROM employees", true},
	{"SELECT salary -1 FROM employees", true},
	{"SELECT 1+1", true},
	{"SELECT 1", true},
	{"SELECT 'a' || 'b'", true},
	{"SELECT name || city FROM employees", true},
	{"SELECT SUM(salary)*2 FROM employees", true},
	{"SELECT SUM(salary)/COUNT(*) FROM employees", true},
	{"SELECT SUM(salary) - SUM(bonus) FROM employees", true},
	{"SELECT SUM(salary*2) FROM employees", true},
	{"SELECT SUM(5) FROM employees", true},
	{"SELECT SUM(\"5\") FROM employees", true},
	{"SELECT SUM('5') FROM employees", true},
	{"SELECT SUM(salary)/**/*/**/2 FROM employees", true},
	{"SELECT SUM(salary)--\n+--\n2 FROM employees", true},
	{"SELECT salary % 7 FROM employees", true},
	{"SELECT salary << 1 FROM employees", true},
	{"SELECT salary & 1 FROM employees", true},
	{"SELECT ~salary FROM employees", true},
	{"SELECT -salary FROM employees", true},
	{"SELECT round(salary) FROM employees", true},
	{"SELECT abs(salary) FROM employees", true},
	{"SELECT \"round\"(salary, 1) FROM employees", true},
	{"SELECT max(salary, bonus) FROM employees", true},
	{"SELECT length(name) FROM employees", true},
	{"SELECT count(length(name)) FROM employees", true},
	{"SELECT CASE WHEN salary > 1 THEN 1 ELSE 0 END FROM employees", true},
	{"SELECT SUM(CASE WHEN city='Paris' THEN salary END) FROM employees", true},
	{"SELECT CAST(salary AS TEXT) FROM employees", true},
	{"SELECT salary > 100 FROM employees", true},
	{"SELECT SUM(salary) OVER (ORDER BY id) FROM employees", true},
	{"SELECT SUM(salary) OVER w FROM employees WINDOW w AS (ORDER BY id)", true},
	{"VALUES (1)", true},
	{"SELECT name FROM employees WHERE salary + 1 > 5", true},
	{"SELECT name FROM employees WHERE salary > 2 * 3", true},
	{"SELECT name FROM employees ORDER BY salary / bonus", true},
	{"SELECT name FROM employees ORDER BY abs(salary)", true},
	{"SELECT name FROM employees LIMIT 1+1", true},
	{"SELECT name FROM employees WHERE id IN (1, 2+3)", true},
	{"SELECT name FROM employees WHERE (\"abs\"(salary) > 3)", true},
	{"SELECT SUM(x) FROM (SELECT 3 AS x UNION ALL SELECT 4)", true},
	{"SELECT SUM(x) FROM (SELECT salary AS x FROM employees UNION ALL SELECT amount FROM orders)", true},
	{"SELECT SUM(x) FROM (SELECT SUM(salary) AS x FROM employees GROUP BY city)", true},
	{"WITH a AS (SELECT SUM(salary) AS x FROM employees) SELECT AVG(x) FROM a", true},
	{"WITH a AS (SELECT salary AS x FROM employees UNION ALL SELECT 7) SELECT MAX(x) FROM a", true},
	{"SELECT (SELECT SUM(x) FROM (SELECT SUM(salary) AS x FROM employees)) FROM orders", true},
	{"SELECT x FROM (SELECT SUM(v) AS x FROM (SELECT salary AS v FROM employees UNION ALL SELECT bonus FROM employees))", true},
	{"SELECT SUM(x) FROM (VALUES (3), (4))", true},
	{"SELECT (3) FROM employees", true},
	{"SELECT NULL FROM employees", true},
	{"SELECT name AS n, 5 AS five FROM employees", true},
	{"SELECT salary FROM employees UNION SELECT 1+2", true},
	{"SELECT u" + strings.Repeat("n", 1600) + "()", true},
	{"SELECT name FROM employees WHERE u" + strings.Repeat("n", 1600) + "(id) = 1", true},

	{"SELECT * FROM employees", false},
	{"SELECT employees.* FROM employees", false},
	{"SELECT DISTINCT * FROM employees", false},
	{"SELECT COUNT(*) FROM employees", false},
	{"SELECT COUNT( * ), city FROM employees GROUP BY city", false},
	{"SELECT SUM(salary) FROM employees WHERE name = '1+1 * 2'", false},
	{"SELECT SUM(salary) FROM employees -- * 2", false},
	{"SELECT SUM(salary) /* + 1 */ FROM employees", false},
	{"SELECT \"salary\" FROM employees", false},
	{"SELECT SUM(\"salary\") FROM employees", false},
	{"SELECT [salary], `bonus` AS \"a+b\" FROM employees", false},
	{"SELECT AVG(main.employees.salary) AS a FROM main.employees", false},
	{"SELECT name FROM employees WHERE salary > -5 AND bonus <= +3.5e-2", false},
	{"SELECT name FROM employees WHERE salary BETWEEN -1 AND 2000 AND id IN (-1, 2, 3)", false},
	{"SELECT name FROM employees WHERE (salary >= 1500 OR city <> 'Paris') AND NOT (id = 3)", false},
	{"SELECT name FROM employees WHERE upper(substr(name, -3)) = '007'", false},
	{"SELECT name FROM employees WHERE CAST(hired AS INTEGER) = 2003", false},
	{"SELECT name FROM employees LIMIT 5 OFFSET 10", false},
	{"SELECT MIN(hired), MAX(hired) FROM employees", false},
	{"SELECT city FROM employees GROUP BY city HAVING SUM(salary) > 100 AND COUNT(*) > 1 ORDER BY AVG(salary) DESC", false},
	{"SELECT name FROM employees WHERE salary = (SELECT MAX(salary) FROM employees)", false},
	{"SELECT name FROM employees WHERE id IN (SELECT employee FROM orders GROUP BY employee HAVING SUM(amount) > 40)", false},
	{"SELECT name FROM employees e WHERE EXISTS (SELECT 1 FROM orders o WHERE o.employee = e.id)", false},
	{"SELECT COUNT(id) FROM (SELECT id FROM employees WHERE city = 'Paris')", false},
	{"SELECT name FROM employees UNION SELECT item FROM orders", false},
	{"SELECT e.name, o.item FROM employees e LEFT JOIN orders o ON (o.employee = e.id) WHERE o.amount IS NOT NULL", false},
	{"SELECT group_concat(name, ', ') FROM employees WHERE city = 'Paris'", false},
}

func TestArithmeticIsRefused(t *testing.T) {
	db := open(t, sqlbox.Options{})
	for _, c := range arithmeticCases {
		_, err := db.Query(t.Context(), c.sql)
		switch {
		case c.refused && !errors.Is(err, sqlbox.ErrRefused):
			t.Errorf("%s: %v, want it refused", c.sql, err)
		case c.refused && !strings.HasPrefix(c.sql, "VALUES") && !strings.Contains(err.Error(), "use calculator"):
			t.Errorf("%s: %v, want an error that tells to use the calculator", c.sql, err)
		case c.refused && len(err.Error()) > 300:
			t.Errorf("%.80s: an error of %d bytes", c.sql, len(err.Error()))
		case !c.refused && err != nil:
			t.Errorf("%s: %v", c.sql, err)
		}
	}
}
