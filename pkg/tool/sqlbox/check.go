package sqlbox

import (
	"fmt"
	"strings"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// sqliteRecursive is SQLITE_RECURSIVE, which the driver has no name for.
const sqliteRecursive = 33

// functions that a query may call: they depend on their arguments alone and cannot make much of little. The first five are
// aggregates.
var functions = setOf("count sum avg min max group_concat abs round length lower upper substr substring instr trim ltrim rtrim " +
	"replace like glob coalesce ifnull nullif iif typeof")

// authorize is asked by SQLite while it compiles a query.
func authorize(readable map[string]bool, action int, a, b, schema string) int {
	switch action {
	case sqlite3.SQLITE_SELECT, sqliteRecursive:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_READ:
		name := strings.ToLower(a)
		if readable[name] && schema == "main" {
			return sqlite3.SQLITE_OK
		}
		// For a table of which no column is used (COUNT(*)) SQLite asks with neither column nor schema, and so it does for
		// a subquery or CTE, whose name is free; the tables that it makes up itself have these prefixes.
		if b == "" && schema == "" && (readable[name] || !builtin(name)) {
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_FUNCTION:
		if functions[strings.ToLower(b)] {
			return sqlite3.SQLITE_OK
		}
	}
	return sqlite3.SQLITE_DENY
}

func builtin(table string) bool {
	for _, p := range []string{"pragma_", "sqlite_", "json_", "jsonb_"} {
		if strings.HasPrefix(table, p) {
			return true
		}
	}
	return false
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// check refuses what can be seen in the text. Compiling an empty statement and running it would crash the driver.
func (db *DB) check(sql string) error {
	if len(sql) > db.opt.MaxSQLBytes {
		return refuse("the query has %d bytes, at most %d are read", len(sql), db.opt.MaxSQLBytes)
	}
	if !utf8.ValidString(sql) || strings.IndexByte(sql, 0) >= 0 {
		return refuse("the query is not plain UTF-8 text")
	}
	toks := lex(sql)
	for len(toks) > 0 && toks[len(toks)-1].is(";") {
		toks = toks[:len(toks)-1]
	}
	if len(toks) == 0 {
		return refuse("the query is empty")
	}
	if first := toks[0]; !first.is("select") && !first.is("with") {
		return refuse("only one SELECT (or WITH … SELECT) is allowed")
	}
	for i, t := range toks {
		switch {
		case t.is(";"):
			return refuse("more than one statement")
		case t.kind == bad:
			return refuse("unclosed quote or unknown character at %q", clip(t.text))
		case t.kind == param:
			return refuse("parameters (%s) are not supported: write the value", clip(t.text))
		case t.kind == word && strings.HasPrefix(t.text, "current_") && reserved[t.text]:
			return refuse("%s depends on the clock", t.text)
		case t.kind == word && clocked[t.text] && i+1 < len(toks) && toks[i+1].is("("):
			return refuse("function %s depends on the clock: dates are texts, compare them with LIKE, BETWEEN or substr", t.text)
		}
	}
	if db.opt.AllowArithmetic {
		return nil
	}
	return checkArithmetic(toks, db.columns)
}

var clocked = setOf("date time datetime julianday unixepoch strftime timediff")

func clip(s string) string {
	if len(s) <= 20 {
		return s
	}
	n := 20
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
