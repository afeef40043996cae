package suite_test

import (
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

func ExampleEvidenced() {
	gold := []source.Evidence{{Value: "12", Sources: []string{"docs:policy-3#1"}}, {Value: "36", Sources: []string{suite.CalculatedOf("12", "3")}}}
	read := tool.ReadFrom("The warranty is 12 months.", "docs:policy-3#1")
	for _, seen := range [][]tool.Observation{
		{read, tool.Calculated("36", "12", "3")},
		{read, tool.Calculated("36", "30", "6")},               // of numbers that nobody knows
		{tool.ReadFrom("12", "stock:x"), read},                 // the result is missing
		{tool.Said("12 36"), tool.Calculated("36", "12", "3")}, // an echo
	} {
		fmt.Println(suite.Evidenced("What is the warranty times 3?", gold, seen))
	}
	// Output:
	// true
	// false
	// false
	// false
}

// The result of a calculation counts as the numbers that it was made of, however it is written and in however many calls, and only
// when each of them was known.
func TestCalculated(t *testing.T) {
	const question = "Take 5 percent of the fee plus 12, what is it times 7? (The form is B-9.)"
	fee := tool.ReadFrom("The fee is 44 EUR.", "docs:a#1")
	percent := tool.Calculated("2.2", "5", "44", "100")
	for name, c := range map[string]struct {
		seen []tool.Observation
		of   []string // what the last result counts as; none when it does not count
	}{
		"a fact and a constant":         {[]tool.Observation{fee, tool.Calculated("56", "44", "12")}, []string{"calculated:12,44"}},
		"in the other order":            {[]tool.Observation{fee, tool.Calculated("56", "12", "44")}, []string{"calculated:12,44"}},
		"percent by 100":                {[]tool.Observation{fee, percent}, []string{"calculated:44,5"}},
		"percent as a decimal":          {[]tool.Observation{fee, tool.Calculated("2.2", "44", "0.05")}, []string{"calculated:44,5"}},
		"percent by its sign":           {[]tool.Observation{fee, tool.Calculated("2.2", "5", "44")}, []string{"calculated:44,5"}},
		"with an earlier result":        {[]tool.Observation{fee, percent, tool.Calculated("14.2", "2.2", "12"), tool.Calculated("99.4", "14.2", "7")}, []string{"calculated:12,44,5,7"}},
		"before the fact was read":      {[]tool.Observation{tool.Calculated("44", "32", "12"), fee, tool.Calculated("88", "32", "56")}, nil},
		"of a guess":                    {[]tool.Observation{fee, tool.Calculated("56", "44", "11", "1")}, nil},
		"a guess plus nothing":          {[]tool.Observation{fee, tool.Calculated("56", "56", "0")}, nil},
		"a guess alone":                 {[]tool.Observation{fee, tool.Calculated("56", "56")}, nil},
		"a number of a name":            {[]tool.Observation{fee, tool.Calculated("53", "44", "9")}, nil},
		"with an uncounted result":      {[]tool.Observation{fee, tool.Calculated("13", "6", "7"), tool.Calculated("57", "44", "13")}, nil},
		"with a number only said":       {[]tool.Observation{tool.Said("44"), tool.Calculated("56", "44", "12")}, nil},
		"ones made of what is known":    {[]tool.Observation{tool.Calculated("2", "12", "12", "7", "7")}, []string{"calculated:12,12,7,7"}},
		"ones made of hundreds":         {[]tool.Observation{tool.Calculated("13", "12", "100", "100")}, nil},
		"hundreds that were read":       {[]tool.Observation{tool.ReadFrom("100", "a.b@1"), tool.Calculated("5", "5", "100", "100")}, []string{"calculated:100,5", "calculated:100,100,5"}},
		"known in two ways, as 7 and 7": {[]tool.Observation{fee, tool.Calculated("7", "12", "5"), tool.Calculated("51", "44", "7")}, []string{"calculated:44,7", "calculated:12,44,5"}},
	} {
		last := c.seen[len(c.seen)-1]
		got := suite.SourcesOf(question, last.Text, c.seen)
		for _, w := range c.of {
			e := []source.Evidence{{Value: last.Text, Sources: []string{w}}}
			if !suite.Evidenced(question, e, c.seen) {
				t.Errorf("%s: counts as %v, want also %s", name, got, w)
			}
		}
		if len(got) != len(c.of) {
			t.Errorf("%s: counts as %v, want %v", name, got, c.of)
		}
	}
}

// The place where a value is read decides, and not its form. Evidence without sources accepts any store, but no echo.
func TestEvidenceBySource(t *testing.T) {
	cell := tool.Observation{Text: "48 | red\n48 | blue", Reads: []source.Read{{Start: 0, End: 2, From: []string{"a.x@1"}}, {Start: 5, End: 8, From: []string{"a.y@1"}},
		{Start: 9, End: 11, From: []string{"a.x@2", "b.z@3"}}, {Start: 14, End: 18, From: []string{"a.y@2"}}, {Start: 14, End: 99, From: []string{"a.z@1"}}}}
	at := func(v string, from ...string) source.Evidence { return source.Evidence{Value: v, Sources: from} }
	for _, c := range []struct {
		evidence []source.Evidence
		want     bool
	}{
		{nil, true}, {source.Values("48"), true}, {source.Values("48", "red"), true}, {source.Values("49"), false}, {source.Values("8"), false}, {source.Values("48 | red"), false},
		{[]source.Evidence{at("48", "a.x@1")}, true}, {[]source.Evidence{at("48", "a.x@3")}, false}, {[]source.Evidence{at("48", "a.x@3", "b.z@3")}, true},
		{[]source.Evidence{at("red", "a.y@2")}, false}, {[]source.Evidence{at("Red", "a.y@1"), at("blue", "a.y@2")}, true}, {[]source.Evidence{at("blue", "a.z@1")}, false},
	} {
		if got := suite.Evidenced("", c.evidence, []tool.Observation{cell, tool.Said("49 48 | red")}); got != c.want {
			t.Errorf("%v: %v, want %v", c.evidence, got, c.want)
		}
	}
}
