package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The text rules of the tiny tokenizer. The token of a word holds the space before it, as in " price", wherever the word
// stands. So the word has one id. Rules say whether a space is expected before a word. A text that does not follow them gets
// an extra token.
//
// The rules look at the character before the word, and at the one before that:
//
//   - After a line break, an opening bracket, an opening quote, a currency sign or the start of the text, no space is
//     expected (tinyTight). After anything else, one is. A hyphen, slash or "=" belongs to the first kind if a letter or
//     digit stands before it, and a quote if none does.
//   - Between a word and a digit a space is expected, and no token holds it.
//
// An expected space costs nothing. A missing one costs the token tinyJoin, and one too many the token of a space. The rules
// are replacements in this order: mark a digit that touches a word; drop one space between word and digit; mark a word that
// lacks its space; add a space before a word where none is expected. Decoding undoes them in reverse order, so that
// decode(encode(s)) = s for every s without the two marks, which are read as U+FFFD.
const tinyJoin = "\ue000"

// tinyStart stands at the start of a text while it is normalized: the reference cannot insert before the first
// character.
const tinyStart = "\ue001"

const (
	tinyWordSet  = `\p{L}\p{M}_`      // inside a word
	tinyStartSet = `\p{L}_`           // starting one
	tinyAfterSet = `\p{L}\p{M}\p{N}_` // before a hyphen, slash or "=" after which no space is expected
	// tinyTight matches what stands before a word without a space. A control token ends in ">" behind a bar or a letter, and
	// each rule treats the start of a text, where a control token may stand, as it treats that ">".
	tinyTight = tinyStart + `|\A|[^\S ]|[(\[{#@$€£¥“‘«\\]` +
		"|\\A[\"'`]|[^" + `\p{L}\p{M}\p{N}_.!?%)\]}"'` + "`" + "][\"'`]" +
		`|[` + tinyAfterSet + `][-/=&+*^~|]|</|\A<|[^ ]<|[\p{L}\p{N}_|"'/\]-]>`
)

// replaceRule replaces every match of pattern; without a pattern content is prepended.
type replaceRule struct{ pattern, content string }

var (
	tinyNormalize = []replaceRule{
		{"[" + tinyJoin + tinyStart + "]", "\ufffd"},
		{"", tinyStart}, // prepended
		{`(?<=[` + tinyWordSet + `])(?=\p{N})`, tinyJoin},
		{`(?<=[` + tinyWordSet + `]) (?= *\p{N})`, ""},
		{`(?<![` + tinyWordSet + ` ])(?<![` + tinyWordSet + `]')(?<!` + tinyTight + `)(?=[` + tinyStartSet + `])`, tinyJoin + " "},
		{`(?<=` + tinyTight + `)(?= *[` + tinyStartSet + `])`, " "},
		{tinyStart, ""},
	}
	tinyDecode = []replaceRule{
		{`(?<=` + tinyTight + `) (?= *[` + tinyStartSet + `])`, ""},
		{tinyJoin + " ", ""},
		{`(?<=[` + tinyWordSet + `])(?= *\p{N})`, " "},
		{tinyJoin, ""},
	}
)

// tinySplit is the split of normalized text, with the atoms first.
func tinySplit(atoms []string) string {
	alts := make([]string, len(atoms))
	for i, a := range atoms {
		alts[i] = quoteRegex(a)
		if r, _ := utf8.DecodeLastRuneInString(a); unicode.In(r, unicode.L, unicode.M) || r == '_' {
			alts[i] += `(?![` + tinyWordSet + `])`
		}
	}
	atom, not := "", ""
	if len(alts) > 0 {
		all := strings.Join(alts, "|")
		atom, not = all+"|", "(?!"+all+")"
	}
	return atom + tinyJoin +
		`| ?[` + tinyStartSet + `][` + tinyWordSet + `]*` +
		`|(?<=[` + tinyWordSet + `])'[` + tinyStartSet + `][` + tinyWordSet + `]*` +
		`|\p{N}` +
		`| ?(?:` + not + `[^\s\p{L}\p{N}_` + tinyJoin + `]){1,8}(?: (?=\p{N}))?` +
		`|(?:` + not + `[^\S ]){1,4}` +
		`| `
}

func quoteRegex(s string) string {
	var sb strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			sb.WriteByte('\\')
		}
		sb.WriteRune(r)
	}
	return sb.String()
}

func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // values of this package only
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

type object = map[string]any

func replaceSteps(rules []replaceRule) []any {
	var out []any
	for _, r := range rules {
		if r.pattern == "" {
			out = append(out, object{"type": "Prepend", "prepend": r.content})
			continue
		}
		out = append(out, object{"type": "Replace", "pattern": object{"Regex": r.pattern}, "content": r.content})
	}
	return out
}

func byteLevelStep() object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
}

func tinyNormalizerJSON() json.RawMessage {
	return marshal(object{"type": "Sequence", "normalizers": replaceSteps(tinyNormalize)})
}

func tinyPreTokenizerJSON(atoms []string) json.RawMessage {
	return marshal(object{"type": "Sequence", "pretokenizers": []any{
		object{"type": "Split", "pattern": object{"Regex": tinySplit(atoms)}, "behavior": "Isolated", "invert": false},
		byteLevelStep(),
	}})
}

func tinyDecoderJSON() json.RawMessage {
	return marshal(object{"type": "Sequence", "decoders": append([]any{byteLevelStep()}, replaceSteps(tinyDecode)...)})
}

// isTinyDecoder reports whether a decoder is the one that this package writes. How far that one looks ahead is known.
func isTinyDecoder(raw []byte) bool {
	var a, b any
	return json.Unmarshal(raw, &a) == nil && json.Unmarshal(tinyDecoderJSON(), &b) == nil && reflect.DeepEqual(a, b)
}

// tinyReady returns the part of the joined text that later text cannot change: the rules look ahead over spaces only.
func tinyReady(s string) string { return strings.TrimRight(s, " "+tinyJoin) }

// tinyContext returns the end of s that the rules look back at: the last character, and the one before it with the
// spaces between.
func tinyContext(s string) string {
	_, n := utf8.DecodeLastRuneInString(s)
	head := tinyReady(s[:len(s)-n])
	_, m := utf8.DecodeLastRuneInString(head)
	return s[len(head)-m:]
}

// Canonical returns s as a tiny tokenizer gives it back: s itself, but for the two marks it uses and bytes that are not
// UTF-8, which are U+FFFD.
func Canonical(s string) string {
	return strings.NewReplacer(tinyJoin, "\ufffd", tinyStart, "\ufffd").Replace(validUTF8(s))
}

// checkAtom says why a string cannot be an atom.
func checkAtom(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("it is empty")
	case strings.HasPrefix(s, " ") || strings.HasSuffix(s, " "):
		return fmt.Errorf("it starts or ends with a space, which belongs to the word beside it: leave the space out")
	case Canonical(s) != s:
		return fmt.Errorf("it holds U+E000 or U+E001, or is not UTF-8")
	}
	return nil
}
