package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repository makes a folder with a project in git, all of it committed.
func repository(t *testing.T) (root string, git func(args ...string)) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	root = filepath.Join(t.TempDir(), "-p[1] \\x")
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(root))
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		t.Setenv(name, os.DevNull)
	}
	git = func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{"go.mod", "configs/settings.yaml", "pkg/a.go", "README.md", "results/table.md"} {
		put(t, filepath.Join(root, name), "first\n")
	}
	git("init", "-q")
	if got := Revision(root); got != "unknown" {
		t.Errorf("without a commit: %q", got)
	}
	git("add", ".")
	git("commit", "-q", "-m", "first")
	return root, git
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := WriteFile(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// The revision is the commit's. It is marked if files that decide results differ from the commit or are not in it.
func TestRevision(t *testing.T) {
	root, git := repository(t)
	if got := Revision(filepath.Dir(root)); got != "unknown" {
		t.Errorf("outside git: %q", got)
	}
	clean := Revision(root)
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(clean) {
		t.Errorf("as committed: %q", clean)
	}
	for _, name := range []string{"notes.txt", "README.md", "results/table.md"} {
		put(t, filepath.Join(root, name), "decides nothing\n")
	}
	if got := Revision(root); got != clean {
		t.Errorf("beside texts and results: %q, want %q", got, clean)
	}
	for _, name := range []string{"go.mod", "configs/settings.yaml", "pkg/new.go"} {
		put(t, filepath.Join(root, name), "second\n")
		if got := Revision(root); got != clean+"+changes" {
			t.Errorf("with another %s: %q, want %q", name, got, clean+"+changes")
		}
		git("stash", "-q", "--include-untracked")
		if got := Revision(root); got != clean {
			t.Errorf("without it again: %q", got)
		}
	}
	put(t, filepath.Join(root, "pkg", "staged.go"), "second\n")
	git("add", ".")
	if got := Revision(root); got != clean+"+changes" {
		t.Errorf("with a staged file: %q", got)
	}
	// A copy of the project inside another repository has no revision.
	copied := filepath.Join(root, "copies", "p")
	put(t, filepath.Join(copied, "go.mod"), "first\n")
	if got := Revision(copied); got != "unknown" {
		t.Errorf("a copy inside another repository: %q", got)
	}
}

func TestUnpublishable(t *testing.T) {
	of := func(report string, stages map[string]StageRecord) string {
		m := NewManifest("s", "p", nil, nil, report)
		m.AddStages(stages)
		return m.Unpublishable()
	}
	clean := map[string]StageRecord{"a": {Revisions: []string{"111111111111"}}, "b": {Revisions: []string{"222222222222", "111111111111"}}}
	if got := of("222222222222", clean); got != "" {
		t.Errorf("all committed: %q", got)
	}
	for _, c := range []struct {
		report string
		stages map[string]StageRecord
		want   string
	}{
		{"222222222222+changes", clean, "222222222222+changes (the report)"},
		{"unknown", clean, "unknown (the report)"},
		{"", clean, "unknown (the report)"},
		{"222222222222", nil, "no stage says"},
		{"222222222222", map[string]StageRecord{"a": {}}, "unknown (1 stages, such as a)"},
		// Interrupted, and gone on with by another program.
		{"222222222222", map[string]StageRecord{"a": {Revisions: []string{"111111111111+changes", "222222222222"}}}, "111111111111+changes (1 stages, such as a)"},
	} {
		if got := of(c.report, c.stages); !strings.Contains(got, c.want) {
			t.Errorf("report %q, stages %v: %q, want %q", c.report, c.stages, got, c.want)
		}
	}
}

// The modules that a manifest names are dependencies of this project: a renamed one would be left out in silence. (A test's binary knows no
// versions of them; a program's does.)
func TestNumberModules(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range numberModules {
		if !strings.Contains(string(b), "\t"+m+" v") {
			t.Errorf("%s is not in go.mod", m)
		}
	}
}
