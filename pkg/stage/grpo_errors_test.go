package stage

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/train"
)

// brokenTools is a suite whose calculator breaks down in the named tasks.
type brokenTools struct {
	suite.Suite
	in func(task suite.Task) bool
}

func (b brokenTools) Box(task suite.Task) (*tool.Box, error) {
	if !b.in(task) {
		return b.Suite.Box(task)
	}
	broken := tool.Func{
		Def: tool.Spec{Name: chain.CalculatorTool, Description: "breaks down", Parameters: json.RawMessage(`{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}`)},
		Run: func(context.Context, map[string]any) (tool.Observation, error) { panic("out of order") },
	}
	return tool.NewBox([]tool.Tool{broken, tool.Finish()})
}

// Episodes that a tool broke off are in no group's mean, in no loss and in no rate, and are counted; where they are too many the run
// stops with the cause.
func checkBrokenTools(t *testing.T, start string) {
	e, _ := again(t, start, "grpo.prompts=8", "grpo.k=4", "grpo.resample=0", "max_errors=0.9")
	l := looped(t, e, 1, isEight)
	tasks := 0
	l.worlds[0].suite = brokenTools{l.worlds[0].suite, func(suite.Task) bool { return true }}
	batch, metrics, _, err := l.collect(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	line := train.StepLog{Metrics: metrics}
	broken, _ := line.Get("errors")
	if broken < 2 || int(broken)+len(batch) != 32 {
		t.Fatalf("%v episodes broke off and %d are trained on, of 32", broken, len(batch))
	}
	sums, sizes, solved := map[string]float64{}, map[string]int{}, 0.0
	for _, row := range batch {
		sums[row.Group] += row.Advantage
		sizes[row.Group]++
	}
	for group, sum := range sums {
		if math.Abs(sum) > 1e-6 {
			t.Errorf("group %s of %d: the advantages add up to %v: its mean counts an episode that broke off", group, sizes[group], sum)
		}
		if sizes[group] > 1 && sizes[group] < 4 {
			tasks++
		}
	}
	if tasks == 0 {
		t.Fatal("no group has lost some of its episodes and not all but one: nothing to see")
	}
	// Of what is left every episode answers at once: as many calls as answers, and success is a share of these.
	if solved, _ = line.Get("success"); math.Abs(solved*float64(len(batch))-math.Round(solved*float64(len(batch)))) > 1e-9 {
		t.Errorf("success %v is no share of the %d episodes that were played", solved, len(batch))
	}
	l.env.Config.MaxErrors = 0.05
	if _, _, _, err := l.collect(t.Context(), 0); !errors.Is(err, rollout.ErrEpisodes) || !errors.Is(err, tool.ErrPanic) {
		t.Errorf("above the share: error %v", err)
	}
}
