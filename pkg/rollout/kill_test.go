package rollout_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// childDir names, in a child process of the test, the folder to play into.
const childDir = "ROLLOUT_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(dir string) error {
	s := &mini.Suite{Count: 40, Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
		for i, inner := range tools {
			if inner.Spec().Name != tool.FinishName {
				tools[i] = tool.Func{Def: inner.Spec(), Run: func(ctx context.Context, args map[string]any) (string, error) {
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(dir string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childDir+"="+dir)
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
