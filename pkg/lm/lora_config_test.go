package lm

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// Options that this package does not compute, and unknown options, are refused by name. Options that do not change the arithmetic, and
// options that are off, are accepted.
func TestAdapterOptions(t *testing.T) {
	with := func(more string) []byte {
		return []byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]` + more + `}`)
	}
	for option, values := range map[string][]string{
		"init_lora_weights": {`"pissa"`, `"pissa_niter_16"`, `"olora"`, `"loftq"`, `"corda"`, `"eva"`, `"lora_ga"`, `1`},
		"use_dora":          {"true", `"yes"`}, "bias": {`"all"`, `"lora_only"`}, "rank_pattern": {`{"q_proj": 8}`}, "alpha_pattern": {`{"q_proj": 1}`},
		"modules_to_save": {`["lm_head"]`}, "layers_to_transform": {"[0]", "0"}, "layers_pattern": {`"layers"`}, "exclude_modules": {`["k_proj"]`},
		"loftq_config": {`{"loftq_bits": 4}`}, "layer_replication": {"[[0, 1]]"}, "trainable_token_indices": {"[1]"}, "task_type": {`"SEQ_CLS"`},
		"fan_in_fan_out": {"true"}, "use_frobnication": {"false", "null"}, "R": {"8"}, "use_rslora": {`"yes"`, "1"}, "lora_alpha_": {"1"},
	} {
		for _, v := range values {
			in := with(fmt.Sprintf(", %q: %s", option, v))
			if _, err := ParseAdapterConfig(in); err == nil || !strings.Contains(err.Error(), option) {
				t.Errorf("%s: error %v, want one that names %s", in, err, option)
			}
		}
	}
	for _, more := range []string{"", `, "init_lora_weights": "gaussian"`, `, "init_lora_weights": false`, `, "init_lora_weights": null`, `, "loftq_config": { }`,
		`, "lora_dropout": 0.1, "inference_mode": false, "revision": "main", "peft_version": "0.21.2", "megatron_core": "megatron.core"`, `, "rank_pattern": null`} {
		a, err := ParseAdapterConfig(with(more))
		if err != nil || a.Rank != 4 || a.Alpha != 8 || a.RSLoRA {
			t.Errorf("%s: %+v, %v", more, a, err)
		}
	}
	// What PEFT itself writes.
	files, err := fs.Glob(os.DirFS("."), "testdata/lora/*/adapter_config.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseAdapterConfig(b); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	// And what is written here.
	b, err := (&AdapterConfig{Rank: 2, Alpha: 4, TargetModules: []string{"q_proj"}}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseAdapterConfig(b); err != nil {
		t.Errorf("%s: %v", b, err)
	}
}

// FuzzAdapterConfig: no text makes reading panic, and what is taken has a scale.
func FuzzAdapterConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "use_rslora": true}`))
	f.Add([]byte(`{"peft_type": "LORA", "r": 1, "lora_alpha": 1e308, "target_modules": "all-linear", "rank_pattern": {}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAdapterConfig(b)
		if err == nil && (a.Rank < 1 || a.Scale() != a.Scale()) {
			t.Errorf("%q is taken as %+v", b, a)
		}
	})
}
