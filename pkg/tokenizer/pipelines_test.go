package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"testing"
)

// testdata/pipelines.json changes fields of the 512-token tokenizer of the fixtures; pipelines.jsonl is what the
// tokenizers library, version 0.23.3, makes of some strings with each. They cover what one file does not: flags of added
// tokens, other splits and normalizers, no decoder, an unknown token.
func TestOtherPipelines(t *testing.T) {
	var changes map[string]map[string]json.RawMessage
	readJSON(t, "testdata/pipelines.json", &changes)
	base := map[string]json.RawMessage{}
	readJSON(t, "testdata/tiny_qwen2/tied/tokenizer.json", &base)
	toks := map[string]*Tokenizer{}
	for name, change := range changes {
		f := maps.Clone(base)
		for field, v := range change {
			if field != "model" {
				f[field] = v
				continue
			}
			var m, over map[string]json.RawMessage
			unmarshal(t, base["model"], &m)
			unmarshal(t, v, &over)
			maps.Copy(m, over)
			f["model"] = marshal(m)
		}
		tok, err := Parse(marshal(f))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		toks[name] = tok
	}
	type row struct {
		encodeRow
		Pipeline string
	}
	for _, r := range localRows[row](t, "testdata/pipelines.jsonl") {
		tok := toks[r.Pipeline]
		if tok == nil {
			t.Fatalf("no pipeline %q", r.Pipeline)
		}
		t.Run(r.Pipeline, func(t *testing.T) { checkEncode(t, tok, []encodeRow{r.encodeRow}) })
	}
}

// testdata/tiny.json was made by TrainTiny; tiny.jsonl is what the tokenizers library, version 0.23.3, makes of
// strings with it.
func TestTinyIsTheReference(t *testing.T) {
	tok, err := Load("testdata/tiny.json")
	if err != nil {
		t.Fatal(err)
	}
	checkEncode(t, tok, localRows[encodeRow](t, "testdata/tiny.jsonl"))
	if again := trainCorpus(t); string(again.JSON()) != string(tok.JSON()) {
		t.Error("TrainTiny makes another file than testdata/tiny.json: make it and tiny.jsonl again, with the library")
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	unmarshal(t, b, v)
}

func unmarshal(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}
