package bench

import (
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/tiny"
)

// Standard returns the workloads of the documentation: the tiny preset with the vocabulary size of the company suite, and a model of
// 3.7 million parameters, on which Python's libraries were measured too. quick makes them small, for a smoke run.
func Standard(preset tiny.Preset, rows int, lengths []int, quick bool) []Workload {
	length := lengths[len(lengths)-1]
	out := []Workload{
		{Name: "tiny", Config: preset.Config(tinyVocab, 0), PromptTokens: 256, NewTokens: 128, Batches: []int{1, 8, 32}, TrainRows: rows, TrainLength: length},
		{Name: "peer", Config: peer(), PromptTokens: 256, NewTokens: 128, Batches: []int{1, 8, 32}, TrainRows: 8, TrainLength: 256},
	}
	if quick {
		for i := range out {
			out[i].PromptTokens, out[i].NewTokens, out[i].TrainRows, out[i].TrainLength = 32, 16, 2, 64
		}
	}
	return out
}

// tinyVocab is about the vocabulary that the tiny preset's tokenizer has for the company suite.
const tinyVocab = 896

// peer is the model that the Python libraries were measured on.
func peer() *lm.Config {
	return &lm.Config{Vocab: 2048, Hidden: 256, Layers: 4, Heads: 4, KVHeads: 2, HeadDim: 64, FFN: 768, RopeTheta: 1e6, Eps: 1e-6, Tied: true, MaxPositions: 1024, Pad: -1}
}
