package study

import (
	"encoding/csv"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/train"
)

// logged makes lines of metrics, one an update from 1, each of success, kl, entropy and gradient norm; clip shares are 0.
func logged(values ...[4]float64) []report.MetricsRecord {
	var out []report.MetricsRecord
	for i, v := range values {
		out = append(out, report.MetricsRecord{Step: i + 1, Values: map[string]float64{"success": v[0], "kl": v[1], "entropy": v[2], "grad_norm": v[3], "clip_low": 0, "clip_high": 0}})
	}
	return out
}

func successes(values ...float64) []report.MetricsRecord {
	var out []report.MetricsRecord
	for _, v := range values {
		out = append(out, logged([4]float64{v, 0, 1, 1})...)
		out[len(out)-1].Step = len(out)
	}
	return out
}

func TestCollapse(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		lines []report.MetricsRecord
		want  int
	}{
		"rises":               {successes(0.5, 0.6, 0.8, 0.9), 0},
		"falls to a half":     {successes(0.8, 0.4, 0.4, 0.4, 0.4), 0},
		"falls below":         {successes(0.8, 0.7, 0.39, 0.3, 0.1), 2},
		"at once":             {successes(0.6, 0, 0, 0), 1},
		"from its best":       {successes(0.3, 0.9, 0.4, 0.3, 0.4), 2}, // above the start, below half of the best
		"comes back":          {successes(0.8, 0.1, 0.1, 0.1, 0.5, 0.6), 0},
		"comes back, then no": {successes(0.8, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1), 4},
		"a poor end":          {successes(0.8, 0.8, 0.8, 0.1, 0.1), 0}, // so short that it may be chance
		"never solved any":    {successes(0, 0, 0, 0, 0), 0},
		"breaks down":         {successes(0.8, nan, nan, nan), 1},
		"starts unreadable":   {successes(nan, 0.8, 0.1, 0.1, 0.1), 2},
		"one update":          {successes(0.8), 0},
		"nothing":             {nil, 0},
	} {
		if got := courseOf(c.lines); got.collapsed != c.want {
			t.Errorf("%s: collapsed by update %d, want %d", name, got.collapsed, c.want)
		}
	}
	f := courseOf(successes(0.4, 0.9, 0.2, 0.1, 0.3))
	if f.start != 0.4 || f.best != 0.9 || f.end != 0.3 {
		t.Errorf("start, best and end are %v, %v, %v, want 0.4, 0.9, 0.3", f.start, f.best, f.end)
	}
}

// If success was not logged, the mean reward decides. Lines with neither, such as those of an evaluation, are no updates.
func TestCollapseOfRewards(t *testing.T) {
	var lines []report.MetricsRecord
	for i, v := range []float64{1, -1, 0.2, 0.1, 0} {
		values := map[string]float64{"reward_mean": v}
		if v < 0 {
			values = map[string]float64{"val_success": 1}
		}
		lines = append(lines, report.MetricsRecord{Step: 10 * (i + 1), Values: values})
	}
	if got := courseOf(lines); got.metric != "reward_mean" || got.collapsed != 10 || got.end != 0 {
		t.Errorf("got %+v, want a collapse by the update of step 10", got)
	}
}

var testBounds = train.StopRule{MaxKL: 0.1, MinEntropy: 0.05, MaxClip: 0.2, MaxGradNorm: 5, Patience: 2}

// crashing collapses by update 5; its KL fires at 3, its gradient norm at 5, its entropy never.
func crashing() []report.MetricsRecord {
	return logged([4]float64{0.6, 0.01, 0.3, 1}, [4]float64{0.7, 0.2, 0.3, 1}, [4]float64{0.7, 0.3, 0.3, 1}, [4]float64{0.5, 0.5, 0.2, 9}, [4]float64{0.4, 1.5, 0.1, 20},
		[4]float64{0, 9, 0.01, 1}, [4]float64{0, 9, 0.5, 1}, [4]float64{0.1, 9, 0.5, 1})
}

