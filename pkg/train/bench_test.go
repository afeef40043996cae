package train

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
)

// BenchmarkStep times one whole SFT step of a decoder of the tiny preset's size, and of others, on XLA: packed rows,
// of which three tokens in eight are trained.
func BenchmarkStep(b *testing.B) {
	for _, size := range []struct{ hidden, layers, vocab, rows, length, sequence int }{
		{96, 4, 800, 8, 320, 106}, {96, 4, 800, 8, 384, 110},
		{96, 4, 400, 8, 256, 128}, {96, 4, 400, 4, 512, 128}, {96, 4, 4000, 8, 256, 128}, {256, 4, 2048, 8, 256, 128},
	} {
		b.Run(fmt.Sprintf("d%d_L%d_v%d_%dx%d", size.hidden, size.layers, size.vocab, size.rows, size.length), func(b *testing.B) {
			heads := size.hidden / 32
			m, err := lm.NewRandom(xlaBackend(b), &lm.Config{Vocab: size.vocab, Hidden: size.hidden, Layers: size.layers, Heads: heads, KVHeads: 1,
				HeadDim: 32, FFN: size.hidden * 8 / 3, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 512, Pad: -1}, 1)
			if err != nil {
				b.Fatal(err)
			}
			l, err := newLearner(m, AdamW{WeightDecay: 0.05, MaxGradNorm: 1}, Schedule{LearningRate: 1e-3}, SFTLoss{}.objective(), true)
			if err != nil {
				b.Fatal(err)
			}
			defer l.close()
			r := rng.New(1, "bench")
			batch := newBatch(size.rows, size.length)
			for row := range size.rows {
				for i := range size.length / size.sequence {
					ids, mask := make([]int32, size.sequence), make([]uint8, size.sequence)
					for j := range ids {
						ids[j] = r.Int32N(int32(size.vocab))
						if j%8 < 3 {
							mask[j] = 1
						}
					}
					batch.put(row*size.length+i*size.sequence, int32(i+1), ids, mask, 0, len(ids))
				}
			}
			step := func() {
				if _, err := l.update(weighSFT([]*Batch{batch})); err != nil {
					b.Fatal(err)
				}
			}
			step()
			b.ReportMetric(float64(m.Weights.NumParameters())/1e6, "Mparams")
			began, steps := cpuSeconds(), 0
			for b.Loop() {
				step()
				steps++
			}
			b.ReportMetric(1e3*(cpuSeconds()-began)/float64(steps), "cpu-ms/step")
			b.ReportMetric(float64(batch.Processed)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// cpuSeconds is the processor time of this process: on a busy machine it tells more than the wall clock.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
