package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TinyOptions says what TrainTiny puts into the vocabulary. The zero value is usable.
type TinyOptions struct {
	// MaxVocab bounds the vocabulary, added tokens included. 0: 4000.
	MaxVocab int
	// Control are the special tokens, in the order of their ids. nil: DefaultControl. Each must end in ">" behind a
	// letter or a bar.
	Control []string
	// Atoms are strings of the system's own text that are one token each wherever they stand: fences, JSON between
	// values, tool names. An atom that begins or ends in a word matches whole words only.
	Atoms []string
	// MinTexts is the number of texts in which a word must occur to be one token. Rarer words are spelled in pieces. 0: 5.
	MinTexts int
	// Names are words that are always spelled in pieces, however often they occur. A name of several words stands for each of them.
	Names []string
	// IsName flags further such words. It may be nil.
	IsName func(word string) bool
	// MaxPieces bounds the number of pieces, and MaxPieceLen their length in characters. MinPieceWords is the number of
	// different spelled words in which a piece must be used. 0: 600, 3 and 4. With longer pieces, training shows too
	// little of the shorter ones, which a new name needs.
	MaxPieces, MaxPieceLen, MinPieceWords int
}

// DefaultControl are the special tokens of the tiny preset: a document's end, the marks of ChatML, and one token a role.
var DefaultControl = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"}

func (o TinyOptions) withDefaults() TinyOptions {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.MaxVocab, 4000)
	set(&o.MinTexts, 5)
	set(&o.MaxPieces, 600)
	set(&o.MaxPieceLen, 3)
	set(&o.MinPieceWords, 4)
	if o.Control == nil {
		o.Control = DefaultControl
	}
	return o
}

// TrainTiny makes a word-level tokenizer from texts. It is for very small models, which can copy a word only if the word is one
// id, or a few pieces that they have seen often.
//
// A word has the same id wherever it stands. The space before it is part of the token, so a single space between words costs
// nothing. A mark says where the text has no space (see tinyJoin). Each digit is a token. Names, and words that occur in few
// texts, are spelled from the left, each time by the longest piece that fits. Several words of the training texts use each
// piece. So a new name is spelled in pieces that were trained. Every byte is a token too, so any text can be encoded, and
// decode(encode(s)) = Canonical(s).
//
// The result is a tokenizer.json of the kinds Replace, Split, ByteLevel and WordPiece that the Hugging Face library
// opens with the same ids and texts. It depends on the texts and options alone: the same input gives the same bytes.
func TrainTiny(texts []string, opts TinyOptions) (*Tokenizer, error) {
	o := opts.withDefaults()
	if o.MaxVocab < 256+len(o.Control)+len(o.Atoms)+1 {
		return nil, fmt.Errorf("train tokenizer: MaxVocab %d is too small for 256 bytes, %d control tokens and %d atoms", o.MaxVocab, len(o.Control), len(o.Atoms))
	}
	atoms, err := normalAtoms(o.Atoms)
	if err != nil {
		return nil, err
	}
	// A tokenizer that knows nothing but bytes and atoms splits the texts into words.
	base, err := buildTiny(baseVocab(atoms), atoms, o.Control)
	if err != nil {
		return nil, err
	}
	inTexts := map[string]int{} // pre-token, in byte-level spelling: number of texts
	for _, text := range texts {
		seen := map[string]bool{}
		for _, s := range base.raw.split(nil, validUTF8(text)) {
			if s.text == "" {
				continue
			}
			for _, p := range base.pre([]string{base.normalize(s.text)}) {
				if !seen[p] {
					seen[p] = true
					inTexts[p]++
				}
			}
		}
	}
	tokens := chooseTokens(inTexts, baseVocab(atoms), o)
	t, err := buildTiny(tokens, atoms, o.Control)
	if err != nil {
		return nil, err
	}
	return t, t.checkControl(o.Control)
}

