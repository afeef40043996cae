package suite

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Observed is the text of an observation, prepared to look up which values it shows.
type Observed struct {
	folded  string
	numbers map[string]bool // exact values, as big.Rat prints them
}

// Observe prepares a text.
func Observe(text string) *Observed {
	text = Plain(text)
	o := &Observed{folded: foldCase(text), numbers: map[string]bool{}}
	for i := 0; i < len(text); {
		if c := text[i]; c < '0' || c > '9' {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		end := numberEnd(text, i)
		if r, ok := boundedNumber(text, i, end); ok {
			o.numbers[r.RatString()] = true
		}
		i = end
	}
	return o
}

// numberEnd is the end of the run of digits, and of the marks between digits, that starts at i: a date, a time, a version
// and a grouped number are one run each.
func numberEnd(s string, i int) int {
	for i < len(s) {
		if c := s[i]; c >= '0' && c <= '9' {
			i++
		} else if i+1 < len(s) && strings.IndexByte(".,:/-'_", c) >= 0 && s[i+1] >= '0' && s[i+1] <= '9' {
			i++
		} else {
			break
		}
	}
	return i
}

func boundedNumber(s string, i, end int) (*big.Rat, bool) {
	prev, n := utf8.DecodeLastRuneInString(s[:i])
	if wordRune(prev) {
		return nil, false
	}
	if next, _ := utf8.DecodeRuneInString(s[end:]); wordRune(next) {
		return nil, false
	}
	digits, rest, ok := scanNumber(s[i:end])
	if !ok || rest != "" {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, false
	}
	if prev == '-' {
		if before, _ := utf8.DecodeLastRuneInString(s[:i-n]); !wordRune(before) {
			r.Neg(r)
		} else {
			return nil, false // NP-12 is a name, not 12
		}
	}
	return r, true
}

func wordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_')
}

// Holds reports whether the text shows the value, bounded as a whole: a number by its exact value among the numbers of the
// text (12 is not in 3120, 12.5, 2012-12-01 or NP-12; 1234 is in "1,234"), anything else as a folded phrase between word
// boundaries.
func (o *Observed) Holds(value string) bool {
	value = strings.TrimSpace(Plain(value))
	if value == "" {
		return false
	}
	if strings.Trim(value, "-+0123456789.") == "" {
		if r, ok := ParseNumber(value); ok {
			return o.numbers[r.RatString()]
		}
	}
	v := foldCase(value)
	for from := 0; ; {
		k := strings.Index(o.folded[from:], v)
		if k < 0 {
			return false
		}
		k += from
		prev, _ := utf8.DecodeLastRuneInString(o.folded[:k])
		next, _ := utf8.DecodeRuneInString(o.folded[k+len(v):])
		first, _ := utf8.DecodeRuneInString(v)
		last, _ := utf8.DecodeLastRuneInString(v)
		if !(wordRune(prev) && wordRune(first)) && !(wordRune(next) && wordRune(last)) {
			return true
		}
		_, n := utf8.DecodeRuneInString(o.folded[k:])
		from = k + n
	}
}

// Shows reports whether the observation shows the value (see Observed.Holds).
func Shows(value, observation string) bool { return Observe(observation).Holds(value) }
