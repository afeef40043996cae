package suite

import (
	"math/big"
	"slices"
	"strings"
	"unicode"
)

// unit is how a unit may be written beside a number. Signs and codes are compared as they are written, because m and M, or mm and MM, are
// different units. Words are compared without case.
type unit struct {
	signs []string
	words []string
	front bool // a currency: its signs may also stand before the number
}

// units are the units by the name that a task declares. A unit that is not listed has one spelling, in upper or lower case.
var units = map[string]unit{
	"EUR":     {signs: []string{"€", "EUR"}, words: []string{"euro", "euros"}, front: true},
	"USD":     {signs: []string{"$", "US$", "USD"}, words: []string{"dollar", "dollars"}, front: true},
	"GBP":     {signs: []string{"£", "GBP"}, words: []string{"pound", "pounds"}, front: true},
	"%":       {signs: []string{"%"}, words: []string{"percent", "per cent"}},
	"kg":      {signs: []string{"kg"}, words: []string{"kilogram", "kilograms"}},
	"mm":      {signs: []string{"mm"}, words: []string{"millimetre", "millimetres", "millimeter", "millimeters"}},
	"dB":      {signs: []string{"dB"}, words: []string{"decibel", "decibels"}},
	"minutes": {signs: []string{"min"}, words: []string{"minute", "minutes"}},
	"hours":   {signs: []string{"h"}, words: []string{"hour", "hours"}},
	"days":    {words: []string{"day", "days"}},
	"months":  {words: []string{"month", "months"}},
	"people":  {words: []string{"person", "persons", "people"}},
	"points":  {words: []string{"point", "points"}},
}

func unitOf(name string) unit {
	if name == "" {
		return unit{}
	}
	if u, ok := units[name]; ok {
		return u
	}
	return unit{words: []string{foldCase(Plain(name))}}
}

// is reports whether what follows a number is the unit: glued to it or after spaces.
func (u unit) is(rest string) bool {
	rest = strings.TrimLeft(rest, " ")
	return slices.Contains(u.signs, rest) || slices.Contains(u.words, foldCase(rest))
}

// cutFront drops a currency's sign or code from the front of a number.
func (u unit) cutFront(s string) (string, bool) {
	if !u.front {
		return s, false
	}
	for _, sign := range u.signs {
		if rest, ok := strings.CutPrefix(s, sign); ok {
			return strings.TrimLeft(rest, " "), true
		}
	}
	return s, false
}

// ParseNumber reads one decimal number that stands alone, by the rule of Answer.Matches for a task without a unit. It never reads a
// fraction or an exponent.
func ParseNumber(s string) (*big.Rat, bool) { return parseNumber(s, "") }

// parseNumber reads a number, alone or with the unit.
func parseNumber(s, unit string) (*big.Rat, bool) {
	if len(s) > maxAnswer {
		return nil, false
	}
	s = bare(Plain(s))
	u := unitOf(unit)
	neg, signed, s := cutSign(s)
	s, front := u.cutFront(s)
	if !signed {
		neg, _, s = cutSign(s)
	}
	digits, rest, ok := scanNumber(s)
	if !ok || rest != "" && (front || !u.is(rest)) {
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

// cutSign takes a sign off. It touches what follows: "- 5" is an item of a list.
func cutSign(s string) (neg, signed bool, rest string) {
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		return true, true, rest
	}
	rest, ok := strings.CutPrefix(s, "+")
	return false, ok, rest
}

// scanNumber reads digits with group separators and a decimal point from the start of s and returns them plain. The first group
// begins with another digit than 0: 0,005 is no 5.
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
	if i >= 1 && i <= 3 && s[0] != '0' && i < len(s) && strings.IndexByte(",'_ ", s[i]) >= 0 {
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

// bare takes off what may stand around an answer: space, one full stop at the end, and pairs of quotes, backticks or asterisks.
// It never takes all.
func bare(s string) string {
	stop := false
	for {
		t := strings.TrimFunc(s, unicode.IsSpace)
		n := len(t)
		switch {
		case n > 1 && !stop && t[n-1] == '.':
			t, stop = t[:n-1], true
		case n > 2 && t[0] == t[n-1] && strings.IndexByte("\"'`*", t[0]) >= 0:
			t = t[1 : n-1]
		}
		if t == s {
			return s
		}
		if strings.TrimFunc(t, unicode.IsSpace) == "" {
			return s
		}
		s = t
	}
}
