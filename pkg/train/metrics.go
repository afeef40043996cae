package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// Metric is one named number of a step. TensorBoard groups metrics by the part of the name before a slash.
type Metric struct {
	Name  string
	Value float64
}

// StepLog is one line of metrics.jsonl or timing.jsonl: {"step": 12, "loss": 0.5, ...}, in the order of Metrics. There are two
// files because metrics repeat bit for bit from run to run, and times do not.
type StepLog struct {
	// Step is the number of optimizer steps taken, from 1.
	Step    int
	Metrics []Metric
}

// Get returns a metric by name.
func (s StepLog) Get(name string) (float64, bool) {
	for _, m := range s.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}

// MarshalJSON writes the metrics in their order. A value that is not finite is an error.
func (s StepLog) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"step":%d`, s.Step)
	for _, m := range s.Metrics {
		key, err := json.Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.Value)
		if err != nil {
			return nil, fmt.Errorf("metric %s of step %d: %w", m.Name, s.Step, err)
		}
		b.WriteByte(',')
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, in its order.
func (s *StepLog) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("a line of metrics must be an object, not %.40s", b)
	}
	*s = StepLog{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var v float64
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("metric %v: %w", name, err)
		}
		if name == "step" {
			s.Step = int(v)
		} else {
			s.Metrics = append(s.Metrics, Metric{name.(string), v})
		}
	}
	return nil
}

// lineLog is a file of JSON lines. Lines are appended; only resuming a run removes some.
type lineLog struct {
	f    *os.File
	size int64
	sum  hash.Hash // SHA-256 of the content
}

// logMark describes a log at a checkpoint: its size, and the SHA-256 of its content.
type logMark struct {
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sha256"`
}

// covers returns an error unless the log still begins with the content that it had at the checkpoint. The zero mark is that of an
// empty log.
func (m logMark) covers(dir, name string) error {
	if m.Bytes == 0 {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.CopyN(h, f, m.Bytes)
	if err != nil && err != io.EOF {
		return err
	}
	if n < m.Bytes {
		return fmt.Errorf("%s has %d bytes, the checkpoint was made when it had %d", name, n, m.Bytes)
	}
	if hex.EncodeToString(h.Sum(nil)) != m.Sum {
		return fmt.Errorf("the first %d bytes of %s are not those that it had when the checkpoint was made", m.Bytes, name)
	}
	return nil
}

// openLineLog opens a log and cuts it to the size that it had at the checkpoint: the steps after the checkpoint are repeated and
// logged again. A log that is shorter than that is cut after its last complete line.
func openLineLog(dir, name string, size int64) (*lineLog, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := io.ReadFull(f, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		n, err = bytes.LastIndexByte(b[:n], '\n')+1, nil
	}
	l := &lineLog{f, int64(n), sha256.New()}
	l.sum.Write(b[:n])
	if err == nil {
		err = f.Truncate(l.size)
	}
	if err == nil {
		_, err = f.Seek(l.size, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func (l *lineLog) mark() logMark { return logMark{l.size, hex.EncodeToString(l.sum.Sum(nil))} }

// append writes one line.
func (l *lineLog) append(s StepLog) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	n, err := l.f.Write(append(b, '\n'))
	l.sum.Write(append(b, '\n')[:n])
	l.size += int64(n)
	return err
}

// lines reads all lines, oldest first.
func (l *lineLog) lines() ([]StepLog, error) {
	b := make([]byte, l.size)
	if _, err := l.f.ReadAt(b, 0); err != nil && l.size > 0 {
		return nil, err
	}
	rows := bytes.FieldsFunc(b, func(r rune) bool { return r == '\n' })
	out := make([]StepLog, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", l.f.Name(), err)
		}
	}
	return out, nil
}

func (l *lineLog) sync() error { return l.f.Sync() }

func (l *lineLog) close() error { return l.f.Close() }
