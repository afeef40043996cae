package report

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// The table of the README has every greedy row, its seeds, no interval without a width, and what the learned rows were trained on.
func TestHeadline(t *testing.T) {
	var trs []trajectory.Trajectory
	for _, method := range []string{"oracle", "sft", "sft_equal_tokens"} {
		for i, decoding := range []string{"greedy", "greedy", "sampled"} {
			t := newEpisode(method, string(rune('a'+i)), "sql_query", "4821", "sql_query")
			t.Decoding = decoding
			trs = append(trs, t)
		}
	}
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := eval.Table(c, eval.Options{Resamples: 20, Training: func(k eval.Key, seeds []uint64) (eval.Training, bool) {
		return eval.Training{Seeds: seeds, Demonstrations: 18896, DemoWorlds: make([]uint64, 6), Tokens: 5006377, WallSeconds: 90}, k.Method != "oracle"
	}})
	got, err := Headline(eval.ResultsTable(rows, nil).CSV(), "soft", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| oracle | test | 1 | 1.000 (0.158 to 1.000) | 1.000 |", "| sft_equal_tokens | test | 1 |", "| sft | 0 | 18896 | 6 | - | - | 5006377 | - | 1.5 |"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %s:\n%s", want, got)
		}
	}
	if strings.Count(got, "| sft | ") != 2 || strings.Contains(got, "| oracle | 0 | 18896") {
		t.Errorf("a method stands twice, or one that was not trained among the trained:\n%s", got)
	}
}
