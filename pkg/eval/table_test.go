package eval_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// episode builds a record by hand: calls are "tool:price", a "!" after it marks a failed call, "?" an invalid action.
func episode(method, task string, attempt int, optimal float64, verified bool, calls ...string) trajectory.Trajectory {
	t := trajectory.Trajectory{
		Version: trajectory.Version, EpisodeID: fmt.Sprint(method, "/", task, "/", attempt), Suite: "company", Split: "test", Method: method,
		Model: "-", BudgetMode: "soft", Decoding: "greedy", Attempt: attempt, End: trajectory.Finished,
		Task: trajectory.Task{ID: task, Combination: "sql_query", OptimalCost: price.Of(optimal), Difficulty: 1, Hops: 1,
			Template: "t1", Structure: "A", GoldCalls: map[string]int{"sql_query": 1, "finish": 1}},
		Outcome: trajectory.Outcome{Verified: verified, Correct: verified, Evidenced: verified},
	}
	for _, c := range append(calls, "finish:0") {
		turn := trajectory.Turn{ModelTime: 1, ToolTime: 0.5}
		name, amount, _ := strings.Cut(c, ":")
		switch {
		case c == "?":
			turn.ErrorKind = "no_block"
			t.Outcome.Invalid++
		default:
			turn.Failed = strings.HasSuffix(amount, "!")
			if turn.Failed {
				turn.ErrorKind = "call_failed"
				t.Outcome.Failed++
			}
			p, err := price.Parse(strings.TrimSuffix(amount, "!"))
			if err != nil {
				panic(err)
			}
			turn.Price = p
			t.Outcome.Spend += p
			turn.Action = &trajectory.Action{Tool: name, Args: json.RawMessage("{}")}
		}
		t.Turns = append(t.Turns, turn)
	}
	return t
}

// Two tasks with two attempts each:
//
//	a0 solved, sql (1);                  a1 failed, web (5) and an invalid action
//	b0 solved, sql failed (1), doc (2);  b1 solved, sql (1)
//
// success (1/2 + 1)/2 = 0.75; cost ((1+5)/2 + (3+1)/2)/2 = 2.5; per solved (1+3+1)/3; ratio (1+3+1)/(1+1+1);
// success/cost 0.3; invalid 1 of the 2+3+3+2 actions; calls (1+1+2+1)/4 = 1.25; pass@2 = (1 + 1)/2.
func handMade() []trajectory.Trajectory {
	trs := []trajectory.Trajectory{
		episode("m", "a", 0, 1, true, "sql_query:1"),
		episode("m", "a", 1, 1, false, "?", "web_search:5"),
		episode("m", "b", 0, 1, true, "sql_query:1!", "doc_search:2"),
		episode("m", "b", 1, 1, true, "sql_query:1"),
	}
	return trs
}

func rowsOf(t *testing.T, trs []trajectory.Trajectory, columns []eval.Column, opts eval.Options) []eval.Row {
	t.Helper()
	c, err := eval.Collect(trs, columns)
	if err != nil {
		t.Fatal(err)
	}
	return eval.Table(c, opts)
}

func Example() {
	c, err := eval.Collect(handMade(), nil)
	if err != nil {
		panic(err)
	}
	row := eval.Table(c, eval.Options{})[0]
	fmt.Println(row.Method, row.Tasks, row.K, row.Get("success_rate").Value, row.Get("mean_cost").Value)
	// Output: m 2 2 0.75 2.5
}

func TestRowByHand(t *testing.T) {
	rows := rowsOf(t, handMade(), nil, eval.Options{})
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	r := rows[0]
	for name, want := range map[string]float64{
		"success_rate": 0.75, "mean_cost": 2.5, "mean_cost_per_solved": 5.0 / 3, "cost_ratio": 5.0 / 3, "success_per_unit_cost": 0.3,
		"invalid_action_rate": 0.1, "guess_rate": 0, "calls_per_task": 1.25, "pass_at_1": 0.75, "pass_at_k": 1,
	} {
		v := r.Get(name)
		if math.Abs(v.Value-want) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, v.Value, want)
		}
		if !(v.Lo <= v.Value && v.Value <= v.Hi) {
			t.Errorf("%s: interval [%v, %v] does not hold the value %v", name, v.Lo, v.Hi, v.Value)
		}
	}
	if s := r.Get("success_rate"); s.Lo != 0.5 || s.Hi != 1 { // two cells of 0.5 and 1
		t.Errorf("success interval [%v, %v], want [0.5, 1]", s.Lo, s.Hi)
	}
	if l := r.Latency; l.ModelP50.Value != 2 || l.ModelP95.Value != 3 || l.ToolP50.Value != 1 || l.ToolP95.Value != 1.5 || l.TotalP95.Value != 4.5 {
		t.Errorf("latency %+v, want model 2 and 3, tool 1 and 1.5, total 4.5", l)
	}
	if r.FailedCalls != 1 || r.Ends["finished"] != 4 || r.Episodes != 4 {
		t.Errorf("failed calls %d, ends %v, episodes %d", r.FailedCalls, r.Ends, r.Episodes)
	}
}

