package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// sampleEpisodes is how many episodes are published beside the shown ones, so that scores can be checked again.
const sampleEpisodes = 200

// Publish copies a finished run's tables, plots, shown trajectories, a sample of episodes and the manifest to
// results/<suite>, which is committed. What an earlier publication left there and this one lacks is removed.
func (e *Env) Publish(context.Context) error {
	if _, err := os.Stat(e.Run.Path("manifest.json")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no finished report: run the report stage first", e.Run.Dir)
	}
	root, err := run.Root()
	if err != nil {
		return err
	}
	to := filepath.Join(root, "results", e.Options.Suite)
	keep := map[string]bool{}
	copyFile := func(name string) error {
		b, err := os.ReadFile(e.Run.Path(name))
		if err != nil {
			return err
		}
		keep[name] = true
		return run.WriteFile(filepath.Join(to, name), b)
	}
	entries, err := os.ReadDir(e.Run.Dir)
	if err != nil {
		return err
	}
	for _, f := range entries {
		// report.html holds thousands of episodes and is made again from the run; SVG copies of the plots likewise.
		if ext := filepath.Ext(f.Name()); !f.IsDir() && slices.Contains([]string{".md", ".csv", ".png", ".json"}, ext) {
			if err := copyFile(f.Name()); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{"trajectories", "profile"} {
		files, err := filepath.Glob(e.Run.Path(dir, "*"))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := copyFile(filepath.Join(dir, filepath.Base(f))); err != nil {
				return err
			}
		}
	}
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.TrainSeeds {
			for _, f := range []string{"metrics.jsonl", "result.json"} {
				file := filepath.Join(e.folder(seed, name), f)
				if err := copyFile(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	if err := e.publishSample(filepath.Join(to, "sample.jsonl")); err != nil {
		return err
	}
	keep["sample.jsonl"] = true
	err = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(to, path)
		if err == nil && !keep[rel] && !strings.HasPrefix(rel, "checkpoints") {
			err = os.Remove(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	e.Logf("published to %s: %d files", to, len(keep))
	return nil
}

func (e *Env) publishSample(path string) error {
	trs, err := e.Episodes()
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := trajectory.OpenWriter(path)
	if err != nil {
		return err
	}
	return errors.Join(w.Write(report.Sample(trs, sampleEpisodes, e.Config.Seed)...), w.Close())
}
