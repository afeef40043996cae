package run

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Manifest says how a result came about. It is written beside every result and published with it.
type Manifest struct {
	Suite    string   `json:"suite"`
	Profile  string   `json:"profile"`
	Seeds    []uint64 `json:"seeds"`
	Config   any      `json:"config"`   // as resolved
	Revision string   `json:"revision"` // of the program that wrote the report
	// Revisions maps the revision of each program that made a part of the result to the stages that it worked on.
	Revisions map[string][]string `json:"revisions"`
	Go        string              `json:"go"`
	Platform  string              `json:"platform"`
	CPUs      int                 `json:"cpus"`
	Backend   string              `json:"backend,omitempty"` // where the models were trained and played
	Modules   map[string]string   `json:"modules"`           // versions of the dependencies that can change a number
	Inputs    map[string]string   `json:"inputs"`            // SHA-256 of data sets and checkpoints
	Notes     []string            `json:"notes,omitempty"`
	Finished  string              `json:"finished"` // UTC, RFC 3339
	// Seconds is the wall time of each stage. Of an interrupted stage, it is that of the last process.
	Seconds map[string]float64 `json:"seconds,omitempty"`
}

// NewManifest fills in the arguments, and what the process knows by itself: versions, platform, time.
func NewManifest(suite, profile string, seeds []uint64, config any, revision string) Manifest {
	return Manifest{
		Suite: suite, Profile: profile, Seeds: seeds, Config: config,
		Revision: revision, Revisions: map[string][]string{}, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
		Modules: modules(), Inputs: map[string]string{}, Finished: time.Now().UTC().Format(time.RFC3339),
	}
}

// AddStages adds the times and revisions of the stages that made a result.
func (m *Manifest) AddStages(stages map[string]StageRecord) {
	m.Seconds = map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(stages)) {
		m.Seconds[name] = math.Round(stages[name].Seconds*10) / 10
		revisions := stages[name].Revisions
		if len(revisions) == 0 {
			revisions = []string{unknown}
		}
		for _, r := range revisions {
			m.Revisions[r] = append(m.Revisions[r], name)
		}
	}
}

// Unpublishable says why results with this manifest may not be published: some program that made them is in no commit, so nobody
// could repeat them. It is empty if they may be published.
func (m *Manifest) Unpublishable() string {
	var bad []string
	for _, r := range slices.Sorted(maps.Keys(m.Revisions)) {
		if !committed(r) {
			stages := m.Revisions[r]
			bad = append(bad, fmt.Sprintf("%s (%d stages, such as %s)", r, len(stages), stages[0]))
		}
	}
	if !committed(m.Revision) {
		bad = append(bad, fmt.Sprintf("%s (the report)", cmp.Or(m.Revision, unknown)))
	}
	if len(m.Revisions) == 0 {
		bad = append(bad, unknown+" (no stage says at which revision it ran)")
	}
	return strings.Join(bad, ", ")
}

const (
	unknown = "unknown"
	changes = "+changes"
)

func committed(revision string) bool {
	return revision != "" && revision != unknown && !strings.HasSuffix(revision, changes)
}

// deciding are the paths, below the project's folder, of the files that decide results. Texts, notebooks and published results do
// not decide any. So the published files of one suite do not stop another suite's publication.
var deciding = []string{"go.mod", "go.sum", "configs", "pkg", "scripts", "requirements"}

// Revision is the git commit of the project in the folder root. It ends in "+changes" if files that decide results differ from the
// commit or are not in it. It is "unknown" if root is not a project in git.
func Revision(root string) string {
	git := func(args ...string) (string, error) {
		// The options keep git from reading paths as patterns, and from asking the user's file monitor.
		out, err := exec.Command("git", append([]string{"--literal-pathspecs", "-C", root, "-c", "core.fsmonitor=false"}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	rev, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return unknown
	}
	if _, err := git("ls-files", "--error-unmatch", "go.mod"); err != nil { // a copy of the project inside another repository
		return unknown
	}
	changed, err := git(append([]string{"status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none", "--"}, deciding...)...)
	if err != nil {
		return unknown
	}
	if changed != "" {
		rev += changes
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
