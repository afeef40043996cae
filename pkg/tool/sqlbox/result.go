package sqlbox

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolroute/toolroute/pkg/source"
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
	Sources   [][][]string // of each cell, where it was read: "products.stock@17"; see the package doc
	Truncated bool         // there were more rows, or more bytes, than the caps allow
}

// Text renders a result as an observation with a line of column names.
func (r Result) Text() string { return r.Observation(true).Text }

// Observation renders a result as a line a row, cells parted by " | ", under a line of column names where header asks for it.
// Each cell is a part with the places that it was read from.
func (r Result) Observation(header bool) tool.Observation {
	if len(r.Rows) == 0 {
		return tool.Said("no rows")
	}
	var b strings.Builder
	var reads []source.Read
	if header {
		b.WriteString(strings.Join(r.Columns, " | ") + "\n")
	}
	for i, row := range r.Rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for k, cell := range row {
			if k > 0 {
				b.WriteString(" | ")
			}
			if from := r.Sources[i][k]; len(from) > 0 {
				reads = append(reads, source.Read{Start: b.Len(), End: b.Len() + len(cell), From: from})
			}
			b.WriteString(cell)
		}
	}
	if r.Truncated {
		b.WriteString("\n… more rows not shown")
	}
	return tool.Observation{Text: b.String(), Reads: reads}
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
