package lm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Config is a Qwen2 decoder's architecture: RMSNorm before each block, rotary positions, grouped-query attention with
// biases on q, k and v, SwiGLU, and an output head that may share the embedding.
type Config struct {
	Vocab, Hidden, Layers, Heads, KVHeads, HeadDim, FFN int
	// RopeTheta is the base of the rotary frequencies theta^(-2i/HeadDim).
	RopeTheta float64
	// Eps is added to the mean square inside RMSNorm's root.
	Eps float64
	// Tied means that the output head is the embedding matrix.
	Tied bool
	// MaxPositions is the context length that the model was made for.
	MaxPositions int
	// EOS are the ids that end a generation, Pad fills rows; -1 when the file names none.
	EOS []int32
	Pad int32
	// BF16Rotary rounds the rotary frequencies to bfloat16, as PyTorch computes them after a whole model, buffers
	// included, was cast to bfloat16. It is not part of config.json: a checkpoint that is merely stored in bfloat16
	// and loaded the usual way has float32 frequencies, and false is right for it.
	BF16Rotary bool
}

// rawConfig mirrors config.json; pointers tell a missing field from a zero.
type rawConfig struct {
	Architectures  []string        `json:"architectures"`
	ModelType      string          `json:"model_type"`
	HiddenAct      string          `json:"hidden_act"`
	VocabSize      *int            `json:"vocab_size"`
	HiddenSize     *int            `json:"hidden_size"`
	Layers         *int            `json:"num_hidden_layers"`
	Heads          *int            `json:"num_attention_heads"`
	KVHeads        *int            `json:"num_key_value_heads"`
	HeadDim        *int            `json:"head_dim"`
	FFN            *int            `json:"intermediate_size"`
	Eps            *float64        `json:"rms_norm_eps"`
	RopeTheta      *float64        `json:"rope_theta"`
	RopeParameters *ropeParameters `json:"rope_parameters"`
	RopeScaling    *ropeParameters `json:"rope_scaling"`
	Tied           *bool           `json:"tie_word_embeddings"`
	MaxPositions   *int            `json:"max_position_embeddings"`
	SlidingWindow  bool            `json:"use_sliding_window"`
	LayerTypes     []string        `json:"layer_types"`
	Quantization   json.RawMessage `json:"quantization_config"`
	EOS            json.RawMessage `json:"eos_token_id"`
	Pad            *int32          `json:"pad_token_id"`
}

type ropeParameters struct {
	Theta *float64 `json:"rope_theta"`
	Type  string   `json:"rope_type"`
	Old   string   `json:"type"`
}

// ReadConfig reads config.json of a model folder, as transformers 4 (top-level rope_theta) or 5 (rope_parameters)
// writes it. An unknown architecture, a missing field or an unsupported option is an error that names the field.
func ReadConfig(dir string) (*Config, error) {
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("model config: %w (a model is a local folder; nothing is downloaded)", err)
	}
	c, err := ParseConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig parses the text of a config.json.
func ParseConfig(b []byte) (*Config, error) {
	var r rawConfig
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	if err := r.supported(); err != nil {
		return nil, err
	}
	theta := r.RopeTheta
	if r.RopeParameters != nil && r.RopeParameters.Theta != nil {
		theta = r.RopeParameters.Theta
	}
	for _, f := range []struct {
		name string
		miss bool
	}{
		{"vocab_size", r.VocabSize == nil}, {"hidden_size", r.HiddenSize == nil}, {"num_hidden_layers", r.Layers == nil},
		{"num_attention_heads", r.Heads == nil}, {"num_key_value_heads", r.KVHeads == nil}, {"intermediate_size", r.FFN == nil},
		{"rms_norm_eps", r.Eps == nil}, {"rope_theta (or rope_parameters.rope_theta)", theta == nil},
		{"tie_word_embeddings", r.Tied == nil}, {"max_position_embeddings", r.MaxPositions == nil},
	} {
		if f.miss {
			return nil, fmt.Errorf("no field %s", f.name)
		}
	}
	c := &Config{
		Vocab: *r.VocabSize, Hidden: *r.HiddenSize, Layers: *r.Layers, Heads: *r.Heads, KVHeads: *r.KVHeads, FFN: *r.FFN,
		RopeTheta: *theta, Eps: *r.Eps, Tied: *r.Tied, MaxPositions: *r.MaxPositions, Pad: -1,
	}
	if r.Pad != nil {
		c.Pad = *r.Pad
	}
	if r.HeadDim != nil {
		c.HeadDim = *r.HeadDim
	} else if c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	var err error
	if c.EOS, err = ids(r.EOS); err != nil {
		return nil, fmt.Errorf("eos_token_id: %w", err)
	}
	return c, c.Check()
}

