package company_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tokenizer"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// says is what a line of a masked prompt says of each tool.
var says = map[string]string{company.ToolSQL: "SELECT", company.ToolDoc: "notes", company.ToolWeb: "reports", company.ToolCalc: "expression"}

// names is what a task calls each tool, read from its prompt; empty where it has their own names.
func names(t *testing.T, s *company.Suite, x suite.Task) map[string]string {
	t.Helper()
	p, err := s.Prompt(x)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	list, _, _ := strings.Cut(p.User, "question: ")
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		if f := strings.Fields(line); len(f) == 3 {
			for name, what := range says {
				if f[2] == what {
					out[name] = f[0]
				}
			}
		}
	}
	return out
}

func train(t *testing.T, s *company.Suite) []suite.Task {
	t.Helper()
	tasks, err := s.Tasks(company.Train)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// ownName is a tool whose own name a text holds.
func ownName(text string) string {
	for _, name := range company.Tools {
		if strings.Contains(text, name) {
			return name
		}
	}
	return ""
}

// A masked task is the same task at the same cost with its tools under other names in another order. All other tasks are as they
// were, to the byte, and so is the data set.
func TestMaskedTools(t *testing.T) {
	w := company.SharedWorld(t)
	plain, half, all := open(t, company.Options{}), open(t, company.Options{MaskTools: 0.5}), open(t, company.Options{MaskTools: 1})
	for _, split := range plain.Splits() {
		a, _ := plain.Tasks(split)
		b, _ := all.Tasks(split)
		if split != company.Train && !reflect.DeepEqual(a, b) {
			t.Errorf("tasks of %s are masked: only train tasks are", split)
		}
	}
	usual, some, every := train(t, plain), train(t, half), train(t, all)
	masked, moved := 0, 0
	called := map[string]map[string]bool{}
	for i, x := range usual {
		p, err := plain.Prompt(x)
		if err != nil {
			t.Fatal(err)
		}
		q, err := half.Prompt(some[i])
		if err != nil {
			t.Fatal(err)
		}
		as := names(t, all, every[i])
		if len(as) != len(company.Tools) {
			t.Fatalf("%s: the prompt names %v", x.ID, as)
		}
		if len(some[i].Offers) == 0 {
			if !reflect.DeepEqual(some[i], x) || !reflect.DeepEqual(p, q) {
				t.Errorf("%s is not masked, and not as it was", x.ID)
			}
		} else {
			masked++
			// The names follow from the seed and the task alone, not from how many tasks before it are masked.
			if !reflect.DeepEqual(some[i], every[i]) {
				t.Errorf("%s has other names when all tasks are masked", x.ID)
			}
		}
		y := every[i]
		q, err = all.Prompt(y)
		if err != nil {
			t.Fatal(err)
		}
		if q.Question != p.Question || q.Budget != p.Budget || len(q.Tools) != len(p.Tools) || ownName(q.User) != "" {
			t.Errorf("%s: the prompt %q", y.ID, q.User)
		}
		lines := strings.Split(q.User, "\n")
		for k, o := range y.Offers {
			for _, name := range company.Tools {
				if o.Tool != as[name] {
					continue
				}
				if want := fmt.Sprintf("%s %v %s", as[name], company.DefaultPrices()[name], says[name]); lines[k] != want {
					t.Errorf("%s: line %d of the prompt is %q, want %q", y.ID, k, lines[k], want)
				}
				if company.Tools[k] != name {
					moved++
				}
				if called[name] == nil {
					called[name] = map[string]bool{}
				}
				called[name][o.Tool] = true
			}
		}
		// Only the names of tools differ from the usual task, and what belongs to the suite.
		for k, c := range y.GoldPath {
			if own := x.GoldPath[k]; c.Tool != as[own.Tool] && c.Tool != tool.FinishName {
				t.Errorf("%s: call %d is of %s, want %s", y.ID, k, c.Tool, as[own.Tool])
			}
		}
		y.GoldPath, y.Offers, y.Extra = x.GoldPath, x.Offers, x.Extra
		if !reflect.DeepEqual(y, x) {
			t.Errorf("%s masked is %+v, want all else as in %+v", y.ID, y, x)
		}
	}
	if masked < len(usual)/3 || masked > 2*len(usual)/3 {
		t.Errorf("%d of %d tasks are masked, want about half", masked, len(usual))
	}
	if moved < 2*len(usual) {
		t.Errorf("%d of %d lines are elsewhere than usual, want about three in four", moved, 4*len(usual))
	}
	for name, seen := range called {
		if len(seen) < 12 {
			t.Errorf("%s is called %v: a few names only would give it away", name, seen)
		}
	}
	for _, tr := range play(t, all, scripted.Oracle(every), rollout.Attempts(every, 1), episode.Hard) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost || tr.Outcome.Reward.Total != 1 {
			t.Errorf("%s: %v gives %+v", tr.Task.ID, actions(tr), tr.Outcome)
		}
		if name := ownName(fmt.Sprint(actions(tr), tr.Task.GoldCalls)); name != "" {
			t.Errorf("%s: the record names %s", tr.Task.ID, name)
		}
	}
	if got := company.CheckCheapest(w, every[:20]); len(got) > 0 {
		t.Errorf("shortcuts: %v", got)
	}
	// A world in memory has the same names, and its files know of none.
	mem := generate(t, company.Options{Seed: 5, MaskTools: 1, Counts: map[string]int{company.Train: 60, company.Val: 0, company.ValCombo: 0,
		company.Test: 0, company.HeldoutCombo: 0, company.HeldoutTemplate: 0}})
	dir := t.TempDir()
	if err := mem.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.json", "tasks_train.jsonl"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || bytes.Contains(b, []byte(`mask`)) {
			t.Errorf("%s knows of masked tools (%v)", name, err)
		}
	}
	again, err := company.Open(dir, company.Options{MaskTools: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !reflect.DeepEqual(train(t, again), train(t, mem.Suite())) {
		t.Error("a suite in memory has other names than one on disk")
	}
	// Further training worlds are masked too.
	extra, err := again.ExtraWorlds(0, 1, 30)
	if err != nil {
		t.Fatal(err)
	}
	defer extra[0].Close()
	for _, x := range train(t, extra[0]) {
		if as := names(t, extra[0], x); len(as) != len(company.Tools) {
			t.Errorf("%s of a further world is not masked", x.ID)
		}
	}
}

// The tools of a masked task answer to its names alone, and speak of each other by them.
func TestMaskedBox(t *testing.T) {
	s := open(t, company.Options{MaskTools: 1})
	x := train(t, s)[0]
	as := names(t, s, x)
	box, err := s.Box(x)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, name := range company.Tools {
		_, err := box.Call(t.Context(), name, map[string]any{"query": "SELECT COUNT(*) FROM sites"})
		if !errors.Is(err, tool.ErrUnknown) || !strings.Contains(err.Error(), as[name]) {
			t.Errorf("%s in a masked task: %v, want it unknown and the names listed", name, err)
		}
		if got := box.Charge(as[name], nil); got != company.DefaultPrices()[name] {
			t.Errorf("%s costs %v, want %v", as[name], got, company.DefaultPrices()[name])
		}
	}
	if got, err := box.Call(t.Context(), as[company.ToolCalc], map[string]any{"expression": "6*7"}); err != nil || got.Text != "42" {
		t.Errorf("%s: %q, %v", as[company.ToolCalc], got.Text, err)
	}
	_, err = box.Call(t.Context(), as[company.ToolSQL], map[string]any{"query": "SELECT 6*7"})
	if err == nil || !strings.Contains(err.Error(), "use "+as[company.ToolCalc]) || ownName(err.Error()) != "" {
		t.Errorf("arithmetic in SQL: %v, want to be told to use %s", err, as[company.ToolCalc])
	}
	if !errors.Is(err, sqlbox.ErrRefused) || !errors.Is(err, sqlbox.ErrArithmetic) {
		t.Errorf("%v: want %v and %v behind it, as in a task that is not masked", err, sqlbox.ErrRefused, sqlbox.ErrArithmetic)
	}
}

// Demonstrations of masked tasks call their tools by the names that their prompts have.
func TestMaskedDemonstrations(t *testing.T) {
	s := open(t, company.Options{MaskTools: 1, Thoughts: true})
	for _, kind := range company.DemoKinds {
		demos, trs := demonstrated(t, s, kind, 3)
		waste, by := 0, map[string]int{}
		for i, tr := range trs {
			if !tr.Outcome.Verified || tr.Outcome.Invalid > 0 || tr.Outcome.Failed > 0 || ownName(fmt.Sprint(actions(tr))) != "" {
				t.Errorf("%s: %s: %v gives %+v", kind, tr.Task.ID, actions(tr), tr.Outcome)
			}
			if tr.Outcome.Spend > tr.Task.OptimalCost {
				waste++
			}
			as := names(t, s, demos[i].Task)
			for name := range as {
				if as[name] == tr.Turns[0].Action.Tool {
					by[name]++
				}
			}
		}
		if kind == company.DemoWasteful && waste < len(demos)/3 || kind != company.DemoWasteful && waste > 0 {
			t.Errorf("%s: %d of %d paths waste calls", kind, waste, len(demos))
		}
		if kind == company.DemoBase && (by[company.ToolSQL] == 0 || by[company.ToolSQL] != by[company.ToolDoc] || by[company.ToolSQL] != by[company.ToolCalc]) {
			t.Errorf("base: calls by tool %v, want equal numbers", by)
		}
	}
}

// Masked tasks go with offers of their own, in either style; at other prices the names are gone, as in evaluation.
func TestMaskedOffers(t *testing.T) {
	s := open(t, company.Options{MaskTools: 1, RandomOffers: 1, Style: company.Full, Thoughts: true})
	offered := train(t, open(t, company.Options{RandomOffers: 1, Style: company.Full, Thoughts: true}))
	tasks := train(t, s)
	for _, tr := range play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Hard) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Errorf("%s: %+v", tr.Task.ID, tr.Outcome)
		}
	}
	for i, x := range tasks {
		if len(x.Offers) != len(offered[i].Offers) || company.PriceList(x) != company.PriceList(offered[i]) || x.OptimalCost != offered[i].OptimalCost {
			t.Errorf("%s: %s, want %s", x.ID, company.PriceList(x), company.PriceList(offered[i]))
		}
		p, err := s.Prompt(x)
		if err != nil {
			t.Fatal(err)
		}
		if name := ownName(p.System + p.User); name != "" {
			t.Errorf("%s: the prompt names %s", x.ID, name)
		}
		for _, spec := range p.Tools {
			arg := "query"
			switch {
			case spec.Name == tool.FinishName:
				continue
			case strings.HasPrefix(spec.Description, "exact arithmetic"):
				arg = "expression"
			}
			if want := fmt.Sprintf("- %s, price %v: %s. Arguments: {\"%s\": string}\n", spec.Name, spec.Price.Base, spec.Description, arg); !strings.Contains(p.System, want) {
				t.Errorf("%s: the system text lacks %q:\n%s", x.ID, want, p.System)
			}
		}
		if sql := strings.Contains(p.System, "run one read-only SELECT"); sql != strings.Contains(p.System, "- products(name, ") {
			t.Errorf("%s: SQL is offered: %v; the system text shows tables: %v", x.ID, sql, !sql)
		}
	}
	back, err := s.At(nil, "x", tasks)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range back {
		if x.Offers[0].Tool != company.ToolSQL || !slices.Contains(x.Combination, x.GoldPath[0].Tool) || string(x.Extra) != string(offered[i].Extra) {
			t.Errorf("%s at the usual prices: %+v", x.ID, x)
		}
	}
}

