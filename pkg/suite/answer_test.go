package suite_test

import (
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/toolroute/toolroute/pkg/suite"
)

func ExampleAnswer_Matches() {
	gold := suite.Answer{Type: suite.Number, Values: []string{"1250"}, Unit: "EUR"}
	fmt.Println(gold.Matches("€1,250.00"), gold.Matches("1250 EUR"), gold.Matches("1250 kg"), gold.Matches("1.25e3"), gold.Matches("about 1250"))
	// Output: true true false false false
}

func TestMatches(t *testing.T) {
	num := func(v string) suite.Answer { return suite.Answer{Type: suite.Number, Values: []string{v}} }
	of := func(v, unit string) suite.Answer {
		return suite.Answer{Type: suite.Number, Values: []string{v}, Unit: unit}
	}
	text := func(v string) suite.Answer { return suite.Answer{Type: suite.String, Values: []string{v}} }
	date := func(v string) suite.Answer { return suite.Answer{Type: suite.Date, Values: []string{v}} }
	list := func(v ...string) suite.Answer { return suite.Answer{Type: suite.List, Values: v} }
	yes := suite.Answer{Type: suite.YesNo, Values: []string{"yes"}}
	no := suite.Answer{Type: suite.YesNo, Values: []string{"no"}}
	within := suite.Answer{Type: suite.Number, Values: []string{"0.3"}, Tolerance: "0.1"}
	for _, c := range []struct {
		gold  suite.Answer
		given string
		want  bool
	}{
		// Exactness.
		{num("9007199254740993"), "9007199254740993", true},
		{num("9007199254740993"), "9007199254740992", false},
		{num("123456789012345678901234567890"), "123,456,789,012,345,678,901,234,567,890", true},
		{num("123456789012345678901234567890"), "123456789012345678901234567891", false},
		{num("0.3"), "0.30000000000000004", false},
		{num("0.3"), ".3", true},
		{num("59.8"), "59.80", true},
		{num("-5"), "−5", true},
		{num("-5"), "5", false},
		{num("0"), "-0", true},
		{within, "0.4", true},
		{within, "0.2", true},
		{within, "0.40000000000000000001", false},
		// Accepted around and inside a number.
		{num("1250"), " 1250 ", true},
		{num("1250"), "1250.", true},
		{num("1250"), `"1250"`, true},
		{num("1250"), "**1250**", true},
		{num("1250"), "*`1250`*.", true},
		{num("1250"), "1 250", true},
		{num("1250"), "1\u00a0250", true},
		{num("1250"), "1'250", true},
		{num("1250"), "1’250", true},
		{num("1250"), "1_250", true},
		{num("1250"), "１２５０", true},
		{num("1250"), "12\u200b50", true},
		{num("5000"), "5,000", true},
		{num("5"), "5.000", true},
		{num("5"), "5.", true},
		{num("5"), "+5", true},
		{num("5"), "005", true},
		{num("-5"), "‑5", true},
		{num("-5"), "–5", true},
		{num("-5"), "-5.0", true},
		{of("1250", "EUR"), "€1,250", true},
		{of("1250", "EUR"), "-€1,250", false},
		{of("-1250", "EUR"), "-€1,250", true},
		{of("-1250", "EUR"), "€-1,250", true},
		{of("1250", "EUR"), "EUR 1250", true},
		{of("1250", "EUR"), "1250 EUR.", true},
		{of("1250", "EUR"), "1250€", true},
		{of("1250", "EUR"), "1250 Euros", true},
		{of("1250", "EUR"), "1250", true},
		{of("48", "months"), "48 months", true},
		{of("48", "months"), "48 month", true},
		{of("48", "kg"), "48kg", true},
		{of("48", "kg"), "48 ㎏", true},
		{of("48", "furlongs"), "48 Furlongs", true}, // a unit that is not in the table
		{of("12", "%"), "12 %", true},
		{of("12", "%"), "12 percent", true},
		// Another unit than the task's, or one where it has none.
		{of("1250", "EUR"), "$1,250", false},
		{of("1250", "EUR"), "EUR 1250 EUR", false},
		{of("1250", "EUR"), "1250 kg", false},
		{of("1250", "EUR"), "1250 EUR a month", false},
		{of("48", "months"), "48 M", false},
		{of("48", "months"), "48 m", false},
		{of("48", "mm"), "48 MM", false},
		{of("48", "mm"), "48 m", false},
		{of("48", "kg"), "kg 48", false},
		{of("0.12", "%"), "12%", false},
		{num("12"), "12%", false},
		{num("12"), "12 %", false},
		{num("1250"), "$1,250", false},
		{num("1250"), "1250€", false},
		{num("1250"), "EUR 1250", false},
		{num("5"), "5kg", false},
		{num("5"), "5M", false},
		{num("5"), "5 K", false},
		{num("5"), "5k", false},
		{num("5"), "5 Million", false},
		{num("5"), "5 trillion", false},
		{num("5"), "5 hundred", false},
		{num("5"), "5 dozen", false},
		{num("5"), "5 or six", false},
		{num("5"), "5 times ten", false},
		{num("5"), "5 (five)", false},
		{num("5"), "~5", false},
		{num("5"), "≈5", false},
		{num("5"), "<5", false},
		{num("5"), ">=5", false},
		{num("5"), "5+", false},
		{num("5"), "5-6", false},
		{num("5"), "5–6", false},
		{num("5"), "5/1", false},
		{num("5"), "5:1", false},
		{num("5"), "5!", false},
		{num("5"), "5?", false},
		{num("5"), "5th", false},
		{num("5"), "5²", false},
		{num("52"), "5²", false},
		{num("5"), "⑤", false},
		{num("0.5"), "½", false},
		{num("5"), "٥", false},
		{num("5"), "V", false},
		{num("5"), "five", false},
		{num("5"), "5\n6", false},
		{num("5"), "5, 6", false},
		{num("5"), "5..", false},
		{num("5"), `5"`, false},
		{num("5"), "5'", false},
		{num("5"), "(5)", false},
		{num("-5"), "(5)", false},
		{num("-5"), "- 5", false},
		{num("5"), "--5", false},
		{num("5"), "0,005", false},
		{num("5"), "00 005", false},
		{num("5"), "5,000", false},
		{num("5000"), "5.000", false},
		{num("15"), "1 5", false},
		// Not accepted.
		{num("1250"), "12,50", false},
		{num("1250"), "1,25,0", false},
		{num("1250"), "1250 1250", false},
		{num("1250"), "the answer is 1250", false},
		{num("1000"), "1e3", false},
		{num("1000"), "1 thousand", false},
		{num("0.5"), "1/2", false},
		{num("16"), "0x10", false},
		{num("12"), "12-13", false},
		{num("12"), "", false},
		{num("12"), "NaN", false},
		{num("12"), "twelve", false},
		{num("1"), strings.Repeat("1", 5000), false},

		{text("Norvik Pump"), "norvik  pump.", true},
		{text("Norvik Pump"), `"Norvik Pump".`, true},
		{text("Norvik Pump"), "«Norvik\u00a0Pump»", true},
		{text("Étoile"), "E\u0301TOILE", true},
		{text("Straße"), "STRASSE", true},
		{text("ﬁne"), "fine", true},
		{text("Norvik Pump"), "Norvik Pumps", false},
		{text("Norvik Pump"), "the Norvik Pump", false},
		{text("Norvik Pump"), "NorvikPump", false},
		{text("O'Neil"), "o'neil", true},
		// One mapping of quotes, hyphens and what is not seen.
		{text("O'Brien"), "O’Brien", true},
		{text("O’Brien"), "O'Brien", true},
		{text("O'Brien"), "Oʼ Brien", false},
		{text("O'Brien"), "OBrien", false},
		{text("AB-12"), "AB\u201112", true},
		{text("AB-12"), "AB–12", true},
		{text("AB−12"), "AB-12", true},
		{text("AB-12"), "AB12", false},
		{text("AB-12"), "AB 12", false},
		{text("Acme"), "Ac\u200bme", true},
		{text("Acme"), "Ac\u00adme\ufeff", true},
		{text("Acme"), "\u2066Acme\u2069", true},
		{text("Étoile"), "E\u200b\u0301toile", true},
		{text("x2"), "x²", false},
		// Punctuation that is part of a name.
		{text("-5"), "5", false},
		{text("-5"), "−5", true},
		{text("C#"), "C", false},
		{text("C++"), "C", false},
		{text("C"), "C#", false},
		{text(".NET"), "NET", false},
		{text("Yahoo!"), "Yahoo", false},
		{text("#7"), "7", false},
		{text("@home"), "home", false},
		{text("5%"), "5", false},
		{text("(a)"), "a", false},
		{text("Acme Inc."), "Acme Inc", true},
		{text("5"), "5.0", false},
		{text("."), ".", true},
		{text("."), "", false},

		{date("2026-03-07"), "2026-03-07", true},
		{date("2026-03-07"), "2026/3/7", true},
		{date("2026-03-07"), "7 March 2026", true},
		{date("2026-03-07"), "7th of March, 2026", true},
		{date("2026-03-07"), "Mar. 7, 2026", true},
		{date("2026-03-07"), "Saturday, 7 Mar 2026.", true},
		{date("2026-03-07"), "07.03.2026", true},
		{date("2026-03-07"), "2026‑03‑07", true},
		{date("2026-03-07"), "sat 7 mar 2026", true},
		{date("2026-09-07"), "7 Sept. 2026", true},
		{date("2026-03-07"), "Monday, 7 March 2026", false}, // it was a Saturday
		{date("2026-03-07"), "Holiday 7 March 2026", false},
		{date("2026-03-07"), "2026-03-07T00:00:00Z", false},
		{date("2026-03-07"), "20260307", false},
		{date("2026-03-07"), "7.3.26", false},
		{date("2026-03-07"), "7 or 8 March 2026", false},
		{date("2026-03-07"), "2026-03-07 2026-03-08", false},
		{date("2026-03-07"), "٢٠٢٦-٠٣-٠٧", false},
		{date("2026-03-07"), "03/07/2026", false},
		{date("2026-03-07"), "2026-07-03", false},
		{date("2026-02-28"), "2026-02-30", false},
		{date("2026-03-07"), "March 2026", false},

		{list("a b", "c"), "C, A B", true},
		{list("a b", "c"), "a b and c", true},
		{list("a b", "c"), `["c", "a b"]`, true},
		{list("a b", "c"), "- a b\n- c", true},
		{list("a b", "c"), "a b; c; c", true},
		{list("a b", "c"), "a b", false},
		{list("a b", "c"), "a b, c, d", false},
		{list("a b", "c"), `"a b", "c"`, true},
		{list("a b", "c"), "“c” and “a b”.", true},
		{list("a b", "c"), "c, and a b", true},
		{list("a b", "c"), "[c, a b]", true},
		{list("a b", "c"), `["c", "a b"] and more`, false},
		{list("a b", "c"), `["c", ["a b"]]`, false},
		{list("a b", "c"), "a b or c", false},
		{list("a b", "c"), "a b / c", false},
		{list("a b", "c"), "", false},
		{list("48", "120"), "120, 48.0", true},
		{list("48", "120"), "120 EUR, 48", false},
		{suite.Answer{Type: suite.List, Values: []string{"48", "120"}, Unit: "EUR"}, "120 EUR, €48", true},
		{list("48", "120"), "[48, 120]", true},
		{list("48", "120"), "48, 12", false},
		{list("9007199254740993", "1"), "9007199254740992, 1", false},
		{list("1234", "5"), "1,234, 5", false},
		{list("1234", "5"), "1,234; 5", false},
		{list("1234", "5"), "1 234; 5", true},
		{list("12 Main Street", "12 Oak Avenue"), "12", false},
		{list("12 Main Street", "12 Oak Avenue"), "12, 12", false},
		{list("12 Main Street", "12 Oak Avenue"), "12 oak avenue, 12 main street", true},
		{list("5 kg"), "5", false},
		{list("5", "3"), "- 5, - 3", false},
		{list("-5", "-3"), "- 5, - 3", false},
		{list("5", "3"), "-5, -3", false},
		{list("-5", "-3"), "-3, −5", true},
		{list("5", "3"), "- 5\n- 3", true},
		{list("-5", "-3"), "- 5\n- 3", false},
		{list("5", "3"), "- 5\n3", false},
		{list("5", "3"), "* 3\n* 5", true},
		{list("5", "3"), "• 5\n• 3", true},
		{list("5", "5"), "5", false},
		{list("5", "5"), "5, 5", true},
		{list("5", "5"), "5, 5, 5", false},
		{list("5", "3"), "5M, 3", false},
		{list("C#", "C"), "C", false},
		{list("C#", "C"), "c, c#", true},
		{list("O'Brien", "AB-12"), "AB‑12 and O’Brien", true},
		{list("Research and Development", "Sales"), "Sales, Research and Development", true},
		{list("Research and Development", "Sales"), "Research and Development and Sales", true},
		{list("Research and Development", "Sales"), "Research, Development, Sales", false},
		{list("Smith, John", "Doe, Jane"), "Doe, Jane; Smith, John", true},
		{list("Smith, John", "Doe, Jane"), "Doe, John; Smith, Jane", false},
		{list("sand", "band"), "sand, band", true},

		{yes, "Yes", true},
		{yes, "yes, because 5 is more", true},
		{yes, "TRUE", true},
		{yes, "no", false},
		{yes, "yes no", false},
		{yes, "yesterday", false},
		{yes, "**Yes**", true},
		{yes, "yes - 51 is more than 50", true},
		{yes, "Yes. It is above.", true},
		{yes, "yes, no", false},
		{yes, "yes/no", false},
		{yes, "yes or no", false},
		{yes, "yes, or no", false},
		{yes, "yes?", false},
		{yes, "yes and no", false},
		{yes, "not yes", false},
		{yes, "!yes", false},
		{yes, "5, yes", false},
		{yes, "yes-man", false},
		{yes, "1", false},
		{yes, "yep", false},
		{no, "no-one", false},
		{no, "No. 5", false},
		{no, "no, 48 is not above 50", true},
		{no, "no, that is true", false},
		{no, "n", true},
		{no, "No.", true},
		{no, "no idea", false},
		{no, "", false},

		{suite.Answer{Type: "colour", Values: []string{"x"}}, "x", false},
		{suite.Answer{Type: suite.Number}, "1", false},
	} {
		if got := c.gold.Matches(c.given); got != c.want {
			t.Errorf("%s %v against %q: %v, want %v", c.gold.Type, c.gold.Values, c.given, got, c.want)
		}
	}
}

