package stage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/run"
)

// checkpoints are the files that publication puts into the folder checkpoints: the policies of the first training seed
// that stand in the tables, or those that are listed, with the parents that gates read.
func (e *Env) checkpoints() (map[string][]byte, error) {
	seed := e.Config.TrainSeeds[0]
	chosen := e.Config.Checkpoints.Publish
	if len(chosen) == 0 {
		for _, name := range e.Config.Train {
			if e.Config.Recipes[name].Method != "" {
				chosen = append(chosen, name)
			}
		}
	}
	out := map[string][]byte{}
	for _, name := range chosen {
		if _, no := e.refused(name, seed); no {
			continue
		}
		needed, err := e.needed(name)
		if err != nil {
			return nil, err
		}
		needed = slices.DeleteFunc(needed, func(n string) bool { _, no := e.refused(n, seed); return no })
		for _, n := range needed {
			if err := e.checkpoint(n, seed, out); err != nil {
				return nil, fmt.Errorf("publish checkpoint: %w", err)
			}
		}
	}
	return out, nil
}

// checkpoint adds the files of one policy's checkpoint to out.
func (e *Env) checkpoint(name string, seed uint64, out map[string][]byte) error {
	to := filepath.Join("checkpoints", name)
	if out[filepath.Join(to, checkpointFile)] != nil {
		return nil
	}
	c, again := e.Taken(name, seed)
	if !again {
		t, err := e.Result(name, seed)
		if err != nil {
			return err
		}
		var made run.Manifest
		if err := e.Run.ReadJSON(reportStage, manifestFile, &made); err != nil {
			return err
		}
		data, err := e.dataKey()
		if err != nil {
			return err
		}
		rec, err := e.Run.Record(e.folder(seed, name))
		if err != nil {
			return err
		}
		c = checkpoint{Format: checkpointFormat, Suite: e.Options.Suite, Recipe: name, Seed: seed, Profile: e.Options.Profile, Backend: cmp.Or(t.Backend, made.Backend), Revision: strings.Join(rec.Revisions, ", "), Data: data}
		if c.Steps, err = e.steps(name, seed); err != nil {
			return err
		}
	}
	files, dir := map[string]string{}, e.folder(seed, name)
	for _, f := range append(append([]string{"result.json"}, modelFiles...), historyFiles...) {
		b, err := e.Run.Read(dir, filepath.Join(dir, below(f)))
		if errors.Is(err, run.ErrNotDone) && slices.Contains(historyFiles, f) {
			continue
		}
		if err != nil {
			return err
		}
		files[f] = hash(b)
		out[filepath.Join(to, f)] = b
	}
	if again && !maps.Equal(files, c.Files) {
		return fmt.Errorf("%s, seed %d: the files in %s are not those of the committed checkpoint they were taken from: run the training stage again", name, seed, e.Run.Path(e.folder(seed, name)))
	}
	c.Files, c.Taken = files, ""
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	err := enc.Encode(c)
	out[filepath.Join(to, checkpointFile)] = b.Bytes()
	return err
}
