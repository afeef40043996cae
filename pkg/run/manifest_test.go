package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The revision is the commit's, marked where tracked files are not as committed; files that git does not know change nothing.
func TestRevision(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		t.Setenv(name, os.DevNull)
	}
	if got := Revision(); got != "unknown" {
		t.Errorf("outside git: %q", got)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("settings.yaml", "seed: 1\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "settings.yaml"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "first"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	clean := Revision()
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(clean) {
		t.Errorf("as committed: %q", clean)
	}
	write("notes.txt", "not tracked\n")
	if got := Revision(); got != clean {
		t.Errorf("beside a file that is not tracked: %q, want %q", got, clean)
	}
	write("settings.yaml", "seed: 2\n")
	if got := Revision(); got != clean+"+changes" {
		t.Errorf("with a changed file: %q, want %q", got, clean+"+changes")
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
