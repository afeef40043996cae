package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// compile compiles a regular expression of a tokenizer.json. These are written for Oniguruma in Ruby syntax. A few spellings mean
// something else to regexp2. compile rewrites or refuses them, so that no text is split wrongly without an error.
func compile(src string) (*regexp2.Regexp, error) {
	p, err := fromOniguruma(src)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", src, err)
	}
	// In Ruby syntax ^ and $ always stand for the ends of a line.
	re, err := regexp2.Compile(p, regexp2.Multiline, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", src, err)
	}
	return re, nil
}

// wordClass is what \w stands for in the reference: letters, marks, digits, connectors and circled letters. Below U+0100 the
// reference has another table, with superscript digits and fractions too.
var wordClass = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}` + "\u00b2\u00b3\u00b9\u00bc-\u00be\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189" +
	newer["L"] + newer["M"] + newer["N"]

// fromOniguruma rewrites \w and \h, and possessive quantifiers into atomic groups. It refuses set intersections, nested
// sets, POSIX brackets and escapes that regexp2 lacks.
func fromOniguruma(src string) (string, error) {
	var out []byte
	var open []int // starts, in out, of the groups that are open
	atom := -1     // start, in out, of the last complete atom
	inSet := false
	setStart := 0 // start of the set in src and out
	outSet := 0
	for i := 0; i < len(src); {
		c := src[i]
		if c == '\\' {
			if i+1 == len(src) {
				return "", fmt.Errorf("ends with a lone backslash")
			}
			start := len(out)
			switch e := src[i+1]; e {
			case 'w':
				out = append(out, setOf(wordClass, inSet)...)
			case 'h':
				out = append(out, setOf("0-9a-fA-F", inSet)...)
			case 'd':
				out = append(out, setOf(`\d`+newer["N"], inSet)...)
			case 'W', 'H':
				if inSet {
					return "", fmt.Errorf(`\%c inside a set is not supported`, e)
				}
				cls := wordClass
				if e == 'H' {
					cls = "0-9a-fA-F"
				}
				out = append(out, "[^"+cls+"]"...)
			case 'R', 'X', 'K', 'G', 'y', 'Y', 'N', 'O', 'g', 'k', 'C', 'M':
				return "", fmt.Errorf(`\%c is not supported`, e)
			case 'p', 'P':
				end := strings.IndexByte(src[i:], '}')
				if i+2 >= len(src) || src[i+2] != '{' || end < 0 {
					return "", fmt.Errorf(`\%c without a property in braces`, e)
				}
				name := src[i+3 : i+end]
				if strings.HasPrefix(name, "^") {
					name = name[1:]
					e ^= 'p' ^ 'P'
				}
				class := `\p{` + name + "}" + newer[name]
				if name == "Nd" {
					class += newer["N"]
				}
				switch {
				case e == 'p':
					out = append(out, setOf(class, inSet)...)
				case !inSet:
					out = append(out, "[^"+class+"]"...)
				default:
					out = append(out, `\P{`+name+"}"...)
				}
				i += end + 1 - 2
			default:
				_, n := utf8.DecodeRuneInString(src[i+1:])
				out = append(out, src[i:i+1+n]...)
				i += n - 1
			}
			if !inSet {
				atom = start
			}
			i += 2
			continue
		}
		if inSet {
			first := i == setStart+1 || i == setStart+2 && src[setStart+1] == '^'
			switch {
			case c == ']' && !first:
				inSet = false
				atom = outSet
			case c == '[':
				return "", fmt.Errorf("nested sets and POSIX brackets are not supported")
			case c == '&' && strings.HasPrefix(src[i:], "&&"):
				return "", fmt.Errorf("set intersection (&&) is not supported")
			case c == ']':
				out = append(out, '\\')
			}
			out = append(out, c)
			i++
			continue
		}
		switch c {
		case '[':
			inSet, setStart, outSet = true, i, len(out)
		case '(':
			if strings.HasPrefix(src[i:], "(?~") || strings.HasPrefix(src[i:], "(?m") {
				return "", fmt.Errorf("%.3s...) is not supported", src[i:])
			}
			open = append(open, len(out))
			atom = -1
		case ')':
			if len(open) == 0 {
				return "", fmt.Errorf("unbalanced parenthesis")
			}
			atom = open[len(open)-1]
			open = open[:len(open)-1]
		case '?', '*', '+':
			if atom >= 0 && !(c == '?' && i > 0 && src[i-1] == '(') {
				out = append(out, c)
				i++
				if i < len(src) && src[i] == '+' { // possessive
					out = append(out, ')')
					out = append(out[:atom], append([]byte("(?>"), out[atom:]...)...)
					i++
				} else if i < len(src) && src[i] == '?' {
					out = append(out, '?')
					i++
				}
				continue
			}
		case '|':
			atom = -1
		case '{':
		default:
			if c < utf8.RuneSelf {
				atom = len(out)
			} else if utf8.RuneStart(c) {
				atom = len(out)
			}
		}
		out = append(out, c)
		i++
	}
	if inSet {
		return "", fmt.Errorf("a set is not closed")
	}
	return string(out), nil
}

func setOf(class string, inSet bool) string {
	if inSet {
		return class
	}
	return "[" + class + "]"
}
