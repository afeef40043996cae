package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Python's json.dumps(json.loads(x), ensure_ascii=False) of the same text.
func TestToJSONIsPythons(t *testing.T) {
	tmpl, err := Parse("{{ tools[0] | tojson }}")
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		`{"b":1,"a":2}`:                         `{"b": 1, "a": 2}`,
		`{"a":1,"b":2,"a":3}`:                   `{"a": 3, "b": 2}`,
		`[]`:                                    `[]`,
		`[[],{},[1,[2]],null,true,false]`:       `[[], {}, [1, [2]], null, true, false]`,
		`[1.0,1e16,1e15,1e-4,1e-5,0.1,-0.0,-0]`: `[1.0, 1e+16, 1000000000000000.0, 0.0001, 1e-05, 0.1, -0.0, 0]`,
		`[1E5,123456789.125,5e-324,1e400]`:      `[100000.0, 123456789.125, 5e-324, Infinity]`,
		`[9223372036854775807,9223372036854775808,-123456789012345678901234567890]`: `[9223372036854775807, 9223372036854775808, -123456789012345678901234567890]`,
		`"<>&'\u2028\u0085\u007f\u0001\/\b\f\n\r\t\\\""`:                            "\"<>&'\u2028\u0085\u007f\\u0001/\\b\\f\\n\\r\\t\\\\\\\"\"",
		`{"\u00e9\u4e2d":"\ud83d\ude00"}`:                                           "{\"\u00e9\u4e2d\": \"\U0001f600\"}",
	} {
		got, err := tmpl.Render([]Message{{Role: "user"}}, []json.RawMessage{json.RawMessage(src)}, false)
		if err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", src, got, err, want)
		}
	}
	tmpl, err = Parse("{{ tools[0] | tojson(indent=2) }}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render([]Message{{Role: "user"}}, []json.RawMessage{json.RawMessage(`{"b":[1,{}],"a":{"c":null}}`)}, false)
	if want := "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": {\n    \"c\": null\n  }\n}"; err != nil || got != want {
		t.Errorf("indent: got %s (%v), want %s", got, err, want)
	}
}

func TestTemplateErrors(t *testing.T) {
	if _, err := Parse("{% if %}"); err == nil || !strings.Contains(err.Error(), "parse chat template") {
		t.Errorf("Parse of half a block: %v", err)
	}
	dir := t.TempDir()
	for name, c := range map[string][2]string{
		"none.json":   {`{}`, `"chat_template" is missing`},
		"list.json":   {`{"chat_template": [{"name": "rag", "template": "x"}]}`, `none of the templates is named "default"`},
		"number.json": {`{"chat_template": 5}`, "chat_template"},
		"broken.json": {`{`, "broken.json"},
	} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(c[0]), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := loadTemplate(p); err == nil || !strings.Contains(err.Error(), c[1]) || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: error %v, want one with the path and %q", name, err, c[1])
		}
	}
	_, tmpl := qwen(t)
	if _, err := tmpl.Render(nil, nil, true); err == nil {
		t.Error("no messages: no error")
	}
	bad := []Message{{Role: "assistant", ToolCalls: []ToolCall{{"f", json.RawMessage("{")}}}}
	if _, err := tmpl.Render(bad, nil, false); err == nil || !strings.Contains(err.Error(), "message 0: tool call 0 (f)") {
		t.Errorf("broken arguments: %v", err)
	}
	if _, err := tmpl.Render([]Message{{Role: "user"}}, []json.RawMessage{json.RawMessage("{} x")}, false); err == nil || !strings.Contains(err.Error(), "tool 0") {
		t.Errorf("broken tool: %v", err)
	}
	for _, s := range []string{`{"content": "x"}`, `{"role": 5}`, `{"role": "user", "content": 5}`, `{"role": "assistant", "tool_calls": [{"arguments": {}}]}`} {
		var m Message
		if err := json.Unmarshal([]byte(s), &m); err == nil {
			t.Errorf("message %s was read", s)
		}
	}
}

func TestTemplateSeesTokensAndExtraFields(t *testing.T) {
	p := filepath.Join(t.TempDir(), "tokenizer_config.json")
	src := `{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": null,
	 "chat_template": [{"name": "default", "template": "{{ bos_token }}{{ messages[0].name }}:{{ messages[0]['x'].y }}{{ eos_token }}{{ unk_token is defined }}"}]}`
	if err := os.WriteFile(p, []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	tmpl, err := loadTemplate(p)
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	if err := json.Unmarshal([]byte(`{"role": "tool", "content": "", "name": "sql", "x": {"y": 5}}`), &m); err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render([]Message{m}, nil, false)
	if want := "<s>sql:5</s>False"; err != nil || got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}
