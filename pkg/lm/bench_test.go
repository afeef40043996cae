package lm

import (
	"testing"
	"time"
)

// tinyConfig is the size of model that is trained from scratch on a CPU.
func tinyConfig() *Config {
	return &Config{Vocab: 384, Hidden: 96, Layers: 4, Heads: 3, KVHeads: 1, HeadDim: 32, FFN: 256, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 512, Pad: -1}
}

func BenchmarkGenerate(b *testing.B) {
	be, err := OpenBackend("auto")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		rows, err := Bench(be, tinyConfig(), BenchOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range rows {
			b.Logf("%s batch %2d: prefill %7.0f tokens/s, decode %6.0f tokens/s, compile %.1f s", be.Kind, r.Batch, r.PrefillTokensPerSecond, r.DecodeTokensPerSecond, r.CompileSeconds)
		}
	}
}

func TestBenchMeasuresEveryBatch(t *testing.T) {
	b, err := OpenBackend(KindGo)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Bench(b, smallConfig(), BenchOptions{Batches: []int{1, 2}, Prompt: 8, New: 4, Duration: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for i, r := range rows {
		if r.Batch != i+1 || !(r.PrefillTokensPerSecond > 0) || !(r.DecodeTokensPerSecond > 0) || r.Context != 12 {
			t.Errorf("row %d: %+v", i, r)
		}
	}
}
