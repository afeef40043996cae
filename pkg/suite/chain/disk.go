package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
)

// The files of a data set, beside tasks_<split>.jsonl.
const (
	manifestFile = "manifest.json"
	tableFile    = "table.jsonl"
)

// format is raised when the same config gives other files.
const format = 1

// Manifest says what a data set is. It holds no path and no time, so a second run writes the same bytes.
type Manifest struct {
	Suite  string              `json:"suite"`
	Format int                 `json:"format"`
	Config Config              `json:"config"`
	Counts map[string]Counts   `json:"counts"` // by split
	Files  map[string]FileInfo `json:"files"`
}

// FileInfo is one data file.
type FileInfo struct {
	Rows   int    `json:"rows"`
	SHA256 string `json:"sha256"`
}

type tableRow struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

func taskFile(split string) string { return "tasks_" + split + ".jsonl" }

// Write writes the data set into a folder. The manifest comes last: a folder without one is not whole.
func (s *Suite) Write(dir string) error {
	m := Manifest{Suite: Name, Format: format, Config: s.cfg, Counts: map[string]Counts{}, Files: map[string]FileInfo{}}
	put := func(name string, rows int, b []byte) error {
		m.Files[name] = FileInfo{rows, hash(b)}
		return run.WriteFile(filepath.Join(dir, name), b)
	}
	rows := make([]tableRow, len(s.names))
	for i, n := range s.names {
		rows[i] = tableRow{n, s.table[n]}
	}
	b, err := lines(rows)
	if err == nil {
		err = put(tableFile, len(rows), b)
	}
	if err != nil {
		return fmt.Errorf("write suite %s: %w", Name, err)
	}
	for _, split := range splits {
		tasks := s.tasks[split]
		b, err := lines(tasks)
		if err == nil {
			err = put(taskFile(split), len(tasks), b)
		}
		if err != nil {
			return fmt.Errorf("write suite %s: %w", Name, err)
		}
		m.Counts[split] = count(tasks)
	}
	return run.WriteJSON(filepath.Join(dir, manifestFile), m)
}

// Open reads a data set that Write wrote, with the default habit and style (see With). Files that are missing, changed or
// written by another version are an error that says so; so is a gold path that does not hold and a fact of two splits.
func Open(dir string) (*Suite, error) {
	fail := func(err error) (*Suite, error) { return nil, fmt.Errorf("open suite %s in %s: %w", Name, dir, err) }
	var m Manifest
	if err := run.ReadJSON(filepath.Join(dir, manifestFile), &m); err != nil {
		return fail(err)
	}
	if m.Suite != Name || m.Format != format {
		return fail(fmt.Errorf("the manifest is of suite %q, format %d: want %q, format %d; generate the data again", m.Suite, m.Format, Name, format))
	}
	if err := m.Config.Validate(); err != nil {
		return fail(fmt.Errorf("%s: %w", manifestFile, err))
	}
	s := &Suite{cfg: m.Config, habit: DefaultHabit(), style: Compact, table: map[string]int64{}, tasks: map[string][]suite.Task{}}
	rows, err := readFile[tableRow](dir, tableFile, m)
	if err != nil {
		return fail(err)
	}
	for _, r := range rows {
		s.names = append(s.names, r.Name)
		s.table[r.Name] = r.Value
	}
	for _, split := range splits {
		if s.tasks[split], err = readFile[suite.Task](dir, taskFile(split), m); err != nil {
			return fail(err)
		}
	}
	if err := s.check(); err != nil {
		return fail(err)
	}
	return s, nil
}

func readFile[T any](dir, name string, m Manifest) ([]T, error) {
	want, ok := m.Files[name]
	if !ok {
		return nil, fmt.Errorf("%s does not list %s: generate the data again", manifestFile, name)
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if got := hash(b); got != want.SHA256 {
		return nil, fmt.Errorf("%s has changed: its SHA-256 is %.12s..., the manifest has %.12s...; generate the data again", name, got, want.SHA256)
	}
	out := make([]T, 0, want.Rows)
	for i, line := range bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		out = append(out, v)
	}
	return slices.Clip(out), nil
}

func lines[T any](rows []T) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func count(tasks []suite.Task) Counts {
	var n Counts
	for _, t := range tasks {
		switch t.Template {
		case Calc:
			n.Calc++
		case Lookup:
			n.Lookup++
		case Compose:
			n.Compose++
		}
	}
	return n
}
