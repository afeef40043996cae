package families

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func config(tasks int) Config {
	return Config{Seed: 1, Tasks: tasks, MaxValidPaths: 8, Splits: Shares{Test: 0.20, Val: 0.05, DPOTrain: 0.34}, Limits: Limits{MaxDigits: 5, MaxBody: 160},
		Pairs: Pairs{MinCostGap: 0.001, MaxPerTask: 3, Heldout: []string{"email"}}}
}

var (
	view     = View{Style: Compact, MaxTools: 8, TestPrices: true}
	training = Training{Thoughts: true, Recovery: 0.5}
)

var generated = sync.OnceValues(func() (*Suite, error) { return Generate(config(1600)) })

func small(t *testing.T) *Suite {
	t.Helper()
	s, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	shown, err := s.With(view, training)
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func byTemplate(s *Suite, split, name string) suite.Task {
	i := slices.IndexFunc(s.tasks[split], func(t suite.Task) bool { return t.Template == name })
	return s.tasks[split][i]
}

// The default data set has about as many tasks and paths as the reference, whose figures stand beside.
func TestCountsOfTheDefaultDataSet(t *testing.T) {
	s, err := Generate(config(7680))
	if err != nil {
		t.Fatal(err)
	}
	var n SplitCounts
	for _, split := range splits {
		c := countOf(s.tasks[split])
		t.Logf("%s: %+v", split, c)
		n.Tasks, n.Valid, n.Failing, n.SeveralWays, n.WithFailing = n.Tasks+c.Tasks, n.Valid+c.Valid, n.Failing+c.Failing, n.SeveralWays+c.SeveralWays, n.WithFailing+c.WithFailing
	}
	cost, correctness := 0, 0
	for _, p := range s.pairs(s.tasks[DPOTrain]) {
		if p.correctness {
			correctness++
		} else {
			cost++
		}
	}
	for _, c := range []struct {
		what           string
		got, reference int
	}{{"tasks", n.Tasks, 7680}, {"valid paths", n.Valid, 18328}, {"failing paths", n.Failing, 2120}, {"tasks with several valid paths", n.SeveralWays, 5802}, {"tasks with a failing path", n.WithFailing, 1728},
		{"tasks of test", len(s.tasks[Test]), 1541}, {"cost pairs", cost, 2234}, {"correctness pairs", correctness, 586}} {
		t.Logf("%s: %d, the reference has %d", c.what, c.got, c.reference)
		if c.got*100 < c.reference*75 || c.got*100 > c.reference*125 {
			t.Errorf("%s: %d, want within a quarter of %d", c.what, c.got, c.reference)
		}
	}
	shares := map[string]float64{SFTTrain: 0.49, DPOTrain: 0.26, Val: 0.05, Test: 0.20}
	for split, want := range shares {
		if got := float64(len(s.tasks[split])) / float64(n.Tasks); got < want-0.03 || got > want+0.03 {
			t.Errorf("%s has %.3f of the tasks, want about %.2f", split, got, want)
		}
	}
	if len(templates) != 50 {
		t.Errorf("%d templates, want 50", len(templates))
	}
	groups := map[string]int{}
	for _, tm := range templates {
		groups[tm.group]++
	}
	if want := map[string]int{groupSingle: 8, groupPath: 13, groupLookup: 6, groupChain: 19, groupMix: 4}; fmt.Sprint(groups) != fmt.Sprint(want) {
		t.Errorf("templates by group %v, want %v", groups, want)
	}
}

// Two runs write the same bytes, and what is opened is what was written.
func TestSameBytes(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		s, err := Generate(config(600))
		if err == nil {
			err = s.Write(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(a)
	if err != nil || len(files) != 12 {
		t.Fatalf("%d files, %v; want 12", len(files), err)
	}
	for _, f := range files {
		x, _ := os.ReadFile(filepath.Join(a, f.Name()))
		if y, err := os.ReadFile(filepath.Join(b, f.Name())); err != nil || len(x) == 0 || !bytes.Equal(x, y) {
			t.Errorf("%s differs, %v", f.Name(), err)
		}
	}
	opened, err := Open(a)
	if err != nil {
		t.Fatal(err)
	}
	if opened, err = opened.With(view, training); err != nil {
		t.Fatal(err)
	}
	for _, split := range splits {
		for _, task := range opened.tasks[split][:5] {
			if err := opened.CheckPaths(task); err != nil {
				t.Error(err)
			}
		}
	}
	file := filepath.Join(a, "val_tasks.jsonl")
	text, _ := os.ReadFile(file)
	if err := os.WriteFile(file, bytes.Replace(text, []byte("a"), []byte("b"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(a); err == nil || !strings.Contains(err.Error(), "val_tasks.jsonl has changed") {
		t.Errorf("a changed file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("an empty folder opens")
	}
}

// A task, a wording or an underlying task in two splits is found.
func TestPlantedLeaks(t *testing.T) {
	s := small(t)
	other := func(change func(x *suite.Task)) map[string][]suite.Task {
		tasks := map[string][]suite.Task{}
		for split, of := range s.tasks {
			tasks[split] = slices.Clone(of)
		}
		x := tasks[SFTTrain][0]
		x.Split = Test
		change(&x)
		tasks[Test] = append(tasks[Test], x)
		return tasks
	}
	for want, change := range map[string]func(x *suite.Task){
		"task ":            func(x *suite.Task) { x.Question, x.Fact = "another question", "another fact" },
		"question ":        func(x *suite.Task) { x.ID, x.Fact = "another-1", "another fact" },
		"underlying task ": func(x *suite.Task) { x.ID, x.Question = "another-1", "another question" },
		"says it is of": func(x *suite.Task) {
			x.ID, x.Question, x.Fact, x.Split = "another-1", "another question", "another fact", Val
		},
	} {
		if err := CheckSplits(other(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := CheckSplits(other(func(x *suite.Task) { x.ID, x.Question, x.Fact = "another-1", "another question", "another fact" })); err != nil {
		t.Errorf("a task of its own: %v", err)
	}
}

// Whatever of a task's paths does not hold is found.
func TestPlantedPaths(t *testing.T) {
	s := small(t)
	two := byTemplate(s, SFTTrain, "weather_list")
	mail := byTemplate(s, SFTTrain, "mail")
	for want, broken := range map[string]suite.Task{
		"costs":                    edited(two, func(p []suite.Path) { p[1].Cost++ }),
		"stands after a path":      edited(two, func(p []suite.Path) { p[1].Cost = p[0].Cost - 1 }),
		"is listed as failing":     edited(two, func(p []suite.Path) { p[1].Fails = true }),
		"does not solve":           edited(two, func(p []suite.Path) { p[1].Calls[len(p[1].Calls)-1] = finish("answer", "10") }),
		"is not the gold path":     edited(two, func(p []suite.Path) { p[0], p[1] = p[1], p[0] }),
		"right answer true, evid":  edited(two, func(p []suite.Path) { p[0].Calls = p[0].Calls[1:]; p[0].Cost = 0 }),
		"right answer false":       edited(mail, func(p []suite.Path) { twice(&p[0]) }),
		"does not finish":          edited(two, func(p []suite.Path) { p[1].Calls = p[1].Calls[:2] }),
		"finishes before the path": edited(two, func(p []suite.Path) { p[1].Calls = append(p[1].Calls, p[1].Calls[0]) }),
		"has no valid path":        edited(two, func(p []suite.Path) { p[0].Fails = true }),
	} {
		if strings.HasPrefix(want, "right answer") { // the gold path itself is edited
			broken.GoldPath, broken.OptimalCost = broken.Paths[0].Calls, broken.Paths[0].Cost
			broken.Paths = broken.Paths[:1]
		}
		if err := s.CheckPaths(broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// twice makes the first call of a path once more: a second mail is a mistake.
func twice(p *suite.Path) {
	args, _ := decode(p.Calls[0].Args)
	p.Calls = append([]suite.Call{p.Calls[0]}, p.Calls...)
	p.Cost += toolbox.Prices()[p.Calls[0].Tool].Of(args)
}

func edited(t suite.Task, edit func(p []suite.Path)) suite.Task {
	t.Paths = slices.Clone(t.Paths)
	for i := range t.Paths {
		t.Paths[i].Calls = slices.Clone(t.Paths[i].Calls)
	}
	edit(t.Paths)
	return t
}

// Both directions of each crossover are common, in training as in the test.
func TestCrossoversAreBalanced(t *testing.T) {
	s, err := Generate(config(balancedFrom)) // which checks it
	if err != nil {
		t.Fatal(err)
	}
	oneSided := map[string][]suite.Task{}
	for split, tasks := range s.tasks {
		oneSided[split] = slices.DeleteFunc(slices.Clone(tasks), func(x suite.Task) bool { return split == Test && x.HasTag("choice:primes:prime_checker") })
	}
	if err := CheckBalance(oneSided); err == nil || !strings.Contains(err.Error(), "primes") || !strings.Contains(err.Error(), Test) {
		t.Errorf("without large primes in the test: %v", err)
	}
}

// Demonstrations solve their tasks. Random ones take every path about as often, recovery makes the failing call first.
func TestDemonstrations(t *testing.T) {
	s := small(t)
	cfg := episode.Config{MaxTurns: 10, MaxTokensPerTurn: 200, MaxContext: 2000, Budget: "none"}
	costs := map[string]price.Amount{}
	for _, kind := range DemonstrationKinds() {
		demos, err := s.Demonstrations(t.Context(), kind, 3)
		if err != nil {
			t.Fatal(err)
		}
		played, err := tiny.Play(t.Context(), s, demos, cfg)
		if err != nil {
			t.Fatal(err)
		}
		optimal, failed := 0, 0
		for i, p := range played {
			o := p.Trajectory.Outcome
			if !o.Correct || !o.Evidenced {
				t.Fatalf("%s: demonstration of %s is not solved: %+v", kind, demos[i].Task.ID, o)
			}
			if demos[i].Task.Split != SFTTrain || kind == DemoBase && len(demos[i].Calls) != 2 {
				t.Errorf("%s: demonstration of %s, split %s, has %d calls", kind, demos[i].Task.ID, demos[i].Task.Split, len(demos[i].Calls))
			}
			if o.Spend == demos[i].Task.OptimalCost {
				optimal++
			}
			failed += o.Failed
			costs[kind] += o.Spend
		}
		share := float64(optimal) / float64(len(played))
		switch {
		case kind == DemoCheapest && share != 1, kind == DemoRandom && (share < 0.5 || share > 0.75), (kind == DemoRecovery) != (failed > 0):
			t.Errorf("%s: %.2f at the optimal cost, %d failed calls", kind, share, failed)
		}
	}
	if _, err := s.Demonstrations(t.Context(), "optimal", 1); err == nil || !strings.Contains(err.Error(), "random, cheapest") {
		t.Errorf("an unknown kind: %v", err)
	}
}

// Preferences part at one call of one family; none is of the held-out family; balanced ones have both directions as often.
func TestPreferences(t *testing.T) {
	s := small(t)
	for _, kind := range PairKinds() {
		prefs, err := s.Preferences(t.Context(), kind, 1)
		if err != nil {
			t.Fatal(err)
		}
		recoveries, directions := 0, map[string][2]int{}
		for _, p := range prefs {
			at := firstDifference(p.Chosen, p.Rejected)
			a, b := p.Chosen[at], p.Rejected[at]
			family, cheaper := direction(a.Tool)
			if p.Task.Split != DPOTrain || family == "" || family == "email" || a.Tool == b.Tool && string(a.Args) == string(b.Args) {
				t.Fatalf("%s: a pair of %s (%s) prefers %s%s to %s%s", kind, p.Task.ID, p.Task.Split, a.Tool, a.Args, b.Tool, b.Args)
			}
			if b.Tool == tool.FinishName {
				recoveries++
				continue
			}
			d := directions[family]
			if cheaper {
				d[0]++
			} else {
				d[1]++
			}
			directions[family] = d
			if kind == PairsUnbalanced && !sameCalls(p.Chosen, p.Task.GoldPath) {
				t.Errorf("%s: the chosen path of %s is not the cheapest", kind, p.Task.ID)
			}
		}
		if len(directions) != 9 || (kind == PairsBalanced) != (recoveries > 0) {
			t.Errorf("%s: families %v, %d recoveries", kind, directions, recoveries)
		}
		for f, d := range directions {
			if kind == PairsBalanced && d[0] != d[1] {
				t.Errorf("balanced pairs of %s: %v", f, d)
			}
		}
	}
}

// Prices drawn anew change what is cheapest in both directions, and every path still holds at them.
func TestPricesOfATask(t *testing.T) {
	s := small(t)
	split := (&Settings{World: config(1600), View: view, Training: training}).DerivedSplits()[0]
	tasks, err := split.Tasks(s, func(name string) ([]suite.Task, error) { return s.Tasks(name) }, 1)
	if err != nil || len(tasks) != len(s.tasks[Test]) {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	flipped, several := 0, 0
	for i, x := range tasks {
		if err := s.CheckPaths(x); err != nil {
			t.Fatal(err)
		}
		if x.ID != s.tasks[Test][i].ID+"@prices" || x.Split != TestPrices {
			t.Fatalf("task %s of split %s", x.ID, x.Split)
		}
		if len(x.Paths)-len(failing(x)) > 1 {
			several++
			if !sameCalls(x.GoldPath, s.tasks[Test][i].GoldPath) {
				flipped++
			}
		}
	}
	if share := float64(flipped) / float64(several); share < 0.25 || share > 0.75 {
		t.Errorf("the cheapest path is another one in %.2f of the tasks", share)
	}
	priced, err := s.With(view, Training{Thoughts: true, RandomPrices: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i, x := range priced.tasks[SFTTrain] {
		if fmt.Sprint(x.Offers) != fmt.Sprint(s.tasks[SFTTrain][i].Offers) {
			changed++
			for _, o := range x.Offers {
				if p := toolbox.Prices()[o.Tool]; slices.ContainsFunc(testFactors, func(f float64) bool { return f != 1 && p.Base.Float() >= 0.02 && o.Price.Base == scaled(p.Base, f) }) {
					t.Errorf("%s is shown at %s in training, a price of the test", o.Tool, o.Price.Base)
				}
			}
		}
	}
	if share := float64(changed) / float64(len(priced.tasks[SFTTrain])); share < 0.4 || share > 0.6 {
		t.Errorf("%.2f of the training tasks have prices of their own", share)
	}
}

// What counts is what a tool stated and did: no verdict without its call, no mail twice, nothing done that was not asked for.
func TestWhatIsNoSolution(t *testing.T) {
	s := small(t)
	prime, mail, weather := byTemplate(s, Test, "prime"), byTemplate(s, Test, "mail"), byTemplate(s, Test, "weather")
	for name, c := range map[string]struct {
		task  suite.Task
		calls []suite.Call
		want  suite.Verdict
	}{
		"a guessed verdict":     {prime, []suite.Call{finish("answer", prime.Answer.Values[0])}, suite.Verdict{Correct: true}},
		"a verdict of another":  {prime, []suite.Call{newCall("", "prime_checker", "number", 7), finish("answer", prime.Answer.Values[0])}, suite.Verdict{Correct: true}},
		"a mail that was not":   {mail, []suite.Call{finish("answer", "done")}, suite.Verdict{}},
		"a value by calculator": {weather, []suite.Call{newCall("", "calculator", "expression", weather.Answer.Values[0]+"+0"), finish("answer", weather.Answer.Values[0])}, suite.Verdict{Correct: true}},
		"a file beside":         {weather, []suite.Call{weather.GoldPath[0], newCall("", "file_write", "name", "a.txt", "text", "a"), weather.GoldPath[1]}, suite.Verdict{Evidenced: true}},
	} {
		c.task.Offers = nil
		if v, _, err := s.run(c.task, c.calls); err != nil || v != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, v, err, c.want)
		}
	}
}

// The compact prompt has a line a tool with its price; the full one says all that an instruct model needs.
func TestPrompts(t *testing.T) {
	s := small(t)
	x := byTemplate(s, Test, "weather_list")
	p, err := s.Prompt(x)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(p.User, "\n")
	if len(lines) != 9 || !slices.Contains(lines, "weather_batch 0.01 + 0.012 each") || !slices.Contains(lines, "weather 0.02") || lines[8] != "question: "+x.Question || p.System != "" {
		t.Errorf("compact prompt:\n%s", p.User)
	}
	full, err := s.With(View{Style: Full}, training)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = full.Prompt(byTemplate(full, Test, "weather_list")); err != nil || len(p.Tools) != 36 || p.User != x.Question {
		t.Fatalf("%d tools, %v", len(p.Tools), err)
	}
	for _, want := range []string{"- weather_batch: ", "Price: 0.01 plus 0.012 for each of cities", `"tool": "finish"`, s.world.Hubs()[0]} {
		if !strings.Contains(p.System, want) {
			t.Errorf("the full prompt lacks %q", want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	good := Settings{World: config(7680), View: view, Training: training}
	if errs := good.Check(1); errs != nil {
		t.Fatal(errs)
	}
	for want, edit := range map[string]func(s *Settings){
		"world.tasks is 10":                         func(s *Settings) { s.World.Tasks = 10 },
		"world.max_valid_paths is 0":                func(s *Settings) { s.World.MaxValidPaths = 0 },
		"world.splits is test 0.9":                  func(s *Settings) { s.World.Splits.Test = 0.9 },
		"world.limits.max_digits is 3":              func(s *Settings) { s.World.Limits.MaxDigits = 3 },
		"world.limits.max_body is 90":               func(s *Settings) { s.World.Limits.MaxBody = 90 },
		"world.pairs.max_per_task is 0":             func(s *Settings) { s.World.Pairs.MaxPerTask = 0 },
		"world.pairs.min_cost_gap is -1":            func(s *Settings) { s.World.Pairs.MinCostGap = -1 },
		`world.pairs.heldout_families: unknown fam`: func(s *Settings) { s.World.Pairs.Heldout = []string{"mail"} },
		"world.optimal_share is 2":                  func(s *Settings) { s.World.OptimalShare = 2 },
		`view.style is "tiny"`:                      func(s *Settings) { s.View.Style = "tiny" },
		"view.max_tools is -1":                      func(s *Settings) { s.View.MaxTools = -1 },
		"training.recovery_share is 2":              func(s *Settings) { s.Training.Recovery = 2 },
		"training.random_prices is -1":              func(s *Settings) { s.Training.RandomPrices = -1 },
	} {
		s := good
		edit(&s)
		if errs := s.Check(1); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("want %q: %v", want, errs)
		}
	}
	s := small(t)
	if _, err := s.Tasks("train"); err == nil || !strings.Contains(err.Error(), "sft_train") {
		t.Errorf("an unknown split: %v", err)
	}
	bad := s.tasks[Test][0]
	bad.Extra = json.RawMessage(`{"outcome":3}`)
	if v := s.Verify(bad, bad.Answer.Values[0], nil); v.Correct {
		t.Error("a task whose extra cannot be read is solved")
	}
	bad = s.tasks[Test][0]
	bad.Offers = []suite.Offer{{Tool: "oracle"}}
	if _, err := s.Prompt(bad); err == nil || !strings.Contains(err.Error(), bad.ID) {
		t.Errorf("an unknown tool: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Demonstrations(ctx, DemoRandom, 1); err == nil {
		t.Error("a cancelled context is not heeded")
	}
}

// Extra banks hold training tasks alone, and none that this data set has.
func TestExtraWorlds(t *testing.T) {
	s := small(t)
	own := map[string]bool{}
	for _, tasks := range s.tasks {
		for _, x := range tasks {
			own[x.Fact] = true
		}
	}
	worlds, err := s.ExtraWorlds(3, 2)
	if err != nil || len(worlds) != 2 {
		t.Fatalf("%d worlds, %v", len(worlds), err)
	}
	again, err := s.ExtraWorlds(4, 1)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, w := range worlds {
		tasks, _ := w.Tasks(SFTTrain)
		if len(tasks) < 1000 {
			t.Errorf("a bank has %d tasks", len(tasks))
		}
		for _, x := range tasks {
			if own[x.Fact] || ids[x.ID] || x.Split != SFTTrain {
				t.Fatalf("task %s (%s) of split %s is known", x.ID, x.Fact, x.Split)
			}
			ids[x.ID] = true
		}
		if test, err := w.Tasks(Test); err != nil || len(test) != 0 {
			t.Errorf("%d test tasks, %v", len(test), err)
		}
	}
	a, _ := worlds[1].Tasks(SFTTrain)
	if b, _ := again[0].Tasks(SFTTrain); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("bank 4 depends on the banks made before it")
	}
}

// The worst family's choice is that of one direction, and an episode that called both tools chose wrongly.
func TestColumns(t *testing.T) {
	episode := func(tag string, tools ...string) trajectory.Trajectory {
		x := trajectory.Trajectory{End: trajectory.Finished, Task: trajectory.Task{Tags: []string{"family:weather", tag}}}
		for _, name := range tools {
			x.Turns = append(x.Turns, trajectory.Turn{Action: &trajectory.Action{Tool: name}})
		}
		return x
	}
	choice := Columns()[5]
	for i, c := range []struct {
		of       trajectory.Trajectory
		num, den float64
	}{
		{episode("choice:weather:weather", "weather"), 1, 1},
		{episode("choice:weather:weather_batch", "weather_batch"), 1, 1},
		{episode("choice:weather:weather", "weather", "weather_batch"), 0, 1},
		{episode("choice:weather:weather", "weather_batch"), 0, 1},
		{episode("choice:weather:weather"), 0, 1},
		{episode("other", "weather"), 0, 0},
	} {
		if num, den := choice.Ratio(&c.of); num != c.num || den != c.den {
			t.Errorf("%d: %v of %v, want %v of %v", i, num, den, c.num, c.den)
		}
	}
	lucky := trajectory.Trajectory{End: trajectory.Finished, Outcome: trajectory.Outcome{Correct: true}}
	if num, _ := Columns()[4].Ratio(&lucky); num != 1 {
		t.Error("a right answer without evidence is not lucky")
	}
	var names []string
	for _, c := range Columns() {
		names = append(names, c.Name)
	}
	if got, want := strings.Join(names, ","), "at_cheapest,above_cheapest,below_cheapest,failed_call_tasks,lucky_rate,choice_accuracy_min_family,tool_accuracy,argument_accuracy"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
}