// All texts of masked tasks are made of tokens that the tiny preset's tokenizer has from plain tasks, and that plain tasks use. Each name
// of a mask and each word for a tool is one token.
func TestMaskedWordsAreKnown(t *testing.T) {
	texts := func(opt company.Options) []string { return tiny.Texts(shown(t, open(t, opt))) }
	plain, masked := texts(company.Options{Thoughts: true}), texts(company.Options{Thoughts: true, MaskTools: 1})
	tok, err := tokenizer.TrainTiny(plain, tokenizer.TinyOptions{Atoms: tiny.Atoms})
	if err != nil {
		t.Fatal(err)
	}
	used := map[int32]bool{}
	for _, text := range plain {
		for _, id := range tok.Encode(text) {
			used[id] = true
		}
	}
	for _, text := range masked {
		for _, id := range tok.Encode(text) {
			if !used[id] {
				t.Fatalf("token %q of %q stands in no plain text", tok.Decode([]int32{id}, false), text)
			}
		}
	}
	s := open(t, company.Options{MaskTools: 1})
	for _, x := range train(t, s) {
		for name, as := range names(t, s, x) {
			for _, word := range []string{as, says[name]} {
				if ids := tok.Encode(word); len(ids) != 1 {
					t.Errorf("%s is %d tokens", word, len(ids))
				}
			}
			if strings.Contains(x.Question, as) {
				t.Errorf("%s: %s stands in the question %q too", x.ID, as, x.Question)
			}
		}
		p, err := s.Prompt(x)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(tok.Encode(p.User)); n > 120 {
			t.Errorf("%s: a prompt of %d tokens", x.ID, n)
		}
	}
}