// supported refuses what this decoder would compute wrongly.
func (r *rawConfig) supported() error {
	if r.ModelType != "qwen2" {
		return fmt.Errorf("model_type %q is not supported; want \"qwen2\"", r.ModelType)
	}
	if len(r.Architectures) > 0 && !slices.Contains(r.Architectures, "Qwen2ForCausalLM") {
		return fmt.Errorf("architectures %q are not supported; want \"Qwen2ForCausalLM\"", r.Architectures)
	}
	if r.HiddenAct != "" && r.HiddenAct != "silu" {
		return fmt.Errorf("hidden_act %q is not supported; want \"silu\"", r.HiddenAct)
	}
	if r.SlidingWindow {
		return fmt.Errorf("use_sliding_window true is not supported")
	}
	for i, t := range r.LayerTypes {
		if t != "full_attention" {
			return fmt.Errorf("layer_types[%d] %q is not supported; want \"full_attention\"", i, t)
		}
	}
	if len(r.Quantization) > 0 && string(r.Quantization) != "null" {
		return fmt.Errorf("quantization_config is not supported; give a folder with f32, f16 or bf16 weights")
	}
	for name, p := range map[string]*ropeParameters{"rope_parameters": r.RopeParameters, "rope_scaling": r.RopeScaling} {
		if p != nil && (p.Type != "" && p.Type != "default" || p.Old != "" && p.Old != "default") {
			return fmt.Errorf("%s: rope type %q is not supported; want \"default\"", name, p.Type+p.Old)
		}
	}
	return nil
}

// ids reads a token id or a list of them; null is an empty list.
func ids(raw json.RawMessage) ([]int32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '[' {
		var list []int32
		return list, json.Unmarshal(raw, &list)
	}
	var one int32
	if err := json.Unmarshal(raw, &one); err != nil {
		return nil, err
	}
	return []int32{one}, nil
}

// Check reports sizes that make no decoder, naming the field as config.json does.
func (c *Config) Check() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"vocab_size", c.Vocab}, {"hidden_size", c.Hidden}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"intermediate_size", c.FFN}, {"max_position_embeddings", c.MaxPositions},
	} {
		if f.value <= 0 {
			return fmt.Errorf("%s is %d, want more than 0", f.name, f.value)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("head_dim %d is odd; rotary positions need pairs", c.HeadDim)
	}
	if !(c.RopeTheta > 0) {
		return fmt.Errorf("rope_theta is %v, want more than 0", c.RopeTheta)
	}
	if !(c.Eps > 0) {
		return fmt.Errorf("rms_norm_eps is %v, want more than 0", c.Eps)
	}
	return nil
}

// MarshalJSON writes the keys that both generations of transformers read.
func (c *Config) MarshalJSON() ([]byte, error) {
	m := map[string]any{
		"architectures": []string{"Qwen2ForCausalLM"}, "model_type": "qwen2", "hidden_act": "silu", "attention_dropout": 0.0,
		"vocab_size": c.Vocab, "hidden_size": c.Hidden, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads,
		"num_key_value_heads": c.KVHeads, "head_dim": c.HeadDim, "intermediate_size": c.FFN, "rms_norm_eps": c.Eps,
		"rope_theta": c.RopeTheta, "tie_word_embeddings": c.Tied, "max_position_embeddings": c.MaxPositions,
		"use_sliding_window": false, "torch_dtype": "float32", "use_cache": true,
	}
	switch len(c.EOS) {
	case 0:
	case 1:
		m["eos_token_id"] = c.EOS[0]
	default:
		m["eos_token_id"] = c.EOS
	}
	if c.Pad >= 0 {
		m["pad_token_id"] = c.Pad
	}
	return json.Marshal(m)
}

// Param is the name and shape of one parameter, as checkpoints have it: matrices are [out, in].
type Param struct {
	Name  string
	Shape []int
}

// Params lists every parameter in a fixed order: embedding, layers, final norm, head. Weights keep this order.
func (c *Config) Params() []Param {
	ps := []Param{{embedName, []int{c.Vocab, c.Hidden}}}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for l := range c.Layers {
		at := fmt.Sprintf("model.layers.%d.", l)
		ps = append(ps,
			Param{at + "input_layernorm.weight", []int{c.Hidden}},
			Param{at + "self_attn.q_proj.weight", []int{q, c.Hidden}}, Param{at + "self_attn.q_proj.bias", []int{q}},
			Param{at + "self_attn.k_proj.weight", []int{kv, c.Hidden}}, Param{at + "self_attn.k_proj.bias", []int{kv}},
			Param{at + "self_attn.v_proj.weight", []int{kv, c.Hidden}}, Param{at + "self_attn.v_proj.bias", []int{kv}},
			Param{at + "self_attn.o_proj.weight", []int{c.Hidden, q}},
			Param{at + "post_attention_layernorm.weight", []int{c.Hidden}},
			Param{at + "mlp.gate_proj.weight", []int{c.FFN, c.Hidden}}, Param{at + "mlp.up_proj.weight", []int{c.FFN, c.Hidden}},
			Param{at + "mlp.down_proj.weight", []int{c.Hidden, c.FFN}})
	}
	ps = append(ps, Param{normName, []int{c.Hidden}})
	if !c.Tied {
		ps = append(ps, Param{headName, []int{c.Vocab, c.Hidden}})
	}
	return ps
}

const (
	embedName = "model.embed_tokens.weight"
	normName  = "model.norm.weight"
	headName  = "lm_head.weight"
)
