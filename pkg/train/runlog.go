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
	// seconds is the total_seconds of the last line of timing.jsonl, that is of the run before it was resumed.
	seconds  float64
	warnings []string
}

// find reads the newest usable checkpoint of a folder when resuming. found is false where there is none; unusable ones
// are warned of. Without resume a folder that holds checkpoints is refused, so that no run is overwritten by mistake.
func (j *runLog) find(dir string, keep int, resume bool, log *slog.Logger) (c checkpoint, ts tensorMap, found bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, nil, false, err
	}
	j.dir = dir
	j.store = store{filepath.Join(dir, "checkpoints"), keep}
	if !resume {
		names, err := j.store.list()
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("train: %s holds checkpoints of an earlier run: resume it, or train in another folder", dir)
		}
		return c, nil, false, err
	}
	c, ts, skipped, err := j.store.latest(func(c checkpoint) error { return c.Metrics.covers(dir, metricsFile) })
	for _, s := range skipped {
		j.warnings = append(j.warnings, s.Error())
		log.Warn("going back to an earlier checkpoint", "reason", s)
	}
	if errors.Is(err, ErrNoCheckpoint) {
		if len(skipped) > 0 {
			log.Warn("no earlier checkpoint is usable: starting anew", "folder", j.store.dir)
		}
		return c, nil, false, nil
	}
	return c, ts, err == nil, err
}

// open opens the logs, cut to what they were at the checkpoint (the zero one for a fresh run). step is the last one
// that stands in them. The checkpoint was chosen so that all of its metrics are there; times decide nothing, and may lack.
func (j *runLog) open(at checkpoint, step int, now func() time.Time) (err error) {
	if j.metrics, err = openLineLog(j.dir, metricsFile, at.Metrics.Bytes); err != nil {
		return err
	}
	if j.timing, err = openLineLog(j.dir, timingFile, at.TimingBytes); err != nil {
		return err
	}
	times, err := j.timing.lines()
	if err != nil {
		return err
	}
	if n := len(times); n > 0 { // none in a fresh run
		j.seconds, _ = times[n-1].Get("total_seconds")
	}
	j.events, err = newEventFile(j.dir, step, now)
	return err
}

// write logs one step.
func (j *runLog) write(line, timing StepLog) error {
	if j.dir == "" {
		return nil
	}
	if err := j.metrics.append(line); err != nil {
		return err
	}
	if err := j.timing.append(timing); err != nil {
		return err
	}
	return j.events.scalars(line.Step, append(line.Metrics[:len(line.Metrics):len(line.Metrics)], timing.Metrics...))
}

// save makes a checkpoint that remembers the logs' sizes.
func (j *runLog) save(at *checkpoint, l *learner) error {
	if err := errors.Join(j.metrics.sync(), j.timing.sync()); err != nil {
		return err
	}
	at.Metrics, at.TimingBytes = j.metrics.mark(), j.timing.size
	return j.store.save(*at, l.trained, l.m, l.v)
}

// restoreBest gives the learner's model the weights of the best checkpoint.
func (j *runLog) restoreBest(best BestMark, l *learner) error {
	_, ts, err := j.store.read(filepath.Base(j.store.path(best.Step)))
	if err != nil {
		return fmt.Errorf("restore the best checkpoint (step %d): %w", best.Step, err)
	}
	return restore(l.trained, "param.", ts)
}

func (j *runLog) close() error {
	var err error
	for _, l := range []*lineLog{j.metrics, j.timing} {
		if l != nil {
			err = errors.Join(err, l.close())
		}
	}
	if j.events != nil {
		err = errors.Join(err, j.events.close())
	}
	return err
}
