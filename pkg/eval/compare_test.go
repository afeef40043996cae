package eval_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func setsOf(t *testing.T, trs []trajectory.Trajectory) []eval.Set {
	t.Helper()
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Sets(nil, nil)
}

// A solves tasks 0..5 at cost 3, B solves 2..9 at cost 2, the optimum is 1: lost 0 and 1, gained 6 to 9, half of A's
// excess gone on the four that both solve.
func TestCompareByHand(t *testing.T) {
	var trs []trajectory.Trajectory
	for i := range 10 {
		id := fmt.Sprint(i)
		trs = append(trs, episode("a", id, 0, 1, i < 6, "sql_query:3"), episode("b", id, 0, 1, i >= 2, "sql_query:2"))
	}
	s := setsOf(t, trs)
	c, err := eval.Compare(&s[0], &s[1], eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Lost, []string{"0", "1"}) || !slices.Equal(c.Gained, []string{"6", "7", "8", "9"}) || c.Tasks != 10 {
		t.Errorf("lost %v, gained %v of %d", c.Lost, c.Gained, c.Tasks)
	}
	if c.BothSolved != 4 || c.CostBaseline != 3 || c.CostLater != 2 || c.OptimalCost != 1 || c.GapClosed != 0.5 {
		t.Errorf("both solved %d at %v and %v, optimal %v, gap closed %v; want 4, 3, 2, 1, 0.5", c.BothSolved, c.CostBaseline, c.CostLater, c.OptimalCost, c.GapClosed)
	}
	if want := 0.6875; math.Abs(c.McNemarP-want) > 1e-12 { // 2 * (1 + 6 + 15) / 2^6
		t.Errorf("p = %v, want %v", c.McNemarP, want)
	}
	success := c.Difference[eval.MetricIndex("success_rate")]
	if math.Abs(success.Value-0.2) > 1e-12 || success.Excludes0() || c.Verdict("success_rate") != "no difference shown" {
		t.Errorf("success difference %v, want 0.2 with an interval that holds 0", success)
	}
	if cost := c.Difference[eval.MetricIndex("mean_cost")]; cost.Value != -1 || !math.IsNaN(cost.Lo) || !math.IsNaN(cost.Hi) { // paired: always one less, so there is no spread
		t.Errorf("cost difference %v, want exactly -1 without an interval", cost)
	}
}

// Pairing must take the spread between tasks out: with B one task better everywhere on a long list the interval excludes 0.
func TestCompareImproves(t *testing.T) {
	var trs []trajectory.Trajectory
	for i := range 200 {
		id := fmt.Sprintf("%03d", i)
		trs = append(trs, episode("a", id, 0, 1, i%2 == 0, "sql_query:1"), episode("b", id, 0, 1, i%2 == 0 || i%20 == 1, "sql_query:1"))
	}
	s := setsOf(t, trs)
	c, err := eval.Compare(&s[0], &s[1], eval.Options{})
	if err != nil || c.Verdict("success_rate") != "a gain" {
		t.Errorf("10 gained of 200, none lost: %v, %v; want an improvement", c.Difference[0], err)
	}
	back, err := eval.Compare(&s[1], &s[0], eval.Options{})
	if err != nil || back.Verdict("success_rate") != "a loss" {
		t.Errorf("the other way round: %v, %v; want a loss", back.Difference[0], err)
	}
}

func TestCompareDifferentSeeds(t *testing.T) {
	var trs []trajectory.Trajectory
	for i := range 4 {
		id := fmt.Sprint(i)
		trs = append(trs, episode("a", id, 0, 1, false, "sql_query:1"))
		for seed := range uint64(2) {
			tr := episode("b", id, 0, 1, seed == 0, "sql_query:1")
			tr.Seed = seed
			trs = append(trs, tr)
		}
	}
	s := setsOf(t, trs)
	c, err := eval.Compare(&s[0], &s[1], eval.Options{})
	if err != nil || c.Difference[0] != (eval.Interval{Value: 0.5, Lo: 0, Hi: 1}) { // one seed solves all, the other none
		t.Errorf("success difference %v, %v; want the mean over b's seeds, 0.5, between the two", c.Difference[0], err)
	}
}

// Two methods do the same on all ten tasks. The share of all tasks on which they differ may then be up to 0.308, either way (Clopper-Pearson).
func TestCompareWithoutADiscordantPair(t *testing.T) {
	var same, all []trajectory.Trajectory
	for i := range 10 {
		id := fmt.Sprint(i)
		same = append(same, episode("a", id, 0, 1, i < 4, "sql_query:1"), episode("b", id, 0, 1, i < 4, "sql_query:1"))
		all = append(all, episode("a", id, 0, 1, false, "sql_query:1"), episode("b", id, 0, 1, true, "sql_query:1"))
	}
	for _, tc := range []struct {
		trs  []trajectory.Trajectory
		want eval.Interval
	}{{same, eval.Interval{Value: 0, Lo: -0.3085, Hi: 0.3085}}, {all, eval.Interval{Value: 1, Lo: 0.3830, Hi: 1}}} {
		s := setsOf(t, tc.trs)
		c, err := eval.Compare(&s[0], &s[1], eval.Options{Resamples: 50})
		if err != nil {
			t.Fatal(err)
		}
		got := c.Difference[eval.MetricIndex("success_rate")]
		if got.Value != tc.want.Value || math.Abs(got.Lo-tc.want.Lo) > 1e-4 || math.Abs(got.Hi-tc.want.Hi) > 1e-4 {
			t.Errorf("success difference %v, want %v", got, tc.want)
		}
		if cost := c.Difference[eval.MetricIndex("mean_cost")]; cost.Value != 0 || !math.IsNaN(cost.Lo) {
			t.Errorf("cost difference %v, want 0 without an interval", cost)
		}
	}
}

