package chat

import (
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// Codec turns an episode's texts into ids, and sampled ids into text. Demonstrations, rollouts and training all use it, so that
// their ids agree. It is safe for concurrent use.
type Codec struct {
	tok   *tokenizer.Tokenizer
	tmpl  *Template
	turns *Turns
	stops []int32
}

// endOfText is the control token that ends a document, in the tokenizers of Qwen and of the tiny preset.
const endOfText = "<|endoftext|>"

// NewCodec joins a tokenizer and a template. Generation stops at these tokens:
//
//   - the template's end-of-turn token
//   - every token that closes a fence by itself; the tiny preset's tokenizer has one
//   - every other control token that the template writes, because a model that opened a tool's message itself would read its own
//     text as an observation
//   - the token that ends a document, and the ids of eos, which a model folder names (see [EOS])
func NewCodec(tok *tokenizer.Tokenizer, tmpl *Template, eos ...int32) (*Codec, error) {
	turns, err := NewTurns(tok, tmpl)
	if err != nil {
		return nil, err
	}
	for _, id := range eos {
		if _, ok := tok.IDToken(id); !ok {
			return nil, fmt.Errorf("eos_token_id %d is no id of the tokenizer, which has %d", id, tok.VocabSize())
		}
	}
	c := &Codec{tok: tok, tmpl: tmpl, turns: turns, stops: []int32{turns.StopID()}}
	for id := range int32(tok.VocabSize()) {
		if text := tok.Decode([]int32{id}, false); !tok.IsSpecial(id) && strings.HasSuffix(text, "\n```") {
			c.stops = append(c.stops, id)
		}
	}
	ends := c.written()
	if id, ok := tok.TokenID(endOfText); ok {
		ends = append(ends, id)
	}
	for _, id := range ends {
		if tok.IsSpecial(id) && !c.IsStop(id) {
			c.stops = append(c.stops, id)
		}
	}
	for _, id := range eos {
		if !c.IsStop(id) {
			c.stops = append(c.stops, id)
		}
	}
	return c, nil
}

// NewTinyCodec joins a tokenizer and the template of the tiny preset, [Tiny].
func NewTinyCodec(tok *tokenizer.Tokenizer) (*Codec, error) {
	tmpl, err := Parse(Tiny)
	if err != nil {
		return nil, err
	}
	return NewCodec(tok, tmpl)
}

// written returns ids that hold every control token the template writes around messages.
func (c *Codec) written() []int32 {
	ids := append(c.turns.ObservationIDs("seen", true), c.turns.UserIDs("asked", true)...)
	for _, system := range []string{"", "rules"} {
		if prompt, err := c.Prompt(system, "asked"); err == nil { // not every template takes a system message
			ids = append(ids, prompt...)
		}
	}
	return ids
}

// Tokenizer returns the tokenizer.
func (c *Codec) Tokenizer() *tokenizer.Tokenizer { return c.tok }

// Stops are the ids at which a turn ends; the first is the template's end-of-turn token.
func (c *Codec) Stops() []int32 { return c.stops }

// Prompt returns the ids of the first messages and the header of the model's first turn. An empty system message is left
// to the template.
func (c *Codec) Prompt(system, user string) ([]int32, error) {
	return c.tmpl.Encode(c.tok, Conversation(system, user, nil), nil, true)
}

// Action returns the ids of an action's text, as a demonstration trains them. The last id is the one at which generation would
// stop: the closing fence if that is one token, otherwise the end-of-turn token.
func (c *Codec) Action(text string) ([]int32, error) {
	ids := c.tok.Encode(text)
	if len(ids) == 0 {
		return nil, fmt.Errorf("an action without text has no ids")
	}
	for i, id := range ids {
		if stop := c.IsStop(id); stop && i < len(ids)-1 {
			return nil, fmt.Errorf("action %q: generation would stop inside it", text)
		} else if stop {
			return ids, nil
		}
	}
	return append(ids, c.turns.StopID()), nil
}

// IsStop reports whether a turn ends at the id.
func (c *Codec) IsStop(id int32) bool {
	for _, s := range c.stops {
		if s == id {
			return true
		}
	}
	return false
}

// Observation returns the ids between the model's turn, whose last sampled id is given, and its next turn.
func (c *Codec) Observation(text string, last int32) []int32 {
	return c.turns.ObservationIDs(text, last == c.turns.StopID())
}

// Text returns what sampled ids say, control tokens left out.
func (c *Codec) Text(sampled []int32) string { return c.tok.Decode(sampled, true) }

// Exchange is one turn of a played episode: the action's text, and the observation ("" after the last action).
type Exchange struct{ Action, Observation string }

// Conversation returns a played episode as the messages that the template renders: those of the prompt, and then an action of the assistant and
// the tool's observation by turns. It ends with the last action. An empty system message is left to the template. The template's rendering of
// them and the ids of [Codec.Episode] are the same text, up to the end of the last message.
func Conversation(system, user string, turns []Exchange) []Message {
	var out []Message
	if system != "" {
		out = append(out, Message{Role: "system", Content: system})
	}
	out = append(out, Message{Role: "user", Content: user})
	for i, t := range turns {
		out = append(out, Message{Role: "assistant", Content: t.Action})
		if i < len(turns)-1 {
			out = append(out, Message{Role: "tool", Content: t.Observation})
		}
	}
	return out
}

// Episode returns the ids of a whole episode and a mask that is 1 on the ids of actions, exactly as a rollout that samples
// those actions would have them.
func (c *Codec) Episode(system, user string, turns []Exchange) (ids []int32, mask []uint8, err error) {
	if ids, err = c.Prompt(system, user); err != nil {
		return nil, nil, err
	}
	mask = make([]uint8, len(ids))
	for i, t := range turns {
		action, err := c.Action(t.Action)
		if err != nil {
			return nil, nil, fmt.Errorf("turn %d: %w", i, err)
		}
		for range action {
			mask = append(mask, 1)
		}
		ids = append(ids, action...)
		if i == len(turns)-1 {
			break
		}
		obs := c.Observation(t.Observation, action[len(action)-1])
		ids, mask = append(ids, obs...), append(mask, make([]uint8, len(obs))...)
	}
	return ids, mask, nil
}
