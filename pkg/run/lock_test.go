//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/reexec"
)

func TestMain(m *testing.M) { reexec.Main(m, worker) }

// worker runs a stage that reports that it works, writes down its process id, and ends once the file go exists.
func worker(dir string) error {
	f := Folder{Dir: dir, Log: os.Stdout}
	return f.Stage(context.Background(), "slow", "k", func() ([]string, error) {
		w, err := os.OpenFile(f.Path("workers"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(w, os.Getpid()); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		fmt.Println("working")
		for {
			if _, err := os.Stat(f.Path("go")); err == nil {
				return []string{"out"}, WriteFile(f.Path("out"), []byte("x"))
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// another is a second process that runs the stage.
type another struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  []string
}

func start(t *testing.T, dir string) *another {
	t.Helper()
	a := &another{cmd: reexec.Command(t, dir)}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() }) // fails where it has ended
	a.lines = bufio.NewScanner(out)
	return a
}

// until reads what the process says until a line holds the words.
func (a *another) until(t *testing.T, words string) {
	t.Helper()
	for a.lines.Scan() {
		a.said = append(a.said, a.lines.Text())
		if strings.Contains(a.lines.Text(), words) {
			return
		}
	}
	t.Fatalf("process %d never said %q but %q", a.cmd.Process.Pid, words, a.said)
}

func (a *another) end(t *testing.T) {
	t.Helper()
	for a.lines.Scan() {
		a.said = append(a.said, a.lines.Text())
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("process %d: %v: %q", a.cmd.Process.Pid, err, a.said)
	}
}

func workers(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(Folder{Dir: dir}.Path("workers"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func TestTwoProcessesWorkOnceOnAStage(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	first.until(t, "working")
	second := start(t, dir)
	second.until(t, fmt.Sprintf("slow: process %d is at work on it", first.cmd.Process.Pid))
	time.Sleep(3 * poll) // it must not say so again
	if err := WriteFile(Folder{Dir: dir}.Path("go"), nil); err != nil {
		t.Fatal(err)
	}
	first.end(t)
	second.end(t)
	if got, want := workers(t, dir), []string{fmt.Sprint(first.cmd.Process.Pid)}; !slices.Equal(got, want) {
		t.Errorf("the stage was worked on by %v, want %v", got, want)
	}
	if n := len(second.said); n != 2 || second.said[1] != "slow: done by another process, skipped" {
		t.Errorf("the second process said %q", second.said)
	}
}

// When the holder of a stage's lock is killed, the process that waits gets the lock and does the work.
func TestAKilledProcessHoldsNoStage(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	first.until(t, "working")
	second := start(t, dir)
	second.until(t, "is at work on it")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	second.until(t, "working")
	third := start(t, dir)
	third.until(t, fmt.Sprintf("process %d is at work on it", second.cmd.Process.Pid))
	if err := WriteFile(Folder{Dir: dir}.Path("go"), nil); err != nil {
		t.Fatal(err)
	}
	second.end(t)
	third.end(t)
	if got, want := workers(t, dir), []string{fmt.Sprint(first.cmd.Process.Pid), fmt.Sprint(second.cmd.Process.Pid)}; !slices.Equal(got, want) {
		t.Errorf("the stage was worked on by %v, want %v", got, want)
	}
}

func TestWaitingCanBeInterrupted(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	first.until(t, "working")
	ctx, cancel := context.WithTimeout(t.Context(), 2*poll)
	defer cancel()
	f := Folder{Dir: dir, Log: io.Discard}
	err := f.Stage(ctx, "slow", "k", func() ([]string, error) { return nil, errors.New("worked although another process does") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", first.cmd.Process.Pid)) {
		t.Errorf("error %v", err)
	}
	// Remove refuses the folder, too.
	if err := f.Remove(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d is at work on slow", first.cmd.Process.Pid)) {
		t.Errorf("removed: error %v", err)
	}
	if len(workers(t, dir)) != 1 {
		t.Error("the folder was removed")
	}
	// Another stage of the folder is free.
	if err := f.Stage(t.Context(), "other", "k", func() ([]string, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // says that it was killed
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not removed: %v", err)
	}
}

// If a folder is removed and made again, the lock on its old file has no effect. A lock that was released is not reported as held
// by its last holder.
func TestLockOfARemovedFile(t *testing.T) {
	f := Folder{Dir: t.TempDir()}
	old, _, err := tryLock(f.lockPath("s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(f.Path(".stages")); err != nil {
		t.Fatal(err)
	}
	l, _, err := tryLock(f.lockPath("s"))
	if err != nil {
		t.Fatal(err)
	}
	if _, holder, err := tryLock(f.lockPath("s")); !errors.Is(err, errLocked) || holder != os.Getpid() {
		t.Errorf("error %v, holder %d", err, holder)
	}
	if err := errors.Join(old.release(), l.release()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(f.lockPath("s")); err != nil || len(b) != 0 {
		t.Errorf("a free lock's file holds %q, %v", b, err)
	}
}
