package lm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers "go"
)

// Backend is an opened device. The embedded compute.Backend is what GoMLX's own functions take.
type Backend struct {
	compute.Backend
	// Kind is "xla:cuda", "xla:cpu" or "go".
	Kind string
	// Why says in one line how it came to be chosen: the plugin's path and where it was looked for.
	Why string
}

// Loops reports whether loops run well on the device. The Go backend lacks dynamic slices, so there the engine makes one
// call a token.
func (b *Backend) Loops() bool { return b.Kind != KindGo }

// The kinds of backend, fastest first.
const (
	KindCUDA = "xla:cuda"
	KindCPU  = "xla:cpu"
	KindGo   = "go"
)

// goConfig avoids the Go backend's default schedule, in which nested workers can wait for each other for ever.
const goConfig = "go:ops_sequential"

// Finding is one backend that was looked for, as `make doctor` prints it.
type Finding struct {
	Kind   string // KindCUDA, KindCPU or KindGo
	Path   string // the plugin, empty when none was found
	Source string // where it was found: an environment variable, the project's folder, the system
	Found  bool
	How    string // when it was not found: how to get it
}

// String is one line for a terminal.
func (f Finding) String() string {
	switch {
	case f.Kind == KindGo:
		return "go        built in; slow: for tests and very small models"
	case f.Found:
		return fmt.Sprintf("%-9s found: %s (%s)", f.Kind, f.Path, f.Source)
	default:
		return fmt.Sprintf("%-9s not found. %s", f.Kind, f.How)
	}
}

// Places where plugins are kept inside a project, relative to the folder of go.mod.
const (
	localCPU  = ".local/xla-cpu"
	localCUDA = ".local/xla-cuda"
)

// hints say how to get a plugin; pinned so that what is fetched is what was tested.
var hints = map[string]string{
	KindCPU: "Get it with: pip install --no-deps --target " + localCPU + " lammps-jax-pjrt-cpu==0.11.2 " +
		"(wheel sha256 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1), or set PJRT_PLUGIN_LIBRARY_PATH.",
	KindCUDA: "With an NVIDIA GPU: pip install --target " + localCUDA + " jax-cuda13-plugin[with-cuda] jax-cuda13-pjrt (or cuda12), " +
		"or set PJRT_PLUGIN_LIBRARY_PATH.",
}

// Detect looks for plugins without loading them and lists the kinds fastest first: what [OpenBackend] tries for "auto",
// in that order.
func Detect() []Finding {
	var out []Finding
	for _, kind := range []string{KindCUDA, KindCPU} {
		f := Finding{Kind: kind, How: hints[kind]}
		if c := candidates(kind); len(c) > 0 {
			f.Path, f.Source, f.Found, f.How = c[0].path, c[0].source, true, ""
		}
		out = append(out, f)
	}
	return append(out, Finding{Kind: KindGo, Found: true, Source: "built in"})
}

type candidate struct{ path, source string }

// pluginPatterns are the file names a plugin of each kind goes by, in its own folder or below a pip target folder.
var pluginPatterns = map[string][]string{
	KindCPU:  {"pjrt_c_api_cpu*_plugin.so", "pjrt_c_api_cpu*_plugin.dylib", "*/pjrt_c_api_cpu*_plugin.so"},
	KindCUDA: {"pjrt_c_api_cuda*_plugin.so", "jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so", "xla_cuda_plugin.so"},
}

