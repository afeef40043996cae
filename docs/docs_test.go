// Package docs_test keeps the documents true to the tree: what they name is there.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every package has its place in the layout of design.md, and no other is named there.
func TestDesignNamesEveryPackage(t *testing.T) {
	text := read(t, "docs/design.md")
	_, layout, _ := strings.Cut(text, "## Layout")
	layout, _, ok := strings.Cut(layout, "\n## ")
	if !ok {
		t.Fatal("design.md has no section Layout with another one after it")
	}
	dirs, err := os.ReadDir(filepath.Join(root, "pkg"))
	if err != nil {
		t.Fatal(err)
	}
	have := []string{}
	for _, d := range dirs {
		if d.IsDir() && d.Name() != "internal" {
			have = append(have, "pkg/"+d.Name())
		}
	}
	var named []string
	for _, m := range regexp.MustCompile("`(pkg/[a-z]+)`").FindAllStringSubmatch(layout, -1) {
		named = append(named, m[1])
	}
	for _, p := range have {
		if !slices.Contains(named, p) {
			t.Errorf("design.md does not say what %s is", p)
		}
	}
	for _, p := range named {
		if !slices.Contains(have, p) {
			t.Errorf("design.md names %s, which is not there", p)
		}
	}
}

// Links to files of the project resolve.
func TestLinks(t *testing.T) {
	files := []string{"README.md", "CONTRIBUTING.md", "data/README.md"}
	docs, err := fs.Glob(os.DirFS("."), "*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal("no documents", err)
	}
	for _, d := range docs {
		files = append(files, "docs/"+d)
	}
	link := regexp.MustCompile(`\]\(([^)#\s]+)`)
	for _, f := range files {
		for _, m := range link.FindAllStringSubmatch(read(t, f), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", f, m[1], err)
			}
		}
	}
}

// What the diffs of CONTRIBUTING.md take away or show around a change stands in the files that they change.
func TestDiffsApply(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "CONTRIBUTING.md"), "```diff\n")
	checked := 0
	for rest != "" {
		diff, after, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatal("a diff has no end")
		}
		var file, text string
		for line := range strings.Lines(diff) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(line, "--- a/"):
				file = strings.TrimPrefix(line, "--- a/")
				text = read(t, file)
			case strings.HasPrefix(line, "+"):
			case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "-"), strings.HasPrefix(line, " "):
				want := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(line, "@@"), "-"), "...")
				if want = strings.TrimSpace(want); want == "" {
					continue
				}
				if checked++; !strings.Contains(text, want) {
					t.Errorf("CONTRIBUTING.md: %s has no line %q", file, want)
				}
			}
		}
		_, rest, _ = strings.Cut(after, "```diff\n")
	}
	if checked < 10 {
		t.Errorf("only %d lines were checked: the diffs were not found", checked)
	}
}
