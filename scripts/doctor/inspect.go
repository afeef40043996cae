package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/toolroute/toolroute/pkg/plugin"
)

// findings are all that doctor found out. The report and the JSON show the same.
type findings struct {
	System  system     `json:"system"`
	Tools   []found    `json:"tools"`
	Plugins []library  `json:"plugins"`
	Backend conclusion `json:"backend"`
}

type system struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	CPU    string `json:"cpu_model,omitempty"`
	Memory string `json:"memory,omitempty"`
	NVIDIA string `json:"nvidia_driver,omitempty"`
}

// found is a program, or a part of one, that was looked for.
type found struct {
	Name   string `json:"name"`
	Found  bool   `json:"found"`
	Detail string `json:"detail,omitempty"` // version and path
	Need   string `json:"need,omitempty"`   // if it is missing: its purpose, and how to get it
}

// library is a plugin that was found, and its answer when it was opened.
type library struct {
	Kind   string `json:"kind"`
	Path   string `json:"path"`
	Source string `json:"source"`
	Bytes  int64  `json:"bytes"`
	answer
}

// conclusion is the backend that the models will run on.
type conclusion struct {
	Kind   string `json:"kind"` // empty: none, the commands will stop with Error
	Why    string `json:"why,omitempty"`
	Error  string `json:"error,omitempty"`
	Faster string `json:"faster"` // how to get a faster one
}

// inspect looks at the machine. probe opens a plugin.
func inspect(ctx context.Context, probe func(context.Context, string) answer) findings {
	s := findings{System: system{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), CPU: procField("/proc/cpuinfo", "model name"), Memory: memory()}}
	if plugin.HasNVIDIA() {
		s.System.NVIDIA = "present"
		if b, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
			s.System.NVIDIA = firstLine("", string(b))
		}
	}
	s.Tools = tools(ctx)
	for _, kind := range []string{plugin.CUDA, plugin.CPU} {
		for _, f := range plugin.Find(kind) {
			s.Plugins = append(s.Plugins, ask(ctx, probe, kind, f))
		}
	}
	s.conclude(ctx, probe)
	return s
}

func ask(ctx context.Context, probe func(context.Context, string) answer, kind string, f plugin.File) library {
	l := library{Kind: kind, Path: f.Path, Source: f.Source}
	st, err := os.Stat(f.Path)
	switch {
	case err != nil:
		l.Error = err.Error()
	case st.IsDir():
		l.Error = "a folder, not a library"
	case kind == plugin.CUDA && !plugin.HasNVIDIA():
		l.Bytes, l.Error = st.Size(), "not opened: this machine has no NVIDIA driver"
	default:
		l.Bytes, l.answer = st.Size(), probe(ctx, f.Path)
	}
	return l
}

// conclude tries the same candidates as the models do and takes the first backend that opens.
func (s *findings) conclude(ctx context.Context, probe func(context.Context, string) answer) {
	candidates, failed, err := plugin.Plan("auto")
	if err != nil {
		s.Backend = conclusion{Error: err.Error(), Faster: s.faster("")}
		return
	}
	forced := ""
	if env := os.Getenv(plugin.BackendVar); env != "" {
		forced = fmt.Sprintf("%s=%s asks for it", plugin.BackendVar, env)
	}
	for _, t := range candidates {
		if t.Path == "" && t.Kind != plugin.Go {
			s.Backend = conclusion{Kind: t.Kind, Why: forced + "; not opened by doctor", Faster: s.faster(t.Kind)}
			return
		}
		if t.Path != "" {
			if e := s.opened(ctx, probe, t).Error; e != "" {
				failed = append(failed, fmt.Sprintf("%s cannot be opened: %s", t.Path, e))
				continue
			}
		}
		why := forced
		if why == "" {
			why = "it is the fastest that works here: " + t.Why
			if len(failed) > 0 {
				why += "; " + strings.Join(failed, "; ")
			}
		}
		s.Backend = conclusion{Kind: t.Kind, Why: why, Faster: s.faster(t.Kind)}
		return
	}
	s.Backend = conclusion{Error: strings.Join(failed, "; "), Faster: s.faster("")}
}

// opened returns the answer of a candidate's plugin. It opens the plugin if it was not among those found.
func (s *findings) opened(ctx context.Context, probe func(context.Context, string) answer, t plugin.Candidate) library {
	for _, l := range s.Plugins {
		if l.Path == t.Path {
			return l
		}
	}
	l := ask(ctx, probe, t.Kind, plugin.File{Path: t.Path, Source: plugin.BackendVar})
	s.Plugins = append(s.Plugins, l)
	return l
}

