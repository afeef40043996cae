package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/wholefile"
)

// Tokenizer is one loaded tokenizer.json. It is immutable and safe for concurrent use.
type Tokenizer struct {
	source []byte

	normalize normalizer // nil: none
	pre       preTokenizer
	model     model
	decode    *decoderChain

	vocab  map[string]int32 // the model's; added tokens are in added alone
	added  map[string]int32
	byID   map[int32]*AddedToken
	tokens []string // by id; "" where no token has the id

	raw        *addedMatcher // tokens looked for in the text as it is
	normalized *addedMatcher // tokens looked for after normalization
}

// Load reads a tokenizer.json, or a gzip of one when the name ends in .gz.
func Load(path string) (*Tokenizer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
		}
		if b, err = io.ReadAll(z); err != nil {
			return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
		}
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

// maxVocab bounds ids, so that a damaged file cannot ask for a table of any size.
const maxVocab = 1 << 22

// Parse reads the bytes of a tokenizer.json. An error names the field that is missing, wrong or not supported.
func Parse(src []byte) (*Tokenizer, error) {
	var f struct {
		Added        []AddedToken    `json:"added_tokens"`
		Normalizer   json.RawMessage `json:"normalizer"`
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		Decoder      json.RawMessage `json:"decoder"`
		Model        json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	if isNull(f.Model) {
		return nil, fmt.Errorf(`not a tokenizer.json: field "model" is missing`)
	}
	var m struct {
		Type  string           `json:"type"`
		Vocab map[string]int32 `json:"vocab"`
		// A file without a type is told by its fields, as the reference does.
		Merges json.RawMessage `json:"merges"`
	}
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if m.Type == "" && !isNull(m.Merges) {
		m.Type = "BPE"
	}
	if m.Type != "BPE" && m.Type != "WordPiece" {
		return nil, fmt.Errorf("model: type %q is not supported (BPE and WordPiece are)", m.Type)
	}
	if len(m.Vocab) == 0 {
		return nil, fmt.Errorf(`model: field "vocab" is missing or empty`)
	}
	t := &Tokenizer{source: bytes.Clone(src), vocab: m.Vocab, added: map[string]int32{}, byID: map[int32]*AddedToken{}}
	if err := t.index(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var err error
	if t.normalize, err = parseNormalizer(f.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if isTinyNormalizer(f.Normalizer) {
		t.normalize = tinyNormalizeFast
	}
	if t.pre, _, err = parsePreTokenizer(f.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if m.Type == "BPE" {
		t.model, err = parseBPE(f.Model, m.Vocab)
	} else {
		t.model, err = parseWordPiece(f.Model, m.Vocab)
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.addTokens(f.Added); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if t.decode, err = parseDecoder(f.Decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return t, nil
}

func (t *Tokenizer) setToken(id int32, content string) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("token %q: id %d is out of range", content, id)
	}
	for int(id) >= len(t.tokens) {
		t.tokens = append(t.tokens, "")
	}
	t.tokens[id] = content
	return nil
}

func (t *Tokenizer) index() error {
	top := int32(-1)
	for tok, id := range t.vocab {
		if id < 0 || id >= maxVocab {
			return fmt.Errorf("vocab: token %q: id %d is out of range", tok, id)
		}
		top = max(top, id)
	}
	t.tokens = make([]string, top+1)
	for tok, id := range t.vocab {
		if other := t.tokens[id]; other != "" {
			return fmt.Errorf("vocab: id %d belongs to two tokens, %q and %q", id, min(tok, other), max(tok, other))
		}
		t.tokens[id] = tok
	}
	return nil
}

func (t *Tokenizer) addTokens(all []AddedToken) error {
	t.raw, t.normalized = newAddedMatcher(), newAddedMatcher()
	for i := range all {
		tok := &all[i]
		if tok.Content == "" {
			return fmt.Errorf("[%d]: content is empty", i)
		}
		if id, ok := t.vocab[tok.Content]; ok && id != tok.ID {
			return fmt.Errorf("[%d]: %q has id %d here and %d in the vocabulary", i, tok.Content, tok.ID, id)
		}
		if tok.ID >= 0 && int(tok.ID) < len(t.tokens) {
			if other := t.tokens[tok.ID]; other != "" && other != tok.Content {
				return fmt.Errorf("[%d]: id %d of %q belongs to %q already", i, tok.ID, tok.Content, other)
			}
		}
		m := t.raw
		if tok.Normalized {
			m = t.normalized
			if t.normalize != nil { // the token is known by its normalized form from here on
				tok.Content = t.normalize(tok.Content)
			}
		}
		if err := t.setToken(tok.ID, tok.Content); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		t.added[tok.Content] = tok.ID
		t.byID[tok.ID] = tok
		if err := m.add(tok.Content, tok); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// Encode returns the ids of text. Added tokens that are written out in it become their ids; nothing is added. Use it
// for text that the program wrote itself, such as a rendered template.
func (t *Tokenizer) Encode(text string) []int32 {
	text = validUTF8(text)
	if text == "" {
		return nil
	}
	var ids []int32
	for _, s := range t.raw.split(nil, text) {
		if s.id >= 0 {
			ids = append(ids, s.id)
			continue
		}
		ids = t.plain(ids, s.text, true)
	}
	return ids
}

// EncodeOrdinary returns the ids of text in which no added token is recognised. A control token in it is spelled like any other
// text. Use it for text of a user, a tool or a document.
func (t *Tokenizer) EncodeOrdinary(text string) []int32 {
	text = validUTF8(text)
	if text == "" {
		return nil
	}
	return t.plain(nil, text, false)
}

// plain encodes a stretch of text that holds no added token of the raw kind.
func (t *Tokenizer) plain(ids []int32, s string, withAdded bool) []int32 {
	if t.normalize != nil {
		s = t.normalize(s)
	}
	if !withAdded {
		return t.words(ids, s)
	}
	for _, seg := range t.normalized.split(nil, s) {
		if seg.id >= 0 {
			ids = append(ids, seg.id)
			continue
		}
		ids = t.words(ids, seg.text)
	}
	return ids
}

func (t *Tokenizer) words(ids []int32, s string) []int32 {
	if s == "" {
		return ids
	}
	pieces := []string{s}
	if t.pre != nil {
		pieces = t.pre(pieces)
	}
	for _, p := range pieces {
		ids = t.model.appendIDs(ids, p)
	}
	return ids
}

func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// VocabSize returns one more than the highest id, added tokens included.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenID returns the id of a token as the vocabulary spells it ("Ġthe"), or of an added token.
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	if id, ok := t.added[token]; ok {
		return id, true
	}
	id, ok := t.vocab[token]
	return id, ok
}

// IDToken returns the token of an id as the vocabulary spells it.
func (t *Tokenizer) IDToken(id int32) (string, bool) {
	if id < 0 || int(id) >= len(t.tokens) || t.tokens[id] == "" {
		return "", false
	}
	return t.tokens[id], true
}

// IsSpecial reports whether the id is a control token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	tok, ok := t.byID[id]
	return ok && tok.Special
}

// JSON returns the tokenizer.json that was parsed, byte for byte.
func (t *Tokenizer) JSON() []byte { return bytes.Clone(t.source) }

// Save writes the tokenizer.json.
func (t *Tokenizer) Save(path string) error {
	if err := wholefile.Write(path, t.source); err != nil {
		return fmt.Errorf("save tokenizer: %w", err)
	}
	return nil
}

// Part is a stretch of text for EncodeParts.
type Part struct {
	Text     string
	Ordinary bool // no added token is recognised in it
}

// EncodeParts encodes the concatenation of parts. It recognises an added token only within a single part that is not Ordinary.
// Words form across the borders of parts as they would in the whole text. (Added tokens that are looked for after
// normalization are recognised only in text that does not touch an Ordinary part.)
func (t *Tokenizer) EncodeParts(parts ...Part) []int32 {
	var ids []int32
	var run strings.Builder
	withAdded := true
	flush := func() {
		if run.Len() > 0 {
			ids = t.plain(ids, run.String(), withAdded)
		}
		run.Reset()
		withAdded = true
	}
	for _, p := range parts {
		text := validUTF8(p.Text)
		if p.Ordinary {
			if text != "" {
				run.WriteString(text)
				withAdded = false
			}
			continue
		}
		for _, s := range t.raw.split(nil, text) {
			if s.id >= 0 {
				flush()
				ids = append(ids, s.id)
				continue
			}
			run.WriteString(s.text)
		}
	}
	flush()
	return ids
}

// AddedTokens returns the added tokens in the order of their ids.
func (t *Tokenizer) AddedTokens() []AddedToken {
	out := make([]AddedToken, 0, len(t.byID))
	for id := range int32(len(t.tokens)) {
		if tok, ok := t.byID[id]; ok {
			out = append(out, *tok)
		}
	}
	return out
}

// SplitAdded cuts text at the added tokens that Encode would recognise in the text as it is. Joined, the parts are the
// text; Ordinary marks the added tokens.
func (t *Tokenizer) SplitAdded(text string, specialOnly bool) []Part {
	var out []Part
	plain := 0
	for i := 0; i < len(text); {
		tok, n := t.raw.longest(text[i:])
		if tok == nil {
			i++
			continue
		}
		if !specialOnly || tok.Special {
			if i > plain {
				out = append(out, Part{text[plain:i], false})
			}
			out = append(out, Part{text[i : i+n], true})
			plain = i + n
		}
		i += n
	}
	if plain < len(text) {
		out = append(out, Part{text[plain:], false})
	}
	return out
}
