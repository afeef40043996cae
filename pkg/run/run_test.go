package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	claim := func(key string) {
		t.Helper()
		if err := f.Claim("play", key, "episodes/x", "episodes/x.pending"); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name string) bool {
		_, err := os.Stat(f.Path("episodes", name))
		return err == nil
	}
	claim("k1")
	for _, name := range []string{"x", "x.pending", "x2"} {
		put(t, f.Path("episodes", name), "")
	}
	claim("k1")
	if !there("x") || !there("x.pending") || !f.Begun("play", "k1") {
		t.Error("the same key lost work")
	}
	claim("k2")
	if there("x") || there("x.pending") {
		t.Error("another key kept the old work")
	}
	if !there("x2") {
		t.Error("what is another's was removed")
	}
	// An empty record does not make a stage done.
	put(t, f.Path("episodes", "x"), "")
	put(t, f.begunPath("play"), "")
	claim("k2")
	if there("x") {
		t.Error("work was gone on with that nothing says the key of")
	}
}

// A file that changed after its stage ended is neither read nor continued, not even by a stage that resumes. The log names it, and the
// stage makes it again.
func TestChangedOutputs(t *testing.T) {
	for name, harm := range map[string]func(f Folder) error{
		"changed": func(f Folder) error { return os.WriteFile(f.Path("out", "lines"), []byte("1\n2\n4\n"), 0o644) },
		"longer":  func(f Folder) error { return os.WriteFile(f.Path("out", "lines"), []byte("1\n2\n3\n4\n"), 0o644) },
		"shorter": func(f Folder) error { return os.Truncate(f.Path("out", "lines"), 2) },
		"emptied": func(f Folder) error { return os.Truncate(f.Path("out", "lines"), 0) },
		"removed": func(f Folder) error { return os.Remove(f.Path("out", "lines")) },
		"a folder": func(f Folder) error {
			return errors.Join(os.Remove(f.Path("out", "lines")), os.Mkdir(f.Path("out", "lines"), 0o755))
		},
		"record emptied":  func(f Folder) error { return os.Truncate(f.recordPath("s"), 0) },
		"record a number": func(f Folder) error { return os.WriteFile(f.recordPath("s"), []byte("{}"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			dir := filepath.Join(t.TempDir(), "run[1] \\*")
			f := In(dir, &log)
			found := ""
			stage := func() error {
				return f.Stage(t.Context(), "s", "k", func() ([]string, error) {
					if err := f.Claim("s", "k", "out"); err != nil {
						return nil, err
					}
					b, _ := os.ReadFile(f.Path("out", "lines")) // goes on from what is there
					found = string(b)
					return []string{"out/lines"}, WriteFile(f.Path("out", "lines"), []byte("1\n2\n3\n"))
				})
			}
			if err := stage(); err != nil {
				t.Fatal(err)
			}
			if b, err := f.Read("s", "out/lines"); err != nil || string(b) != "1\n2\n3\n" {
				t.Errorf("read %q, %v", b, err)
			}
			if err := harm(f); err != nil {
				t.Fatal(err)
			}
			var changed *ChangedError
			if b, err := f.Read("s", "out/lines"); !errors.As(err, &changed) || b != nil {
				if name != "a folder" || err == nil {
					t.Errorf("read %q, %v", b, err)
				}
			}
			if err := f.Unchanged("s"); !errors.As(err, &changed) || !strings.HasPrefix(name, "record") && !strings.Contains(err.Error(), "out/lines") {
				t.Errorf("unchanged: %v", err)
			}
			found = "not run"
			log.Reset()
			if err := stage(); err != nil {
				t.Fatal(err)
			}
			if found != "" {
				t.Errorf("went on from %q", found)
			}
			if want := map[bool]string{true: "s: its record is damaged", false: "s: out/lines is missing or changed"}[strings.HasPrefix(name, "record")]; !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q: %q", want, log.String())
			}
			if b, err := f.Read("s", "out/lines"); err != nil || string(b) != "1\n2\n3\n" {
				t.Errorf("afterwards: %q, %v", b, err)
			}
		})
	}
}

// The record of a stage names every program that worked on it, however often it was interrupted.
func TestRevisionsOfAStage(t *testing.T) {
	dir := t.TempDir()
	at := func(revision string, fail error) Folder {
		t.Helper()
		f := In(dir, nil)
		f.Revision = revision
		err := f.Stage(t.Context(), "s", "k", func() ([]string, error) {
			return nil, errors.Join(f.Claim("s", "k", "out"), fail)
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
		return f
	}
	stop := errors.New("interrupted")
	at("r1", stop)
	at("r2+changes", stop)
	at("r1", stop)
	for _, last := range []string{"r3", "r4"} { // the second finds it done, which adds nothing
		if got, err := at(last, nil).Record("s"); err != nil || got.Key != "k" || !slices.Equal(got.Revisions, []string{"r1", "r2+changes", "r3"}) {
			t.Errorf("record %+v, %v", got, err)
		}
	}
}

// A stage that is renewed is not done while it works, and not after it failed.
func TestRenew(t *testing.T) {
	f := In(t.TempDir(), nil)
	for _, fail := range []error{nil, errors.New("interrupted"), nil} {
		err := f.Renew(t.Context(), "report", "k", func() ([]string, error) {
			if f.Done("report", "k") {
				t.Error("done while it works")
			}
			return []string{"page"}, errors.Join(fail, WriteFile(f.Path("page"), nil))
		})
		if !errors.Is(err, fail) || f.Done("report", "k") != (fail == nil) {
			t.Errorf("failing with %v: %v", fail, err)
		}
	}
	if got, err := f.Outputs("report"); err != nil || !slices.Equal(got, []string{"page"}) {
		t.Errorf("outputs %v, %v", got, err)
	}
	if _, err := f.Outputs("other"); !errors.Is(err, ErrNotDone) {
		t.Errorf("outputs of nothing: %v", err)
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

// A process that runs a stage several times logs only once that the stage was done before, and never if the process did it itself.
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
