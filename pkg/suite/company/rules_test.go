package company

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// The rules word these calls from the question alone; an empty argument means that they have nothing to ask.
func TestRulesWordCalls(t *testing.T) {
	for _, c := range []struct {
		question, tool, want string
		seen                 []suite.Seen
	}{
		{"What is the unit price of Norvik Pump?", ToolSQL, "SELECT unit_price FROM products WHERE name = 'Norvik Pump'", nil},
		{"Norvik Harbor: what is its region?", ToolSQL, "SELECT region FROM sites WHERE name = 'Norvik Harbor'", nil},
		{"Tell me the region of Norvik Metals.", ToolSQL, "SELECT region FROM suppliers WHERE name = 'Norvik Metals'", nil},
		{"What is the warranty of Norvik Pump?", ToolSQL, "", nil},
		{"What is the warranty of Norvik Pump?", ToolDoc, "Norvik Pump warranty", nil},
		{"What is the warranty of Norvik Pump?", ToolCalc, "", nil},
		{"How many orders does Norvik Foods have?", ToolSQL, "SELECT COUNT(*) FROM orders WHERE customer = 'Norvik Foods'", nil},
		{"List the projects of Mira Kaya.", ToolSQL, "SELECT name FROM projects WHERE manager = 'Mira Kaya'", nil},
		{"What is 15 percent of 80?", ToolCalc, "15*80/100", nil},
		{"Compute 12 times 7 plus 5.", ToolCalc, "12*7+5", nil},
		{"Compute 12 times 7 plus 5.", ToolDoc, "", nil},
		{"What is the stock of Norvik Pump times 3?", ToolCalc, "", nil},
		{"What is the stock of Norvik Pump times 3?", ToolCalc, "48*3", []suite.Seen{{Tool: ToolSQL, Body: "48"}}},
		{"What is the stock of Norvik Pump times 3?", ToolCalc, "", []suite.Seen{{Tool: ToolSQL, Body: "48", Failed: true}}},
		{"What is the share price of the supplier of Norvik Pump?", ToolSQL, "", nil},
		{"What is the share price of the supplier of Norvik Pump?", ToolWeb, "Norvik Pump share price supplier", nil},
		{"What is the stock of Norvik Pump?", "shell", "", nil},
		{"", ToolDoc, "", nil},
	} {
		args, ok := Rules{}.Call(c.question, c.tool, c.seen)
		want := ""
		if c.want != "" {
			b, err := encode(map[string]string{argName[c.tool]: c.want})
			if err != nil {
				t.Fatal(err)
			}
			want = string(b)
		}
		// 15*80/100 may be written the other way round: the product is the same.
		if got := string(args); ok != (want != "") || got != want && got != strings.Replace(want, "15*80", "80*15", 1) {
			t.Errorf("%s for %q after %v: %s, %v; want %s", c.tool, c.question, c.seen, args, ok, want)
		}
	}
}

