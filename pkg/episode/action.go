package episode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Limits of the grammar.
const (
	MaxText  = 1 << 20 // bytes of an action's text, prose included
	MaxDepth = 32      // nested objects and lists within the block
)

const (
	fence = "```"
	bom   = "\ufeff"
)

// ErrorKind names a row of the action grammar's table.
type ErrorKind string

// What Parse can find wrong.
const (
	NoBlock       ErrorKind = "no_block"       // no fenced block at all
	OtherFence    ErrorKind = "other_fence"    // the first fence opens a block of another language, or of none
	Unterminated  ErrorKind = "unterminated"   // the text ends before the closing fence
	EmptyBlock    ErrorKind = "empty_block"    // nothing between the fences
	NotObject     ErrorKind = "not_object"     // the block holds JSON that is not an object
	InvalidJSON   ErrorKind = "invalid_json"   // the block does not hold one JSON value
	TrailingComma ErrorKind = "trailing_comma" // a comma before a closing bracket
	SmartQuotes   ErrorKind = "smart_quotes"   // typographic quotes where JSON needs "
	NotANumber    ErrorKind = "not_a_number"   // NaN or Infinity
	TooDeep       ErrorKind = "too_deep"       // more than MaxDepth nested values
	TooLong       ErrorKind = "too_long"       // more than MaxText bytes
	InvalidUTF8   ErrorKind = "invalid_utf8"   // bytes that are no text, or the replacement character, in the block
	DuplicateKey  ErrorKind = "duplicate_key"  // a key twice in one object
	UnknownKey    ErrorKind = "unknown_key"    // a key other than thought, tool, args
	KeyCase       ErrorKind = "key_case"       // one of these in another case
	KeyOrder      ErrorKind = "key_order"      // thought after tool
	MissingKey    ErrorKind = "missing_key"    // no tool, or no args
	WrongType     ErrorKind = "wrong_type"     // thought or tool no string, args no object
	TextAfter     ErrorKind = "text_after"     // text after the closing fence
	TwoBlocks     ErrorKind = "two_blocks"     // another fence after the closing one
)

// What Step can find wrong with an action that parses, or with a reply.
const (
	UnknownTool ErrorKind = "unknown_tool" // the task does not offer the tool
	BadArgs     ErrorKind = "bad_args"     // the arguments fail the tool's JSON schema
	Cut         ErrorKind = "cut"          // the reply reached a token or context limit before its action was whole
)

// CallFailed marks a turn whose action was valid and whose tool failed.
const CallFailed = "call_failed"

// Kinds lists the kinds of invalid actions in the order of the table.
func Kinds() []ErrorKind {
	return []ErrorKind{NoBlock, OtherFence, Unterminated, EmptyBlock, NotObject, InvalidJSON, TrailingComma, SmartQuotes,
		NotANumber, TooDeep, TooLong, InvalidUTF8, DuplicateKey, UnknownKey, KeyCase, KeyOrder, MissingKey, WrongType,
		TextAfter, TwoBlocks, UnknownTool, BadArgs, Cut}
}

// ActionError says why a text is not an action. Message is one line for the policy to read.
type ActionError struct {
	Kind    ErrorKind
	Message string
	at      int // byte offset where reading stopped
}

func (e *ActionError) Error() string { return string(e.Kind) + ": " + e.Message }

// Parse reads the one action of a text; see the package comment for the rules. Args comes back without insignificant
// white space and otherwise exactly as written. The time is linear in the text.
func Parse(text string) (trajectory.Action, *ActionError) {
	act, _, err := parse(text)
	return act, err
}

// End returns the length of the text up to and including the closing fence of its first block: where generation stops.
// It reports false while the block, or the text before it, may still go on. A text that Parse accepts ends there but for
// white space. A block that is already known to be faulty, or of another language, ends at the next fence.
func End(text string) (int, bool) {
	_, end, err := parse(text)
	if err == nil {
		return end, true
	}
	switch err.Kind {
	case NoBlock, Unterminated:
		return 0, false
	case TooLong:
		return len(text), true
	case TextAfter, TwoBlocks:
		return end, true
	}
	if i := strings.Index(text[err.at:], fence); i >= 0 {
		return err.at + i + len(fence), true
	}
	return 0, false
}

