// Package bench measures how fast models generate and train on this machine: tokens per second of prefill, of decoding at
// several batch sizes, and of whole optimizer steps. Beside every number it reports the share of processor time that other
// processes took. So the numbers in the documentation can be measured again and compared. The models have random weights,
// because only speed is measured.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/train"
)

// Workload is a model with random weights, and the sizes at which it is measured.
type Workload struct {
	Name         string
	Config       *lm.Config
	PromptTokens int // of every prompt
	NewTokens    int // generated after it, greedily; at least 2
	// Batches are the batch sizes of generation. A check compares the first with the last.
	Batches []int
	// TrainRows rows of TrainLength tokens are one training step. Every token is trained.
	TrainRows, TrainLength int
}

// Options say how carefully to measure. The zero value of a field means the default named there.
type Options struct {
	// Repetitions is the number of timings of which the median is reported; default 3.
	Repetitions int
	// OthersShare is the largest share of the machine's processor time that other processes may take during a timing; default
	// 0.08. A disturbed timing is repeated until TimeLimit. After that it is kept, and the report marks it.
	OthersShare float64
	// TimeLimit is the time after which no timing is repeated; default 8 minutes.
	TimeLimit time.Duration
	// MinDuration is the shortest timing of generation; default 0.3 s. The system counts processor time in hundredths of a
	// second, so a timing repeats shorter calls and takes their mean.
	MinDuration time.Duration
	// MinSpeedup is how many times the smallest batch's tokens per second the largest batch must reach; default 6.
	MinSpeedup float64
	// Log is called with what is being measured; may be nil.
	Log func(format string, a ...any)
}

func (o Options) withDefaults() Options {
	o.Repetitions = cmp.Or(o.Repetitions, 3)
	o.OthersShare = cmp.Or(o.OthersShare, 0.08)
	o.TimeLimit = cmp.Or(o.TimeLimit, 8*time.Minute)
	o.MinDuration = cmp.Or(o.MinDuration, 300*time.Millisecond)
	o.MinSpeedup = cmp.Or(o.MinSpeedup, 6)
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return o
}

// Report is everything that was measured.
type Report struct {
	Backend     string  `json:"backend"`
	Why         string  `json:"backend_source"`
	Machine     Machine `json:"machine"`
	Calibration struct {
		Before Calibration `json:"before"`
		After  Calibration `json:"after"`
	} `json:"calibration"`
	Models  []Model `json:"models"`
	Checks  []Check `json:"checks"`
	Pass    bool    `json:"pass"` // all checks
	Seconds float64 `json:"seconds"`
}

// Machine is where it was measured.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPU  string `json:"cpu"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Model is the measurements of one workload.
type Model struct {
	Name       string     `json:"name"`
	Parameters int        `json:"parameters"`
	Shape      string     `json:"shape"`
	Prompt     int        `json:"prompt_tokens"`
	New        int        `json:"new_tokens"`
	Generation []Generate `json:"generation"`
	Training   Training   `json:"training"`
}

// Generate is the measurement of one batch size. Tokens are those of all rows together.
type Generate struct {
	Batch int `json:"batch"`
	// First is the time from the prompts to the first new token of every row. Rest is the time from there to the last token. All is
	// their sum.
	First Timing `json:"first_token"`
	Rest  Timing `json:"other_tokens"`
	All   Timing `json:"all_tokens"`
	// In tokens per second: Prefill is the prompt tokens over First, Decode the new tokens after the first over Rest, and Overall
	// all new tokens over All.
	Prefill float64 `json:"prefill_tokens_per_second"`
	Decode  float64 `json:"decode_tokens_per_second"`
	Overall float64 `json:"new_tokens_per_second_overall"`
	// CompileSeconds is the time of the first pass, which compiles the graphs.
	CompileSeconds float64 `json:"warmup_seconds"`
}

// Training is the measurement of whole optimizer steps: batch, forward, backward, clipping, AdamW.
type Training struct {
	Rows   int     `json:"rows"`
	Length int     `json:"length"`
	Step   Timing  `json:"step"`
	Tokens float64 `json:"tokens_per_second"`
}

// Check compares a number with the least that is wanted.
type Check struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Want  float64 `json:"at_least"`
	Pass  bool    `json:"pass"`
}

