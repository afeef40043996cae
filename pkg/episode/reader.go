package episode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

const jsonSpace = " \t\r\n"

// reader reads strict JSON from left to right and stops at the first fault. encoding/json is not used for this because
// it takes keys in any case, takes the last of duplicate keys and replaces bad text without a word.
type reader struct {
	text  string
	pos   int
	depth int
}

func (r *reader) fail(k ErrorKind, format string, a ...any) *ActionError {
	return &ActionError{Kind: k, Message: fmt.Sprintf(format, a...), at: r.pos}
}

func (r *reader) space() {
	for r.pos < len(r.text) && strings.IndexByte(jsonSpace, r.text[r.pos]) >= 0 {
		r.pos++
	}
}

// peek returns the next byte after white space, or 0 at the end of the text.
func (r *reader) peek() byte {
	r.space()
	if r.pos == len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

// unexpected words what stands where something else should; kind is for what is plain JSON out of place.
func (r *reader) unexpected(want string, kind ErrorKind) *ActionError {
	rest := r.text[r.pos:]
	if rest == "" || !utf8.FullRuneInString(rest) {
		return r.fail(Unterminated, "the text ends where %s should be", want)
	}
	ch, _ := utf8.DecodeRuneInString(rest)
	switch ch {
	case utf8.RuneError:
		return r.fail(InvalidUTF8, "invalid UTF-8 where %s should be", want)
	case '“', '”', '„', '‟', '‘', '’', '‚', '«', '»', '″':
		return r.fail(SmartQuotes, "%c instead of the plain quote \"", ch)
	}
	for _, name := range []string{"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "-NaN"} {
		if strings.HasPrefix(rest, name) {
			return r.fail(NotANumber, "%s is not a JSON number", name)
		}
		if strings.HasPrefix(name, rest) {
			return r.fail(Unterminated, "the text ends where %s should be", want)
		}
	}
	if strings.HasPrefix(rest, fence) {
		return r.fail(kind, "the block ends where %s should be", want)
	}
	return r.fail(kind, "%q where %s should be", ch, want)
}

// action reads the object of the block.
func (r *reader) action() (trajectory.Action, *ActionError) {
	var act trajectory.Action
	switch c := r.peek(); {
	case strings.HasPrefix(r.text[r.pos:], fence):
		return act, r.fail(EmptyBlock, "the block is empty")
	case c == '{':
	case strings.IndexByte("[\"-0123456789tfn", c) >= 0 && !strings.HasPrefix(r.text[r.pos:], "nan") && c != 0:
		if err := r.value(); err != nil {
			return act, err
		}
		return act, r.fail(NotObject, `the block must hold an object {"tool": ..., "args": ...}`)
	default:
		return act, r.unexpected("{", InvalidJSON)
	}
	err := r.object(func(key string, seen map[string]bool) *ActionError {
		c := r.peek()
		switch key {
		case "thought", "tool":
			if key == "thought" && seen["tool"] {
				return r.fail(KeyOrder, "thought must come before tool")
			}
			if c != '"' {
				return r.wrongType(key, "a string")
			}
			s, err := r.string()
			if err != nil {
				return err
			}
			if key == "thought" {
				act.Thought = s
			} else if act.Tool = s; s == "" {
				return r.fail(WrongType, "tool must name a tool")
			}
			return nil
		case "args":
			if c != '{' {
				return r.wrongType(key, "an object")
			}
			start := r.pos
			if err := r.value(); err != nil {
				return err
			}
			act.Args = compact(r.text[start:r.pos])
			return nil
		}
		for _, known := range []string{"thought", "tool", "args"} {
			if strings.EqualFold(key, known) {
				return r.fail(KeyCase, "the key is %s, not %s", known, key)
			}
		}
		return r.fail(UnknownKey, "unknown key %q; the keys are thought, tool, args", tool.CutText(key, 60))
	}, func(seen map[string]bool) *ActionError {
		for _, key := range []string{"tool", "args"} {
			if !seen[key] {
				return r.fail(MissingKey, "%s is missing", key)
			}
		}
		return nil
	})
	return act, err
}

// wrongType reports a value of another type, unless it is no JSON at all, which is the earlier fault.
func (r *reader) wrongType(key, want string) *ActionError {
	at := r.pos
	if err := r.value(); err != nil {
		return err
	}
	r.pos = at
	return r.fail(WrongType, "%s must be %s", key, want)
}

// object reads an object whose { is next. each reads the value of a key it has not seen before; closed, which may be nil,
// is asked at the closing bracket.
func (r *reader) object(each func(key string, seen map[string]bool) *ActionError, closed func(seen map[string]bool) *ActionError) *ActionError {
	if r.depth++; r.depth > MaxDepth {
		return r.fail(TooDeep, "more than %d nested values", MaxDepth)
	}
	defer func() { r.depth-- }()
	r.pos++
	seen := map[string]bool{}
	for first := true; ; first = false {
		c := r.peek()
		if c == '}' && first {
			break
		}
		if c == '}' {
			return r.fail(TrailingComma, "a comma before }")
		}
		if c != '"' {
			return r.unexpected("a key in double quotes", InvalidJSON)
		}
		key, err := r.string()
		if err != nil {
			return err
		}
		if seen[key] {
			return r.fail(DuplicateKey, "the key %q stands twice", tool.CutText(key, 60))
		}
		if r.peek() != ':' {
			return r.unexpected(":", InvalidJSON)
		}
		r.pos++
		if err := each(key, seen); err != nil {
			return err
		}
		seen[key] = true
		if c = r.peek(); c == '}' {
			break
		}
		if c != ',' {
			return r.unexpected(", or }", InvalidJSON)
		}
		r.pos++
	}
	if closed != nil {
		if err := closed(seen); err != nil {
			return err
		}
	}
	r.pos++
	return nil
}

// value reads any JSON value.
func (r *reader) value() *ActionError {
	switch c := r.peek(); {
	case c == '{':
		return r.object(func(string, map[string]bool) *ActionError { return r.value() }, nil)
	case c == '[':
		return r.list()
	case c == '"':
		_, err := r.string()
		return err
	case c >= '0' && c <= '9' || c == '-':
		return r.number()
	case c == 't':
		return r.literal("true")
	case c == 'f':
		return r.literal("false")
	case c == 'n':
		return r.literal("null")
	}
	return r.unexpected("a value", InvalidJSON)
}

func (r *reader) list() *ActionError {
	if r.depth++; r.depth > MaxDepth {
		return r.fail(TooDeep, "more than %d nested values", MaxDepth)
	}
	defer func() { r.depth-- }()
	r.pos++
	for first := true; ; first = false {
		c := r.peek()
		if c == ']' && first {
			break
		}
		if c == ']' {
			return r.fail(TrailingComma, "a comma before ]")
		}
		if err := r.value(); err != nil {
			return err
		}
		if c = r.peek(); c == ']' {
			break
		}
		if c != ',' {
			return r.unexpected(", or ]", InvalidJSON)
		}
		r.pos++
	}
	r.pos++
	return nil
}

func (r *reader) literal(word string) *ActionError {
	rest := r.text[r.pos:]
	switch {
	case strings.HasPrefix(rest, word):
		r.pos += len(word)
		return nil
	case strings.HasPrefix(word, rest):
		return r.fail(Unterminated, "the text ends within %s", word)
	}
	return r.unexpected("a value", InvalidJSON)
}

// number reads a number of any length; what it is good for is the tool's business.
func (r *reader) number() *ActionError {
	if strings.HasPrefix(r.text[r.pos:], "-I") || strings.HasPrefix(r.text[r.pos:], "-N") || strings.HasPrefix(r.text[r.pos:], "-i") {
		return r.unexpected("a number", InvalidJSON)
	}
	if r.text[r.pos] == '-' {
		r.pos++
	}
	if r.pos < len(r.text) && r.text[r.pos] == '0' {
		r.pos++
	} else if err := r.digits(); err != nil {
		return err
	}
	if r.pos < len(r.text) && r.text[r.pos] == '.' {
		r.pos++
		if err := r.digits(); err != nil {
			return err
		}
	}
	if r.pos < len(r.text) && (r.text[r.pos] == 'e' || r.text[r.pos] == 'E') {
		r.pos++
		if r.pos < len(r.text) && (r.text[r.pos] == '+' || r.text[r.pos] == '-') {
			r.pos++
		}
		return r.digits()
	}
	return nil
}

func (r *reader) digits() *ActionError {
	start := r.pos
	for r.pos < len(r.text) && r.text[r.pos] >= '0' && r.text[r.pos] <= '9' {
		r.pos++
	}
	if r.pos == start {
		return r.unexpected("a digit", InvalidJSON)
	}
	return nil
}

// string reads a string whose opening quote is next and returns its value.
func (r *reader) string() (string, *ActionError) {
	start := r.pos
	r.pos++
	escapes := false
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '"':
			r.pos++
			raw := r.text[start:r.pos]
			if !escapes {
				return raw[1 : len(raw)-1], nil
			}
			var s string
			if err := json.Unmarshal([]byte(raw), &s); err != nil {
				return "", r.fail(InvalidJSON, "a string that is not JSON")
			}
			return s, nil
		case c == '\\':
			escapes = true
			if err := r.escape(); err != nil {
				return "", err
			}
		case c < 0x20:
			return "", r.fail(InvalidJSON, "a control character in a string; write a line break as \\n")
		case c < utf8.RuneSelf:
			r.pos++
		default:
			ch, n := utf8.DecodeRuneInString(r.text[r.pos:])
			if ch == utf8.RuneError {
				if !utf8.FullRuneInString(r.text[r.pos:]) {
					return "", r.fail(Unterminated, "the text ends within a string")
				}
				return "", r.fail(InvalidUTF8, "invalid UTF-8 in a string")
			}
			r.pos += n
		}
	}
	return "", r.fail(Unterminated, "the text ends within a string")
}

