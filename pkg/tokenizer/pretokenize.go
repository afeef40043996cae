package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// preTokenizer cuts pieces of normalized text further. Pieces never join again.
type preTokenizer func(pieces []string) []string

// gpt2Split is the split of a ByteLevel pre-tokenizer that has use_regex set.
const gpt2Split = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// parsePreTokenizer also reports whether the pipeline maps bytes to the byte-level alphabet.
func parsePreTokenizer(raw json.RawMessage) (pre preTokenizer, byteLevel bool, err error) {
	if isNull(raw) {
		return nil, false, nil
	}
	typ, err := typeOf(raw)
	if err != nil {
		return nil, false, err
	}
	switch typ {
	case "ByteLevel":
		v := struct {
			AddPrefixSpace bool `json:"add_prefix_space"`
			UseRegex       bool `json:"use_regex"`
		}{AddPrefixSpace: true, UseRegex: true}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, false, err
		}
		split := func(s string) []string { return []string{s} }
		if v.UseRegex {
			re, err := compile(gpt2Split)
			if err != nil {
				return nil, false, err
			}
			p := &pattern{re: re}
			split = func(s string) []string { return cut(s, p.find(s), isolated) }
		}
		return each(func(s string) []string {
			if v.AddPrefixSpace && !strings.HasPrefix(s, " ") {
				s = " " + s
			}
			parts := split(s)
			for i, p := range parts {
				parts[i] = toByteLevel(p)
			}
			return parts
		}), true, nil
	case "Split":
		var v struct {
			Pattern  *pattern `json:"pattern"`
			Behavior string   `json:"behavior"`
			Invert   bool     `json:"invert"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, false, fmt.Errorf("in Split: %w", err)
		}
		if v.Pattern == nil {
			return nil, false, fmt.Errorf(`in Split: field "pattern" is missing`)
		}
		b, ok := behaviors[v.Behavior]
		if !ok {
			return nil, false, fmt.Errorf("in Split: behavior %q is not supported", v.Behavior)
		}
		return each(func(s string) []string {
			return cutSpans(s, spansOf(s, v.Pattern.find(s), v.Invert), b)
		}), false, nil
	case "Digits":
		var v struct {
			Individual bool `json:"individual_digits"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, false, err
		}
		b := contiguous
		if v.Individual {
			b = isolated
		}
		return each(func(s string) []string { return cut(s, charMatches(s, isNumeric), b) }), false, nil
	case "WhitespaceSplit":
		return each(func(s string) []string { return cut(s, charMatches(s, unicode.IsSpace), removed) }), false, nil
	case "Sequence":
		var v struct {
			Pre []json.RawMessage `json:"pretokenizers"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, false, err
		}
		var all []preTokenizer
		for i, r := range v.Pre {
			if byteLevel {
				return nil, false, fmt.Errorf("in Sequence[%d]: a pre-tokenizer after ByteLevel is not supported", i)
			}
			p, bl, err := parsePreTokenizer(r)
			if err != nil {
				return nil, false, fmt.Errorf("in Sequence[%d]: %w", i, err)
			}
			byteLevel = byteLevel || bl
			if p != nil {
				all = append(all, p)
			}
		}
		return func(pieces []string) []string {
			for _, p := range all {
				pieces = p(pieces)
			}
			return pieces
		}, byteLevel, nil
	}
	return nil, false, fmt.Errorf("type %q is not supported (ByteLevel, Split, Digits, WhitespaceSplit, Sequence are)", typ)
}

// isNumeric is Rust's char::is_numeric: general categories Nd, Nl and No.
func isNumeric(r rune) bool { return unicode.Is(unicode.N, r) }

func each(f func(string) []string) preTokenizer {
	return func(pieces []string) []string {
		var out []string
		for _, p := range pieces {
			for _, q := range f(p) {
				if q != "" {
					out = append(out, q)
				}
			}
		}
		return out
	}
}

func charMatches(s string, is func(rune) bool) [][]int {
	var all [][]int
	for i, r := range s {
		if is(r) {
			all = append(all, []int{i, i + len(string(r))})
		}
	}
	return all
}

// behavior says what becomes of a match when a piece is cut.
type behavior int

const (
	isolated     behavior = iota // a piece of its own
	removed                      // dropped
	withPrevious                 // end of the piece before it
	withNext                     // start of the piece after it
	contiguous                   // neighbouring matches make one piece
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": withPrevious, "MergedWithNext": withNext, "Contiguous": contiguous,
}

type span struct {
	start, end int
	match      bool
}

// spansOf covers s with the matches, which are ordered and do not overlap, and the gaps between them. With invert the
// two change roles; neighbouring matches stay apart.
func spansOf(s string, matches [][]int, invert bool) []span {
	spans := make([]span, 0, 2*len(matches)+1)
	at := 0
	for _, m := range matches {
		if m[0] > at {
			spans = append(spans, span{at, m[0], invert})
		}
		spans = append(spans, span{m[0], m[1], !invert})
		at = m[1]
	}
	if at < len(s) {
		spans = append(spans, span{at, len(s), invert})
	}
	return spans
}

// cut cuts s at matches.
func cut(s string, matches [][]int, b behavior) []string {
	return cutSpans(s, spansOf(s, matches, false), b)
}

func cutSpans(s string, spans []span, b behavior) []string {
	out := make([]string, 0, len(spans))
	switch b {
	case removed, isolated:
		for _, p := range spans {
			if b == isolated || !p.match {
				out = append(out, s[p.start:p.end])
			}
		}
	case contiguous:
		for i := 0; i < len(spans); {
			j := i + 1
			for j < len(spans) && spans[j].match == spans[i].match {
				j++
			}
			out = append(out, s[spans[i].start:spans[j-1].end])
			i = j
		}
	case withPrevious:
		for i := 0; i < len(spans); i++ {
			start := spans[i].start
			if !spans[i].match && i+1 < len(spans) && spans[i+1].match {
				i++
			}
			out = append(out, s[start:spans[i].end])
		}
	case withNext:
		for i := 0; i < len(spans); i++ {
			start := spans[i].start
			if spans[i].match && i+1 < len(spans) && !spans[i+1].match {
				i++
			}
			out = append(out, s[start:spans[i].end])
		}
	}
	return out
}
