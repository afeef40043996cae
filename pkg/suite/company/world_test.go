package company

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/toolroute/toolroute/pkg/suite"
)

var full struct {
	once sync.Once
	w    *World
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, w := range []*World{full.w, shared.w} {
		if w != nil {
			w.Close()
		}
	}
	os.RemoveAll(full.dir)
	os.Exit(code)
}

// defaultWorld is the world of the default options, made once and written once. Tests that change a world make their own.
func defaultWorld(t *testing.T) (*World, string) {
	t.Helper()
	full.once.Do(func() {
		if full.dir, full.err = os.MkdirTemp("", "company-test-*"); full.err != nil {
			return
		}
		if full.w, full.err = Generate(Options{Seed: 1}); full.err == nil {
			full.err = full.w.Write(full.dir)
		}
	})
	if full.err != nil {
		t.Fatal(full.err)
	}
	return full.w, full.dir
}

// few are counts for tests that need tasks of every split but not many.
var few = map[string]int{Train: 240, Val: 42, ValCombo: 12, Test: 126, HeldoutCombo: 36, HeldoutTemplate: 18}

var shared struct {
	once sync.Once
	w    *World
	err  error
}

// sharedWorld is a small world of seed 5 that tests may change as long as they put it back.
func sharedWorld(t *testing.T) *World {
	t.Helper()
	shared.once.Do(func() {
		shared.w, shared.err = Generate(Options{Seed: 5, Counts: few})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.w
}

func smallWorld(t *testing.T, opt Options) *World {
	t.Helper()
	if opt.Counts == nil {
		opt.Counts = few
	}
	w, err := Generate(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A second run, on one CPU, gives the same bytes in every file; another seed gives other names, values and tasks.
func TestOneSeedOneWorld(t *testing.T) {
	_, dir := defaultWorld(t)
	first := read(t, dir)
	if len(first) != 10 {
		t.Errorf("the data set has %d files, want 10", len(first))
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w, err := Generate(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	again := t.TempDir()
	if err := w.Write(again); err != nil {
		t.Fatal(err)
	}
	second := read(t, again)
	for name, b := range first {
		if !bytes.Equal(b, second[name]) {
			t.Errorf("%s differs on the second run", name)
		}
	}
	if bytes.Contains(first[manifestFile], []byte(dir)) || bytes.Contains(first[manifestFile], []byte(os.TempDir())) {
		t.Error("the manifest holds a path")
	}

	other := smallWorld(t, Options{Seed: 2})
	shared := 0
	for _, e := range other.all {
		if o := full.w.byName[e.Name]; o != nil {
			shared++
			if o.Pool == e.Pool && o.values["unit_price"] != "" && o.values["unit_price"] == e.values["unit_price"] && o.values["supplier"] == e.values["supplier"] {
				t.Errorf("%s is the same in both worlds", e.Name)
			}
		}
	}
	if shared == len(other.all) {
		t.Error("another seed gives the same names")
	}
}

func TestSizes(t *testing.T) {
	w, _ := defaultWorld(t)
	m := w.Manifest()
	rows := 0
	for _, table := range w.Tables {
		rows += len(table.Rows)
	}
	if len(w.Tables) < 7 || rows < 3000 || m.World["docs"] < 150 || m.World["web_pages"] < 150 {
		t.Errorf("%d tables with %d rows, %d documents, %d pages", len(w.Tables), rows, m.World["docs"], m.World["web_pages"])
	}
	for split, want := range map[string]int{Train: 3160, Val: 200, ValCombo: 60, Test: 520, HeldoutCombo: 200, HeldoutTemplate: 150} {
		if got := m.Counts[split].Tasks; got != want {
			t.Errorf("%s has %d tasks, want %d", split, got, want)
		}
	}
	train := m.Counts[Train]
	if len(train.Template) < 18 || len(train.Pairs) < 18 || len(train.Combination) != 12 {
		t.Errorf("train has %d templates, %d (combination, structure) pairs, %d combinations; want at least 18, 18 and 12",
			len(train.Template), len(train.Pairs), len(train.Combination))
	}
	for split, c := range m.Counts {
		for name, n := range c.Template {
			if (split == Val || split == Test) && n > c.Tasks/6 {
				t.Errorf("%s: %d of %d tasks are of template %s", split, n, c.Tasks, name)
			}
		}
	}
	if n := m.Counts[Test].Tags[TagUnseenPhrasing]; n < 60 || n > 120 {
		t.Errorf("%d test tasks have an unseen wording", n)
	}
	if c := m.Counts[HeldoutCombo]; c.Tags[TagNewFilling] < 60 || c.Tags[TagNewStructure] < 60 ||
		c.Combination["doc_search+web_search+calculator"] < 60 || c.Combination["sql_query+doc_search"] < 60 {
		t.Errorf("held-out combinations: %v, %v", c.Combination, c.Tags)
	}
	yes, no := 0, 0
	for _, task := range w.Tasks(Train) {
		if task.Answer.Type == suite.YesNo {
			if task.Answer.Values[0] == "yes" {
				yes++
			} else {
				no++
			}
		}
	}
	if yes < no/2 || no < yes/2 {
		t.Errorf("%d answers are yes, %d no", yes, no)
	}
}

// Questions, values, prompts and observations stay within what a tiny model reads and copies.
func TestFitsATinyModel(t *testing.T) {
	w, _ := defaultWorld(t)
	s := w.Suite()
	words := map[string]bool{}
	spell := func(text string, f func(string)) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
			f(word)
		}
	}
	for _, task := range w.All() {
		if n := len(strings.Fields(task.Question)); n > 30 {
			t.Errorf("%s: %d words: %s", task.ID, n, task.Question)
		}
		p, err := s.Prompt(task)
		if err != nil {
			t.Fatal(err)
		}
		if n := tokens(p.User); n > 120 || p.System != "" {
			t.Errorf("%s: a prompt of %d tokens: %s", task.ID, n, p.User)
		}
		for _, e := range task.Evidence {
			v := e.Value
			if strings.Trim(v, "0123456789") == "" && len(v) > 5 && !task.HasTag(TagLongNumber) {
				t.Errorf("%s: the number %s is long and the task has no tag", task.ID, v)
			}
		}
		if task.Split == Train {
			spell(task.Question, func(x string) { words[x] = true })
			for _, c := range task.GoldPath {
				spell(string(c.Args), func(x string) { words[x] = true })
			}
		}
	}
	for _, l := range w.all {
		for _, v := range l.values {
			if strings.Trim(v, "0123456789") == "" && len(v) > 5 && l.Kind != Site {
				t.Errorf("%s %s has the number %s", l.Kind, l.Name, v)
			}
		}
	}
	unknown := map[string]string{}
	for _, task := range w.All() {
		if task.Split == Train {
			continue
		}
		check := func(x string) {
			if !words[x] {
				unknown[x] = task.ID
			}
		}
		if !task.HasTag(TagUnseenPhrasing) {
			spell(task.Question, check)
		}
		for _, c := range task.GoldPath {
			spell(string(c.Args), check)
		}
	}
	for word, id := range unknown {
		t.Errorf("%s uses the word %s, which no train task has", id, word)
	}
	for _, docs := range [][]Document{w.Docs, w.Pages} {
		for _, d := range docs {
			for _, p := range d.Passages {
				if n := tokens(p); n > 40 {
					t.Errorf("%s: a passage of %d tokens: %s", d.ID, n, p)
				}
			}
		}
	}
}

// tokens counts words, single digits and marks, as a tokenizer of whole words does.
func tokens(s string) int {
	n, in := 0, false
	for _, r := range s {
		letter := unicode.IsLetter(r) || r == '_'
		if !unicode.IsSpace(r) && (!letter || !in) {
			n++
		}
		in = letter
	}
	return n
}

func TestSplitsShareNothing(t *testing.T) {
	w, _ := defaultWorld(t)
	for _, f := range CheckSplits(w.All()) {
		t.Error(f)
	}
}

func TestSplitFaultsAreFound(t *testing.T) {
	w := sharedWorld(t)
	test, train := w.Tasks(Test)[0], w.Tasks(Train)[0]
	for _, task := range w.Tasks(Test) {
		if len(extraOf(task).Lookups) > 0 && !task.HasTag(TagUnseenPhrasing) {
			test = task
			break
		}
	}
	combo := w.Tasks(HeldoutCombo)[0]
	held := w.Tasks(HeldoutTemplate)[0]
	as := func(t suite.Task, f func(*suite.Task)) suite.Task { f(&t); return t }
	subject := extraOf(test).Lookups[0].Subject
	for _, c := range []struct {
		name  string
		extra suite.Task
		want  string
	}{
		{"a question twice", as(test, func(x *suite.Task) { x.ID, x.Split, x.Fact = "n", Train, "f" }), "is asked by"},
		{"a fact twice", as(test, func(x *suite.Task) { x.ID, x.Split, x.Question = "n", Train, "q" }), "fact "},
		{"an id twice", as(test, func(x *suite.Task) { x.Question, x.Fact = "q", "f" }), "id "},
		{"one fact of several", as(train, func(x *suite.Task) {
			x.ID, x.Question, x.Fact = "n", "q", "f + "+strings.Split(test.Fact, " + ")[0]
		}), "fact "},
		{"a test name in train", as(train, func(x *suite.Task) { x.ID, x.Question, x.Fact = "n", "What is new at "+subject+"?", "f" }), "is in the question of n"},
		{"a held-out combination in train", as(combo, func(x *suite.Task) {
			x.ID, x.Split, x.Question, x.Fact, x.Extra = "n", Train, "q", "f", nil
		}), "the combination"},
		{"a held-out template in train", as(held, func(x *suite.Task) {
			x.ID, x.Split, x.Question, x.Fact, x.Extra = "n", Train, "q", "f", nil
		}), "the template"},
		{"a wrong tag", as(combo, func(x *suite.Task) { x.ID, x.Question, x.Fact, x.Tags = "n", "q", "f", nil }), "tags"},
	} {
		if got := CheckSplits(append(w.All(), c.extra)); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: not found: %v", c.name, got)
		}
	}
	if got := CheckSplits(w.All()); len(got) > 0 {
		t.Errorf("without a fault: %v", got)
	}
}

func TestOpen(t *testing.T) {
	w, dir := defaultWorld(t)
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mem := w.Suite()
	for _, split := range s.Splits() {
		a, err := s.Tasks(split)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := mem.Tasks(split)
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if !bytes.Equal(x, y) {
			t.Errorf("%s: the opened tasks are not the generated ones", split)
		}
	}
	if _, err := s.Tasks("dev"); err == nil || !strings.Contains(err.Error(), "dev") {
		t.Errorf("unknown split: %v", err)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	w := sharedWorld(t)
	fresh := func() string {
		dir := t.TempDir()
		if err := w.Write(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		name, want string
		spoil      func(dir string) error
	}{
		{"no manifest", "make the data set", func(dir string) error { return os.Remove(filepath.Join(dir, manifestFile)) }},
		{"a changed row", "docs.jsonl has changed", func(dir string) error { return appendTo(filepath.Join(dir, docsFile), "\n") }},
		{"a changed database", "company.sqlite has changed", func(dir string) error { return appendTo(filepath.Join(dir, dbFile), "x") }},
		{"a missing file", tasksFile(Val), func(dir string) error { return os.Remove(filepath.Join(dir, tasksFile(Val))) }},
		{"another version", "version 99", func(dir string) error {
			p := filepath.Join(dir, manifestFile)
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, bytes.Replace(b, []byte(fmt.Sprintf(`"version": %d`, Format)), []byte(`"version": 99`), 1), 0o644)
		}},
		{"no JSON", manifestFile, func(dir string) error { return os.WriteFile(filepath.Join(dir, manifestFile), []byte("{"), 0o644) }},
	} {
		dir := fresh()
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: opened %t, error %v; want an error that says %q", c.name, s != nil, err, c.want)
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	f.Close()
	return err
}

func TestOptionsAreChecked(t *testing.T) {
	for want, opt := range map[string]Options{
		"web_search must have a price": {Prices: withPrice(ToolWeb, 0)},
		`no tool is named "web"`:       {Prices: withPrice("web", 1)},
		`no split is named "dev"`:      {Counts: map[string]int{"dev": 1}},
		"style":                        {Style: "tiny"},
		"budget_factor":                {BudgetFactor: 0.5},
		"random_offers":                {RandomOffers: 2},
		"mask_tools":                   {MaskTools: -0.1},
		"the smallest world has 60 tasks of train and 1 of every other split": {Counts: ones(1)},
		"lower its count to ": {Counts: map[string]int{Train: 0, Val: 0, ValCombo: 0, Test: 0, HeldoutCombo: 0, HeldoutTemplate: 100000}},
	} {
		if _, err := Generate(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("options %+v: %v; want an error that says %q", opt, err, want)
		}
	}
}

// ones are counts of one task for each split but train.
func ones(train int) map[string]int {
	return map[string]int{Train: train, Val: 1, ValCombo: 1, Test: 1, HeldoutCombo: 1, HeldoutTemplate: 1, TwoSourceTest: 1}
}

// The smallest world that messages name can be made, and the number that a message names too.
func TestTheSmallestWorldWorks(t *testing.T) {
	for seed := uint64(1); seed <= 6; seed++ {
		for _, two := range []bool{false, true} {
			w, err := Generate(Options{Seed: seed, Counts: ones(fewestTrain), TwoSource: two})
			if err != nil {
				t.Errorf("seed %d, two_source %v: %v", seed, two, err)
				continue
			}
			if faults := CheckSplits(w.All()); len(faults) > 0 {
				t.Errorf("seed %d: %v", seed, faults)
			}
			w.Close()
		}
	}
	counts := ones(fewestTrain)
	counts[HeldoutTemplate] = 5000
	_, err := Generate(Options{Seed: 1, Counts: counts})
	var most int
	if err == nil {
		t.Fatal("a small world has 5000 tasks of held-out templates")
	}
	if _, after, ok := strings.Cut(err.Error(), "lower its count to "); !ok {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(after, "%d", &most); err != nil || most < 1 {
		t.Fatalf("no number is named: %s", after)
	}
	counts[HeldoutTemplate] = most
	w, err := Generate(Options{Seed: 1, Counts: counts})
	if err != nil {
		t.Fatalf("the number of tasks that the message named: %v", err)
	}
	w.Close()
}
