package sqlbox

import (
	"fmt"
	"strings"
	"unicode/utf8"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// authorize is asked by SQLite while it compiles a query: a second line behind the grammar. Columns of the file's tables and the
// five aggregates are all that a query has.
func authorize(readable map[string]bool, action int, a, b, schema string) int {
	switch action {
	case sqlite3.SQLITE_SELECT:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_READ:
		// For a table of which no column is used (COUNT(*)) SQLite asks with neither column nor schema.
		if readable[strings.ToLower(a)] && (schema == "main" || b == "" && schema == "") {
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_FUNCTION:
		if aggregates[strings.ToLower(b)] {
			return sqlite3.SQLITE_OK
		}
	}
	return sqlite3.SQLITE_DENY
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// parse reads a query, finds what its names mean and refuses what the grammar does not have.
func (db *DB) parse(sql string) (*query, error) {
	if len(sql) > db.opt.MaxSQLBytes {
		return nil, refuse("the query has %d bytes, at most %d are read", len(sql), db.opt.MaxSQLBytes)
	}
	if !utf8.ValidString(sql) || strings.IndexByte(sql, 0) >= 0 {
		return nil, refuse("the query is not plain UTF-8 text")
	}
	toks := lex(sql)
	for len(toks) > 0 && toks[len(toks)-1].is(";") {
		toks = toks[:len(toks)-1]
	}
	if len(toks) == 0 {
		return nil, refuse("the query is empty")
	}
	if !toks[0].is("select") {
		return nil, refuse("only one SELECT is allowed")
	}
	for _, t := range toks {
		switch {
		case t.is(";"):
			return nil, refuse("more than one statement")
		case t.kind == bad:
			return nil, refuse("unclosed quote or unknown character at %q", clip(t.text))
		case t.kind == param:
			return nil, refuse("parameters (%s) are not supported: write the value", clip(t.text))
		}
	}
	q, err := parse(toks)
	if err != nil {
		return nil, err
	}
	return q, (&resolver{db: db}).query(q)
}

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
