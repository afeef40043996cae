package suite

import (
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// AnswerType says how a final answer is compared with gold.
type AnswerType string

// The answer types.
const (
	Number AnswerType = "number" // exact decimal comparison within Tolerance
	String AnswerType = "string" // case, spaces and look-alike marks folded
	Date   AnswerType = "date"   // ISO dates and the usual spellings
	List   AnswerType = "list"   // in any order
	YesNo  AnswerType = "yesno"
)

// Answer is the gold answer of a task.
type Answer struct {
	Type AnswerType `json:"type"`
	// Values holds one value, or the elements of a list. Numbers are decimal strings of any length.
	Values []string `json:"values"`
	// Unit is the unit that a number of the answer may be given with; empty is a number alone.
	Unit string `json:"unit,omitempty"`
	// Tolerance is the absolute difference allowed for a number, as a decimal string; empty is exact.
	Tolerance string `json:"tolerance,omitempty"`
}

// maxAnswer bounds the text that is compared at all, in bytes; a longer answer is wrong.
const maxAnswer = 4096

// Matches reports whether a final answer equals gold. An answer is the value alone: a form that is not named here is wrong. Marks that look
// alike are the same (see Plain). One closing full stop and pairs of quotes, backticks or asterisks around the answer are dropped. By type:
//
//   - number: compared as exact rationals, so 9007199254740993 is not 9007199254740992. A number may have a sign that touches it, a
//     decimal point, and groups of exactly three digits with one of , ' _ or a space between them. The task's Unit may follow the
//     number; a currency's sign or code may stand before it instead. No other word is accepted, and without a Unit no unit, currency
//     or percent sign. Not accepted: exponents, fractions, a decimal comma, digits of other scripts, number words.
//   - string: equal when case is folded and runs of space are one. No punctuation is dropped but that named above: C# is not C.
//   - date: 2026-03-07, 2026/03/07, 2026.03.07, 7 March 2026, 7th Mar 2026, March 7, 2026, 07.03.2026 and the like, after the right
//     day of the week or none; 03/07/2026 is ambiguous and refused.
//   - list: a JSON array, or elements with commas, semicolons, line breaks or "and" between them, in any order. A gold element that is
//     a number is compared by the rule for numbers, and any other by the rule for strings. A separator within a gold string does not
//     separate there, but a comma always separates numbers. All lines may begin with the same mark, one of - * •, which is then no
//     sign. An element may be repeated, but one that gold repeats must be given as often.
//   - yesno: yes, y, true or no, n, false. After punctuation a reason may follow that says none of these words.
func (a Answer) Matches(given string) bool {
	if len(given) > maxAnswer || len(a.Values) == 0 {
		return false
	}
	switch a.Type {
	case Number:
		return a.numberMatches(given)
	case String:
		return fold(given) == fold(a.Values[0])
	case Date:
		want, ok1 := parseDate(a.Values[0])
		got, ok2 := parseDate(given)
		return ok1 && ok2 && want.Equal(got)
	case List:
		return a.listMatches(given)
	case YesNo:
		want, ok1 := parseYesNo(a.Values[0])
		got, ok2 := parseYesNo(given)
		return ok1 && ok2 && want == got
	}
	return false
}

func (a Answer) numberMatches(given string) bool {
	want, ok1 := ParseNumber(a.Values[0])
	got, ok2 := parseNumber(given, a.Unit)
	if !ok1 || !ok2 {
		return false
	}
	if a.Tolerance == "" {
		return want.Cmp(got) == 0
	}
	tol, ok := ParseNumber(a.Tolerance)
	diff := new(big.Rat).Sub(want, got)
	return ok && diff.Abs(diff).Cmp(tol) <= 0
}

func foldCase(s string) string { return cases.Fold().String(s) } // a Caser is not for sharing between goroutines

// fold is the canonical form of a string answer.
func fold(s string) string {
	return foldCase(strings.Join(strings.Fields(bare(Plain(s))), " "))
}

var dateLayouts = []string{
	"2006-1-2", "2006/1/2", "2006.1.2", "2.1.2006", "2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006",
	"2006 January 2", "2006 Jan 2", "2-Jan-2006",
}

// parseDate reads a calendar day in one of the accepted spellings.
func parseDate(s string) (time.Time, bool) {
	if len(s) > maxAnswer {
		return time.Time{}, false
	}
	words := strings.Fields(strings.ReplaceAll(bare(Plain(s)), ",", " "))
	for i, w := range words {
		lower := strings.ToLower(w)
		for _, suf := range []string{"st", "nd", "rd", "th"} {
			if num := strings.TrimSuffix(lower, suf); num != lower && len(num) <= 2 && num != "" && strings.Trim(num, "0123456789") == "" {
				words[i] = num
			}
		}
		switch lower = strings.TrimSuffix(lower, "."); {
		case lower == "sept":
			words[i] = "Sep"
		case len(lower) == 3 && unicode.IsLetter(rune(lower[0])):
			words[i] = lower // "Mar."
		}
	}
	day := time.Weekday(-1)
	if len(words) > 1 {
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(words[0], d.String()) || strings.EqualFold(words[0], d.String()[:3]) {
				day, words = d, words[1:]
				break
			}
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return strings.EqualFold(w, "of") })
	for _, l := range dateLayouts {
		if t, err := time.Parse(l, strings.Join(words, " ")); err == nil {
			return t, day < 0 || t.Weekday() == day
		}
	}
	return time.Time{}, false
}

var verdicts = map[string]bool{"yes": true, "y": true, "true": true, "no": false, "n": false, "false": false}

// parseYesNo reads a verdict, alone or before a reason that says no other.
func parseYesNo(s string) (yes, ok bool) {
	s = foldCase(bare(Plain(s)))
	end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(s)
	}
	yes, ok = verdicts[s[:end]]
	if !ok || s[end:] == "" {
		return yes, ok
	}
	mark, reason := s[end], s[end+1:]
	if mark == ' ' && strings.HasPrefix(reason, "- ") { // a dash stands free: "no-one" is no verdict
		mark, reason = '-', reason[1:]
	}
	if reason == "" {
		return yes, mark == '!' || mark == ','
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(reason, " "))
	if strings.IndexByte(",;:.!-", mark) < 0 || reason[0] != ' ' && reason[0] != '\n' || mark == '.' && !unicode.IsLetter(next) { // "No. 5"
		return false, false
	}
	for _, w := range strings.FieldsFunc(reason, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if _, more := verdicts[w]; more {
			return false, false
		}
	}
	return yes, true
}
