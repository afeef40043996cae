// Package tiny makes the tiny preset: a small Qwen2 model that is trained from scratch, so that everything runs on a laptop's
// CPU. It adds what a pretrained model brings along: a tokenizer, trained on the suite's train texts, and copy pre-training.
// Without copy pre-training, a model of this size learns the form of an answer and never its content. Demonstrations, and all
// training after them, are the same as for any other model.
package tiny
