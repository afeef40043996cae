package chat

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// Encode renders the conversation and returns the ids of the rendered text, with one exception: only the template may write
// control tokens. A control token in a content, in a tool's description or in a call's arguments is spelled as text. In contents
// of users and tools, so is every other added token (such as <tool_call>). The program wrote the contents of the system and the
// assistant, so added tokens that are not control tokens keep their meaning there.
func (t *Template) Encode(tok *tokenizer.Tokenizer, messages []Message, tools []json.RawMessage, addGenerationPrompt bool) ([]int32, error) {
	in := &inert{tok: tok}
	text, err := t.render(messages, tools, addGenerationPrompt, in.hide)
	if err != nil {
		return nil, err
	}
	return tok.EncodeParts(in.parts(text)...), nil
}

// inert replaces control tokens in contents by marks while a template is rendered: mark, number, mark.
type inert struct {
	tok    *tokenizer.Tokenizer
	hidden []string
}

const mark = "\U000f0000" // a private character; if a content holds it, it is replaced too

func (in *inert) hide(s string, trusted bool) string {
	var sb strings.Builder
	put := func(s string) {
		sb.WriteString(mark + strconv.Itoa(len(in.hidden)) + mark)
		in.hidden = append(in.hidden, s)
	}
	for _, p := range in.tok.SplitAdded(s, trusted) {
		if p.Ordinary {
			put(p.Text)
			continue
		}
		for i, plain := range strings.Split(p.Text, mark) {
			if i > 0 {
				put(mark)
			}
			sb.WriteString(plain)
		}
	}
	return sb.String()
}

func (in *inert) parts(text string) []tokenizer.Part {
	var out []tokenizer.Part
	for i, s := range strings.Split(text, mark) {
		if i%2 == 0 {
			out = append(out, tokenizer.Part{Text: s})
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n >= len(in.hidden) { // the template itself wrote the mark
			out = append(out, tokenizer.Part{Text: mark + s + mark, Ordinary: true})
			continue
		}
		out = append(out, tokenizer.Part{Text: in.hidden[n], Ordinary: true})
	}
	return out
}
