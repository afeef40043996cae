package suite

import (
	"encoding/json"
	"strings"
)

// listMatches compares a list with gold by the rule of Matches.
func (a Answer) listMatches(given string) bool {
	want, got := map[string]int{}, map[string]int{}
	longest := 1 // pieces of a gold element that separators stand in
	for _, g := range a.Values {
		want[element(g, "")]++
		longest = max(longest, len(pieces(Plain(g))))
	}
	whole, ok := jsonElements(given)
	if ok {
		for _, e := range whole {
			got[element(e, a.Unit)]++
		}
	} else {
		text := items(Plain(given))
		parts := pieces(text)
		for i := 0; i < len(parts); {
			n := 1
			for k := min(longest, len(parts)-i); k > 1; k-- { // the longest run of pieces that is an element of gold
				if run := text[parts[i].from:parts[i+k-1].to]; !isNumber(run, a.Unit) && want[element(run, a.Unit)] > 0 {
					n = k
					break
				}
			}
			got[element(text[parts[i].from:parts[i+n-1].to], a.Unit)]++
			i += n
		}
	}
	if len(want) != len(got) {
		return false
	}
	for k, n := range want {
		if got[k] < n || n > 1 && got[k] > n {
			return false
		}
	}
	return true
}

// element is the key under which list elements are compared: the exact number, else the folded string.
func element(s, unit string) string {
	if r, ok := parseNumber(s, unit); ok {
		return "number " + r.RatString()
	}
	return "string " + fold(s)
}

func isNumber(s, unit string) bool {
	_, ok := parseNumber(s, unit)
	return ok
}

// jsonElements reads a JSON array of strings and numbers.
func jsonElements(s string) ([]string, bool) {
	var raw []any
	d := json.NewDecoder(strings.NewReader(bare(s)))
	d.UseNumber()
	if err := d.Decode(&raw); err != nil || d.More() {
		return nil, false
	}
	out := make([]string, 0, len(raw))
	for _, v := range raw {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case json.Number:
			out = append(out, string(v))
		default:
			return nil, false
		}
	}
	return out, raw != nil
}

// items takes the brackets off a list that is no JSON, or the marks off its lines, of which there are at least two, all with the same
// mark: a single line "- 5" could also be a number with a sign.
func items(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n > 2 && s[0] == s[n-1] && strings.IndexByte("\"'`", s[0]) >= 0 && strings.IndexByte(s[1:n-1], s[0]) < 0 {
		s = s[1 : n-1] // quotes around the list, and not around its first and its last element
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner
		}
	}
	for _, mark := range []string{"- ", "* ", "• "} {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			rest, ok := strings.CutPrefix(strings.TrimLeft(l, " \t"), mark)
			if !ok || len(lines) < 2 {
				lines = nil
				break
			}
			lines[i] = rest
		}
		if lines != nil {
			return strings.Join(lines, "\n")
		}
	}
	return s
}

// piece is a part of a text between two separators, with text other than space.
type piece struct{ from, to int }

// pieces parts a text at commas, semicolons, line breaks and the word and.
func pieces(s string) []piece {
	var out []piece
	start := 0
	add := func(end int) {
		if strings.TrimSpace(s[start:end]) != "" {
			out = append(out, piece{start, end})
		}
	}
	for i := 0; i < len(s); i++ {
		n := 0
		switch {
		case s[i] == ',' || s[i] == ';' || s[i] == '\n':
			n = 1
		case i+3 <= len(s) && strings.EqualFold(s[i:i+3], "and") && (i == 0 || isGap(s[i-1])) && i+3 < len(s) && isGap(s[i+3]):
			n = 3
		}
		if n > 0 {
			add(i)
			i += n - 1
			start = i + 1
		}
	}
	add(len(s))
	return out
}

func isGap(c byte) bool { return c == ' ' || c == ',' || c == ';' || c == '\n' || c == '\t' }
