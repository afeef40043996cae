// Command parity writes down what this project reads from a run's files: token ids from its tokenizer, and numbers from its weights.
// scripts/parity.py reads the same files with the Python libraries that define their formats, and compares.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/lm/safetensors"
	"github.com/toolroute/toolroute/pkg/tokenizer"
)

func main() {
	folder := flag.String("run", "", "`folder` of a run with a trained model, such as runs/smoke/company")
	out := flag.String("out", "", "`folder` to write encodings.jsonl and tensors.jsonl into")
	most := flag.Int("texts", 5000, "`number` of texts at most")
	flag.Parse()
	err := errors.New("--run and --out are needed")
	if *folder != "" && *out != "" {
		err = write(*folder, *out, *most)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(1)
	}
}

// encoding is a line of encodings.jsonl.
type encoding struct {
	Tokenizer string  `json:"tokenizer"` // path
	Text      string  `json:"text"`
	IDs       []int32 `json:"ids"`
	Decoded   string  `json:"decoded"` // from the ids, special tokens kept
}

// tensor is a line of tensors.jsonl. Values are written in decimal, so that the comparison does not depend on the file's bytes.
type tensor struct {
	File   string    `json:"file"` // path
	Name   string    `json:"name"`
	Shape  []int     `json:"shape"`
	Values []float32 `json:"values"`
}

func write(folder, out string, most int) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var all []string
	seen := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(folder, "episodes"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		return eachString(path, func(s string) {
			if s != "" && !seen[s] {
				seen[s] = true
				all = append(all, s)
			}
		})
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s holds no episodes: play a run first", folder)
	}
	// Spread over the run instead of its first episodes only; and what no episode holds.
	texts := []string{" two  spaces ", "Grüße, 北京 \u00a0 🙂🙂🏽", "\t\n\r\n", "<|user|>x<|im_end|>", "```json\n{\"thought\": \"\"", "A1b22C333", "e\u0301 \ufffd \x00"}
	for i := range min(most, len(all)) {
		texts = append(texts, all[i*len(all)/min(most, len(all))])
	}
	file := filepath.Join(folder, "train", "tokenizer.json")
	tok, err := tokenizer.Load(file)
	if err != nil {
		return err
	}
	err = lines(filepath.Join(out, "encodings.jsonl"), func(put func(any) error) error {
		for _, t := range texts {
			ids := tok.Encode(t)
			if err := put(encoding{file, t, ids, tok.Decode(ids, false)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	models, err := fs.Glob(os.DirFS(folder), "train/*/*/model/model.safetensors") // the folder's own name is no pattern
	if err != nil || len(models) == 0 {
		return fmt.Errorf("%s holds no model: train one first", folder)
	}
	return lines(filepath.Join(out, "tensors.jsonl"), func(put func(any) error) error {
		for _, path := range models {
			if err := tensorsOf(filepath.Join(folder, path), put); err != nil {
				return err
			}
		}
		return nil
	})
}

func tensorsOf(path string, put func(any) error) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, in := range f.Infos() {
		values, shape, err := f.Float32(in.Name)
		if err != nil {
			return err
		}
		if err := put(tensor{path, in.Name, shape, values}); err != nil {
			return err
		}
	}
	return nil
}

// eachString calls fn with every string of every line of a JSONL file, keys left out.
func eachString(path string, fn func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			fn(v)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(v[k])
			}
		}
	}
	dec := json.NewDecoder(bufio.NewReader(f))
	for dec.More() {
		var v any
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		walk(v)
	}
	return nil
}

// lines writes a JSONL file.
func lines(path string, fill func(put func(any) error) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	if err := fill(enc.Encode); err != nil {
		return err
	}
	return w.Flush()
}
