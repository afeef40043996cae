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

// record is what a finished stage leaves in the folder .stages. It holds the hash of every output, so that a file that changed
// afterwards is not taken for the stage's.
type record struct {
	Key     string            `json:"key"`
	Output  map[string]string `json:"output"`  // path below the folder -> SHA-256
	Seconds float64           `json:"seconds"` // of the process that finished the stage
	// Revisions are those of the programs that worked on the stage. There are several if it was interrupted and another program
	// went on.
	Revisions []string `json:"revisions"`
}

// begun is what a stage that can resume leaves when it starts. It stays when the stage is finished.
type begun struct {
	Key       string   `json:"key"`
	Revisions []string `json:"revisions"`
}

// ErrNotDone says that a stage was not finished, or with another key.
var ErrNotDone = errors.New("not done")

// ChangedError says that files changed after the stage that made them ended, or are missing.
type ChangedError struct {
	Dir, Stage string
	Files      []string // below Dir; none if the stage's record itself is damaged
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

// Done reports whether the stage was finished with this key and none of its outputs has changed since.
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

// Unchanged is nil if the stage was finished, with any key, and none of its outputs has changed since. Otherwise it returns the
// errors of Check.
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

// Read returns an output of a finished stage. The error is [ErrNotDone] if the stage is not finished or has no such output, and a
// *[ChangedError] if the file has changed since.
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

// Outputs lists the outputs of a finished stage, sorted: slash-separated paths below the folder.
func (f Folder) Outputs(stage string) ([]string, error) {
	r, err := f.record(stage)
	return slices.Sorted(maps.Keys(r.Output)), err
}

// StageRecord is what is known of a finished stage.
type StageRecord struct {
	Key       string
	Outputs   string   // hash of the names and contents of its outputs
	Seconds   float64  // of the process that finished it
	Revisions []string // of the programs that worked on it
}

// Record returns the record of a finished stage. It returns the errors of Unchanged.
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

// Claim prepares the work of a stage that can resume. If the stage was begun with another key, Claim removes the given paths
// below the folder, so that the stage does not continue files of other settings.
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
