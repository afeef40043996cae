package families

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
)

// The files of a data set, beside those of tasks, demonstrations and pairs.
const (
	manifestFile = "manifest.json"
	worldFile    = "world.json"
)

// format is raised when the same settings give other files. It is the data set's version.
const format = 1

// Manifest says what a data set is. It holds no path and no time, so a second run writes the same bytes.
type Manifest struct {
	Suite     string                    `json:"suite"`
	Version   int                       `json:"version"`
	Config    Config                    `json:"config"`
	Counts    map[string]SplitCounts    `json:"counts"`    // by split
	Templates map[string]map[string]int `json:"templates"` // tasks by template and split
	// Balance counts the pairs of a family in which its cheaper tool wins, and those in which the pricier one does.
	Balance map[string]Balance  `json:"balance"`
	Files   map[string]FileInfo `json:"files"`
}

// SplitCounts counts what a split holds.
type SplitCounts struct {
	Tasks       int `json:"tasks"`
	Valid       int `json:"valid_paths"`
	Failing     int `json:"failing_paths"`
	SeveralWays int `json:"tasks_with_several_valid_paths"`
	WithFailing int `json:"tasks_with_a_failing_path"`
	Cost        int `json:"cost_pairs"`
	Correctness int `json:"correctness_pairs"`
}

// Balance counts pairs by the tool that wins.
type Balance struct {
	Cheaper int `json:"cheaper_wins"`
	Pricier int `json:"pricier_wins"`
}

// FileInfo is one data file.
type FileInfo struct {
	Rows   int    `json:"rows"`
	SHA256 string `json:"sha256"`
}

// trajectoryRow is a demonstration as it is written: calls, without what the tools answered.
type trajectoryRow struct {
	TaskID string       `json:"task_id"`
	Calls  []suite.Call `json:"calls"`
	Cost   price.Amount `json:"cost"`
}

// pairRow is a preference as it is written: the calls before the first difference, and the two that differ.
type pairRow struct {
	TaskID   string       `json:"task_id"`
	Kind     string       `json:"kind"` // cost or correctness
	Family   string       `json:"family"`
	Before   []suite.Call `json:"before"`
	Chosen   suite.Call   `json:"chosen"`
	Rejected suite.Call   `json:"rejected"`
}

func tasksFile(split string) string { return split + "_tasks.jsonl" }

// Write writes the data set into a folder. The manifest comes last: a folder without one is not whole.
func (s *Suite) Write(dir string) error {
	m := Manifest{Suite: Name, Version: format, Config: s.cfg, Counts: map[string]SplitCounts{},
		Templates: map[string]map[string]int{}, Balance: map[string]Balance{}, Files: map[string]FileInfo{}}
	put := func(name string, rows int, b []byte, err error) error {
		if err == nil {
			m.Files[name] = FileInfo{rows, hash(b)}
			err = run.WriteFile(filepath.Join(dir, name), b)
		}
		if err != nil {
			return fmt.Errorf("write suite %s: %s: %w", Name, name, err)
		}
		return nil
	}
	world, err := json.Marshal(s.world)
	if err := put(worldFile, 1, append(world, '\n'), err); err != nil {
		return err
	}
	for _, split := range splits {
		tasks := s.tasks[split]
		b, err := lines(tasks)
		if err := put(tasksFile(split), len(tasks), b, err); err != nil {
			return err
		}
		m.Counts[split] = countOf(tasks)
		for _, t := range tasks {
			if m.Templates[t.Template] == nil {
				m.Templates[t.Template] = map[string]int{}
			}
			m.Templates[t.Template][split]++
		}
	}
	for name, of := range map[string][2]string{
		"sft_train_trajectories.jsonl": {SFTTrain, DemoRandom}, "sft_train_cheapest_trajectories.jsonl": {SFTTrain, DemoCheapest},
		"val_trajectories.jsonl": {Val, DemoRandom}, "val_cheapest_trajectories.jsonl": {Val, DemoCheapest},
	} {
		rows := s.trajectories(of[0], of[1])
		b, err := lines(rows)
		if err := put(name, len(rows), b, err); err != nil {
			return err
		}
	}
	for name, split := range map[string]string{"dpo_pairs.jsonl": DPOTrain, "dpo_val_pairs.jsonl": Val} {
		pairs := s.pairs(s.tasks[split])
		rows := make([]pairRow, len(pairs))
		n := m.Counts[split]
		for i, p := range pairs {
			at := firstDifference(p.chosen, p.rejected)
			rows[i] = pairRow{p.task.ID, "cost", p.family, p.chosen[:at], p.chosen[at], p.rejected[at]}
			if p.correctness {
				rows[i].Kind = "correctness"
				n.Correctness++
			} else {
				n.Cost++
			}
			if split == DPOTrain {
				balance := m.Balance[p.family]
				if p.cheaper {
					balance.Cheaper++
				} else {
					balance.Pricier++
				}
				m.Balance[p.family] = balance
			}
		}
		m.Counts[split] = n
		b, err := lines(rows)
		if err := put(name, len(rows), b, err); err != nil {
			return err
		}
	}
	return run.WriteJSON(filepath.Join(dir, manifestFile), m)
}

