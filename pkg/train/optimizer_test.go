package train

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

type adamCase struct {
	LR        float64
	WD        float64
	Clip      *float64
	Sched     string
	Warmup    int
	Betas     [2]float64
	Eps       float64
	LRUsed    []float64 `json:"lr_used"`
	GradNorms []float64 `json:"grad_norm_before_clip"`
}

// TestAdamW replays the reference's optimizer steps on given gradients: parameters after every step, moments at the
// end, norms and learning rates.
func TestAdamW(t *testing.T) {
	var doc struct {
		Steps int
		Cases map[string]adamCase
	}
	fixtures.JSON(t, "optim", "adamw.json", &doc)
	v := openVectors(t, "optim", "adamw.safetensors")
	tol := fixtures.ToleranceOf(t, "optim")
	names := v.names("init.")
	n := len(names)
	for label, c := range doc.Cases {
		t.Run(label, func(t *testing.T) {
			opt := AdamW{Beta1: c.Betas[0], Beta2: c.Betas[1], Eps: c.Eps, WeightDecay: c.WD, DecayAll: true}
			if c.Clip != nil {
				opt.MaxGradNorm = *c.Clip
			}
			sched := Schedule{Kind: c.Sched, LearningRate: c.LR, WarmupSteps: c.Warmup, Total: doc.Steps}
			exec, err := graph.NewExec(backend(t).Backend, func(in []*graph.Node) []*graph.Node {
				p, m, s, norm := opt.Apply(names, in[:n], in[n:2*n], in[2*n:3*n], in[3*n:4*n], in[4*n])
				out := append([]*graph.Node{norm}, p...)
				return append(append(out, m...), s...)
			})
			if err != nil {
				t.Fatal(err)
			}
			var params, moments, squares []*tensors.Tensor
			for _, name := range names {
				p := v.tensor("init." + name)
				params = append(params, p)
				moments = append(moments, tensors.FromShape(p.Shape()))
				squares = append(squares, tensors.FromShape(p.Shape()))
			}
			var most, mostNorm float64
			for step := range doc.Steps {
				lr := sched.At(step)
				near(t, fmt.Sprintf("lr of step %d", step), fixtures.Tolerance{Abs: 1e-15}, lr, c.LRUsed[step])
				args := append([]*tensors.Tensor{}, params...)
				for _, name := range names {
					args = append(args, v.tensor(fmt.Sprintf("grad.%d.%s", step, name)))
				}
				args = append(append(args, moments...), squares...)
				hyper := tensors.FromFlatDataAndDimensions(opt.Hyper(step+1, lr), hyperSize)
				out, err := exec.Call(append(args, hyper))
				if err != nil {
					t.Fatal(err)
				}
				mostNorm = max(mostNorm, near(t, fmt.Sprintf("norm of step %d", step), fixtures.Tolerance{Abs: 1e-6, Rel: 1e-6},
					float64(flat(out[0])[0]), c.GradNorms[step]))
				params, moments, squares = out[1:1+n], out[1+n:1+2*n], out[1+2*n:]
				for i, name := range names {
					want, _ := v.floats(fmt.Sprintf("%s.after.%d.%s", label, step, name))
					most = max(most, worst(t, fmt.Sprintf("step %d %s", step, name), tol, flat(params[i]), want))
				}
			}
			for i, name := range names {
				want, _ := v.floats(fmt.Sprintf("%s.final.exp_avg.%s", label, name))
				most = max(most, worst(t, "m of "+name, tol, flat(moments[i]), want))
				want, _ = v.floats(fmt.Sprintf("%s.final.exp_avg_sq.%s", label, name))
				most = max(most, worst(t, "v of "+name, tol, flat(squares[i]), want))
			}
			t.Logf("largest difference: values %.2g, norms %.2g", most, mostNorm)
		})
	}
}

func TestScheduleFactors(t *testing.T) {
	var doc struct {
		Factors map[string][]float64 `json:"schedule_factors"`
	}
	fixtures.JSON(t, "optim", "adamw.json", &doc)
	if len(doc.Factors) == 0 {
		t.Fatal("no schedules in the fixture")
	}
	for key, want := range doc.Factors {
		kind, rest, _ := strings.Cut(key, ".")
		s := Schedule{Kind: kind, LearningRate: 1}
		if _, err := fmt.Sscanf(rest, "total%d.warmup%d", &s.Total, &s.WarmupSteps); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		for step, w := range want {
			if got := s.At(step); math.Abs(got-w) > 1e-12 {
				t.Errorf("%s: factor at %d = %v, want %v", key, step, got, w)
			}
		}
	}
}

func TestScheduleFloor(t *testing.T) {
	s := Schedule{Kind: "cosine", LearningRate: 2, WarmupSteps: 2, Total: 10, Floor: 0.05}
	for step, want := range map[int]float64{0: 0, 1: 1, 2: 2, 6: 2 * (0.05 + 0.95*0.5), 10: 0.1} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("At(%d) = %v, want %v", step, got, want)
		}
	}
}

func TestCheckNamesTheField(t *testing.T) {
	for want, err := range map[string]error{
		"total":           Schedule{Kind: "cosine", LearningRate: 1}.Check(),
		`kind is "linar"`: Schedule{Kind: "linar", LearningRate: 1}.Check(),
		"learning_rate":   Schedule{LearningRate: math.NaN()}.Check(),
		"warmup_steps":    Schedule{LearningRate: 1, WarmupSteps: -1}.Check(),
		"floor":           Schedule{LearningRate: 1, Floor: 2}.Check(),
		"beta1":           AdamW{Beta1: 1}.Check(),
		"beta2":           AdamW{Beta2: -1}.Check(),
		"eps must":        AdamW{Eps: -1}.Check(),
		"weight_decay":    AdamW{WeightDecay: math.NaN()}.Check(),
		"max_grad_norm":   AdamW{MaxGradNorm: -1}.Check(),
		`kind is "dfd"`:   SFTLoss{Kind: "dfd"}.Check(),
		`kind is "ppo"`:   GRPOLoss{Kind: "ppo"}.Check(),
		"max_completion":  GRPOLoss{Kind: "dr_grpo"}.Check(),
		"delta":           GRPOLoss{Delta: 0.9}.Check(),
		"temperature":     GRPOLoss{Temperature: -1}.Check(),
		"2 weights":       DPOLoss{Kinds: []string{"sigmoid"}, Weights: []float64{1, 2}}.Check(),
		`kind "kto"`:      DPOLoss{Kinds: []string{"kto"}}.Check(),
		"label_smoothing": DPOLoss{LabelSmoothing: 0.5}.Check(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestDecays(t *testing.T) {
	for name, want := range map[string]bool{
		"model.layers.0.self_attn.q_proj.weight":                         true,
		"model.layers.0.self_attn.q_proj.bias":                           false,
		"model.layers.0.input_layernorm.weight":                          false,
		"model.norm.weight":                                              false,
		"model.embed_tokens.weight":                                      true,
		"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": true,
		"base_model.model.model.layers.1.mlp.down_proj.lora_B.weight":    true,
		"model.layers.1.post_attention_layernorm.weight":                 false,
	} {
		if got := (AdamW{}).Decays(name); got != want {
			t.Errorf("Decays(%s) = %v, want %v", name, got, want)
		}
		if !(AdamW{DecayAll: true}).Decays(name) {
			t.Errorf("DecayAll leaves out %s", name)
		}
	}
}
