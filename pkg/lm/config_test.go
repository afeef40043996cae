package lm

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// Both generations of transformers name the same things; what is written is read back.
func TestConfigStyles(t *testing.T) {
	for _, name := range []string{"tied", "untied"} {
		c, err := ReadConfig(fixtures.Dir(t, "tiny_qwen2/"+name))
		if err != nil {
			t.Fatal(err)
		}
		if c.RopeTheta <= 1 || c.HeadDim*c.Heads != c.Hidden || len(c.EOS) != 1 || c.Pad < 0 || c.Tied != (name == "tied") {
			t.Errorf("%s: %+v", name, c)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseConfig(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("%s: wrote %+v, read %+v", name, c, again)
		}
	}
	c := smallConfig()
	c.HeadDim = 8 // not hidden / heads
	c.EOS, c.Pad = []int32{5, 6}, 7
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseConfig(b); err != nil || !reflect.DeepEqual(c, again) {
		t.Errorf("wrote %+v, read %+v (%v)", c, again, err)
	}
}

func TestConfigErrors(t *testing.T) {
	b, err := json.Marshal(smallConfig())
	if err != nil {
		t.Fatal(err)
	}
	change := func(key string, value any) []byte {
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if value == nil {
			delete(m, key)
		} else {
			m[key] = value
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, field := range []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "max_position_embeddings"} {
		if _, err := ParseConfig(change(field, nil)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s: error %v", field, err)
		}
	}
	for want, in := range map[string][]byte{
		"model_type":            change("model_type", "llama"),
		"architectures":         change("architectures", []string{"LlamaForCausalLM"}),
		"hidden_act":            change("hidden_act", "gelu"),
		"use_sliding_window":    change("use_sliding_window", true),
		"layer_types[0]":        change("layer_types", []string{"sliding_attention"}),
		"quantization_config":   change("quantization_config", map[string]any{"load_in_4bit": true}),
		"rope_scaling":          change("rope_scaling", map[string]any{"type": "yarn", "factor": 4}),
		"rope_parameters":       change("rope_parameters", map[string]any{"rope_type": "yarn", "rope_theta": 1e6}),
		"num_attention_heads 6": change("num_key_value_heads", 4),
		"head_dim 5":            change("head_dim", 5),
		"rms_norm_eps":          change("rms_norm_eps", -1),
		"hidden_size":           change("hidden_size", -3),
		"eos_token_id":          change("eos_token_id", "x"),
	} {
		if _, err := ParseConfig(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one naming %s", err, want)
		}
	}
	if _, err := ReadConfig("no/such/folder"); err == nil || !strings.Contains(err.Error(), "local folder") {
		t.Errorf("missing folder: error %v", err)
	}
}
