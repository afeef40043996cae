package stage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/study"
)

// Reinforcement reads the histories and metrics of the reinforced policies that are trained so far, by recipe and then by seed. Names restrict
// it to these recipes.
func (e *Env) Reinforcement(names ...string) (study.Reinforcements, error) {
	var out study.Reinforcements
	for _, name := range e.Config.Train {
		if !algorithmOf(e.Config.Recipes[name]).history || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		own, err := e.Config.For(name)
		if err != nil {
			return nil, err
		}
		for _, seed := range e.Config.SeedsOf(name) {
			r := study.Reinforced{History: rl.History{Recipe: name, Seed: seed}, Bounds: own.Warnings}
			if r.Lines, err = e.metrics(name, seed); err != nil && !errors.Is(err, run.ErrNotDone) {
				return nil, err
			}
			if err == nil {
				if r.Points, err = e.evalPoints(name, seed); err != nil && !errors.Is(err, run.ErrNotDone) {
					return nil, err
				}
			}
			if len(r.Lines) > 0 || len(r.Points) > 0 {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// evalPoints reads the history of a run of reinforcement learning; [run.ErrNotDone] where none was kept.
func (e *Env) evalPoints(name string, seed uint64) ([]rl.EvalPoint, error) {
	dir := e.folder(seed, name)
	file := filepath.Join(dir, historyFile)
	b, err := e.Run.Read(dir, file)
	if err != nil {
		return nil, err
	}
	points, err := rl.ReadHistory(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return points, nil
}

// writeHistories writes the table of all histories and the study of warnings into the run folder. It returns the picture of the histories and
// the names of the files. If nothing was reinforced it writes none of them and removes those of an earlier report.
func (e *Env) writeHistories(rs study.Reinforcements) ([]report.Picture, []string, error) {
	files := map[string][]byte{historyFile: nil, "history.png": nil, "history.svg": nil, "warnings.csv": nil, "warnings.md": nil}
	var pictures []report.Picture
	if pic, ok := rs.Picture(e.Definition.HistoryColumn); ok {
		files[historyFile] = rl.HistoriesCSV(rs.Histories())
		delete(files, "history.png") // the report writes them
		delete(files, "history.svg")
		pictures = append(pictures, pic)
	}
	if ws := rs.Warnings(); len(ws) > 0 {
		files["warnings.csv"], files["warnings.md"] = ws.CSV(), []byte("# Warnings of reinforcement learning\n\n"+ws.Markdown())
	}
	written, err := e.put(files)
	return pictures, written, err
}
