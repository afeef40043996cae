// Package plugin finds XLA's plugins (shared libraries with the PJRT interface) and decides in which order backends are tried.
// The language model and the doctor open plugins with two bindings that cannot be linked into one program. Both choose by the
// rules of this package, which looks at file names only and links neither binding.
package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The kinds of backend, fastest first.
const (
	CUDA = "xla:cuda"
	CPU  = "xla:cpu"
	Go   = "go"
)

// BackendVar is the environment variable that chooses a backend: a kind, or a whole configuration of GoMLX.
const BackendVar = "GOMLX_BACKEND"

// PathVar is the environment variable with folders to look in first.
const PathVar = "PJRT_PLUGIN_LIBRARY_PATH"

// Places where plugins are kept inside a project, relative to the folder of go.mod.
const (
	localCPU  = ".local/xla-cpu"
	localCUDA = ".local/xla-cuda"
)

// Hint says how to get a plugin of a kind. For the CPU it names the version and hash that were tested.
func Hint(kind string) string {
	switch kind {
	case CPU:
		return "Get it with: scripts/setup.sh, which runs pip install --no-deps --target " + localCPU + " lammps-jax-pjrt-cpu==0.11.2 " +
			"(wheel sha256 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1); or name the folder of another one in " + PathVar + "."
	case CUDA:
		return "With an NVIDIA GPU: pip install --target " + localCUDA + " jax-cuda13-plugin[with-cuda] jax-cuda13-pjrt (or cuda12), " +
			"or name its folder in " + PathVar + "."
	}
	return ""
}

// patterns are the file names a plugin of each kind goes by, in its own folder or below a pip target folder.
var patterns = map[string][]string{
	CPU: {"pjrt_c_api_cpu*_plugin.so", "pjrt_c_api_cpu*_plugin.dylib", "*/pjrt_c_api_cpu*_plugin.so"},
	CUDA: {"pjrt_c_api_cuda*_plugin.so", "jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
		"xla_cuda_plugin.so"},
}

// File is a plugin that was found, with the place it was found in.
type File struct {
	Path   string `json:"path"`
	Source string `json:"source"`
}

