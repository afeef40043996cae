package company_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// openDefault opens the data set of the default options, with thoughts as training shows them.
func openDefault(t *testing.T) (*company.World, *company.Suite) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays the world of the default options")
	}
	w, dir := company.DefaultWorld(t)
	s, err := company.Open(dir, company.Options{Thoughts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return w, s
}

// The gold path solves every task of every split at the optimal cost where the budget is hard.
func TestOracleOnTheDefaultWorld(t *testing.T) {
	_, s := openDefault(t)
	want := company.DefaultCounts()
	for _, split := range s.Splits() {
		tasks, err := s.Tasks(split)
		if err != nil {
			t.Fatal(err)
		}
		trs := play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Hard)
		if len(trs) != want[split] {
			t.Errorf("%s: %d episodes, want %d", split, len(trs), want[split])
		}
		for _, tr := range trs {
			if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost || tr.Outcome.Spend > tr.Task.Budget || tr.Outcome.Reward.Total != 1 {
				t.Errorf("%s: %s: %+v", tr.Task.ID, tr.Task.Question, tr.Outcome)
			}
		}
	}
}

// played are the episodes that demonstrations make.
func played(t *testing.T, s *company.Suite, demos []suite.Demonstration) []tiny.Played {
	t.Helper()
	out, err := tiny.Play(t.Context(), s, demos, episode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shown are the episodes of which the tiny preset's tokenizer is trained: the gold paths of train and the single calls.
func shown(t *testing.T, s *company.Suite) (out []tiny.Played) {
	t.Helper()
	for _, kind := range []string{company.DemoOptimal, company.DemoBase} {
		demos, err := s.Demonstrations(t.Context(), kind, 1)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, played(t, s, demos)...)
	}
	return out
}

// With the tokenizer that training makes, prompts have at most 120 tokens in every split, and passages that state a fact at most 40; those
// that state none are of words that train hardly shows, spelled in pieces, and are longer. No prompt or action of a split holds a token that
// training never shows. An observation hardly ever does: where a passage says its fact in rare words, whose first letter is then a token.
func TestTokensOfTheDefaultWorld(t *testing.T) {
	w, s := openDefault(t)
	all := shown(t, s)
	tok, err := tokenizer.TrainTiny(tiny.Texts(all), tokenizer.TinyOptions{MaxVocab: 4000, MinTexts: 5, Atoms: tiny.Atoms})
	if err != nil {
		t.Fatal(err)
	}
	codec, err := chat.NewTinyCodec(tok)
	if err != nil {
		t.Fatal(err)
	}
	used := map[int32]bool{}
	read, err := tiny.Examples(codec, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range read {
		for _, id := range x.IDs {
			used[id] = true
		}
	}
	episodes, odd := 0, 0
	for _, split := range s.Splits() {
		tasks, err := s.Tasks(split)
		if err != nil {
			t.Fatal(err)
		}
		longest := 0
		for _, x := range tasks {
			p, err := s.Prompt(x)
			if err != nil {
				t.Fatal(err)
			}
			if p.System != "" {
				t.Fatalf("%s: the compact prompt has a system text", x.ID)
			}
			ids, err := codec.Prompt("", p.User)
			if err != nil {
				t.Fatal(err)
			}
			if longest = max(longest, len(ids)); len(ids) > 120 {
				t.Errorf("%s: a prompt of %d tokens: %s", x.ID, len(ids), p.User)
			}
		}
		t.Logf("%s: the longest prompt has %d tokens", split, longest)
		if split == company.Train {
			continue
		}
		demos := make([]suite.Demonstration, len(tasks))
		for i, x := range tasks {
			demos[i] = suite.Demonstration{Task: x, Calls: x.GoldPath}
		}
		gold := played(t, s, demos)
		read, err := tiny.Examples(codec, gold)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range read {
			prompt, err := codec.Prompt("", gold[i].Prompt.User)
			if err != nil {
				t.Fatal(err)
			}
			strange := false
			for at, id := range x.IDs {
				switch {
				case used[id]:
				case at < len(prompt) || x.Mask[at] == 1:
					t.Errorf("%s: token %q stands in no text of train", x.ID, tok.Decode([]int32{id}, false))
				default:
					strange = true
				}
			}
			if strange {
				odd++
			}
			episodes++
		}
	}
	t.Logf("of %d episodes %d observe a token that stands in no text of train", episodes, odd)
	if odd > episodes/100 {
		t.Errorf("%d of %d episodes observe a token that stands in no text of train", odd, episodes)
	}
	facts, others := 0, 0
	for _, docs := range [][]company.Document{w.Docs, w.Pages} {
		for _, d := range docs {
			for i, p := range d.Passages {
				n := len(tok.Encode(p))
				limit, longest := 40, &facts
				if i == 0 || company.Noise(p) {
					limit, longest = 60, &others
				}
				if *longest = max(*longest, n); n > limit {
					t.Errorf("%s: a passage of %d tokens: %s", d.ID, n, p)
				}
			}
		}
	}
	t.Logf("%d tokens in the vocabulary; the longest passage with a fact has %d, without one %d", tok.VocabSize(), facts, others)
}

// A query gives what the file and its text decide: the same rows in the same order where it asks for none, again and again, from many
// callers at once and when the file is opened anew.
func TestRowsKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	if err := company.SharedWorld(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	task := company.SharedWorld(t).Tasks(company.Test)[0]
	queries := []string{
		"SELECT name FROM products", "SELECT name, stock FROM products WHERE stock > 50", "SELECT category FROM products GROUP BY category",
		"SELECT category, COUNT(*) FROM products GROUP BY category", "SELECT p.name, s.city FROM products p JOIN suppliers s ON p.supplier = s.name",
		"SELECT customer FROM orders WHERE status = 'open' OR status = 'paid'", "SELECT name FROM sites WHERE region IN (SELECT name FROM regions WHERE dealer_count > 40)",
	}
	want := map[string]string{}
	for opened := range 2 {
		s, err := company.Open(dir, company.Options{SQLRows: 500, SQLBytes: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		box, err := s.Box(task)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		if opened == 0 {
			for _, q := range queries {
				got, err := box.Call(t.Context(), company.ToolSQL, map[string]any{"query": q})
				if want[q] = got.Text; err != nil || strings.Count(want[q], "\n") < 3 {
					t.Fatalf("%s: %q, %v; want several rows", q, want[q], err)
				}
			}
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for k := range 2 * len(queries) {
					q := queries[(i+k)%len(queries)]
					if got, err := box.Call(t.Context(), company.ToolSQL, map[string]any{"query": q}); err != nil || got.Text != want[q] {
						t.Errorf("%s: %v, or other rows than the first time: %.200q, want %.200q", q, err, got.Text, want[q])
					}
				}
			})
		}
		wg.Wait()
	}
	// Without a key for the query to follow, a table gives its rows in the order in which they were written.
	var first []string
	for _, table := range company.SharedWorld(t).Tables {
		if table.Name == "products" {
			for _, row := range table.Rows {
				if at := slices.IndexFunc(table.Columns, func(c company.Column) bool { return c.Name == "stock" }); len(row[at]) == 2 && row[at] > "50" {
					first = append(first, fmt.Sprintf("%s | %s", row[0], row[at]))
				}
			}
		}
	}
	if got := want[queries[1]]; got != strings.Join(first, "\n") {
		t.Errorf("%s: %.200q, want the order of the table, %.200q", queries[1], got, strings.Join(first, "\n"))
	}
}
