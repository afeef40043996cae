package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// shell runs a script of the project with the named programs alone on PATH.
func shell(t *testing.T, script string, env []string, programs ...string) (string, error) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the scripts are for Linux")
	}
	bin := t.TempDir()
	for _, p := range append(programs, "bash", "dirname") {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, p)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "bash"), filepath.Join(root, script))
	cmd.Env = append(append(os.Environ(), "PATH="+bin, "GOPROXY=off"), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A folder that holds what docker/setup.sh did not put there is never removed, whatever it is called; an empty or a marked one, and
// one that is not there, pass on to the next question, where the toolchain is to come from.
func TestSetupKeepsOtherFolders(t *testing.T) {
	tools := []string{"awk", "sed", "sort", "head", "uname", "ls", "cat"}
	for _, c := range []struct {
		name string
		file string // in the folder; empty for none
		want string
	}{
		{"home [1] x", "thesis.txt", "TOOLROUTE_GO names "},
		{"hidden", ".profile", "TOOLROUTE_GO names "},
		{"-rf", "bin/other", "TOOLROUTE_GO names "},
		{"made before", ".made-by-toolroute", "GOPROXY"},
		{"empty", "", "GOPROXY"},
		{"new", "none", "GOPROXY"},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		kept := filepath.Join(dir, c.file)
		switch {
		case c.file == "none":
		case c.file == "":
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(kept, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := shell(t, "docker/setup.sh", []string{"TOOLROUTE_GO=" + dir}, tools...)
		if err == nil || !strings.Contains(out, c.want) || c.want == "GOPROXY" && strings.Contains(out, "TOOLROUTE_GO names") {
			t.Errorf("%s: %v, %q; want it to say %q", c.name, err, out, c.want)
		}
		if _, err := os.Stat(kept); c.file != "none" && err != nil {
			t.Errorf("%s: what lay there is gone: %v", c.name, err)
		}
	}
}

// A TMPDIR that is not there is named before anything is done.
func TestMissingTmpdir(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no such [folder]")
	for _, script := range []string{"scripts/setup.sh", "scripts/test.sh", "scripts/notebooks.sh", "scripts/data_hashes.sh", "scripts/fuzz.sh", "scripts/jupyter.sh", "scripts/notice.sh", "docker/setup.sh"} {
		out, err := shell(t, script, []string{"TMPDIR=" + missing})
		if err == nil || !strings.Contains(out, "TMPDIR names "+missing) {
			t.Errorf("%s: %v, %q", script, err, out)
		}
	}
}
