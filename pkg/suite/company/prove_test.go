package company

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
)

func withPrice(name string, p price.Amount) map[string]price.Amount {
	m := DefaultPrices()
	m[name] = p * price.Unit
	return m
}

func TestNothingLeaks(t *testing.T) {
	w, _ := defaultWorld(t)
	for _, l := range CheckLeaks(w, w.All()) {
		t.Error(l)
	}
}

// All tasks of the default world; in short tests those of a small world.
func TestNoCheaperSubsetSuffices(t *testing.T) {
	var w *World
	if testing.Short() {
		w = sharedWorld(t)
	} else {
		w, _ = defaultWorld(t)
	}
	start := time.Now()
	for _, s := range CheckCheapest(w, w.All()) {
		t.Error(s)
	}
	p := newProber(w)
	calls, forms := 0, map[string]bool{}
	for _, task := range w.tasks[Test][:20] {
		tried := p.attempts(task)
		calls += len(tried)
		for _, a := range tried {
			forms[a.tool] = true
		}
	}
	t.Logf("%d tasks in %v; of 20, %d calls a task showed something", len(w.All()), time.Since(start), calls/20)
	if calls < 20*20 || len(forms) != len(Tools) {
		t.Errorf("the proof tried %d calls that show something, of %v", calls, forms)
	}
}

// A fault of the evidence is found: values that may be read anywhere (as they could before tools named their sources), values that
// SQL may show where a calculation is asked for, a passage that the wrong search may show, a tool that nothing asks for.
func TestPlantedFaultsOfEvidenceAreFound(t *testing.T) {
	w := sharedWorld(t)
	p := newProber(w)
	sums, _ := single(t, w, SQL, opConst)
	web, lw := single(t, w, Web, oneFact)
	anywhere := func(x suite.Task) suite.Task {
		x.Evidence = source.Values(values(x.Evidence)...)
		return x
	}
	if !everyToolShows(sums) || !everyToolShows(web) {
		t.Fatalf("%v, %v: a tool shows nothing of its own", sums.Evidence, web.Evidence)
	}
	for name, x := range map[string]suite.Task{"a result that may be read anywhere": anywhere(sums), "a fact that may be read anywhere": anywhere(web)} {
		if everyToolShows(x) {
			t.Errorf("%s: passes", name)
		}
	}
	// SQL that shows the result: the rows that have the number in some column, once they may be its source.
	result := extraOf(sums).Result
	sums.Evidence = slices.Clone(sums.Evidence)
	last := &sums.Evidence[len(sums.Evidence)-1]
	if last.Value != result {
		t.Fatalf("%v: the result is not last", sums.Evidence)
	}
	tried := p.attempts(sums)
	cell := ""
	for _, a := range tried {
		for _, r := range a.obs.Reads {
			if part, _ := r.Part(a.obs.Text); a.tool == ToolSQL && len(r.From) > 0 {
				cell, last.Value = r.From[0], part
			}
		}
	}
	last.Sources = []string{cell}
	if everyToolShows(sums) || !p.evidenced(sums, []string{ToolSQL, ToolDoc, ToolWeb}, tried) {
		t.Errorf("%v: SQL shows it at %s, and the proof does not see it", sums.Evidence, cell)
	}
	if got := CheckCheapest(w, []suite.Task{sums}); len(got) == 0 {
		t.Error("a result that SQL may show passes")
	}
	// A passage that the other corpus holds.
	w.Docs, web.Evidence = append(slices.Clone(w.Docs), Document{ID: "planted", Passages: []string{lw.Subject + " " + lw.Words + " " + lw.Value}}), []source.Evidence{{Value: lw.Value, Sources: []string{"web:x#1", "doc:planted#0"}}}
	docs := w.Docs[:len(w.Docs)-1]
	w.stores.docs = index(Doc, w.Docs)
	got := newProber(w).evidenced(web, []string{ToolSQL, ToolDoc, ToolCalc}, newProber(w).attempts(web))
	w.Docs, w.stores.docs = docs, index(Doc, docs)
	if !got || everyToolShows(web) {
		t.Errorf("%v: a passage of the other corpus passes", web.Evidence)
	}
}

