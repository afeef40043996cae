package report

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Where a suite has families, routing is shown by family and direction: every episode is counted once, under what it called.
func TestChoicesByFamily(t *testing.T) {
	trs := []trajectory.Trajectory{
		newEpisode("sft", "a", "sql_query", "4821", "sql_query"),                          // right and solved
		newEpisode("sft", "b", "sql_query", "17", "sql_query!"),                           // right, not solved
		newEpisode("sft", "c", "sql_query", "4821", "web_search"),                         // the other tool
		newEpisode("sft", "d", "web_search", "4821", "sql_query!", "web_search"),          // both
		newEpisode("sft", "e", "web_search", "4821"),                                      // neither
		newEpisode("sft", "f", "sql_query+web_search", "4821", "sql_query", "web_search"), // no choice: the gold path calls both
		newEpisode("sft", "g", "doc_search", "4821", "doc_search"),                        // no choice: the gold path calls neither
		newEpisode("oracle", "a", "sql_query", "4821", "sql_query"),
	}
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Collected: c, Headline: "sft", Families: []eval.ToolFamily{{Name: "facts", Cheaper: "sql_query", Pricier: "web_search"}}}
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"routing.md":  {"| facts | sql_query | 3 | 2 | 1 | 0 | 0 | 0.667 |", "| facts | web_search | 2 | 0 | 0 | 1 | 1 | 0.000 |", "| doc_search | 1 | 1 |"},
		"choices.csv": {"sft,test,soft,greedy,facts,sql_query,3,3,2,1,0,0,0.667,0.333\n", "oracle,test,soft,greedy,facts,sql_query,1,1,1,0,0,0,1.000,1.000\n"},
		"choices.md":  {"| oracle | test | soft | greedy | facts | sql_query | 1 | 1 | 1 | 0 | 0 | 0 | 1.000 | 1.000 |"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("%s lacks %s:\n%s", name, want, files[name])
			}
		}
	}
	if files["routing_matrix.png"] == nil || strings.Contains(string(files["routing.md"]), "gold combination") {
		t.Error("no picture by family, or a matrix of combinations beside it")
	}
	in.Families = nil
	if files, err = Files(in); err != nil || files["choices.md"] != nil || !strings.Contains(string(files["routing.md"]), "gold combination") {
		t.Errorf("without families: %v, choices %v", err, files["choices.md"] != nil)
	}
}
