package layers

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The module as it is.
func TestModule(t *testing.T) {
	g, err := Load(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"pkg/suite/company", "pkg/lm", "pkg/rollout", "scripts/doctor"} {
		if _, ok := g[Module+"/"+p]; !ok {
			t.Errorf("%s is not in the graph: nothing was checked", p)
		}
	}
	if reach(g, Module+"/pkg/lm", func(p string) bool { return under(p, gomlx) }) == nil {
		t.Error("pkg/lm does not reach GoMLX in the graph: the check is blind")
	}
	for _, v := range Check(g) {
		t.Error(v)
	}
}

// sound is a small graph that breaks no rule.
func sound() Graph {
	g := Graph{}
	for from, to := range map[string][]string{
		"pkg/price":           {},
		"pkg/tool":            {"pkg/price"},
		"pkg/tool/calc":       {"pkg/tool"},
		"pkg/suite":           {"pkg/tool", "pkg/price"},
		"pkg/suite/company":   {"pkg/suite", "pkg/tool/calc"},
		"pkg/trajectory":      {"pkg/price"},
		"pkg/policy":          {"pkg/suite"},
		"pkg/episode":         {"pkg/policy", "pkg/trajectory"},
		"pkg/rollout":         {"pkg/episode", "pkg/policy", "example.com/other"},
		"pkg/eval":            {"pkg/trajectory"},
		"pkg/report":          {"pkg/eval"},
		"pkg/plugin":          {},
		"pkg/lm":              {"pkg/plugin", gomlx + "/gomlx/core/graph"},
		"pkg/policy/scripted": {"pkg/policy"},
		"pkg/policy/lm":       {"pkg/lm", "pkg/policy"},
		"pkg/train":           {"pkg/lm", gomlx + "/gomlx/core/graph"},
		"pkg/stage":           {"pkg/train", "pkg/policy/lm", "pkg/report"},
		"scripts/repro":       {"pkg/stage"},
		"scripts/doctor":      {"pkg/plugin", gopjrt + "/pjrt"},
	} {
		var imports []string
		for _, p := range to {
			if strings.HasPrefix(p, "pkg/") {
				p = Module + "/" + p
			}
			imports = append(imports, p)
		}
		g[Module+"/"+from] = imports
	}
	g[gopjrt+"/pjrt"] = []string{gopjrt + "/dtypes"}
	g[gomlx+"/gomlx/core/graph"] = []string{"github.com/gomlx/compute"}
	g["example.com/other"] = nil
	return g
}

func TestCheck(t *testing.T) {
	if got := Check(sound()); len(got) > 0 {
		t.Fatalf("a sound graph is refused: %q", got)
	}
	for _, c := range []struct{ from, to, want string }{
		{"pkg/suite/company", Module + "/pkg/eval", "pkg/suite/company imports pkg/eval, against the flow of data"},
		{"pkg/suite", Module + "/pkg/suite/company", "pkg/suite imports pkg/suite/company, against the flow of data"},
		{"pkg/trajectory", Module + "/pkg/episode", "pkg/trajectory imports pkg/episode, against the flow of data"},
		{"pkg/price", Module + "/pkg/plugin", "pkg/price imports pkg/plugin, against the flow of data"},
		{"pkg/lm", Module + "/pkg/policy/lm", "pkg/lm imports pkg/policy/lm, against the flow of data"},
		{"scripts/repro", Module + "/pkg/lm", "scripts/repro imports pkg/lm, against the flow of data"},
		{"pkg/trajectory", "example.com/other", "pkg/trajectory may depend on the standard library, pkg/price and pkg/source only: pkg/trajectory > example.com/other"},
		{"pkg/price", "example.com/other", "pkg/trajectory may depend on the standard library, pkg/price and pkg/source only: pkg/trajectory > pkg/price > example.com/other"},
		{"pkg/report", gomlx + "/gomlx/core/graph", "pkg/report must not know GoMLX: pkg/report > github.com/gomlx/gomlx/core/graph"},
		{"pkg/tool/calc", "github.com/gomlx/compute", "pkg/tool/calc imports github.com/gomlx/compute, which only pkg/lm, "},
		{"pkg/policy/lm", gomlx + "/gomlx/core/graph", "pkg/policy/lm imports github.com/gomlx/gomlx/core/graph, which only"},
		// Hidden behind another library.
		{"", "github.com/gomlx/compute", "pkg/rollout must not know GoMLX: pkg/rollout > example.com/other > github.com/gomlx/compute"},
		// Within the module, two steps away.
		{"pkg/policy", Module + "/pkg/lm", "pkg/episode must not know GoMLX: pkg/episode > pkg/policy > pkg/lm > github.com/gomlx/gomlx/core/graph"},
		{"pkg/lm", gopjrt + "/pjrt", "pkg/lm imports github.com/gomlx/gopjrt/pjrt, which only scripts/doctor may"},
		{"scripts/doctor", Module + "/pkg/lm", "scripts/doctor depends on a library that cannot be linked beside gopjrt: scripts/doctor > pkg/lm > "},
		{"pkg/util", Module + "/pkg/price", "pkg/util is in no list of pkg/internal/layers"},
	} {
		g := sound()
		from := Module + "/" + c.from
		if c.from == "" {
			from = "example.com/other"
		}
		g[from] = append(slices.Clone(g[from]), c.to)
		if got := Check(g); !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, c.want) }) {
			t.Errorf("%s > %s: got %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// The list itself has no cycle: what may import flows one way.
func TestFlowHasNoCycle(t *testing.T) {
	g := Graph{}
	for from, to := range flow {
		for _, p := range to {
			for name := range flow {
				if name != from && (name == p || parent(name) == p && parent(from) != p) {
					g[from] = append(g[from], name)
				}
			}
		}
	}
	for _, from := range slices.Sorted(maps.Keys(g)) {
		for _, next := range g[from] {
			if chain := reach(g, next, func(p string) bool { return p == from }); chain != nil {
				t.Errorf("a cycle is allowed: %s > %s", from, strings.Join(chain, " > "))
			}
		}
	}
}

func ExampleCheck() {
	g := Graph{Module + "/pkg/suite": {Module + "/pkg/report"}}
	fmt.Println(Check(g))
	// Output: [pkg/suite imports pkg/report, against the flow of data]
}