func TestRulesReadAnswers(t *testing.T) {
	doc := func(body string) []suite.Seen { return []suite.Seen{{Tool: ToolDoc, Body: body}} }
	for _, c := range []struct {
		question string
		seen     []suite.Seen
		want     string // empty: no answer
	}{
		{"What is the warranty of Norvik Pump?", doc("- The warranty of Norvik Pump is 48 months. The board was told. (14.02)"), "48"},
		{"What is the warranty of Norvik Pump?", doc("- Policy A: warranty of products: Warranty of Norvik Pump: 48 months. (score 14.02)"), "48"},
		{"What is the warranty of Norvik Pump?", doc("- Draft, never in force: the warranty of Norvik Pump is 12 months. (15.00)\n- For Norvik Pump the warranty is 48 months. (14.02)"), "48"},
		{"What is the warranty of Norvik Pump?", doc("- The warranty of Norvik Valve is 48 months. (14.02)"), ""},
		{"What is the warranty of Norvik Pump?", doc("- The test load of Norvik Pump is 480 kg. (14.02)"), ""},
		{"What is the warranty of Norvik Pump?", doc("no results"), ""},
		{"Who is the sponsor of Norvik Foods?", doc("- The sponsor of Norvik Foods is Mira Kaya, as told. (9.00)"), "Mira Kaya"},
		{"Is the stock of Norvik Pump above 50?", []suite.Seen{{Tool: ToolSQL, Body: "48"}}, "no"},
		{"Is the stock of Norvik Pump above 50?", []suite.Seen{{Tool: ToolSQL, Body: "stock\n51"}}, "yes"},
		{"Is the stock of Norvik Pump above 50?", []suite.Seen{{Tool: ToolSQL, Body: "no rows"}}, ""},
		{"Which products belong to Norvik Metals?", []suite.Seen{{Tool: ToolSQL, Body: "Norvik Pump\nNorden Fan"}}, "Norvik Pump, Norden Fan"},
		{"What is 15 percent of 80?", []suite.Seen{{Tool: ToolCalc, Body: "12"}}, "12"},
		{"What is the stock of Norvik Pump times 3?", []suite.Seen{{Tool: ToolSQL, Body: "48"}}, ""},
		{"What is the share price of the supplier of Norvik Pump?", []suite.Seen{{Tool: ToolSQL, Body: "Norvik Metals"}, {Tool: ToolWeb, Body: "- The share price of Norvik Metals is 20 EUR. (9.00)"}}, ""},
	} {
		if got, ok := (Rules{}).Extract(c.question, c.seen); got != c.want || ok != (c.want != "") {
			t.Errorf("%q after %v: %q, %v; want %q", c.question, c.seen, got, ok, c.want)
		}
	}
}

// Any question and any observation is read without a panic.
func TestRulesReadAnything(t *testing.T) {
	odd := []string{"", "?", " plus ", "@: @", "is above ", "Is Ab Cd above more than 3?", "What is its?", "x percent of ", "5 percent of plus 3", "Étoile Šubert is", ": is ", "- (1.00)",
		"Is the a of Ab Cd above its b plus 3 minus ?", "\xff\xfe plus \xff", strings.Repeat("of ", 500), "How many of Ab Cd", "List the of Ab Cd"}
	for _, q := range odd {
		for _, body := range odd {
			for _, name := range append([]string{"finish"}, Tools...) {
				seen := []suite.Seen{{Tool: name, Body: body}, {Tool: ToolSQL, Body: body + "\n" + body}}
				Rules{}.Call(q, name, seen)
				Rules{}.Extract(q, seen)
				Rules{}.Score(seen[0])
			}
		}
	}
}

// The rules never take the answer from a fall-back call.
func TestFallbackCalls(t *testing.T) {
	pump := "SELECT name, code, unit_price, stock, weight, launch_date, category, supplier FROM products WHERE name = 'Norvik Pump'"
	for _, c := range []struct{ question, tool, want string }{
		{"What is the warranty of Norvik Pump?", ToolSQL, pump},
		{"What is 12 plus 7.5?", ToolSQL, "SELECT name FROM products LIMIT 1"},
		{"What is 12 plus 7.5?", ToolCalc, "12+7.5"},
		{"What is 12 plus 7.5?", ToolDoc, "What is 12 plus 7.5?"},
		{"What is the warranty of Norvik Pump?", ToolCalc, "48"},
		{"What is the warranty of Norvik Pump?", "shell", ""},
	} {
		args, ok := Rules{}.Fallback(c.question, c.tool, []suite.Seen{{Tool: ToolDoc, Body: "- The warranty of Norvik Pump is 48 months. (14.02)"}})
		if got := argument(c.tool, args); got != c.want || ok != (c.want != "") {
			t.Errorf("%s for %q: %s, %v; want %s", c.tool, c.question, got, ok, c.want)
		}
	}
	for _, s := range []suite.Seen{{Tool: ToolSQL, Body: "Norvik Pump | PR1 | 20"}, {Tool: ToolSQL, Body: "77"}, {Tool: ToolCalc, Body: "19.5"}} {
		if got, ok := (Rules{}).Extract("What is the warranty of Norvik Pump?", []suite.Seen{s}); ok {
			t.Errorf("%v gives %s", s, got)
		}
	}
}

