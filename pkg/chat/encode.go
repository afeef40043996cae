package chat

import (
	"encoding/json"
	"errors"
	"fmt"
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

// AssistantMask returns the ids of the whole conversation and, for each, whether it belongs to what the assistant says:
// from the line break after the header of an assistant message to the end of the message, its end token and the line
// break after that included (as training templates mark it). Contents cannot shift it.
func (t *Template) AssistantMask(tok *tokenizer.Tokenizer, messages []Message, tools []json.RawMessage) ([]int32, []bool, error) {
	ids, err := t.Encode(tok, messages, tools, false)
	if err != nil {
		return nil, nil, err
	}
	header, err := t.header(tok)
	if err != nil {
		return nil, nil, err
	}
	mask := make([]bool, len(ids))
	at := 0
	for i, m := range messages {
		end := len(ids)
		if i+1 < len(messages) {
			if m.Role != "assistant" && messages[i+1].Role != "assistant" {
				continue // neighbours may share one turn of the template
			}
			upTo, err := t.Encode(tok, messages[:i+1], tools, false)
			if err != nil {
				return nil, nil, err
			}
			if end = len(upTo); end > len(ids) {
				return nil, nil, fmt.Errorf("assistant mask: message %d: the template rewrites earlier turns", i)
			}
		}
		if m.Role == "assistant" {
			start := indexIDs(ids[at:end], header)
			if start < 0 {
				return nil, nil, fmt.Errorf("assistant mask: message %d has no assistant header", i)
			}
			for j := at + start + len(header); j < end; j++ {
				mask[j] = true
			}
		}
		at = end
	}
	return ids, mask, nil
}

// header returns the ids that open an assistant message, without the line break that ends them.
func (t *Template) header(tok *tokenizer.Tokenizer) ([]int32, error) {
	probe := []Message{{Role: "user", Content: "x"}}
	without, err := t.Render(probe, nil, false)
	if err != nil {
		return nil, err
	}
	with, err := t.Render(probe, nil, true)
	if err != nil {
		return nil, err
	}
	open, ok := strings.CutPrefix(with, without)
	open = strings.TrimRight(open, "\n")
	if !ok || open == "" {
		return nil, errors.New("chat template: add_generation_prompt adds no header")
	}
	return tok.Encode(open), nil
}

func indexIDs(ids, sub []int32) int {
next:
	for i := 0; i+len(sub) <= len(ids); i++ {
		for j, id := range sub {
			if ids[i+j] != id {
				continue next
			}
		}
		return i
	}
	return -1
}
