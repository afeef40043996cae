package suite

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Plain maps the spellings of one text to one: answers and observations are compared in this form. Marks that look alike become one mark,
// and invisible characters are dropped, because a reader could not tell such texts apart either:
//
//   - Unicode form NFKC: full-width digits, ligatures and no-break spaces are plain ones. Superscripts, fractions and circled numbers
//     stay as they are: 5² is not 52, and 1½ not 11/2.
//   - ‘ ’ ‚ ‛ ′ ʼ and the acute accent alone are ', and “ ” „ ‟ ″ « » are ".
//   - every dash of Unicode, the minus sign among them, is -.
//   - zero-width spaces and joiners, soft hyphens, byte order marks, direction marks and variation selectors go.
//
// It neither folds case nor drops anything that is seen.
func Plain(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		// A number sign is kept apart, or normalization would join it to the digits beside it.
		at := strings.IndexFunc(s, func(r rune) bool { return unicode.Is(unicode.No, r) })
		if at < 0 {
			at = len(s)
		}
		// Invisible characters go first: normalization would not join a letter and an accent with one between them.
		b.WriteString(strings.Map(plainMark, norm.NFKC.String(strings.Map(seenMark, s[:at]))))
		s = s[at:]
		n := strings.IndexFunc(s, func(r rune) bool { return !unicode.Is(unicode.No, r) })
		if n < 0 {
			n = len(s)
		}
		b.WriteString(s[:n])
		s = s[n:]
	}
	return b.String()
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// seenMark maps the look-alikes whose compatibility form is not what they look like, and drops invisible characters.
func seenMark(r rune) rune {
	switch {
	case r < 0x80:
		return r
	case r == '´' || r == '‚': // NFKC makes a space and an accent of the first
		return '\''
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
		return -1
	case unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return -1
	}
	return plainMark(r)
}

func plainMark(r rune) rune {
	switch r {
	case '‘', '’', '‛', '′', 'ʼ', 'ʹ', '‵':
		return '\''
	case '“', '”', '„', '‟', '″', '«', '»', '‶':
		return '"'
	case '−', '⁻', '˗', '➖':
		return '-'
	}
	if r >= 0x80 && unicode.Is(unicode.Dash, r) {
		return '-'
	}
	return r
}