// The scripted baselines need the tools' own names. They refuse masked tasks instead of playing them and giving up.
func TestBaselinesRefuseMasks(t *testing.T) {
	s := open(t, company.Options{MaskTools: 1})
	tasks := train(t, s)[:2]
	r := company.Rules{}
	for _, p := range []policy.Policy{scripted.AlwaysCheapest(r), scripted.AlwaysAllTools(r), scripted.RandomTool(r),
		scripted.StaticThreshold(r, scripted.Threshold{First: company.ToolDoc, Second: company.ToolWeb, MinScore: company.MinScore})} {
		trs, err := rollout.Run(t.Context(), s, p, rollout.Attempts(tasks, 1), rollout.Options{Seed: 1, MaxErrors: 1, Reward: reward.Default()})
		if err != nil {
			t.Fatal(err)
		}
		for i, tr := range trs {
			if want := fmt.Sprintf("its rules know no tool named %q", tasks[i].Offers[0].Tool); tr.End != trajectory.Error || !strings.Contains(tr.Cause, want) {
				t.Errorf("%s on %s ends with %s, %q; want an error that says %q", p.Name(), tr.Task.ID, tr.End, tr.Cause, want)
			}
		}
	}
}

// A masked split is test tasks under other names: the same questions, costs and answers, and the same names every time.
func TestMaskedSplit(t *testing.T) {
	s := open(t, company.Options{})
	own, err := s.Tasks(company.Test)
	if err != nil {
		t.Fatal(err)
	}
	tasks := s.Masked("test_masked", own)
	if again := s.Masked("test_masked", own); !reflect.DeepEqual(tasks, again) {
		t.Error("the same tasks have other names the second time")
	}
	for i, x := range tasks {
		if x.Question != own[i].Question || x.OptimalCost != own[i].OptimalCost || x.ID == own[i].ID || x.Split != "test_masked" {
			t.Fatalf("task %s became %+v", own[i].ID, x)
		}
		for _, c := range x.GoldPath[:len(x.GoldPath)-1] {
			if slices.Contains(company.Tools, c.Tool) {
				t.Errorf("task %s calls %s by its own name", x.ID, c.Tool)
			}
		}
	}
	for _, tr := range play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Soft) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Errorf("task %s: verified %v, spent %v of %v", tr.Task.ID, tr.Outcome.Verified, tr.Outcome.Spend, tr.Task.OptimalCost)
		}
	}
}
