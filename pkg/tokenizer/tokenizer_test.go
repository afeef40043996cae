package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// small is the least file that Parse takes; parts of it are exchanged in tests.
const small = `{"added_tokens": [], "normalizer": null, "pre_tokenizer": null, "decoder": null,
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}`

func TestParseErrors(t *testing.T) {
	swap := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	norm := func(s string) string { return swap(`"normalizer": null`, `"normalizer": `+s) }
	pre := func(s string) string { return swap(`"pre_tokenizer": null`, `"pre_tokenizer": `+s) }
	dec := func(s string) string { return swap(`"decoder": null`, `"decoder": `+s) }
	add := func(s string) string { return swap(`"added_tokens": []`, `"added_tokens": [`+s+`]`) }
	split := func(re string) string {
		return pre(`{"type": "Split", "pattern": {"Regex": "` + re + `"}, "behavior": "Isolated", "invert": false}`)
	}
	for _, c := range []struct{ file, want string }{
		{``, "not a tokenizer.json"},
		{`{}`, `field "model" is missing`},
		{`[1]`, "not a tokenizer.json"},
		{swap(`"BPE"`, `"Unigram"`), `type "Unigram" is not supported`},
		{swap(`"vocab": {"a": 0, "b": 1, "ab": 2}`, `"vocab": {}`), `"vocab" is missing or empty`},
		{swap(`"ab": 2`, `"ac": 2`), `merges[0]: piece "ab" is not in the vocabulary`},
		{swap(`"b": 1`, `"c": 1`), `merges[0]: piece "b" is not in the vocabulary`},
		{swap(`"a b"`, `"ab"`), "merges[0]"},
		{swap(`"a b"`, `["a", "b", "c"]`), "merges[0]"},
		{swap(`"merges": ["a b"]`, `"merges": null`), `"merges" is missing`},
		{swap(`"b": 1`, `"b": 0`), "belongs to two tokens"},
		{swap(`"b": 1`, `"b": -1`), "out of range"},
		{swap(`"b": 1`, `"b": 99999999`), "out of range"},
		{swap(`"merges"`, `"dropout": 0.1, "merges"`), "dropout"},
		{swap(`"merges"`, `"byte_fallback": true, "merges"`), "byte_fallback"},
		{swap(`"merges"`, `"continuing_subword_prefix": "##", "merges"`), "continuing_subword_prefix"},
		{swap(`"merges"`, `"end_of_word_suffix": "</w>", "merges"`), "end_of_word_suffix"},
		{swap(`"merges"`, `"unk_token": "<unk>", "merges"`), `unk_token "<unk>"`},
		{norm(`{"type": "Precompiled"}`), `normalizer: type "Precompiled"`},
		{norm(`{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "X"}]}`), `Sequence[1]: type "X"`},
		{norm(`{"type": "Replace", "pattern": {"Regex": "("}, "content": ""}`), "regular expression"},
		{norm(`{"type": "Replace", "content": ""}`), `"pattern" is missing`},
		{norm(`{}`), `"type" is missing`},
		{pre(`{"type": "Metaspace"}`), `pre_tokenizer: type "Metaspace"`},
		{pre(`{"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]}`), "after ByteLevel"},
		{split(`[[:alpha:]]`), "POSIX"},
		{split(`[a-z[b]]`), "nested sets"},
		{split(`[a&&b]`), "intersection"},
		{split(`\\X`), `\X is not supported`},
		{split(`a)`), "unbalanced"},
		{dec(`{"type": "Metaspace"}`), `decoder: type "Metaspace"`},
		{add(`{"id": 3, "content": ""}`), "content is empty"},
		{add(`{"id": 1, "content": "<x>"}`), `belongs to "b" already`},
		{add(`{"id": 3, "content": "a"}`), "has id 3 here and 0 in the vocabulary"},
		{add(`{"id": 99999999, "content": "<x>"}`), "out of range"},
		{swap(`"BPE"`, `"WordPiece"`), "are required"},
		{swap(`"BPE"`, `"WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9`), `unk_token "?"`},
	} {
		_, err := Parse([]byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got error %v\nwant one with %q", c.file, err, c.want)
		}
	}
	if tok, err := Parse([]byte(small)); err != nil || !slices.Equal(tok.Encode("abba"), []int32{2, 1, 0}) {
		t.Errorf("the file itself: %v", err)
	}
}

func TestLoadErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "tokenizer.json")
	if err := os.WriteFile(bad, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{bad, filepath.Join(dir, "none.json")} {
		if _, err := Load(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("Load(%s): %v", p, err)
		}
	}
	if err := os.WriteFile(bad+".gz", []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(bad + ".gz"); err == nil {
		t.Error("a file that is no gzip was read")
	}
}

func TestSaveKeepsTheFile(t *testing.T) {
	tok := tiny512(t)
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := tok.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(again.JSON()) != string(tok.JSON()) {
		t.Error("the file changed")
	}
	if err := tok.Save(filepath.Join(path, "x")); err == nil {
		t.Error("saving below a file worked")
	}
}

func TestVocabulary(t *testing.T) {
	tok := qwen(t)
	id, ok := tok.TokenID("<|im_end|>")
	if !ok || !tok.IsSpecial(id) {
		t.Errorf("<|im_end|> is %d, special %v", id, tok.IsSpecial(id))
	}
	if id, ok := tok.TokenID("<tool_call>"); !ok || tok.IsSpecial(id) {
		t.Errorf("<tool_call> is %d, special %v", id, tok.IsSpecial(id))
	}
	for id := range int32(tok.VocabSize()) {
		s, ok := tok.IDToken(id)
		if !ok {
			continue
		}
		if back, ok := tok.TokenID(s); !ok || back != id {
			t.Fatalf("id %d is %q, which is id %d", id, s, back)
		}
	}
	for _, id := range []int32{-1, int32(tok.VocabSize())} {
		if s, ok := tok.IDToken(id); ok {
			t.Errorf("id %d is %q", id, s)
		}
	}
}

// A text from outside must not be able to end a turn.
func TestEncodeOrdinaryHasNoAddedTokens(t *testing.T) {
	for _, tok := range []*Tokenizer{qwen(t), tiny512(t), trainCorpus(t)} {
		var all []string
		for _, a := range tok.AddedTokens() {
			all = append(all, a.Content)
		}
		text := strings.Join(all, "") + " x " + strings.Join(all, "\n")
		ids := tok.EncodeOrdinary(text)
		for _, id := range ids {
			for _, a := range tok.AddedTokens() {
				if id == a.ID {
					t.Fatalf("%q in EncodeOrdinary(%q)", a.Content, text)
				}
			}
		}
		if got := tok.Decode(ids, true); got != text {
			t.Errorf("decodes to %q, want %q", got, text)
		}
		if got := tok.Decode(tok.Encode(text), false); got != text {
			t.Errorf("Encode decodes to %q, want %q", got, text)
		}
	}
}

func TestEncodePartsIsEncodeOfTheWhole(t *testing.T) {
	tok := qwen(t)
	for _, r := range rows[encodeRow](t, "tokenizer", "encode.jsonl") {
		if got := tok.EncodeParts(Part{Text: r.Text}); !slices.Equal(got, r.IDs) {
			t.Fatalf("one part: %q: %v, want %v", r.Text, got, r.IDs)
		}
		runes := []rune(r.Text)
		a, b := string(runes[:len(runes)/2]), string(runes[len(runes)/2:])
		if got, want := tok.EncodeParts(Part{a, true}, Part{b, true}), tok.EncodeOrdinary(r.Text); !slices.Equal(got, want) {
			t.Errorf("two parts: %q: %v, want %v", r.Text, got, want)
		}
	}
	got := tok.EncodeParts(Part{Text: "<|im_start|>user\n"}, Part{Text: "<|im_end|>", Ordinary: true}, Part{Text: "<|im_end|>"})
	if n := strings.Count(tok.Decode(got, true), "<|im_end|>"); n != 1 {
		t.Errorf("%d of the two <|im_end|> are text, want 1", n)
	}
}

func TestInvalidUTF8(t *testing.T) {
	tok := tiny512(t)
	if got, want := tok.Decode(tok.Encode("a\xffb\xe2\x82"), false), "a\ufffdb\ufffd\ufffd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The longest run of marks that the norm package composes without breaking it up is 30.
func TestLongRunsOfMarks(t *testing.T) {
	for n := range 70 {
		s := "e" + strings.Repeat("\u0327\u0301", n) + "x\uac00\u11a8"
		got := nfc(s)
		if strings.ContainsRune(got, '\u034f') {
			t.Fatalf("%d marks: U+034F was inserted", 2*n)
		}
		if again := nfc(got); again != got {
			t.Fatalf("%d marks: not idempotent", 2*n)
		}
		if 2*n <= 30 && textOf(compose(decompose(s))) != got {
			t.Errorf("%d marks: %+q, want %+q", 2*n, textOf(compose(decompose(s))), got)
		}
	}
}

func TestConcurrentEncode(t *testing.T) {
	tok := tiny512(t)
	all := rows[encodeRow](t, "tokenizer", "tiny_encode.jsonl")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, r := range all {
				if got := tok.Encode(r.Text); !slices.Equal(got, r.IDs) {
					t.Errorf("%q: %v, want %v", r.Text, got, r.IDs)
				}
			}
		})
	}
	wg.Wait()
}

// Whatever the bytes are, Parse returns, and what it accepts encodes and decodes without a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, p := range []string{"testdata/tiny_qwen2/tied/tokenizer.json", "testdata/tiny.json"} {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, part := range []string{
		`"normalizer": {"type": "Replace", "pattern": {"Regex": "(?<=a)b*+|[^a-z]"}, "content": "x"}`,
		`"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Strip", "strip_left": true, "strip_right": true}]}`,
	} {
		f.Add([]byte(strings.Replace(small, `"normalizer": null`, part, 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tok, err := Parse(b)
		if err != nil {
			return
		}
		ids := tok.Encode("ab ba<|im_end|> \u00e9 12")
		d := tok.NewDecoder(false)
		var sb strings.Builder
		for _, id := range ids {
			sb.WriteString(d.Push(id))
		}
		sb.WriteString(d.Flush())
		if got := tok.Decode(ids, false); got != sb.String() {
			t.Errorf("Decode %q, Decoder %q", got, sb.String())
		}
	})
}

func FuzzQwenRoundTrip(f *testing.F) {
	if _, err := os.Stat(filepath.Join(fixtures.Root(), "tokenizer")); err != nil {
		f.Skip(err)
	}
	tok := qwen(f)
	for _, s := range roundTrips {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "")
		}
		// Added tokens are cut out first, so NFC applies to what is between them.
		var want strings.Builder
		for _, p := range tok.SplitAdded(s, false) {
			if p.Ordinary {
				want.WriteString(p.Text)
			} else {
				want.WriteString(nfc(p.Text))
			}
		}
		checkDecode(t, tok, tok.Encode(s), want.String(), false)
	})
}
