package rollout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// PendingSuffix ends the name of the file of pending episodes: those that finished while an earlier one was still being played.
const PendingSuffix = ".pending"

// Output holds the files of a run: the trajectories, append-only and in episode order, and optionally their token ids in a
// sidecar file. An episode that finishes before its turn is pending: it is kept in a second file until all earlier ones are
// written. So no finished episode is lost, and the order never depends on timing. Only one process may use the files at a time.
type Output struct {
	path, tokensPath string

	main, pending             *trajectory.Writer
	mainTokens, pendingTokens *trajectory.TokenWriter
	written                   map[string]bool                  // by episode, whether it is in main
	known                     map[string]trajectory.Trajectory // in main or pending
	tokens                    map[string]trajectory.TokenRecord
	pendingRecords            int
	repaired                  int64
}

// OpenOutput opens or creates the files. An empty tokensPath keeps no token ids. A process that was killed while writing leaves
// an incomplete last record; it is cut off, and Repaired counts its bytes.
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
	if o.pending, err = trajectory.OpenWriter(path + PendingSuffix); err != nil {
		return o, err
	}
	o.repaired = o.main.Repaired() + o.pending.Repaired()
	if tokensPath != "" {
		if o.mainTokens, err = trajectory.OpenTokenWriter(tokensPath); err != nil {
			return o, err
		}
		if o.pendingTokens, err = trajectory.OpenTokenWriter(tokensPath + PendingSuffix); err != nil {
			return o, err
		}
		o.repaired += o.mainTokens.Repaired() + o.pendingTokens.Repaired()
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
		o.pendingRecords++
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

// Repaired is the number of bytes of incomplete records that opening cut off.
func (o *Output) Repaired() int64 { return o.repaired }

// find returns a finished episode; its tokens are nil where the sidecar has none.
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

// write appends the results that main does not hold yet. Tokens are written first, so that every record in main has its tokens.
func (o *Output) write(rs []*result) error {
	var ts []trajectory.Trajectory
	for _, r := range rs {
		if o.written[r.t.EpisodeID] {
			continue
		}
		if r.tokens != nil && o.mainTokens != nil {
			if err := o.mainTokens.Write(*r.tokens); err != nil {
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

// writePending keeps a result that has to wait for earlier ones.
func (o *Output) writePending(r *result) error {
	if r.tokens != nil && o.pendingTokens != nil {
		if err := o.pendingTokens.Write(*r.tokens); err != nil {
			return err
		}
	}
	o.pendingRecords++
	o.known[r.t.EpisodeID] = r.t
	return o.pending.Write(r.t)
}

// clearPending empties the pending files once main holds all of their episodes.
func (o *Output) clearPending() error {
	for id := range o.known {
		if !o.written[id] {
			return nil // an earlier run played other items: its pending episodes stay until a run asks for them
		}
	}
	if o.pendingRecords == 0 {
		return nil
	}
	o.pendingRecords = 0
	var errs []error
	if o.pending != nil {
		errs = append(errs, o.pending.Reset())
	}
	if o.pendingTokens != nil {
		errs = append(errs, o.pendingTokens.Reset())
	}
	return errors.Join(errs...)
}

// Close closes the files and removes the pending ones if they are empty.
func (o *Output) Close() error {
	err := errors.Join(o.clearPending(), o.closeAll())
	if err == nil && o.pendingRecords == 0 {
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
	for _, w := range []*trajectory.Writer{o.main, o.pending} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	for _, w := range []*trajectory.TokenWriter{o.mainTokens, o.pendingTokens} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}
