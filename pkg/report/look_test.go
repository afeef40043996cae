package report

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/reward"
)

func TestLook(t *testing.T) {
	dir := os.Getenv("LOOK")
	if dir == "" {
		t.Skip()
	}
	trs := demoRun(60)
	in := demoInput(trs)
	var err error
	in.Collected, err = eval.Collect(trs, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := reward.NewProfile(trs[:60*6*6+200], 8)
	th := reward.DefaultThresholds()
	in.Profiles = []Profile{{"base", p, th, reward.Gate(p, th)}, {"warm-up of 100 rows", reward.NewProfile(trs[2000:], 8), th, reward.Gate(p, th)}}
	for _, name := range []string{"grpo", "sft+grpo"} {
		run := TrainingRun{Name: name}
		for s := range 120 {
			x := float64(s)
			f := 1.0
			if name == "grpo" {
				f = 0.5
			}
			v := map[string]float64{"reward_mean": f * (1 - math.Exp(-x/40)) * 0.9, "reward_std": 0.3, "success": f * (1 - math.Exp(-x/30)), "kl": 0.001 * x * f, "entropy": 0.6 * math.Exp(-x/90),
				"grad_norm": 1 + math.Sin(x/3)*0.5*f, "lr": 1e-4 * math.Min(1, x/10), "clip_low": 0.01 * f, "clip_high": 0.02, "zero_variance": 0.3 + 0.002*x, "distinct": 6 - x/40, "spend": 4 - x/60}
			if s%10 == 0 {
				v["val_success_seen"], v["val_success_heldout"] = 0.8*f, 0.5*f*x/120
			}
			run.Records = append(run.Records, MetricsRecord{s, v})
		}
		in.Training = append(in.Training, run)
	}
	start := time.Now()
	if err := Write(dir, in); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(start))
}
