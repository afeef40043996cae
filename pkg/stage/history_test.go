package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/train"
)

func evalPoint(iteration int, split string, temperature, rate float64) rl.EvalPoint {
	return rl.EvalPoint{Iteration: iteration, Split: split, Temperature: temperature, Episodes: 10, Values: []train.Metric{{Name: "chain_rate", Value: rate}}}
}

// leave puts the files of a run of reinforcement learning into a run folder.
func leave(t *testing.T, e *Env, recipe string, seed uint64) {
	t.Helper()
	var metrics bytes.Buffer
	// The run collapses by update 5; its KL is above 0.1 twice in a row by update 3.
	for i, v := range [][4]float64{{0.6, 0.01, 0.3, 1}, {0.7, 0.2, 0.3, 1}, {0.7, 0.3, 0.3, 1}, {0.5, 0.5, 0.2, 9}, {0.4, 1.5, 0.1, 20}, {0, 9, 0.01, 1}, {0, 9, 0.5, 1}, {0.1, 9, 0.5, 1}} {
		line := train.StepLog{Step: i + 1}
		for j, name := range []string{"success", "kl", "entropy", "grad_norm"} {
			line.Metrics = append(line.Metrics, train.Metric{Name: name, Value: v[j]})
		}
		b, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		metrics.Write(append(b, '\n'))
	}
	points := []rl.EvalPoint{evalPoint(0, "val", 0, 0.25), evalPoint(0, "val", 0.7, 0.5), evalPoint(5, "val", 0, 0.75), evalPoint(5, "val", 0.7, 0.625), evalPoint(8, "val", 0, 0.125), evalPoint(8, "val", 0.7, 0)}
	leaveFiles(t, e, recipe, seed, map[string][]byte{metricsFile: metrics.Bytes(), historyFile: rl.HistoryCSV(points)})
}

func leaveFiles(t *testing.T, e *Env, recipe string, seed uint64, files map[string][]byte) {
	t.Helper()
	handmade(t, e, recipe, seed, func(dir string) ([]string, error) {
		out := []string{filepath.Join(dir, "result.json")}
		errs := []error{run.WriteJSON(e.Run.Path(out[0]), Trained{Recipe: recipe, Seed: seed})}
		for f, b := range files {
			out, errs = append(out, filepath.Join(dir, f)), append(errs, run.WriteFile(e.Run.Path(dir, f), b))
		}
		return out, errors.Join(errs...)
	})
}

const bounds = "warnings={max_kl: 0.1, min_entropy: 0.05, max_clip: 0.2, max_grad_norm: 5, patience: 2}"

// The report writes the tables and the picture when there is something to tell, and removes those of an earlier one when
// there no longer is.
func TestReportOfReinforcement(t *testing.T) {
	e := small(t, "train=[polished+grpo]", bounds)
	if err := e.Baselines(t.Context()); err != nil {
		t.Fatal(err)
	}
	leave(t, e, "polished+grpo", 1)
	if err := e.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{historyFile: "polished+grpo,1,5,val,0,10,0.75\n", "warnings.csv": "polished+grpo,1,8,success,0.6,0.7,0.1,5,kl,0.1,2,0.3,3,0.3,2,announced\n",
		"warnings.md": "# Warnings", "history.png": "PNG", "history.svg": "<svg", "report.html": `<figure id="history">`} {
		b, err := os.ReadFile(e.Run.Path(name))
		if err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s: %v, want it to hold %q", name, err, want)
		}
	}
	// The report names a file that is missing or shortened, and does not leave it out in silence.
	curve := e.Run.Path(e.folder(1, "polished+grpo"), metricsFile)
	whole, err := os.ReadFile(curve)
	if err != nil {
		t.Fatal(err)
	}
	for what, harm := range map[string]func() error{"shortened": func() error { return os.WriteFile(curve, whole[:bytes.IndexByte(whole, '\n')+1], 0o644) }, "removed": func() error { return os.Remove(curve) }} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if err := e.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "train/seed1/polished+grpo/metrics.jsonl") {
			t.Errorf("a report of a curve that was %s: %v", what, err)
		}
	}
	e.Config.Train = nil
	if err := e.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{historyFile, "warnings.csv", "warnings.md", "history.png", "history.svg"} {
		if _, err := os.Stat(e.Run.Path(name)); !os.IsNotExist(err) {
			t.Errorf("%s of the earlier report is still there: %v", name, err)
		}
	}
}

func TestReinforcementNamesTheFile(t *testing.T) {
	e := small(t, "train=[polished+grpo]")
	leaveFiles(t, e, "polished+grpo", 1, map[string][]byte{metricsFile: nil, historyFile: []byte("a,b\n")})
	if _, err := e.Reinforcement(); err == nil || !strings.Contains(err.Error(), "polished+grpo/history.csv") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
