package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A byte-level vocabulary spells every byte as one printable character: printable Latin-1 bytes as themselves, the
// other 68 bytes as U+0100 and up in byte order (GPT-2's table).
var (
	byteToRune [256]rune
	byteToStr  [256]string
	runeToByte = map[rune]byte{}
)

func init() {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		printable := r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae && r <= 0xff
		if !printable {
			r = next
			next++
		}
		byteToRune[b], byteToStr[b] = r, string(r)
		runeToByte[r] = byte(b)
	}
}

// toByteLevel spells the bytes of s in the byte-level alphabet.
func toByteLevel(s string) string {
	var sb strings.Builder
	sb.Grow(len(s) + len(s)/4)
	for i := range len(s) {
		sb.WriteString(byteToStr[s[i]])
	}
	return sb.String()
}

// fromByteLevel gives the bytes that a token stands for: a token with any character outside the alphabet stands for
// its own UTF-8 bytes.
func fromByteLevel(tok string) []byte {
	out := make([]byte, 0, len(tok))
	for _, r := range tok {
		b, ok := runeToByte[r]
		if !ok {
			return []byte(tok)
		}
		out = append(out, b)
	}
	return out
}

// validPrefix splits b for lossy UTF-8 decoding. It appends to dst the text of every complete or invalid sequence
// (one U+FFFD for each maximal part of a sequence, as Unicode recommends and Rust does) and returns the number of
// bytes used. Bytes left over are the start of a sequence which may still be completed; with final they count as
// invalid too.
func validPrefix(dst *strings.Builder, b []byte, final bool) int {
	i := 0
	for i < len(b) {
		if b[i] < utf8.RuneSelf {
			dst.WriteByte(b[i])
			i++
			continue
		}
		if r, n := utf8.DecodeRune(b[i:]); r != utf8.RuneError || n > 1 {
			dst.Write(b[i : i+n])
			i += n
			continue
		}
		n, open := maximalPart(b[i:])
		if open && !final {
			return i
		}
		dst.WriteRune(utf8.RuneError)
		i += n
	}
	return i
}

// maximalPart returns the length of the longest start of a well-formed sequence at b[0], at least 1, and whether b
// ended before the sequence could be completed.
func maximalPart(b []byte) (n int, open bool) {
	lo, hi, need := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		need = 1
	case c >= 0xe0 && c <= 0xef:
		need = 2
		if c == 0xe0 {
			lo = 0xa0
		}
		if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		need = 3
		if c == 0xf0 {
			lo = 0x90
		}
		if c == 0xf4 {
			hi = 0x8f
		}
	default:
		return 1, false
	}
	for n = 1; n <= need; n++ {
		if n == len(b) {
			return n, true
		}
		if b[n] < lo || b[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xbf
	}
	return n, false
}
