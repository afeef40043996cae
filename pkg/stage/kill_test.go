//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package stage

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/reexec"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/wholefile"
)

// publisher is the prefix of the argument of a process that reports and publishes.
const publisher = "publish:"

func asPublisher(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	e, err := openPublisher(root)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx := context.Background()
	for _, s := range []func(context.Context) error{e.Baselines, e.Report, e.Publish} {
		if err := s(ctx); err != nil {
			return err
		}
	}
	return nil
}

func openPublisher(root string) (*Env, error) {
	e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: filepath.Join(root, "runs"), Log: os.Stderr, Set: []string{"train=[]", "publish=story", "eval.n_tasks=6", "eval.resamples=20"}})
	if err == nil {
		committedAt(e, "0123456789ab")
	}
	return e, err
}

// finishedAt is when the report was made, the one thing in it that differs from run to run.
var finishedAt = regexp.MustCompile(`(finished\W{1,4}(?:#?\w{2,4};)?\W{0,4}(?:#?\w{2,4};)?)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// pagesOf reads the pictures, pages and published files of a project. It lists unfinished files apart.
func pagesOf(t *testing.T, root string) (pages map[string]string, unfinished []string) {
	t.Helper()
	pages = map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && (d.Name() == ".stages" || d.Name() == "episodes" || d.Name() == "data") {
				return fs.SkipDir
			}
			return err
		}
		if strings.HasPrefix(d.Name(), wholefile.Prefix) {
			unfinished = append(unfinished, path)
			return nil
		}
		b, err := os.ReadFile(filepath.Join(root, path))
		pages[path] = string(finishedAt.ReplaceAll(b, []byte("$1")))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, unfinished
}

// writtenSince counts the files that were written since a moment, unfinished ones and records of stages left out.
func writtenSince(t *testing.T, root string, began time.Time) (n int) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a file that was renamed meanwhile
			return nil
		}
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), wholefile.Prefix) || strings.Contains(path, ".stages") {
			return err
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(began) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A process is killed with SIGKILL, over and over, at random moments while it writes pictures, pages and results. Every file under its
// final name is then whole, and a last run leaves the same files as a run that was never killed.
func TestKilledWhilePublishing(t *testing.T) {
	base := t.TempDir()
	for name, text := range map[string]string{"go.mod": "", "README.md": "before\n<!-- results:chain -->\n<!-- end -->\nafter\n"} {
		if err := run.WriteFile(filepath.Join(base, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(base)
	e, err := openPublisher(base)
	if err != nil {
		t.Fatal(err)
	}
	doAll(t, e, (*Env).World, (*Env).Baselines)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// Both begin from the same episodes, whose latencies are in the tables.
	whole, killed := filepath.Join(t.TempDir(), "p"), filepath.Join(t.TempDir(), "p [1]")
	for _, to := range []string{whole, killed} {
		if err := os.CopyFS(to, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
	}
	// start runs the process to its end, or until it has written so many files and is killed.
	start := func(root string, after int) {
		t.Helper()
		began := time.Now()
		cmd := reexec.Command(t, publisher+root)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for after > 0 {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("%v\n%s", err, &said)
				}
				return
			default:
			}
			if writtenSince(t, root, began) >= after {
				_ = cmd.Process.Kill() // fails if it has ended
				<-ended                // returns once it has ended
				return
			}
		}
		if err := <-ended; err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
	}
	before, _ := pagesOf(t, whole)
	start(whole, 0)
	want, left := pagesOf(t, whole)
	if len(left) > 0 || want["results/chain/results_table.md"] == "" || want["runs/smoke/chain/cost_vs_success.png"] == "" || !strings.Contains(want["README.md"], "| oracle |") {
		t.Fatalf("a run that was left alone wrote %d files and left %v", len(want), left)
	}
	moments := rng.New(1, "kill/publish")
	const kills = 10
	stood := 0
	for i := range kills {
		// The kills are spread over the whole run. Machines differ in speed, so the number of written files says how far the process is.
		start(killed, 1+moments.IntN((i+1)*(len(want)-len(before))/kills))
		got, _ := pagesOf(t, killed)
		for name, b := range got {
			if b != want[name] && b != before[name] {
				t.Fatalf("kill %d: %s stands half written, with %d bytes of %d", i, name, len(b), len(want[name]))
			}
		}
		stood = max(stood, len(got)-len(before))
	}
	if stood == 0 {
		t.Error("no file was ever written before a kill: nothing was tested")
	}
	start(killed, 0)
	got, left := pagesOf(t, killed)
	for name, b := range want {
		if got[name] != b {
			t.Errorf("%s differs after %d kills: %d bytes, want %d", name, kills, len(got[name]), len(b))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for _, f := range left {
		if !strings.HasPrefix(f, "runs/smoke/chain/notebook/") { // where other cells may be drawing
			t.Errorf("%s was left by a killed process", f)
		}
	}
}
