package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// defaultSuite is the data set of DefaultConfig, generated once.
var defaultSuite = sync.OnceValues(func() (*Suite, error) { return Generate(DefaultConfig()) })

func mustDefault(t *testing.T) *Suite {
	t.Helper()
	s, err := defaultSuite()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallConfig is quick to generate.
func smallConfig() Config {
	c := DefaultConfig()
	c.Train, c.Val, c.Test = Counts{30, 30, 60}, Counts{6, 6, 6}, Counts{12, 12, 12}
	return c
}

func mustTasks(t *testing.T, s *Suite, split string) []suite.Task {
	t.Helper()
	tasks, err := s.Tasks(split)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func TestCounts(t *testing.T) {
	s := mustDefault(t)
	cfg := s.Config()
	for _, split := range s.Splits() {
		if got, want := count(mustTasks(t, s, split)), cfg.counts(split); got != want {
			t.Errorf("%s: counts %+v, want %+v", split, got, want)
		}
	}
	got := count(mustTasks(t, s, Test))
	if min(got.Calc, got.Lookup, got.Compose) < 500 {
		t.Errorf("test counts %+v, want at least 500 of each kind", got)
	}
	if _, err := s.Tasks("dev"); err == nil || !strings.Contains(err.Error(), "train, val, test") {
		t.Errorf("unknown split: error %v, want the known ones", err)
	}
	// Every op and wording is in every split, and any prefix holds all kinds.
	for _, split := range s.Splits() {
		seen := map[string]int{}
		for i, task := range mustTasks(t, s, split) {
			seen[task.Phrasing]++
			if i < 60 {
				seen["first "+task.Template]++
			}
		}
		for _, p := range phrasings {
			if seen[p.id] == 0 {
				t.Errorf("%s: phrasing %s is not used", split, p.id)
			}
		}
		for _, k := range Kinds() {
			if seen["first "+k] == 0 {
				t.Errorf("%s: no %s among the first 60", split, k)
			}
		}
	}
}

// The data set must be the same bytes on every machine and run.
func TestWriteIsDeterministic(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b, b} { // twice over the same folder too
		s, err := Generate(smallConfig())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	entries, err := os.ReadDir(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		x, err1 := os.ReadFile(filepath.Join(a, e.Name()))
		y, err2 := os.ReadFile(filepath.Join(b, e.Name()))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if string(x) != string(y) {
			t.Errorf("%s differs between two runs", e.Name())
		}
		if strings.Contains(string(x), a) {
			t.Errorf("%s holds its own path", e.Name())
		}
	}
	want := []string{"manifest.json", "table.jsonl", "tasks_test.jsonl", "tasks_train.jsonl", "tasks_val.jsonl"}
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}

	other := smallConfig()
	other.Seed++
	s1, err1 := Open(a)
	s2, err2 := Generate(other)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	same := 0
	for i, task := range mustTasks(t, s1, Test) {
		if task.Question == mustTasks(t, s2, Test)[i].Question {
			same++
		}
	}
	if same > 2 {
		t.Errorf("another seed gives %d of 36 questions again", same)
	}
}

func TestOpenGivesBackWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	s, err := Generate(smallConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	o, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range s.Splits() {
		a, b := mustTasks(t, s, split), mustTasks(t, o, split)
		if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
			t.Errorf("%s: tasks differ after reading", split)
		}
		for _, task := range b {
			if err := o.CheckGold(task); err != nil {
				t.Error(err)
			}
		}
	}
	da, err1 := s.Demonstrations(context.Background(), Lazy, 3)
	db, err2 := o.Demonstrations(context.Background(), Lazy, 3)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", da) != fmt.Sprintf("%+v", db) {
		t.Error("demonstrations differ after reading")
	}
}

