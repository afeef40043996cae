package episode_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/episode"
)

var update = flag.Bool("update", false, "write docs/action_grammar.md from the table")

const (
	good  = "```json\n{\"tool\": \"search\", \"args\": {\"query\": \"rope\"}}\n```"
	good2 = "```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n```"
)

// escape makes text safe within a cell of a Markdown table.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "&#96;").Replace

// block puts JSON into a block.
func block(json string) string { return "```json\n" + json + "\n```" }

// row is a line of the grammar's table. Kind is empty for an accepted text; then want is tool and arguments, and the
// thought where there is one.
type row struct {
	name string
	text string
	kind episode.ErrorKind
	want string
	show string // for texts too long to show
}

const searchRope = `search {"query":"rope"}`

var table = []row{
	{name: "canonical", text: good, want: searchRope},
	{name: "on one line", text: "```json {\"tool\": \"search\", \"args\": {\"query\": \"rope\"}} ```", want: searchRope},
	{name: "with a thought", text: block(`{"thought": "find it", "tool": "search", "args": {"query": "rope"}}`), want: "find it: " + searchRope},
	{name: "empty thought", text: block(`{"thought": "", "tool": "search", "args": {"query": "rope"}}`), want: searchRope},
	{name: "args before tool", text: block(`{"args": {"query": "rope"}, "tool": "search"}`), want: searchRope},
	{name: "no arguments", text: block(`{"tool": "list", "args": {}}`), want: "list {}"},
	{name: "text before", text: "I need the price list {a: [1]}.\n" + good, want: searchRope},
	{name: "invented observation before", text: "Observation: 42\n" + good2, want: `finish {"answer":"42"}`},
	{name: "backticks within a sentence before", text: "Use `search` or ```json here.\n" + good, want: searchRope},
	{name: "indented fence", text: "  \t" + good, want: searchRope},
	{name: "white space everywhere", text: "```json \r\n\n { \"tool\" :\t\"search\" , \"args\" : { \"query\" : \"rope\" } } \r\n\n```", want: searchRope},
	{name: "white space after", text: good + " \t\r\n\n", want: searchRope},
	{name: "closing fence indented", text: "```json\n{\"tool\": \"search\", \"args\": {\"query\": \"rope\"}}\n   ```", want: searchRope},
	{name: "fence inside a string", text: block(`{"tool": "write", "args": {"text": "use ` + "```json {} ``` twice" + `"}}`), want: "write {\"text\":\"use ```json {} ``` twice\"}"},
	{name: "action inside a string", text: block(`{"tool": "write", "args": {"text": "{\"tool\": \"finish\", \"args\": {}}"}}`), want: `write {"text":"{\"tool\": \"finish\", \"args\": {}}"}`},
	{name: "escaped key", text: block(`{"to\u006fl": "search", "args": {"query": "rope"}}`), want: searchRope},
	{name: "big integer kept", text: block(`{"tool": "add", "args": {"a": 123456789012345678901234567890, "b": -0.10e+2}}`), want: `add {"a":123456789012345678901234567890,"b":-0.10e+2}`},
	{name: "unicode in a string", text: block(`{"tool": "search", "args": {"query": "Zoë 日本 🪢 “quoted”"}}`), want: `search {"query":"Zoë 日本 🪢 “quoted”"}`},
	{name: "surrogate pair", text: block(`{"tool": "search", "args": {"query": "\ud83e\uDEA2"}}`), want: `search {"query":"\ud83e\uDEA2"}`},
	{name: "byte order mark first", text: "\ufeff" + good, want: searchRope},
	{name: "wrong case within args", text: block(`{"tool": "search", "args": {"Query": "rope"}}`), want: `search {"Query":"rope"}`},
	{name: "32 nested values", text: block(`{"tool": "t", "args": {"a": ` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}`), want: `t {"a":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}`, show: "args that hold 30 nested lists"},
	{name: "1 MB of text before", text: strings.Repeat("think ``` ", 100_000) + "\n" + good, want: searchRope, show: "1,000,000 bytes of prose with backticks, then the canonical action"},

	{name: "nothing", text: "", kind: episode.NoBlock},
	{name: "prose only", text: "The answer is 42.", kind: episode.NoBlock},
	{name: "bare JSON", text: `{"tool": "finish", "args": {"answer": "42"}}`, kind: episode.NoBlock},
	{name: "action quoted in a sentence", text: "He wrote \"```json {\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}} ```\" there.", kind: episode.NoBlock},
	{name: "opened within a line: the other fence opens", text: `Action: ` + good2, kind: episode.Unterminated},
	{name: "action in a quotation", text: "> ```json\n> {\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n> ```", kind: episode.NoBlock},
	{name: "tilde fence", text: "~~~json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n~~~", kind: episode.NoBlock},
	{name: "fence of another language first", text: "```python\nx = 1\n```\n" + good, kind: episode.OtherFence},
	{name: "fence without a language", text: "```\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n```", kind: episode.OtherFence},
	{name: "language in another case", text: "```JSON\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n```", kind: episode.OtherFence},
	{name: "language run on", text: "```json{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n```", kind: episode.OtherFence},
	{name: "four backticks", text: "````json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n````", kind: episode.OtherFence},
	{name: "not closed", text: "```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n", kind: episode.Unterminated},
	{name: "closed with two backticks", text: "```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"42\"}}\n``", kind: episode.Unterminated},
	{name: "cut within a string", text: "```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"4", kind: episode.Unterminated},
	{name: "opening fence only", text: "```json", kind: episode.Unterminated},
	{name: "empty block", text: "```json\n\n```", kind: episode.EmptyBlock},
	{name: "list", text: block(`[{"tool": "finish", "args": {"answer": "42"}}]`), kind: episode.NotObject},
	{name: "string", text: block(`"finish"`), kind: episode.NotObject},
	{name: "null", text: block(`null`), kind: episode.NotObject},
	{name: "not JSON", text: block(`finish(42)`), kind: episode.InvalidJSON},
	{name: "single quotes", text: block(`{'tool': 'finish', 'args': {'answer': '42'}}`), kind: episode.InvalidJSON},
	{name: "bare keys", text: block(`{tool: "finish", args: {answer: "42"}}`), kind: episode.InvalidJSON},
	{name: "Python words", text: block(`{"tool": "t", "args": {"a": None, "b": True}}`), kind: episode.InvalidJSON},
	{name: "comment", text: block("{\"tool\": \"t\", // why\n\"args\": {}}"), kind: episode.InvalidJSON},
	{name: "missing comma", text: block(`{"tool": "t" "args": {}}`), kind: episode.InvalidJSON},
	{name: "missing bracket", text: block(`{"tool": "t", "args": {}`), kind: episode.InvalidJSON},
	{name: "bracket too many", text: block(`{"tool": "t", "args": {}}}`), kind: episode.InvalidJSON},
	{name: "two objects in one block", text: block("{\"tool\": \"t\", \"args\": {}}\n{\"tool\": \"u\", \"args\": {}}"), kind: episode.InvalidJSON},
	{name: "line break in a string", text: block("{\"tool\": \"t\", \"args\": {\"a\": \"x\ny\"}}"), kind: episode.InvalidJSON},
	{name: "leading zero", text: block(`{"tool": "t", "args": {"a": 007}}`), kind: episode.InvalidJSON},
	{name: "plus sign", text: block(`{"tool": "t", "args": {"a": +1}}`), kind: episode.InvalidJSON},
	{name: "hexadecimal number", text: block(`{"tool": "t", "args": {"a": 0x1F}}`), kind: episode.InvalidJSON},
	{name: "bad escape", text: block(`{"tool": "t", "args": {"a": "\d"}}`), kind: episode.InvalidJSON},
	{name: "half a surrogate pair", text: block(`{"tool": "t", "args": {"a": "\ud83e"}}`), kind: episode.InvalidJSON},
	{name: "byte order mark in the block", text: block("\ufeff" + `{"tool": "t", "args": {}}`), kind: episode.InvalidJSON},
	{name: "trailing comma in args", text: block(`{"tool": "t", "args": {"a": 1,}}`), kind: episode.TrailingComma},
	{name: "trailing comma in a list", text: block(`{"tool": "t", "args": {"a": [1, 2,]}}`), kind: episode.TrailingComma},
	{name: "trailing comma at the top", text: block(`{"tool": "t", "args": {},}`), kind: episode.TrailingComma},
	{name: "smart quotes", text: block(`{“tool”: “finish”, “args”: {}}`), kind: episode.SmartQuotes},
	{name: "smart quotes around a value", text: block(`{"tool": “finish”, "args": {}}`), kind: episode.SmartQuotes},
	{name: "NaN", text: block(`{"tool": "t", "args": {"a": NaN}}`), kind: episode.NotANumber},
	{name: "minus infinity", text: block(`{"tool": "t", "args": {"a": -Infinity}}`), kind: episode.NotANumber},
	{name: "33 nested values", text: block(`{"tool": "t", "args": {"a": ` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}}`), kind: episode.TooDeep, show: "args that hold 31 nested lists"},
	{name: "33 nested objects", text: block(`{"tool": "t", "args": ` + strings.Repeat(`{"a": `, 31) + "{}" + strings.Repeat("}", 32)), kind: episode.TooDeep, show: "args that hold 31 more nested objects"},
	{name: "100,000 open brackets", text: block(`{"tool": "t", "args": {"a": ` + strings.Repeat(`{"a":[`, 50_000)), kind: episode.TooDeep, show: "args that open 100,000 brackets"},
	{name: "too long", text: strings.Repeat("x", episode.MaxText) + "\n" + good, kind: episode.TooLong, show: "more than 1,048,576 bytes"},
	{name: "invalid UTF-8 in a string", text: block("{\"tool\": \"t\", \"args\": {\"a\": \"\xff\"}}"), kind: episode.InvalidUTF8},
	{name: "replacement character in a string", text: block("{\"tool\": \"t\", \"args\": {\"a\": \"\ufffd\"}}"), kind: episode.InvalidUTF8},
	{name: "invalid UTF-8 between values", text: block("{\"tool\": \"t\", \xc3\x28\"args\": {}}"), kind: episode.InvalidUTF8},
	{name: "duplicate tool", text: block(`{"tool": "a", "tool": "b", "args": {}}`), kind: episode.DuplicateKey},
	{name: "duplicate argument", text: block(`{"tool": "t", "args": {"a": 1, "a": 2}}`), kind: episode.DuplicateKey},
	{name: "duplicate key, once escaped", text: block(`{"tool": "t", "args": {"a": {"k": 1, "\u006b": 2}}}`), kind: episode.DuplicateKey},
	{name: "unknown key", text: block(`{"tool": "t", "args": {}, "id": 1}`), kind: episode.UnknownKey},
	{name: "another dialect", text: block(`{"name": "t", "arguments": {}}`), kind: episode.UnknownKey},
	{name: "wrong case", text: block(`{"Tool": "t", "args": {}}`), kind: episode.KeyCase},
	{name: "upper case", text: block(`{"tool": "t", "ARGS": {}}`), kind: episode.KeyCase},
	{name: "thought after tool", text: block(`{"tool": "t", "thought": "hm", "args": {}}`), kind: episode.KeyOrder},
	{name: "no tool", text: block(`{"args": {}}`), kind: episode.MissingKey},
	{name: "no args", text: block(`{"tool": "t"}`), kind: episode.MissingKey},
	{name: "empty object", text: block(`{}`), kind: episode.MissingKey},
	{name: "tool is a number", text: block(`{"tool": 1, "args": {}}`), kind: episode.WrongType},
	{name: "tool is empty", text: block(`{"tool": "", "args": {}}`), kind: episode.WrongType},
	{name: "args is a list", text: block(`{"tool": "t", "args": ["rope"]}`), kind: episode.WrongType},
	{name: "args is null", text: block(`{"tool": "t", "args": null}`), kind: episode.WrongType},
	{name: "thought is null", text: block(`{"thought": null, "tool": "t", "args": {}}`), kind: episode.WrongType},
	{name: "text after", text: good + "\nSource [1], see {notes}", kind: episode.TextAfter},
	{name: "invented observation after", text: good + "\nObservation: 42", kind: episode.TextAfter},
	{name: "byte order mark after", text: good + "\ufeff", kind: episode.TextAfter},
	{name: "two actions", text: good + "\n" + good2, kind: episode.TwoBlocks},
	{name: "the same action twice", text: good + good, kind: episode.TwoBlocks},
	{name: "invented observation, then an answer", text: good + "\nObservation: 42\n" + good2, kind: episode.TwoBlocks},
	{name: "action, then another language", text: good + "\n```python\nx = 1\n```", kind: episode.TwoBlocks},
	{name: "faulty action, then a good one", text: block(`{"tool": "t",}`) + "\n" + good, kind: episode.TrailingComma},
}

func TestTable(t *testing.T) {
	seen := map[episode.ErrorKind]bool{}
	for _, r := range table {
		act, err := episode.Parse(r.text)
		if r.kind != "" {
			seen[r.kind] = true
			if err == nil {
				t.Errorf("%s: accepted as %s %s, want %s", r.name, act.Tool, act.Args, r.kind)
			} else if err.Kind != r.kind || err.Message == "" || strings.ContainsAny(err.Message, "\n\r") || len(err.Message) > 200 {
				t.Errorf("%s: %s (%q), want %s and a short line", r.name, err.Kind, err.Message, r.kind)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v, want it accepted", r.name, err)
			continue
		}
		got := act.Tool + " " + string(act.Args)
		if act.Thought != "" {
			got = act.Thought + ": " + got
		}
		if got != r.want {
			t.Errorf("%s: got %s, want %s", r.name, got, r.want)
		}
	}
	for _, k := range episode.Kinds() {
		if _, ok := stepRows[k]; !ok && !seen[k] {
			t.Errorf("kind %s has no row", k)
		}
	}
}

// Generation stops where the text is complete, not earlier and not later: the end of a text is found at the closing fence,
// and at no cut before it.
func TestEndOfEveryRow(t *testing.T) {
	for _, r := range table {
		if len(r.text) > 10_000 {
			continue
		}
		n, ok := episode.End(r.text)
		if _, err := episode.Parse(r.text); err == nil && (!ok || strings.TrimSpace(r.text[n:]) != "") {
			t.Errorf("%s: ends at %d, %v; want just after the closing fence", r.name, n, ok)
		}
		if !ok {
			n = len(r.text) + 1
		}
		for cut := range min(n, len(r.text)) {
			if at, ok := episode.End(r.text[:cut]); ok {
				t.Errorf("%s: cut at %d it ends at %d, whole at %d", r.name, cut, at, n)
				break
			}
		}
		if ok {
			if _, err := episode.Parse(r.text[:n]); err != nil && (err.Kind == episode.Unterminated || err.Kind == episode.TextAfter || err.Kind == episode.TwoBlocks) {
				t.Errorf("%s: stopped at its end it is %v", r.name, err)
			}
		}
	}
}

// A megabyte of the worst text takes time in proportion: ten times the text takes far less than a hundred times as long.
func TestLinearTime(t *testing.T) {
	for name, piece := range map[string]string{
		"backticks": "```", "mid-line fences": "a```json ", "blank lines": "\n  ", "spaces and a fence": "      x```\t", "bom": "\ufeff",
	} {
		began := time.Now()
		episode.Parse(strings.Repeat(piece, 1_000_000/len(piece)))
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("1 MB of %s took %v", name, d)
		}
	}
	for name, body := range map[string]string{
		"keys": strings.Repeat(`"%d":1,`, 1), "escapes": `\u0041`, "digits": "1",
	} {
		var b strings.Builder
		b.WriteString("```json\n{\"tool\":\"t\",\"args\":{")
		for i := 0; b.Len() < 1_000_000; i++ {
			switch name {
			case "keys":
				fmt.Fprintf(&b, body, i)
			case "escapes":
				if i == 0 {
					b.WriteString(`"a":"`)
				}
				b.WriteString(body)
			case "digits":
				if i == 0 {
					b.WriteString(`"a":`)
				}
				b.WriteString(body)
			}
		}
		began := time.Now()
		episode.Parse(b.String())
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("1 MB of %s took %v", name, d)
		}
	}
}

// The documentation is the table.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The action grammar\n\n" +
		"What package `episode` accepts and refuses, in training, evaluation and replay alike. Every row is a test; this page is\n" +
		"written from the same table (`go test ./pkg/episode -run TestDocs -update`). ⏎ is a line break.\n\n" +
		"An action is exactly one block, with text before it if the policy likes; generation stops at the closing fence:\n\n" +
		"~~~\n" + episode.Format("optional", "sql_query", []byte(`{"query":"..."}`)) + "\n~~~\n\n" +
		"The answer of `finish` is a string or a number; a number counts as its text, every digit of it.\n\n" +
		"An action that is refused executes nothing and costs no money. It uses a turn, is answered with the error's text, and is\n" +
		"counted for the format penalty.\n\n")
	cell := func(r row) string {
		if r.show != "" {
			return r.show
		}
		if r.text == "" {
			return "(empty)"
		}
		var c strings.Builder
		for _, ch := range r.text {
			switch {
			case ch == '\n':
				c.WriteString("⏎")
			case ch < 0x20 || ch == 0xFEFF || ch == 0xFFFD:
				c.WriteString(strings.Trim(strconv.QuoteRuneToASCII(ch), "'"))
			default:
				c.WriteString(escape(string(ch)))
			}
		}
		return "<code>" + c.String() + "</code>"
	}
	b.WriteString("## Accepted\n\n| case | text | read as |\n| --- | --- | --- |\n")
	for _, r := range table {
		if r.kind == "" {
			want := r.want
			if len(want) > 120 {
				want = want[:40] + " …"
			}
			fmt.Fprintf(&b, "| %s | %s | <code>%s</code> |\n", r.name, cell(r), escape(want))
		}
	}
	b.WriteString("\n## Refused\n\n| case | text | kind | what the policy reads |\n| --- | --- | --- | --- |\n")
	for _, r := range table {
		if r.kind != "" {
			if _, err := episode.Parse(r.text); err != nil {
				fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", r.name, cell(r), r.kind, escape(err.Message))
			}
		}
	}
	b.WriteString("\n## Refused once the task's tools are known\n\n| case | kind |\n| --- | --- |\n")
	kinds := make([]episode.ErrorKind, 0, len(stepRows))
	for k := range stepRows {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		for _, r := range stepRows[k] {
			fmt.Fprintf(&b, "| %s | `%s` |\n", r.name, k)
		}
	}
	path := filepath.Join("..", "..", "docs", "action_grammar.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s differs from the table; run this test with -update", path)
	}
}
