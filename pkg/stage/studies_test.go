package stage

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/loophole"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/study"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// studied opens a run with ablations: b changes something of a, and c something of b.
func studied(t *testing.T, set ...string) *Env {
	t.Helper()
	return smallCompany(t, append([]string{"recipes.a={from: base, method: a, demos: optimal}", "recipes.b={from: a, method: b, algorithm: grpo, ablation: more, against: a}",
		"recipes.c={from: a, method: c, demos: optimal, ablation: 'less | other', against: b}", "train=[a, b, c]", "eval.splits=[test]", "eval.resamples=400"}, set...)...)
}

// episodeOf makes an episode on a task of two tools, of cost 3, with a budget of 4.5.
func episodeOf(method, split, decoding, task string, attempt int, solved bool, spend float64, tools ...string) trajectory.Trajectory {
	t := trajectory.Trajectory{Suite: "company", Method: method, Model: "tiny", Split: split, Decoding: decoding, BudgetMode: "soft", Seed: 1, Attempt: attempt, End: trajectory.Finished,
		EpisodeID: fmt.Sprint(method, "/", split, "/", decoding, "/", task, "/", attempt),
		Task:      trajectory.Task{ID: task, Question: "What is 12 times the fee?", Combination: "doc_search+sql_query", OptimalCost: price.Of(3), Budget: price.Of(4.5), GoldCalls: map[string]int{"sql_query": 1, "doc_search": 1}},
		Outcome:   trajectory.Outcome{Answer: "7", Correct: solved, Evidenced: solved, Verified: solved, Spend: price.Of(spend)}}
	if decoding == "sampled" {
		t.Temperature = 1
	}
	for _, tool := range tools {
		t.Turns = append(t.Turns, trajectory.Turn{Action: &trajectory.Action{Tool: tool}, Observation: "35", Price: price.Of(1)})
	}
	t.Turns = append(t.Turns, trajectory.Turn{Action: &trajectory.Action{Tool: trajectory.Finish}})
	return t
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestAblations(t *testing.T) {
	e := studied(t)
	var trs, further []trajectory.Trajectory
	for i := range 20 {
		task := fmt.Sprint("t", i)
		for method, solves := range map[string]int{"a": 10, "b": 18} { // b solves what a does and eight more, at the optimal cost
			spend := map[string]float64{"a": 6, "b": 3}[method]
			trs = append(trs, episodeOf(method, "test", "greedy", task, 0, i < solves, spend, "sql_query", "doc_search"))
			for k := range 2 {
				trs = append(trs, episodeOf(method, "test", "sampled", task, k, i < solves && k == 0, spend, "sql_query", "doc_search"))
			}
		}
	}
	// Only a has a further seed, which solves everything. It does not count in the difference.
	for i := range 20 {
		x := episodeOf("a", "test", "greedy", fmt.Sprint("t", i), 0, true, 3, "sql_query", "doc_search")
		x.Seed = 2
		further = append(further, x)
	}
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := study.Ablations(c, e.changes(), e.scope())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Method+" "+r.Against)
	}
	if want := []string{"a ", "b a", "c b"}; !slices.Equal(names, want) {
		t.Fatalf("rows %q, want %q", names, want)
	}
	a, b, none := rows[0], rows[1], rows[2]
	for i, want := range []float64{0.5, 0.25, 0.5, 2, 2} {
		if !near(a.Values[i].Value, want) || a.Difference != nil {
			t.Errorf("a: %s is %v, want %v; difference %v", study.Figures[i].Name, a.Values[i], want, a.Difference)
		}
	}
	for i, want := range []float64{0.9, 0.45, 0.9, 1, 1} {
		d := b.Difference[i]
		if !near(b.Values[i].Value, want) || !near(d.Value, want-a.Values[i].Value) || i < 3 && !d.Excludes0() {
			t.Errorf("b: %s is %v with difference %v, want %v", study.Figures[i].Name, b.Values[i], d, want)
		}
	}
	if b.Tasks != 20 || b.K != 2 || b.Seeds != 1 {
		t.Errorf("b: %d tasks, k %d, %d seeds", b.Tasks, b.K, b.Seeds)
	}
	if none.Tasks != 0 || !math.IsNaN(none.Values[0].Value) || !math.IsNaN(none.Difference[0].Value) {
		t.Errorf("a row that was not played: %+v", none)
	}
	if c, err = eval.Collect(append(slices.Clone(trs), further...), nil); err != nil {
		t.Fatal(err)
	}
	more, err := study.Ablations(c, e.changes(), e.scope())
	if err != nil {
		t.Fatal(err)
	}
	if !near(more[0].Values[0].Value, 0.75) || more[0].Seeds != 2 || !near(more[1].Difference[0].Value, 0.4) {
		t.Errorf("with a seed that b does not have: a %+v, b %+v", more[0], more[1])
	}
	md, csv := string(study.AblationsMarkdown(rows, 1)), string(study.AblationsCSV(rows))
	for _, want := range []string{"## test, 20 tasks", "pass@2", "| b | more | a | 0.900 (", "**+0.400 (", "<br>-1.000", `| c | less \| other (not played) | b | - |`} {
		if !strings.Contains(md, want) {
			t.Errorf("the table does not say %q:\n%s", want, md)
		}
	}
	if lines := strings.Split(strings.TrimSpace(csv), "\n"); len(lines) != 4 || strings.Count(lines[0], ",") != strings.Count(lines[1], ",") || !strings.HasPrefix(lines[2], "test,b,b,more,a,1,20,2,20,0.9,") {
		t.Errorf("CSV:\n%s", csv)
	}
}

