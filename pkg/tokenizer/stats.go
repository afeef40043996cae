package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stats is what a tokenizer makes of some texts.
type Stats struct {
	Texts, Tokens int
	MaxTokens     int     // of one text
	MeanTokens    float64 // a text
	Characters    int
	// Words are tokens that begin with their space, Pieces continue a word, Bytes are parts of a character; digits,
	// punctuation, atoms and added tokens are none of these.
	Words, Pieces, Bytes int
	Used                 int     // different ids that occur
	Coverage             float64 // Used / VocabSize
	Count                []int   // by id
}

// Stats encodes texts, with added tokens recognised, and counts.
func (t *Tokenizer) Stats(texts []string) Stats {
	s := Stats{Texts: len(texts), Count: make([]int, t.VocabSize())}
	for _, text := range texts {
		ids := t.Encode(text)
		s.Tokens += len(ids)
		s.MaxTokens = max(s.MaxTokens, len(ids))
		s.Characters += utf8.RuneCountInString(text)
		for _, id := range ids {
			s.Count[id]++
			if _, added := t.byID[id]; added {
				continue
			}
			b := string(fromByteLevel(t.tokens[id]))
			switch word, ok := plainWord(b); {
			case !utf8.ValidString(b):
				s.Bytes++
			case ok && strings.HasPrefix(b, " "):
				s.Words++
			case ok && word == b:
				s.Pieces++
			}
		}
	}
	for _, n := range s.Count {
		if n > 0 {
			s.Used++
		}
	}
	if len(texts) > 0 {
		s.MeanTokens = float64(s.Tokens) / float64(len(texts))
	}
	s.Coverage = float64(s.Used) / float64(t.VocabSize())
	return s
}

// Unseen returns the ids that occur here and not in train, ascending: tokens of which a model trained there knows
// nothing.
func (s Stats) Unseen(train Stats) []int32 {
	var out []int32
	for id, n := range s.Count {
		if n > 0 && (id >= len(train.Count) || train.Count[id] == 0) {
			out = append(out, int32(id))
		}
	}
	return out
}
