package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// wordPiece spells a word from its start, each time by the longest piece of the vocabulary that fits. In the vocabulary, pieces
// after the first begin with a prefix ("##", or nothing).
type wordPiece struct {
	vocab    map[string]int32
	prefix   string
	unk      int32 // the id of a whole word that cannot be spelled; -1: no such token
	maxChars int
	longest  int // bytes of the longest vocabulary entry
	cache    wordCache
}

func parseWordPiece(raw json.RawMessage, vocab map[string]int32) (*wordPiece, error) {
	var v struct {
		Unk      *string `json:"unk_token"`
		Prefix   *string `json:"continuing_subword_prefix"`
		MaxChars *int    `json:"max_input_chars_per_word"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	if v.Unk == nil || v.Prefix == nil || v.MaxChars == nil {
		return nil, fmt.Errorf("fields unk_token, continuing_subword_prefix and max_input_chars_per_word are required")
	}
	m := &wordPiece{vocab: vocab, prefix: *v.Prefix, unk: -1, maxChars: *v.MaxChars}
	if id, ok := vocab[*v.Unk]; ok {
		m.unk = id
	}
	for p := range vocab {
		m.longest = max(m.longest, len(p))
	}
	if m.unk < 0 {
		for b := range 256 {
			for _, p := range []string{"", m.prefix} {
				if _, ok := vocab[p+byteToStr[b]]; !ok {
					return nil, fmt.Errorf("unk_token %q is not in the vocabulary, nor is piece %q that would make it unnecessary", *v.Unk, p+byteToStr[b])
				}
			}
		}
	}
	return m, nil
}

func (m *wordPiece) appendIDs(dst []int32, word string) []int32 {
	if word == "" {
		return dst
	}
	if ids, ok := m.cache.get(word); ok {
		return append(dst, ids...)
	}
	at := len(dst)
	dst = m.spell(dst, word)
	m.cache.put(word, dst[at:])
	return dst
}

func (m *wordPiece) spell(dst []int32, word string) []int32 {
	keep := len(dst)
	unknown := func() []int32 {
		if m.unk < 0 {
			return dst[:keep]
		}
		return append(dst[:keep], m.unk)
	}
	if utf8.RuneCountInString(word) > m.maxChars {
		return unknown()
	}
	for start := 0; start < len(word); {
		prefix := ""
		if start > 0 {
			prefix = m.prefix
		}
		end := min(len(word), start+m.longest)
		for end < len(word) && !utf8.RuneStart(word[end]) {
			end--
		}
		found := false
		for end > start {
			id, ok := m.vocab[prefix+word[start:end]]
			if ok {
				dst = append(dst, id)
				found = true
				break
			}
			_, n := utf8.DecodeLastRuneInString(word[start:end])
			end -= n
		}
		if !found {
			return unknown()
		}
		start = end
	}
	return dst
}
