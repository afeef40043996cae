package show

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Stores shows what the tools read: the tables of the database with some rows of one, a document with a near-duplicate of a fact,
// and a page of the web.
func Stores(ctx context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	l, ok, err := e.Stores(ctx)
	if err != nil {
		return nil, err
	}
	if !ok {
		return text("The suite %s has no stores but what its prompts and tools show.\n", e.Options.Suite), nil
	}
	var tables [][]string
	for _, t := range l.Tables {
		tables = append(tables, []string{"`" + t.Name + "`", strings.Join(t.Columns, ", "), fmt.Sprint(t.Rows)})
	}
	out := text("### The database\n\n%s", grid(2, []string{"table", "columns", "rows"}, tables))
	for _, t := range l.Tables {
		if len(t.First) > 0 {
			out = append(out, text("The first rows of `%s`:\n\n%s", t.Name, grid(len(t.Columns), t.Columns, t.First))...)
		}
	}
	for _, c := range l.Corpora {
		out = append(out, corpusText(c)...)
	}
	return out, nil
}

// corpusText shows a document as it stands, the fact and its near-duplicate marked.
func corpusText(c suite.CorpusSample) []Shown {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%d %ss with %d passages; a search finds passages. One %s, `%s`, %s of %s:\n\n", c.Heading, c.Documents, c.Noun, c.Total, c.Noun, c.ID, c.Genre, c.Date)
	fmt.Fprintf(&b, "> **%s**\n>\n", oneLine(c.Title))
	for _, p := range c.Passages {
		mark := ""
		switch p {
		case c.Fact:
			mark = " *(a fact)*"
		case c.Duplicate:
			mark = " *(its near-duplicate, which is not in force)*"
		}
		fmt.Fprintf(&b, "> %s%s\n>\n", oneLine(p), mark)
	}
	return text("%s", b.String())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
