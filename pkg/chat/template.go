package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// Tiny is the template of the tiny preset: a role is one control token, so that a turn costs two tokens besides its
// content.
const Tiny = `{%- for message in messages %}
    {{- '<|' + message.role + '|>' + message.content + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
{%- endif %}`

// Template is a compiled chat template. It is safe for concurrent use.
type Template struct {
	source string
	tmpl   *exec.Template
	vars   map[string]any // bos_token and the like
	date   time.Time      // of strftime_now; zero: none was given
}

// loadTemplate reads the chat template of a tokenizer_config.json: the file chat_template.jinja beside it, or else its field
// chat_template. Transformers has the same order.
func loadTemplate(path string) (*Template, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load chat template: %w", err)
	}
	var c struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      json.RawMessage `json:"bos_token"`
		EOS      json.RawMessage `json:"eos_token"`
		Pad      json.RawMessage `json:"pad_token"`
		Unk      json.RawMessage `json:"unk_token"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("load chat template %s: %w", path, err)
	}
	var src string
	if own, err := os.ReadFile(filepath.Join(filepath.Dir(path), "chat_template.jinja")); err == nil {
		src = string(own)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load chat template: %w", err)
	} else if src, err = templateSource(c.Template); err != nil {
		return nil, fmt.Errorf("load chat template %s: %w", path, err)
	}
	t, err := Parse(src)
	if err != nil {
		return nil, fmt.Errorf("load chat template %s: %w", path, err)
	}
	for name, raw := range map[string]json.RawMessage{"bos_token": c.BOS, "eos_token": c.EOS, "pad_token": c.Pad, "unk_token": c.Unk} {
		if s, ok := tokenText(raw); ok {
			t.vars[name] = s
		}
	}
	return t, nil
}

// templateSource reads a template, or the one called default of a list of named ones.
func templateSource(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", errors.New(`field "chat_template" is missing`)
	}
	var src string
	if json.Unmarshal(raw, &src) == nil {
		return src, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("field chat_template: %w", err)
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", errors.New(`field "chat_template": none of the templates is named "default"`)
}

// tokenText reads a token given as a string or as {"content": ...}.
func tokenText(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) == nil && s != nil {
		return *s, true
	}
	var o struct{ Content *string }
	if json.Unmarshal(raw, &o) == nil && o.Content != nil {
		return *o.Content, true
	}
	return "", false
}

// Parse compiles a Jinja chat template, with the settings that transformers gives it (trimmed blocks, Python's JSON).
func Parse(src string) (t *Template, err error) {
	defer recovered("parse chat template", &err)
	if err := checkSource(src); err != nil {
		return nil, fmt.Errorf("parse chat template: %w", err)
	}
	cfg := config.New()
	cfg.TrimBlocks, cfg.LeftStripBlocks = true, true
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters)
	if err := filters.Replace("tojson", toJSON); err != nil {
		return nil, fmt.Errorf("parse chat template: %w", err)
	}
	vars := exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables)
	vars.Set("range", numbers)
	vars.Set("raise_exception", func(msg string) (string, error) { return "", errors.New(msg) })
	env := &exec.Environment{
		Context: vars, Filters: filters, Tests: builtins.Tests,
		ControlStructures: structures(), Methods: builtins.Methods,
	}
	files, err := loaders.NewMemoryLoader(map[string]string{"/template": src})
	if err != nil {
		return nil, fmt.Errorf("parse chat template: %w", err)
	}
	tmpl, err := exec.NewTemplate("/template", cfg, files, env)
	if err != nil {
		return nil, fmt.Errorf("parse chat template: %w", err)
	}
	return &Template{source: src, tmpl: tmpl, vars: map[string]any{}}, nil
}

// recovered turns a panic of the template engine into an error: a model folder's template may cause one.
func recovered(what string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: %v", what, r)
	}
}

// Source returns the text of the template.
func (t *Template) Source() string { return t.source }

// Render returns the text of the conversation. tools are JSON schemas of functions, nil or empty for none; their keys
// stay in order. With addGenerationPrompt the text ends where the assistant's next message starts.
func (t *Template) Render(messages []Message, tools []json.RawMessage, addGenerationPrompt bool) (string, error) {
	return t.render(messages, tools, addGenerationPrompt, func(s string, _ bool) string { return s })
}

func (t *Template) render(messages []Message, tools []json.RawMessage, addGenerationPrompt bool, hide func(s string, trusted bool) string) (text string, err error) {
	defer recovered("render chat template", &err)
	if len(messages) == 0 {
		return "", errors.New("render chat template: no messages")
	}
	list := make([]any, len(messages))
	for i := range messages {
		v, err := messages[i].templateValue(hide)
		if err != nil {
			return "", fmt.Errorf("render chat template: message %d: %w", i, err)
		}
		list[i] = v
	}
	var toolList any
	if len(tools) > 0 {
		all := make([]any, len(tools))
		for i, raw := range tools {
			if all[i], err = parseJSON(raw, func(s string) string { return hide(s, true) }); err != nil {
				return "", fmt.Errorf("render chat template: tool %d: %w", i, err)
			}
		}
		toolList = all
	}
	vars := map[string]any{}
	for k, v := range t.vars {
		vars[k] = v
	}
	vars["messages"], vars["tools"], vars["add_generation_prompt"] = list, toolList, addGenerationPrompt
	vars["strftime_now"] = func(format string) (string, error) { return strftime(t.date, format) }
	vars[limitsName] = &limits{}
	var sb bounded
	if err := t.tmpl.Execute(&sb, exec.NewContext(vars)); err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	return sb.String(), nil
}
