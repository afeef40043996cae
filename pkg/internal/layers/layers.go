// Package layers says which package of this module may import which, and checks it. Data flows one way, from suites over
// trajectories to reports, and only the packages that compute with a model know GoMLX; a rule that nothing checks would not
// last. It knows import paths only, nothing of what the packages do.
package layers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// Module is the import path of this module.
const Module = "github.com/toolroute/toolroute"

// Graph maps import paths to the paths that they import, tests left out. Packages of the standard library are not in it,
// neither as keys nor as imports.
type Graph map[string][]string

// Load asks the go command for the graph of all packages below a folder of the module, dependencies included.
func Load(dir string) (Graph, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Standard", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	g, standard := Graph{}, map[string]bool{"C": true}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
			Standard   bool
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Standard {
			standard[p.ImportPath] = true
		} else {
			g[p.ImportPath] = p.Imports
		}
	}
	for p, imports := range g {
		g[p] = slices.DeleteFunc(imports, func(i string) bool { return standard[i] })
	}
	return g, nil
}

// base is what leaves may import; it imports nothing of this module.
const base = "pkg/wholefile"

// leaves import nothing of this module but base, and anyone may import them.
var leaves = []string{base, "configs", "docs", "pkg/price", "pkg/source", "pkg/edits", "pkg/rng", "pkg/run", "pkg/table", "pkg/plugin", "pkg/tokenizer", "pkg/lm/safetensors",
	"pkg/internal/fixtures", "pkg/internal/layers", "pkg/internal/reexec", "pkg/notebook/cells"}

// flow lists, for every other package, what it may import beside leaves: the arrows of the picture in docs/design.md,
// against their direction. A name that ends in /* stands for the packages below.
var flow = map[string][]string{
	// Tools of a suite may have a package of their own below it, which knows no tasks.
	"pkg/suite/families":         {"pkg/suite", "pkg/suite/families/toolbox", "pkg/tool", "pkg/tool/*", "pkg/trajectory"},
	"pkg/suite/families/toolbox": {"pkg/tool"},

	"pkg/tool":            {},
	"pkg/tool/*":          {"pkg/tool"},
	"pkg/suite":           {"pkg/tool", "pkg/trajectory"},
	"pkg/suites":          {"pkg/suite", "pkg/suite/*"},
	"pkg/trajectory":      {},
	"pkg/suite/*":         {"pkg/suite", "pkg/tool", "pkg/tool/*", "pkg/trajectory"},
	"pkg/policy":          {"pkg/suite"},
	"pkg/episode":         {"pkg/policy", "pkg/suite", "pkg/tool", "pkg/trajectory"},
	"pkg/policy/scripted": {"pkg/episode", "pkg/policy", "pkg/suite", "pkg/tool", "pkg/trajectory"},
	"pkg/reward":          {"pkg/suite", "pkg/tool", "pkg/trajectory"},
	"pkg/rollout":         {"pkg/episode", "pkg/policy", "pkg/reward", "pkg/suite", "pkg/trajectory"},
	"pkg/eval":            {"pkg/reward", "pkg/suite", "pkg/trajectory"},
	"pkg/benchmark":       {"pkg/eval", "pkg/suite", "pkg/trajectory"},
	"pkg/judge":           {"pkg/benchmark"},
	"pkg/report":          {"pkg/eval", "pkg/reward", "pkg/trajectory"},
	"pkg/loophole":        {"pkg/eval", "pkg/suite", "pkg/trajectory"},
	"pkg/chat":            {},
	"pkg/lm":              {},
	"pkg/policy/lm":       {"pkg/chat", "pkg/lm", "pkg/policy", "pkg/suite", "pkg/trajectory"},
	"pkg/train":           {"pkg/lm", "pkg/trajectory"},
	"pkg/tiny": {"pkg/chat", "pkg/episode", "pkg/lm", "pkg/policy", "pkg/policy/scripted", "pkg/reward", "pkg/rollout", "pkg/suite", "pkg/train",
		"pkg/trajectory"},
	"pkg/export": {"pkg/chat", "pkg/suite"},
	"pkg/rl":     {"pkg/episode", "pkg/eval", "pkg/lm", "pkg/policy", "pkg/reward", "pkg/rollout", "pkg/suite", "pkg/train", "pkg/trajectory"},
	"pkg/study":  {"pkg/eval", "pkg/loophole", "pkg/report", "pkg/rl", "pkg/suite", "pkg/train", "pkg/trajectory"},
	"pkg/config": {"pkg/benchmark", "pkg/episode", "pkg/reward", "pkg/rl", "pkg/suite", "pkg/suites", "pkg/tiny", "pkg/train"},
	"pkg/stage": {"pkg/benchmark", "pkg/chat", "pkg/config", "pkg/episode", "pkg/eval", "pkg/export", "pkg/judge", "pkg/lm", "pkg/loophole", "pkg/policy", "pkg/policy/*", "pkg/report", "pkg/reward",
		"pkg/rl", "pkg/rollout", "pkg/study", "pkg/suite", "pkg/suites", "pkg/tiny", "pkg/tool", "pkg/train", "pkg/trajectory"},
	"pkg/show":          {"pkg/config", "pkg/eval", "pkg/policy/scripted", "pkg/report", "pkg/reward", "pkg/rollout", "pkg/stage", "pkg/study", "pkg/suite", "pkg/trajectory"},
	"pkg/bench":         {"pkg/lm", "pkg/tiny", "pkg/train"},
	"pkg/notebook":      {"pkg/report", "pkg/show", "pkg/stage"},
	"pkg/internal/mini": {"pkg/suite", "pkg/tool", "pkg/tool/*", "pkg/trajectory"},
	"scripts/*":         {"pkg/config", "pkg/notebook", "pkg/show", "pkg/stage"},
	"scripts/bench":     {"pkg/bench", "pkg/config", "pkg/lm"},
	"scripts/doctor":    {}, // pkg/plugin, a leaf; never pkg/lm, whose binding cannot be linked beside doctor's
}

