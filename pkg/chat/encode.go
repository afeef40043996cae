package chat

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// Encode renders the conversation and returns its ids. Control tokens come from the template alone: one that is
// written out in a content, in a tool's description or in a call's arguments is spelled as text. In contents of users
// and tools that holds for every added token (<tool_call> too); in those of the system and the assistant, which the
// program wrote, added tokens that are not special keep their meaning. Apart from that the ids are those of the
// rendered text.
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

const mark = "\U000f0000" // private use; in a content it is itself replaced

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
