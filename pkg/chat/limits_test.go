package chat

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Templates that never end, or would fill the memory, are errors. Without the limits, the engine would end the process or never return.
func TestHostileTemplates(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "x" + strings.Repeat(end, n) }
	for name, c := range map[string]struct{ src, says string }{
		"macro of itself":      {"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "call each other"},
		"two macros":           {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "call each other"},
		"macro as an argument": {"{% macro a(f) %}{{ f(f) }}{% endmacro %}{{ a(a) }}", "call each other"},
		"macro in a default":   {"{% macro a(x=a()) %}{{ x }}{% endmacro %}{{ a() }}", ""},
		"caller":               {"{% macro a() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{{ a() }}", "call each other"},
		"block of itself":      {"{% block a %}{{ self.a() }}{% endblock %}", "block"},
		"includes itself":      {"{% include '/template' %}", "include"},
		"imports itself":       {"{% import '/template' as a %}", "import"},
		"extends itself":       {"{% extends '/template' %}", "extends"},
		"recursive loop":       {"{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "recursive"},
		"long range":           {"{% for i in range(10**9) %}{% endfor %}", "range"},
		"longer range":         {"{% for i in range(1000000000) %}{% endfor %}", "range"},
		"nested ranges":        {"{% for i in range(9000) %}{% for j in range(9000) %}{% endfor %}{% endfor %}", "rounds"},
		"many calls": {"{% macro a() %}{% endmacro %}" + strings.Join(func() (out []string) {
			for i := range 30 {
				name, before := string(rune('b'+i%25))+strings.Repeat("x", i/25), "a"
				if i > 0 {
					before = string(rune('b'+(i-1)%25)) + strings.Repeat("x", (i-1)/25)
				}
				out = append(out, "{% macro "+name+"() %}{{ "+before+"() }}{{ "+before+"() }}{% endmacro %}")
			}
			return out
		}(), "") + "{{ fx() }}", "rounds"},
		"doubled text":         {"{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "holds more"},
		"long output":          {"{% set x = 'a' * 100000 %}{% for i in range(9000) %}{{ x }}{% endfor %}", "bytes"},
		"deep brackets":        {"{{ " + deep("(", ")", 50000) + " }}", "nested"},
		"deep lists":           {"{{ " + deep("[", "]", 50000) + " }}", "nested"},
		"many signs":           {"{{ " + strings.Repeat("-", 100000) + "1 }}", "nested"},
		"many nots":            {"{{ " + strings.Repeat("not ", 50000) + "1 }}", "nested"},
		"deep blocks":          {deep("{% if x %}", "{% endif %}", 10000), "nested"},
		"a very long template": {strings.Repeat("a", 1<<20), "bytes"},
	} {
		began := time.Now()
		tmpl, err := Parse(c.src)
		if err == nil {
			_, err = tmpl.Render([]Message{{Role: "user", Content: "hi"}}, nil, true)
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || time.Since(began) > 20*time.Second {
			text := ""
			if err != nil {
				text = err.Error()[:min(300, len(err.Error()))]
			}
			t.Errorf("%s: after %v error %s, want one that says %q", name, time.Since(began), text, c.says)
		}
	}
}

// The limits do not change what sound templates render.
func TestBoundsLeaveSoundTemplates(t *testing.T) {
	for src, want := range map[string]string{
		"{% macro say(m, end='.') %}{{ m.content }}{{ end }}{% endmacro %}{% for m in messages %}{{ say(m) }}{{ say(m, end='!') }}{% endfor %}":         "hi.hi!",
		"{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(2, 9, 3) %},{{ i }}{% endfor %}{% for i in range(3, 0, -1) %}-{{ i }}{% endfor %}": "012,2,5,8-3-2-1",
		"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}":                       "02",
		"{% for m in messages %}a {% generation %}{{ m.content }}{% endgeneration %} b{{ loop.index }}{% endfor %}":                                     "a hi b1",
		"{% set ns = namespace(n=1) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}":                                           "4",
		"{% for i in [] %}x{% else %}none{% endfor %}": "none",
	} {
		tmpl, err := Parse(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		for range 2 { // a count of its own for each rendering
			if got, err := tmpl.Render([]Message{{Role: "user", Content: "hi"}}, nil, true); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", src, got, err, want)
			}
		}
	}
}

func TestDateOfATemplate(t *testing.T) {
	tmpl, err := Parse(`{{ strftime_now("%d %b %Y, %A %H:%M 100%%") }}`)
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "user", Content: "hi"}}
	if _, err := tmpl.Render(messages, nil, true); err == nil || !strings.Contains(err.Error(), "strftime_now") {
		t.Errorf("without a date: error %v", err)
	}
	on := time.Date(2024, 7, 26, 9, 5, 0, 0, time.UTC)
	if got, err := tmpl.On(on).Render(messages, nil, true); err != nil || got != "26 Jul 2024, Friday 09:05 100%" {
		t.Errorf("%q, %v", got, err)
	}
	odd, err := Parse(`{{ strftime_now("%Q") }}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := odd.On(on).Render(messages, nil, true); err == nil || !strings.Contains(err.Error(), "%Q") {
		t.Errorf("an unknown directive: error %v", err)
	}
}

// The files of a model folder: chat_template.jinja goes first, and every file may name ends.
func TestModelFolder(t *testing.T) {
	tok, _ := tinyChat(t)
	id := func(text string) int32 {
		n, ok := tok.TokenID(text)
		if !ok {
			t.Fatalf("no token %q", text)
		}
		return n
	}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := tok.Save(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	put("tokenizer_config.json", `{"chat_template": "of the config", "eos_token": {"content": "<|im_start|>"}}`)
	put("chat_template.jinja", Tiny)
	put("config.json", `{"eos_token_id": 5}`)
	put("generation_config.json", `{"eos_token_id": [9, 5, 11]}`)
	c, err := LoadCodec(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.tmpl.Source() != Tiny {
		t.Errorf("the template is %q", c.tmpl.Source())
	}
	ends, err := EOS(dir, tok)
	if want := []int32{9, 5, 11, id("<|im_start|>")}; err != nil || !slices.Equal(ends, want) {
		t.Errorf("ends %v, %v; want %v", ends, err, want)
	}
	for _, end := range append(ends, id("<|endoftext|>")) {
		if !c.IsStop(end) {
			t.Errorf("%d is no stop of %v", end, c.Stops())
		}
	}
	put("generation_config.json", `{"eos_token_id": "five"}`)
	if _, err := EOS(dir, tok); err == nil || !strings.Contains(err.Error(), "eos_token_id") {
		t.Errorf("an id that is a word: error %v", err)
	}
	put("generation_config.json", `{"eos_token_id": 999999}`)
	if _, err := LoadCodec(dir); err == nil || !strings.Contains(err.Error(), "999999") {
		t.Errorf("an id beyond the vocabulary: error %v", err)
	}
}

// FuzzTemplate: no text ends the process or goes on for ever.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{Tiny, "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "{% for i in range(9) %}{{ loop.index }}{% endfor %}", "{% generation %}{{ messages[0].content }}{% endgeneration %}"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, src string) {
		tmpl, err := Parse(src)
		if err == nil {
			_, _ = tmpl.Render([]Message{{Role: "user", Content: "hi"}}, nil, true)
		}
	})
}