// Find lists the plugins of one kind in the order in which they are tried: those in PJRT_PLUGIN_LIBRARY_PATH, those in the
// project's own folder, those in the system's folders. It opens no file.
func Find(kind string) []File {
	var out []File
	add := func(dir, source string, patterns []string) {
		for _, pat := range patterns {
			found, _ := fs.Glob(os.DirFS(dir), pat) // the only error is a bad pattern
			for _, p := range found {
				abs, err := filepath.Abs(filepath.Join(dir, p))
				if err == nil && !slices.ContainsFunc(out, func(f File) bool { return f.Path == abs }) {
					out = append(out, File{abs, source})
				}
			}
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv(PathVar)) {
		if dir != "" {
			add(dir, PathVar, patterns[kind])
		}
	}
	if root, ok := ProjectRoot(); ok {
		sub := map[string]string{CPU: localCPU, CUDA: localCUDA}[kind]
		if sub != "" {
			add(filepath.Join(root, sub), "the project's "+sub, patterns[kind])
		}
	}
	if os.Getenv(PathVar) == "" { // with it, the XLA bindings do not look further either
		for _, dir := range systemFolders() {
			// Only patterns without a folder: the subfolders of a library folder are not searched.
			add(dir, "the system's "+dir, slices.DeleteFunc(slices.Clone(patterns[kind]), func(p string) bool { return strings.Contains(p, "/") }))
		}
	}
	return out
}

// systemFolders are the default places of the XLA bindings: their own folders, then the libraries of the system.
func systemFolders() []string {
	var out []string
	if home, err := os.UserHomeDir(); err == nil {
		if runtime.GOOS == "darwin" {
			support := filepath.Join(home, "Library", "Application Support")
			out = append(out, filepath.Join(support, "go-xla"), filepath.Join(support, "GoMLX", "PJRT"))
		} else {
			lib := filepath.Join(home, ".local", "lib")
			out = append(out, filepath.Join(lib, "go-xla"), filepath.Join(lib, "go-xla", "nvidia"), filepath.Join(lib, "gomlx", "pjrt"))
		}
	}
	out = append(out, "/usr/local/lib/go-xla", "/usr/local/lib/go-xla/nvidia", "/usr/local/lib/gomlx/pjrt")
	for _, name := range []string{"DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH"} {
		for _, dir := range filepath.SplitList(os.Getenv(name)) {
			if filepath.IsAbs(dir) {
				out = append(out, dir)
			}
		}
	}
	configs, _ := fs.Glob(os.DirFS("/etc"), "ld.so.conf.d/*.conf")
	for _, f := range append([]string{"ld.so.conf"}, configs...) {
		b, err := os.ReadFile(filepath.Join("/etc", f))
		if err != nil {
			continue // not every system has it
		}
		for line := range strings.Lines(string(b)) {
			if dir := strings.TrimSpace(line); filepath.IsAbs(dir) {
				out = append(out, dir)
			}
		}
	}
	return out
}

// ProjectRoot walks up from the working directory to the folder that holds go.mod, so that tests and notebooks in
// subfolders find the same plugin.
func ProjectRoot() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

// HasNVIDIA reports whether the machine has an NVIDIA driver. Without one, the CUDA plugin would only print errors.
func HasNVIDIA() bool {
	for _, p := range []string{"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"} {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

// goConfig replaces the Go backend's default schedule, in which nested workers can wait for each other for ever.
const goConfig = "go:ops_sequential"

// Candidate is a backend that may be opened.
type Candidate struct {
	Kind   string // CUDA, CPU or Go
	Config string // the configuration that GoMLX opens
	Path   string // of the plugin; empty for the Go backend
	Why    string // the place where it was found
}

// Plan lists the candidates for a choice, best first: the first one that opens is used. missing says which plugins were looked
// for and not found. Choices:
//
//	auto      GOMLX_BACKEND when set, else xla:cuda when there is a GPU and a plugin, else xla:cpu, else go
//	xla:cuda  only that; an error says how to get the plugin
//	xla:cpu   only that
//	go        GoMLX's Go backend
func Plan(choice string) (candidates []Candidate, missing []string, err error) {
	switch choice {
	case "auto":
		if env := os.Getenv(BackendVar); env != "" {
			candidates, err = planEnv(env)
			if err != nil {
				err = fmt.Errorf("%s=%s: %w", BackendVar, env, err)
			}
			return candidates, nil, err
		}
		for _, kind := range []string{CUDA, CPU} {
			if kind == CUDA && !HasNVIDIA() {
				continue
			}
			found, err := planKind(kind)
			if err != nil {
				missing = append(missing, err.Error())
			}
			candidates = append(candidates, found...)
		}
		return append(candidates, planGo()), missing, nil
	case CUDA, CPU:
		candidates, err = planKind(choice)
		return candidates, nil, err
	case Go:
		return []Candidate{planGo()}, nil, nil
	}
	return nil, nil, fmt.Errorf("unknown choice; want auto, %s, %s or %s", CUDA, CPU, Go)
}

func planGo() Candidate { return Candidate{Kind: Go, Config: goConfig, Why: "built in"} }

// planEnv reads the value of GOMLX_BACKEND: a kind, or a configuration of GoMLX such as xla:/path/plugin.so.
func planEnv(env string) ([]Candidate, error) {
	switch env {
	case CUDA, CPU:
		return planKind(env)
	case Go:
		return []Candidate{planGo()}, nil
	case "xla":
		return planKind(CPU)
	}
	if strings.HasPrefix(env, "go:") {
		return []Candidate{{Kind: Go, Config: env, Why: BackendVar}}, nil
	}
	rest, ok := strings.CutPrefix(env, "xla:")
	if !ok {
		return nil, fmt.Errorf("there is no such backend; want %s, %s, %s or xla:/path/to/plugin.so, or leave %s unset", CUDA, CPU, Go, BackendVar)
	}
	t := Candidate{Kind: CPU, Config: env, Why: BackendVar}
	if strings.Contains(rest, "cuda") {
		t.Kind = CUDA
	}
	if path, _, _ := strings.Cut(rest, ","); filepath.IsAbs(path) {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the plugin cannot be read: %w", err)
		}
		t.Path = path
	}
	return []Candidate{t}, nil
}

func planKind(kind string) ([]Candidate, error) {
	found := Find(kind)
	if len(found) == 0 {
		return nil, fmt.Errorf("no %s plugin found. %s", kind, Hint(kind))
	}
	var out []Candidate
	for _, f := range found {
		out = append(out, Candidate{Kind: kind, Config: pluginConfig(kind, f.Path), Path: f.Path, Why: fmt.Sprintf("%s (%s)", f.Path, f.Source)})
	}
	return out, nil
}

// pluginConfig is GoMLX's configuration for a plugin. It names the file, so that GoMLX neither searches nor downloads one. It asks
// for float32 products on a GPU, because TF32 would change logits by 1e-2.
func pluginConfig(kind, path string) string {
	if kind == CUDA {
		return "xla:" + path + ",tf32=false"
	}
	return "xla:" + path + ",shared_buffers=true"
}
