package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
)

// fixtureBatch lays padded reference rows out as a batch: ids, attention mask and target mask, all [B, T].
func fixtureBatch(ids, attention, on []int64, shape []int) *Batch {
	b := newBatch(shape[0], shape[1])
	for row := range shape[0] {
		var position int32
		for i := range shape[1] {
			at := row*shape[1] + i
			b.IDs[at] = int32(ids[at])
			if attention[at] == 0 {
				continue
			}
			b.Segments[at], b.Positions[at] = 1, position
			position++
			b.Processed++
			if i+1 < shape[1] && attention[at+1] != 0 {
				b.Targets[at], b.Mask[at] = int32(ids[at+1]), float32(on[at+1])
			}
		}
	}
	return b
}

func labelMask(labels []int64) []int64 {
	out := make([]int64, len(labels))
	for i, l := range labels {
		if l != -100 {
			out[i] = 1
		}
	}
	return out
}

func loadTiny(t *testing.T, name string) *lm.Model {
	t.Helper()
	m, err := lm.Load(backend(t), fixtures.Dir(t, "tiny_qwen2/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type trajectory struct {
	Optimizer struct {
		Betas     [2]float64
		Eps       float64
		Decay     float64 `json:"weight_decay"`
		LR        float64
		Clip      float64 `json:"max_grad_norm"`
		Scheduler string  `json:"lr_scheduler_type"`
		Warmup    int     `json:"warmup_steps"`
		MaxSteps  int     `json:"max_steps"`
	}
	LoRA struct {
		R       int
		Alpha   float64
		Targets []string
	}
	MicroLosses []float64 `json:"micro_losses"`
	MicroStep   []int     `json:"micro_optimizer_step"`
	NumItems    []float64 `json:"num_items_in_batch"`
	Steps       []map[string]float64
	// DPO
	Kinds   typeOrTypes `json:"loss_type"`
	Weights []float64   `json:"loss_weights"`
	Beta    float64
	// GRPO
	Epsilon       [2]float64
	Corrected     bool `json:"kl_bias_correction"`
	MaxCompletion int  `json:"max_completion_length"`
	Iterations    int  `json:"num_iterations"`
}

// typeOrTypes is a list that may be written as its only element.
type typeOrTypes []string

func (l *typeOrTypes) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), "[]\n ")
	for _, part := range strings.Split(s, ",") {
		*l = append(*l, strings.Trim(part, "\" \n"))
	}
	return nil
}

// open reads a run and makes the model with the adapter that it starts from.
func openTrajectory(t *testing.T, name string) (trajectory, vectors, *lm.Model) {
	t.Helper()
	var doc trajectory
	fixtures.JSON(t, "traj", name+".json", &doc)
	v := openVectors(t, "traj", name+".safetensors")
	m := loadTiny(t, "tied")
	cfg := &lm.AdapterConfig{Rank: doc.LoRA.R, Alpha: doc.LoRA.Alpha, TargetModules: doc.LoRA.Targets}
	params, err := cfg.Params(m.Config)
	if err != nil {
		t.Fatal(err)
	}
	var ts []safetensors.Tensor
	for _, p := range params {
		data, shape := v.floats("before." + p.Name)
		ts = append(ts, safetensors.Tensor{Name: p.Name, Shape: shape, Data: data})
	}
	if got := len(v.names("before.")); got != len(ts) {
		t.Fatalf("%s: the adapter has %d tensors, the fixture %d", name, len(ts), got)
	}
	w, err := lm.WeightsFromHost(ts)
	if err != nil {
		t.Fatal(err)
	}
	m.Adapter = &lm.Adapter{Config: cfg, Weights: w}
	return doc, v, m
}

func (tr trajectory) optimizer() (AdamW, Schedule) {
	o := tr.Optimizer
	kind := strings.ToLower(strings.TrimPrefix(o.Scheduler, "SchedulerType."))
	return AdamW{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.Decay, MaxGradNorm: o.Clip},
		Schedule{Kind: kind, LearningRate: o.LR, WarmupSteps: o.Warmup, Total: o.MaxSteps}
}