func TestOpenRefusesDamage(t *testing.T) {
	s, err := Generate(smallConfig())
	if err != nil {
		t.Fatal(err)
	}
	edit := func(name, from, to string) func(string) error {
		return func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if !strings.Contains(string(b), from) {
				return fmt.Errorf("%s holds no %q", name, from)
			}
			return os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(string(b), from, to, 1)), 0o644)
		}
	}
	// leak adds a train task to the test and makes the manifest agree.
	leak := func(dir string) error {
		train, err1 := os.ReadFile(filepath.Join(dir, "tasks_train.jsonl"))
		test, err2 := os.ReadFile(filepath.Join(dir, "tasks_test.jsonl"))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		line, _, _ := strings.Cut(string(train), "\n")
		leaked := string(test) + strings.Replace(line, `"id":"train`, `"id":"test-planted`, 1) + "\n"
		if err := os.WriteFile(filepath.Join(dir, "tasks_test.jsonl"), []byte(leaked), 0o644); err != nil {
			return err
		}
		return edit("manifest.json", hash(test), hash([]byte(leaked)))(dir)
	}
	for _, c := range []struct {
		name   string
		damage func(dir string) error
		want   string
	}{
		{"a task changed", edit("tasks_test.jsonl", `"difficulty":1`, `"difficulty":2`), "tasks_test.jsonl has changed"},
		{"the table changed", edit("table.jsonl", `"value":`, `"value":1`), "table.jsonl has changed"},
		{"a file is gone", func(dir string) error { return os.Remove(filepath.Join(dir, "tasks_val.jsonl")) }, "tasks_val.jsonl"},
		{"no manifest", func(dir string) error { return os.Remove(filepath.Join(dir, "manifest.json")) }, "manifest.json"},
		{"a leak with a right hash", leak, "of two splits share the question"},
		{"another suite", edit("manifest.json", `"suite": "chain"`, `"suite": "company"`), `suite "company"`},
		{"another format", edit("manifest.json", `"format": 1`, `"format": 0`), "generate the data again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := s.Write(dir); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for _, c := range []struct {
		want string
		set  func(*Config)
	}{
		{"world.test.compose is 0", func(c *Config) { c.Test.Compose = 0 }},
		{"world.val_entities is 1", func(c *Config) { c.ValEntities = 1 }},
		{"at most half", func(c *Config) { c.TestEntities = 1200 }},
		{"world.min_digits is 3 and world.max_digits is 2", func(c *Config) { c.MinDigits, c.MaxDigits = 3, 2 }},
		{"world.max_answer_digits is 2", func(c *Config) { c.MaxAnswerDigits = 2 }},
		{"world.ops is empty", func(c *Config) { c.Ops = nil }},
		{`unknown operation "quotient"`, func(c *Config) { c.Ops = []string{"quotient"} }},
		{"stands twice", func(c *Config) { c.Ops = []string{Sum, Sum} }},
		{"must not be negative", func(c *Config) { c.LookupPrice = -price.Unit }},
		{"world.test.lookup is 2000", func(c *Config) { c.Test.Lookup = 2000 }},
		{"leave the op out", func(c *Config) { c.MinDigits = 3 }}, // no product of three digits has four
	} {
		cfg := smallConfig()
		c.set(&cfg)
		if _, err := Generate(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// TestSplitsAreDisjoint also checks what CheckSplits does not: the words of every test name occur in train.
func TestSplitsAreDisjoint(t *testing.T) {
	s := mustDefault(t)
	train, val, test := mustTasks(t, s, Train), mustTasks(t, s, Val), mustTasks(t, s, Test)
	if err := CheckSplits(train, val, test); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, task := range train {
		for _, w := range strings.Fields(strings.Trim(task.Question, "?.")) {
			known[w] = true
		}
	}
	names := map[string]bool{}
	for _, task := range test {
		q, _ := readQuestion(task.Phrasing, task.Question)
		for _, e := range q.entities {
			names[e] = true
			for _, w := range strings.Fields(e) {
				if !known[w] {
					t.Errorf("test task %s: the word %q of a name is in no train question", task.ID, w)
				}
			}
		}
	}
	if len(names) < 500 {
		t.Errorf("the test asks about %d names, want at least 500", len(names))
	}

	plant := func(change func(*suite.Task)) error {
		tasks := slices.Clone(test)
		leak := tasks[0]
		for _, task := range train {
			if task.Template == Compose {
				leak = task
				break
			}
		}
		leak.ID = "test-planted"
		change(&leak)
		return CheckSplits(train, val, append(tasks, leak))
	}
	swapped := func(task *suite.Task) { // same entities, another fact and another question
		q, _ := readQuestion(task.Phrasing, task.Question)
		p := phrasings[slices.IndexFunc(phrasings, func(p phrasing) bool { return p.kind == Compose })]
		task.Phrasing, task.Question, task.Fact = p.id, p.render(q.entities[0], "planted name", ""), "planted"
	}
	for _, c := range []struct {
		name, want string
		change     func(*suite.Task)
	}{
		{"question", "share the question", func(task *suite.Task) { task.Fact = "planted" }},
		{"fact", "share the fact", func(task *suite.Task) {
			task.Phrasing, task.Template, task.Question = "calc_what", Calc, "What is 1 + 1?"
		}},
		{"entity", "share the entity", swapped},
		{"id", "stands twice", func(task *suite.Task) { task.ID = train[0].ID }},
		{"phrasing", "is not one of phrasing", func(task *suite.Task) { task.Phrasing = "lookup_what" }},
	} {
		if err := plant(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("planted %s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestGoldPathsExecute(t *testing.T) {
	s := mustDefault(t)
	box, err := s.Box(suite.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	optimal := map[string]price.Amount{Calc: price.Unit, Lookup: price.Unit, Compose: 3 * price.Unit}
	for _, split := range s.Splits() {
		for _, task := range mustTasks(t, s, split) {
			if err := s.checkGold(box, task); err != nil {
				t.Fatal(err)
			}
			if want := optimal[task.Template]; task.OptimalCost != want {
				t.Fatalf("task %s: optimal cost %s, want %s", task.ID, task.OptimalCost, want)
			}
			if n := len(task.Answer.Values[0]); n > s.cfg.MaxAnswerDigits {
				t.Fatalf("task %s: the answer has %d digits", task.ID, n)
			}
		}
	}
}

func TestCheckGoldFindsFaults(t *testing.T) {
	s := mustDefault(t)
	tasks := mustTasks(t, s, Test)
	task := tasks[slices.IndexFunc(tasks, func(t suite.Task) bool { return t.Template == Compose })]
	for _, c := range []struct {
		name, want string
		change     func(*suite.Task)
	}{
		{"wrong gold", "the gold path answers", func(t *suite.Task) { t.Answer.Values = []string{"1.5"} }},
		{"wrong cost", "optimal_cost is 2", func(t *suite.Task) { t.OptimalCost = 2 * price.Unit }},
		{"unseen value", "does not show", func(t *suite.Task) { t.GoldPath = slices.Delete(t.GoldPath, 0, 1) }},
		{"no entry", `no entry "nobody"`, func(t *suite.Task) { t.GoldPath[0] = lookUp("nobody") }},
		{"no finish", "does not finish", func(t *suite.Task) { t.GoldPath = t.GoldPath[:3] }},
		{"early finish", "before the path ends", func(t *suite.Task) { t.GoldPath = append(t.GoldPath, t.GoldPath[0]) }},
		{"wrong argument", "gold call 1", func(t *suite.Task) { t.GoldPath[0].Args = mustJSON(map[string]string{"key": "x"}) }},
		{"no path", "has 0 calls", func(t *suite.Task) { t.GoldPath = nil }},
	} {
		bad := task
		bad.GoldPath = slices.Clone(task.GoldPath)
		c.change(&bad)
		if err := s.CheckGold(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestVerify(t *testing.T) {
	s := mustDefault(t)
	task := suite.Task{Answer: suite.Answer{Type: suite.Number, Values: []string{"405"}}, Evidence: source.Values("347", "58")}
	for _, c := range []struct {
		answer string
		seen   []string
		want   suite.Verdict
	}{
		{"405", []string{"347", "58", "405"}, suite.Verdict{Correct: true, Evidenced: true}},
		{" 405. ", []string{"58", "347"}, suite.Verdict{Correct: true, Evidenced: true}},
		{"405", []string{"347", "405"}, suite.Verdict{Correct: true}},
		{"405", nil, suite.Verdict{Correct: true}},
		{"406", []string{"347", "58"}, suite.Verdict{Evidenced: true}},
		{"", []string{"347"}, suite.Verdict{}},
	} {
		var seen []tool.Observation
		for _, v := range c.seen {
			seen = append(seen, tool.ReadFrom(v, "stock:x"))
		}
		if got := s.Verify(task, c.answer, seen); got != c.want {
			t.Errorf("Verify(%q, %v) = %+v, want %+v", c.answer, c.seen, got, c.want)
		}
	}
}

func TestBoxAndPrompt(t *testing.T) {
	s := mustDefault(t)
	task := mustTasks(t, s, Test)[0]
	p, err := s.Prompt(task)
	if err != nil {
		t.Fatal(err)
	}
	if want := task.Question + "\nTools: lookup 1, calculator 1, finish"; p.User != want || p.System != "" || p.Question != task.Question {
		t.Errorf("compact prompt %+v, want the user text %q alone", p, want)
	}
	full, err := s.With(DefaultHabit(), Full)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = full.Prompt(task); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lookup", `"expression"`, "```json", "finish"} {
		if !strings.Contains(p.System, want) {
			t.Errorf("full prompt lacks %q", want)
		}
	}
	if p.User != task.Question {
		t.Errorf("full prompt: user text %q, want the question", p.User)
	}
	if _, err := s.With(DefaultHabit(), "long"); err == nil {
		t.Error("an unknown style is accepted")
	}

	task.Offers = []suite.Offer{{Tool: CalculatorTool, Price: tool.Price{Base: 5 * price.Unit}}}
	if p, err = s.Prompt(task); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(p.User, "\nTools: calculator 5, finish") {
		t.Errorf("prompt with offers: %q", p.User)
	}
	task.Offers[0].Tool = "abacus"
	if _, err := s.Prompt(task); err == nil || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("offer of an unknown tool: error %v", err)
	}

	box, err := s.Box(suite.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	name := s.Entities()[17]
	for given, ok := range map[string]bool{name: true, " " + strings.ToUpper(name): true, "nobody": false, "": false} {
		got, err := box.Call(context.Background(), LookupTool, map[string]any{"name": given})
		if ok && got.Text != fmt.Sprint(s.table[name]) || ok != (err == nil) {
			t.Errorf("lookup of %q: %q, %v", given, got.Text, err)
		}
	}
}

// A question must be readable back whatever the names are, and no word of a name may be a word of a question.
func TestQuestionsReadBack(t *testing.T) {
	words := map[string]bool{}
	for _, w := range slices.Concat(firstWords, secondWords) {
		if words[w] {
			t.Errorf("the word %q stands twice", w)
		}
		words[w] = true
	}
	if len(firstWords) != 40 || len(secondWords) != 40 {
		t.Errorf("%d and %d words, want 40 and 40", len(firstWords), len(secondWords))
	}
	for _, p := range phrasings {
		for _, w := range strings.Fields(strings.ToLower(strings.Trim(p.text, "?."))) {
			if words[w] {
				t.Errorf("phrasing %s: %q is a word of the names", p.id, w)
			}
		}
		a, b := "amber badger", "winter willow"
		got, ok := readQuestion(p.id, p.render(a, b, "3 + 4"))
		want := asked{kind: p.kind, op: p.op}
		switch p.kind {
		case Lookup:
			want.entities = []string{a}
		case Compose:
			want.entities = []string{a, b}
		}
		if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("phrasing %s: read %v %v, want %v", p.id, got, ok, want)
		}
		if p.kind != Calc {
			if _, ok := readQuestion(p.id, "Something else"); ok {
				t.Errorf("phrasing %s: another question is read", p.id)
			}
		}
	}
	if _, ok := readQuestion("unknown", "What is 1 + 1?"); ok {
		t.Error("an unknown phrasing is read")
	}
}

// Short and long values are equally frequent, so that copying is asked of both.
func TestValueLengths(t *testing.T) {
	s := mustDefault(t)
	short := 0
	for _, n := range s.Entities() {
		switch digits(s.table[n]) {
		case 2:
			short++
		case 3:
		default:
			t.Fatalf("%s has the value %d", n, s.table[n])
		}
	}
	// 1,600 draws at 0.5: a standard deviation of 0.0125.
	if share := float64(short) / float64(allEntities); math.Abs(share-0.5) > 0.05 {
		t.Errorf("share of two-digit values %.3f, want about 0.5", share)
	}
}
