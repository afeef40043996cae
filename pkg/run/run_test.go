package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func ExampleFolder_Stage() {
	dir, _ := os.MkdirTemp("", "run")
	defer os.RemoveAll(dir)
	f := Folder{Dir: dir}
	for range 2 {
		_ = f.Stage(context.Background(), "world", Key("seed", 1), func() ([]string, error) {
			fmt.Println("working")
			return []string{"a.txt"}, WriteFile(f.Path("a.txt"), []byte("a"))
		})
	}
	// Output: working
}

// A stage must run again when its key changes, when an output was touched or removed, and after a failure.
func TestStageRunsAgain(t *testing.T) {
	var log bytes.Buffer
	f := Folder{Dir: t.TempDir(), Log: &log}
	runs := 0
	var fail error
	stage := func(key string) error {
		return f.Stage(t.Context(), "s", key, func() ([]string, error) {
			runs++
			if fail != nil {
				return nil, fail
			}
			return []string{"out/x"}, WriteFile(f.Path("out", "x"), []byte("x"))
		})
	}
	expect := func(what string, want int, err error) {
		t.Helper()
		if err != nil || runs != want {
			t.Errorf("%s: ran %d times, want %d (%v)", what, runs, want, err)
		}
	}
	expect("first", 1, stage("k1"))
	expect("same key", 1, stage("k1"))
	expect("other key", 2, stage("k2"))
	if err := os.WriteFile(f.Path("out", "x"), []byte("tampered"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect("tampered output", 3, stage("k2"))
	if err := os.Remove(f.Path("out", "x")); err != nil {
		t.Fatal(err)
	}
	expect("missing output", 4, stage("k2"))
	fail = errors.New("interrupted")
	if err := stage("k3"); !errors.Is(err, fail) {
		t.Errorf("error %v, want %v", err, fail)
	}
	fail = nil
	expect("after a failure", 6, stage("k3"))
	if !strings.Contains(log.String(), "out/x is missing or changed") {
		t.Errorf("log does not say why a stage ran again:\n%s", log.String())
	}
}

func TestClaim(t *testing.T) {
	f := Folder{Dir: t.TempDir()}
	if err := f.Claim("episodes", "k1"); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(f.Path("episodes", "x"), nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Claim("episodes", "k1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Path("episodes", "x")); err != nil {
		t.Errorf("the same key lost work: %v", err)
	}
	if err := f.Claim("episodes", "k2"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Path("episodes", "x")); err == nil {
		t.Error("another key kept the old work")
	}
}

func TestWriteFileLeavesNoTemporary(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "a", "b"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "a"))
	if len(entries) != 1 || entries[0].Name() != "b" {
		t.Errorf("folder holds %v", entries)
	}
}

func TestReadJSONNamesTheDamagedFile(t *testing.T) {
	p := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(p, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := ReadJSON(p, &v); err == nil || !strings.Contains(err.Error(), p) {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, "episodes", 0)
	p.Set(1, 10, "") // too soon after the start to say anything
	p.last = p.last.Add(-time.Minute)
	p.Set(5, 10, "reward 0.5")
	p.Set(10, 10, "")
	if got := b.String(); !strings.Contains(got, "episodes 5/10 (50%)") || !strings.Contains(got, "left, reward 0.5") || !strings.Contains(got, "took") || strings.Contains(got, "1/10 ") {
		t.Errorf("got %q", got)
	}
	var silent *Progress
	silent.Set(1, 2, "") // must not panic

	// The first piece of work took an hour, the next four a minute each: another five take five minutes.
	b.Reset()
	p = NewProgress(&b, "steps", 3)
	p.start, p.from = p.start.Add(-time.Hour), p.from.Add(-time.Hour)
	p.Set(4, 13, "")
	p.last, p.from = p.last.Add(-time.Minute), p.from.Add(-4*time.Minute)
	p.Set(8, 13, "")
	if got := b.String(); !strings.Contains(got, "steps 8/13 (61%), 5m0s left") {
		t.Errorf("after a slow start: %q", got)
	}
}

// A process that asks for a stage again and again hears once that it was done before, and never of one that it did itself.
func TestDoneIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	process := func(stages ...string) string {
		var log bytes.Buffer
		f := In(dir, &log)
		for _, s := range stages {
			if err := f.Stage(t.Context(), s, "k", func() ([]string, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
		}
		return log.String()
	}
	if got, want := process("a", "a", "b", "a"), "a: starting\nb: starting\n"; got != want {
		t.Errorf("the first process says %q, want %q", got, want)
	}
	if got, want := process("a", "b", "a", "c", "b", "c"), "a: done before, skipped\nb: done before, skipped\nc: starting\n"; got != want {
		t.Errorf("the second process says %q, want %q", got, want)
	}
}