// steps lists the micro-batches of every optimizer step.
func (tr trajectory) steps() [][]int {
	var out [][]int
	for i, s := range tr.MicroStep {
		for len(out) <= s {
			out = append(out, nil)
		}
		out[s] = append(out[s], i)
	}
	return out
}

// trajCheck compares a run with its reference and reports the largest differences.
type trajCheck struct {
	t                    *testing.T
	tolLoss, tolNorm     fixtures.Tolerance
	loss, norm, adapters float64
}

func newTrajCheck(t *testing.T) *trajCheck {
	return &trajCheck{t: t, tolLoss: fixtures.ToleranceOf(t, "traj.loss"), tolNorm: fixtures.ToleranceOf(t, "traj.grad_norm")}
}

func (c *trajCheck) step(i int, r stepResult, wantLoss float64, want map[string]float64) {
	c.t.Helper()
	c.loss = max(c.loss, near(c.t, fmt.Sprintf("loss of step %d", i), c.tolLoss, r.loss, wantLoss))
	c.norm = max(c.norm, near(c.t, fmt.Sprintf("norm of step %d", i), c.tolNorm, r.gradNorm, want["grad_norm"]))
	near(c.t, fmt.Sprintf("lr of step %d", i), fixtures.Tolerance{Abs: 1e-12}, r.lr, want["learning_rate"])
}

func (c *trajCheck) end(v vectors, w *lm.Weights) {
	c.t.Helper()
	tol := fixtures.ToleranceOf(c.t, "traj.adapter")
	host, err := w.Host()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range host {
		want, _ := v.floats("after." + p.Name)
		c.adapters = max(c.adapters, worst(c.t, "after "+p.Name, tol, p.Data, want))
	}
	c.t.Logf("largest differences: loss %.2g, grad norm %.2g, adapter %.2g", c.loss, c.norm, c.adapters)
}

func TestTrajectorySFT(t *testing.T) {
	doc, v, _ := openTrajectory(t, "sft")
	opt, sched := doc.optimizer()
	steps := make([][]*Batch, len(doc.steps()))
	rows, length := 0, 0
	for step, indices := range doc.steps() {
		n, stepRows := 0.0, 0
		for _, i := range indices {
			ids, shape := v.ints(fmt.Sprintf("micro%d.input_ids", i))
			attention, _ := v.ints(fmt.Sprintf("micro%d.attention_mask", i))
			labels, _ := v.ints(fmt.Sprintf("micro%d.labels", i))
			b := fixtureBatch(ids, attention, labelMask(labels), shape)
			for _, x := range b.Mask {
				n += float64(x)
			}
			steps[step] = append(steps[step], b)
			stepRows, length = stepRows+b.Rows, max(length, b.Len)
		}
		rows = max(rows, stepRows)
		if n != doc.NumItems[indices[0]] {
			t.Fatalf("step %d trains %v tokens, the reference %v", step, n, doc.NumItems[indices[0]])
		}
	}
	for _, mode := range []string{"accumulated", "fused"} { // other programs, same numbers
		t.Run(mode, func(t *testing.T) {
			_, _, m := openTrajectory(t, "sft")
			l, err := newLearner(m, opt, sched, SFTLoss{}.objective(), mode == "fused")
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			check := newTrajCheck(t)
			for step, indices := range doc.steps() {
				var want float64
				for _, i := range indices {
					want += doc.MicroLosses[i]
				}
				batches := []*Batch{stack(steps[step], rows, length)}
				if mode == "accumulated" {
					batches = nil
					for _, b := range steps[step] {
						batches = append(batches, stack([]*Batch{b}, rows, length)) // one shape, so one compilation
					}
				}
				micros := weighSFT(batches)
				r, err := l.update(micros)
				if err != nil {
					t.Fatal(err)
				}
				check.step(step, r, want, doc.Steps[step])
				if mode == "accumulated" { // the reference logs the mean of the micro-batches' means
					var entropy float64
					for i := range micros {
						one := sftMetrics(micros[i:i+1], stepResult{kept: r.kept[i : i+1]})
						entropy += one[0].Value / float64(len(micros))
					}
					near(t, fmt.Sprintf("entropy of step %d", step), fixtures.ToleranceOf(t, "losses.metrics"), entropy, doc.Steps[step]["entropy"])
				}
			}
			check.end(v, m.Adapter.Weights)
			if want := map[string]int{"fused": 1, "accumulated": 2}[mode]; l.compilations() != want {
				t.Errorf("%d compilations, want %d", l.compilations(), want)
			}
		})
	}
}