// faster says what to do for a faster backend than kind.
func (s *findings) faster(kind string) string {
	if env := os.Getenv(plugin.BackendVar); env != "" {
		return fmt.Sprintf("%s=%s decides alone: unset it to let the fastest be chosen.", plugin.BackendVar, env)
	}
	if kind == plugin.CUDA {
		return "this is the fastest there is."
	}
	if s.System.NVIDIA != "" {
		if l, ok := s.broken(plugin.CUDA); ok {
			return fmt.Sprintf("the GPU is not used because %s cannot be opened; it needs the nvidia wheels of its own release beside it. %s", l.Path, plugin.Hint(plugin.CUDA))
		}
		return plugin.Hint(plugin.CUDA)
	}
	if kind == plugin.CPU {
		return "only a machine with an NVIDIA GPU would be faster; there is none here."
	}
	if !s.has("cgo") || !s.has("C compiler") {
		return "install a C compiler (gcc or clang) and do not set CGO_ENABLED=0: plugins are C libraries."
	}
	if l, ok := s.broken(plugin.CPU); ok {
		if strings.Contains(l.Source, "the project's") {
			return fmt.Sprintf("%s is damaged or for another machine. Install it again: rm -rf .local/xla-cpu .local/.stamp-xla-cpu && scripts/setup.sh", l.Path)
		}
		return fmt.Sprintf("remove %s, or take its folder out of %s; then scripts/setup.sh installs one into the project.", l.Path, plugin.PathVar)
	}
	if s.System.OS != "linux" || s.System.Arch != "amd64" {
		return fmt.Sprintf("no plugin is packaged for %s/%s; name the folder of one that you built in %s.", s.System.OS, s.System.Arch, plugin.PathVar)
	}
	if !s.has("python3") || !s.has("pip") {
		return "install python3 with pip (on Debian and Ubuntu: apt-get install python3-pip), then run scripts/setup.sh; or name the folder of a plugin in " + plugin.PathVar + "."
	}
	return plugin.Hint(plugin.CPU)
}

func (s *findings) broken(kind string) (library, bool) {
	for _, l := range s.Plugins {
		if l.Kind == kind && l.Error != "" {
			return l, true
		}
	}
	return library{}, false
}

func (s *findings) has(name string) bool {
	for _, t := range s.Tools {
		if t.Name == name {
			return t.Found
		}
	}
	return false
}

// tools looks for what the project builds with and what it can use.
func tools(ctx context.Context) []found {
	var out []found
	add := func(name, need string, look func() (string, error)) {
		f := found{Name: name}
		detail, err := look()
		if err == nil {
			f.Found, f.Detail = true, detail
		} else {
			f.Detail, f.Need = err.Error(), need
		}
		out = append(out, f)
	}
	add("go", "needed to build anything: https://go.dev/dl", func() (string, error) { return version(ctx, "go", "version") })
	add("cgo", "needed for SQLite and XLA: install a C compiler, and do not set CGO_ENABLED=0", func() (string, error) {
		v, err := output(ctx, "go", "env", "CGO_ENABLED")
		if err == nil && v != "1" {
			err = fmt.Errorf("CGO_ENABLED=%s", v)
		}
		return "on", err
	})
	add("C compiler", "needed by cgo (on Debian and Ubuntu: apt-get install gcc)", func() (string, error) {
		cc, err := output(ctx, "go", "env", "CC")
		if err != nil {
			return "", err
		}
		if fields := strings.Fields(cc); len(fields) > 0 { // CC may carry flags
			return version(ctx, fields[0], "--version")
		}
		return "", errors.New("go env CC is empty")
	})
	python := "optional: installs the XLA plugin, runs the notebooks and the comparisons with Python libraries"
	add("python3", python, func() (string, error) { return version(ctx, "python3", "--version") })
	add("pip", "optional: installs the XLA plugin (on Debian and Ubuntu: apt-get install python3-pip)", func() (string, error) {
		v, err := output(ctx, "python3", "-m", "pip", "--version")
		v, _, _ = strings.Cut(v, " from ")
		return v, err
	})
	add("venv", "optional: for notebooks (on Debian and Ubuntu: apt-get install python3-venv)", func() (string, error) {
		_, err := output(ctx, "python3", "-c", "import venv, ensurepip")
		return "with ensurepip", err
	})
	for _, part := range []struct{ name, file, need string }{
		{"gonb", ".local/bin/gonb", "optional: the notebooks' kernel; make jupyter installs it"},
		{"JupyterLab", ".local/jupyter/bin/jupyter", "optional: make jupyter installs it"},
		{"reference", ".local/reference/bin/python", "optional: Python libraries that files are compared with; scripts/setup.sh reference installs them"},
		{"judge", ".local/judge/bin/python", "optional: a language model that the benchmark's judge is tested with; scripts/setup.sh judge installs it"},
	} {
		add(part.name, part.need, func() (string, error) {
			root, ok := plugin.ProjectRoot()
			if !ok {
				return "", errors.New("run doctor from the project's folder")
			}
			if _, err := os.Stat(filepath.Join(root, part.file)); err != nil {
				return "", errors.New("not installed")
			}
			return part.file, nil
		})
	}
	return out
}

// version runs a program and returns the first line it prints, with where it was found.
func version(ctx context.Context, name, arg string) (string, error) {
	v, err := output(ctx, name, arg)
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath(name)
	return firstLine("", v) + " (" + path + ")", err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	if _, err := exec.LookPath(name); err != nil {
		return "", errors.New("not found")
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	b, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		said := ""
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
			said = ": " + lines[len(lines)-1]
		}
		return "", fmt.Errorf("%s %s: %w%s", name, strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(string(b)), nil
}

// memory is the machine's memory in GB; "" where it is not known.
func memory() string {
	var kb int64
	if _, err := fmt.Sscanf(procField("/proc/meminfo", "MemTotal"), "%d kB", &kb); err != nil {
		return ""
	}
	return fmt.Sprintf("%.1f GB", float64(kb)*1024/1e9)
}

// procField returns the first value of a field of a file in /proc; "" where there is none.
func procField(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
