package rollout_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// hanging is a suite whose first tool never comes back in the named tasks, until it is told to.
func hanging(t *testing.T, stuck ...string) *mini.Suite {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	return &mini.Suite{Count: 8, Deadline: 50 * time.Millisecond, Wrap: func(task suite.Task, tools []tool.Tool) []tool.Tool {
		for _, id := range stuck {
			if task.ID == id {
				tools[0] = tool.Func{Def: tools[0].Spec(), Run: func(context.Context, map[string]any) (tool.Observation, error) {
					<-hang
					return tool.Observation{}, nil
				}}
			}
		}
		return tools
	}}
}

func everyTool() policy.Policy { return scripted.AlwaysAllTools(mini.Rules{}) }

// One stuck tool costs one episode: the other seven are played, and no mean counts it. (It used to end the rollout with none kept.)
func TestOneStuckToolCostsOneEpisode(t *testing.T) {
	s := hanging(t, "mini-0003")
	opt := options()
	opt.MaxErrors, opt.Slots = 0.1, 8
	var last rollout.Progress
	opt.Progress = func(p rollout.Progress) { last = p }
	var order []int
	opt.Each = func(i int, _ trajectory.Trajectory, _ *trajectory.TokenRecord) error {
		order = append(order, i)
		return nil
	}
	began := time.Now()
	trs, err := rollout.Run(t.Context(), s, everyTool(), rollout.Attempts(tasksOf(t, s), 1), opt)
	if err != nil || len(trs) != 8 || time.Since(began) > 5*time.Second {
		t.Fatalf("%d episodes after %v, %v", len(trs), time.Since(began), err)
	}
	sum, solved := 0.0, 0.0
	for i, tr := range trs {
		if (tr.End == trajectory.Error) != (tr.Task.ID == "mini-0003") {
			t.Errorf("%s ended with %s, %q", tr.Task.ID, tr.End, tr.Cause)
		}
		if order[i] != i {
			t.Errorf("handed on in the order %v", order)
		}
		if tr.End != trajectory.Error {
			sum += tr.Outcome.Reward.Total / 7
			if tr.Outcome.Verified {
				solved += 1. / 7
			}
		}
	}
	if last.Done != 8 || last.Errors != 1 || abs(last.MeanReward-sum) > 1e-9 || abs(last.Solved-solved) > 1e-9 || !strings.Contains(last.String(), "1 could not be played on") {
		t.Errorf("progress %+v, want one error, reward %v, solved %v", last, sum, solved)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// Above the share the run stops, names the cause, keeps the others, and goes on once the tool is mended: to the files of a run
// that nothing went wrong in.
func TestManyStuckToolsStopTheRunAndItGoesOn(t *testing.T) {
	dir, whole := t.TempDir(), t.TempDir()
	play := func(dir string, s *mini.Suite) ([]trajectory.Trajectory, error) {
		t.Helper()
		out, err := rollout.OpenOutput(filepath.Join(dir, "t.jsonl"), "")
		if err != nil {
			t.Fatal(err)
		}
		opt := options()
		opt.MaxErrors, opt.Slots, opt.Output = 0.1, 4, out
		trs, err := rollout.Run(t.Context(), s, everyTool(), rollout.Attempts(tasksOf(t, s), 1), opt)
		return trs, errors.Join(err, out.Close())
	}
	trs, err := play(dir, hanging(t, "mini-0000", "mini-0002"))
	if !errors.Is(err, rollout.ErrEpisodes) || !errors.Is(err, tool.ErrDeadline) || !strings.Contains(err.Error(), "2 of 8") || len(trs) == 0 {
		t.Fatalf("%d episodes, %v", len(trs), err)
	}
	kept := 0
	for _, f := range []string{"t.jsonl", "t.jsonl.pending"} {
		old, err := trajectory.ReadFile(filepath.Join(dir, f))
		if err != nil {
			continue // none was put aside
		}
		for _, tr := range old {
			if kept++; tr.End == trajectory.Error {
				t.Errorf("%s: %s is on disk as played: %s", f, tr.Task.ID, tr.Cause)
			}
		}
	}
	if trs, err = play(dir, hanging(t)); err != nil || len(trs) != 8 {
		t.Fatalf("begun again: %d episodes, %v", len(trs), err)
	}
	if _, err := play(whole, hanging(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := canonical(t, filepath.Join(dir, "t.jsonl")), canonical(t, filepath.Join(whole, "t.jsonl")); string(got) != string(want) {
		t.Errorf("begun again, after %d episodes were kept, the file is\n%s\nwant\n%s", kept, got, want)
	}
}

// A policy that fails in every slot is no policy that solves nothing: the run stops and says why.
func TestPolicyThatAlwaysFailsStopsTheRun(t *testing.T) {
	s := &mini.Suite{Count: 8}
	p := random()
	p.reply = func(_ policy.Key, r *policy.Reply) { *r = policy.Reply{Err: errors.New("quota is used up")} }
	for _, share := range []float64{0, 0.1, 0.5} {
		opt := options()
		opt.MaxErrors = share
		if _, err := rollout.Run(t.Context(), s, p, rollout.Attempts(tasksOf(t, s), 1), opt); !errors.Is(err, rollout.ErrEpisodes) || !strings.Contains(err.Error(), "quota is used up") {
			t.Errorf("share %v: %v", share, err)
		}
	}
	one := &mini.Suite{Count: 1}
	opt := options()
	opt.MaxErrors = 0.1
	if _, err := rollout.Run(t.Context(), one, p, rollout.Attempts(tasksOf(t, one), 1), opt); !errors.Is(err, rollout.ErrEpisodes) {
		t.Errorf("the only episode failed: %v", err)
	}
	opt.MaxErrors = 1.5
	if _, err := rollout.Run(t.Context(), one, p, rollout.Attempts(tasksOf(t, one), 1), opt); err == nil || !strings.Contains(err.Error(), "max_errors") {
		t.Errorf("a share of 1.5: %v", err)
	}
}
