// Package tiny makes the tiny preset: a small Qwen2 model trained from scratch, so that the whole story runs on a laptop's
// CPU. It holds what a pretrained model brings along and this one lacks: a tokenizer trained on the suite's own train
// texts, and the copy warm-up, without which a model of this size learns the shape of an answer and never its content.
// The demonstrations that follow, and everything after them, are the same as for any other model.
package tiny