// A reading has the terms of the question in order, whatever its wording.
func TestReadQuestion(t *testing.T) {
	for _, c := range []struct{ question, want string }{
		{"What is the unit price of Norvik Pump?", "value [] [[unit price]]"},
		{"Norvik Pump: what is its unit price?", "value [] [[unit price]]"},
		{"Which unit price does Norvik Pump have?", "value [] [[unit price]]"},
		{"Please give the stock for Norvik Pump.", "value [] [[stock]]"},
		{"On which day is the launch date of Norvik Pump?", "value [] [[launch date]]"},
		{"I need to know when the launch date of Norvik Pump is.", "value [] [[launch date]]"},
		{"What is the name of the inventor of Norvik Pump?", "value [] [[inventor]]"},
		{"What is the talk city of the fire warden of Norvik Harbor?", "value [] [[fire warden talk city]]"},
		{"Norvik Foods: what is the power tariff of the office of its sponsor?", "value [] [[sponsor office power tariff]]"},
		{"Tell me if the stock of Norvik Pump is above 50.", "compare [ 50] [[stock]]"},
		{"Norvik Pump: is its stock more than its noise level?", "compare [ ] [[stock] [noise level]]"},
		{"Norvik Pump: what is 15 percent of its stock?", "value [ 15] [[stock]]%"},
		{"Take the stock of Norvik Pump minus its noise level, what is it?", "value [ ] [[stock] [noise level]]-"},
		{"Find the patent count of the inventor of Norvik Pump plus 7, what is it times 3?", "value [ 7] [[inventor patent count]]+ 3"},
		{"Norvik Pump: what is its stock, what is its warranty?", "both [ ] [[stock] [warranty]]"},
		{"How many orders does Norvik Foods have?", "count [] [[orders]]"},
		{"Norvik Foods: how many orders?", "count [] [[orders]]"},
		{"Tell me which projects belong to Mira Kaya.", "list [] [[projects]]"},
		{"Mira Kaya: which are its projects?", "list [] [[projects]]"},
		{"I need the names of all projects of Mira Kaya.", "list [] [[projects]]"},
		{"How much is 12 times 7 plus 5?", "value [12 7 5] []*+"},
		{"Tell me a joke.", " [] []"},
		{"", " [] []"},
	} {
		r := readQuestion(c.question)
		got := strings.TrimSpace(fmt.Sprint(r.form, " ", r.terms, " ", r.facts, strings.Join(r.ops, ""), " ", r.times))
		if strings.TrimSpace(got) != strings.TrimSpace(c.want) {
			t.Errorf("%q: %s, want %s", c.question, got, c.want)
		}
	}
}

// The parser reads anything: it ends after a few calls, each of a known tool with its one argument.
func FuzzParser(f *testing.F) {
	p := NewParser([]suite.Task{{Question: "How many orders does Norvik Foods have?", GoldPath: []suite.Call{
		{Tool: ToolSQL, Args: json.RawMessage(`{"query":"SELECT COUNT(*) FROM orders WHERE customer = 'Norvik Foods'"}`)},
		{Tool: ToolDoc, Args: json.RawMessage(`{"query":"Norvik Pump warranty"}`)},
		{Tool: ToolSQL, Args: json.RawMessage(`{"query":"SELECT stock FROM products WHERE name = 'Norvik Pump'"}`)},
	}}})
	for _, q := range []string{"What is the warranty of Norvik Pump plus its stock?", "How many orders does Norvik Foods have?", "Mira Kaya: what is its, what is its ?",
		"Take the stock of the supplier of the x of Norvik Pump above 3, what is it times 2?", "5 percent of Ab Cd: its", "\xff the its of Ab Cd"} {
		f.Add(q, "48")
		f.Add(q, "- The warranty of Norvik Pump is 48 months. (14.02)\nx | y")
	}
	var tools []tool.Spec
	for _, name := range Tools {
		tools = append(tools, tool.Spec{Name: name})
	}
	f.Fuzz(func(t *testing.T, question, body string) {
		var seen []suite.Seen
		for range 100 {
			c, ok := p.Next(question, tools, seen)
			if !ok || c.Tool == tool.FinishName {
				return
			}
			if !slices.Contains(Tools, c.Tool) || argument(c.Tool, c.Args) == "" {
				t.Fatalf("%q: call %s %s", question, c.Tool, c.Args)
			}
			seen = append(seen, suite.Seen{Tool: c.Tool, Body: body})
		}
		if len(question) < 500 {
			t.Fatalf("%q: no end", question)
		}
	})
}