// trajectories are the demonstrations of a kind on the tasks of a split, with what they cost.
func (s *Suite) trajectories(split, kind string) []trajectoryRow {
	prices := toolbox.Prices()
	shown := *s
	shown.train.Thoughts = true
	var out []trajectoryRow
	for _, d := range shown.demonstrations(s.tasks[split], kind, s.cfg.Seed) {
		out = append(out, trajectoryRow{d.Task.ID, d.Calls, costOf(d.Calls, prices)})
	}
	return out
}

func countOf(tasks []suite.Task) SplitCounts {
	c := SplitCounts{Tasks: len(tasks)}
	for _, t := range tasks {
		fails := len(failing(t))
		c.Failing += fails
		c.Valid += len(t.Paths) - fails
		if len(t.Paths)-fails > 1 {
			c.SeveralWays++
		}
		if fails > 0 {
			c.WithFailing++
		}
	}
	return c
}

// Open reads a data set that Write wrote, in the compact view of all tools (see With). Files that are missing, changed or written by another
// version are an error that says so, and so is anything that two splits share.
func Open(dir string) (*Suite, error) {
	fail := func(err error) (*Suite, error) { return nil, fmt.Errorf("open suite %s in %s: %w", Name, dir, err) }
	var m Manifest
	if err := run.ReadJSON(filepath.Join(dir, manifestFile), &m); err != nil {
		return fail(err)
	}
	if m.Suite != Name || m.Version != format {
		return fail(fmt.Errorf("the manifest is of suite %q, version %d: want %q, version %d; generate the data again", m.Suite, m.Version, Name, format))
	}
	if err := m.Config.Validate(); err != nil {
		return fail(fmt.Errorf("%s: %w", manifestFile, err))
	}
	s := &Suite{cfg: m.Config, draws: m.Config.Seed, tasks: map[string][]suite.Task{}}
	worlds, err := readFile[*toolbox.World](dir, worldFile, m)
	if err == nil && len(worlds) != 1 {
		err = fmt.Errorf("%s holds %d worlds, want 1", worldFile, len(worlds))
	}
	if err != nil {
		return fail(err)
	}
	s.world = worlds[0]
	for _, split := range splits {
		if s.tasks[split], err = readFile[suite.Task](dir, tasksFile(split), m); err != nil {
			return fail(err)
		}
	}
	if err := CheckSplits(s.tasks); err != nil {
		return fail(err)
	}
	opened, err := s.With(View{Style: Compact}, Training{Thoughts: true})
	if err != nil {
		return fail(err)
	}
	return opened, nil
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
	var out []T
	for i, line := range bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		out = append(out, v)
	}
	return out, nil
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
