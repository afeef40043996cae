package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/tokenizer"
)

// LoadCodec reads the codec of a model folder: tokenizer.json, the chat template (see loadTemplate) and the ids that end a turn
// (see [EOS]).
func LoadCodec(dir string) (*Codec, error) {
	tok, err := tokenizer.Load(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	tmpl, err := loadTemplate(filepath.Join(dir, tokenizerConfig))
	if err != nil {
		return nil, err
	}
	eos, err := EOS(dir, tok)
	if err != nil {
		return nil, err
	}
	return NewCodec(tok, tmpl, eos...)
}

const tokenizerConfig = "tokenizer_config.json"

// EOS lists the ids that end a text, as the files of a model folder name them: eos_token_id (a number or a list) in
// generation_config.json and config.json, and eos_token in tokenizer_config.json. A missing file names none.
func EOS(dir string, tok *tokenizer.Tokenizer) ([]int32, error) {
	var out []int32
	add := func(id int32) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	read := func(name string, into any) error {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		return nil
	}
	for _, name := range []string{"generation_config.json", "config.json"} {
		var c struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		if err := read(name, &c); err != nil {
			return nil, err
		}
		if len(c.EOS) == 0 || string(c.EOS) == "null" {
			continue
		}
		var one int32
		var many []int32
		if json.Unmarshal(c.EOS, &one) == nil {
			many = []int32{one}
		} else if err := json.Unmarshal(c.EOS, &many); err != nil {
			return nil, fmt.Errorf("%s: eos_token_id %s is neither an id nor a list of ids", filepath.Join(dir, name), c.EOS)
		}
		for _, id := range many {
			add(id)
		}
	}
	var c struct {
		EOS json.RawMessage `json:"eos_token"`
	}
	if err := read(tokenizerConfig, &c); err != nil {
		return nil, err
	}
	if text, ok := tokenText(c.EOS); ok {
		id, known := tok.TokenID(text)
		if !known {
			return nil, fmt.Errorf("%s: eos_token %q is no token of tokenizer.json", filepath.Join(dir, tokenizerConfig), text)
		}
		add(id)
	}
	return out, nil
}
