// Package run holds a run folder: files written atomically, stages that are skipped when their inputs have not changed and
// that one process at a time works on, the manifest that says how a result came about, and progress lines with the time left.
// It knows no suite and no model.
package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// WriteFile writes b under a temporary name beside path and renames it, so that a reader sees the old file or the new
// one, never half of it. Missing folders are made.
func WriteFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder of %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // a no-op after the rename
	if _, err := f.Write(b); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteJSON writes v as indented JSON with a final newline.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return WriteFile(path, append(b, '\n'))
}

// ReadJSON reads a file written by WriteJSON; a missing file is fs.ErrNotExist.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s is damaged (%w): delete it and run again", path, err)
	}
	return nil
}

// HashFile returns the SHA-256 of a file in hex.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Key hashes whatever decides a stage's result: settings, hashes of inputs, versions. Values are taken as JSON.
func Key(parts ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, p := range parts {
		if err := enc.Encode(p); err != nil {
			panic(fmt.Sprintf("run.Key: %v", err)) // a programmer's mistake: settings are plain data
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Folder is a run folder, with a log of what was done and what was skipped. One that [In] made says once of a stage that it was done.
type Folder struct {
	Dir string
	Log io.Writer // nil is silent

	said *sync.Map // messages that were said, and stages that were done
}

// In is the run folder dir.
func In(dir string, log io.Writer) Folder { return Folder{Dir: dir, Log: log, said: &sync.Map{}} }

// Once reports whether it is asked for the first time of a message, which is to be said once; always where [In] did not make the folder.
func (f Folder) Once(message string) bool {
	if f.said == nil {
		return true
	}
	_, again := f.said.LoadOrStore(message, true)
	return !again
}

type marker struct {
	Key     string            `json:"key"`
	Output  map[string]string `json:"output"`  // path below the folder -> SHA-256
	Seconds float64           `json:"seconds"` // of the process that finished the stage
}

// Path joins names below the folder.
func (f Folder) Path(names ...string) string {
	return filepath.Join(append([]string{f.Dir}, names...)...)
}

// Done reports whether the stage was finished with this key and its outputs are still as it left them.
func (f Folder) Done(stage, key string) bool {
	_, ok := f.finished(stage, key)
	return ok
}

func (f Folder) finished(stage, key string) (why string, ok bool) {
	var m marker
	err := ReadJSON(f.markerPath(stage), &m)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "starting", false
	case err != nil:
		return "its record is damaged, so it is done again", false
	case m.Key != key:
		return "settings or inputs changed", false
	}
	for name, want := range m.Output {
		if got, err := HashFile(f.Path(name)); err != nil || got != want {
			return name + " is missing or changed", false
		}
	}
	return "", true
}

// Stage runs work unless it is done: finished before with the same key, every output file unchanged. Work returns the
// paths (below the folder) of the files it vouches for. It may be interrupted at any moment; it is then run again, and
// resumes by its own means.
//
// Work is done under the stage's lock, which the system gives back when the process ends, killed or not. Who finds it held says
// so in the log and waits until ctx ends, and then most often finds the stage done. Work may run other stages, not this one.
// Where neither the system nor the file system has locks (Windows, some network mounts) nothing keeps two processes apart.
func (f Folder) Stage(ctx context.Context, stage, key string, work func() (outputs []string, err error)) (err error) {
	if f.Done(stage, key) { // needs no lock, nor a folder that can be written to
		if f.Once(stage) {
			f.logf("%s: done before, skipped\n", stage)
		}
		return nil
	}
	l, err := f.lock(ctx, stage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	why, ok := f.finished(stage, key)
	if ok {
		f.logf("%s: done by another process, skipped\n", stage)
		return nil
	}
	f.logf("%s: %s\n", stage, why)
	began := time.Now()
	outputs, err := work()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	m := marker{Key: key, Output: map[string]string{}, Seconds: time.Since(began).Seconds()}
	for _, o := range outputs {
		sum, err := HashFile(f.Path(o))
		if err != nil {
			return fmt.Errorf("%s: output: %w", stage, err)
		}
		m.Output[filepath.ToSlash(o)] = sum
	}
	f.Once(stage) // this process does not say that it was done before
	return WriteJSON(f.markerPath(stage), m)
}

// Seconds lists how long the finished stages took, by the name of their marker.
func (f Folder) Seconds() (map[string]float64, error) {
	files, err := filepath.Glob(f.Path(".stages", "*.json"))
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, file := range files {
		var m marker
		if err := ReadJSON(file, &m); err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = m.Seconds
	}
	return out, nil
}

// Claim empties the folder's sub-folder for a stage unless what lies there was begun with the same key. A stage that
// resumes calls it first, so that it never continues files that other settings made.
func (f Folder) Claim(sub, key string) error {
	path := f.Path(sub, ".key")
	have, err := os.ReadFile(path)
	if err == nil && string(bytes.TrimSpace(have)) == key {
		return nil
	}
	if err := os.RemoveAll(f.Path(sub)); err != nil {
		return fmt.Errorf("clear %s: %w", sub, err)
	}
	return WriteFile(path, []byte(key+"\n"))
}

func (f Folder) lockPath(stage string) string {
	return strings.TrimSuffix(f.markerPath(stage), ".json") + ".lock"
}

func (f Folder) markerPath(stage string) string {
	return f.Path(".stages", strings.ReplaceAll(stage, "/", "_")+".json")
}

func (f Folder) logf(format string, a ...any) {
	if f.Log != nil {
		fmt.Fprintf(f.Log, format, a...)
	}
}
