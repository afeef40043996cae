// Package tokenizer reads, writes and trains tokenizers in the tokenizer.json format, with the same ids and the same
// text as the Hugging Face tokenizers library gives for the file.
//
// It reads byte-level BPE files as Qwen2.5, Llama 3, GPT-2 and SmolLM2 have them, and the greedy WordPiece files that
// [TrainTiny] writes: added tokens with all their flags, normalizers, Split, ByteLevel and Digits pre-tokenizers,
// decoders. What it does not know is an error when the file is loaded, never another result. It applies no
// post-processor: a token such as a start-of-text mark is the chat template's business. It truncates and pads nothing.
//
// Text is a Go string; bytes that are not UTF-8 are read as U+FFFD, one for each.
package tokenizer