// Loopholes are counted beside the parent's, with examples; rows of scripted methods have none.
func TestHacking(t *testing.T) {
	e := studied(t, "eval.splits=[test, test_heldout_combo]")
	var trs []trajectory.Trajectory
	for i := range 30 {
		task := fmt.Sprint("t", 10+i)
		trs = append(trs, episodeOf("a", "test", "greedy", task, 0, true, 3, "sql_query", "doc_search"), episodeOf("oracle", "test", "greedy", task, 0, false, 0))
		gave := episodeOf("b", "test", "greedy", task, 0, true, 3, "sql_query", "doc_search")
		if i < 12 { // answers at once
			gave = episodeOf("b", "test", "greedy", task, 0, false, 0)
		}
		trs = append(trs, gave)
		for k := range 2 {
			s := episodeOf("b", "test_heldout_combo", "sampled", task, k, false, 3, "sql_query")
			s.Outcome.Answer = []string{"12", "35"}[k]
			trs = append(trs, s)
		}
	}
	rows, examples := study.Hacks(trs, e.learned, e.parentOf, e.scope())
	get := func(split, method, name string) study.Hack {
		for _, h := range rows {
			if h.Split == split && h.Method == method && loophole.All[h.Loophole].Name == name {
				return h
			}
		}
		t.Fatalf("no row of %s, %s, %s", split, method, name)
		return study.Hack{}
	}
	if len(rows) != 3*len(loophole.All) {
		t.Errorf("%d rows, want those of a on test and of b on two splits", len(rows))
	}
	none := get("test", "b", "no_call")
	if none.Parent != "a" || !near(none.Share.Value, 0.4) || none.Parents.Value != 0 || none.Parents.Hi < 0.01 || none.Difference.Lo <= 0 || none.Episodes != 30 {
		t.Errorf("answers without a call: %+v", none)
	}
	if g := get("test", "b", "guess"); g.Share.Value != 0 || g.Difference.Excludes0() || g.Share.Hi < 0.05 {
		t.Errorf("guesses: %+v", g)
	}
	for _, name := range []string{"copied_question", "copied_value"} {
		if h := get("test_heldout_combo", "b", name); !near(h.Share.Value, 0.5) || h.Parent != "" || h.Episodes != 60 {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if a := get("test", "a", "no_call"); a.Share.Value != 0 || a.Parent != "" {
		t.Errorf("a: %+v", a)
	}
	if ids := examples["b/no_call"]; !slices.Equal(ids, []string{"b/test/greedy/t10/0", "b/test/greedy/t11/0", "b/test/greedy/t12/0"}) {
		t.Errorf("examples %q", ids)
	}
	md := string(study.HackingMarkdown(rows, examples))
	for _, want := range []string{"## test, greedy", "## test_heldout_combo, sampled", "**0.400 (", "; 0.000**", "- b, answer without a call: `b/test/greedy/t10/0`", "| a | - | 0.000 (0.000 to "} {
		if !strings.Contains(md, want) {
			t.Errorf("the page does not say %q:\n%s", want, md)
		}
	}
	if lines := strings.Split(strings.TrimSpace(string(study.HackingCSV(rows))), "\n"); len(lines) != len(rows)+1 || strings.Count(lines[0], ",") != strings.Count(lines[len(rows)], ",") {
		t.Errorf("CSV: %d lines", len(lines))
	}
}

// Episodes at other prices are paired with those of the same task; calls of two sources are counted by price list.
func TestPriceStudy(t *testing.T) {
	e := studied(t, "eval.splits=[test, test_prices, test_two_source]", "suite.shifted_prices={web_search: 1}", "suite.two_source=true", "suite.train_tasks=160")
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Tasks(company.TwoSourceTest)
	if err != nil || len(two) == 0 {
		t.Fatal(err)
	}
	var trs []trajectory.Trajectory
	for i := range 10 {
		task := fmt.Sprint("t", i)
		trs = append(trs, episodeOf("a", "test", "greedy", task, 0, true, 3, "sql_query", "doc_search"), episodeOf("a", "test", "greedy", "further"+task, 0, false, 3))
		other := episodeOf("a", company.TestPrices, "greedy", task+"@prices", 0, i < 6, 3, "doc_search", "sql_query", "sql_query") // the same set
		if i >= 7 {
			other = episodeOf("a", company.TestPrices, "greedy", task+"@prices", 0, false, 3, "web_search", "sql_query")
		}
		trs = append(trs, other)
	}
	cheap := map[string]int{}
	for _, x := range two {
		for _, method := range []string{"a", "b"} { // a always asks the documents, b the cheaper source
			tool := company.ToolDoc
			if method == "b" {
				tool = x.CombinationKey()
			}
			tr := episodeOf(method, company.TwoSourceTest, "greedy", x.ID, 0, true, 2, tool)
			tr.Task.Combination = x.CombinationKey()
			trs = append(trs, tr)
		}
		if x.CombinationKey() == company.ToolDoc {
			cheap[company.PriceList(x)]++
		} else {
			cheap[company.PriceList(x)] += 0
		}
	}
	p, err := e.prices(s, trs, e.scope())
	if err != nil {
		t.Fatal(err)
	}
	shifts, sources := p.shifts, p.sources
	if len(shifts) != 1 {
		t.Fatalf("%d rows, want one", len(shifts))
	}
	r := shifts[0]
	if r.Method != "a" || r.Tasks != 10 || r.Episodes != 10 || !near(r.Usual.Value, 1) || !near(r.Shifted.Value, 0.6) || !near(r.Difference.Value, -0.4) || !r.Difference.Excludes0() || !near(r.Same.Value, 0.7) || r.Same.Lo > 0.5 {
		t.Errorf("%+v", r)
	}
	if len(sources) != 2*(1+len(cheap)) || len(cheap) != 4 {
		t.Fatalf("%d rows for %d price lists", len(sources), len(cheap))
	}
	for _, r := range sources {
		want := []float64{1, 0, 0, 0}
		if r.Method == "a" {
			n := 0
			for list, c := range cheap {
				if list == r.Prices || r.Prices == "all" {
					n += c
				}
			}
			want[0] = float64(n) / float64(r.Tasks)
			want[1] = 1 - want[0]
		}
		for i, v := range r.Shares {
			if !near(v.Value, want[i]) || v.Hi-v.Lo < 1e-6 {
				t.Errorf("%s at %s: %s %v, want %v", r.Method, r.Prices, study.SourceCalls[i].Title, v, want[i])
			}
		}
		if (r.Prices == "all") != (r.Cheaper == "") {
			t.Errorf("%+v", r)
		}
	}
	md := string(study.PricesMarkdown(p.shifts, p.shifted, p.how, p.sources))
	for _, want := range []string{"web_search 1 instead of 5", "sql_query 4 instead of 1", "-0.400 (", "| a | greedy | 10 |", "cheaper only"} {
		if !strings.Contains(md, want) {
			t.Errorf("the page does not say %q:\n%s", want, md)
		}
	}
	if lines := strings.Split(strings.TrimSpace(string(study.PricesCSV(p.shifts, p.shifted, p.sources, p.twoSources))), "\n"); len(lines) != 1+6+4*len(sources) {
		t.Errorf("CSV: %d lines", len(lines))
	}
}

// A study without content leaves no file, not even that of an earlier report.
func TestStudiesLeaveNothing(t *testing.T) {
	e := small(t)
	if err := os.MkdirAll(e.Run.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"ablations.md", "prices.csv"} {
		if err := os.WriteFile(e.Run.Path(f), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.studies(s, &eval.Collector{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"ablations.md", "ablations.csv", "prices.md", "prices.csv", "hacking.md"} {
		if _, err := os.Stat(e.Run.Path(f)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", f, err)
		}
	}
}
