package calc

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	end kind = iota
	number
	name
	op // one of + - * / % ^ ( ) , and "of"
)

type token struct {
	kind kind
	text string
	val  *big.Rat // of a number
	// Of a comma: it stands directly between digits, three of which and no more follow, so it could be a thousands
	// separator.
	grouping bool
	spaced   bool // of a comma: white space follows
}

// aliases are the signs that people and models write for the ASCII ones.
var aliases = map[rune]string{
	'\u2212': "-", '\u2010': "-", '\u2011': "-", '\u2012': "-", '\u2013': "-", '\u2014': "-", '\uFE63': "-", '\uFF0D': "-",
	'\u00D7': "*", '\u00B7': "*", '\u22C5': "*", '\u2217': "*", '\uFF0A': "*",
	'\u00F7': "/", '\u2215': "/", '\u2044': "/", '\uFF0F': "/",
	'\uFF0B': "+", '\uFF05': "%", '\uFF08': "(", '\uFF09': ")", '\uFF0C': ",",
}

// lex cuts an expression into tokens; the last is end. Whether a comma is a thousands separator depends on the brackets
// around it, so the brackets are followed here.
func lex(s string) ([]token, error) {
	var toks []token
	var inCall []bool // by open bracket: it is a function's
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case isDigit(s, i) || r == '.' && isDigit(s, i+1):
			call := len(inCall) > 0 && inCall[len(inCall)-1]
			n, err := numberLen(s[i:], !call)
			if err != nil {
				return nil, err
			}
			v, err := parseNumber(s[i : i+n])
			if err != nil {
				return nil, err
			}
			toks = append(toks, token{kind: number, text: s[i : i+n], val: v})
			i += n
			continue
		case r == '_' || unicode.IsLetter(r):
			j := i
			for j < len(s) {
				c, n := utf8.DecodeRuneInString(s[j:])
				if c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
					break
				}
				j += n
			}
			if word := strings.ToLower(s[i:j]); word == "of" {
				toks = append(toks, token{kind: op, text: word})
			} else {
				toks = append(toks, token{kind: name, text: word})
			}
			i = j
			continue
		}
		text := string(r)
		if a, ok := aliases[r]; ok {
			text = a
		}
		t := token{kind: op, text: text}
		switch text {
		case "+", "-", "/", "%", "^":
		case "*":
			if strings.HasPrefix(s[i:], "**") {
				t.text, size = "^", 2
			}
		case "(":
			inCall = append(inCall, len(toks) > 0 && toks[len(toks)-1].kind == name)
		case ")":
			if len(inCall) > 0 {
				inCall = inCall[:len(inCall)-1]
			}
		case ",":
			next := i + size
			c, _ := utf8.DecodeRuneInString(s[next:])
			t.spaced = unicode.IsSpace(c)
			t.grouping = i > 0 && isDigit(s, i-1) && digits(s[next:]) == 3
		case "!":
			return nil, fmt.Errorf("factorial (!) is not supported")
		case "[", "]", "{", "}":
			return nil, fmt.Errorf("unexpected %q: only round brackets are used", text)
		default:
			return nil, fmt.Errorf("unexpected %q: write plain numbers and + - * / %% ^ ( )", text)
		}
		toks = append(toks, t)
		i += size
	}
	return append(toks, token{kind: end}), nil
}

func isDigit(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }

func digits(s string) int {
	n := 0
	for isDigit(s, n) {
		n++
	}
	return n
}

// numberLen measures the number at the start of s. With separators, groups of thousands belong to it, and a comma between
// digits that makes no such groups is an error.
func numberLen(s string, separators bool) (int, error) {
	n := digits(s)
	if separators && n > 0 && n < len(s) && s[n] == ',' && isDigit(s, n+1) {
		first := n
		for n < len(s) && s[n] == ',' && isDigit(s, n+1) {
			g := digits(s[n+1:])
			if g != 3 || first > 3 {
				return 0, fmt.Errorf("comma in %q: thousands are written 1,234.5, decimals with a point", clip(s))
			}
			n += 1 + g
		}
	}
	if n < len(s) && s[n] == '.' {
		n += 1 + digits(s[n+1:])
		if n < len(s) && (s[n] == ',' && isDigit(s, n+1) && separators || s[n] == '.') {
			return 0, fmt.Errorf("%q is not a number: thousands are written 1,234.5, decimals with a point", clip(s))
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if d := digits(s[m:]); d > 0 {
			n = m + d
		}
	}
	if n < len(s) && (s[n] == '_' || isLetter(s[n:])) && !strings.HasPrefix(s[n:], "of ") {
		return 0, fmt.Errorf("%q is not a number: write it without units", clip(s))
	}
	return n, nil
}

func isLetter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}

func parseNumber(s string) (*big.Rat, error) {
	s = strings.ReplaceAll(s, ",", "")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > maxExpOfTen || e < -maxExpOfTen {
			return nil, fmt.Errorf("%q is %s", clip(s), tooLargeText)
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, fmt.Errorf("%q is not a number", clip(s))
	}
	return r, checkSize(r)
}

func clip(s string) string {
	if len(s) <= 24 {
		return s
	}
	n := 24
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