// Matches gives the verdict of every row of the table in docs/reward_design.md.
func TestAnswersDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reward_design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- table:answers -->\n")
	table, _, _ = strings.Cut(table, "\n<!-- end -->")
	rows := 0
	for _, line := range strings.Split(table, "\n")[2:] {
		cell := strings.Split(line, " | ")
		if len(cell) != 6 {
			cell = strings.Split(strings.ReplaceAll(line, " | | ", " |  | "), " | ")
		}
		if len(cell) != 6 {
			t.Errorf("%d cells in %s", len(cell), line)
			continue
		}
		a := suite.Answer{Type: suite.AnswerType(strings.TrimPrefix(cell[0], "| ")), Values: []string{cell[1]}, Unit: strings.TrimSpace(cell[2])}
		if a.Type == suite.List {
			a.Values = strings.Split(cell[1], "; ")
		}
		rows++
		if got := a.Matches(strings.Trim(cell[3], "`")); got != (cell[4] == "right") || cell[4] != "right" && cell[4] != "wrong" {
			t.Errorf("%s: %v", line, got)
		}
	}
	if rows < 50 {
		t.Errorf("%d rows in the table", rows)
	}
}

func TestShows(t *testing.T) {
	for _, c := range []struct {
		value, text string
		want        bool
	}{
		{"12", "12", true},
		{"12", "3120", false},
		{"12", "12.5", false},
		{"12", "it is 12.", true},
		{"12", "12, 13", true},
		{"12", "(12)", true},
		{"12", "€12", true},
		{"12", "12%", true},
		{"12", "12.0", true},
		{"12", "2012-12-01", false},
		{"12", "12:30", false},
		{"12", "NP-12", false},
		{"12", "NP12", false},
		{"12", "12kg", false},
		{"12", "-12", false},
		{"-12", "it is -12", true},
		{"-12", "12", false},
		{"1234", "1,234 EUR", true},
		{"1234", "12,34", false},
		{"1.5", "1.50", true},
		{"9007199254740993", "9007199254740992", false},
		{"2024-03-01", "on 2024-03-01.", true},
		{"2024-03-01", "2024-03-011", false},
		{"Norvik Pump", "the NORVIK PUMP is", true},
		{"Norvik Pump", "Norvik Pumps", false},
		{"Étoile", "l'e\u0301toile", true},
		{"teal", "stealing", false},
		{"teal", "stealing teal", true},
		{"", "anything", false},
	} {
		if got := suite.Shows(c.value, c.text); got != c.want {
			t.Errorf("%q in %q: %v, want %v", c.value, c.text, got, c.want)
		}
	}
}

