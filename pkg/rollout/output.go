package rollout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// PendingSuffix names the file that keeps, during a run, the episodes that finished before an earlier one.
const PendingSuffix = ".pending"

// Output is the files of a run: the trajectories, append-only and in episode order, and beside them, when asked for, the
// token sidecar. An episode that finishes before its turn is put aside in a second file until those before it are
// written, so that nothing finished is lost and the order never depends on timing. One process at a time.
type Output struct {
	path, tokensPath string

	main, aside       *trajectory.Writer
	mainTok, asideTok *trajectory.TokenWriter
	written           map[string]bool
	known             map[string]trajectory.Trajectory
	tokens            map[string]trajectory.TokenRecord
	asideRecords      int
	repaired          int64
}

// OpenOutput opens or creates the files. tokensPath may be empty: then no tokens are kept. Torn ends, left by a process
// that was killed while it wrote, are cut off; Repaired says how many bytes.
func OpenOutput(path, tokensPath string) (o *Output, err error) {
	o = &Output{path: path, tokensPath: tokensPath, written: map[string]bool{}, known: map[string]trajectory.Trajectory{}, tokens: map[string]trajectory.TokenRecord{}}
	defer func() {
		if err != nil {
			o, err = nil, errors.Join(err, o.closeAll())
		}
	}()
	if o.main, err = trajectory.OpenWriter(path); err != nil {
		return o, err
	}
	if o.aside, err = trajectory.OpenWriter(path + PendingSuffix); err != nil {
		return o, err
	}
	o.repaired = o.main.Repaired() + o.aside.Repaired()
	if tokensPath != "" {
		if o.mainTok, err = trajectory.OpenTokenWriter(tokensPath); err != nil {
			return o, err
		}
		if o.asideTok, err = trajectory.OpenTokenWriter(tokensPath + PendingSuffix); err != nil {
			return o, err
		}
		o.repaired += o.mainTok.Repaired() + o.asideTok.Repaired()
		for _, p := range []string{tokensPath, tokensPath + PendingSuffix} {
			for t, err := range trajectory.StreamTokens(p) {
				if err != nil {
					return o, err
				}
				o.tokens[t.EpisodeID] = t
			}
		}
	}
	for t, err := range trajectory.Stream(path) {
		if err != nil {
			return o, err
		}
		o.known[t.EpisodeID], o.written[t.EpisodeID] = t, true
	}
	for t, err := range trajectory.Stream(path + PendingSuffix) {
		if err != nil {
			return o, err
		}
		o.asideRecords++
		if !o.written[t.EpisodeID] {
			o.known[t.EpisodeID] = t
		}
	}
	return o, nil
}

// Path is the trajectories' file.
func (o *Output) Path() string { return o.path }

// Len is the number of finished episodes on disk.
func (o *Output) Len() int { return len(o.known) }

// Repaired is the number of bytes of torn records that opening cut off.
func (o *Output) Repaired() int64 { return o.repaired }

func (o *Output) find(id string) (trajectory.Trajectory, *trajectory.TokenRecord, bool) {
	t, ok := o.known[id]
	if !ok {
		return t, nil, false
	}
	if tok, ok := o.tokens[id]; ok {
		return t, &tok, true
	}
	return t, nil, true
}

// write appends what the file does not hold yet, tokens first: a record in the file has its tokens.
func (o *Output) write(rs []*result) error {
	var ts []trajectory.Trajectory
	for _, r := range rs {
		if o.written[r.t.EpisodeID] {
			continue
		}
		if r.tokens != nil && o.mainTok != nil {
			if err := o.mainTok.Write(*r.tokens); err != nil {
				return err
			}
		}
		ts = append(ts, r.t)
	}
	if len(ts) == 0 {
		return nil
	}
	if err := o.main.Write(ts...); err != nil {
		return err
	}
	for _, t := range ts {
		o.written[t.EpisodeID], o.known[t.EpisodeID] = true, t
	}
	return nil
}

func (o *Output) putAside(r *result) error {
	if r.tokens != nil && o.asideTok != nil {
		if err := o.asideTok.Write(*r.tokens); err != nil {
			return err
		}
	}
	o.asideRecords++
	o.known[r.t.EpisodeID] = r.t
	return o.aside.Write(r.t)
}

// settle empties the aside files when all that was put aside has been written.
func (o *Output) settle() error {
	for id := range o.known {
		if !o.written[id] {
			return nil // episodes of another set of items: they stay aside until these are asked for
		}
	}
	if o.asideRecords == 0 {
		return nil
	}
	o.asideRecords = 0
	var errs []error
	if o.aside != nil {
		errs = append(errs, o.aside.Reset())
	}
	if o.asideTok != nil {
		errs = append(errs, o.asideTok.Reset())
	}
	return errors.Join(errs...)
}

// Close closes the files, and removes those of episodes put aside when they are empty.
func (o *Output) Close() error {
	err := errors.Join(o.settle(), o.closeAll())
	if err == nil && o.asideRecords == 0 {
		for _, p := range []string{o.path, o.tokensPath} {
			if p == "" {
				continue
			}
			if rm := os.Remove(p + PendingSuffix); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("rollout output: %w", rm))
			}
		}
	}
	return err
}

func (o *Output) closeAll() error {
	var errs []error
	for _, w := range []*trajectory.Writer{o.main, o.aside} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	for _, w := range []*trajectory.TokenWriter{o.mainTok, o.asideTok} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}