// computing packages may depend on GoMLX, directly or through others.
var computing = []string{"pkg/lm", "pkg/policy/lm", "pkg/train", "pkg/tiny", "pkg/rl", "pkg/study", "pkg/config", "pkg/stage", "pkg/show", "pkg/bench", "pkg/notebook", "scripts/*"}

// direct is who may name GoMLX in an import: the others go through pkg/lm.
var direct = []string{"pkg/lm", "pkg/train", "pkg/tiny", "pkg/bench"}

const (
	gomlx  = "github.com/gomlx"
	gopjrt = "github.com/gomlx/gopjrt"
)

// Check returns what breaks the rules, one sentence each, sorted.
func Check(g Graph) []string {
	var out []string
	add := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	for _, path := range slices.Sorted(maps.Keys(g)) {
		name, ok := strings.CutPrefix(path, Module+"/")
		if !ok {
			continue
		}
		allowed, listed := flow[name]
		if !listed {
			allowed, listed = flow[parent(name)]
		}
		leaf := slices.Contains(leaves, name)
		if !listed && !leaf {
			add("%s is in no list of pkg/internal/layers: say there what it may import", name)
			continue
		}
		for _, i := range g[path] {
			if in, ok := strings.CutPrefix(i, Module+"/"); ok && !matches(leaves, in) && !matches(allowed, in) || ok && leaf && (in != base || name == base) {
				add("%s imports %s, against the flow of data", name, in)
			}
			if under(i, gopjrt) && name != "scripts/doctor" {
				add("%s imports %s, which only scripts/doctor may", name, i)
			} else if under(i, gomlx) && !under(i, gopjrt) && !matches(direct, name) {
				add("%s imports %s, which only %s may", name, i, strings.Join(direct, ", "))
			}
		}
		if chain := reach(g, path, func(p string) bool { return under(p, gomlx) && !under(p, gopjrt) }); chain != nil {
			if name == "scripts/doctor" {
				add("%s depends on a library that cannot be linked beside gopjrt: %s", name, strings.Join(chain, " > "))
			} else if !matches(computing, name) {
				add("%s must not know GoMLX: %s", name, strings.Join(chain, " > "))
			}
		}
		if name == "pkg/trajectory" {
			own := []string{path, Module + "/pkg/price", Module + "/pkg/source"}
			if chain := reach(g, path, func(p string) bool { return !slices.Contains(own, p) }); chain != nil {
				add("%s may depend on the standard library, pkg/price and pkg/source only: %s", name, strings.Join(chain, " > "))
			}
		}
	}
	slices.Sort(out)
	return out
}

// matches reports whether a list holds a name, itself or through "folder/*".
func matches(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, parent(name))
}

// parent is the pattern that a name below a folder matches.
func parent(name string) string { return name[:strings.LastIndexByte(name, '/')+1] + "*" }

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// reach returns a shortest chain of imports from a package to one that is wanted, nil if there is none.
func reach(g Graph, from string, wanted func(string) bool) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if p != from && wanted(p) {
			var chain []string
			for ; p != ""; p = before[p] {
				chain = append(chain, strings.TrimPrefix(p, Module+"/"))
			}
			slices.Reverse(chain)
			return chain
		}
		for _, i := range g[p] {
			if _, seen := before[i]; !seen {
				before[i] = p
				queue = append(queue, i)
			}
		}
	}
	return nil
}