// normalAtoms returns the atoms as they stand in normalized text, longest first.
func normalAtoms(atoms []string) ([]string, error) {
	norm, err := parseNormalizer(tinyNormalizerJSON())
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	var out []string
	for _, a := range atoms {
		if err := checkAtom(a); err != nil {
			return nil, fmt.Errorf("train tokenizer: atom %q: %w", a, err)
		}
		out = append(out, norm(a))
	}
	slices.SortFunc(out, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out), nil
}

// baseVocab lists the tokens that do not depend on the texts: the bytes, the mark and the atoms.
func baseVocab(atoms []string) []string {
	tokens := slices.Clone(byteToStr[:])
	have := map[string]bool{}
	for _, t := range tokens {
		have[t] = true
	}
	for _, a := range append([]string{tinyJoin}, atoms...) {
		if a = toByteLevel(a); !have[a] {
			have[a] = true
			tokens = append(tokens, a)
		}
	}
	return tokens
}

// checkControl makes sure that the text rules hold beside the control tokens.
func (t *Tokenizer) checkControl(control []string) error {
	for _, c := range control {
		for _, s := range []string{"a" + c + "a 5", "5" + c + " a", "-" + c + "-a \"b\"", c + "<a", c + ">a", c + "(a)'b'" + c + c + "5"} {
			if got := t.Decode(t.Encode(s), false); got != s {
				return fmt.Errorf("train tokenizer: control token %q: it must end in \">\" behind a letter or a bar and hold no spaces and no digits (%q decodes to %q)", c, s, got)
			}
		}
	}
	return nil
}

func buildTiny(tokens, atoms, control []string) (*Tokenizer, error) {
	var vocab strings.Builder
	for i, tok := range tokens {
		if i > 0 {
			vocab.WriteString(",\n")
		}
		fmt.Fprintf(&vocab, "%s: %d", marshal(tok), i)
	}
	added := []AddedToken{}
	for i, c := range control {
		added = append(added, AddedToken{ID: int32(len(tokens) + i), Content: c, Special: true})
	}
	src := fmt.Sprintf(`{
"version": "1.0",
"truncation": null,
"padding": null,
"added_tokens": %s,
"normalizer": %s,
"pre_tokenizer": %s,
"post_processor": null,
"decoder": %s,
"model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "", "max_input_chars_per_word": 1000000000, "vocab": {
%s
}}
}
`, marshal(added), tinyNormalizerJSON(), tinyPreTokenizerJSON(atoms), tinyDecoderJSON(), vocab.String())
	t, err := Parse([]byte(src))
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	return t, nil
}

// chooseTokens adds words and pieces to the base tokens.
func chooseTokens(inTexts map[string]int, base []string, o TinyOptions) []string {
	names := map[string]bool{}
	for _, n := range o.Names {
		for _, w := range strings.FieldsFunc(n, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M) && r != '_' }) {
			names[w] = true
		}
	}
	have := map[string]bool{}
	for _, t := range base {
		have[t] = true
	}
	type counted struct {
		tok   string
		texts int
	}
	var whole []counted
	var spelled []string // words, in plain text
	for p, n := range inTexts {
		if have[p] {
			continue
		}
		text := string(fromByteLevel(p))
		word, isWord := plainWord(text)
		switch {
		case isWord && (n < o.MinTexts || names[word] || o.IsName != nil && o.IsName(word)):
			spelled = append(spelled, text)
		case n >= o.MinTexts:
			whole = append(whole, counted{p, n})
		}
	}
	slices.SortFunc(whole, func(a, b counted) int {
		if a.texts != b.texts {
			return b.texts - a.texts
		}
		return strings.Compare(a.tok, b.tok)
	})
	room := o.MaxVocab - len(base) - len(o.Control)
	maxWords := room - min(o.MaxPieces, room/2)
	for len(whole) > maxWords { // what does not fit is spelled
		last := whole[len(whole)-1]
		whole = whole[:len(whole)-1]
		if text := string(fromByteLevel(last.tok)); isWordText(text) {
			spelled = append(spelled, text)
		}
	}
	slices.Sort(spelled)
	tokens := slices.Clone(base)
	for _, w := range whole {
		tokens = append(tokens, w.tok)
	}
	return append(tokens, choosePieces(spelled, tokens, min(o.MaxPieces, o.MaxVocab-len(o.Control)-len(tokens)), o)...)
}

