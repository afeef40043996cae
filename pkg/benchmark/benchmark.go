// Package benchmark measures one policy on the tasks of one split, in two stages. The first one plays the policy and keeps the final
// states, a record a task. The second one reads nothing but the states: it takes the verdict of the programmatic check, asks a judge
// where there is one, and writes a result a task and a summary. So a policy is played once, without a network, and evaluated as often
// as one likes, on another machine if need be. Two benchmarks of the same tasks can be compared.
//
// A benchmark is a folder. Both stages go on after a kill at any moment, without a task lost or counted twice. The package opens no
// model, talks to no endpoint and plays nothing itself: the caller plays, and brings the [Judge].
package benchmark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// The files of a benchmark folder.
const (
	InfoFile    = "info.json"
	StatesFile  = "states.jsonl"  // a record of package trajectory a task
	ResultsFile = "results.jsonl" // a [Result] a task, in the order of the states
	SummaryJSON = "summary.json"
	SummaryMD   = "summary.md"
)

// The stages, by the names that the folder records them under.
const (
	playStage    = "run"
	judgeStage   = "evaluate"
	summaryStage = "summary"
)

// format is the version of the files above, records apart. It is raised when results or summaries change their meaning, so that they
// are made again.
const format = 1

// Settings are what decides the states. Two folders of equal settings hold the same states, latencies apart.
type Settings struct {
	Suite     string `json:"suite"`
	Policy    string `json:"policy"` // a recipe, or a scripted method
	Method    string `json:"method"` // as records name it
	Model     string `json:"model"`
	TrainSeed uint64 `json:"train_seed"` // of a recipe; 0 for a scripted method
	Split     string `json:"split"`
	Budget    string `json:"budget_mode"`
	Limit     int    `json:"limit"` // tasks that were asked for; 0 is all
	Tasks     int    `json:"tasks"` // tasks that are played
	Seed      uint64 `json:"seed"`  // of the choice of tasks and of sampling
	Weights   string `json:"weights"`
	Data      string `json:"data"`    // hash of the data set's manifest
	Shown     any    `json:"shown"`   // the suite's settings that decide what policies see
	Further   any    `json:"further"` // what decides the tasks of a split that settings add
	Episode   any    `json:"episode"`
	Reward    any    `json:"reward"`
	// Versions are those of formats and rules in the code.
	Versions map[string]int `json:"versions"`
}

// Info is info.json.
type Info struct {
	Format    int      `json:"format"`
	Key       string   `json:"key"` // hash of Settings
	Settings  Settings `json:"settings"`
	Revisions []string `json:"revisions"` // of the programs that played
}

// Folder is the folder of a benchmark.
type Folder struct {
	run.Folder
	Info Info
}

// Open makes a folder for the settings, or opens the one that an earlier process made with them. A folder of other settings is an error
// that names the first one that differs. revision is the program's.
func Open(dir string, s Settings, revision string, log io.Writer) (*Folder, error) {
	f := &Folder{Folder: run.In(dir, log), Info: Info{Format: format, Key: run.Key(format, s), Settings: s}}
	f.Revision = revision
	have, err := readInfo(f.Folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(f.Path(StatesFile)); err == nil {
			return nil, fmt.Errorf("%s holds %s but no %s, so nobody knows what was played: remove the folder, or name another one with --folder", dir, StatesFile, InfoFile)
		}
	case err != nil:
		return nil, err
	case have.Key != f.Info.Key:
		return nil, fmt.Errorf("%s was begun with other settings: %s. Take the same settings, name another folder with --folder, or forget that one with --resume=false", dir, differs(s, have.Settings))
	default:
		f.Info.Revisions = have.Revisions
	}
	if revision != "" && !slices.Contains(f.Info.Revisions, revision) {
		f.Info.Revisions = append(f.Info.Revisions, revision)
	}
	return f, run.WriteJSON(f.Path(InfoFile), f.Info)
}

// Load opens a folder that another process made.
func Load(dir string, log io.Writer) (*Folder, error) {
	f := &Folder{Folder: run.In(dir, log)}
	var err error
	if f.Info, err = readInfo(f.Folder); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no benchmark folder: it has no %s; make one with --stage run", dir, InfoFile)
	}
	return f, err
}

func readInfo(f run.Folder) (Info, error) {
	var i Info
	if err := run.ReadJSON(f.Path(InfoFile), &i); err != nil {
		return i, err
	}
	if i.Format != format {
		return i, fmt.Errorf("%s is of format %d, this program reads and writes %d: name another folder with --folder, or forget that one with --resume=false", f.Path(InfoFile), i.Format, format)
	}
	return i, nil
}

// differs names the first setting that two benchmarks do not share.
func differs(here, there Settings) string {
	var decoded [2]any
	for i, s := range []Settings{here, there} {
		b, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(b, &decoded[i])
		}
		if err != nil {
			return err.Error()
		}
	}
	if d := run.Difference("settings", decoded[0], decoded[1], "there it"); d != "" {
		return d
	}
	return "their key is not that of what the file lists"
}

// Play runs play, unless the states are complete. play appends to the file that it is given, and goes on with one that holds states.
func (f *Folder) Play(ctx context.Context, play func(path string) error) error {
	return f.Stage(ctx, playStage, f.Info.Key, func() ([]string, error) {
		// The folder is of these settings, so nothing is removed here but a file that was changed by hand.
		if err := f.Claim(playStage, f.Info.Key, StatesFile); err != nil {
			return nil, err
		}
		return []string{StatesFile}, play(f.Path(StatesFile))
	})
}

// States reads the states of a benchmark that was played to its end.
func (f *Folder) States() ([]trajectory.Trajectory, error) {
	if err := f.Check(playStage, f.Info.Key); errors.Is(err, run.ErrNotDone) {
		return nil, fmt.Errorf("%s: the tasks are not all played (%w): go on with --stage run", f.Dir, err)
	} else if err != nil {
		return nil, err
	}
	states, err := trajectory.ReadFile(f.Path(StatesFile))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range states {
		t := &states[i]
		if seen[t.Task.ID] {
			return nil, fmt.Errorf("%s: task %s stands there twice", f.Path(StatesFile), t.Task.ID)
		}
		seen[t.Task.ID] = true
	}
	if len(states) != f.Info.Settings.Tasks {
		return nil, fmt.Errorf("%s: it holds %d tasks, %s says %d", f.Path(StatesFile), len(states), InfoFile, f.Info.Settings.Tasks)
	}
	return states, nil
}