// candidates lists the plugins of one kind in the order they are tried: PJRT_PLUGIN_LIBRARY_PATH, the project's own
// folders, the system's default locations.
func candidates(kind string) []candidate {
	var out []candidate
	add := func(dir, source string) {
		for _, pat := range pluginPatterns[kind] {
			found, _ := filepath.Glob(filepath.Join(dir, pat)) // the only error is a bad pattern
			for _, p := range found {
				if abs, err := filepath.Abs(p); err == nil && !slices.ContainsFunc(out, func(c candidate) bool { return c.path == abs }) {
					out = append(out, candidate{abs, source})
				}
			}
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PJRT_PLUGIN_LIBRARY_PATH")) {
		if dir != "" {
			add(dir, "PJRT_PLUGIN_LIBRARY_PATH")
		}
	}
	if root, ok := projectRoot(); ok {
		sub := map[string]string{KindCPU: localCPU, KindCUDA: localCUDA}[kind]
		add(filepath.Join(root, sub), "the project's "+sub)
	}
	for _, p := range systemPlugins(kind) {
		out = append(out, candidate{p, "the system's plugin folders"})
	}
	return out
}

// projectRoot walks up from the working directory to the folder that holds go.mod, so that tests and notebooks in
// subfolders find the same plugin.
func projectRoot() (string, bool) {
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

var opened struct {
	sync.Mutex
	byChoice map[string]*Backend
}

// OpenBackend opens a backend, once per process and choice. Choices:
//
//	auto      GOMLX_BACKEND when set, else xla:cuda when there is a GPU and a plugin, else xla:cpu, else go
//	xla:cuda  only that; an error says how to get the plugin
//	xla:cpu   only that
//	go        GoMLX's Go backend
//
// An empty choice is auto.
func OpenBackend(choice string) (*Backend, error) {
	opened.Lock()
	defer opened.Unlock()
	if choice == "" {
		choice = "auto"
	}
	if b := opened.byChoice[choice]; b != nil {
		return b, nil
	}
	b, err := openBackend(choice)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", choice, err)
	}
	if opened.byChoice == nil {
		opened.byChoice = map[string]*Backend{}
	}
	// "auto" and the kind it resolves to share one client.
	if same := opened.byChoice[b.Kind]; same != nil && choice == "auto" {
		b.Finalize()
		b = same
	}
	opened.byChoice[choice] = b
	if opened.byChoice[b.Kind] == nil {
		opened.byChoice[b.Kind] = b
	}
	return b, nil
}

func openBackend(choice string) (*Backend, error) {
	switch choice {
	case "auto":
		if env := os.Getenv(compute.ConfigEnvVar); env != "" {
			b, err := openEnv(env)
			if err != nil {
				return nil, fmt.Errorf("%s=%s: %w", compute.ConfigEnvVar, env, err)
			}
			return b, nil
		}
		var failed []string
		for _, kind := range []string{KindCUDA, KindCPU} {
			if kind == KindCUDA && !hasNVIDIA() {
				continue
			}
			b, err := openPlugin(kind)
			if err == nil {
				return b, nil
			}
			failed = append(failed, err.Error())
		}
		b, err := openGo()
		if err == nil && len(failed) > 0 {
			b.Why += "; " + strings.Join(failed, "; ")
		}
		return b, err
	case KindCUDA, KindCPU:
		return openPlugin(choice)
	case KindGo:
		return openGo()
	}
	return nil, fmt.Errorf("unknown choice; want auto, %s, %s or %s", KindCUDA, KindCPU, KindGo)
}

// openEnv opens what GOMLX_BACKEND names: a kind, or a GoMLX configuration such as xla:/path/plugin.so.
func openEnv(env string) (*Backend, error) {
	switch env {
	case KindCUDA, KindCPU, KindGo:
		return openBackend(env)
	case "xla":
		return openPlugin(KindCPU)
	}
	kind := KindGo
	if strings.HasPrefix(env, "xla") {
		kind = KindCPU
		if strings.Contains(env, "cuda") {
			kind = KindCUDA
		}
	}
	return open(kind, env, compute.ConfigEnvVar)
}

func openGo() (*Backend, error) { return open(KindGo, goConfig, "built in") }

func openPlugin(kind string) (*Backend, error) {
	found := candidates(kind)
	if len(found) == 0 {
		return nil, fmt.Errorf("no %s plugin found. %s", kind, hints[kind])
	}
	var failed []string
	for _, c := range found {
		b, err := open(kind, pluginConfig(kind, c.path), fmt.Sprintf("%s (%s)", c.path, c.source))
		if err == nil {
			return b, nil
		}
		failed = append(failed, err.Error())
	}
	return nil, fmt.Errorf("no %s plugin could be opened: %s", kind, strings.Join(failed, "; "))
}

// pluginConfig passes the path itself, which skips GoMLX's search and its download, and full float32 products: tensor
// cores' TF32 would move logits by 1e-2.
func pluginConfig(kind, path string) string {
	if kind == KindCUDA {
		return "xla:" + path + ",tf32=false"
	}
	return "xla:" + path + ",shared_buffers=true"
}

func open(kind, config, why string) (*Backend, error) {
	out := &Backend{Kind: kind, Why: why}
	err := Catch("open "+config, func() (err error) {
		out.Backend, err = compute.NewWithConfig(config)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// hasNVIDIA reports whether the machine has an NVIDIA driver: loading the CUDA plugin without one only prints errors.
func hasNVIDIA() bool {
	for _, p := range []string{"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"} {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

// Catch runs fn and turns a panic into an error that starts with what. GoMLX panics on bad shapes and failed
// executions; whoever builds graphs outside this package wraps them the same way.
func Catch(what string, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
		case error:
			err = fmt.Errorf("%s: %w", what, r)
		default:
			err = fmt.Errorf("%s: %v", what, r)
		}
	}()
	return fn()
}
