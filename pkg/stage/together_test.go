//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package stage

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/reexec"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// A process plays the baselines into a folder, or is a script with a command line (see flags_test.go).
func TestMain(m *testing.M) {
	reexec.Main(m, func(on string) error {
		if line, ok := strings.CutPrefix(on, script); ok {
			return asScript(line)
		}
		if root, ok := strings.CutPrefix(on, publisher); ok {
			return asPublisher(root)
		}
		if args, ok := strings.CutPrefix(on, benchmarker); ok {
			return asBenchmark(args)
		}
		return playBaselines(on)
	})
}

func playBaselines(out string) error {
	e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: out, Log: os.Stdout, Set: []string{"train=[]", "baselines.budget_modes=[none, soft]", "eval.n_tasks=0"}})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.World(context.Background()); err != nil {
		return err
	}
	return e.Baselines(context.Background())
}

// Processes that evaluate in one run folder at the same time write each file of episodes once, as one process alone does.
func TestEvaluatingTogether(t *testing.T) {
	together, alone := t.TempDir(), t.TempDir()
	run := func(out string) (*exec.Cmd, *strings.Builder) {
		cmd, log := reexec.Command(t, out), &strings.Builder{}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, log
	}
	var cmds []*exec.Cmd
	var logs []*strings.Builder
	for _, out := range []string{together, together, alone} {
		cmd, log := run(out)
		cmds, logs = append(cmds, cmd), append(logs, log)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, logs[i])
		}
	}
	files, err := fs.Glob(os.DirFS(alone), "smoke/chain/episodes/*/*.jsonl")
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files of episodes, want those of two budgets (%v)", len(files), err)
	}
	for _, rel := range files {
		a, b := episodesOf(t, filepath.Join(alone, rel)), episodesOf(t, filepath.Join(together, rel))
		if a != b {
			t.Errorf("%s: %d bytes of episodes, alone %d", rel, len(b), len(a))
		}
		// Each stage was worked on by one of the two.
		worked := 0
		for _, log := range logs[:2] {
			worked += strings.Count(log.String(), "play/"+strings.TrimPrefix(rel, "smoke/chain/")+": starting")
		}
		if worked != 1 {
			t.Errorf("%s was played by %d processes, want 1", rel, worked)
		}
	}
}

// episodesOf are the episodes of a file without what depends on the time.
func episodesOf(t *testing.T, file string) string {
	t.Helper()
	trs, err := trajectory.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return canonical(t, trs)
}
