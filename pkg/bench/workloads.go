package bench

import (
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/tiny"
)

// Standard are the documented workloads: the tiny preset at the size of its company tokenizer, and a model of 3.7 million
// parameters on which Python's libraries were measured too. quick is a smoke run: small batches, few tokens.
func Standard(preset tiny.Preset, rows int, lengths []int, quick bool) []Workload {
	length := lengths[len(lengths)-1]
	out := []Workload{
		{Name: "tiny", Config: preset.Config(tinyVocab, 0), Prompt: 256, New: 128, Batches: []int{1, 8, 32}, Rows: rows, Length: length},
		{Name: "peer", Config: peer(), Prompt: 256, New: 128, Batches: []int{1, 8, 32}, Rows: 8, Length: 256},
	}
	if quick {
		for i := range out {
			out[i].Prompt, out[i].New, out[i].Rows, out[i].Length = 32, 16, 2, 64
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
