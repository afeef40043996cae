package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// Message is one message of a conversation, in the shape of the usual chat APIs.
type Message struct {
	Role      string     // system, user, assistant, tool
	Content   string     // with NoContent: not used
	NoContent bool       // the content is null or missing, as is allowed beside tool calls
	ToolCalls []ToolCall // of an assistant
	// Extra holds further fields (name, tool_call_id, ...), as they stood, for templates that read them.
	Extra map[string]json.RawMessage
}

// ToolCall is one call that an assistant message makes.
type ToolCall struct {
	Name string
	// Arguments is a JSON value. It is rendered with its keys in order and its numbers as Python prints them; a JSON
	// string is quoted again.
	Arguments json.RawMessage
}

// UnmarshalJSON reads {"role": ..., "content": ..., "tool_calls": [...]}; a call is {"name", "arguments"} or has these
// two under "function".
func (m *Message) UnmarshalJSON(b []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	*m = Message{NoContent: true}
	for k, raw := range fields {
		null := string(raw) == "null"
		var err error
		switch k {
		case "role":
			err = json.Unmarshal(raw, &m.Role)
		case "content":
			if !null {
				m.NoContent = false
				err = json.Unmarshal(raw, &m.Content)
			}
		case "tool_calls":
			err = m.readCalls(raw)
		default:
			if m.Extra == nil {
				m.Extra = map[string]json.RawMessage{}
			}
			m.Extra[k] = raw
		}
		if err != nil {
			return fmt.Errorf("message field %q: %w", k, err)
		}
	}
	if m.Role == "" {
		return fmt.Errorf(`message field "role" is missing`)
	}
	return nil
}

func (m *Message) readCalls(raw json.RawMessage) error {
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var calls []struct {
		call
		Function *call `json:"function"`
	}
	if err := json.Unmarshal(raw, &calls); err != nil {
		return err
	}
	for i, c := range calls {
		one := c.call
		if c.Function != nil {
			one = *c.Function
		}
		if one.Name == "" {
			return fmt.Errorf(`call %d: field "name" is missing`, i)
		}
		if one.Arguments == nil {
			one.Arguments = json.RawMessage("{}")
		}
		m.ToolCalls = append(m.ToolCalls, ToolCall(one))
	}
	return nil
}

// templateValue is the message as a template sees it. Its strings go through text, which is told whether the program
// wrote them (see Template.Encode).
func (m *Message) templateValue(text func(s string, trusted bool) string) (*exec.Dict, error) {
	own := func(s string) string { return text(s, true) }
	d := exec.NewDict()
	setKey(d, "role", m.Role)
	if m.NoContent {
		setKey(d, "content", nil)
	} else {
		setKey(d, "content", text(m.Content, m.Role == "system" || m.Role == "assistant"))
	}
	if len(m.ToolCalls) > 0 {
		calls := []any{}
		for i, c := range m.ToolCalls {
			args, err := parseJSON(c.Arguments, own)
			if err != nil {
				return nil, fmt.Errorf("tool call %d (%s): arguments: %w", i, c.Name, err)
			}
			fn := exec.NewDict()
			setKey(fn, "name", own(c.Name))
			setKey(fn, "arguments", args)
			call := exec.NewDict()
			setKey(call, "type", "function")
			setKey(call, "function", fn)
			calls = append(calls, call)
		}
		setKey(d, "tool_calls", calls)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Extra)) {
		v, err := parseJSON(m.Extra[k], func(s string) string { return text(s, false) })
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", k, err)
		}
		setKey(d, k, v)
	}
	return d, nil
}