func TestCSV(t *testing.T) {
	trs := handMade()
	trs[1].Outcome.Correct = true // right, not seen: a guess
	cols := []eval.Column{
		{Name: "at_cheapest", Ratio: func(tr *trajectory.Trajectory) (float64, float64) {
			if !tr.Outcome.Verified {
				return 0, 0
			}
			if tr.Outcome.Spend == tr.Task.OptimalCost {
				return 1, 1
			}
			return 0, 1
		}},
		{Name: "worst_task", MinBy: func(tr *trajectory.Trajectory) string { return tr.Task.ID },
			Ratio: func(tr *trajectory.Trajectory) (float64, float64) {
				if tr.Outcome.Verified {
					return 1, 1
				}
				return 0, 1
			}},
	}
	cols = append(cols, eval.Column{Name: "failed_call_tasks", Total: true, Ratio: func(tr *trajectory.Trajectory) (float64, float64) {
		return float64(min(1, tr.Outcome.Failed)), 0
	}})
	opts := eval.Options{Training: func(k eval.Key, seeds []uint64) (eval.Training, bool) {
		return eval.Training{Seeds: seeds, Tokens: 1000, Processed: 3000, Episodes: 20, Demonstrations: 18896, DemoWorlds: []uint64{1, 7, 9}, WallSeconds: 1.5}, k.Method == "m"
	}}
	lines, err := csv.NewReader(bytes.NewReader(eval.ResultsTable(rowsOf(t, trs, cols, opts), cols).CSV())).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	const stable = "suite,method,model,split,budget,decoding,temperature,seeds,n_tasks,k,success_rate,success_lo,success_hi,mean_cost,mean_cost_per_solved,cost_ratio,success_per_unit_cost,invalid_action_rate,guess_rate,calls_per_task,pass_at_1,pass_at_k"
	if got := strings.Join(lines[0], ","); !strings.HasPrefix(got, stable+",mean_cost_lo,mean_cost_hi,") {
		t.Errorf("header %s", got)
	}
	got := map[string]string{}
	for i, h := range lines[0] {
		if _, twice := got[h]; twice {
			t.Errorf("column %s occurs twice", h)
		}
		got[h] = lines[1][i]
	}
	for h, want := range map[string]string{"success_rate": "0.75", "mean_cost": "2.5", "cost_ratio": "1.666667", "guess_rate": "0.25", "k": "2", "n_tasks": "2",
		"seeds": "1", "temperature": "0", "at_cheapest": "0.666667", "worst_task": "0.5", "failed_call_tasks": "1", "failed_call_tasks_lo": "0", "failed_call_tasks_hi": "2", "train_tokens": "1000", "train_wall_s": "1.5",
		"pass_at_k_tasks": "2", "train_processed_tokens": "3000", "train_demonstrations": "18896", "train_seeds": "0", "train_demo_worlds": "3", "train_demo_world_seeds": "1 7 9",
		"train_rollout_worlds": "0", "train_rollout_world_seeds": ""} {
		if got[h] != want {
			t.Errorf("%s = %q, want %q", h, got[h], want)
		}
	}
}

