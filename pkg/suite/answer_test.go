package suite_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite"
)

func ExampleAnswer_Matches() {
	gold := suite.Answer{Type: suite.Number, Values: []string{"1250"}}
	fmt.Println(gold.Matches("€1,250.00"), gold.Matches("1.25e3"), gold.Matches("about 1250"))
	// Output: true false false
}

func ExampleEvidenced() {
	seen := []string{"- The warranty is 12 months. (7.31)", "3120"}
	fmt.Println(suite.Evidenced([]string{"12"}, seen), suite.Evidenced([]string{"12", "31"}, seen))
	// Output: true false
}

func TestMatches(t *testing.T) {
	num := func(v string) suite.Answer { return suite.Answer{Type: suite.Number, Values: []string{v}} }
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
		// What may stand around and inside a number.
		{num("1250"), " 1250 ", true},
		{num("1250"), "1250.", true},
		{num("1250"), `"1250"`, true},
		{num("1250"), "**1250**", true},
		{num("1250"), "$1,250", true},
		{num("1250"), "-$1,250", false},
		{num("-1250"), "-$1,250", true},
		{num("1250"), "EUR 1250", true},
		{num("1250"), "1250 EUR", true},
		{num("1250"), "1250€", true},
		{num("1250"), "1 250", true},
		{num("1250"), "1\u00a0250", true},
		{num("1250"), "1'250", true},
		{num("1250"), "1_250", true},
		{num("1250"), "１２５０", true},
		{num("48"), "48 months", true},
		{num("48"), "48 kg per month", false},
		{num("12"), "12%", true},
		{num("0.12"), "12%", false},
		{num("5"), "5kg", true},
		// What may not.
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
		{text("Étoile"), "E\u0301TOILE", true},
		{text("Straße"), "STRASSE", true},
		{text("Norvik Pump"), "Norvik Pumps", false},
		{text("Norvik Pump"), "the Norvik Pump", false},
		{text("O'Neil"), "o'neil", true},

		{date("2026-03-07"), "2026-03-07", true},
		{date("2026-03-07"), "2026/3/7", true},
		{date("2026-03-07"), "7 March 2026", true},
		{date("2026-03-07"), "7th of March, 2026", true},
		{date("2026-03-07"), "Mar. 7, 2026", true},
		{date("2026-03-07"), "Saturday, 7 Mar 2026.", true},
		{date("2026-03-07"), "07.03.2026", true},
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
		{list("48", "120"), "120 EUR, 48.0", true},
		{list("48", "120"), "[48, 120]", true},
		{list("48", "120"), "48, 12", false},
		{list("9007199254740993", "1"), "9007199254740992, 1", false},

		{yes, "Yes", true},
		{yes, "yes, because 5 is more", true},
		{yes, "TRUE", true},
		{yes, "no", false},
		{yes, "yes no", false},
		{yes, "yesterday", false},
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
	for _, s := range []string{"1,234.5", "−5", "[1, 2", "$", "yes,", "7 March 2026", "９", "1 234 567", "..", "\xff", "EUR", "- -", "1e9", "٣"} {
		f.Add(s, uint64(12345))
	}
	f.Fuzz(func(t *testing.T, s string, n uint64) {
		gold := new(big.Int).SetUint64(n)
		gold.Mul(gold, gold) // beyond 64 bits
		a := suite.Answer{Type: suite.Number, Values: []string{gold.String()}}
		if !a.Matches(gold.String()) || !a.Matches("$"+group(gold.String())+".00") {
			t.Fatalf("%s does not match itself", gold)
		}
		if next := new(big.Int).Add(gold, big.NewInt(1)); a.Matches(next.String()) {
			t.Fatalf("%s matches %s", gold, next)
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
			g.Matches(s + " " + s)
			a.Type = typ
			a.Matches(s)
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
