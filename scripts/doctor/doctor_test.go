package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/plugin"
)

// TestMain lets the test binary be the child that opens a plugin.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "--probe" {
		main()
		return
	}
	os.Exit(m.Run())
}

// machine plants a project in a folder of its own, enters it, and leaves only the named programs on PATH; "python3" is
// one that has neither pip nor venv. The machine's own plugins are hidden.
func machine(t *testing.T, programs ...string) string {
	t.Helper()
	if plugin.HasNVIDIA() {
		t.Skip("the planted machines have no GPU, this one has")
	}
	root := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module planted\n\ngo 1.26\n", 0o644)
	write("bin/nothing", "", 0o644)
	write(".config/go/telemetry/mode", "off", 0o644) // or the go command writes there after it has ended
	for _, name := range programs {
		if name == "python3" {
			write("bin/python3", "#!/bin/sh\n[ \"$1\" = --version ] && echo Python 3.99.0 && exit\necho \"No module named pip\" >&2\nexit 1\n", 0o755)
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("this machine has no %s", name)
		}
		if err := os.Symlink(path, filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	t.Setenv("PATH", filepath.Join(root, "bin"))
	t.Setenv("HOME", root)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(root, ".config"))
	t.Setenv("GOTOOLCHAIN", "local")
	for _, v := range []string{plugin.BackendVar, plugin.PathVar, "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CGO_ENABLED", "CC"} {
		t.Setenv(v, "")
	}
	if len(plugin.Find(plugin.CPU)) > 0 {
		t.Skip("this machine has a plugin among its system libraries")
	}
	return root
}

// brokenPlugin writes a file with a plugin's name that is no library.
func brokenPlugin(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "pjrt_c_api_cpu_plugin.so")
	if err := os.WriteFile(p, []byte(strings.Repeat("not a library\n", 100)), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func check(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the report lacks %q:\n%s", w, text)
		}
	}
}

func TestNoPython(t *testing.T) {
	machine(t, "go", "gcc")
	s := inspect(t.Context(), probeInChild)
	check(t, s.report(), "no   python3     not found (optional", "no   pip         not found",
		"none found; looked in PJRT_PLUGIN_LIBRARY_PATH", "go will be used", "no xla:cpu plugin found")
	if s.System.OS == "linux" && s.System.Arch == "amd64" {
		check(t, s.Backend.Faster, "install python3 with pip", "scripts/setup.sh")
	}
}

func TestPythonWithoutPip(t *testing.T) {
	machine(t, "go", "gcc", "python3")
	s := inspect(t.Context(), probeInChild)
	check(t, s.report(), "yes  python3     Python 3.99.0", "no   pip         python3 -m pip --version: exit status 1: No module named pip (optional: installs the XLA plugin")
}

func TestNoCompiler(t *testing.T) {
	machine(t, "go")
	s := inspect(t.Context(), probeInChild)
	text := s.report()
	check(t, text, "no   cgo         CGO_ENABLED=0", "no   C compiler  not found", "install a C compiler", "does not build without cgo")
}

func TestBrokenPluginOfTheProject(t *testing.T) {
	root := machine(t, "go", "gcc")
	p := brokenPlugin(t, filepath.Join(root, ".local", "xla-cpu", "vendor"))
	s := inspect(t.Context(), probeInChild)
	check(t, s.report(), p, "CANNOT BE USED: failed to load", "go will be used", "cannot be opened: failed to load",
		"rm -rf .local/xla-cpu .local/.stamp-xla-cpu && scripts/setup.sh")
}

func TestBrokenPluginOfAVariable(t *testing.T) {
	root := machine(t, "go", "gcc")
	p := brokenPlugin(t, filepath.Join(root, "mine"))
	t.Setenv(plugin.PathVar, filepath.Dir(p))
	s := inspect(t.Context(), probeInChild)
	check(t, s.report(), "from PJRT_PLUGIN_LIBRARY_PATH", "CANNOT BE USED", "go will be used", "take its folder out of PJRT_PLUGIN_LIBRARY_PATH")
}

func TestBackendForced(t *testing.T) {
	root := machine(t, "go", "gcc")
	t.Setenv(plugin.BackendVar, "go")
	s := inspect(t.Context(), probeInChild)
	text := s.report()
	check(t, text, "go will be used", "because GOMLX_BACKEND=go asks for it", "unset it")

	t.Setenv(plugin.BackendVar, "xla:"+brokenPlugin(t, root)+",tf32=true")
	s = inspect(t.Context(), probeInChild)
	check(t, s.report(), "none: models cannot run", "from GOMLX_BACKEND", "CANNOT BE USED")

	t.Setenv(plugin.BackendVar, "xla:cpu")
	s = inspect(t.Context(), probeInChild)
	check(t, s.report(), "none: models cannot run, the commands will stop with: GOMLX_BACKEND=xla:cpu: no xla:cpu plugin found")
}

// A plugin that opens is used, and what it says is shown; the first is taken where several open.
func TestWorkingPlugin(t *testing.T) {
	root := machine(t, "go", "gcc")
	bad, good := brokenPlugin(t, filepath.Join(root, "bad")), brokenPlugin(t, filepath.Join(root, "good"))
	t.Setenv(plugin.PathVar, filepath.Dir(bad)+string(os.PathListSeparator)+filepath.Dir(good))
	s := inspect(t.Context(), func(_ context.Context, path string) answer {
		if path == bad {
			return answer{Error: "it is bad"}
		}
		return answer{API: "0.99", Versions: map[string]string{"xla_version": "7"}, Platform: "cpu", Release: "r1", Devices: []string{"cpu:0", "cpu:1"}}
	})
	check(t, s.report(), "PJRT API 0.99, xla_version 7", "platform cpu (r1), 2 devices: cpu:0, cpu:1", "xla:cpu will be used",
		"because it is the fastest that works here: "+good, bad+" cannot be opened: it is bad", "only a machine with an NVIDIA GPU")
}

// A child that dies spoils its own line of the report.
func TestPluginThatCrashes(t *testing.T) {
	root := machine(t, "go", "gcc")
	brokenPlugin(t, filepath.Join(root, ".local", "xla-cpu", "vendor"))
	if err := os.WriteFile(filepath.Join(root, "crash"), []byte("#!/bin/sh\necho boom >&2\nkill -SEGV $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := inspect(t.Context(), func(ctx context.Context, path string) answer {
		return probeWith(ctx, filepath.Join(root, "crash"), path)
	})
	check(t, s.report(), "CANNOT BE USED: the process that opened it ended with signal: segmentation fault", "boom", "go will be used")
}

// The plugin of this project, where it is installed, through the child and as JSON.
func TestInstalledPlugin(t *testing.T) {
	found := plugin.Find(plugin.CPU)
	if len(found) == 0 {
		t.Skip("no xla:cpu plugin is installed: scripts/setup.sh installs one")
	}
	a := probeInChild(t.Context(), found[0].Path)
	if a.Error != "" || a.API == "" || a.Platform != "cpu" || len(a.Devices) == 0 {
		t.Fatalf("%+v", a)
	}
	b, err := json.Marshal(findings{Plugins: []library{{Kind: plugin.CPU, answer: a}}})
	if err != nil || !strings.Contains(string(b), `"pjrt_api_version":"`+a.API+`"`) {
		t.Errorf("%s %v", b, err)
	}
}
