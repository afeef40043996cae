package tokenizer

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// rows decodes the lines of a JSONL fixture.
func rows[T any](t testing.TB, family, name string) []T {
	t.Helper()
	return localRows[T](t, fixtures.Path(t, family, name))
}

func localRows[T any](t testing.TB, name string) []T {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []T
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatalf("%s line %d: %v", name, len(out)+1, err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return out
}

var loadQwen = sync.OnceValues(func() (*Tokenizer, error) {
	return Load(fixtures.Root() + "/tokenizer/qwen2_5_tokenizer.json.gz")
})

func qwen(t testing.TB) *Tokenizer {
	t.Helper()
	fixtures.Path(t, "tokenizer", "qwen2_5_tokenizer.json.gz")
	tok, err := loadQwen()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func tiny512(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load(fixtures.Path(t, "tiny_qwen2/tied", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

type encodeRow struct {
	Text        string
	IDs         []int32
	Tokens      []string
	Decoded     string
	DecodedSkip *string `json:"decoded_skip_special"`
}

func checkEncode(t *testing.T, tok *Tokenizer, all []encodeRow) {
	t.Helper()
	for i, r := range all {
		ids := tok.Encode(r.Text)
		if !slices.Equal(ids, r.IDs) {
			t.Errorf("row %d: Encode(%q) = %v, want %v", i, r.Text, ids, r.IDs)
			continue
		}
		if r.Tokens != nil {
			var got []string
			for _, id := range ids {
				s, _ := tok.IDToken(id)
				got = append(got, s)
			}
			if !slices.Equal(got, r.Tokens) {
				t.Errorf("row %d: tokens %q, want %q", i, got, r.Tokens)
			}
		}
		checkDecode(t, tok, r.IDs, r.Decoded, false)
		if r.DecodedSkip != nil {
			checkDecode(t, tok, r.IDs, *r.DecodedSkip, true)
		}
	}
}

func checkDecode(t *testing.T, tok *Tokenizer, ids []int32, want string, skip bool) {
	t.Helper()
	if got := tok.Decode(ids, skip); got != want {
		t.Errorf("Decode(%v, %v) = %q, want %q", ids, skip, got, want)
	}
	d := tok.NewDecoder(skip)
	var sb strings.Builder
	for _, id := range ids {
		part := d.Push(id)
		if strings.HasSuffix(part, "\ufffd") && !strings.Contains(want, "\ufffd") {
			t.Errorf("Decoder gave out part of a character: %q", part)
		}
		sb.WriteString(part)
	}
	sb.WriteString(d.Flush())
	if got := sb.String(); got != want {
		t.Errorf("Decoder over %v (skip %v) = %q, want %q", ids, skip, got, want)
	}
}

func TestQwenEncode(t *testing.T) {
	checkEncode(t, qwen(t), rows[encodeRow](t, "tokenizer", "encode.jsonl"))
}

func TestTinyEncode(t *testing.T) {
	checkEncode(t, tiny512(t), rows[encodeRow](t, "tokenizer", "tiny_encode.jsonl"))
}

func TestQwenDecode(t *testing.T) {
	type row struct {
		IDs  []int32
		Text string
		Skip string `json:"text_skip_special"`
	}
	for _, r := range rows[row](t, "tokenizer", "decode.jsonl") {
		checkDecode(t, qwen(t), r.IDs, r.Text, false)
		checkDecode(t, qwen(t), r.IDs, r.Skip, true)
	}
}