// Comparison never panics; a number equals itself however its thousands are parted, and never its neighbour; a plain
// spelling of gold always matches.
func FuzzMatches(f *testing.F) {
	for _, s := range []string{"1,234.5", "−5", "[1, 2", "$", "yes,", "7 March 2026", "９", "1 234 567", "..", "\xff", "EUR", "- -", "1e9", "٣", "5²", "O’B‑1\u200b", "“a”, 'b'", "- 5\n- 3", "no. 5", "A and B, C", "ﬁ\u00ad\u0301"} {
		f.Add(s, uint64(12345))
	}
	f.Fuzz(func(t *testing.T, s string, n uint64) {
		gold := new(big.Int).SetUint64(n)
		gold.Mul(gold, gold) // beyond 64 bits
		a := suite.Answer{Type: suite.Number, Values: []string{gold.String()}}
		if !a.Matches(gold.String()) || !a.Matches(group(gold.String())+".00") {
			t.Fatalf("%s does not match itself", gold)
		}
		if next := new(big.Int).Add(gold, big.NewInt(1)); a.Matches(next.String()) {
			t.Fatalf("%s matches %s", gold, next)
		}
		if strings.ContainsFunc(suite.Plain(s), unicode.IsLetter) && (a.Matches(gold.String()+" "+s) || a.Matches(gold.String()+s) || a.Matches(s+" "+gold.String())) {
			t.Fatalf("%s matches with %q beside it", gold, s)
		}
		if r, ok := suite.ParseNumber(s); ok {
			again, ok := suite.ParseNumber(r.FloatString(200))
			if len(s) < 100 && (!ok || again.Cmp(r) != 0) {
				t.Fatalf("%q is %s, which reads as %v", s, r, again)
			}
		}
		for _, typ := range []suite.AnswerType{suite.Number, suite.String, suite.Date, suite.List, suite.YesNo} {
			g := suite.Answer{Type: typ, Values: []string{s}}
			if typ == suite.String && len(s) < 4000 && !g.Matches(s) {
				t.Fatalf("the string %q does not match itself", s)
			}
			g.Unit = "EUR"
			g.Matches(s + " " + s)
			a.Type = typ
			a.Matches(s)
		}
		if p := suite.Plain(s); suite.Plain(p) != p {
			t.Fatalf("%q is plainly %q, and that %q", s, p, suite.Plain(p))
		}
		o := suite.Observe(s)
		o.Holds(s)
		if gold := gold.String(); !suite.Shows(gold, "It is "+gold+".") || suite.Shows(gold, "1"+gold) {
			t.Fatalf("showing %s", gold)
		}
	})
}

func group(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