func TestTrajectoryGRPO(t *testing.T) {
	entries, err := os.ReadDir(fixtures.Dir(t, "traj"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, e := range entries {
		name, isJSON := strings.CutSuffix(e.Name(), ".json")
		if !isJSON || !strings.HasPrefix(name, "grpo_") {
			continue
		}
		for _, unpacked := range []bool{false, true} {
			if unpacked && ran > 1 {
				continue // the layout matters to no loss: one run shows it
			}
			ran++
			t.Run(fmt.Sprintf("%s/unpacked=%v", name, unpacked), func(t *testing.T) { trajectoryGRPO(t, name, unpacked) })
		}
	}
	if ran == 0 {
		t.Error("no run in the fixtures")
	}
}

func trajectoryGRPO(t *testing.T, name string, unpacked bool) {
	doc, v, m := openTrajectory(t, name)
	opt, sched := doc.optimizer()
	longest := 0
	for i := range doc.MicroStep {
		for _, r := range fixtureRollouts(v, fmt.Sprintf("micro%d.", i)) {
			longest = max(longest, len(r.IDs))
		}
	}
	length := longest
	if !unpacked {
		length = 2*longest + longest/2 // two or three rollouts a row
	}
	g, err := NewGRPO(m, GRPOConfig{
		Loss: GRPOLoss{Kind: doc.Kinds[0], EpsLow: doc.Epsilon[0], EpsHigh: doc.Epsilon[1], Beta: doc.Beta, KLCorrected: doc.Corrected,
			MaxCompletion: doc.MaxCompletion},
		Optimizer: opt, Schedule: sched, Epochs: doc.Iterations, Batch: BatchConfig{MicroBatchSize: 4, Lengths: []int{length}, Unpacked: unpacked},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	check := newTrajCheck(t)
	tolMetric := fixtures.ToleranceOf(t, "losses.metrics")
	tolMetric.Rel = fixtures.ToleranceOf(t, "traj.loss").Rel
	var mostMetric, gap float64
	for at := 0; at < len(doc.MicroStep); at += doc.Iterations {
		u, err := g.Update(t.Context(), fixtureRollouts(v, fmt.Sprintf("micro%d.", at)))
		if err != nil {
			t.Fatal(err)
		}
		gap = max(gap, u.SamplerGap)
		for pass, s := range u.Steps {
			step := at + pass
			check.step(step, stepResult{loss: s.Loss, gradNorm: s.GradNorm, lr: s.LR}, doc.MicroLosses[step], doc.Steps[step])
			for key, got := range map[string]float64{"entropy": s.Entropy, "kl": s.KL, "clip_ratio/low_mean": s.ClipLow, "clip_ratio/high_mean": s.ClipHigh,
				"clip_ratio/region_mean": s.Clip, "clip_ratio/low_min": s.ClipLowMin, "clip_ratio/high_max": s.ClipHighMax} {
				if want, ok := doc.Steps[step][key]; ok {
					mostMetric = max(mostMetric, near(t, fmt.Sprintf("%s of step %d", key, step), tolMetric, got, want))
				}
			}
		}
	}
	check.end(v, m.Adapter.Weights)
	if gap > 1e-3 {
		t.Errorf("sampler gap %.2g", gap)
	}
	t.Logf("metrics differ by at most %.2g, the reference's sampling log-probabilities by %.2g on average", mostMetric, gap)
}

// fixtureRollouts strips the padding of a reference batch.
func fixtureRollouts(v vectors, at string) []Rollout {
	prompts, ps := v.ints(at + "prompt_ids")
	promptMask, _ := v.ints(at + "prompt_mask")
	completions, cs := v.ints(at + "completion_ids")
	completionMask, _ := v.ints(at + "completion_mask")
	old, _ := v.floats(at + "old_per_token_logps")
	adv, _ := v.floats(at + "advantages")
	var out []Rollout
	for i := range ps[0] {
		r := Rollout{ID: fmt.Sprint(i), Advantage: float64(adv[i])}
		for j := range ps[1] {
			if k := i*ps[1] + j; promptMask[k] == 1 {
				r.IDs, r.Mask, r.LogProbs = append(r.IDs, int32(prompts[k])), append(r.Mask, 0), append(r.LogProbs, 0)
			}
		}
		for j := range cs[1] {
			if k := i*cs[1] + j; completionMask[k] == 1 {
				r.IDs, r.Mask, r.LogProbs = append(r.IDs, int32(completions[k])), append(r.Mask, 1), append(r.LogProbs, old[k])
			}
		}
		out = append(out, r)
	}
	return out
}

func TestTrajectoryDPO(t *testing.T) {
	for name, packed := range map[string]bool{"dpo": false, "dpo_sft": true} { // the layout matters to no loss: one run of each shows it
		t.Run(name, func(t *testing.T) {
			doc, v, m := openTrajectory(t, name)
			opt, sched := doc.optimizer()
			loss := DPOLoss{Kinds: doc.Kinds, Weights: doc.Weights, Beta: doc.Beta}
			if err := loss.Check(); err != nil {
				t.Fatal(err)
			}
			// The pairs of all steps, in order, so that the reference is scored once as a run does it.
			var pairs []Pair
			perStep, longest := 0, 0
			for i := range doc.MicroStep {
				ids, shape := v.ints(fmt.Sprintf("micro%d.input_ids", i))
				attention, _ := v.ints(fmt.Sprintf("micro%d.attention_mask", i))
				on, _ := v.ints(fmt.Sprintf("micro%d.completion_mask", i))
				perStep = shape[0] / 2
				row := func(r int) Example {
					var e Example
					for k := r * shape[1]; k < (r+1)*shape[1]; k++ {
						if attention[k] == 1 {
							e.IDs, e.Mask = append(e.IDs, int32(ids[k])), append(e.Mask, uint8(on[k]))
						}
					}
					return e
				}
				for r := range perStep {
					pairs = append(pairs, Pair{ID: fmt.Sprint(i, r), Chosen: row(r), Rejected: row(perStep + r)})
					longest = max(longest, pairs[len(pairs)-1].Len())
				}
			}
			batch := BatchConfig{MicroBatchSize: perStep, Lengths: []int{longest}, Unpacked: true}
			if packed { // as the reference has it, a step takes so many pairs and no others
				batch = BatchConfig{MicroBatchSize: 1, Lengths: []int{perStep * longest}}
			}
			cfg := DPOConfig{Run: RunConfig{Accumulate: 1}, Optimizer: opt, Schedule: sched, Loss: loss, Batch: batch}
			l, err := newLearner(m, opt, sched, loss.objective(), true)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			plan, err := cfg.layOut(pairs, m.Config.Vocab, nil)
			if err != nil {
				t.Fatal(err)
			}
			if packed {
				plan.steps = nil
				for at := 0; at < len(pairs); at += perStep {
					l, err := cfg.Batch.plan(lengthsOf(pairs[at:at+perStep]), nil)
					if err != nil || len(l) != 1 {
						t.Fatalf("%d micro-batches for %d pairs (%v)", len(l), perStep, err)
					}
					for i := range l[0].places {
						l[0].places[i].item += at
					}
					plan.steps = append(plan.steps, l)
				}
			}
			ref, err := cfg.sums(t.Context(), l, plan)
			if err != nil {
				t.Fatal(err)
			}
			check := newTrajCheck(t)
			tolMetric := fixtures.ToleranceOf(t, "losses.metrics")
			tolMetric.Rel = fixtures.ToleranceOf(t, "traj.loss").Rel
			var mostMetric float64
			for step := range doc.MicroStep {
				micros := cfg.micros(plan, step, ref)
				r, err := l.update(micros)
				if err != nil {
					t.Fatal(err)
				}
				check.step(step, r, doc.MicroLosses[step], doc.Steps[step])
				got := StepLog{Metrics: loss.metrics(micros, r)}
				for key, fixture := range map[string]string{"accuracy": "mean_token_accuracy"} {
					g, _ := got.Get(key)
					near(t, fixture, tolMetric, g, doc.Steps[step][fixture])
				}
				for _, m := range got.Metrics {
					if want, ok := doc.Steps[step][m.Name]; ok {
						mostMetric = max(mostMetric, near(t, fmt.Sprintf("%s of step %d", m.Name, step), tolMetric, m.Value, want))
					}
				}
			}
			check.end(v, m.Adapter.Weights)
			t.Logf("metrics differ by at most %.2g", mostMetric)
		})
	}
}

// stack puts batches below each other and pads to a shape.
func stack(bs []*Batch, rows, length int) *Batch {
	out := newBatch(rows, length)
	row := 0
	for _, b := range bs {
		for i := range b.Rows {
			for _, pair := range [][2][]int32{{out.IDs, b.IDs}, {out.Positions, b.Positions}, {out.Segments, b.Segments}, {out.Targets, b.Targets}} {
				copy(pair[0][row*length:], pair[1][i*b.Len:(i+1)*b.Len])
			}
			copy(out.Mask[row*length:], b.Mask[i*b.Len:(i+1)*b.Len])
			row++
		}
		out.Processed += b.Processed
	}
	return out
}

// TestGradients compares the gradients of the SFT loss with the reference's: of adapters and of all weights.
func TestGradients(t *testing.T) {
	tolLoss, tolGrad := fixtures.ToleranceOf(t, "lora.loss"), fixtures.ToleranceOf(t, "lora.grad")
	entries, err := os.ReadDir(fixtures.Dir(t, "lora"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || strings.HasPrefix(name, "qlora") { // quantized bases are not read yet
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			dir := fixtures.Dir(t, "lora/"+name)
			base := "tied"
			_, statErr := os.Stat(filepath.Join(dir, "adapter_config.json"))
			hasAdapter := !errors.Is(statErr, os.ErrNotExist)
			var cfg struct {
				Base string `json:"base_model_name_or_path"`
			}
			if hasAdapter {
				fixtures.JSON(t, "lora/"+name, "adapter_config.json", &cfg)
				base = filepath.Base(cfg.Base)
			}
			m := loadTiny(t, base)
			if hasAdapter {
				if m.Adapter, err = lm.LoadAdapter(dir, m.Config); err != nil {
					t.Fatal(err)
				}
			}
			v := openVectors(t, "lora/"+name, "io.safetensors")
			ids, shape := v.ints("input_ids")
			attention, _ := v.ints("attention_mask")
			labels, _ := v.ints("labels")
			mb := weighSFT([]*Batch{fixtureBatch(ids, attention, labelMask(labels), shape)})[0]
			l, err := newLearner(m, AdamW{}, Schedule{}, SFTLoss{}.objective(), false)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			zeros, err := zerosLike(l.trained)
			if err != nil {
				t.Fatal(err)
			}
			out, err := l.grad.Call(append(l.weights(l.trained), zeros, mb.tensors(), mb.extra)...)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := v.floats("sft_loss")
			dLoss := near(t, "loss", tolLoss, float64(flat(out[0])[0]), float64(want[0]))
			grads := out[len(out)-l.trained.Len():]
			names := l.trained.Names()
			if got := len(v.names("grad.")); got != len(names) {
				t.Errorf("%d gradients, the fixture has %d", len(names), got)
			}
			var dGrad float64
			for i, name := range names {
				want, _ := v.floats("grad." + name)
				dGrad = max(dGrad, worst(t, name, tolGrad, flat(grads[i]), want))
			}
			t.Logf("largest differences: loss %.2g, gradients %.2g over %d tensors", dLoss, dGrad, len(names))
		})
	}
	if ran == 0 {
		t.Error("no case in the fixtures")
	}
}
