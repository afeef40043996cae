package stage

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/lm"
)

// Without a home folder, a network or a tracker's key, every stage runs, and the curves are in files of the run folder.
func TestNeitherHomeNorNetwork(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.WriteFile(home, nil, 0o400); err != nil { // a file: no folder can be made in it, not even by root
		t.Fatal(err)
	}
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HF_HOME", "WANDB_DIR", "WANDB_CACHE_DIR"} {
		t.Setenv(name, home)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	t.Setenv("WANDB_MODE", "offline")
	t.Setenv("WANDB_API_KEY", "")
	t.Setenv("WANDB_BASE_URL", "http://127.0.0.1:1")
	out := t.TempDir()
	e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: out, Log: io.Discard, Set: []string{"eval.n_tasks=6", "eval.resamples=20", "train=[sft_lazy]", "train_seeds=[1]",
		"recipes.sft_lazy.with.sft.run.max_steps=2", "recipes.sft_lazy.with.sft.run.eval_every=1", "tiny.copy_pretraining.steps=2", "tiny.copy_pretraining.vocabulary_steps=0", "tiny.copy_pretraining.compare=0", "tiny.copy_pretraining.micro_batch_size=4", "tiny.copy_pretraining.check_every=1", "profile.tasks=2", "profile.attempts=2",
		"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16", "episode.max_tokens_per_turn=4", "engine.slots=8", "engine.rows=[8]"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"world", func() error { return e.World(ctx) }}, {"baselines", func() error { return e.Baselines(ctx) }}, {"training", func() error { return e.Train(ctx) }}, {"profile", func() error { return e.Profiles(ctx) }},
		{"evaluation", func() error { return e.Evaluate(ctx) }}, {"report", func() error { return e.Report(ctx) }},
	} {
		if err := s.run(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	for _, recipe := range []string{"root", "sft_lazy"} {
		lines := 0
		err := filepath.WalkDir(e.Run.Path(e.folder(1, recipe)), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "metrics.jsonl" {
				return err
			}
			b, err := os.ReadFile(path)
			lines += strings.Count(string(b), "\n")
			return err
		})
		if err != nil || lines < 2 {
			t.Errorf("%s: %d lines of metrics, %v; want one a step", recipe, lines, err)
		}
	}
	if b, err := os.ReadFile(home); err != nil || len(b) != 0 {
		t.Errorf("the home was written: %q, %v", b, err)
	}
	if _, err := os.Stat(e.Run.Path("report.html")); err != nil {
		t.Errorf("no report: %v", err)
	}
}
