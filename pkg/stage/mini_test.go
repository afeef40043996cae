package stage

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// A suite needs only its package and one line of the list. Then its data set, its baselines, a split that its settings add, and its own
// columns, strata and tags in the report all work, and its settings are checked like those of other suites.
func TestASuiteIsOneLine(t *testing.T) {
	withMini(t)
	open := func(set ...string) (*Env, error) {
		return Open(Options{Suite: "mini", Profile: "smoke", Out: t.TempDir(), Log: io.Discard,
			Set: append([]string{"train=[]", "recipes={}", "eval.headline=oracle", "eval.resamples=20", "eval.n_tasks=0", "baselines={methods: [always_cheapest, oracle], budget_modes: [soft]}"}, set...)})
	}
	if _, err := open("suite.count=0"); err == nil || !strings.Contains(err.Error(), "suite.count is 0: it must be at least 1 (set in --set suite.count=0)") {
		t.Errorf("a setting that makes no sense: error %v", err)
	}
	if _, err := open("suite.cuont=3"); err == nil || !strings.Contains(err.Error(), `did you mean "suite.count"?`) {
		t.Errorf("a misspelt setting: error %v", err)
	}
	e, err := open("suite.count=12", "suite.short=true")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	doAll(t, e, (*Env).World, (*Env).Baselines, (*Env).Report)
	b, err := os.ReadFile(e.Run.Path("results_table.csv"))
	if err != nil {
		t.Fatal(err)
	}
	table := string(b)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if !strings.Contains(lines[0], ",shelf_rate,argument_accuracy,shelf_rate_lo,") || len(lines) != 1+2*2 {
		t.Errorf("%d rows, want two methods on two splits with the suite's column:\n%s", len(lines)-1, table)
	}
	for _, want := range []string{"oracle", "always_cheapest", ",train,", ",short,"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	at := slices.Index(strings.Split(lines[0], ","), "argument_accuracy")
	for _, line := range lines[1:] {
		cells := strings.Split(line, ",")
		if right := cells[at] == "1"; right != (cells[1] == Oracle || cells[3] == "short") {
			t.Errorf("%s on %s makes the calls of the cheapest path: %v", cells[1], cells[3], right)
		}
	}
	if b, err = os.ReadFile(e.Run.Path("results_by_stratum.csv")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{",asked,value in train,", ",asked,stock in short,", ",tags,calculated,"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the strata lack %q:\n%s", want, b)
		}
	}
	s, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tasks, err := e.tasks(s, "short"); err != nil || len(tasks) != 4 {
		t.Errorf("%d short tasks, %v; want the four of one call", len(tasks), err)
	}
}
