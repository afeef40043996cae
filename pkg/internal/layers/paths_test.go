package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// patternsOf lists where a Go file takes a path for a pattern: a folder may be called run[1], and then it is not found. Names below a
// folder are matched with fs.Glob(os.DirFS(folder), pattern), where the folder's own name is none of the pattern's; the pattern is a
// constant, or one of a list that the file declares as allowed.
func patternsOf(fset *token.FileSet, f *ast.File, allowed ...string) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		at := func(format string, a ...any) {
			found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), fmt.Sprintf(format, a...)))
		}
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch x.Name + "." + n.Sel.Name {
			case "filepath.Glob", "filepath.Match", "path.Match":
				at("%s.%s takes a path for a pattern: use fs.Glob(os.DirFS(folder), pattern)", x.Name, n.Sel.Name)
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Glob" || len(n.Args) != 2 {
				return true
			}
			switch p := n.Args[1].(type) {
			case *ast.BasicLit:
				return true
			case *ast.Ident:
				if slices.Contains(allowed, p.Name) {
					return true
				}
			}
			at("the pattern of Glob is no constant")
		}
		return true
	})
	return found
}

// patternVariables are the names, by file, of patterns that are elements of a list of constants.
var patternVariables = map[string][]string{
	"pkg/plugin/plugin.go":             {"pat"},
	"pkg/notebook/cells/cells_test.go": {"pattern"},
	"docs/pins_test.go":                {"pattern"},
}

// No path is taken for a pattern, in tests neither.
func TestPathsAreNoPatterns(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "runs" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, v := range patternsOf(fset, f, patternVariables[filepath.ToSlash(rel)]...) {
			t.Error(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Errorf("only %d Go files were looked at", files)
	}
}

func TestPatternsOf(t *testing.T) {
	for src, want := range map[string]int{
		`filepath.Glob(filepath.Join(dir, "*.json"))`:   1,
		`filepath.Match(a, b)`:                          1,
		`path.Match("*.md", name)`:                      1,
		`strings.Map(filepath.Glob, nil)`:               1,
		`fs.Glob(os.DirFS(dir), "*.json")`:              0,
		`fs.Glob(os.DirFS(dir), filepath.Join(a, "*"))`: 1,
		`fs.Glob(os.DirFS(dir), a+"*")`:                 1,
		`fs.Glob(os.DirFS(dir), name)`:                  1,
		`fs.Glob(os.DirFS(dir), pat)`:                   0,
		`regexp.MatchString(a, b)`:                      0,
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\nfunc f() { "+src+" }\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := patternsOf(fset, f, "pat"); len(got) != want {
			t.Errorf("%s: found %q, want %d", src, got, want)
		}
	}
}
