package sqlbox

import (
	"strings"
)

type kind uint8

const (
	word   kind = iota // keyword or bare identifier
	quoted             // identifier in "", `` or []
	str                // 'text'
	blob               // x'00ff'
	num
	param // ? :a @a $a
	op
	bad // an unclosed quote or a character that SQL has no use for
)

type token struct {
	kind kind
	text string // as written; words and operators in lower case; quoted identifiers without their quotes
}

func (t token) is(text string) bool { return (t.kind == word || t.kind == op) && t.text == text }

func (t token) identifier() bool { return t.kind == quoted || t.kind == word && !reserved[t.text] }

// lex cuts SQL into tokens by SQLite's own rules (its file tokenize.c); comments and white space are dropped.
func lex(s string) []token {
	var out []token
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			i++
		case strings.HasPrefix(s[i:], "\uFEFF"):
			i += 3
		case strings.HasPrefix(s[i:], "--"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return out
			}
			i += n + 1
		case strings.HasPrefix(s[i:], "/*") && i+2 < len(s):
			n := strings.Index(s[i+2:], "*/")
			if n < 0 {
				return out // SQLite takes an unclosed comment to the end
			}
			i += n + 4
		case c == '\'' || c == '"' || c == '`' || c == '[':
			n, ok := quoteLen(s[i:])
			t := token{kind: quoted}
			switch {
			case !ok:
				t = token{bad, s[i:]}
			case c == '\'':
				t = token{str, s[i : i+n]}
			case c == '[':
				t.text = s[i+1 : i+n-1]
			default:
				t.text = strings.ReplaceAll(s[i+1:i+n-1], string([]byte{c, c}), string(c))
			}
			out = append(out, t)
			i += n
		case (c == 'x' || c == 'X') && i+1 < len(s) && s[i+1] == '\'':
			n, ok := quoteLen(s[i+1:])
			k := blob
			if !ok {
				k = bad
			}
			out = append(out, token{k, s[i : i+1+n]})
			i += 1 + n
		case isDigit(c) || c == '.' && i+1 < len(s) && isDigit(s[i+1]):
			n := numberLen(s[i:])
			out = append(out, token{num, s[i : i+n]})
			i += n
		case isIdent(c) && c != '$':
			n := 1
			for i+n < len(s) && isIdent(s[i+n]) {
				n++
			}
			out = append(out, token{word, strings.ToLower(s[i : i+n])})
			i += n
		case strings.IndexByte("?:@$#", c) >= 0:
			n := 1
			for i+n < len(s) && isIdent(s[i+n]) {
				n++
			}
			out = append(out, token{param, s[i : i+n]})
			i += n
		default:
			n := 1
			for _, o := range []string{"->>", "->", "||", "<<", ">>", "<=", ">=", "<>", "!=", "=="} {
				if strings.HasPrefix(s[i:], o) {
					n = len(o)
					break
				}
			}
			k := op
			if n == 1 && strings.IndexByte("(),;.*+-/%&|~<>=", c) < 0 {
				k = bad
			}
			out = append(out, token{k, s[i : i+n]})
			i += n
		}
	}
	return out
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isIdent(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoteLen measures a quoted text, in which the quote is written twice to mean itself ([..] has no such escape).
func quoteLen(s string) (int, bool) {
	q := s[0]
	if q == '[' {
		n := strings.IndexByte(s, ']')
		if n < 0 {
			return len(s), false
		}
		return n + 1, true
	}
	for i := 1; i < len(s); i++ {
		if s[i] != q {
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			i++
			continue
		}
		return i + 1, true
	}
	return len(s), false
}

func numberLen(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || s[n] == '.' || isIdent(s[n])) {
		if (s[n] == 'e' || s[n] == 'E') && n+1 < len(s) && (s[n+1] == '+' || s[n+1] == '-') && !strings.HasPrefix(s, "0x") {
			n++
		}
		n++
	}
	return n
}

// reserved are the words that cannot name a column without quotes, as far as the rules here look at them.
var reserved = setOf("all and as asc between by case cast collate cross current_date current_time current_timestamp desc distinct " +
	"else end escape except exists filter from full glob group having in inner intersect is isnull join left like limit match natural " +
	"not notnull null offset on or order outer over recursive regexp right select then union using values when where window with")

func setOf(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}
