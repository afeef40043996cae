package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// decoderChain turns tokens back into text. Some steps rewrite single tokens, then byteLevel joins the tokens into one string
// of bytes, then other steps rewrite that string.
type decoderChain struct {
	none      bool // the file has no decoder: tokens are joined with spaces
	byteLevel bool
	before    []func(string) string // on each token
	after     []func(string) string // on the joined text; only with byteLevel or fuse
	tiny      bool                  // the steps after are those that TrainTiny writes
}

func parseDecoder(raw json.RawMessage) (*decoderChain, error) {
	if isNull(raw) {
		return &decoderChain{none: true}, nil
	}
	c := &decoderChain{}
	joined := false
	var add func(raw json.RawMessage) error
	add = func(raw json.RawMessage) error {
		typ, err := typeOf(raw)
		if err != nil {
			return err
		}
		switch typ {
		case "ByteLevel":
			if joined {
				return fmt.Errorf("a ByteLevel after the tokens are joined is not supported")
			}
			c.byteLevel, joined = true, true
		case "Fuse":
			joined = true
		case "Replace":
			var v struct {
				Pattern *pattern `json:"pattern"`
				Content string   `json:"content"`
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				return fmt.Errorf("in Replace: %w", err)
			}
			if v.Pattern == nil {
				return fmt.Errorf(`in Replace: field "pattern" is missing`)
			}
			step := func(s string) string { return v.Pattern.replace(s, v.Content) }
			if joined {
				c.after = append(c.after, step)
			} else {
				c.before = append(c.before, step)
			}
		case "Sequence":
			var v struct {
				Decoders []json.RawMessage `json:"decoders"`
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				return err
			}
			for i, r := range v.Decoders {
				if err := add(r); err != nil {
					return fmt.Errorf("in Sequence[%d]: %w", i, err)
				}
			}
		default:
			return fmt.Errorf("type %q is not supported (ByteLevel, Fuse, Replace, Sequence are)", typ)
		}
		return nil
	}
	if err := add(raw); err != nil {
		return nil, err
	}
	c.tiny = isTinyDecoder(raw)
	return c, nil
}

// bytesOf returns the bytes that one token adds to the joined text.
func (c *decoderChain) bytesOf(tok string) []byte {
	for _, f := range c.before {
		tok = f(tok)
	}
	if c.byteLevel {
		return fromByteLevel(tok)
	}
	return []byte(tok)
}

func (c *decoderChain) finish(s string) string {
	for _, f := range c.after {
		s = f(s)
	}
	return s
}

// Decode returns the text of ids. Ids that no token has give nothing; bytes that are not UTF-8 give U+FFFD. With
// skipSpecial, control tokens give nothing.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	d := t.NewDecoder(skipSpecial)
	var buf []byte
	first := true
	for _, id := range ids {
		tok, ok := d.token(id)
		if !ok {
			continue
		}
		if t.decode.none && !first {
			buf = append(buf, ' ')
		}
		first = false
		buf = append(buf, t.decode.bytesOf(tok)...)
	}
	var sb strings.Builder
	validPrefix(&sb, buf, true)
	return t.decode.finish(sb.String())
}

// Decoder decodes a stream of ids. The concatenation of what Push and Flush return is what Decode returns for all the
// ids. It is not safe for concurrent use.
type Decoder struct {
	t           *Tokenizer
	skipSpecial bool
	first       bool
	pending     []byte // the start of a character, or bytes not looked at yet
	text        strings.Builder
	context     string // tiny: the end of the joined text that was already given out
	held        []byte // joined text that later tokens may still change
}

// NewDecoder starts a stream.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skipSpecial: skipSpecial, first: true}
}

func (d *Decoder) token(id int32) (string, bool) {
	if d.skipSpecial && d.t.IsSpecial(id) {
		return "", false
	}
	return d.t.IDToken(id)
}

// Push takes the next id and returns the text that later ids cannot change. It withholds a character until all its bytes are
// there.
func (d *Decoder) Push(id int32) string {
	tok, ok := d.token(id)
	if !ok {
		return ""
	}
	if d.t.decode.none && !d.first {
		d.pending = append(d.pending, ' ')
	}
	d.first = false
	d.pending = append(d.pending, d.t.decode.bytesOf(tok)...)
	return d.drain(false)
}

// Flush ends the stream and returns what was withheld; an incomplete character is U+FFFD. The Decoder is then ready
// for another stream.
func (d *Decoder) Flush() string {
	out := d.drain(true)
	*d = Decoder{t: d.t, skipSpecial: d.skipSpecial, first: true}
	return out
}

func (d *Decoder) drain(final bool) string {
	d.text.Reset()
	n := validPrefix(&d.text, d.pending, final)
	d.pending = append(d.pending[:0], d.pending[n:]...)
	got := d.text.String()
	c := d.t.decode
	if len(c.after) == 0 {
		return got
	}
	d.held = append(d.held, got...)
	switch {
	case final && !c.tiny:
		return c.finish(string(d.held))
	case !c.tiny: // a step may look any distance ahead
		return ""
	case !final && tinyReady(got) == "": // held as a whole, as what it follows is
		return ""
	}
	ready := string(d.held)
	if !final {
		ready = tinyReady(ready)
	}
	d.held = append(d.held[:0], d.held[len(ready):]...)
	if ready == "" {
		return ""
	}
	before := c.finish(d.context)
	out := strings.TrimPrefix(c.finish(d.context+ready), before)
	d.context = tinyContext(d.context + ready)
	return out
}
