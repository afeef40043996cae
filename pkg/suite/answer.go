package suite

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// AnswerType says how a final answer is compared with gold.
type AnswerType string

// The answer types.
const (
	Number AnswerType = "number" // exact decimal comparison within Tolerance
	String AnswerType = "string" // case, surrounding space and punctuation folded
	Date   AnswerType = "date"   // ISO dates and the usual spellings
	List   AnswerType = "list"   // as a set
	YesNo  AnswerType = "yesno"
)

// Answer is the gold answer of a task.
type Answer struct {
	Type AnswerType `json:"type"`
	// Values holds one value, or the elements of a list. Numbers are decimal strings of any length.
	Values []string `json:"values"`
	// Tolerance is the absolute difference allowed for a number, as a decimal string; empty is exact.
	Tolerance string `json:"tolerance,omitempty"`
}

// maxAnswer bounds the text that is compared at all; a longer answer is wrong.
const maxAnswer = 4096

// Matches reports whether a final answer equals gold. The rules, by type (text is put in Unicode form NFKC first, so
// full-width digits and no-break spaces are plain ones):
//
//   - number: compared as exact rationals, so 9007199254740993 is not 9007199254740992. Accepted around the one number: quotes,
//     a currency sign or three-letter code before or after, a closing full stop, a percent sign (it does not scale) and a unit of at
//     most two words after it. Accepted inside it: a sign (the Unicode minus too) and groups of exactly three digits
//     separated by one of , ' _ or a space. Not accepted: exponents, fractions, a decimal comma, a second number, other words.
//   - string: case folded, runs of space made one, space and punctuation at both ends dropped.
//   - date: 2026-03-07, 2026/03/07, 2026.03.07, 7 March 2026, 7th Mar 2026, March 7, 2026, 07.03.2026 and the like; 03/07/2026 is
//     ambiguous and refused.
//   - list: a JSON array, or elements separated by commas, semicolons, line breaks or "and"; compared as a set, each element by
//     the rule for numbers where the gold element is one and for strings otherwise. A comma always separates.
//   - yesno: yes, y, true or no, n, false, alone or before punctuation.
func (a Answer) Matches(given string) bool {
	if len(given) > maxAnswer || len(a.Values) == 0 {
		return false
	}
	switch a.Type {
	case Number:
		return numberMatches(a.Values[0], a.Tolerance, given)
	case String:
		return fold(given) == fold(a.Values[0])
	case Date:
		want, ok1 := parseDate(a.Values[0])
		got, ok2 := parseDate(given)
		return ok1 && ok2 && want.Equal(got)
	case List:
		return listMatches(a.Values, given)
	case YesNo:
		want, ok1 := parseYesNo(a.Values[0])
		got, ok2 := parseYesNo(given)
		return ok1 && ok2 && want == got
	}
	return false
}

func numberMatches(gold, tolerance, given string) bool {
	want, ok1 := ParseNumber(gold)
	got, ok2 := ParseNumber(given)
	if !ok1 || !ok2 {
		return false
	}
	if tolerance == "" {
		return want.Cmp(got) == 0
	}
	tol, ok := ParseNumber(tolerance)
	diff := new(big.Rat).Sub(want, got)
	return ok && diff.Abs(diff).Cmp(tol) <= 0
}

