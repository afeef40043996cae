package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// record is what a finished stage leaves in the folder .stages: what its outputs were. A file that is not as its record says is never
// taken for the stage's.
type record struct {
	Key     string            `json:"key"`
	Output  map[string]string `json:"output"`  // path below the folder -> SHA-256
	Seconds float64           `json:"seconds"` // of the process that finished the stage
	// Revisions of the programs that worked on it: several where it was interrupted and went on with another one.
	Revisions []string `json:"revisions"`
}

// begun is what a stage that resumes leaves as long as it is not finished, and afterwards.
type begun struct {
	Key       string   `json:"key"`
	Revisions []string `json:"revisions"`
}

// ErrNotDone says that a stage was not finished, or with another key.
var ErrNotDone = errors.New("not done")

// ChangedError says that files are not as the stage that made them left them.
type ChangedError struct {
	Dir, Stage string
	Files      []string // below Dir; none where the stage's record itself is damaged
}

func (e *ChangedError) what() string {
	if len(e.Files) == 0 {
		return "its record is damaged"
	}
	return strings.Join(e.Files, ", ") + map[bool]string{true: " is", false: " are"}[len(e.Files) == 1] + " missing or changed"
}

func (e *ChangedError) Error() string {
	if len(e.Files) == 0 {
		return fmt.Sprintf("stage %s in %s: its record is damaged: run the stage again", e.Stage, e.Dir)
	}
	return fmt.Sprintf("%s in %s: not as stage %s left it (missing, or changed after the stage ended): run that stage again, which makes it anew", strings.Join(e.Files, ", "), e.Dir, e.Stage)
}

// Done reports whether the stage was finished with this key and its outputs are still as it left them.
func (f Folder) Done(stage, key string) bool { return f.Check(stage, key) == nil }

// Check is Done with the reason: [ErrNotDone], or a *[ChangedError].
func (f Folder) Check(stage, key string) error {
	r, err := f.record(stage)
	if err != nil {
		return err
	}
	if r.Key != key {
		return notDone("settings or inputs changed")
	}
	return f.unchanged(stage, r)
}

// Unchanged is nil where the stage was finished, with whatever key, and its outputs are as it left them; else an error as of Check.
func (f Folder) Unchanged(stage string) error {
	r, err := f.record(stage)
	if err != nil {
		return err
	}
	return f.unchanged(stage, r)
}

func (f Folder) unchanged(stage string, r record) error {
	changed := &ChangedError{Dir: f.Dir, Stage: stage}
	for _, name := range slices.Sorted(maps.Keys(r.Output)) {
		if got, err := HashFile(f.Path(name)); err != nil || got != r.Output[name] {
			changed.Files = append(changed.Files, name)
		}
	}
	if len(changed.Files) > 0 {
		return changed
	}
	return nil
}

// Read returns an output of a finished stage, as the stage left it. The error is [ErrNotDone] where the stage is not finished or
// has no such output, and a *[ChangedError] where the file is not what the stage recorded.
func (f Folder) Read(stage, name string) ([]byte, error) {
	r, err := f.record(stage)
	if err != nil {
		return nil, err
	}
	name = filepath.ToSlash(name)
	want, ok := r.Output[name]
	if !ok {
		return nil, notDone("it made no " + name)
	}
	b, err := os.ReadFile(f.Path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != want {
		return nil, &ChangedError{Dir: f.Dir, Stage: stage, Files: []string{name}}
	}
	return b, nil
}

// ReadJSON is Read for a file of [WriteJSON].
func (f Folder) ReadJSON(stage, name string, v any) error {
	b, err := f.Read(stage, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", f.Path(name), err)
	}
	return nil
}

// Outputs lists what a finished stage vouches for, sorted: slash-separated paths below the folder.
func (f Folder) Outputs(stage string) ([]string, error) {
	r, err := f.record(stage)
	return slices.Sorted(maps.Keys(r.Output)), err
}

// StageRecord is what is known of a finished stage.
type StageRecord struct {
	Key       string
	Outputs   string   // hash of what it vouches for, names and contents
	Seconds   float64  // of the process that finished it
	Revisions []string // of the programs that worked on it
}

// Record is what is known of a stage that was finished and whose outputs are as it left them; else an error as of Unchanged.
func (f Folder) Record(stage string) (StageRecord, error) {
	r, err := f.record(stage)
	if err == nil {
		err = f.unchanged(stage, r)
	}
	return StageRecord{r.Key, Key(r.Output), r.Seconds, r.Revisions}, err
}

// Begun reports whether the stage was begun with this key, finished or not.
func (f Folder) Begun(stage, key string) bool {
	b, err := f.begun(stage)
	return err == nil && b.Key == key
}

// Claim removes paths below the folder unless what lies there was begun with the same key. A stage that resumes calls it
// first, so that it never continues files that other settings made.
func (f Folder) Claim(stage, key string, paths ...string) error {
	b, err := f.begun(stage)
	if err != nil || b.Key != key {
		for _, p := range paths {
			if err := os.RemoveAll(f.Path(p)); err != nil {
				return fmt.Errorf("clear %s: %w", p, err)
			}
		}
		if err := remove(f.recordPath(stage)); err != nil { // of what is gone now
			return err
		}
		b = begun{Key: key}
	}
	b.Revisions = with(b.Revisions, f.Revision)
	return WriteJSON(f.begunPath(stage), b)
}

func with(revisions []string, r string) []string {
	if r == "" || slices.Contains(revisions, r) {
		return revisions
	}
	return append(revisions, r)
}

func notDone(why string) error { return &notDoneError{why} }

type notDoneError struct{ why string }

func (e *notDoneError) Error() string { return e.why }
func (e *notDoneError) Unwrap() error { return ErrNotDone }

func (f Folder) record(stage string) (record, error) {
	var r record
	err := ReadJSON(f.recordPath(stage), &r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, notDone("starting")
	case err != nil || r.Key == "":
		return r, &ChangedError{Dir: f.Dir, Stage: stage}
	}
	return r, nil
}

func (f Folder) begun(stage string) (begun, error) {
	var b begun
	return b, ReadJSON(f.begunPath(stage), &b)
}

const (
	stagesFolder = ".stages"
	recordMark   = ".json"
	begunMark    = ".begun"
	lockMark     = ".lock"
)

func (f Folder) stagePath(stage, mark string) string {
	return f.Path(stagesFolder, strings.ReplaceAll(stage, "/", "_")+mark)
}

func (f Folder) recordPath(stage string) string {
	return f.stagePath(filepath.ToSlash(stage), recordMark)
}
func (f Folder) begunPath(stage string) string {
	return f.stagePath(filepath.ToSlash(stage), begunMark)
}
func (f Folder) lockPath(stage string) string { return f.stagePath(filepath.ToSlash(stage), lockMark) }
