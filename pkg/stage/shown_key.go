package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/run"
)

// shownMark is the file beside tables and pictures that were made to be shown later, with the key of the settings that they were
// made with: cells of a notebook share files, and one that is run after a change of settings must not show what the earlier ones gave.
const shownMark = "shown.key"

// ErrOtherSettings is why something that lies in the run folder is not shown.
var ErrOtherSettings = errors.New("made with other settings: run the cell above this one that makes it (as a program: its stage) again")

// shownKey is the hash of the settings, but for those that decide nothing that is shown.
func (e *Env) shownKey() string {
	c := e.Config
	c.Checkpoints, c.Publish = config.Checkpoints{}, ""
	return run.Key("shown", c, e.Options.Suite, e.Options.Model) // no path: a folder may be moved
}

// Making runs work that fills a folder with things to show. They are marked when they are all there.
func (e *Env) Making(folder string, work func() error) error {
	mark := e.Run.Path(filepath.FromSlash(folder), shownMark)
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return run.WriteFile(mark, []byte(e.shownKey()))
}

// MadeNow is the path of a file that was made to be shown, by its slash-separated name; an error where it is not there, or was made
// with other settings. folder is what [Env.Making] filled.
func (e *Env) MadeNow(folder, name string) (string, error) {
	file := e.Run.Path(filepath.FromSlash(folder), filepath.FromSlash(name))
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("%s is not there yet: run the cells above this one first (%w)", name, err)
	}
	mark, err := os.ReadFile(e.Run.Path(filepath.FromSlash(folder), shownMark))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if string(mark) != e.shownKey() {
		return "", fmt.Errorf("%s was %w", name, ErrOtherSettings)
	}
	return file, nil
}

// TrainedNow reports what is logged of a policy's training that other settings ran, or that is not finished; of the named recipes, without names of
// all. What was not trained at all is no error.
func (e *Env) TrainedNow(names ...string) error {
	for _, name := range e.Config.Train {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		for _, seed := range e.Config.SeedsOf(name) {
			if _, err := os.Stat(e.Run.Path(e.folder(seed, name), metricsFile)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if _, taken := e.Taken(name, seed); taken {
				continue
			}
			if _, err := e.steps(name, seed); err != nil {
				return fmt.Errorf("the training of %s that lies here was %w (%w)", name, ErrOtherSettings, err)
			}
		}
	}
	return nil
}
