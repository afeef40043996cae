package company

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/wholefile"
)

// The files of a data set.
const (
	dbFile       = "company.sqlite"
	docsFile     = "docs.jsonl"
	webFile      = "web.jsonl"
	manifestFile = "manifest.json"
)

func tasksFile(split string) string { return "tasks_" + split + ".jsonl" }

// Format is the version of the files' layout and of the world behind a seed. A data set of another version is made again.
const Format = 12

// Manifest says what a data set holds. It names no path and no time: the same options give the same bytes.
type Manifest struct {
	Version int                    `json:"version"`
	Suite   string                 `json:"suite"`
	Seed    uint64                 `json:"seed"`
	Options ManifestOptions        `json:"options"`
	World   map[string]int         `json:"world"` // rows of each table, documents and passages of each corpus
	Counts  map[string]SplitCounts `json:"counts"`
	Files   map[string]FileInfo    `json:"files"`
}

// ManifestOptions are the options of the data, as resolved.
type ManifestOptions struct {
	Prices       map[string]price.Amount `json:"prices"`
	BudgetFactor float64                 `json:"budget_factor"`
	BudgetStep   price.Amount            `json:"budget_step"`
	RandomOffers float64                 `json:"random_offers"` // always 0: offers are drawn when a suite is opened
	TwoSource    bool                    `json:"two_source"`
	SQLRows      int                     `json:"sql_rows"`
	SQLBytes     int                     `json:"sql_bytes"`
	PassageWords int                     `json:"passage_words"`
}

// SplitCounts counts the tasks of a split.
type SplitCounts struct {
	Tasks       int            `json:"tasks"`
	Template    map[string]int `json:"template"`
	Combination map[string]int `json:"combination"`
	Structure   map[string]int `json:"structure"`
	Pairs       map[string]int `json:"combination_structure"`
	Difficulty  map[string]int `json:"difficulty"`
	Tags        map[string]int `json:"tags,omitempty"`
}

// FileInfo identifies a file.
type FileInfo struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Count counts tasks.
func Count(tasks []suite.Task) SplitCounts {
	c := SplitCounts{Tasks: len(tasks), Template: map[string]int{}, Combination: map[string]int{}, Structure: map[string]int{},
		Pairs: map[string]int{}, Difficulty: map[string]int{}, Tags: map[string]int{}}
	for _, t := range tasks {
		c.Template[t.Template]++
		c.Combination[t.CombinationKey()]++
		c.Structure[t.Structure]++
		c.Pairs[t.CombinationKey()+": "+t.Structure]++
		c.Difficulty[fmt.Sprint(t.Difficulty)]++
		for _, tag := range t.Tags {
			c.Tags[tag]++
		}
	}
	return c
}

// Manifest describes the world; its files are known once it is written.
func (w *World) Manifest() Manifest {
	m := Manifest{Version: Format, Suite: Name, Seed: w.opt.Seed, World: map[string]int{}, Counts: map[string]SplitCounts{}, Files: map[string]FileInfo{}}
	m.Options = ManifestOptions{w.opt.Prices, w.opt.BudgetFactor, w.opt.BudgetStep, 0, w.opt.TwoSource, w.opt.SQLRows, w.opt.SQLBytes, w.opt.PassageWords}
	for _, t := range w.Tables {
		m.World["rows_"+t.Name] = len(t.Rows)
	}
	for name, docs := range map[string][]Document{"docs": w.Docs, "web_pages": w.Pages} {
		m.World[name] = len(docs)
		for _, d := range docs {
			m.World[name+"_passages"] += len(d.Passages)
		}
	}
	for _, s := range w.Splits() {
		m.Counts[s] = Count(w.tasks[s])
	}
	return m
}

// Write writes the data set into a folder, which it makes when there is none: company.sqlite, docs.jsonl, web.jsonl, the
// tasks of each split and, last, manifest.json with the hash of every file. Each file appears under its name when it is
// whole.
func (w *World) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write data set: %w", err)
	}
	// Open refuses a manifest that does not fit its files. So the old one is removed first, and the new one is written last.
	if err := os.Remove(filepath.Join(dir, manifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write data set: %w", err)
	}
	m := w.Manifest()
	put := func(name string, write func(io.Writer) error) error {
		info, err := writeFile(filepath.Join(dir, name), write)
		if err != nil {
			return fmt.Errorf("write data set: %w", err)
		}
		m.Files[name] = info
		return nil
	}
	if err := put(dbFile, func(out io.Writer) error { return copyFile(out, w.stores.db.Path()) }); err != nil {
		return err
	}
	if err := put(docsFile, func(out io.Writer) error { return writeLines(out, w.Docs) }); err != nil {
		return err
	}
	if err := put(webFile, func(out io.Writer) error { return writeLines(out, w.Pages) }); err != nil {
		return err
	}
	for _, s := range splitNames(true) {
		if !slices.Contains(w.Splits(), s) {
			if err := os.Remove(filepath.Join(dir, tasksFile(s))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("write data set: %w", err)
			}
			continue
		}
		if err := put(tasksFile(s), func(out io.Writer) error { return writeLines(out, w.tasks[s]) }); err != nil {
			return err
		}
	}
	_, err := writeFile(filepath.Join(dir, manifestFile), func(out io.Writer) error {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	})
	if err != nil {
		return fmt.Errorf("write data set: %w", err)
	}
	return nil
}

func copyFile(out io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

func writeLines[T any](out io.Writer, items []T) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for i := range items {
		if err := enc.Encode(items[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file whole or not at all.
func writeFile(path string, write func(io.Writer) error) (FileInfo, error) {
	h := sha256.New()
	n := &counter{}
	err := wholefile.Stream(path, func(w io.Writer) error { return write(io.MultiWriter(w, h, n)) })
	return FileInfo{hex.EncodeToString(h.Sum(nil)), n.n}, err
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// ReadManifest reads the manifest of a data set.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("company data set: there is no %s in %s: make the data set first", manifestFile, dir)
	}
	if err != nil {
		return m, fmt.Errorf("company data set: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, fmt.Errorf("company data set: %s: %w", manifestFile, err)
	}
	if m.Version != Format || m.Suite != Name {
		return m, fmt.Errorf("company data set: %s is of suite %q, version %d; this program reads %q, version %d: make the data set again",
			manifestFile, m.Suite, m.Version, Name, Format)
	}
	return m, nil
}

// verify compares every file with its hash.
func (m Manifest) verify(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("company data set: %w", err)
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("company data set: %s: %w", name, err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != m.Files[name].SHA256 {
			return fmt.Errorf("company data set: %s has changed since it was made (sha256 %.12s…, the manifest says %.12s…): make the data set again",
				name, got, m.Files[name].SHA256)
		}
	}
	return nil
}

func readLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("company data set: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(bufio.NewReader(f))
	dec.DisallowUnknownFields()
	var out []T
	for {
		var v T
		if err := dec.Decode(&v); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("company data set: %s, row %d: %w", filepath.Base(path), len(out)+1, err)
		}
		out = append(out, v)
	}
}
