package chat

import (
	"slices"
	"strings"
	"testing"
)

func codecs(t *testing.T) map[string]*Codec {
	t.Helper()
	out := map[string]*Codec{}
	qt, qm := qwen(t)
	tt, tm := tinyChat(t)
	for name, make := range map[string]func() (*Codec, error){
		"qwen": func() (*Codec, error) { return NewCodec(qt, qm) },
		"tiny": func() (*Codec, error) { return NewCodec(tt, tm) },
	} {
		c, err := make()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = c
	}
	return out
}

// Generation stops at the end of the turn, at a closing fence that is one token, and at any control token that would open
// another message.
func TestStops(t *testing.T) {
	for name, want := range map[string][]string{
		"qwen": {"<|im_end|>", "<|im_start|>", "<|endoftext|>"},
		"tiny": {"<|im_end|>", "\"}}\n```", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|endoftext|>"},
	} {
		c := codecs(t)[name]
		var got []string
		for _, id := range c.Stops() {
			got = append(got, c.Tokenizer().Decode([]int32{id}, false))
			if !c.IsStop(id) {
				t.Errorf("%s: %d is a stop and is none", name, id)
			}
		}
		if got[0] != want[0] {
			t.Errorf("%s: the first stop is %q, want the end of the turn", name, got[0])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: stops %q, want %q", name, got, want)
		}
	}
}

// The ids of an episode are those of its parts, the mask is 1 on actions alone, and each action ends where generation
// would have stopped.
func TestEpisodeIDs(t *testing.T) {
	for name, c := range codecs(t) {
		turns := []Exchange{
			{"```json\n{\"tool\": \"sql_query\", \"args\": {\"query\": \"SELECT price FROM items WHERE id = 5\"}}\n```", "price\n5"},
			{"I look again.", "```json {\"tool\": \"finish\"} ```<|im_end|>"},
			{"```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"5\"}}\n```", ""},
		}
		ids, mask, err := c.Episode("Be brief.", "What is the price of item 5?", turns)
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := c.Prompt("Be brief.", "What is the price of item 5?")
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(prompt)
		on := make([]uint8, len(prompt))
		for i, x := range turns {
			said, err := c.Action(x.Action)
			if err != nil {
				t.Fatal(err)
			}
			last := said[len(said)-1]
			if at := slices.IndexFunc(said, c.IsStop); at != len(said)-1 {
				t.Errorf("%s turn %d: the first stop is at %d of %d", name, i, at, len(said))
			}
			if got := c.Text(said); got != x.Action {
				t.Errorf("%s turn %d: reads %q, want %q", name, i, got, x.Action)
			}
			want = append(want, said...)
			on = append(on, slices.Repeat([]uint8{1}, len(said))...)
			if i < len(turns)-1 {
				obs := c.Observation(x.Observation, last)
				want, on = append(want, obs...), append(on, make([]uint8, len(obs))...)
			}
		}
		if !slices.Equal(ids, want) || !slices.Equal(mask, on) {
			t.Errorf("%s: ids\n%v\nwant\n%v\nmask\n%v\nwant\n%v", name, ids, want, mask, on)
		}
	}
}

// The messages of an episode, encoded by the template, are the ids of the episode and the end of its last message.
func TestConversationIDs(t *testing.T) {
	for name, c := range codecs(t) {
		for _, system := range []string{"", "Be brief."} {
			turns := []Exchange{{"I look it up.", "price\n5 <|im_end|>"}, {"Again.", ""}, {"It is 5.", "never read"}}
			ids, _, err := c.Episode(system, "What is the price?", turns)
			if err != nil {
				t.Fatal(err)
			}
			messages := Conversation(system, "What is the price?", turns)
			got, err := c.tmpl.Encode(c.tok, messages, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) < len(ids) || !slices.Equal(got[:len(ids)], ids) || strings.TrimSpace(c.Text(got[len(ids):])) != "" {
				t.Errorf("%s: the messages are\n%q\nwant\n%q", name, c.tok.Decode(got, false), c.tok.Decode(ids, false))
			}
			var roles []string
			for _, m := range messages {
				roles = append(roles, m.Role)
			}
			want := []string{"system", "user", "assistant", "tool", "assistant", "tool", "assistant"}
			if system == "" {
				want = want[1:]
			}
			if !slices.Equal(roles, want) {
				t.Errorf("%s: roles %v, want %v", name, roles, want)
			}
		}
	}
}

func TestActionErrors(t *testing.T) {
	for name, c := range codecs(t) {
		if _, err := c.Action(""); err == nil {
			t.Errorf("%s: an action without text has ids", name)
		}
		if _, _, err := c.Episode("", "q", []Exchange{{"a", "b"}, {"", ""}}); err == nil || !strings.Contains(err.Error(), "turn 1") {
			t.Errorf("%s: error %v, want one that names the turn", name, err)
		}
	}
	c := codecs(t)["tiny"]
	fenced := "```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"5\"}}\n```"
	if _, err := c.Action(fenced + "\nObservation: 5"); err == nil || !strings.Contains(err.Error(), "stop inside") {
		t.Errorf("text after the fence: error %v", err)
	}
}

// Sampled ids are never encoded again: an unusual spelling of "hello" keeps its ids and decodes to the same text.
func TestTextOfOddSpelling(t *testing.T) {
	c := codecs(t)["qwen"]
	odd := slices.Concat(c.Tokenizer().Encode("h"), c.Tokenizer().Encode("ello"))
	if again, err := c.Action(c.Text(odd)); err != nil || slices.Equal(again[:len(again)-1], odd) {
		t.Fatalf("the spelling is the usual one: %v, %v", again, err)
	}
	if got := c.Text(append(slices.Clone(odd), c.Stops()[0])); got != "hello" {
		t.Errorf("reads %q", got)
	}
}

// Generation stops at every id that a model folder names as an end, and at one that the tokenizer has not is an error.
func TestStopsAtNamedEnds(t *testing.T) {
	tok, tmpl := tinyChat(t)
	plain, err := NewCodec(tok, tmpl)
	if err != nil {
		t.Fatal(err)
	}
	end, ok := tok.TokenID("<|endoftext|>")
	other := tok.Encode("the")[0]
	if !ok || !plain.IsStop(end) || plain.IsStop(other) {
		t.Fatalf("stops %v, the document's end is %d", plain.Stops(), end)
	}
	c, err := NewCodec(tok, tmpl, end, other)
	if err != nil || !c.IsStop(other) || c.Stops()[0] != plain.Stops()[0] || len(c.Stops()) != len(plain.Stops())+1 {
		t.Errorf("stops %v, %v; want those of %v and %d", c.Stops(), err, plain.Stops(), other)
	}
	if _, err := NewCodec(tok, tmpl, int32(tok.VocabSize())); err == nil || !strings.Contains(err.Error(), "eos_token_id") {
		t.Errorf("an id beyond the vocabulary: error %v", err)
	}
}