// plainWord returns the word that a pre-token is, without its space or apostrophe.
func plainWord(text string) (string, bool) {
	w := strings.TrimPrefix(text, " ")
	if w == text {
		w = strings.TrimPrefix(text, "'")
	}
	r, _ := utf8.DecodeRuneInString(w)
	return w, unicode.IsLetter(r) || r == '_'
}

func isWordText(text string) bool {
	_, ok := plainWord(text)
	return ok
}

// choosePieces returns the pieces with which words are spelled from the left, each time by the longest piece that fits. It
// starts with every substring that enough words share. Then it drops the piece that the words use least, and again, until
// enough words use each piece that is left.
func choosePieces(words, tokens []string, limit int, o TinyOptions) []string {
	vocab := map[string]int32{}
	longest := 0
	for i, t := range tokens {
		vocab[t] = int32(i)
		longest = max(longest, len(t))
	}
	forbidden := map[string]bool{} // no word that is spelled becomes one piece
	holders := map[string]int{}    // candidate: number of words
	for _, w := range words {
		forbidden[toByteLevel(w)] = true
		seen := map[string]bool{}
		runes := []rune(w)
		for i := range runes {
			most := o.MaxPieceLen
			if i == 0 && (runes[0] == ' ' || runes[0] == '\'') {
				most++
			}
			for j := i + 1; j <= min(len(runes), i+most); j++ {
				p := toByteLevel(string(runes[i:j]))
				if _, ok := vocab[p]; !ok && !seen[p] {
					seen[p] = true
					holders[p]++
				}
			}
		}
	}
	pieces := map[string]bool{}
	for p, n := range holders {
		if n >= o.MinPieceWords && !forbidden[p] {
			pieces[p] = true
			longest = max(longest, len(p))
		}
	}
	spell := make([]string, len(words))
	for i, w := range words {
		spell[i] = toByteLevel(w)
	}
	for {
		used := usage(spell, vocab, pieces, longest)
		type scored struct {
			p    string
			uses int
			gain int // tokens saved over single characters
		}
		var all []scored
		for p := range pieces {
			n := utf8.RuneCount(fromByteLevel(p))
			all = append(all, scored{p, used[p], used[p] * max(n-1, 1)})
		}
		slices.SortFunc(all, func(a, b scored) int {
			if a.gain != b.gain {
				return a.gain - b.gain
			}
			return strings.Compare(a.p, b.p)
		})
		var seldom []string
		for _, s := range all {
			if s.uses < o.MinPieceWords {
				seldom = append(seldom, s.p)
			}
		}
		if len(seldom) == 0 {
			over := len(all) - limit
			if over <= 0 {
				slices.SortFunc(all, func(a, b scored) int {
					if a.uses != b.uses {
						return b.uses - a.uses
					}
					return strings.Compare(a.p, b.p)
				})
				out := make([]string, len(all))
				for i, s := range all {
					out[i] = s.p
				}
				return out
			}
			for _, s := range all[:max(1, over/2)] {
				seldom = append(seldom, s.p)
			}
		} else {
			seldom = seldom[:max(1, len(seldom)/2)]
		}
		for _, p := range seldom {
			delete(pieces, p)
		}
	}
}

// usage counts, for each piece, the words whose spelling has it.
func usage(words []string, vocab map[string]int32, pieces map[string]bool, longest int) map[string]int {
	used := map[string]int{}
	for _, w := range words {
		seen := map[string]bool{}
		for start := 0; start < len(w); {
			end := min(len(w), start+longest)
			for ; end > start; end-- {
				p := w[start:end]
				if pieces[p] {
					seen[p] = true
					break
				}
				if _, ok := vocab[p]; ok {
					break
				}
			}
			if end == start { // cannot be: every byte is a token
				end = len(w)
			}
			start = end
		}
		for p := range seen {
			used[p]++
		}
	}
	return used
}
