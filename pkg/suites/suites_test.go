package suites_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suites"
)

// namesOf are the words that a suite brings along, with what each names.
func namesOf(d suite.Definition) map[string]string {
	names := map[string]string{d.Name: "a suite"}
	for what, list := range map[string][]string{"a split": append([]string{d.Train, d.Val}, d.Splits...), "demonstrations": append(d.Demos, d.Corpus...), "pairs": d.Pairs} {
		for _, n := range list {
			names[n] = what
		}
	}
	for _, c := range d.Columns {
		if !slices.ContainsFunc(suite.CallColumns(), func(common suite.Column) bool { return common.Name == c.Name }) { // which any suite can have
			names[c.Name] = "a column"
		}
	}
	for _, s := range d.Dimensions {
		names[s.Name] = "a dimension"
	}
	for _, b := range d.Behaviours {
		names[b.Name] = "a behaviour"
	}
	for _, t := range []string{d.Threshold.First, d.Threshold.Second} {
		names[t] = "a tool"
	}
	for _, r := range d.Regimes {
		names[r.Start], names[r.After] = "a method", "a method"
	}
	delete(names, "")
	return names
}

// otherWords are literals of shared packages that a suite uses for something else.
var otherWords = map[string]string{
	"train":    "a setting, a folder and a stage",
	"val":      "what metrics of validation begin with",
	"optimal":  "the cheapest path in diagnoses and headers",
	"cheapest": "a header",
}

// named lists the literals of a Go file that are names of suites.
func named(file string, src any, names map[string]string) (out []string, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if what := names[text]; err == nil && what != "" && otherWords[text] == "" {
			out = append(out, set.Position(lit.Pos()).String()+": "+lit.Value+" names "+what)
		}
		return true
	})
	return out, nil
}

// Only a suite's own packages name it, its splits, columns, demonstrations or tools. Shared code asks the suite's definition.
func TestSharedPackagesNameNoSuite(t *testing.T) {
	names := map[string]string{}
	for _, d := range suites.All {
		for name, what := range namesOf(d) {
			names[name] = what
		}
	}
	read := 0
	root := os.DirFS("..") // pkg
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.Count(path, "/") == 1 && strings.HasPrefix(path, "suite/") || path == "internal/mini" {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		read++
		src, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		found, err := named(path, src, names)
		for _, f := range found {
			t.Error("pkg/" + f)
		}
		return err
	})
	if err != nil || read < 100 {
		t.Fatalf("%d files read, %v", read, err)
	}
}

// The check sees what it looks for.
func TestNamedFindsLiterals(t *testing.T) {
	names := namesOf(suites.All[0])
	const src = "package p\n\nvar a, b, c = `test_heldout_combo`, \"company\", \"companies\" // company\n"
	got, err := named("p.go", src, names)
	if want := "p.go:3:15: `test_heldout_combo` names a split, p.go:3:37: \"company\" names a suite"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}

func TestFind(t *testing.T) {
	for _, name := range suites.Names() {
		if d, err := suites.Find(name); err != nil || d.Name != name {
			t.Errorf("%s: %s, %v", name, d.Name, err)
		}
	}
	if _, err := suites.Find("compani"); err == nil || !strings.Contains(err.Error(), strings.Join(suites.Names(), ", ")) {
		t.Errorf("an unknown suite: error %v, want one that lists those there are", err)
	}
}
