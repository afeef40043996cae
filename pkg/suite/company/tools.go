package company

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/tool/calc"
	"github.com/toolroute/toolroute/pkg/tool/search"
	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

// stores are the open database and the indexes of the corpora. They never change and are shared by all episodes.
type stores struct {
	db   *sqlbox.DB
	docs *search.Index
	web  *search.Index
	temp string // folder to remove with the stores, empty when there is none
	own  bool   // of a world that is being generated
}

func (s *stores) Close() error {
	if s == nil {
		return nil
	}
	err := s.db.Close()
	if s.temp != "" {
		err = errors.Join(err, os.RemoveAll(s.temp))
	}
	return err
}

func passageID(doc string, i int) string { return fmt.Sprintf("%s#%d", doc, i) }

// passagePlace names a passage as a source.
func passagePlace(s Store, doc string, i int) string { return string(s) + ":" + passageID(doc, i) }

// index makes each passage of a corpus one searchable text under the title of its document.
func index(s Store, docs []Document) *search.Index {
	var all []search.Doc
	for _, d := range docs {
		for i, p := range d.Passages {
			all = append(all, search.Doc{ID: passageID(d.ID, i), Title: d.Title, Body: p})
		}
	}
	zero := 0.0
	// The title says what its document is about, a passage what it says: only the passage counts for the score.
	return search.New(all, search.Options{Name: string(s), TitleWeight: &zero})
}

// createDB writes the tables to a SQLite file.
func createDB(path string, tables []Table) error {
	schema := make([]string, len(tables))
	for i, t := range tables {
		schema[i] = t.create()
	}
	return sqlbox.Create(path, schema, func(insert sqlbox.Insert) error {
		for _, t := range tables {
			for _, row := range t.Rows {
				values := make([]any, len(row))
				for i, v := range row {
					values[i] = v
				}
				if err := insert(t.Name, values...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// queryTime bounds one query. It is there for a query that never ends, and is far above the time of any other. On an overloaded machine a
// lower limit would change what an episode sees, and the same seed must give the same episode.
const queryTime = 20 * time.Second

func openDB(path string, opt Options) (*sqlbox.DB, error) {
	return sqlbox.Open(path, sqlbox.Options{MaxRows: opt.SQLRows, MaxBytes: opt.SQLBytes, Timeout: queryTime})
}

// query asks the database. The generator's own queries always end. If one ran out of time, the machine stood still, and the query is asked
// again: a task left out because of it would make another data set.
func (s *stores) query(ctx context.Context, arg string) (sqlbox.Result, error) {
	for try := 0; ; try++ {
		res, err := s.db.Query(ctx, arg)
		if !s.own || !errors.Is(err, sqlbox.ErrTimeout) || try == 30 {
			return res, err
		}
	}
}

// openTemp opens the stores of a world on a database file in the system's folder for temporary files.
func (w *World) openTemp() error {
	dir, err := os.MkdirTemp("", "company-*")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, dbFile)
	if err := createDB(path, w.Tables); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	db, err := openDB(path, w.opt)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	w.stores = &stores{db: db, docs: index(Doc, w.Docs), web: index(Web, w.Pages), temp: dir, own: true}
	return nil
}

// call runs a tool and writes its observation.
func (s *stores) call(ctx context.Context, opt Options, name, arg string) (tool.Observation, error) {
	switch name {
	case ToolSQL:
		res, err := s.query(ctx, arg)
		if err != nil {
			return tool.Observation{}, err
		}
		return res.Observation(opt.Style == Full), nil
	case ToolDoc:
		return renderHits(s.docs.Search(arg, opt.Passages), opt), nil
	case ToolWeb:
		return renderHits(s.web.Search(arg, opt.Passages), opt), nil
	case ToolCalc:
		return calc.Calculate(arg)
	}
	return tool.Observation{}, fmt.Errorf("company: no tool is named %q", name)
}

func evaluate(expr string) (string, error) { return calc.Eval(expr) }

// renderHits writes a passage a line, without ordinal numbers, which could pass for values, and with the score last. The passages are
// its parts.
//
//	full:    - Policy A: warranty of products: The warranty of Norvik Pump is 48 months. (score 12.37)
//	compact: - The warranty of Norvik Pump is 48 months. (12.37)
func renderHits(hits []search.Hit, opt Options) tool.Observation {
	if len(hits) == 0 {
		return tool.Said(search.NoResults)
	}
	var b strings.Builder
	var reads []source.Read
	for i, h := range hits {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- ")
		score := " (%.2f)"
		if opt.Style == Full {
			b.WriteString(h.Doc.Title + ": ")
			score = " (score %.2f)"
		}
		start := b.Len()
		b.WriteString(h.Passage(opt.PassageWords))
		reads = append(reads, source.Read{Start: start, End: b.Len(), From: []string{h.Source()}})
		fmt.Fprintf(&b, score, h.Score)
	}
	return tool.Observation{Text: b.String(), Reads: reads}
}

var descriptions = map[string]string{
	ToolSQL:  "run one read-only SELECT on the company database; columns or one plain aggregate, no arithmetic",
	ToolDoc:  "search the internal documents: policies, handbooks, memos, post-mortems",
	ToolWeb:  "search the web: news, prices, regulations, competitors",
	ToolCalc: "exact arithmetic on numbers",
}

var argHelp = map[string]string{ToolSQL: "one SELECT", ToolDoc: "words to look for", ToolWeb: "words to look for", ToolCalc: "numbers and + - * / ( )"}

// newBox offers the tools of one episode; mask is the tool behind each name of a masked task.
func (s *stores) newBox(opt Options, offers []suite.Offer, mask map[string]string) (*tool.Box, error) {
	all := make([]tool.Tool, 0, len(Tools)+1)
	names := Tools
	if mask != nil {
		names = slices.Sorted(maps.Keys(mask))
	}
	for _, called := range names {
		name := ownName(called, mask)
		arg := argName[name]
		all = append(all, tool.Func{
			Def: tool.Spec{
				Name: called, Description: descriptions[name], Price: tool.Price{Base: opt.Prices[name]},
				Parameters: tool.StringSchema(arg, argHelp[name]),
			},
			Run: func(ctx context.Context, args map[string]any) (tool.Observation, error) {
				text, _ := args[arg].(string)
				out, err := s.call(ctx, opt, name, text)
				return out, inMask(err, mask)
			},
		})
	}
	all = append(all, tool.Finish())
	list := make([]tool.Offer, len(offers))
	for i, o := range offers {
		list[i] = tool.Offer{Tool: o.Tool, Price: o.Price}
	}
	return tool.NewBox(all, tool.WithOffers(list...), tool.WithDeadline(queryTime+10*time.Second))
}
