package lm

import (
	"context"
	"math"
	"runtime"
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
		run := func(order []int, s Sampling) [][]GenerateResult {
			out := make([][]GenerateResult, len(prompts))
			for turn := range 2 {
				var appends []AppendRequest
				var gens []GenerateRequest
				for slot, i := range order {
					ids := prompts[i]
					if turn == 1 {
						ids = prompts[(i+1)%8][:1+i*3] // an observation of a length of its own
					}
					appends = append(appends, AppendRequest{slot, ids})
					gens = append(gens, GenerateRequest{Slot: slot, MaxNewTokens: 12, Sampling: s, Seed: uint64(10*i + turn)})
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
					for name, got := range map[string]GenerateResult{"in a batch of eight": together[i][turn], "in another order": turned[i][turn]} {
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

// After every shape was used once, episodes of new lengths compile no graph and leave no memory in use. The test runs on the Go
// backend, whose buffers the Go runtime counts.
func TestMemoryIsFlat(t *testing.T) {
	b := goBackend(t)
	c := smallConfig()
	c.Layers = 1
	m, err := NewRandom(b, c, 22)
	if err != nil {
		t.Fatal(err)
	}
	e := mustEngine(t, m, EngineOptions{Slots: 4, MaxContext: 200, PrefillTokens: []int{16, 64}, Contexts: []int{100}, Rows: []int{1}})
	used := func(rounds, from int) (heap int64, graphs int) {
		for round := range rounds {
			for turn := range 2 {
				var appends []AppendRequest
				var gens []GenerateRequest
				for slot := range 4 {
					n := 1 + (from+7*round+13*slot+29*turn)%60
					if turn == 0 {
						n = 1 + (from+11*round+31*slot)%100
					}
					appends = append(appends, AppendRequest{slot, make([]int32, n)})
					gens = append(gens, GenerateRequest{Slot: slot, MaxNewTokens: 1 + (round+slot)%4})
				}
				if turn == 0 { // a group: three slots share the first one's prompt
					appends = appends[:1]
				}
				if err := e.Append(appends); err != nil {
					t.Fatal(err)
				}
				if turn == 0 {
					if err := e.Fork(0, 1, 2, 3); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := e.Generate(context.Background(), gens); err != nil {
					t.Fatal(err)
				}
			}
			for slot := range 4 {
				e.Release(slot)
			}
		}
		var s runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc), e.Compilations()
	}
	used(30, 0)
	before, graphs := used(5, 3)
	after, again := used(30, 5)
	t.Logf("%d graphs, %d KB before and %d KB after 120 episodes of other lengths", graphs, before>>10, after>>10)
	if again != graphs || graphs > e.MaxCompilations(1) {
		t.Errorf("%d graphs, then %d; the buckets allow %d", graphs, again, e.MaxCompilations(1))
	}
	if grown := after - before; grown > 256<<10 {
		t.Errorf("120 episodes left %d KB behind", grown>>10)
	}
}
