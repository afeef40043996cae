package lm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// adapterOption says which values of an option of adapter_config.json mean what this package computes.
type adapterOption struct {
	// values are the accepted JSON texts. nil accepts any value: the option does not change the arithmetic.
	values []string
	// read marks an option that AdapterConfig holds.
	read bool
}

// adapterOptions are the options that PEFT writes (0.7 to 0.21). Any other option is refused, because it might change the
// arithmetic. null always means that the option is off.
//
// init_lora_weights says how A and B were initialised. That does not matter for loaded values, except for pissa, olora, corda,
// loftq and lora_ga: those change the weights of the base model too.
var adapterOptions = map[string]adapterOption{
	"peft_type": {read: true}, "r": {read: true}, "lora_alpha": {read: true}, "use_rslora": {read: true}, "target_modules": {read: true},
	"base_model_name_or_path": {read: true},

	"auto_mapping": {}, "inference_mode": {}, "lora_dropout": {}, "megatron_core": {}, "peft_version": {}, "qalora_group_size": {},
	"revision": {}, "runtime_config": {},

	"task_type":         {values: []string{`"CAUSAL_LM"`}},
	"init_lora_weights": {values: []string{"true", "false", `"gaussian"`, `"orthogonal"`}},
	"bias":              {values: []string{`"none"`}},
	"loftq_config":      {values: []string{"{}"}},
	"rank_pattern":      {values: []string{"{}"}},
	"alpha_pattern":     {values: []string{"{}"}},
	"layers_pattern":    {values: []string{"[]", `""`}},
	"exclude_modules":   {values: []string{"[]", `""`}},
	"modules_to_save":   {values: []string{"[]"}},
	"target_parameters": {values: []string{"[]"}},

	"ensure_weight_tying": {values: []string{"false"}}, "fan_in_fan_out": {values: []string{"false"}}, "lora_bias": {values: []string{"false"}},
	"use_bdlora": {values: []string{"false"}}, "use_dora": {values: []string{"false"}}, "use_qalora": {values: []string{"false"}},

	"alora_invocation_tokens": off, "arrow_config": off, "corda_config": off, "eva_config": off, "kasa_config": off, "layer_replication": off,
	"layers_to_transform": off, "lora_ga_config": off, "megatron_config": off, "monteclora_config": off, "trainable_token_indices": off,
	"velora_config": off,
}

// off is an option that is accepted only as null.
var off = adapterOption{values: []string{}}

// ParseAdapterConfig parses the text of an adapter_config.json. A missing field, an option that this package does not compute
// and one that it does not know are errors that name it. lora_dropout is not applied.
func ParseAdapterConfig(b []byte) (*AdapterConfig, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	var kind string
	if err := json.Unmarshal(all["peft_type"], &kind); err != nil || kind != "LORA" {
		return nil, fmt.Errorf("peft_type %s is not supported; want \"LORA\"", all["peft_type"])
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		option, known := adapterOptions[name]
		if !known {
			return nil, fmt.Errorf("%s is no option that is known here: it may change what the adapter computes; take it out if it does not", name)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, all[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if v := compact.String(); v != "null" && option.values != nil && !slices.Contains(option.values, v) {
			return nil, fmt.Errorf("%s %s is not supported", name, v)
		}
	}
	a := &AdapterConfig{}
	for _, f := range []struct {
		name   string
		to     any
		needed bool
	}{{"r", &a.Rank, true}, {"lora_alpha", &a.Alpha, true}, {"use_rslora", &a.RSLoRA, false}, {"base_model_name_or_path", &a.Base, false}} {
		raw := all[f.name]
		if len(raw) == 0 || string(raw) == "null" {
			if f.needed {
				return nil, fmt.Errorf("no field %s", f.name)
			}
			continue
		}
		if err := json.Unmarshal(raw, f.to); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if a.Rank < 1 {
		return nil, fmt.Errorf("r is %d, want at least 1", a.Rank)
	}
	if s := float32(a.Scale()); math.IsInf(float64(s), 0) {
		return nil, fmt.Errorf("lora_alpha is %v: too large", a.Alpha)
	}
	target := all["target_modules"]
	if len(target) == 0 || string(target) == "null" {
		return nil, errors.New("no field target_modules")
	}
	if string(target) == `"all-linear"` {
		a.TargetModules = slices.Clone(AllLinear)
		return a, nil
	}
	if err := json.Unmarshal(target, &a.TargetModules); err != nil {
		return nil, fmt.Errorf("target_modules: want a list of module names or \"all-linear\", got %s", target)
	}
	return a, nil
}
