package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokenize cuts text into at most n lower-case words. Plain: runs of letters, digits and private characters, with
// diacritics removed, as FTS5's unicode61 does. Raw: runs of letters, digits and underscores.
func tokenize(text string, raw bool, n int) []string {
	var out []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for i := 0; i < len(text) && len(out) < n; {
		r, size := utf8.DecodeRuneInString(text[i:])
		valid := r != utf8.RuneError || size > 1
		i += size
		switch {
		case !valid:
			flush()
		case raw && (r == '_' || unicode.IsLetter(r) || unicode.In(r, unicode.N)):
			word.WriteRune(unicode.ToLower(r))
		case raw:
			flush()
		case unicode.In(r, unicode.L, unicode.N, unicode.Co):
			word.WriteRune(fold(r))
		case isDiacritic(r):
			// A combining mark within a word is dropped; alone it is no word.
		default:
			flush()
		}
	}
	if len(out) < n {
		flush()
	}
	return out
}

// isDiacritic: the combining marks that unicode61 ignores.
func isDiacritic(r rune) bool { return r >= 0x300 && r <= 0x331 && unicode.Is(unicode.Mn, r) }

// fold lower-cases a character and takes the diacritic off a Latin letter that has exactly one, as
// unicode61 does with remove_diacritics=1.
func fold(r rune) rune {
	if r < 0x80 {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}
	r = unicode.ToLower(r)
	if d := norm.NFD.PropertiesString(string(r)).Decomposition(); len(d) > 1 && d[0] < 0x80 && utf8.RuneCount(d) == 2 {
		return rune(d[0])
	}
	return r
}