func TestNothingSolved(t *testing.T) {
	r := rowsOf(t, []trajectory.Trajectory{episode("m", "a", 0, 1, false)}, nil, eval.Options{})[0]
	for name, want := range map[string]string{"success_rate": "0", "mean_cost": "0", "mean_cost_per_solved": "", "cost_ratio": "",
		"success_per_unit_cost": "", "invalid_action_rate": "0", "pass_at_1": "0", "pass_at_k": "0"} {
		if got := eval.Number(r.Get(name).Value); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if r.K != 1 || r.Tasks != 1 {
		t.Errorf("k %d, tasks %d; want 1, 1", r.K, r.Tasks)
	}
}

// Task a has four attempts and one success, task b one attempt, which succeeded: each counts as one task.
func TestDifferentAttemptsPerTask(t *testing.T) {
	trs := []trajectory.Trajectory{episode("m", "b", 0, 1, true, "sql_query:1")}
	for i := range 4 {
		trs = append(trs, episode("m", "a", i, 1, i == 2, "sql_query:1"))
	}
	r := rowsOf(t, trs, nil, eval.Options{})[0]
	if got := r.Get("success_rate").Value; got != 0.625 {
		t.Errorf("success %v, want (1/4 + 1)/2", got)
	}
	for _, tc := range []struct {
		passK, k, tasks int
		want            float64
	}{
		{0, 4, 1, 1}, // all attempts: b has too few and is left out; pass@1 of b does not stand for pass@4
		{1, 1, 2, 0.625},
		{2, 2, 1, 0.5}, // 1 - C(3,2)/C(4,2)
		{4, 4, 1, 1},
		{8, 8, 0, math.NaN()}, // no task has 8, and pass@4 is not pass@8
	} {
		r := rowsOf(t, trs, nil, eval.Options{PassK: tc.passK})[0]
		if got := r.Get("pass_at_k").Value; r.K != tc.k || r.PassKTasks != tc.tasks || !(math.Abs(got-tc.want) < 1e-12 || math.IsNaN(got) && math.IsNaN(tc.want)) {
			t.Errorf("pass_k %d: pass@%d = %v over %d tasks, want pass@%d = %v over %d", tc.passK, r.K, got, r.PassKTasks, tc.k, tc.want, tc.tasks)
		}
	}
	// Nor in a stratum that none of the tasks with four attempts is in.
	trs[0].Task.Difficulty = 3
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range eval.Strata(c, dimension(t, "difficulty"), eval.Options{}) {
		if got := s.Get("pass_at_k").Value; s.K != 4 || (s.Name == "3") != (s.PassKTasks == 0) || (s.Name == "3") != math.IsNaN(got) {
			t.Errorf("difficulty %s: pass@%d = %v over %d tasks", s.Name, s.K, got, s.PassKTasks)
		}
	}
}

func TestDuplicateEpisode(t *testing.T) {
	trs := handMade()
	if _, err := eval.Collect(append(trs, trs[0]), nil); err == nil || !strings.Contains(err.Error(), "occurs twice") {
		t.Errorf("got %v, want an error that says the attempt occurs twice", err)
	}
}

// A call that a hard budget refused is in the record but was not carried out.
func TestRefusedCallIsNoCall(t *testing.T) {
	tr := episode("m", "a", 0, 1, false, "sql_query:1", "web_search:0")
	tr.Turns = tr.Turns[:2] // no finish
	tr.Turns[1].Refused, tr.End = true, trajectory.Budget
	if r := rowsOf(t, []trajectory.Trajectory{tr}, nil, eval.Options{})[0]; r.Get("calls_per_task").Value != 1 {
		t.Errorf("calls %v, want 1", r.Get("calls_per_task").Value)
	}
}

// The order in which trajectories come and the number of processors do not change a byte; the seed of the bootstrap does.
func TestDeterministic(t *testing.T) {
	trs := synthetic(40, 3, 2)
	table := func(trs []trajectory.Trajectory, opts eval.Options) string {
		return string(eval.ResultsTable(rowsOf(t, trs, nil, opts), nil).CSV())
	}
	want := table(trs, eval.Options{Resamples: 200})
	slices.Reverse(trs)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if got := table(trs, eval.Options{Resamples: 200}); got != want {
		t.Errorf("another order of trajectories gives another table:\n%s\n%s", got, want)
	}
	if got := table(trs, eval.Options{Resamples: 200, Seed: 1}); got == want {
		t.Error("another seed gives the same intervals")
	}
}

// Seeds are resampled with the tasks. The interval of a row is as wide as its seeds are apart. If all seeds do the same, it is as wide as
// that of one seed.
func TestSeedsAreResampled(t *testing.T) {
	row := func(solved func(seed, task int) bool, seeds int) eval.Row {
		var trs []trajectory.Trajectory
		for seed := range seeds {
			for task := range 100 {
				tr := episode("m", fmt.Sprintf("%02d", task), 0, 1, solved(seed, task), "sql_query:1")
				tr.Seed = uint64(seed)
				trs = append(trs, tr)
			}
		}
		return rowsOf(t, trs, nil, eval.Options{})[0]
	}
	success := func(solved func(seed, task int) bool, seeds int) eval.Interval {
		r := row(solved, seeds)
		return r.Get("success_rate")
	}
	apart := success(func(seed, task int) bool { return task < []int{10, 50, 90}[seed] }, 3)
	if math.Abs(apart.Value-0.5) > 1e-12 || apart.Lo > 0.15 || apart.Hi < 0.85 {
		t.Errorf("seeds of 0.1, 0.5 and 0.9: %v, want an interval over most of that", apart)
	}
	half := func(_, task int) bool { return task%2 == 0 }
	one, same := success(half, 1), success(half, 3)
	if math.Abs(one.Lo-same.Lo) > 0.02 || math.Abs(one.Hi-same.Hi) > 0.02 || same.Hi-same.Lo < 0.15 {
		t.Errorf("three seeds that do the same: %v, one of them %v", same, one)
	}
	if r := row(half, 3); r.Seeds != 3 || r.Tasks != 100 {
		t.Errorf("seeds %d, tasks %d; want 3, 100", r.Seeds, r.Tasks)
	}
}

// With 10 of 10 solved, or none, the interval of a share has a width in every table, whatever the attempts and the seeds. A figure that is
// no share has no interval if nothing differs.
func TestNoIntervalWithoutWidth(t *testing.T) {
	for _, tc := range []struct {
		name               string
		seeds, attempts, n int
		solved             func(attempt int) bool
		want               eval.Interval
	}{
		{"all of 10", 1, 1, 10, func(int) bool { return true }, eval.Interval{Value: 1, Lo: 0.6915, Hi: 1}},
		{"none of 10", 1, 1, 10, func(int) bool { return false }, eval.Interval{Value: 0, Lo: 0, Hi: 0.3085}},
		{"all of 10, three seeds, four attempts", 3, 4, 10, func(int) bool { return true }, eval.Interval{Value: 1, Lo: 0.6915, Hi: 1}},
		{"half of the attempts at each of 10", 1, 4, 10, func(a int) bool { return a%2 == 0 }, eval.Interval{Value: 0.5, Lo: 0.1871, Hi: 0.8129}},
		{"the only task", 1, 1, 1, func(int) bool { return true }, eval.Interval{Value: 1, Lo: 0.025, Hi: 1}},
	} {
		var trs []trajectory.Trajectory
		for seed := range tc.seeds {
			for task := range tc.n {
				for a := range tc.attempts {
					tr := episode("m", fmt.Sprint(task), a, 1, tc.solved(a), "sql_query:1")
					tr.Seed = uint64(seed)
					trs = append(trs, tr)
				}
			}
		}
		c, err := eval.Collect(trs, []eval.Column{{Name: "own", Share: true, Ratio: func(tr *trajectory.Trajectory) (float64, float64) {
			if tr.Outcome.Verified {
				return 1, 1
			}
			return 0, 1
		}}})
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got eval.Interval) {
			t.Helper()
			if math.Abs(got.Value-tc.want.Value) > 1e-9 || math.Abs(got.Lo-tc.want.Lo) > 1e-4 || math.Abs(got.Hi-tc.want.Hi) > 1e-4 {
				t.Errorf("%s, %s: %v, want %v", tc.name, what, got, tc.want)
			}
		}
		row := eval.Table(c, eval.Options{Resamples: 50})[0]
		near("success", row.Get("success_rate"))
		near("pass@1", row.Get("pass_at_1"))
		near("a suite's column", row.Own[0])
		values := row.Values
		for _, d := range eval.Dimensions(ownDimensions) {
			for _, s := range eval.Strata(c, d, eval.Options{Resamples: 50}) {
				near(d.Name, s.Get("success_rate"))
				values = append(values, s.Values...)
			}
		}
		for i, v := range values {
			if v.Hi-v.Lo < 1e-6 { // false where the ends are not given
				t.Errorf("%s, %s: %v has no width", tc.name, eval.Metrics[i%len(eval.Metrics)].Name, v)
			}
		}
		if cost := row.Get("mean_cost"); cost.Value != 1 || !math.IsNaN(cost.Lo) || !math.IsNaN(cost.Hi) {
			t.Errorf("%s: cost %v, want 1 without an interval", tc.name, cost)
		}
	}
}

