package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// model turns one pre-token into vocabulary ids.
type model interface {
	appendIDs(dst []int32, word string) []int32
}

type pair struct{ a, b int32 }

type mergeRule struct{ rank, id int32 }

// bpe is byte-pair encoding. A word starts as characters. Then the neighbours whose merge was learned first are joined, the
// leftmost first if there are several, until no merge applies.
type bpe struct {
	vocab        map[string]int32
	merges       map[pair]mergeRule
	ignoreMerges bool  // a word that is in the vocabulary is its id, whatever the merges say
	unk          int32 // for characters outside the vocabulary; -1: they are dropped
	fuseUnk      bool  // neighbouring unknown characters are one token
	cache        wordCache
}

func parseBPE(raw json.RawMessage, vocab map[string]int32) (*bpe, error) {
	var v struct {
		Dropout      *float64        `json:"dropout"`
		Unk          *string         `json:"unk_token"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
		FuseUnk      bool            `json:"fuse_unk"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
		Merges       json.RawMessage `json:"merges"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	switch {
	case v.Dropout != nil && *v.Dropout != 0:
		return nil, fmt.Errorf("dropout %g is not supported: encoding would be random", *v.Dropout)
	case v.Prefix != nil && *v.Prefix != "":
		return nil, fmt.Errorf("continuing_subword_prefix %q is not supported", *v.Prefix)
	case v.Suffix != nil && *v.Suffix != "":
		return nil, fmt.Errorf("end_of_word_suffix %q is not supported", *v.Suffix)
	case v.ByteFallback:
		return nil, fmt.Errorf("byte_fallback is not supported: this reads byte-level vocabularies")
	case isNull(v.Merges):
		return nil, fmt.Errorf(`field "merges" is missing`)
	}
	m := &bpe{vocab: vocab, ignoreMerges: v.IgnoreMerges, unk: -1, fuseUnk: v.FuseUnk}
	if v.Unk != nil && *v.Unk != "" {
		id, ok := vocab[*v.Unk]
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", *v.Unk)
		}
		m.unk = id
	}
	pairs, err := parseMerges(v.Merges)
	if err != nil {
		return nil, err
	}
	m.merges = make(map[pair]mergeRule, len(pairs))
	for i, p := range pairs {
		a, okA := vocab[p[0]]
		b, okB := vocab[p[1]]
		c, okC := vocab[p[0]+p[1]]
		for j, ok := range []bool{okA, okB, okC} {
			if !ok {
				return nil, fmt.Errorf("merges[%d]: piece %q is not in the vocabulary", i, []string{p[0], p[1], p[0] + p[1]}[j])
			}
		}
		m.merges[pair{a, b}] = mergeRule{int32(i), c}
	}
	return m, nil
}

// parseMerges reads merges written as "a b" or as ["a", "b"].
func parseMerges(raw json.RawMessage) ([][2]string, error) {
	var lines []string
	if err := json.Unmarshal(raw, &lines); err == nil {
		out := make([][2]string, 0, len(lines))
		for i, l := range lines {
			a, b, ok := strings.Cut(l, " ")
			if !ok || a == "" || b == "" || strings.Contains(b, " ") {
				return nil, fmt.Errorf("merges[%d]: want two pieces and one space between them, got %q", i, l)
			}
			out = append(out, [2]string{a, b})
		}
		return out, nil
	}
	var lists [][]string
	if err := json.Unmarshal(raw, &lists); err != nil {
		return nil, fmt.Errorf("merges: want strings or pairs of strings: %w", err)
	}
	out := make([][2]string, 0, len(lists))
	for i, l := range lists {
		if len(l) != 2 || l[0] == "" || l[1] == "" {
			return nil, fmt.Errorf("merges[%d]: want two pieces, got %q", i, l)
		}
		out = append(out, [2]string{l[0], l[1]})
	}
	return out, nil
}

func (m *bpe) appendIDs(dst []int32, word string) []int32 {
	if word == "" {
		return dst
	}
	if m.ignoreMerges {
		if id, ok := m.vocab[word]; ok {
			return append(dst, id)
		}
	}
	if ids, ok := m.cache.get(word); ok {
		return append(dst, ids...)
	}
	at := len(dst)
	dst = m.merge(dst, word)
	m.cache.put(word, dst[at:])
	return dst
}

// symbol is one node of the linked list of a word's pieces.
type symbol struct{ id, prev, next int32 }

type candidate struct{ rank, pos, id int32 }

func (m *bpe) merge(dst []int32, word string) []int32 {
	syms := make([]symbol, 0, len(word))
	unknown := false
	for i, r := range word {
		id, ok := m.vocab[word[i:i+len(string(r))]]
		if !ok {
			if m.unk < 0 || m.fuseUnk && unknown {
				continue
			}
			id = m.unk
		}
		unknown = !ok
		n := int32(len(syms))
		syms = append(syms, symbol{id, n - 1, n + 1})
	}
	n := int32(len(syms))
	if n == 0 {
		return dst
	}
	syms[n-1].next = -1
	var q mergeQueue
	consider := func(l, r int32) {
		if rule, ok := m.merges[pair{syms[l].id, syms[r].id}]; ok {
			q.push(candidate{rule.rank, l, rule.id})
		}
	}
	for i := int32(0); i+1 < n; i++ {
		consider(i, i+1)
	}
	const gone = -2
	for len(q) > 0 {
		top := q.pop()
		s := &syms[top.pos]
		if s.prev == gone || s.next < 0 {
			continue
		}
		r := s.next
		// Stale: the pair that stands here now makes another piece.
		if rule, ok := m.merges[pair{s.id, syms[r].id}]; !ok || rule.id != top.id {
			continue
		}
		s.id = top.id
		s.next = syms[r].next
		syms[r].prev = gone
		if s.next >= 0 {
			syms[s.next].prev = top.pos
			consider(top.pos, s.next)
		}
		if s.prev >= 0 {
			consider(s.prev, top.pos)
		}
	}
	for i := int32(0); i >= 0; i = syms[i].next {
		dst = append(dst, syms[i].id)
	}
	return dst
}

// mergeQueue is a binary heap: lowest rank first, then leftmost.
type mergeQueue []candidate

func (c candidate) less(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.pos < d.pos
}

func (q *mergeQueue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].less(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*q = h
}

func (q *mergeQueue) pop() candidate {
	h := *q
	top := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h[c+1].less(h[c]) {
			c++
		}
		if !h[c].less(h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	*q = h
	return top
}

// wordCache remembers the ids of short words. It stops growing when full. The zero value is ready; safe for concurrent
// use.
type wordCache struct {
	mu  sync.RWMutex
	ids map[string][]int32
}

const (
	cachedWords   = 1 << 16
	cachedWordLen = 64 // bytes
)

func (c *wordCache) get(word string) ([]int32, bool) {
	if len(word) > cachedWordLen {
		return nil, false
	}
	c.mu.RLock()
	ids, ok := c.ids[word]
	c.mu.RUnlock()
	return ids, ok
}

func (c *wordCache) put(word string, ids []int32) {
	if len(word) > cachedWordLen {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[string][]int32{}
	}
	if len(c.ids) < cachedWords {
		c.ids[strings.Clone(word)] = append([]int32(nil), ids...)
	}
}
