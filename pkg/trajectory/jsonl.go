package trajectory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// MaxLine bounds one record in bytes. A longer line is damage, not an episode.
const MaxLine = 64 << 20

// ErrVersion marks a record written by a later version of this package.
var ErrVersion = errors.New("record of a newer version")

// Lines is a file of lines, JSON or other, that only grows. It is not safe for concurrent use.
type Lines struct {
	path     string
	f        *os.File
	repaired int64
}

// OpenLines opens or creates a file for appending. A torn last line, left by a process that was killed while it wrote, is
// cut off; Repaired says how much that was. The rest of the file is not read.
func OpenLines(path string) (*Lines, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("append lines: %w", err)
	}
	l := &Lines{path: path, f: f}
	if l.repaired, err = cutTornLine(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: repair: %w", path, err), f.Close())
	}
	return l, nil
}

// cutTornLine removes what follows the last newline, leaves the file positioned at its end and returns what it cut.
func cutTornLine(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	keep := int64(0)
	for end := size; end > 0 && keep == 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			keep = end - n + int64(i) + 1
		}
		end -= n
	}
	if keep == size {
		return 0, nil
	}
	if err := f.Truncate(keep); err != nil {
		return 0, err
	}
	_, err = f.Seek(keep, io.SeekStart)
	return size - keep, err
}

// Path is the file's name.
func (l *Lines) Path() string { return l.path }

// Repaired is the number of bytes of a torn last line that opening the file cut off; 0 when it was whole.
func (l *Lines) Repaired() int64 { return l.repaired }

// Append writes whole lines, newlines included, all of them in one write.
func (l *Lines) Append(b []byte) error {
	if _, err := l.f.Write(b); err != nil {
		return fmt.Errorf("append lines: %w", err)
	}
	return nil
}

// Reset empties the file.
func (l *Lines) Reset() error {
	err := l.f.Truncate(0)
	if err == nil {
		_, err = l.f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("append lines: %w", err)
	}
	return nil
}

// Close flushes the file to disk and closes it.
func (l *Lines) Close() error {
	if err := errors.Join(l.f.Sync(), l.f.Close()); err != nil {
		return fmt.Errorf("append lines: %w", err)
	}
	return nil
}

// Writer appends records to a JSONL file, whole lines at a time. It is not safe for concurrent use.
type Writer struct{ *Lines }

// OpenWriter is OpenLines for records.
func OpenWriter(path string) (*Writer, error) {
	l, err := OpenLines(path)
	if err != nil {
		return nil, err
	}
	return &Writer{l}, nil
}

// Write appends records, all of them in one write.
func (w *Writer) Write(ts ...Trajectory) error {
	var b bytes.Buffer
	for _, t := range ts {
		line, err := t.Line()
		if err != nil {
			return err
		}
		b.Write(line)
	}
	return w.Append(b.Bytes())
}

// ReadFile returns all records of a file.
func ReadFile(path string) ([]Trajectory, error) {
	var out []Trajectory
	for t, err := range Stream(path) {
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Stream reads a file record by record. An error names file and line and ends the stream. A torn last line is such an
// error; OpenWriter repairs it.
func Stream(path string) iter.Seq2[Trajectory, error] {
	return func(yield func(Trajectory, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Trajectory{}, fmt.Errorf("trajectories: %w", err))
			return
		}
		defer f.Close()
		for t, err := range Read(f, path) {
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Read is Stream over any reader; name stands in errors.
func Read(r io.Reader, name string) iter.Seq2[Trajectory, error] {
	return Decode(r, name, decode)
}

// Decode reads any file of lines: decode makes a value of each. An error names file and line and ends the stream.
func Decode[T any](r io.Reader, name string, decode func(line []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		br := bufio.NewReaderSize(r, 256<<10)
		for n := 1; ; n++ {
			line, err := readLine(br)
			if err == io.EOF {
				return
			}
			var v, none T
			if err == nil {
				v, err = decode(line)
			}
			if err != nil {
				yield(none, fmt.Errorf("%s:%d: %w", name, n, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case len(line) > MaxLine:
			return nil, fmt.Errorf("a line of more than %d bytes", MaxLine)
		case err == io.EOF && len(line) > 0:
			return nil, fmt.Errorf("the last line is torn (%d bytes without a newline); opening the file for writing repairs it", len(line))
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

func decode(line []byte) (Trajectory, error) {
	var t Trajectory
	if len(bytes.TrimSpace(line)) == 0 {
		return t, errors.New("empty line")
	}
	if err := json.Unmarshal(line, &t); err != nil {
		return t, fmt.Errorf("not a record: %w", err)
	}
	switch {
	case t.Version > Version:
		return t, fmt.Errorf("%w: version %d, this program reads up to %d", ErrVersion, t.Version, Version)
	case t.Version < 1:
		return t, errors.New("not a record: no version")
	case t.EpisodeID == "":
		return t, errors.New("not a record: no episode_id")
	}
	return t, nil
}
