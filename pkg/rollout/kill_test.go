package rollout_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/internal/reexec"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

func TestMain(m *testing.M) { reexec.Main(m, child) }

// child plays into a folder.
func child(dir string) error {
	s := &mini.Suite{Count: 40, Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
		for i, inner := range tools {
			if inner.Spec().Name != tool.FinishName {
				tools[i] = tool.Func{Def: inner.Spec(), Run: func(ctx context.Context, args map[string]any) (tool.Observation, error) {
					time.Sleep(time.Millisecond)
					return inner.Call(ctx, args)
				}}
			}
		}
		return tools
	}}
	tasks, err := s.Tasks("train")
	if err != nil {
		return err
	}
	out, err := rollout.OpenOutput(filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "tok.bin"))
	if err != nil {
		return err
	}
	opt := options()
	opt.Slots, opt.Workers, opt.Output = 6, 2, out
	if _, err := rollout.Run(context.Background(), s, random(), rollout.Attempts(tasks, 3), opt); err != nil {
		return err
	}
	return out.Close()
}

// A process killed with SIGKILL at random moments, over and over, ends with the files of one that was left alone.
func TestKilledAtRandomMoments(t *testing.T) {
	start := func(dir string) (*exec.Cmd, *bytes.Buffer) {
		cmd := reexec.Command(t, dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &stderr
	}
	want := t.TempDir()
	began := time.Now()
	cmd, stderr := start(want)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	whole := time.Since(began)
	wantT, wantTok := files(t, want)

	dir := t.TempDir()
	moments := rng.New(1, "kill")
	kills := 0
	for run := 0; ; run++ {
		cmd, stderr := start(dir)
		if run < 10 {
			time.Sleep(time.Duration(moments.Float64() * float64(whole) / 3))
			if err := cmd.Process.Kill(); err == nil {
				kills++
			}
			cmd.Wait() // its error is the kill
			continue
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		break
	}
	gotT, gotTok := files(t, dir)
	if !bytes.Equal(gotT, wantT) || !bytes.Equal(gotTok, wantTok) {
		t.Errorf("after %d kills the files differ from those of one run", kills)
	}
	t.Logf("%d kills; one run takes %v", kills, whole)
}