// escape reads one escape of a string; half a surrogate pair is refused, since it stands for no character.
func (r *reader) escape() *ActionError {
	rest := r.text[r.pos:]
	if len(rest) < 2 {
		r.pos = len(r.text)
		return r.fail(Unterminated, "the text ends within a string")
	}
	if rest[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, rest[1]) < 0 {
			return r.fail(InvalidJSON, "an escape in a string that JSON does not have")
		}
		r.pos += 2
		return nil
	}
	hi, err := r.hex4()
	if err != nil || hi < 0xD800 || hi > 0xDFFF {
		return err
	}
	if next := r.text[r.pos:]; strings.HasPrefix(`\u`, next) {
		r.pos = len(r.text)
		return r.fail(Unterminated, "the text ends within a string")
	} else if hi >= 0xDC00 || !strings.HasPrefix(next, `\u`) {
		return r.fail(InvalidJSON, "half a surrogate pair in a string")
	}
	lo, err := r.hex4()
	if err == nil && (lo < 0xDC00 || lo > 0xDFFF) {
		return r.fail(InvalidJSON, "half a surrogate pair in a string")
	}
	return err
}

// hex4 reads \uXXXX.
func (r *reader) hex4() (v int, _ *ActionError) {
	r.pos += 2
	for range 4 {
		if r.pos == len(r.text) {
			return 0, r.fail(Unterminated, "the text ends within a string")
		}
		d := strings.IndexByte("0123456789abcdef", r.text[r.pos]|0x20)
		if d < 0 || r.text[r.pos] < '0' {
			return 0, r.fail(InvalidJSON, `\u in a string needs four hexadecimal digits`)
		}
		v = v<<4 | d
		r.pos++
	}
	return v, nil
}

func compact(raw string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil {
		panic(err) // the reader is stricter than encoding/json
	}
	return b.Bytes()
}
