package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites the text between added tokens before it is split.
type normalizer func(string) string

// pattern is the {"String": ...} or {"Regex": ...} of Replace and Split.
type pattern struct {
	text string
	re   *regexp2.Regexp
}

func (p *pattern) UnmarshalJSON(b []byte) error {
	var raw struct {
		String *string
		Regex  *string
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	switch {
	case raw.String != nil && raw.Regex == nil:
		p.text = *raw.String
		return nil
	case raw.Regex != nil && raw.String == nil:
		re, err := compile(*raw.Regex)
		p.re = re
		return err
	}
	return fmt.Errorf(`pattern: want {"String": ...} or {"Regex": ...}, got %s`, b)
}

// find returns the byte ranges of all matches, in order.
func (p *pattern) find(s string) [][]int {
	if p.re != nil {
		all, err := p.re.FindAllStringIndex(s, -1)
		if err != nil { // only a time limit or a bounded stack can fail, and compile sets neither
			panic(fmt.Sprintf("tokenizer: matching %s: %v", p.re, err))
		}
		return all
	}
	var all [][]int
	if p.text == "" {
		return nil
	}
	for at := 0; ; {
		i := strings.Index(s[at:], p.text)
		if i < 0 {
			return all
		}
		all = append(all, []int{at + i, at + i + len(p.text)})
		at += i + len(p.text)
	}
}

func (p *pattern) replace(s, content string) string {
	all := p.find(s)
	if len(all) == 0 {
		return s
	}
	var sb strings.Builder
	at := 0
	for _, m := range all {
		sb.WriteString(s[at:m[0]])
		sb.WriteString(content)
		at = m[1]
	}
	sb.WriteString(s[at:])
	return sb.String()
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func typeOf(raw json.RawMessage) (string, error) {
	var t struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", err
	}
	if t.Type == nil {
		return "", fmt.Errorf(`field "type" is missing`)
	}
	return *t.Type, nil
}

func parseNormalizer(raw json.RawMessage) (normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	typ, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	switch typ {
	case "NFC":
		return nfc, nil
	case "NFD":
		return nfd, nil
	case "Lowercase":
		return func(s string) string {
			// The one character whose lower case is two characters.
			return strings.ToLower(strings.ReplaceAll(s, "\u0130", "i\u0307"))
		}, nil
	case "Prepend":
		var v struct{ Prepend string }
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		return func(s string) string {
			if s == "" {
				return s
			}
			return v.Prepend + s
		}, nil
	case "Strip":
		var v struct {
			Left  bool `json:"strip_left"`
			Right bool `json:"strip_right"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		return func(s string) string {
			if v.Left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if v.Right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}, nil
	case "Replace":
		var v struct {
			Pattern *pattern `json:"pattern"`
			Content string   `json:"content"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, fmt.Errorf("in Replace: %w", err)
		}
		if v.Pattern == nil {
			return nil, fmt.Errorf(`in Replace: field "pattern" is missing`)
		}
		return func(s string) string { return v.Pattern.replace(s, v.Content) }, nil
	case "Sequence":
		var v struct {
			Normalizers []json.RawMessage `json:"normalizers"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		var all []normalizer
		for i, r := range v.Normalizers {
			n, err := parseNormalizer(r)
			if err != nil {
				return nil, fmt.Errorf("in Sequence[%d]: %w", i, err)
			}
			if n != nil {
				all = append(all, n)
			}
		}
		return func(s string) string {
			for _, n := range all {
				s = n(s)
			}
			return s
		}, nil
	}
	return nil, fmt.Errorf("type %q is not supported (NFC, NFD, Lowercase, Prepend, Strip, Replace, Sequence are)", typ)
}

// nfc is Unicode NFC, and nfd NFD. The norm package breaks up runs of more than 30 combining marks with U+034F (the stream-safe
// format). The reference does not, so a string with such a run is normalized here.
func nfc(s string) string {
	if longMarks(s) {
		return textOf(compose(decompose(s)))
	}
	return norm.NFC.String(s)
}

func nfd(s string) string {
	if longMarks(s) {
		return textOf(decompose(s))
	}
	return norm.NFD.String(s)
}

// longMarks reports whether s has a run of marks that could reach the limit of the stream-safe format. A character
// that decomposes can bring several, so the threshold is far below 30.
func longMarks(s string) bool {
	run := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			run = 0
			i++
			continue
		}
		p := norm.NFD.PropertiesString(s[i:])
		if p.CCC() == 0 && len(p.Decomposition()) == 0 {
			run = 0
		} else if run++; run > 8 {
			return true
		}
		i += max(p.Size(), 1)
	}
	return false
}

// char is a character of a decomposed text with its canonical combining class.
type char struct {
	r   rune
	ccc uint8
}

// decompose applies the full canonical decomposition and the canonical ordering.
func decompose(s string) []char {
	var chars []char
	for _, r := range s {
		for _, q := range norm.NFD.String(string(r)) {
			chars = append(chars, char{q, norm.NFD.PropertiesString(string(q)).CCC()})
		}
	}
	for i := 0; i < len(chars); {
		j := i
		for j < len(chars) && chars[j].ccc != 0 {
			j++
		}
		slices.SortStableFunc(chars[i:j], func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		i = j + 1
	}
	return chars
}

// compose joins each character with the last starter before it unless another character blocks it.
func compose(chars []char) []char {
	out := chars[:0]
	starter, last := -1, uint8(0)
	for _, c := range chars {
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || last != 0 && last < c.ccc) {
			if r, ok := composePair(out[starter].r, c.r); ok {
				out[starter].r = r
				continue
			}
		}
		if c.ccc == 0 {
			starter = len(out)
		}
		last = c.ccc
		out = append(out, c)
	}
	return out
}

func textOf(chars []char) string {
	var sb strings.Builder
	for _, c := range chars {
		sb.WriteRune(c.r)
	}
	return sb.String()
}

// composePair returns the primary composite of two characters of a decomposed text.
func composePair(a, b rune) (rune, bool) {
	c := norm.NFC.String(string([]rune{a, b}))
	r, n := utf8.DecodeRuneInString(c)
	return r, n == len(c)
}
