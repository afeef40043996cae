package sqlbox

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolroute/toolroute/pkg/tool"
)

// Result is what a query gives. Cells are texts by which every value can be told from every other kind:
//
//   - NULL is NULL; a blob is x'00ff'; a whole number is 42; a real number has up to 15 significant digits, without
//     trailing zeros (12.5, 300)
//   - a text stands as it is, but in single quotes (a quote written twice, control characters and backslashes escaped as in
//     Go) when it is empty, reads NULL or like a quoted text or blob, begins or ends with a space, or holds "|" or a
//     control character
//   - a cell beyond the cap ends in a note of its length
type Result struct {
	Columns   []string
	Rows      [][]string
	Truncated bool // there were more rows, or more bytes, than the caps allow
}

// Text renders a result as an observation: a line of column names, a line a row, cells parted by " | ".
func (r Result) Text() string {
	if len(r.Rows) == 0 {
		return "no rows"
	}
	var b strings.Builder
	b.WriteString(strings.Join(r.Columns, " | "))
	for _, row := range r.Rows {
		b.WriteByte('\n')
		b.WriteString(strings.Join(row, " | "))
	}
	if r.Truncated {
		b.WriteString("\n… more rows not shown")
	}
	return b.String()
}

func (db *DB) collect(rows driver.Rows) (Result, error) {
	var res Result
	for _, c := range rows.Columns() {
		res.Columns = append(res.Columns, quoteText(tool.CutText(c, 64)))
	}
	if len(res.Columns) == 0 {
		return Result{}, fmt.Errorf("%w: only a plain SELECT is allowed", ErrRefused)
	}
	size := 0
	v := make([]driver.Value, len(res.Columns))
	for {
		if err := rows.Next(v); err == io.EOF {
			return res, nil
		} else if err != nil {
			return Result{}, err
		}
		if len(res.Rows) == db.opt.MaxRows {
			res.Truncated = true
			return res, nil
		}
		row := make([]string, len(v))
		for i, x := range v {
			cell, err := db.cell(x)
			if err != nil {
				return Result{}, fmt.Errorf("column %s: %w", res.Columns[i], err)
			}
			row[i] = cell
			size += len(cell)
		}
		if size > db.opt.MaxBytes {
			res.Truncated = true
			if len(res.Rows) == 0 {
				return Result{}, fmt.Errorf("one row has more than %d bytes: select fewer columns", db.opt.MaxBytes)
			}
			return res, nil
		}
		res.Rows = append(res.Rows, row)
	}
}

func (db *DB) cell(x driver.Value) (string, error) {
	limit := db.opt.MaxCellBytes
	switch x := x.(type) {
	case nil:
		return "NULL", nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case float64:
		return formatReal(x)
	case string:
		return quoteText(tool.CutText(x, limit)), nil
	case []byte:
		if n := max(1, (limit-32)/2); len(x) > n {
			return fmt.Sprintf("x'%s… [cut: %d bytes in all]", hex.EncodeToString(x[:n]), len(x)), nil
		}
		return "x'" + hex.EncodeToString(x) + "'", nil
	}
	return "", fmt.Errorf("a value of type %T cannot be shown", x)
}

// formatReal refuses what lies beyond 64-bit whole numbers: SQLite turns an overflow of + - * into a real number without a
// word, and shows it with digits that are not there.
func formatReal(x float64) (string, error) {
	if math.Abs(x) >= 1<<63 || math.IsNaN(x) {
		return "", fmt.Errorf("integer overflow: the value is beyond 64 bits")
	}
	s := strconv.FormatFloat(x, 'g', 15, 64)
	if strings.ContainsRune(s, 'e') && (math.Abs(x) >= 1 || x == 0) {
		r, ok := new(big.Rat).SetString(s) // exactly, or digits beyond the 15th would come back
		if !ok {
			return "", fmt.Errorf("a real of %s cannot be shown", s)
		}
		s = r.FloatString(0)
	}
	if s == "-0" {
		s = "0"
	}
	return s, nil
}

func quoteText(s string) string {
	plain := s != "" && !strings.EqualFold(s, "null") && s[0] != '\'' && !strings.HasPrefix(strings.ToLower(s), "x'") &&
		strings.TrimSpace(s) == s && !strings.Contains(s, "|") && strings.IndexFunc(s, unicode.IsControl) < 0
	if plain {
		return s
	}
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'':
			b.WriteString("''")
		case r == '\\' || unicode.IsControl(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