// Run measures all workloads on a backend.
func Run(ctx context.Context, b *lm.Backend, workloads []Workload, opt Options) (Report, error) {
	opt = opt.withDefaults()
	began := time.Now()
	r := Report{Backend: b.Kind, Why: foundIn(b.Why), Pass: true}
	r.Machine = Machine{runtime.GOOS, runtime.GOARCH, cpuModel(), runtime.NumCPU(), runtime.Version()}
	var err error
	if r.Calibration.Before, err = calibrate(b); err != nil {
		return r, fmt.Errorf("bench: calibration: %w", err)
	}
	meter := meter{opt: opt, until: began.Add(opt.TimeLimit)}
	for _, w := range workloads {
		m, err := measure(ctx, b, w, &meter)
		if err != nil {
			return r, fmt.Errorf("bench: %s: %w", w.Name, err)
		}
		r.Models = append(r.Models, m)
		if n := len(m.Generation); n > 1 {
			small, large := m.Generation[0], m.Generation[n-1]
			c := Check{Name: fmt.Sprintf("%s: decoding at batch %d against batch %d", m.Name, large.Batch, small.Batch), Value: large.Decode / small.Decode, Want: opt.MinSpeedup}
			c.Pass = c.Value >= c.Want
			r.Checks, r.Pass = append(r.Checks, c), r.Pass && c.Pass
		}
	}
	if r.Calibration.After, err = calibrate(b); err != nil {
		return r, fmt.Errorf("bench: calibration: %w", err)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

func measure(ctx context.Context, b *lm.Backend, w Workload, meter *meter) (Model, error) {
	c := w.Config
	out := Model{Name: w.Name, Prompt: w.PromptTokens, New: w.NewTokens,
		Shape: fmt.Sprintf("hidden %d, %d layers, %d heads, %d kv, ffn %d, vocab %d", c.Hidden, c.Layers, c.Heads, c.KVHeads, c.FFN, c.Vocab)}
	m, err := lm.NewRandom(b, c, 1)
	if err != nil {
		return out, err
	}
	defer func() { m.Weights.Free() }()
	out.Parameters = m.Weights.NumParameters()
	for _, n := range w.Batches {
		meter.opt.Log("%s: generation, batch %d", w.Name, n)
		g, err := generate(ctx, m, w, n, meter)
		if err != nil {
			return out, fmt.Errorf("batch %d: %w", n, err)
		}
		out.Generation = append(out.Generation, g)
	}
	meter.opt.Log("%s: training", w.Name)
	out.Training, err = trainSteps(ctx, m, w, meter)
	return out, err
}

// generate times a pass in two parts: from the prompts to the first new token of every row, and from there to the last. No row
// stops early. Prefill alone cannot be timed, because only a new token shows that it has ended.
func generate(ctx context.Context, m *lm.Model, w Workload, n int, meter *meter) (Generate, error) {
	g := Generate{Batch: n}
	length := w.PromptTokens + w.NewTokens
	e, err := lm.NewEngine(m, lm.EngineOptions{Slots: n, Rows: []int{n}, MaxContext: length, Contexts: []int{length}, PrefillTokens: []int{w.PromptTokens}})
	if err != nil {
		return g, err
	}
	defer e.Close()
	r := rng.New(1, "bench/prompts", n)
	var appends []lm.AppendRequest
	for s := range n {
		ids := make([]int32, w.PromptTokens)
		for i := range ids {
			ids[i] = r.Int32N(int32(m.Config.Vocab))
		}
		appends = append(appends, lm.AppendRequest{Slot: s, IDs: ids})
	}
	more := func(tokens int) error {
		gens := make([]lm.GenerateRequest, n)
		for s := range n {
			gens[s] = lm.GenerateRequest{Slot: s, MaxNewTokens: tokens}
		}
		out, err := e.Generate(ctx, gens)
		if err == nil && len(out[n-1].IDs) != tokens {
			err = fmt.Errorf("%d tokens were generated, want %d", len(out[n-1].IDs), tokens)
		}
		return err
	}
	pass := func() ([]float64, error) {
		for s := range n {
			e.Release(s)
		}
		began := time.Now()
		if err := e.Append(appends); err != nil {
			return nil, err
		}
		if err := more(1); err != nil {
			return nil, err
		}
		first := time.Since(began).Seconds()
		err := more(w.NewTokens - 1)
		all := time.Since(began).Seconds()
		return []float64{first, all - first, all}, err
	}
	began := time.Now()
	if _, err := pass(); err != nil {
		return g, err
	}
	g.CompileSeconds = time.Since(began).Seconds()
	parts, err := meter.timed(ctx, pass)
	if err != nil {
		return g, err
	}
	g.First, g.Rest, g.All = parts[0], parts[1], parts[2]
	g.Prefill = float64(n*w.PromptTokens) / g.First.Median
	g.Decode = float64(n*(w.NewTokens-1)) / g.Rest.Median
	g.Overall = float64(n*w.NewTokens) / g.All.Median
	return g, nil
}

// trainSteps trains all weights on random tokens. It does not time the first two steps, which compile.
func trainSteps(ctx context.Context, m *lm.Model, w Workload, meter *meter) (Training, error) {
	out := Training{Rows: w.TrainRows, Length: w.TrainLength}
	r := rng.New(1, "bench/training")
	examples := make([]train.Example, 4*w.TrainRows)
	for i := range examples {
		ids, mask := make([]int32, w.TrainLength), make([]uint8, w.TrainLength)
		for j := range ids {
			ids[j], mask[j] = r.Int32N(int32(m.Config.Vocab)), 1
		}
		examples[i] = train.Example{ID: fmt.Sprint(i), IDs: ids, Mask: mask}
	}
	var watch stopwatch
	var kept timings
	cfg := train.SFTConfig{
		Run: train.RunConfig{MaxSteps: 1 << 20, Progress: func(s train.StepLog) error {
			if s.Step > 2 {
				if kept.add(watch.stop(), meter) {
					return train.ErrStop
				}
			}
			watch = start()
			return nil
		}},
		Batch:     train.BatchConfig{MicroBatchSize: w.TrainRows, Lengths: []int{w.TrainLength}},
		Optimizer: train.AdamW{MaxGradNorm: 1},
		Schedule:  train.Schedule{LearningRate: 1e-4},
	}
	if _, err := train.SFT(ctx, m, train.Fixed(examples), nil, cfg); err != nil {
		return out, err
	}
	out.Step = kept.timing(meter, 0)
	out.Tokens = float64(w.TrainRows*w.TrainLength) / out.Step.Median
	return out, nil
}

// cpuModel is the processor's name, or "" if the system does not tell it.
func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	return field(string(b), "model name")
}

// foundIn says where a plugin was found. It takes the part in brackets from the backend's reason, and so leaves out the path, which
// means nothing on other machines. A reason without brackets is returned whole.
func foundIn(why string) string {
	if _, where, ok := strings.Cut(why, " ("); ok {
		return strings.TrimSuffix(where, ")")
	}
	return why
}