func TestShareIntervals(t *testing.T) {
	shares := func(v ...float64) (out []eval.Share) {
		for i, x := range v {
			out = append(out, eval.Share{Seed: 1, Task: fmt.Sprint(i), Value: x})
		}
		return out
	}
	if got := eval.ShareInterval(shares(1, 1, 1, 1), eval.Options{}, "s"); math.Abs(got.Lo-0.3976) > 1e-4 || got.Hi != 1 {
		t.Errorf("4 of 4: %v, want from 0.3976", got)
	}
	if got := eval.DeltaInterval(shares(0, 0, 0, 0), eval.Options{}, "s"); math.Abs(got.Hi-0.6024) > 1e-4 || got.Lo != -got.Hi {
		t.Errorf("no difference in 4: %v, want 0.6024 either way", got)
	}
	if got := eval.ShareInterval(shares(0, 1), eval.Options{}, "s"); got != (eval.Interval{Value: 0.5, Lo: 0, Hi: 1}) {
		t.Errorf("1 of 2: %v", got)
	}
	if got := eval.ShareInterval(nil, eval.Options{}, "s"); !math.IsNaN(got.Value) {
		t.Errorf("of nothing: %v", got)
	}
}

// Rows of single seeds show what a pooled row hides. Sets of one seed have no such rows.
func TestBySeed(t *testing.T) {
	var trs []trajectory.Trajectory
	for seed := range 2 {
		for task := range 10 {
			for _, decoding := range []string{"greedy", "sampled"} {
				tr := episode("m", fmt.Sprint(task), 0, 1, task < 3+4*seed == (decoding == "greedy"), "sql_query:1")
				tr.Seed, tr.Decoding = uint64(seed+5), decoding
				trs = append(trs, tr)
			}
		}
	}
	trs = append(trs, episode("single", "0", 0, 1, true))
	cols := []eval.Column{{Name: "sampled", Decoding: "sampled", Share: true, Ratio: func(tr *trajectory.Trajectory) (float64, float64) {
		if tr.Outcome.Verified {
			return 1, 1
		}
		return 0, 1
	}}}
	c, err := eval.Collect(trs, cols)
	if err != nil {
		t.Fatal(err)
	}
	rows := eval.BySeed(c, eval.Options{Resamples: 50, Training: func(_ eval.Key, seeds []uint64) (eval.Training, bool) {
		return eval.Training{Seeds: seeds, Tokens: int64(seeds[0])}, true
	}})
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.Method, r.Decoding, r.Seed, r.Seeds, r.Get("success_rate").Value, r.Own[0].Value, r.Training.Tokens))
	}
	want := []string{"mgreedy5 1 0.3 0.7 5", "mgreedy6 1 0.7 0.3 6", "msampled5 1 0.7 0.7 5", "msampled6 1 0.3 0.3 6"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	lines, err := csv.NewReader(bytes.NewReader(eval.SeedsTable(rows, cols).CSV())).ReadAll()
	if err != nil || len(lines) != 5 || lines[0][7] != "seed" || lines[2][7] != "6" || len(lines[0]) != len(lines[1]) {
		t.Errorf("CSV %q, %v", lines, err)
	}
}

