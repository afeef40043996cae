package tokenizer

import (
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
)

// isTinyNormalizer reports whether a normalizer is the one that TrainTiny writes.
func isTinyNormalizer(raw []byte) bool {
	var a, b any
	return json.Unmarshal(raw, &a) == nil && json.Unmarshal(tinyNormalizerJSON(), &b) == nil && reflect.DeepEqual(a, b)
}

// tinyNormalizeFast does what the rules in tinyNormalize say, in one pass over the text. Tests compare the two. The rules are
// six regular expressions, which would take longer than all the rest of encoding.
func tinyNormalizeFast(s string) string {
	in := []rune(Canonical(s))
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	for i, r := range in {
		prevWord := i > 0 && isTinyWord(in[i-1])
		switch {
		case r == ' ':
			next := rune(0)
			if prevWord || tinyTightBefore(in, i) {
				j := i
				for j < len(in) && in[j] == ' ' {
					j++
				}
				if j < len(in) {
					next = in[j]
				}
			}
			if prevWord && isTinyDigit(next) {
				continue
			}
			if !prevWord && isTinyStart(next) {
				out.WriteByte(' ')
			}
		case prevWord && isTinyDigit(r):
			out.WriteString(tinyJoin)
		case prevWord || !isTinyStart(r) || i > 0 && in[i-1] == ' ':
		case i > 1 && in[i-1] == '\'' && isTinyWord(in[i-2]):
		case tinyTightBefore(in, i):
			out.WriteByte(' ')
		default:
			out.WriteString(tinyJoin + " ")
		}
		out.WriteRune(r)
	}
	return out.String()
}

// tinyTightBefore is tinyTight at in[i].
func tinyTightBefore(in []rune, i int) bool {
	if i == 0 {
		return true
	}
	c, p := in[i-1], []rune(tinyStart)[0]
	if i > 1 {
		p = in[i-2]
	}
	after := func() bool { return isTinyWord(p) || isTinyDigit(p) }
	switch c {
	case ' ':
		return false
	case '(', '[', '{', '#', '@', '$', '€', '£', '¥', '“', '‘', '«', '\\':
		return true
	case '"', '\'', '`':
		return !after() && !strings.ContainsRune(".!?%)]}\"'`", p)
	case '-', '/', '=', '&', '+', '*', '^', '~', '|':
		return after() || c == '/' && p == '<'
	case '<':
		return p != ' '
	case '>':
		return p == '_' || isTinyDigit(p) || isTinyLetter(p) || strings.ContainsRune(`|"'/]-`, p)
	}
	return unicode.IsSpace(c)
}

var (
	tinyLetters = []*unicode.RangeTable{unicode.L, newerTable("L")}
	tinyMarks   = []*unicode.RangeTable{unicode.M, newerTable("M")}
	tinyDigits  = []*unicode.RangeTable{unicode.N, newerTable("N")}
)

func isTinyLetter(r rune) bool {
	if r < 0x80 {
		return r|0x20 >= 'a' && r|0x20 <= 'z'
	}
	return unicode.IsOneOf(tinyLetters, r)
}

func isTinyDigit(r rune) bool {
	if r < 0x80 {
		return r >= '0' && r <= '9'
	}
	return unicode.IsOneOf(tinyDigits, r)
}

func isTinyStart(r rune) bool { return r == '_' || isTinyLetter(r) }

func isTinyWord(r rune) bool { return isTinyStart(r) || r >= 0x80 && unicode.IsOneOf(tinyMarks, r) }

// newerTable is an entry of newer as a table.
func newerTable(category string) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	rs := []rune(newer[category])
	for i := 0; i+2 < len(rs); i += 3 { // first, '-', last
		lo, hi := rs[i], rs[i+2]
		if hi <= 0xffff {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(lo), Hi: uint16(hi), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: uint32(lo), Hi: uint32(hi), Stride: 1})
		}
	}
	return t
}
