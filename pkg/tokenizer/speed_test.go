package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// hardInputs are texts of n bytes for which a naive merge loop or a backtracking split takes quadratic time. At a quarter of a
// megabyte that is minutes, and linear time is well below a second.
func hardInputs(n int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, n/len(s)+1)[:n] }
	return map[string]string{
		"one letter":     fill("a"),
		"one word":       fill("abcdefghij"),
		"spaces":         fill(" "),
		"spaces, letter": fill(" ")[:n-1] + "x",
		"newlines":       fill("\n"),
		"punctuation":    fill("!?."),
		"digits":         fill("7"),
		"prose":          fill("The price of 12 crates, on 3 May, was \u20ac5.40 each.\n"),
		"cjk":            strings.Repeat("\u4e2d", n/3),
		"marks":          "e" + strings.Repeat("\u0301", n/2),
		"control tokens": fill("<|im_start|>"),
		"almost control": fill("<|im_star"),
	}
}

func TestEncodeIsNotQuadratic(t *testing.T) {
	tok := qwen(t)
	for name, s := range hardInputs(1 << 18) {
		start := time.Now()
		ids := tok.Encode(s)
		took := time.Since(start)
		t.Logf("%-16s %8d ids %6d ms", name, len(ids), took.Milliseconds())
		if took > 20*time.Second {
			t.Errorf("%s: a quarter of a megabyte took %v", name, took)
		}
		if name != "marks" && tok.Decode(ids, false) != s { // NFC reorders and joins marks
			t.Errorf("%s: decoding gives another text", name)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	tok := qwen(b)
	for _, n := range []int{1 << 10, 1 << 16} {
		s := hardInputs(n)["prose"]
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				tok.Encode(s)
			}
		})
	}
}
