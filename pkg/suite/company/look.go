package company

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

// Look is a piece of each store of a data set, for people who want to see what the tools read.
type Look struct {
	Tables   []TableLook
	Document CorpusLook
	Page     CorpusLook
}

// TableLook is a table of the database: its columns, how many rows it has, and the first of them where they were asked for.
type TableLook struct {
	Name    string
	Columns []string
	Rows    int
	First   [][]string
}

// CorpusLook is a document of a corpus in which a fact stands beside its near-duplicate: a passage about the same subject and attribute
// with another value, which is not in force.
type CorpusLook struct {
	Documents, Total int // documents and passages of the whole corpus
	Document
	Fact, Duplicate string // two of the passages
}

// LookAt reads a piece of each store from a data set's folder: the first rows of the named table, and the first document of each corpus
// that has a near-duplicate.
func LookAt(ctx context.Context, dir, table string, rows int) (out Look, err error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return out, err
	}
	db, err := sqlbox.Open(filepath.Join(dir, dbFile), sqlbox.Options{MaxRows: rows, Timeout: queryTime})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, t := range db.Tables() {
		l := TableLook{Name: t.Name, Columns: t.Columns, Rows: m.World["rows_"+t.Name]}
		if t.Name == table {
			res, err := db.Query(ctx, fmt.Sprintf("SELECT * FROM %s LIMIT %d", table, rows))
			if err != nil {
				return out, err
			}
			l.First = res.Rows
		}
		out.Tables = append(out.Tables, l)
	}
	if !slices.ContainsFunc(out.Tables, func(t TableLook) bool { return t.Name == table }) {
		return out, fmt.Errorf("company: no table is named %q", table)
	}
	for _, c := range []struct {
		file string
		to   *CorpusLook
	}{{docsFile, &out.Document}, {webFile, &out.Page}} {
		docs, err := readLines[Document](filepath.Join(dir, c.file))
		if err != nil {
			return out, err
		}
		c.to.Documents = len(docs)
		for _, d := range docs {
			c.to.Total += len(d.Passages)
			if c.to.Fact != "" {
				continue
			}
			if fact, duplicate, ok := duplicated(d); ok {
				c.to.Document, c.to.Fact, c.to.Duplicate = d, fact, duplicate
			}
		}
	}
	return out, nil
}

// stale are passages that are not in force, by attribute and subject.
var stale = regexp.MustCompile(`^(?:Draft, never in force|Withdrawn proposal|Rumour, since denied|Old listing, no longer true): the (.+) of ([A-Z]\S* [A-Z]\S*) (?:is|would be|was) `)

// duplicated finds a passage that is not in force and the fact that it is a near-duplicate of.
func duplicated(d Document) (fact, duplicate string, ok bool) {
	for _, p := range d.Passages {
		m := stale.FindStringSubmatch(p)
		if m == nil {
			continue
		}
		for _, f := range d.Passages {
			if f != p && strings.Contains(f, m[2]) && strings.Contains(strings.ToLower(f), strings.ToLower(m[1])) && !stale.MatchString(f) {
				return f, p, true
			}
		}
	}
	return "", "", false
}
