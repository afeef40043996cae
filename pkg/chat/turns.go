package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// Turns gives the ids between two turns of the model, so that
//
//	prompt ids + sampled ids + ObservationIDs(...) + sampled ids + ...
//
// is the context, and equals the ids of the rendered conversation whenever the sampled ids are the ones that encoding
// their text gives. It is safe for concurrent use.
type Turns struct {
	tok  *tokenizer.Tokenizer
	stop int32
	// The text of the template around an observation, from the assistant's end token to the next header, and around the
	// message of a user.
	tool, user frame
}

type frame struct{ before, after string }

// NewTurns learns the separators of a template by rendering a conversation with it. The template must end an assistant
// message with a control token.
func NewTurns(tok *tokenizer.Tokenizer, t *Template) (*Turns, error) {
	n := &Turns{tok: tok}
	var err error
	if n.tool, err = frameOf(t, "tool"); err != nil {
		return nil, err
	}
	if n.user, err = frameOf(t, "user"); err != nil {
		return nil, err
	}
	ids := tok.Encode(n.tool.before)
	if len(ids) == 0 || !tok.IsSpecial(ids[0]) {
		return nil, fmt.Errorf("chat template: an assistant message ends with %.20q, which is no control token of the tokenizer", n.tool.before)
	}
	n.stop = ids[0]
	end, _ := tok.IDToken(n.stop)
	for _, f := range []*frame{&n.tool, &n.user} {
		var ok bool
		if f.before, ok = strings.CutPrefix(f.before, end); !ok {
			return nil, fmt.Errorf("chat template: an assistant message ends with %q before a tool's message and not before a user's", end)
		}
	}
	return n, nil
}

func frameOf(t *Template, role string) (frame, error) {
	const said, seen = "assistant-said-this", "then-it-saw-this"
	text, err := t.Render([]Message{
		{Role: "user", Content: "q"}, {Role: "assistant", Content: said}, {Role: role, Content: seen},
	}, nil, true)
	if err != nil {
		return frame{}, err
	}
	_, rest, ok := strings.Cut(text, said)
	if !ok {
		return frame{}, errors.New("chat template: it does not print the assistant's content")
	}
	before, after, ok := strings.Cut(rest, seen)
	if !ok {
		return frame{}, fmt.Errorf("chat template: it does not print the content of role %q", role)
	}
	return frame{before, after}, nil
}

// StopID is the control token that ends an assistant message.
func (n *Turns) StopID() int32 { return n.stop }

// ObservationIDs returns the ids that follow the model's turn: the end of its message, the observation, and the header of the next
// turn. ended says that the model sampled the end-of-turn token itself. If it did not (generation stopped at another token or at
// a limit), that token is the first id. Control tokens in the observation are spelled as text.
func (n *Turns) ObservationIDs(observation string, ended bool) []int32 {
	return n.ids(n.tool, observation, ended)
}

// UserIDs is ObservationIDs for a message of the user.
func (n *Turns) UserIDs(message string, ended bool) []int32 { return n.ids(n.user, message, ended) }

func (n *Turns) ids(f frame, content string, ended bool) []int32 {
	var ids []int32
	if !ended {
		ids = append(ids, n.stop)
	}
	return append(ids, n.tok.EncodeParts(
		tokenizer.Part{Text: f.before}, tokenizer.Part{Text: content, Ordinary: true}, tokenizer.Part{Text: f.after})...)
}

// ObservationIDs is Turns.ObservationIDs for one use.
func (t *Template) ObservationIDs(tok *tokenizer.Tokenizer, observation string, ended bool) ([]int32, error) {
	n, err := NewTurns(tok, t)
	if err != nil {
		return nil, err
	}
	return n.ObservationIDs(observation, ended), nil
}
