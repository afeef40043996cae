package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddedToken is a token that is cut out of the text before the model sees it.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space to its left along
	RStrip     bool   `json:"rstrip"`      // and to its right
	Normalized bool   `json:"normalized"`  // looked for in the normalized text, in its own normalized form
	Special    bool   `json:"special"`     // a control token: skipped when decoding for people
}

// segment is a piece of text, or an added token (id >= 0).
type segment struct {
	text string
	id   int32
}

// addedMatcher finds added tokens: at each place the leftmost one, and the longest of those.
type addedMatcher struct {
	nodes  []trieNode
	tokens []*AddedToken
}

type trieNode struct {
	next  map[byte]int32
	token int32 // index into tokens, -1: none ends here
}

func newAddedMatcher() *addedMatcher { return &addedMatcher{nodes: []trieNode{{token: -1}}} }

func (m *addedMatcher) add(content string, tok *AddedToken) error {
	if content == "" {
		return fmt.Errorf("added token %d is empty", tok.ID)
	}
	at := int32(0)
	for i := range len(content) {
		if m.nodes[at].next == nil {
			m.nodes[at].next = map[byte]int32{}
		}
		to, ok := m.nodes[at].next[content[i]]
		if !ok {
			to = int32(len(m.nodes))
			m.nodes = append(m.nodes, trieNode{token: -1})
			m.nodes[at].next[content[i]] = to
		}
		at = to
	}
	if m.nodes[at].token < 0 {
		m.nodes[at].token = int32(len(m.tokens))
	}
	m.tokens = append(m.tokens, tok)
	return nil
}

// longest returns the longest added token that s starts with.
func (m *addedMatcher) longest(s string) (tok *AddedToken, n int) {
	at := int32(0)
	for i := range len(s) {
		to, ok := m.nodes[at].next[s[i]]
		if !ok {
			break
		}
		at = to
		if t := m.nodes[at].token; t >= 0 {
			tok, n = m.tokens[t], i+1
		}
	}
	return tok, n
}

// split cuts s at added tokens.
func (m *addedMatcher) split(dst []segment, s string) []segment {
	if len(m.tokens) == 0 {
		return append(dst, segment{s, -1})
	}
	done := 0 // s[:done] is in dst
	for i := 0; i < len(s); {
		if _, ok := m.nodes[0].next[s[i]]; !ok {
			i++
			continue
		}
		tok, n := m.longest(s[i:])
		if tok == nil || i < done { // i < done: the white space that an earlier token took along
			i++
			continue
		}
		start, stop := i, i+n
		i = stop // what was matched is not searched again, used or not
		if tok.SingleWord && (endsWithWord(s[:start]) || startsWithWord(s[stop:])) {
			continue
		}
		if tok.LStrip {
			start = max(len(strings.TrimRightFunc(s[:start], unicode.IsSpace)), done)
		}
		if tok.RStrip {
			stop = len(s) - len(strings.TrimLeftFunc(s[stop:], unicode.IsSpace))
		}
		if start > done {
			dst = append(dst, segment{s[done:start], -1})
		}
		dst = append(dst, segment{"", tok.ID})
		done = stop
	}
	if done < len(s) {
		dst = append(dst, segment{s[done:], -1})
	}
	return dst
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWordRune(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWordRune(r)
}

// isWordRune is \w of Unicode technical standard 18: Alphabetic, marks, decimal digits, connectors, join controls.
func isWordRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
}
