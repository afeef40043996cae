package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plant makes an empty project with the given files, enters it, and hides the plugins of this machine.
func plant(t *testing.T, files ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir()) // the working directory is reported without links
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, "go.mod") {
		p := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	t.Setenv("HOME", filepath.Join(root, "home"))
	for _, v := range []string{BackendVar, PathVar, "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		t.Setenv(v, "")
	}
	return root
}

const (
	local = ".local/xla-cpu/vendor/pjrt_c_api_cpu_plugin.so"
	other = "elsewhere/pjrt_c_api_cpu_v2_plugin.so"
	user  = "home/.local/lib/go-xla/pjrt_c_api_cpu_plugin.so"
)

func TestFindLooksInOrder(t *testing.T) {
	root := plant(t, local, other, user, "sub/folder/file", "home/.local/lib/go-xla/pjrt_c_api_tpu_plugin.so")
	t.Chdir(filepath.Join(root, "sub", "folder")) // the project is found from below
	got := Find(CPU)
	if len(got) != 2 || got[0].Path != filepath.Join(root, local) || got[1].Path != filepath.Join(root, user) {
		t.Errorf("without %s: %+v", PathVar, got)
	}
	t.Setenv(PathVar, string(os.PathListSeparator)+filepath.Join(root, "elsewhere"))
	got = Find(CPU)
	if len(got) != 2 || got[0].Path != filepath.Join(root, other) || got[0].Source != PathVar || got[1].Path != filepath.Join(root, local) {
		t.Errorf("with %s: %+v", PathVar, got)
	}
	if got := Find(CUDA); len(got) != 0 {
		t.Errorf("CUDA plugins from CPU files: %+v", got)
	}
}

func TestFindNamesAFileOnce(t *testing.T) {
	root := plant(t, local)
	dir := filepath.Join(root, filepath.Dir(local))
	t.Setenv(PathVar, dir+string(os.PathListSeparator)+dir)
	if got := Find(CPU); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestFindsCUDAWheels(t *testing.T) {
	root := plant(t, ".local/xla-cuda/jax_plugins/xla_cuda12/xla_cuda_plugin.so", ".local/xla-cuda/jax_plugins/xla_cuda13/xla_cuda_plugin.so")
	got := Find(CUDA)
	if len(got) != 2 || got[0].Path != filepath.Join(root, ".local/xla-cuda/jax_plugins/xla_cuda13/xla_cuda_plugin.so") {
		t.Errorf("%+v", got)
	}
}

func TestPlan(t *testing.T) {
	root := plant(t, local, "cuda_plugin.so", "other.so")
	path := filepath.Join(root, local)
	cuda, other := "xla:"+filepath.Join(root, "cuda_plugin.so")+",tf32=true", "xla:"+filepath.Join(root, "other.so")
	for _, c := range []struct {
		choice, env string
		kinds       []string
		config      string // of the first
	}{
		{"auto", "", []string{CPU, Go}, "xla:" + path + ",shared_buffers=true"},
		{"auto", "go", []string{Go}, "go:ops_sequential"},
		{"auto", "xla", []string{CPU}, "xla:" + path + ",shared_buffers=true"},
		{"auto", cuda, []string{CUDA}, cuda},
		{"auto", other, []string{CPU}, other},
		{"auto", "go:parallelism=-1", []string{Go}, "go:parallelism=-1"},
		{CPU, "go", []string{CPU}, "xla:" + path + ",shared_buffers=true"},
		{Go, "", []string{Go}, "go:ops_sequential"},
	} {
		t.Run(c.choice+" "+c.env, func(t *testing.T) {
			if c.env == "" && HasNVIDIA() {
				t.Skip("this machine has a GPU, which comes first")
			}
			t.Setenv(BackendVar, c.env)
			tries, missing, err := Plan(c.choice)
			if err != nil || len(missing) > 0 {
				t.Fatal(err, missing)
			}
			var kinds []string
			for _, x := range tries {
				kinds = append(kinds, x.Kind)
			}
			if fmt.Sprint(kinds) != fmt.Sprint(c.kinds) || tries[0].Config != c.config {
				t.Errorf("got %v %q, want %v %q", kinds, tries[0].Config, c.kinds, c.config)
			}
		})
	}
}

// A value of the variable that names no backend is an error before anything is opened.
func TestPlanRefusesWhatItCannotMean(t *testing.T) {
	plant(t, local)
	for env, want := range map[string]string{
		"nonsense":     "GOMLX_BACKEND=nonsense: there is no such backend; want xla:cuda, xla:cpu, go or",
		"xla:/nope.so": "GOMLX_BACKEND=xla:/nope.so: the plugin cannot be read: stat /nope.so",
	} {
		t.Setenv(BackendVar, env)
		if tries, _, err := Plan("auto"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, error %v, want one with %q", tries, err, want)
		}
	}
}

func TestPlanWithoutPlugin(t *testing.T) {
	plant(t)
	if len(Find(CPU)) > 0 {
		t.Skip("this machine has a plugin among its system libraries")
	}
	tries, missing, err := Plan("auto")
	if err != nil || tries[len(tries)-1].Kind != Go || len(missing) == 0 || !strings.Contains(strings.Join(missing, " "), "scripts/setup.sh") {
		t.Errorf("auto: %+v %q %v", tries, missing, err)
	}
	for _, c := range []struct{ choice, want string }{{CPU, "no xla:cpu plugin found. Get it with"}, {CUDA, "no xla:cuda plugin found"}, {"tpu", "unknown choice"}} {
		if _, _, err := Plan(c.choice); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.choice, err, c.want)
		}
	}
	t.Setenv(BackendVar, CPU)
	if _, _, err := Plan("auto"); err == nil || !strings.Contains(err.Error(), "GOMLX_BACKEND=xla:cpu: no xla:cpu plugin") {
		t.Errorf("environment: %v", err)
	}
}

func ExamplePlan() {
	tries, _, err := Plan(Go)
	fmt.Println(tries[0].Config, err)
	// Output: go:ops_sequential <nil>
}
