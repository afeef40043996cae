// Package tokenizer reads, writes and trains tokenizers in the tokenizer.json format. It gives the ids and the text that the
// Hugging Face tokenizers library gives for the same file.
//
// It reads byte-level BPE files, such as those of Qwen2.5, Llama 3, GPT-2 and SmolLM2, and the greedy WordPiece files that
// [TrainTiny] writes: added tokens with all their flags, normalizers, Split, ByteLevel and Digits pre-tokenizers, decoders.
// A file that needs anything else is refused when it is loaded. The package applies no post-processor: the chat template
// writes tokens such as a start-of-text mark. It truncates and pads nothing.
//
// Text is a Go string. Each byte that is not UTF-8 is read as U+FFFD.
package tokenizer