// single finds a task that rests on one fact of a store.
func single(t *testing.T, w *World, s Store, structure string) (suite.Task, Lookup) {
	t.Helper()
	for _, task := range w.All() {
		if x := extraOf(task); len(x.Lookups) > 0 && x.Lookups[len(x.Lookups)-1].Store == s && task.Structure == structure {
			return task, x.Lookups[len(x.Lookups)-1]
		}
	}
	t.Fatalf("no task with %s in %s", structure, s)
	panic("unreachable")
}

// A planted leak is found in the document, the page or the row it stands in, under the name or the alias, in other
// letters and with a thousands separator; the same value about another subject, or within a longer number, is no leak.
func TestPlantedLeaksAreFound(t *testing.T) {
	w := sharedWorld(t)
	web, lw := single(t, w, Web, oneFact)
	sql, ls := single(t, w, SQL, oneFact)
	doc, ld := single(t, w, Doc, oneFact)
	passage := func(docs *[]Document, text string) {
		*docs = append(slices.Clone(*docs), Document{ID: "planted", Passages: []string{text}})
	}
	for _, c := range []struct {
		name  string
		task  suite.Task
		where Store
		plant func()
		want  bool
	}{
		{"in a document", web, Doc, func() { passage(&w.Docs, "We heard that "+lw.Subject+" got "+lw.Value+" of it.") }, true},
		{"in a page", doc, Web, func() { passage(&w.Pages, ld.Value+" is what "+strings.ToUpper(ld.Subject)+" got.") }, true},
		{"by alias", sql, Web, func() { passage(&w.Pages, "Item "+w.byName[ls.Subject].Alias+": "+ls.Value) }, true},
		{"in a row", doc, SQL, func() {
			w.Tables = append(slices.Clone(w.Tables), Table{Name: "notes", Columns: []Column{{"text", "TEXT"}}, Rows: [][]string{{ld.Subject, ld.Value}}})
		}, true},
		{"about another subject", web, Doc, func() { passage(&w.Docs, "We heard that Nobody Else got "+lw.Value+" of it.") }, false},
		{"in its own store", web, Web, func() { passage(&w.Pages, lw.Subject+" "+lw.Value) }, false},
		{"within a longer word", web, Doc, func() { passage(&w.Docs, lw.Subject+" has 9"+lw.Value+"9 of it.") }, false},
	} {
		tables, docs, pages := w.Tables, w.Docs, w.Pages
		c.plant()
		got := CheckLeaks(w, []suite.Task{c.task})
		w.Tables, w.Docs, w.Pages = tables, docs, pages
		if c.want != (len(got) > 0) || c.want && (got[0].Task != c.task.ID || got[0].Store != c.where) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A fact written into another store makes a shortcut that the proof finds; so does the second half of a hop, and the
// result of a calculation.
func TestPlantedShortcutsAreFound(t *testing.T) {
	w := sharedWorld(t)
	web, lw := single(t, w, Web, oneFact)
	hops, lh := single(t, w, Web, hop)
	sums, lo := single(t, w, Web, opConst)
	for _, c := range []struct {
		name, text string
		task       suite.Task
		lacks      string // the gold tool that the shortcut does without
	}{
		{"a fact", "The " + lw.Words + " of " + lw.Subject + " is " + lw.Value + ".", web, ToolWeb},
		{"the end of a hop", "The " + lh.Words + " of " + lh.Subject + " is " + lh.Value + ".", hops, ToolWeb},
		{"a result", lo.Subject + ": " + lo.Words + " come to " + extraOf(sums).Result + " after " + lo.Value + ".", sums, ToolCalc},
	} {
		docs := w.Docs
		w.Docs = append(slices.Clone(docs), Document{ID: "planted", Passages: []string{c.text}})
		w.stores.docs = index(Doc, w.Docs)
		got := CheckCheapest(w, []suite.Task{c.task})
		w.Docs = docs
		w.stores.docs = index(Doc, docs)
		if !slices.ContainsFunc(got, func(s Shortcut) bool { return s.Task == c.task.ID && !slices.Contains(s.Tools, c.lacks) }) {
			t.Errorf("%s: %v", c.name, got)
		}
		if clean := CheckCheapest(w, []suite.Task{c.task}); len(clean) > 0 {
			t.Errorf("%s: without it: %v", c.name, clean)
		}
	}
}
