package train

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

const (
	metricsFile = "metrics.jsonl"
	timingFile  = "timing.jsonl"
)

// runLog is the folder of a run: metrics.jsonl, timing.jsonl, TensorBoard's event files and checkpoints/. The zero
// value keeps nothing.
type runLog struct {
	dir     string
	store   store
	metrics *lineLog
	timing  *lineLog
	events  *eventFile
	// seconds is what the run took before it was resumed: total_seconds of the last line of timing.jsonl.
	seconds  float64
	warnings []string
}

// find reads the newest usable checkpoint of a folder. found is false if there is none. Unusable ones cause a warning each. Without
// resume, a folder with checkpoints is an error, so that no run is overwritten by mistake.
func (r *runLog) find(dir string, keep int, resume bool, log *slog.Logger) (c checkpoint, ts tensorMap, found bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, nil, false, err
	}
	r.dir = dir
	r.store = store{filepath.Join(dir, "checkpoints"), keep}
	if !resume {
		names, err := r.store.list()
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("train: %s holds checkpoints of an earlier run: resume it, or train in another folder", dir)
		}
		return c, nil, false, err
	}
	c, ts, skipped, err := r.store.latest(func(c checkpoint) error { return c.Metrics.covers(dir, metricsFile) })
	for _, s := range skipped {
		r.warnings = append(r.warnings, s.Error())
		log.Warn("going back to an earlier checkpoint", "reason", s)
	}
	if errors.Is(err, ErrNoCheckpoint) {
		if len(skipped) > 0 {
			log.Warn("no earlier checkpoint is usable: starting anew", "folder", r.store.dir)
		}
		return c, nil, false, nil
	}
	return c, ts, err == nil, err
}

// open opens the logs and cuts them to their size at the checkpoint; a new run has the zero checkpoint. step is the last step in
// the logs. find chose a checkpoint that has all of its metrics. Lines of timing.jsonl may be missing: nothing depends on them.
func (r *runLog) open(at checkpoint, step int, now func() time.Time) (err error) {
	if r.metrics, err = openLineLog(r.dir, metricsFile, at.Metrics.Bytes); err != nil {
		return err
	}
	if r.timing, err = openLineLog(r.dir, timingFile, at.TimingBytes); err != nil {
		return err
	}
	times, err := r.timing.lines()
	if err != nil {
		return err
	}
	if n := len(times); n > 0 { // a new run has none
		r.seconds, _ = times[n-1].Get("total_seconds")
	}
	r.events, err = newEventFile(r.dir, step, now)
	return err
}

// write logs one step.
func (r *runLog) write(line, timing StepLog) error {
	if r.dir == "" {
		return nil
	}
	if err := r.metrics.append(line); err != nil {
		return err
	}
	if err := r.timing.append(timing); err != nil {
		return err
	}
	return r.events.scalars(line.Step, append(line.Metrics[:len(line.Metrics):len(line.Metrics)], timing.Metrics...))
}

// save writes a checkpoint with the current sizes of the logs.
func (r *runLog) save(at *checkpoint, l *learner) error {
	if err := errors.Join(r.metrics.sync(), r.timing.sync()); err != nil {
		return err
	}
	at.Metrics, at.TimingBytes = r.metrics.mark(), r.timing.size
	return r.store.save(*at, l.trained, l.m, l.v)
}

// restoreBest gives the learner's model the weights of the best checkpoint.
func (r *runLog) restoreBest(best BestMark, l *learner) error {
	_, ts, err := r.store.read(filepath.Base(r.store.path(best.Step)))
	if err != nil {
		return fmt.Errorf("restore the best checkpoint (step %d): %w", best.Step, err)
	}
	return restore(l.trained, "param.", ts)
}

func (r *runLog) close() error {
	var err error
	for _, l := range []*lineLog{r.metrics, r.timing} {
		if l != nil {
			err = errors.Join(err, l.close())
		}
	}
	if r.events != nil {
		err = errors.Join(err, r.events.close())
	}
	return err
}
