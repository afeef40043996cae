package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Manifest says how a result came about. It is written beside every result and published with it.
type Manifest struct {
	Suite    string            `json:"suite"`
	Profile  string            `json:"profile"`
	Seeds    []uint64          `json:"seeds"`
	Config   any               `json:"config"` // as resolved
	Revision string            `json:"revision"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	CPUs     int               `json:"cpus"`
	Backend  string            `json:"backend,omitempty"` // what computed the learned rows
	Modules  map[string]string `json:"modules"`           // the dependencies that decide numbers
	Inputs   map[string]string `json:"inputs"`            // SHA-256 of data sets and checkpoints
	Notes    []string          `json:"notes,omitempty"`
	Finished string            `json:"finished"` // UTC, RFC 3339
	// Seconds is the wall time of each stage; of an interrupted one, that of the process that finished it.
	Seconds map[string]float64 `json:"seconds,omitempty"`
}

// NewManifest fills in what the process knows by itself.
func NewManifest(suite, profile string, seeds []uint64, config any) Manifest {
	return Manifest{
		Suite: suite, Profile: profile, Seeds: seeds, Config: config,
		Revision: Revision(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		Modules: modules(), Inputs: map[string]string{}, Finished: time.Now().UTC().Format(time.RFC3339),
	}
}

// Revision is the git commit of the working folder, with "+changes" when tracked files differ; "unknown" outside git.
func Revision() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	rev := strings.TrimSpace(string(out))
	if err := exec.Command("git", "diff", "--quiet", "HEAD").Run(); err != nil {
		rev += "+changes"
	}
	return rev
}

// numberModules are the dependencies whose version can change a published number.
var numberModules = []string{
	"github.com/gomlx/gomlx", "github.com/gomlx/compute", "github.com/gomlx/go-xla", "github.com/mattn/go-sqlite3", "gonum.org/v1/gonum",
	"github.com/dlclark/regexp2/v2", "github.com/nikolalohinski/gonja/v2",
}

func modules() map[string]string {
	out := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, d := range info.Deps {
		for _, want := range numberModules {
			if d.Path == want {
				out[want] = d.Version
			}
		}
	}
	return out
}

// Root returns the project's folder: the nearest folder at or above the working folder that holds go.mod.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := wd; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod at or above %s: run from inside the project", wd)
		}
	}
}
