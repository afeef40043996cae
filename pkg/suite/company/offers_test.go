package company_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
)

// With random offers the optimal cost follows the offered prices and the oracle keeps to it; the gold tools are among the
// offered ones. They are given when a suite is opened: the data set does not know of them.
func TestRandomOffers(t *testing.T) {
	counts := map[string]int{company.Train: 240, company.Val: 20, company.ValCombo: 0, company.Test: 0, company.HeldoutCombo: 0, company.HeldoutTemplate: 0}
	w := generate(t, company.Options{Seed: 8, Counts: counts})
	dir := t.TempDir()
	if err := w.Write(dir); err != nil {
		t.Fatal(err)
	}
	s, err := company.Open(dir, company.Options{RandomOffers: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	plain, err := company.Open(dir, company.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	tasks, _ := s.Tasks(company.Train)
	usual, _ := plain.Tasks(company.Train)
	for i, x := range tasks {
		if len(usual[i].Offers) > 0 || usual[i].Question != x.Question || usual[i].ID != x.ID {
			t.Errorf("%s: the usual task %+v", x.ID, usual[i])
		}
	}
	val, _ := s.Tasks(company.Val)
	for _, x := range val {
		if len(x.Offers) > 0 {
			t.Errorf("%s has offers of its own: only train tasks do", x.ID)
		}
	}
	// In memory, and in a data set whose world was made with the option, the offers are the same.
	mem := generate(t, company.Options{Seed: 8, RandomOffers: 0.5, Counts: counts})
	same, _ := mem.Suite().Tasks(company.Train)
	if !reflect.DeepEqual(same, tasks) {
		t.Error("a suite in memory has other offers than one on disk")
	}
	other := t.TempDir()
	if err := mem.Write(other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.json", "tasks_train.jsonl"} {
		a, errA := os.ReadFile(filepath.Join(dir, name))
		b, errB := os.ReadFile(filepath.Join(other, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s depends on random offers (%v, %v)", name, errA, errB)
		}
	}
	own, fewer := 0, 0
	for _, x := range tasks {
		if len(x.Offers) == 0 {
			continue
		}
		own++
		prices := map[string]price.Amount{}
		for _, o := range x.Offers {
			prices[o.Tool] = o.Price.Base
		}
		if len(prices) < len(company.Tools) {
			fewer++
		}
		sum := price.Amount(0)
		for _, c := range x.Combination {
			if prices[c] == 0 {
				t.Errorf("%s does not offer %s", x.ID, c)
			}
			sum += prices[c]
		}
		if sum != x.OptimalCost {
			t.Errorf("%s costs %v, want %v", x.ID, x.OptimalCost, sum)
		}
		p, err := s.Prompt(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range x.Offers {
			if line := strings.Split(p.User, "\n")[i]; line != fmt.Sprintf("%s %v", o.Tool, o.Price.Base) {
				t.Errorf("%s: line %d of the prompt is %q", x.ID, i, line)
			}
		}
	}
	if own < len(tasks)/3 || own > 2*len(tasks)/3 || fewer < own/3 {
		t.Errorf("%d of %d tasks have offers of their own, %d of them fewer tools", own, len(tasks), fewer)
	}
	for _, tr := range play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Hard) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Errorf("%s: %+v", tr.Task.ID, tr.Outcome)
		}
	}
	if got := company.CheckCheapest(w, tasks); len(got) > 0 {
		t.Errorf("shortcuts: %v", got)
	}
	// Demonstrations are played at the offers of their tasks.
	for _, kind := range company.DemoKinds {
		demos, err := s.Demonstrations(t.Context(), kind, 1)
		if err != nil {
			t.Fatal(err)
		}
		own = 0
		for _, d := range demos {
			if len(d.Task.Offers) == 0 {
				continue
			}
			own++
			for _, c := range d.Calls[:len(d.Calls)-1] {
				if !slices.ContainsFunc(d.Task.Offers, func(o suite.Offer) bool { return o.Tool == c.Tool }) {
					t.Errorf("%s demonstration of %s calls %s, which is not offered", kind, d.Task.ID, c.Tool)
				}
			}
		}
		if own < len(demos)/4 {
			t.Errorf("%d of %d %s demonstrations have offers of their own", own, len(demos), kind)
		}
	}
}

// At other prices the same tasks have another optimal cost and budget, and the gold path is still proved the cheapest.
func TestAtOtherPrices(t *testing.T) {
	w := company.SharedWorld(t)
	s := w.Suite()
	tasks, _ := s.Tasks(company.Test)
	list := map[string]price.Amount{company.ToolSQL: price.Of(4), company.ToolDoc: price.Of(5), company.ToolWeb: price.Of(1)}
	shifted, err := s.At(list, "test_prices", tasks)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range shifted {
		was := tasks[i]
		if id, ok := company.Origin(x.ID); !ok || id != was.ID || x.ID == was.ID || x.Split != "test_prices" || x.Question != was.Question {
			t.Errorf("%s of split %s is not %s at other prices", x.ID, x.Split, was.ID)
		}
		want := price.Amount(0)
		for _, c := range was.Combination {
			if p, ok := list[c]; ok {
				want += p
			} else {
				want += company.DefaultPrices()[c]
			}
		}
		if x.OptimalCost != want || x.Budget != (want+want/2).RoundUp(price.Of(0.5)) {
			t.Errorf("%s: optimal cost %v and budget %v, want %v and 1.5 times that", x.ID, x.OptimalCost, x.Budget, want)
		}
		if was.OptimalCost == x.OptimalCost && slices.Contains(was.Combination, company.ToolWeb) && len(was.Combination) == 1 {
			t.Errorf("%s: the task it was made of changed", was.ID)
		}
	}
	for _, tr := range play(t, s, scripted.Oracle(shifted), rollout.Attempts(shifted, 1), episode.Hard) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Errorf("%s: %+v", tr.Task.ID, tr.Outcome)
		}
	}
	if got := company.CheckCheapest(w, shifted); len(got) > 0 {
		t.Errorf("shortcuts: %v", got)
	}
	if id, ok := company.Origin(tasks[0].ID); ok || id != tasks[0].ID {
		t.Errorf("%s is taken for a task at other prices", tasks[0].ID)
	}
	for want, list := range map[string]map[string]price.Amount{`no tool is named "web"`: {"web": price.Unit}, "price above 0": {company.ToolWeb: 0}} {
		if _, err := s.At(list, "x", tasks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("prices %v: %v, want an error that says %q", list, err, want)
		}
	}
}

