package stage

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// The table of the README has every greedy row, its seeds, no interval without a width, and what the learned rows were trained on.
func TestHeadlineTable(t *testing.T) {
	var trs []trajectory.Trajectory
	for _, method := range []string{"oracle", "sft", "sft_equal_tokens"} {
		for i, decoding := range []string{"greedy", "greedy", "sampled"} {
			trs = append(trs, episodeOf(method, "test", decoding, string(rune('a'+i)), 0, true, 3, "sql_query"))
		}
	}
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := eval.Table(c, eval.Options{Resamples: 20, Training: func(k eval.Key, seeds []uint64) (eval.Training, bool) {
		return eval.Training{Seeds: seeds, Demonstrations: 18896, DemoWorlds: make([]uint64, 6), Tokens: 5006377, WallSeconds: 90}, k.Method != "oracle"
	}})
	got, err := HeadlineTable(eval.ResultsTable(rows, nil).CSV(), "soft", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| oracle | test | 1 | 1.000 (0.158 to 1.000) | 3.000 |", "| sft_equal_tokens | test | 1 |", "| sft | 1 | 18896 | 6 | - | - | 5006377 | - | 1.5 |"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %s:\n%s", want, got)
		}
	}
	if strings.Count(got, "| sft | ") != 2 || strings.Contains(got, "| oracle | 1 | -") {
		t.Errorf("a method stands twice, or one that was not trained among the trained:\n%s", got)
	}
}
