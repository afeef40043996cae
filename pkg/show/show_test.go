package show

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/suite/company"
)

// small opens a run of the chain suite with few tasks.
func small(t *testing.T, set ...string) *stage.Env {
	t.Helper()
	return opened(t, "chain", append([]string{"eval.n_tasks=0", "eval.resamples=50"}, set...))
}

// opened is a smoke run of a suite, in a folder of its own, that the test's end closes.
func opened(t *testing.T, suite string, set []string) *stage.Env {
	t.Helper()
	e, err := stage.Open(stage.Options{Suite: suite, Profile: "smoke", Out: t.TempDir(), Log: io.Discard, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// markdown is the text of an exhibit.
func markdown(t *testing.T, e *stage.Env, x Exhibit) (string, []string) {
	t.Helper()
	shown, err := x(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var pictures []string
	for _, s := range shown {
		b.WriteString(s.Markdown + "\n")
		if s.Picture != "" {
			pictures = append(pictures, s.Picture)
		}
	}
	return b.String(), pictures
}

func TestWorldExhibits(t *testing.T) {
	e := small(t)
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	test, err := s.Tasks("test")
	if err != nil {
		t.Fatal(err)
	}
	tasks, _ := markdown(t, e, Tasks)
	if want := fmt.Sprintf("| test | %d |", len(test)); !strings.Contains(tasks, want) {
		t.Errorf("tasks: got\n%s\nwant it to hold %q", tasks, want)
	}
	tools, _ := markdown(t, e, Tools)
	for _, want := range []string{"`lookup`", "`calculator`", "`finish`"} {
		if !strings.Contains(tools, want) {
			t.Errorf("tools: got\n%s\nwant it to hold %q", tools, want)
		}
	}
	_, longest, err := view{e}.example(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range test {
		if len(task.GoldPath) > len(longest.GoldPath) {
			t.Errorf("the example has %d calls, %s has %d", len(longest.GoldPath), task.ID, len(task.GoldPath))
		}
	}
	played, _ := markdown(t, e, Episode("test"))
	for _, want := range []string{"Solved: " + longest.ID, "#### Turn 1", fmt.Sprintf("#### Turn %d: finish", len(longest.GoldPath))} {
		if !strings.Contains(played, want) {
			t.Errorf("episode: got\n%s\nwant it to hold %q", played, want)
		}
	}
	_, pictures := markdown(t, e, Costs)
	if len(pictures) != 1 {
		t.Fatalf("%d pictures, want 1", len(pictures))
	}
	b, err := os.ReadFile(pictures[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(b)); err != nil {
		t.Errorf("the picture is no PNG: %v", err)
	}
	if again, _ := markdown(t, e, Task("test")); !strings.Contains(again, longest.Question) {
		t.Errorf("the task shown is not the one that is played:\n%s", again)
	}
	if _, err := Task("tset")(t.Context(), e); err == nil {
		t.Error("a split that does not exist was shown")
	}
}

// The stores are shown as they are on disk: a table with rows, and of each corpus a fact beside its near-duplicate.
func TestStoresExhibit(t *testing.T) {
	e := opened(t, "company", []string{"suite.random_offers=0", "suite.mask_tools=0", "suite.train_tasks=120", "suite.val_tasks=21", "suite.test_tasks=42", "suite.heldout_combo_tasks=12", "suite.heldout_template_tasks=12"})
	got, _ := markdown(t, e, Stores)
	for _, want := range []string{"| `products` | name, ", "The first rows of `products`", "### The documents", "### The web"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to hold %q", got, want)
		}
	}
	look, err := company.LookAt(t.Context(), e.Data.Dir, "products", 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []company.CorpusLook{look.Document, look.Page} {
		if c.Fact == "" || c.Fact == c.Duplicate || !slices.Contains(c.Document.Passages, c.Fact) || !slices.Contains(c.Document.Passages, c.Duplicate) || c.Total <= c.Documents {
			t.Errorf("%+v", c)
		}
		if strings.Count(got, c.Fact+" *(a fact)*") != 1 || strings.Count(got, "*(its near-duplicate, which is not in force)*") != 2 {
			t.Errorf("the fact and its near-duplicate are not marked:\n%s", got)
		}
	}
	for _, l := range look.Tables {
		if (l.Name == "products") != (len(l.First) == 3) || l.Rows < 2 || len(l.Columns) < 2 {
			t.Errorf("%+v", l)
		}
	}
	if _, err := company.LookAt(t.Context(), e.Data.Dir, "prodcts", 3); err == nil || !strings.Contains(err.Error(), "prodcts") {
		t.Errorf("a table that is not there: %v", err)
	}
	if got, _ := markdown(t, small(t), Stores); !strings.Contains(got, "no stores") {
		t.Errorf("chain: %s", got)
	}
}

func TestRewardExhibitFollowsTheSettings(t *testing.T) {
	e := small(t, "reward.correct=0.6", "reward.efficiency=0.4")
	rule, _ := markdown(t, e, RewardRule)
	for _, want := range []string{"0.6 + 0.4", "| right at the optimal cost | 2 | 1.000 |", "| right at twice the optimal cost | 4 | 0.800 |"} {
		if !strings.Contains(rule, want) {
			t.Errorf("got\n%s\nwant it to hold %q", rule, want)
		}
	}
}

func TestBaselineExhibits(t *testing.T) {
	e := small(t)
	if _, err := BaselineFindings(t.Context(), e); err == nil || !strings.Contains(err.Error(), "play them first") {
		t.Errorf("findings before anything was played: got %v, want what to do", err)
	}
	if _, err := Picture("notebook/baselines/cost_vs_success")(t.Context(), e); err == nil || !strings.Contains(err.Error(), "cost_vs_success") {
		t.Errorf("a picture before it was drawn: got %v, want its name", err)
	}
	table, _ := markdown(t, e, Baselines)
	trs, err := e.Episodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	solved := 0
	for _, tr := range trs {
		if tr.Outcome.Verified {
			solved++
		}
	}
	if want := fmt.Sprintf("| oracle | %d | 1 | %.3f ", len(trs), float64(solved)/float64(len(trs))); !strings.Contains(table, want) {
		t.Errorf("got\n%s\nwant it to hold %q", table, want)
	}
	if _, pictures := markdown(t, e, Picture("notebook/baselines/cost_vs_success")); len(pictures) != 1 {
		t.Errorf("%d pictures, want 1", len(pictures))
	}
}

// If no fixed rule solves a task, none is the best. The parser is no fixed rule and is named separately.
func TestBestFixedRule(t *testing.T) {
	e := opened(t, "company", nil)
	rows := func(success map[string]float64) []eval.Row {
		var out []eval.Row
		for _, m := range []string{"always_cheapest", "static_threshold", "rule_parser", "oracle", "sft"} {
			r := eval.Row{Key: eval.Key{Method: m, Split: "test", Budget: "soft"}, Values: make([]eval.Interval, len(eval.Metrics))}
			r.Values[eval.MetricIndex("success_rate")].Value = success[m]
			r.Values[eval.MetricIndex("mean_cost")].Value = 2
			out = append(out, r)
		}
		return out
	}
	none := rows(map[string]float64{"rule_parser": 0.9, "oracle": 1, "sft": 0.5})
	some := rows(map[string]float64{"static_threshold": 0.25, "rule_parser": 0.9, "oracle": 1, "sft": 0.5})
	for _, c := range []struct{ got, want string }{
		{view{e}.ofRules(none), "test, soft budget: no fixed rule solves any task; the oracle solves 100.0% at 2.00. rule_parser, the hand-written parser of this suite's wordings, solves 90.0% at 2.00."},
		{view{e}.ofRules(some), "test, soft budget: the best fixed rule is static_threshold with 25.0% of the tasks solved at a mean cost of 2.00; the oracle solves 100.0% at 2.00. rule_parser, the hand-written parser of this suite's wordings, solves 90.0% at 2.00."},
		{view{e}.againstRules(&none[4], none), " No fixed rule solves any. The hand-written parser of this suite's wordings, rule_parser, has 0.900 (0.000 to 0.000)."},
		{view{e}.againstRules(&some[4], some), " This is above the best fixed rule, static_threshold with 0.250 (0.000 to 0.000). The hand-written parser of this suite's wordings, rule_parser, has 0.900 (0.000 to 0.000)."},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}

func TestTrainPolicyThatIsNotConfigured(t *testing.T) {
	e := small(t)
	got, _ := markdown(t, e, TrainPolicy("another"))
	if !strings.Contains(got, "do not train another") {
		t.Errorf("got %q, want that it is not trained", got)
	}
}

func TestDeeperLeavesFencesAlone(t *testing.T) {
	page := "# Solved\n\n````\n```json\n# not a heading\n```\n````\n\n## Turn 2\n"
	want := "### Solved\n\n````\n```json\n# not a heading\n```\n````\n\n#### Turn 2\n"
	if got := deeper(page); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnds(t *testing.T) {
	var recs []report.MetricsRecord
	for i := range 20 {
		v := map[string]float64{"loss": float64(20 - i)}
		if i%10 == 0 {
			v["val/loss"] = float64(i)
		}
		recs = append(recs, report.MetricsRecord{Step: i, Values: v})
	}
	if from, to, ok := ends(recs, "loss"); !ok || from != 19.5 || to != 1.5 {
		t.Errorf("loss: got %v, %v, %t, want 19.5 and 1.5, the means of the first and the last two", from, to, ok)
	}
	if from, to, ok := ends(recs, "val/loss"); !ok || from != 0 || to != 10 {
		t.Errorf("val/loss: got %v, %v, %t, want 0 and 10", from, to, ok)
	}
	if _, _, ok := ends(recs, "kl"); ok {
		t.Error("a metric that was never logged has ends")
	}
}

func TestGridAndNumber(t *testing.T) {
	got := grid(1, []string{"a", "b"}, [][]string{{"x|y", "1"}})
	if want := "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	nan := math.NaN()
	for _, tc := range []struct {
		v    eval.Interval
		want string
	}{{eval.Interval{Value: 0.5, Lo: 0.25, Hi: 0.75}, "0.50 (0.25 to 0.75)"}, {eval.Interval{Value: 2, Lo: nan, Hi: nan}, "2.00"}, {eval.Interval{Value: nan, Lo: nan, Hi: nan}, "-"}} {
		if got := number(tc.v, 2, true); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
