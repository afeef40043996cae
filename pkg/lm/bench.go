package lm

import (
	"context"
	"fmt"
	"time"
)

// BenchRow is one measurement of [Bench].
type BenchRow struct {
	Batch int `json:"batch"`
	// PrefillTokensPerSecond and DecodeTokensPerSecond count the tokens of all rows together.
	PrefillTokensPerSecond float64 `json:"prefill_tokens_per_second"`
	DecodeTokensPerSecond  float64 `json:"decode_tokens_per_second"`
	// CompileSeconds is the time of the first, compiling, round less that of a later one.
	CompileSeconds float64 `json:"compile_seconds"`
	Context        int     `json:"context_tokens"` // prompt and generated
}

// BenchOptions says what [Bench] measures; the zero value is the default written at each field.
type BenchOptions struct {
	Batches  []int         // default 1, 8, 32
	Prompt   int           // tokens of a prompt; default 64
	New      int           // tokens made; default 64: with the prompt, about an episode of the tiny preset
	Duration time.Duration // measured per batch, after warm-up; default 2 s
}

// Bench measures generation with random weights of a configuration: prefill and sampling at temperature 1, at several
// batch sizes. The times are wall-clock and so depend on what else the machine does.
func Bench(b *Backend, c *Config, opt BenchOptions) ([]BenchRow, error) {
	if opt.Batches == nil {
		opt.Batches = []int{1, 8, 32}
	}
	if opt.Prompt == 0 {
		opt.Prompt = 64
	}
	if opt.New == 0 {
		opt.New = 64
	}
	if opt.Duration == 0 {
		opt.Duration = 2 * time.Second
	}
	m, err := NewRandom(b, c, 1)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer m.Weights.Free()
	var out []BenchRow
	for _, n := range opt.Batches {
		row, err := benchBatch(m, n, opt)
		if err != nil {
			return nil, fmt.Errorf("bench: batch %d: %w", n, err)
		}
		out = append(out, row)
	}
	return out, nil
}

func benchBatch(m *Model, n int, opt BenchOptions) (BenchRow, error) {
	row := BenchRow{Batch: n, Context: opt.Prompt + opt.New}
	e, err := NewEngine(m, EngineOptions{
		Slots: n, Rows: []int{n}, MaxContext: row.Context, Contexts: []int{row.Context}, PrefillTokens: []int{opt.Prompt},
	})
	if err != nil {
		return row, err
	}
	defer e.Close()
	prompt := make([]int32, opt.Prompt)
	for i := range prompt {
		prompt[i] = int32(i * 31 % m.Config.Vocab)
	}
	var appends []AppendReq
	var gens []GenReq
	for s := range n {
		appends = append(appends, AppendReq{s, prompt})
		gens = append(gens, GenReq{Slot: s, MaxNew: opt.New, Sampling: Sampling{Temperature: 1}, Seed: uint64(s)})
	}
	round := func() (prefill, decode time.Duration, err error) {
		for s := range n {
			e.Release(s)
		}
		start := time.Now()
		if err := e.Append(appends); err != nil {
			return 0, 0, err
		}
		// The call above returns when the device has the work; its result is ready when it can be read.
		if _, err := Floats(e.cache[0]); err != nil {
			return 0, 0, err
		}
		middle := time.Now()
		_, err = e.Generate(context.Background(), gens)
		return middle.Sub(start), time.Since(middle), err
	}
	p0, d0, err := round()
	if err != nil {
		return row, err
	}
	var prefill, decode time.Duration
	rounds := 0
	for prefill+decode < opt.Duration || rounds == 0 {
		p, d, err := round()
		if err != nil {
			return row, err
		}
		prefill, decode, rounds = prefill+p, decode+d, rounds+1
	}
	tokens := float64(rounds * n)
	row.PrefillTokensPerSecond = tokens * float64(opt.Prompt-1) / prefill.Seconds()
	row.DecodeTokensPerSecond = tokens * float64(opt.New) / decode.Seconds()
	row.CompileSeconds = max(0, (p0 + d0 - (prefill+decode)/time.Duration(rounds)).Seconds())
	return row, nil
}