// The stratum two_source is off by default. When on, its facts stand in both corpora and the gold tool is the cheaper one
// at the task's prices, sometimes the documents, sometimes the web.
func TestTwoSource(t *testing.T) {
	counts := map[string]int{company.Train: 240, company.Val: 10, company.ValCombo: 6, company.Test: 84, company.HeldoutCombo: 12, company.HeldoutTemplate: 12, company.TwoSourceTest: 40}
	w := generate(t, company.Options{Seed: 9, TwoSource: true, Counts: counts})
	s := w.Suite()
	if slices.Contains(company.SharedWorld(t).Splits(), company.TwoSourceTest) {
		t.Error("the stratum is on by default")
	}
	tasks := w.Tasks(company.TwoSourceTest)
	gold := map[string]int{}
	for _, x := range tasks {
		gold[x.CombinationKey()]++
		for _, o := range x.Offers {
			if o.Tool == company.ToolDoc && o.Price.Base < x.OptimalCost || o.Tool == company.ToolWeb && o.Price.Base < x.OptimalCost {
				t.Errorf("%s: %s at %v is cheaper than %v", x.ID, o.Tool, o.Price.Base, x.OptimalCost)
			}
		}
	}
	if len(tasks) != 40 || gold[company.ToolDoc] < 5 || gold[company.ToolWeb] < 5 || len(gold) != 2 {
		t.Errorf("%d tasks, gold tools %v", len(tasks), gold)
	}
	for _, tr := range play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Hard) {
		if !tr.Outcome.Verified {
			t.Errorf("%s: %+v", tr.Task.ID, tr.Outcome)
		}
	}
	// Train shows the choice too, at every price list; base shows nothing of it.
	lists := map[string]int{}
	for _, x := range w.Tasks(company.Train) {
		if x.HasTag(company.TagTwoSource) {
			lists[company.PriceList(x)]++
		}
	}
	if len(lists) != 4 {
		t.Errorf("two_source tasks of train by price list: %v, want four lists", lists)
	}
	base, err := s.Demonstrations(t.Context(), company.DemoBase, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range base {
		if strings.Contains(d.Task.Question, "guide price") {
			t.Errorf("a base demonstration asks %q: one tool of two that answer it", d.Task.Question)
		}
	}
	if _, err := s.At(nil, "x", tasks); err == nil || !strings.Contains(err.Error(), "depends on the prices") {
		t.Errorf("two_source tasks at other prices: %v", err)
	}
	for _, f := range company.CheckSplits(w.All()) {
		t.Error(f)
	}
	if got := company.CheckCheapest(w, w.All()); len(got) > 0 {
		t.Errorf("shortcuts: %v", got)
	}
	dir := t.TempDir()
	if err := w.Write(dir); err != nil {
		t.Fatal(err)
	}
	// Other prices at Open: optimal costs and budgets follow.
	o, err := company.Open(dir, company.Options{Prices: map[string]price.Amount{company.ToolSQL: price.Of(3), company.ToolDoc: price.Of(2), company.ToolWeb: price.Of(5), company.ToolCalc: price.Of(0.5)}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	test, _ := o.Tasks(company.Test)
	for i, x := range test {
		was := w.Tasks(company.Test)[i]
		want := was.OptimalCost
		if slices.Contains(x.Combination, company.ToolSQL) {
			want += price.Of(2)
		}
		if x.OptimalCost != want {
			t.Errorf("%s: optimal cost %v at the new prices, want %v", x.ID, x.OptimalCost, want)
		}
	}
}
