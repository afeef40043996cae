package company

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite"
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