// The seeds of a pair are drawn together: a step that brings the same to seeds of very different success has a narrow interval.
func TestComparePairsSeeds(t *testing.T) {
	var trs []trajectory.Trajectory
	for seed := range 3 {
		for i := range 100 {
			id := fmt.Sprintf("%02d", i)
			a, b := episode("a", id, 0, 1, i < 30*seed, "sql_query:1"), episode("b", id, 0, 1, i < 30*seed+20, "sql_query:1")
			a.Seed, b.Seed = uint64(seed), uint64(seed)
			trs = append(trs, a, b)
		}
	}
	s := setsOf(t, trs)
	c, err := eval.Compare(&s[0], &s[1], eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Difference[0]; math.Abs(d.Value-0.2) > 1e-9 || d.Lo < 0.1 || d.Hi > 0.3 {
		t.Errorf("success difference %v, want 0.2 and an interval of tasks alone, as every seed gains as much", d)
	}
}

func TestCompareNothingInCommon(t *testing.T) {
	s := setsOf(t, []trajectory.Trajectory{episode("a", "x", 0, 1, true), episode("b", "y", 0, 1, true)})
	if _, err := eval.Compare(&s[0], &s[1], eval.Options{}); err == nil || !strings.Contains(err.Error(), "no task in common") {
		t.Errorf("got %v, want an error", err)
	}
}

func TestRoutingByHand(t *testing.T) {
	trs := handMade() // gold sql; used sql, web, sql+doc (the failed call counts), sql
	doc := episode("m", "c", 0, 2, false)
	doc.Task.Combination, doc.Task.GoldCalls = "sql_query+doc_search", map[string]int{"sql_query": 1, "doc_search": 1}
	s := setsOf(t, append(trs, doc))
	m := eval.Routing(&s[0])
	if got, want := fmt.Sprint(m.Gold, m.Used, m.Count), "[sql_query sql_query+doc_search] [sql_query sql_query+doc_search none web_search] [[2 1 0 1] [0 0 1 0]]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m.Accuracy() != 0.4 {
		t.Errorf("accuracy %v, want 2/5", m.Accuracy())
	}
}

func TestCallsByToolByHand(t *testing.T) {
	s := setsOf(t, handMade())
	var got []string
	for _, u := range eval.CallsByTool(&s[0]) {
		got = append(got, fmt.Sprintf("%s gold %d used %d wasted %d (%s) saved %d missing %d avoided %d failed %d",
			u.Tool, u.Gold, u.Used, u.Wasted, u.WastedCost, u.Saved, u.Missing, u.Avoided, u.Failed))
	}
	want := []string{
		"doc_search gold 0 used 1 wasted 1 (2) saved 0 missing 0 avoided 3 failed 0",
		"sql_query gold 4 used 3 wasted 0 (0) saved 0 missing 1 avoided 0 failed 1",
		"web_search gold 0 used 1 wasted 1 (5) saved 0 missing 0 avoided 3 failed 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestToolOrderFollowsTheCombinations(t *testing.T) {
	trs := []trajectory.Trajectory{episode("m", "1", 0, 1, true), episode("m", "2", 0, 1, true), episode("m", "3", 0, 1, true)}
	trs[0].Task.Combination, trs[1].Task.Combination, trs[2].Task.Combination = "web+calc", "sql+web", "doc"
	s := setsOf(t, trs)
	if got := eval.ToolOrder(s[0].Cells); !slices.Equal(got, []string{"doc", "sql", "web", "calc"}) {
		t.Errorf("order %v", got)
	}
}

func TestStrata(t *testing.T) {
	trs := synthetic(12, 1, 1)
	for i := range trs {
		trs[i].Task.Hops = 1 + i%2*9 // 1 and 10: numbers sort by size
	}
	c, err := eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"difficulty": "1:8 2:4", "hops": "1:6 10:6", "combination": "doc_search+calculator:4 sql_query:8", "template": "t1:12",
		"tags": "new_filling:4 unseen_phrasing:4", "phrasing": "seen phrasing:8 unseen phrasing:4", "split": "test:12",
	} {
		d := dimension(t, name)
		var got []string
		for _, s := range eval.Strata(c, d, eval.Options{Resamples: 50}) {
			got = append(got, fmt.Sprintf("%s:%d", s.Name, s.Tasks))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
	s := eval.Strata(c, dimension(t, "difficulty"), eval.Options{Resamples: 50})[1] // tasks 0, 3, 6, 9: 0, 10, 9, 8 of 11, more than 3
	if got := s.Get("success_rate").Value; got != 0.75 {
		t.Errorf("success of difficulty 2 = %v, want 0.75", got)
	}
}

// ownDimensions are those of a suite: by a tag, and by the split.
var ownDimensions = []eval.Dimension{
	suite.SeenInTraining("phrasing", "phrasing", func(_ string, t *trajectory.Task) bool { return slices.Contains(t.Tags, "unseen_phrasing") }),
	{Name: "split", Title: "split", Of: func(split string, _ *trajectory.Task) []string { return []string{split} }},
}

func dimension(t *testing.T, name string) eval.Dimension {
	t.Helper()
	all := eval.Dimensions(ownDimensions)
	i := slices.IndexFunc(all, func(d eval.Dimension) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("no dimension is named %s", name)
	}
	return all[i]
}
