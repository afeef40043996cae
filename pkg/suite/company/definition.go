package company

import (
	"context"

	"github.com/toolroute/toolroute/pkg/suite"
)

// Definition is the company suite as stages and reports know it.
func Definition() suite.Definition {
	return suite.Definition{
		Name: Name, Version: 1, Settings: func() suite.Settings { return new(Settings) },
		Train: Train, Val: Val, Splits: []string{Test, HeldoutCombo, HeldoutTemplate},
		Demos: DemoKinds, Corpus: []string{DemoOptimal, DemoBase}, Dates: true, Pairs: []string{PairWasteful},
		Rules: Rules{}, Threshold: suite.Threshold{First: ToolDoc, Second: ToolWeb, MinScore: MinScore},
		Parser:  func(train []suite.Task) suite.Parser { return NewParser(train) },
		Columns: Columns(), Dimensions: dimensions, HistoryColumn: suite.TitledColumn{Column: "success", Title: "success rate"},
		ExtraWorlds: func(s suite.Suite, from, n int) ([]suite.Suite, error) {
			worlds, err := s.(*Suite).ExtraWorlds(from, n, 0)
			var out []suite.Suite
			for _, w := range worlds {
				out = append(out, w)
			}
			return out, err
		},
		ExtraWorldSeed: ExtraWorldSeed,
		Stores:         shownStores,
	}
}

// shownStores are the tables with the first rows of one, and of each corpus a document with a near-duplicate.
func shownStores(ctx context.Context, dir string) (out suite.Stores, err error) {
	l, err := LookAt(ctx, dir, "products", 5)
	for _, t := range l.Tables {
		out.Tables = append(out.Tables, suite.TableSample(t))
	}
	sample := func(heading, noun string, c CorpusLook) {
		out.Corpora = append(out.Corpora, suite.CorpusSample{Heading: heading, Noun: noun, Documents: c.Documents, Total: c.Total, ID: c.ID, Genre: c.Genre, Date: c.Date, Title: c.Title,
			Passages: c.Passages, Fact: c.Fact, Duplicate: c.Duplicate})
	}
	sample("The documents", "document", l.Document)
	sample("The web", "page", l.Page)
	return out, err
}
