package stage

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/run"
)

// scriptedRun opens a run of scripted policies alone, with a log.
func scriptedRun(t *testing.T, out string, set ...string) (*Env, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: out, Log: &log, Set: append([]string{"train=[]", "eval.n_tasks=6", "eval.resamples=20"}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, &log
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Finished episodes that somebody changed get into no table: the report refuses them by name, the next run plays them again, and the tables
// are as before. The run's folder has a name that a shell or a pattern would misread.
func TestChangedEpisodes(t *testing.T) {
	const file = "episodes/oracle/test.none.greedy.jsonl"
	flip := func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte(`"verified":true`), []byte(`"verified":false`))
	}
	out := filepath.Join(t.TempDir(), `-run[1] \x *{a,b}ä`)
	e, _ := scriptedRun(t, out)
	doAll(t, e, (*Env).Baselines, (*Env).Report)
	table := contentOf(t, e.Run.Path("results_table.csv"))
	whole := contentOf(t, e.Run.Path(file))
	if bytes.Equal(flip(whole), whole) {
		t.Fatal("no flag to flip")
	}
	trs, err := e.Episodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := canonical(t, trs)

	record := filepath.Join(".stages", "play_episodes_oracle_test.none.greedy.jsonl.json")
	begun := strings.TrimSuffix(record, ".json") + ".begun"
	for name, c := range map[string]struct {
		file    string
		content []byte // nil: the file is removed
		refused bool   // by stages that only read
		said    string
	}{
		"flags flipped":       {file, flip(whole), true, file + " is missing or changed"},
		"last episodes gone":  {file, whole[:bytes.IndexByte(whole, '\n')+1], true, file + " is missing or changed"},
		"emptied":             {file, []byte{}, true, file + " is missing or changed"},
		"removed":             {file, nil, true, file + " is missing or changed"},
		"its record emptied":  {record, []byte{}, true, "its record is damaged"},
		"the mark emptied":    {begun, []byte{}, false, "done before, skipped"}, // the record decides
		"the mark of another": {begun, []byte(`{"key": "0123456789abcdef"}`), false, "done before, skipped"},
	} {
		t.Run(name, func(t *testing.T) {
			reads, _ := scriptedRun(t, out)
			path := e.Run.Path(c.file)
			if c.content == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, c.content, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			err := reads.Report(t.Context())
			var changed *run.ChangedError
			if refused := errors.As(err, &changed); refused != c.refused || err != nil && !refused {
				t.Errorf("a report of it: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "play/"+file) {
				t.Errorf("the refusal names no stage: %v", err)
			}
			if _, err := reads.Episodes(t.Context()); (err != nil) != c.refused {
				t.Errorf("its episodes: %v", err)
			}
			again, log := scriptedRun(t, out)
			doAll(t, again, (*Env).Baselines, (*Env).Report)
			if !strings.Contains(log.String(), c.said) {
				t.Errorf("the log does not say %q:\n%s", c.said, log)
			}
			trs, err := again.Episodes(t.Context())
			if err != nil || canonical(t, trs) != want {
				t.Errorf("the episodes are others (%v)", err)
			}
			if !bytes.Equal(contentOf(t, e.Run.Path("results_table.csv")), table) {
				t.Error("the table is another")
			}
		})
	}
	// Files that no stage made do not count as episodes of the run.
	if err := run.WriteFile(e.Run.Path("episodes", "oracle", "test.soft.greedy.jsonl"), whole); err != nil {
		t.Fatal(err)
	}
	more, log := scriptedRun(t, out, "baselines.budget_modes=[none, soft]")
	doAll(t, more, (*Env).Report)
	if !strings.Contains(log.String(), "1 files of episodes of other settings are left out") || !bytes.Equal(contentOf(t, e.Run.Path("results_table.csv")), table) {
		t.Errorf("episodes that no stage played:\n%s", log)
	}
}

// A folder whose name begins like another's, or would match it as a pattern, is no part of it.
func TestFoldersSideBySide(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"run1", "run[1]", "run*"} {
		e, _ := scriptedRun(t, filepath.Join(dir, name))
		doAll(t, e, (*Env).Baselines)
	}
	for _, name := range []string{"run*", "run[1]"} {
		e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: filepath.Join(dir, name), Log: new(strings.Builder), Fresh: true, Set: []string{"train=[]"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(e.Run.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was not forgotten: %v", name, err)
		}
	}
	e, log := scriptedRun(t, filepath.Join(dir, "run1"))
	doAll(t, e, (*Env).Baselines)
	if strings.Contains(log.String(), "starting") {
		t.Errorf("another folder lost episodes:\n%s", log)
	}
}

// Results of files that are in no commit are not published.
func TestPublishNeedsACommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	root := project(t)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(root))
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		t.Setenv(name, os.DevNull)
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := run.WriteFile(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	played := func(out string) *Env {
		t.Helper()
		e, _ := scriptedRun(t, filepath.Join(root, "runs", out), "publish=story")
		doAll(t, e, (*Env).Baselines, (*Env).Report)
		return e
	}
	refused := func(e *Env, want string) {
		t.Helper()
		if err := e.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "nothing was published") {
			t.Errorf("error %v, want %q", err, want)
		}
		if left, err := os.ReadDir(filepath.Join(root, "results", "chain")); err == nil && len(left) > 0 {
			t.Errorf("%d files were published all the same", len(left))
		}
	}
	write(".gitignore", "runs/\n")
	write("pkg/a.go", "package a\n")
	refused(played("outside git"), "unknown")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	write("pkg/b.go", "package a\n") // not even added
	dirty := played("with changes")
	git("add", ".")
	git("commit", "-q", "-m", "second")
	refused(dirty, "+changes")
	// A report that is made again at a commit does not make up for episodes of uncommitted files.
	later := played("with changes")
	refused(later, "+changes (2 stages, such as play/")
	clean := played("clean")
	write("configs/x.yaml", "seed: 2\n")
	refused(clean, "are not committed")
	if err := os.Remove(filepath.Join(root, "configs", "x.yaml")); err != nil {
		t.Fatal(err)
	}
	write("README.md", "decides nothing\n")
	doAll(t, clean, (*Env).Publish, (*Env).Publish)
	var m run.Manifest
	if err := run.ReadJSON(filepath.Join(root, "results", "chain", "manifest.json"), &m); err != nil || len(m.Revisions) != 1 || !slices.Equal(m.Revisions[m.Revision], []string{"play/episodes/oracle/test.none.greedy.jsonl", "world"}) {
		t.Errorf("revisions %v of %s, %v", m.Revisions, m.Revision, err)
	}
	// A file that was changed by hand since is refused by name. So is a report of episodes that no longer exist.
	write("runs/clean/smoke/chain/results_table.csv", "method\nmine\n")
	if err := clean.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "results_table.csv") {
		t.Errorf("a table that was written by hand: %v", err)
	}
	doAll(t, clean, (*Env).Report)
	other, _ := scriptedRun(t, filepath.Join(root, "runs", "clean"), "publish=story", "baselines.budget_modes=[soft]")
	doAll(t, other, (*Env).Baselines)
	if err := other.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "run the report stage again") {
		t.Errorf("a report of other settings: %v", err)
	}
}
