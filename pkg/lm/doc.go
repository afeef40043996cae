// Package lm is the language model: a Qwen2 decoder on GoMLX, its checkpoint folders, LoRA adapters, and batched
// multi-turn generation. It takes token ids and gives token ids; text, templates and tools live elsewhere, and so do
// losses and optimizers.
//
// How it fits together:
//
//   - [OpenBackend] chooses where arithmetic runs: an XLA plugin on a GPU, one on the CPU, or GoMLX's pure Go backend.
//     [Detect] says what was found and how to get the faster one. The client is shared process-wide.
//   - [Config] is the architecture (config.json), [Weights] an ordered list of named tensors that live on the device,
//     [Model] the two together. [Load] and [Model.Save] read and write local Hugging Face folders.
//   - [Decoder] builds graphs. It is functional: parameters come in as [Params], a map from checkpoint names to graph
//     nodes, so one compiled graph serves the policy, a frozen reference and any later weights; nothing is embedded as a
//     constant and nothing is recompiled when weights change. A trainer passes weights as the first inputs of its
//     [Program], differentiates with respect to those nodes, and returns the updated ones, which stay on the device.
//   - [AdapterConfig] and [LoadAdapter] are LoRA in PEFT's format. An adapter's A and B are one more [Weights]; a Decoder
//     with a nil Adapter is the base model.
//   - [Sampling] is how a token is drawn; the graph does it from uniforms that the caller derives from (seed, task,
//     attempt, turn), so neither batch composition nor order changes a row.
//   - [Engine] generates: fixed slots with a key/value cache that lives across turns, prefill in chunks, decoding of many
//     tokens per device call, a few static shapes.
//
// Every exported function returns an error where GoMLX panics.
package lm
