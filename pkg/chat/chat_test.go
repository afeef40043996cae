package chat

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/tokenizer"
)

var loadQwen = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	name := filepath.Join(fixtures.Root(), "tokenizer", "qwen2_5_tokenizer.json.gz")
	if os.Getenv("TOOLROUTE_FIXTURES") == "" { // kept once, beside the package that reads it
		name = filepath.Join("..", "tokenizer", "testdata", "tokenizer", "qwen2_5_tokenizer.json.gz")
	}
	return tokenizer.Load(name)
})

func qwen(t testing.TB) (*tokenizer.Tokenizer, *Template) {
	t.Helper()
	tok, err := loadQwen()
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := loadTemplate(fixtures.Path(t, "tokenizer", "qwen2_5_tokenizer_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok, tmpl
}

type row struct {
	Name     string
	Messages []Message
	Tools    []json.RawMessage
	Gen      bool `json:"add_generation_prompt"`
	Text     string
	IDs      []int32
}

func chatRows(t testing.TB) []row {
	t.Helper()
	f, err := os.Open(fixtures.Path(t, "tokenizer", "chat.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []row
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var r row
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatalf("chat.jsonl line %d: %v", len(out)+1, err)
		}
		out = append(out, r)
	}
	if err := sc.Err(); err != nil || len(out) == 0 {
		t.Fatalf("chat.jsonl: %d rows, %v", len(out), err)
	}
	return out
}

// holdsAdded reports whether a content writes an added token out, so that Encode must differ from the reference.
func holdsAdded(tok *tokenizer.Tokenizer, r row) bool {
	for _, m := range r.Messages {
		for _, a := range tok.AddedTokens() {
			if strings.Contains(m.Content, a.Content) {
				return true
			}
		}
	}
	return false
}

func TestRenderIsTheReference(t *testing.T) {
	tok, tmpl := qwen(t)
	inert := 0
	for _, r := range chatRows(t) {
		text, err := tmpl.Render(r.Messages, r.Tools, r.Gen)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		if text != r.Text {
			t.Errorf("%s (generation prompt %v):\n got %q\nwant %q", r.Name, r.Gen, text, r.Text)
			continue
		}
		if ids := tok.Encode(text); !slices.Equal(ids, r.IDs) {
			t.Errorf("%s: ids %v, want %v", r.Name, ids, r.IDs)
		}
		ids, err := tmpl.Encode(tok, r.Messages, r.Tools, r.Gen)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		if holdsAdded(tok, r) {
			inert++
			if slices.Equal(ids, r.IDs) {
				t.Errorf("%s: a control token in a content kept its meaning", r.Name)
			}
			if got := tok.Decode(ids, false); got != text {
				t.Errorf("%s: Encode decodes to %q, want %q", r.Name, got, text)
			}
			continue
		}
		if !slices.Equal(ids, r.IDs) {
			t.Errorf("%s: Encode %v, want %v", r.Name, ids, r.IDs)
		}
	}
	t.Logf("%d conversations with control tokens in contents", inert)
}
