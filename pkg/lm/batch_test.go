package lm

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Eight prompts of 12 to 200 tokens give the same tokens together and one by one: the shorter rows of a batch count their
// positions from their own start. Greedy and sampled, in every order of the slots.
func TestLongAndShortPromptsInOneBatch(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	eachBackend(t, func(t *testing.T, b *Backend) {
		c := smallConfig()
		m, err := NewRandom(b, c, 21)
		if err != nil {
			t.Fatal(err)
		}
		var prompts [][]int32
		for i, n := range []int{200, 12, 13, 64, 65, 127, 31, 160} {
			r := rng.New(4, "prompt", i)
			ids := make([]int32, n)
			for j := range ids {
				ids[j] = r.Int32N(int32(c.Vocab))
			}
			prompts = append(prompts, ids)
		}
		opt := EngineOptions{Slots: 8, MaxContext: 256, DecodeTokens: 8, PrefillTokens: []int{64}, Contexts: []int{256}, Rows: []int{1, 8}}
		e := mustEngine(t, m, opt)
		run := func(order []int, s Sampling) [][]GenResult {
			out := make([][]GenResult, len(prompts))
			for turn := range 2 {
				var appends []AppendReq
				var gens []GenReq
				for slot, i := range order {
					ids := prompts[i]
					if turn == 1 {
						ids = prompts[(i+1)%8][:1+i*3] // an observation of a length of its own
					}
					appends = append(appends, AppendReq{slot, ids})
					gens = append(gens, GenReq{Slot: slot, MaxNew: 12, Sampling: s, Seed: uint64(10*i + turn)})
				}
				if err := e.Append(appends); err != nil {
					t.Fatal(err)
				}
				res, err := e.Generate(context.Background(), gens)
				if err != nil {
					t.Fatal(err)
				}
				for slot, i := range order {
					out[i] = append(out[i], res[slot])
				}
			}
			for slot := range order {
				e.Release(slot)
			}
			return out
		}
		for _, s := range []Sampling{{}, {Temperature: 1}} {
			together := run([]int{0, 1, 2, 3, 4, 5, 6, 7}, s)
			turned := run([]int{5, 1, 7, 0, 6, 2, 4, 3}, s)
			for i := range prompts {
				alone := run([]int{i}, s)[i]
				for turn := range alone {
					for name, got := range map[string]GenResult{"in a batch of eight": together[i][turn], "in another order": turned[i][turn]} {
						if !slices.Equal(got.IDs, alone[turn].IDs) {
							t.Errorf("temperature %v, prompt of %d, turn %d, %s: %v, alone %v", s.Temperature, len(prompts[i]), turn, name, got.IDs, alone[turn].IDs)
							continue
						}
						for j, lp := range got.LogProbs {
							if d := math.Abs(float64(lp - alone[turn].LogProbs[j])); d > 1e-4 {
								t.Errorf("temperature %v, prompt of %d, turn %d, %s: log-probability differs by %g", s.Temperature, len(prompts[i]), turn, name, d)
							}
						}
					}
				}
			}
		}
		if n, limit := e.Compilations(), e.MaxCompilations(1); n > limit {
			t.Errorf("%d graphs compiled, the buckets allow %d", n, limit)
		}
	})
}
