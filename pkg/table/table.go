// Package table is the one table that reports, studies and notebooks are made of. It renders itself as Markdown and as CSV.
package table

import (
	"bytes"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
)

// Table is a header and lines of as many cells.
type Table struct {
	Header []string
	Lines  [][]string
	// Left is the number of columns, from the first, that hold texts. The others hold numbers and are aligned to the right.
	Left int
}

// New makes a table without lines.
func New(left int, header ...string) *Table { return &Table{Header: header, Left: left} }

// Add appends a line.
func (t *Table) Add(cells ...string) { t.Lines = append(t.Lines, cells) }

// Markdown renders the table with a line break at its end. Bars in cells are escaped, line breaks and runs of spaces become one space.
func (t *Table) Markdown() string {
	var b strings.Builder
	write := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	write(t.Header)
	for i := range t.Header {
		if i < t.Left {
			b.WriteString("| --- ")
		} else {
			b.WriteString("| ---: ")
		}
	}
	b.WriteString("|\n")
	for _, l := range t.Lines {
		write(l)
	}
	return b.String()
}

// CSV renders the table as RFC 4180 has it, cells as they are.
func (t *Table) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(t.Header) // a buffer takes everything
	_ = w.WriteAll(t.Lines)
	return b.Bytes()
}

// ReadCSV reads what [Table.CSV] wrote. A file without a header is an error.
func ReadCSV(b []byte) (*Table, error) {
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, errors.New("the file is empty, and has not even a header")
	}
	return &Table{Header: lines[0], Lines: lines[1:]}, nil
}

// Has reports whether the table has a column of that name.
func (t *Table) Has(column string) bool { return slices.Contains(t.Header, column) }

// Cell returns the cell of one of the table's lines in the column of that name. It is empty where the table has no such column.
func (t *Table) Cell(line []string, column string) string {
	if i := slices.Index(t.Header, column); i >= 0 {
		return line[i]
	}
	return ""
}

// Plain is a text on one line that Markdown does not read as markup. Bars stand as they are: Markdown escapes those of cells.
func Plain(s string) string { return markup.Replace(strings.Join(strings.Fields(s), " ")) }

var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "](", `]\(`)
