// Package run holds a run folder: files written atomically, stages that are skipped when their inputs have not changed and
// that one process at a time works on, the manifest that says how a result came about, and progress lines with the time left.
// It knows no suite and no model.
package run

import (
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
	"sync"
	"time"

	"github.com/toolroute/toolroute/pkg/wholefile"
)

// WriteFile writes a file whole or not at all. Missing folders are made.
func WriteFile(path string, b []byte) error { return wholefile.Write(path, b) }

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

// Folder is a run folder, with a log of the stages that ran and those that were skipped. A folder that [In] made logs only once
// that a stage was skipped.
type Folder struct {
	Dir string
	Log io.Writer // nil is silent
	// Revision is the program's. It is recorded with every stage.
	Revision string

	said *sync.Map // messages that were logged, and stages that are done
}

// In is the run folder dir.
func In(dir string, log io.Writer) Folder { return Folder{Dir: dir, Log: log, said: &sync.Map{}} }

// Once reports whether this is the first call with a message, so that the caller logs the message only once. If [In] did not make
// the folder, it always reports true.
func (f Folder) Once(message string) bool {
	if f.said == nil {
		return true
	}
	_, again := f.said.LoadOrStore(message, true)
	return !again
}

// Path joins names below the folder.
func (f Folder) Path(names ...string) string {
	return filepath.Join(append([]string{f.Dir}, names...)...)
}

// Stage runs work, unless the stage was finished with the same key and none of its output files has changed since. work returns
// the paths of its output files, below the folder.
//
// Work may be interrupted at any moment. The next call runs it again. If work can resume, it calls Claim first. Stage logs and
// removes an output that changed after the stage ended, before work begins, so that work never continues from it.
//
// Stage holds the stage's lock while work runs. The system releases the lock when the process ends, killed or not. If another
// process holds the lock, Stage logs that and waits, at most until ctx ends. Work may run other stages, but not this one. If
// neither the system nor the file system supports locks (Windows, some network mounts), nothing keeps two processes apart.
func (f Folder) Stage(ctx context.Context, stage, key string, work func() (outputs []string, err error)) (err error) {
	if f.Done(stage, key) { // this needs no lock, and works in a folder that is read-only
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
	why := f.Check(stage, key)
	if why == nil {
		f.logf("%s: done by another process, skipped\n", stage)
		return nil
	}
	if err := f.clear(stage, why); err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return f.work(stage, key, work)
}

// Renew runs work under the stage's lock, whether it was done before or not. Until work has ended, the stage is not done.
func (f Folder) Renew(ctx context.Context, stage, key string, work func() (outputs []string, err error)) (err error) {
	l, err := f.lock(ctx, stage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	if err := remove(f.recordPath(stage)); err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return f.work(stage, key, work)
}

func (f Folder) work(stage, key string, work func() ([]string, error)) error {
	began := time.Now()
	outputs, err := work()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	r := record{Key: key, Output: map[string]string{}, Seconds: time.Since(began).Seconds()}
	for _, o := range outputs {
		sum, err := HashFile(f.Path(o))
		if err != nil {
			return fmt.Errorf("%s: output: %w", stage, err)
		}
		r.Output[filepath.ToSlash(o)] = sum
	}
	if b, err := f.begun(stage); err == nil && b.Key == key {
		r.Revisions = b.Revisions
	}
	r.Revisions = with(r.Revisions, f.Revision)
	f.Once(stage) // so that this process does not log that the stage was done before
	return WriteJSON(f.recordPath(stage), r)
}

// clear removes what work must not continue from: the outputs that changed after the stage ended. If the record is damaged, clear
// removes the mark that the stage was begun, so that Claim removes its files. It removes files before their record, because only
// the record shows that they were changed.
func (f Folder) clear(stage string, why error) error {
	var changed *ChangedError
	switch {
	case !errors.As(why, &changed):
		f.logf("%s: %v\n", stage, why)
		return nil
	case len(changed.Files) == 0:
		f.logf("%s: %s, so it is done again\n", stage, changed.what())
		if err := remove(f.begunPath(stage)); err != nil {
			return err
		}
	default:
		f.logf("%s: %s after it ended: made again\n", stage, changed.what())
		for _, name := range changed.Files {
			if err := os.RemoveAll(f.Path(name)); err != nil {
				return err
			}
		}
	}
	return remove(f.recordPath(stage))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f Folder) logf(format string, a ...any) {
	if f.Log != nil {
		fmt.Fprintf(f.Log, format, a...)
	}
}