func TestSiblingColumn(t *testing.T) {
	greedy, sampled := episode("m", "a", 0, 1, false), episode("m", "a", 0, 1, true)
	sampled.Decoding, sampled.Temperature = "sampled", 0.7
	cols := []eval.Column{{Name: "chain_rate_sampled", Decoding: "sampled", Ratio: func(tr *trajectory.Trajectory) (float64, float64) {
		if tr.Outcome.Verified {
			return 1, 1
		}
		return 0, 1
	}}}
	for _, r := range rowsOf(t, []trajectory.Trajectory{greedy, sampled}, cols, eval.Options{}) {
		if r.Own[0].Value != 1 {
			t.Errorf("%s row: %v, want the sampled row's 1", r.Decoding, r.Own[0].Value)
		}
	}
}

// synthetic makes n tasks, k attempts, for m methods; outcomes vary with the task so that intervals have width.
func synthetic(n, m, k int) []trajectory.Trajectory {
	var trs []trajectory.Trajectory
	for method := range m {
		for task := range n {
			for a := range k {
				solved := (task*7+method*3+a*5)%11 > 3
				tr := episode(fmt.Sprintf("m%02d", method), fmt.Sprintf("t%04d", task), a, 1, solved, "sql_query:1", "doc_search:2")
				if task%3 == 0 {
					tr.Task.Combination, tr.Task.GoldCalls = "doc_search+calculator", map[string]int{"doc_search": 1, "calculator": 1}
					tr.Task.Difficulty, tr.Task.Tags = 2, []string{"unseen_phrasing", "new_filling"}
				}
				trs = append(trs, tr)
			}
		}
	}
	return trs
}

// 20 methods on 520 tasks with the default 2000 resamples, on one core: about a second.
func BenchmarkTable(b *testing.B) {
	trs := synthetic(520, 20, 1)
	c, err := eval.Collect(trs, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for b.Loop() {
		eval.Table(c, eval.Options{})
	}
}
