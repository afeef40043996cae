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

// shownMark is a file beside tables and pictures that later cells show. It holds the key of the settings that made them. A cell that is run
// after a change of settings must not show what the earlier settings gave.
const shownMark = "shown.key"

// ErrOtherSettings is the error of showing a file that other settings made.
var ErrOtherSettings = errors.New("made with other settings: run the cell above this one that makes it (as a program: its stage) again")

// shownKey is the hash of the settings that decide what is shown.
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

// MadeNow returns the path of a file in a folder that [Env.Making] filled. The error says that the file is missing, or that other settings
// made it. The name has slashes.
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

// TrainedNow returns an error if the logs of a policy's training come from other settings, or from a training that is not finished. It looks at
// the named recipes, or at all of them. A policy without logs is no error.
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
