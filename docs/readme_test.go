package docs_test

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suites"
)

// The tables of the README are those of the published results, whoever edited either by hand.
func TestReadmeShowsThePublishedTables(t *testing.T) {
	readme := read(t, "README.md")
	shown := 0
	for _, d := range suites.All {
		_, rest, ok := strings.Cut(readme, "<!-- results:"+d.Name+" -->\n")
		if !ok {
			continue
		}
		shown++
		got, _, _ := strings.Cut(rest, "<!-- end -->")
		var m run.Manifest
		if err := run.ReadJSON(root+"/results/"+d.Name+"/manifest.json", &m); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(d.Name, m.Profile, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := report.Headline([]byte(read(t, "results/"+d.Name+"/results_table.csv")), c.Eval.BudgetModes[0], d.Summary)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: the README has\n%s\nthe results are\n%s", d.Name, got, want)
		}
	}
	if shown == 0 {
		t.Error("the README shows no results")
	}
}
