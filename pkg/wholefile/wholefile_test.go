package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func ExampleWrite() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	_ = Write(filepath.Join(dir, "a", "b.txt"), []byte("whole"))
	b, _ := os.ReadFile(filepath.Join(dir, "a", "b.txt"))
	fmt.Println(string(b))
	// Output: whole
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// Any file name works: with a dash in front, a space, a bracket or a backslash, with the * that the standard library replaces in temporary
// names, and of the greatest length, to which nothing could be added.
func TestWriteAnyName(t *testing.T) {
	for _, name := range []string{"a", "-rf", "a b", "p[1]", `back\slash`, "*", "ä 日本", "$HOME", "'quoted\"", string(slices.Repeat([]byte("n"), 255))} {
		dir := filepath.Join(t.TempDir(), "run[1] x")
		path := filepath.Join(dir, name)
		for _, content := range []string{"first", "second"} {
			if err := Write(path, []byte(content)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != content {
				t.Errorf("%q holds %q, %v, want %q", name, b, err, content)
			}
		}
		if got := names(t, dir); !slices.Equal(got, []string{name}) {
			t.Errorf("the folder of %q holds %q", name, got)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o644 {
			t.Errorf("%q: mode %v, %v", name, st.Mode(), err)
		}
	}
}

// A writer that fails half way leaves the old file, and nothing beside it.
func TestStreamFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := Stream(path, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("holds %d bytes, %v", len(b), err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the folder holds %q", got)
	}
	if err := Write(filepath.Join(path, "b"), nil); err == nil { // a file where a folder should be
		t.Error("a file was taken for a folder")
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", Prefix + "1", "sub/" + Prefix + "2"} {
		if err := Write(filepath.Join(dir, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if got := append(names(t, dir), names(t, filepath.Join(dir, "sub"))...); !slices.Equal(got, []string{"a", "sub", Prefix + "2"}) {
		t.Errorf("left are %q", got)
	}
	if err := Sweep(filepath.Join(dir, "nowhere")); err != nil {
		t.Error(err)
	}
}