// ParseNumber reads one decimal number by the rule of Matches. It never reads a fraction or an exponent.
func ParseNumber(s string) (*big.Rat, bool) {
	if len(s) > maxAnswer {
		return nil, false
	}
	s = strings.TrimFunc(norm.NFKC.String(s), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`*“”‘’", r)
	})
	neg := false
	s = trimCurrency(s)
	if rest, ok := cutAny(s, "-−–"); ok {
		neg, s = true, rest
	} else if rest, ok := cutAny(s, "+"); ok {
		s = rest
	}
	s = trimCurrency(s)
	digits, rest, ok := scanNumber(s)
	if !ok || !isUnit(rest) {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, false
	}
	if neg {
		r.Neg(r)
	}
	return r, true
}

func cutAny(s, runes string) (string, bool) {
	for _, r := range runes {
		if rest, ok := strings.CutPrefix(s, string(r)); ok {
			return strings.TrimLeft(rest, " "), true
		}
	}
	return s, false
}

// trimCurrency drops one leading currency sign or upper-case three-letter code.
func trimCurrency(s string) string {
	if r := []rune(s); len(r) > 1 && unicode.Is(unicode.Sc, r[0]) {
		return strings.TrimLeft(string(r[1:]), " ")
	}
	if len(s) > 3 && isUpper3(s[:3]) {
		if rest := strings.TrimLeft(s[3:], " "); rest != "" && (rest[0] >= '0' && rest[0] <= '9' || rest[0] == '-') {
			return rest
		}
	}
	return s
}

func isUpper3(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' }) < 0
}

// scanNumber reads digits with group separators and a decimal point from the start of s and returns them plain.
func scanNumber(s string) (digits, rest string, ok bool) {
	isDigit := func(i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	run := func(i int) int {
		for isDigit(i) {
			i++
		}
		return i
	}
	i := run(0)
	var b strings.Builder
	b.WriteString(s[:i])
	if i >= 1 && i <= 3 && i < len(s) && strings.IndexByte(",'_ ", s[i]) >= 0 {
		for sep := s[i]; i < len(s) && s[i] == sep && run(i+1) == i+4; i += 4 {
			b.WriteString(s[i+1 : i+4])
		}
	}
	if i < len(s) && s[i] == '.' && isDigit(i+1) {
		j := run(i + 1)
		b.WriteString(s[i:j])
		i = j
	}
	if b.Len() == 0 {
		return "", "", false
	}
	if b.String()[0] == '.' {
		return "0" + b.String(), s[i:], true
	}
	return b.String(), s[i:], true
}

// isUnit reports whether what follows a number is nothing, a full stop, a percent or currency sign, or at most two words of
// letters.
func isUnit(s string) bool {
	if s == "" || s == "." {
		return true
	}
	s = strings.TrimSuffix(s, ".")
	// "3e5" and "0x10" are other notations, "5th" an ordinal: a unit glued to the digits must not look like them.
	glued := !strings.HasPrefix(s, " ")
	words := strings.Fields(s)
	if len(words) > 2 {
		return false
	}
	for i, w := range words {
		letters := 0
		for _, r := range w {
			switch {
			case unicode.IsLetter(r):
				letters++
			case unicode.Is(unicode.Sc, r), strings.ContainsRune("%°‰/²³.", r):
			default:
				return false
			}
		}
		if i == 0 && glued && letters > 0 && slices.Contains([]string{"e", "E", "x", "X", "th", "st", "nd", "rd"}, w) {
			return false
		}
		if strings.HasPrefix(w, "/") || w == "million" || w == "billion" || w == "thousand" || w == "k" || w == "bn" {
			return false
		}
	}
	return true
}

func foldCase(s string) string { return cases.Fold().String(s) } // a Caser is not for sharing between goroutines

// fold is the canonical form of a string answer.
func fold(s string) string {
	s = foldCase(norm.NFKC.String(s))
	s = strings.Join(strings.Fields(s), " ")
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) || r == '`' })
}

var dateLayouts = []string{
	"2006-1-2", "2006/1/2", "2006.1.2", "2.1.2006", "2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006",
	"2006 January 2", "2006 Jan 2", "2-Jan-2006",
}

// parseDate reads a calendar day in one of the accepted spellings.
func parseDate(s string) (time.Time, bool) {
	s = strings.Trim(strings.Join(strings.Fields(norm.NFKC.String(s)), " "), " \"'`*")
	s = strings.TrimSuffix(s, ".")
	s = strings.ReplaceAll(s, ",", " ")
	words := strings.Fields(s)
	for i, w := range words {
		lower := strings.ToLower(w)
		for _, suf := range []string{"st", "nd", "rd", "th"} {
			if num := strings.TrimSuffix(lower, suf); num != lower && len(num) <= 2 && num != "" && strings.Trim(num, "0123456789") == "" {
				words[i] = num
			}
		}
		if w := strings.TrimSuffix(words[i], "."); len(w) == 3 {
			words[i] = w // "Mar."
		}
	}
	if len(words) > 1 {
		if d := strings.ToLower(words[0]); strings.HasSuffix(d, "day") {
			words = words[1:]
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return strings.EqualFold(w, "of") })
	s = strings.Join(words, " ")
	for _, l := range dateLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func parseYesNo(s string) (yes, ok bool) {
	s = strings.TrimLeftFunc(foldCase(norm.NFKC.String(s)), func(r rune) bool { return !unicode.IsLetter(r) })
	word, rest := s, ""
	if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }); i >= 0 {
		word, rest = s[:i], strings.TrimSpace(s[i:])
	}
	if rest != "" && !strings.ContainsAny(rest[:1], ",.;:!-\"'*`)") {
		return false, false
	}
	switch word {
	case "yes", "y", "true":
		return true, true
	case "no", "n", "false":
		return false, true
	}
	return false, false
}

func listMatches(gold []string, given string) bool {
	want, got := map[string]bool{}, map[string]bool{}
	for _, g := range gold {
		want[element(g)] = true
	}
	for _, e := range splitList(given) {
		if k := element(e); k != "" {
			got[k] = true
		}
	}
	if len(want) != len(got) {
		return false
	}
	for k := range want {
		if !got[k] {
			return false
		}
	}
	return true
}

// element is the key under which list elements are compared: the exact number, else the folded string.
func element(s string) string {
	if r, ok := ParseNumber(s); ok {
		return r.RatString()
	}
	return fold(s)
}

func splitList(s string) []string {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "[") {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		var raw []any
		if err := d.Decode(&raw); err == nil && !d.More() {
			out := make([]string, 0, len(raw))
			for _, v := range raw {
				switch v := v.(type) {
				case string:
					out = append(out, v)
				case json.Number:
					out = append(out, string(v))
				}
			}
			if len(out) == len(raw) {
				return out
			}
		}
		s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	}
	var out []string
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' || r == '\n' }) {
		part = strings.TrimSpace(part)
		part = strings.TrimPrefix(part, "and ")
		part = strings.TrimPrefix(part, "- ")
		out = append(out, strings.Split(part, " and ")...)
	}
	return out
}
