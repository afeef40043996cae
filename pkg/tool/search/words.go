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
		case isDiacritic(r):
			// A combining mark within a word is dropped; alone it is no word.
		case isWord(r):
			word.WriteRune(fold(r))
		default:
			flush()
		}
	}
	if len(out) < n {
		flush()
	}
	return out
}

// isWord reports whether unicode61 takes a character as part of a word: letters, numbers, private characters and all that
// Unicode 6.1 did not know.
func isWord(r rune) bool {
	if r < 0x80 {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.Co, laterSigns) ||
		!unicode.In(r, unicode.M, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Cs)
}

// diacritics are the combining marks that unicode61 drops.
const diacritics = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u0309\u030A\u030B\u030C\u030F\u0311\u031B" +
	"\u0323\u0324\u0325\u0326\u0327\u0328\u032D\u032E\u0330\u0331"

func isDiacritic(r rune) bool { return r >= 0x300 && r <= 0x331 && strings.ContainsRune(diacritics, r) }

// variants are letters that unicode61 folds though they have no capital of their own.
var variants = map[rune]rune{
	'\u00B5': 'μ', '\u017F': 's', '\u03D1': 'θ', '\u03D5': 'φ', '\u03F0': 'κ', '\u03F1': 'ρ', '\u03F5': 'ε', '\u1E9B': 's',
	'\u1FBE': 'ι', '\u03C2': 'σ', '\u03D0': 'β', '\u03D6': 'π',
}

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
	if v, ok := variants[r]; ok {
		return v
	}
	if d := norm.NFD.PropertiesString(string(r)).Decomposition(); len(d) > 1 && d[0] < 0x80 && utf8.RuneCount(d) == 2 {
		return rune(d[0])
	}
	return r
}