func TestWarnings(t *testing.T) {
	sharp := logged([4]float64{0.5, 0, 0.2, 1}, [4]float64{0.6, 0.2, 0.04, 1}, [4]float64{0.9, 0.01, 0.03, 1}, [4]float64{0.9, 0.2, 0.01, 6}, [4]float64{0.9, 0, 0.1, 1})
	atOnce := logged([4]float64{0.5, 0.5, 0.5, 50}, [4]float64{0, 0.5, 0.5, 50}, [4]float64{0, 0.5, 0.5, 50}, [4]float64{0, 0.5, 0.5, 50})
	rs := Reinforcements{{History: rl.History{Recipe: "crash", Seed: 1}, Lines: crashing(), Bounds: testBounds}, {History: rl.History{Recipe: "sharp", Seed: 1}, Lines: sharp, Bounds: testBounds},
		{History: rl.History{Recipe: "at_once", Seed: 2}, Lines: atOnce, Bounds: testBounds}, {History: rl.History{Recipe: "no_metrics", Seed: 1}, Bounds: testBounds}}
	var got []string
	for _, w := range rs.Warnings() {
		lead, led := w.lead()
		got = append(got, fmt.Sprint(w.recipe, " ", w.bound.Diagnostic, " ", w.fired, " ", counted(lead, led), " ", w.verdict(), " ", w.extreme))
	}
	want := []string{
		"crash kl 3 2 announced 0.3", "crash entropy 0  missed 0.3", "crash clip 0  missed 0", "crash grad_norm 5 0 too late 1",
		"sharp kl 0  rightly silent 0.01", "sharp entropy 3  false alarm 0.03", "sharp clip 0  rightly silent 0", "sharp grad_norm 0  rightly silent 1",
		"at_once kl 2 -1 too late NaN", "at_once entropy 0  missed NaN", "at_once clip 0  missed NaN", "at_once grad_norm 2 -1 too late NaN",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}

	md := rs.Warnings().Markdown()
	for _, line := range []string{
		"| kl | above 0.1 | 2 | 1 of 2 | 2 | 0 of 1 | 0.01 | - |", "| entropy | below 0.05 | 2 | 0 of 2 | - | 1 of 1 | 0.03 | - |",
		"| crash | kl | announced | 1 | 8 | 0.6, 0.7, 0.1 | 5 | above 0.1 | 0.3 | 3 | 2 |",
		"| sharp | clip | rightly silent | 1 | 5 | 0.5, 0.9, 0.9 | - | above 0.2 | 0 | - | - |",
	} {
		if !strings.Contains(md, line+"\n") {
			t.Errorf("the page lacks %s:\n%s", line, md)
		}
	}
	// Without the run that collapsed at once, the columns show which bounds would separate the two others.
	if md := rs[:2].Warnings().Markdown(); !strings.Contains(md, "| kl | above 0.1 | 2 | 1 of 1 | 2 | 0 of 1 | 0.01 | 0.3 |\n") ||
		!strings.Contains(md, "| entropy | below 0.05 | 2 | 0 of 1 | - | 1 of 1 | 0.03 | 0.3 |\n") {
		t.Errorf("the columns of what separates are wrong:\n%s", md)
	}
	rows, err := csv.NewReader(strings.NewReader(string(rs.Warnings().CSV()))).ReadAll()
	if err != nil || len(rows) != 13 {
		t.Fatalf("%d lines, %v, want a header and one for each run and bound", len(rows), err)
	}
	if got, want := strings.Join(rows[1], ","), "crash,1,8,success,0.6,0.7,0.1,5,kl,0.1,2,0.3,3,0.3,2,announced"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := strings.Join(rows[8], ","), "sharp,1,5,success,0.5,0.9,0.9,,grad_norm,5,2,1,,,,rightly silent"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A killed and resumed run, or one that broke down, leaves such a file: an incomplete line, a step that was logged twice, values that are
// no numbers.
func TestWarningsOfAMendedLog(t *testing.T) {
	var text strings.Builder
	for _, line := range []string{`{"step":1,"kl":0.01,"success":0.8}`, `{"step":2,"kl":5,"success":0.8}`, `{"step":2,"kl":0.02,"success":0.8}`,
		`{"step":3,"kl":null,"success":0.7}`, `{"step":4,"kl":NaN,"success":0.6}`, `{"step":5,"kl":NaN,"success":0}`, `{"step":6,"success":0}`, `{"step":7,"kl":NaN,"success":0}`} {
		text.WriteString(line + "\n")
	}
	lines, err := report.ReadMetrics([]byte(text.String() + `{"step":8,"k`))
	if err != nil {
		t.Fatal(err)
	}
	ws := Reinforcements{{History: rl.History{Recipe: "mended", Seed: 1}, Lines: lines, Bounds: train.StopRule{MaxKL: 0.1, MinEntropy: 0.05}}}.Warnings()
	if len(ws) != 2 {
		t.Fatalf("%d warnings, want kl's and entropy's", len(ws))
	}
	kl, entropy := ws[0], ws[1]
	if kl.course.collapsed != 4 || kl.fired != 3 || kl.verdict() != "announced" || !math.IsInf(kl.extreme, 1) || kl.updates != 7 {
		t.Errorf("kl: %+v, want it to fire at 3 (NaN), a collapse by 4, and the step that was repeated to count once", kl)
	}
	if entropy.verdict() != "missed" || !math.IsNaN(entropy.extreme) {
		t.Errorf("entropy, which was not logged: %+v", entropy)
	}
}

// The extreme is where the bound would begin to fire, patience included.
func TestExtremeIsTheTightestSilentBound(t *testing.T) {
	lines := []train.StepLog{}
	for i, v := range []float64{0.3, 0.9, 0.2, 0.6, 0.5, 0.7, 0.1} {
		lines = append(lines, train.StepLog{Step: i + 1, Metrics: []train.Metric{{Name: "kl", Value: v}, {Name: "entropy", Value: v}}})
	}
	for patience, want := range map[int][2]float64{1: {0.9, 0.1}, 2: {0.5, 0.6}, 3: {0.5, 0.6}, 7: {0.1, 0.9}} {
		for i, rule := range []train.StopRule{{MaxKL: 1, Patience: patience}, {MinEntropy: 1, Patience: patience}} {
			got := extreme(rule.Bounds()[0], lines)
			if got != want[i] {
				t.Errorf("%s, patience %d: %g, want %g", rule.Bounds()[0].Diagnostic, patience, got, want[i])
			}
			silent, firing := rule, rule
			silent.MaxKL, firing.MaxKL = rule.MaxKL*got, rule.MaxKL*got*0.999
			silent.MinEntropy, firing.MinEntropy = rule.MinEntropy*got, rule.MinEntropy*got*1.001
			if at, _ := silent.Replay(lines); at >= 0 {
				t.Errorf("%+v fires at line %d", silent, at)
			}
			if at, _ := firing.Replay(lines); at < 0 {
				t.Errorf("%+v does not fire", firing)
			}
		}
	}
	if got := extreme((train.StopRule{MaxKL: 1, Patience: 8}).Bounds()[0], lines); !math.IsNaN(got) {
		t.Errorf("longer than the run: %g, want none", got)
	}
}
