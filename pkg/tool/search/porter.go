package search

// stem is Porter's stemming algorithm ("An algorithm for suffix stripping", Program 14(3), 1980) as FTS5's porter
// tokenizer has it: words shorter than 3 bytes and longer than 64 are left alone, a suffix of step 1 is not the
// whole word, and a word need not be ASCII.
func stem(w string) string {
	if len(w) < 3 || len(w) > 64 {
		return w
	}
	b := step1a([]byte(w))
	b = step1b(b)
	if n := len(b); n > 1 && b[n-1] == 'y' && hasVowel(b[:n-1]) {
		b[n-1] = 'i'
	}
	b = replaceSuffix(b, step2, 0)
	b = replaceSuffix(b, step3, 0)
	b = step4(b)
	return string(step5(b))
}

func consonant(b []byte, i int) bool {
	switch b[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(b, i-1)
	}
	return true
}

// measure is Porter's m: the number of vowel-consonant sequences.
func measure(b []byte) int {
	m, vowel := 0, false
	for i := range b {
		if !consonant(b, i) {
			vowel = true
		} else if vowel {
			m++
			vowel = false
		}
	}
	return m
}

func hasVowel(b []byte) bool {
	for i := range b {
		if !consonant(b, i) {
			return true
		}
	}
	return false
}

func hasSuffix(b []byte, s string) bool { return len(b) >= len(s) && string(b[len(b)-len(s):]) == s }

// doubled reports whether the word ends in two equal consonants.
func doubled(b []byte) bool {
	n := len(b)
	return n > 1 && b[n-1] == b[n-2] && consonant(b, n-1)
}

// cvc is Porter's *o: consonant, vowel, consonant at the end, the last not w, x or y.
func cvc(b []byte) bool {
	n := len(b)
	if n < 3 || !consonant(b, n-3) || consonant(b, n-2) || !consonant(b, n-1) {
		return false
	}
	return b[n-1] != 'w' && b[n-1] != 'x' && b[n-1] != 'y'
}

func step1a(b []byte) []byte {
	switch {
	case len(b) > 4 && hasSuffix(b, "sses"), len(b) > 3 && hasSuffix(b, "ies"):
		return b[:len(b)-2]
	case hasSuffix(b, "ss"):
		return b
	case hasSuffix(b, "s"):
		return b[:len(b)-1]
	}
	return b
}

func step1b(b []byte) []byte {
	if len(b) > 3 && hasSuffix(b, "eed") {
		if measure(b[:len(b)-3]) > 0 {
			return b[:len(b)-1]
		}
		return b
	}
	cut := 0
	for _, s := range []string{"ed", "ing"} {
		if hasSuffix(b, s) && hasVowel(b[:len(b)-len(s)]) {
			cut = len(s)
		}
	}
	if cut == 0 {
		return b
	}
	b = b[:len(b)-cut]
	switch {
	case hasSuffix(b, "at"), hasSuffix(b, "bl"), hasSuffix(b, "iz"):
		return append(b, 'e')
	case doubled(b) && b[len(b)-1] != 'l' && b[len(b)-1] != 's' && b[len(b)-1] != 'z':
		return b[:len(b)-1]
	case measure(b) == 1 && cvc(b):
		return append(b, 'e')
	}
	return b
}

type suffix struct{ from, to string }

// Within each list a longer suffix stands before one that it ends in: the first that fits decides.
var (
	step2 = []suffix{
		{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"bli", "ble"},
		{"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"},
		{"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"}, {"iviti", "ive"},
		{"biliti", "ble"}, {"logi", "log"},
	}
	step3 = []suffix{
		{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	}
	step4Suffixes = []string{
		"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
		"ous", "ive", "ize",
	}
)

// replaceSuffix applies the first suffix that fits where more than least sequences stand before it.
func replaceSuffix(b []byte, list []suffix, least int) []byte {
	for _, s := range list {
		if hasSuffix(b, s.from) {
			if root := b[:len(b)-len(s.from)]; measure(root) > least {
				return append(root, s.to...)
			}
			return b
		}
	}
	return b
}

func step4(b []byte) []byte {
	for _, s := range step4Suffixes {
		if !hasSuffix(b, s) {
			continue
		}
		root := b[:len(b)-len(s)]
		if measure(root) > 1 && (s != "ion" || hasSuffix(root, "s") || hasSuffix(root, "t")) {
			return root
		}
		return b
	}
	return b
}

func step5(b []byte) []byte {
	if n := len(b); b[n-1] == 'e' {
		if root := b[:n-1]; measure(root) > 1 || measure(root) == 1 && !cvc(root) {
			b = root
		}
	}
	if n := len(b); n > 1 && b[n-1] == 'l' && b[n-2] == 'l' && measure(b) > 1 {
		b = b[:n-1]
	}
	return b
}