// Format writes an action as policies are taught to write it; args is a JSON object, and nil is one without arguments.
// Parse gives back what went in, with args made compact.
func Format(thought, toolName string, args json.RawMessage) string {
	var b strings.Builder
	b.WriteString(fence + "json\n{")
	if thought != "" {
		b.WriteString(`"thought": ` + quote(thought) + ", ")
	}
	b.WriteString(`"tool": ` + quote(toolName) + `, "args": ` + spaced(args) + "}\n" + fence)
	return b.String()
}

// DecodeArgs decodes an arguments object as tools take it: numbers are json.Number and keep their digits.
func DecodeArgs(args json.RawMessage) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return m, nil
}

func parse(text string) (act trajectory.Action, end int, err *ActionError) {
	if len(text) > MaxText {
		return act, 0, &ActionError{Kind: TooLong, Message: fmt.Sprintf("the text has %d bytes, more than %d", len(text), MaxText)}
	}
	body, err := openFence(text)
	if err != nil {
		return act, 0, err
	}
	p := &reader{text: text, pos: body}
	if act, err = p.action(); err != nil {
		return trajectory.Action{}, 0, err
	}
	p.space()
	switch {
	case strings.HasPrefix(text[p.pos:], fence):
	case strings.HasPrefix(fence, text[p.pos:]):
		return trajectory.Action{}, 0, p.fail(Unterminated, "the block is not closed with "+fence)
	default:
		return trajectory.Action{}, 0, p.unexpected("the closing "+fence, InvalidJSON)
	}
	end = p.pos + len(fence)
	if rest := text[end:]; strings.Trim(rest, jsonSpace) != "" {
		e := &ActionError{Kind: TextAfter, Message: "text after the block; stop at the closing fence", at: end}
		if strings.Contains(rest, fence) {
			e.Kind, e.Message = TwoBlocks, "more than one block; write one action, then stop"
		}
		return trajectory.Action{}, end, e
	}
	return act, end, nil
}

// openFence finds the first fence and returns where the body of its ```json block starts.
func openFence(text string) (int, *ActionError) {
	const want = fence + "json"
	for from := 0; ; {
		i := strings.Index(text[from:], fence)
		if i < 0 {
			return 0, &ActionError{Kind: NoBlock, Message: "no action; write one block that opens with " + want + " on a line of its own", at: len(text)}
		}
		i += from
		if lineStart := strings.LastIndexByte(text[from:i], '\n') + 1 + from; !opensLine(text, from, lineStart, i) {
			for from = i; from < len(text) && text[from] == '`'; from++ {
			}
			continue
		}
		body := i + len(fence)
		n := strings.IndexAny(text[body:], jsonSpace)
		if n < 0 {
			if strings.HasPrefix("json", text[body:]) {
				return 0, &ActionError{Kind: Unterminated, Message: "the text ends at the opening fence", at: len(text)}
			}
			n = len(text) - body
		}
		if lang := text[body : body+n]; lang != "json" {
			return 0, &ActionError{Kind: OtherFence, Message: fmt.Sprintf("the first block opens with %s%s, it must be %s", fence, tool.CutText(lang, 40), want), at: body + n}
		}
		return body + n, nil
	}
}

// opensLine reports whether only blanks stand between the start of the line and i. When the line starts before from,
// the earlier part held backticks, unless from is the start of the text, where a byte order mark may stand.
func opensLine(text string, from, lineStart, i int) bool {
	blank := text[lineStart:i]
	if lineStart == from {
		if from > 0 {
			return false
		}
		blank = strings.TrimPrefix(blank, bom)
	}
	return strings.Trim(blank, " \t\r") == ""
}

func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // strings always marshal
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// spaced writes JSON on one line with a space after each colon and comma.
func spaced(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	var c bytes.Buffer
	if err := json.Compact(&c, raw); err != nil {
		return string(raw) // not JSON: the action is invalid, and Parse says why
	}
	var b strings.Builder
	inString, escaped := false, false
	for _, ch := range c.Bytes() {
		b.WriteByte(ch)
		switch {
		case escaped:
			escaped = false
		case inString && ch == '\\':
			escaped = true
		case ch == '"':
			inString = !inString
		case !inString && (ch == ':' || ch == ','):
			b.WriteByte(' ')
		}
	}
	return b.String()
}
