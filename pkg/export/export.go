// Package export writes a suite's tasks, demonstrations and preferences as tables that other programs read: JSON lines and Parquet. Demonstrations
// and preferences have the conversational formats of TRL. An assistant's message is exactly the text of an action that a policy is trained to
// write here; what a tool answered is a message of the role tool, as the chat template renders it.
package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Message is one message of a conversation.
type Message struct {
	Role    string `json:"role" parquet:"role"` // system, user, assistant or tool
	Content string `json:"content" parquet:"content"`
}

// TaskRow is a task.
type TaskRow struct {
	ID          string   `json:"id" parquet:"id"`
	Split       string   `json:"split" parquet:"split"`
	Question    string   `json:"question" parquet:"question"`
	AnswerType  string   `json:"answer_type" parquet:"answer_type"`
	Gold        []string `json:"gold" parquet:"gold,list"`
	Template    string   `json:"template" parquet:"template"`
	Combination string   `json:"combination" parquet:"combination"` // gold tools, joined with "+"
	Structure   string   `json:"structure" parquet:"structure"`
	Difficulty  int32    `json:"difficulty" parquet:"difficulty"`
	Tags        []string `json:"tags" parquet:"tags,list"`
	OptimalCost float64  `json:"optimal_cost" parquet:"optimal_cost"` // price units
	Budget      float64  `json:"budget" parquet:"budget"`             // 0 is none
	GoldCalls   string   `json:"gold_calls" parquet:"gold_calls"`     // JSON: a list of {tool, args}
}

// DemonstrationRow is a demonstration in the conversational form of TRL's language modelling data sets.
type DemonstrationRow struct {
	TaskID   string    `json:"task_id" parquet:"task_id"`
	Messages []Message `json:"messages" parquet:"messages,list"`
	Cost     float64   `json:"cost" parquet:"cost"` // of the calls, price units
}

// PreferenceRow is a preference in the conversational form of TRL: the prompt is all up to the step at which the two paths part, and each side
// is the action there.
type PreferenceRow struct {
	TaskID   string    `json:"task_id" parquet:"task_id"`
	Prompt   []Message `json:"prompt" parquet:"prompt,list"`
	Chosen   []Message `json:"chosen" parquet:"chosen,list"`
	Rejected []Message `json:"rejected" parquet:"rejected,list"`
}

// Tasks are the tasks of the given splits as rows.
func Tasks(s suite.Suite, splits []string) ([]TaskRow, error) {
	var out []TaskRow
	for _, split := range splits {
		tasks, err := s.Tasks(split)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			type call struct {
				Tool string          `json:"tool"`
				Args json.RawMessage `json:"args"`
			}
			calls := make([]call, len(t.GoldPath))
			for i, c := range t.GoldPath {
				calls[i] = call{c.Tool, c.Args}
			}
			gold, err := plainJSON(calls)
			if err != nil {
				return nil, fmt.Errorf("task %s: %w", t.ID, err)
			}
			out = append(out, TaskRow{ID: t.ID, Split: t.Split, Question: t.Question, AnswerType: string(t.Answer.Type), Gold: t.Answer.Values, Template: t.Template,
				Combination: t.CombinationKey(), Structure: t.Structure, Difficulty: int32(t.Difficulty), Tags: t.Tags, OptimalCost: t.OptimalCost.Float(), Budget: t.Budget.Float(), GoldCalls: string(gold)})
		}
	}
	return out, nil
}

// Episode is a played path: its conversation, and what its calls cost in price units.
type Episode struct {
	TaskID   string
	Cost     float64
	Messages []chat.Message
}

// Demonstrations are played demonstrations as rows.
func Demonstrations(played []Episode) []DemonstrationRow {
	out := make([]DemonstrationRow, len(played))
	for i, p := range played {
		out[i] = DemonstrationRow{p.TaskID, conversation(p), p.Cost}
	}
	return out
}

// Preferences are pairs of played paths as rows. Two conversations that do not part at an action are an error.
func Preferences(chosen, rejected []Episode) ([]PreferenceRow, error) {
	if len(chosen) != len(rejected) {
		return nil, fmt.Errorf("%d chosen and %d rejected paths", len(chosen), len(rejected))
	}
	out := make([]PreferenceRow, len(chosen))
	for i := range chosen {
		a, b := conversation(chosen[i]), conversation(rejected[i])
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		if at == len(a) || at == len(b) || a[at].Role != "assistant" || b[at].Role != "assistant" {
			return nil, fmt.Errorf("preference %d, of task %s: the two paths do not part at an action", i, chosen[i].TaskID)
		}
		out[i] = PreferenceRow{chosen[i].TaskID, a[:at], a[at : at+1], b[at : at+1]}
	}
	return out, nil
}

func conversation(p Episode) []Message {
	out := make([]Message, len(p.Messages))
	for i, m := range p.Messages {
		out[i] = Message{m.Role, m.Content}
	}
	return out
}

// The formats of files.
const (
	JSONL   = "jsonl"
	Parquet = "parquet"
)

// Formats lists them.
func Formats() []string { return []string{JSONL, Parquet} }

// Write writes rows into dir/name.<format>, the same bytes for the same rows, and returns the file's name.
func Write[T any](dir, name, format string, rows []T) (string, error) {
	var b bytes.Buffer
	switch format {
	case JSONL:
		for _, r := range rows {
			line, err := plainJSON(r)
			if err != nil {
				return "", err
			}
			b.Write(append(line, '\n'))
		}
	case Parquet:
		w := parquet.NewGenericWriter[T](&b, parquet.CreatedBy("toolroute", "1", "0"), parquet.Compression(&parquet.Snappy))
		if _, err := w.Write(rows); err != nil {
			return "", fmt.Errorf("%s.%s: %w", name, format, err)
		}
		if err := w.Close(); err != nil {
			return "", fmt.Errorf("%s.%s: %w", name, format, err)
		}
	default:
		return "", fmt.Errorf("format %q: want one of %v", format, Formats())
	}
	file := name + "." + format
	return file, run.WriteFile(filepath.Join(dir, file), b.Bytes())
}

// plainJSON keeps < and & as they are, in one line.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ManifestFile says what an export holds.
const ManifestFile = "manifest.json"

// Manifest says what an export holds and of what. It holds no path and no time.
type Manifest struct {
	Suite    string         `json:"suite"`
	Profile  string         `json:"profile"`
	Seed     uint64         `json:"seed"`
	Settings any            `json:"settings"` // of the suite
	Demos    string         `json:"demonstrations"`
	Pairs    string         `json:"preferences,omitempty"`
	Files    []ExportedFile `json:"files"`
}

// ExportedFile is one table.
type ExportedFile struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`
	SHA256 string `json:"sha256"`
}

// CheckFolder refuses a folder that holds something other than an earlier export: nothing of it is overwritten or lost.
func CheckFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	var m Manifest
	if err := run.ReadJSON(filepath.Join(dir, ManifestFile), &m); err != nil || m.Files == nil {
		return fmt.Errorf("%s holds files that are no export: name a new folder", dir)
	}
	for _, e := range entries {
		if e.Name() != ManifestFile && !slices.ContainsFunc(m.Files, func(f ExportedFile) bool { return f.Name == e.Name() }) {
			return fmt.Errorf("%s holds %s, which the export there does not list: name a new folder", dir, e.Name())
		}
	}
	return nil
}
