package cells

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/run"
)

// codeLines is how long the program of a notebook may be: the work is done in package stage.
const codeLines = 60

const fix = "if the script is right, run: make notebooks-sync; if the notebook was edited in JupyterLab, run: scripts/notebooks.sh back %s"

func root(t *testing.T) string {
	t.Helper()
	dir, err := run.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// pairs are the names of all notebooks and scripts of the project.
func pairs(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"scripts/[0-9][0-9]_*", "notebooks/[0-9][0-9]_*.ipynb"} {
		found, err := fs.Glob(os.DirFS(root(t)), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			names = append(names, strings.TrimSuffix(filepath.Base(f), ".ipynb"))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 6 {
		t.Fatalf("found the notebooks %v, want at least 6", names)
	}
	return names
}

func read(t *testing.T, name string) (script, notebook []byte) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root(t), "scripts", name, "main.go"))
	if err != nil {
		t.Fatalf("notebook %s has no script: %v; to make it, run: scripts/notebooks.sh back %s", name, err, name)
	}
	notebook, err = os.ReadFile(filepath.Join(root(t), "notebooks", name+".ipynb"))
	if err != nil {
		t.Fatalf("script %s has no notebook: %v; to make it, run: make notebooks-sync", name, err)
	}
	return script, notebook
}

func parse(t *testing.T, script, notebook []byte) (s, n []Cell) {
	t.Helper()
	s, err := ParseScript(script)
	if err != nil {
		t.Fatalf("script: %v", err)
	}
	n, err = ParseNotebook(notebook)
	if err != nil {
		t.Fatalf("notebook: %v", err)
	}
	return s, n
}

func TestNotebooksAreTheirScripts(t *testing.T) {
	for _, name := range pairs(t) {
		s, n := parse(t, first(read(t, name)), second(read(t, name)))
		if d := Diff(s, n); d != "" {
			t.Errorf("scripts/%s/main.go and notebooks/%s.ipynb differ: %s; "+strings.Replace(fix, "%s", name, 1), name, name, d)
		}
	}
}

func first(a, _ []byte) []byte  { return a }
func second(_, b []byte) []byte { return b }

// A cell that is executed in the notebook and not called by main would be in one of the two only.
func TestMainCallsWhatCellsExecute(t *testing.T) {
	for _, name := range pairs(t) {
		script, _ := read(t, name)
		s, err := ParseScript(script)
		if err != nil {
			t.Fatal(err)
		}
		called, err := Called(script)
		if err != nil {
			t.Fatal(err)
		}
		if got := Executed(s); !slices.Equal(got, called) || len(got) == 0 {
			t.Errorf("%s: cells execute %v, main calls %v", name, got, called)
		}
	}
}

func TestScriptsAreThin(t *testing.T) {
	for _, name := range pairs(t) {
		script, _ := read(t, name)
		n := 0
		for _, l := range strings.Split(string(script), "\n") {
			if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "//") {
				n++
			}
		}
		if n > codeLines {
			t.Errorf("scripts/%s/main.go has %d lines of code, want at most %d: move work to package stage", name, n, codeLines)
		}
	}
}

// edit applies f to the notebook's cells as JupyterLab would, and writes the file anew.
func edit(t *testing.T, notebook []byte, f func(cells []any) []any) []byte {
	t.Helper()
	var nb map[string]any
	if err := json.Unmarshal(notebook, &nb); err != nil {
		t.Fatal(err)
	}
	nb["cells"] = f(nb["cells"].([]any))
	b, err := json.MarshalIndent(nb, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// at is the position of the notebook's cell whose source holds text.
func at(t *testing.T, cells []any, text string) int {
	t.Helper()
	for i, c := range cells {
		b, _ := json.Marshal(c.(map[string]any)["source"])
		if bytes.Contains(b, []byte(text)) {
			return i
		}
	}
	t.Fatalf("no cell holds %q", text)
	return -1
}

func TestPlantedEditsAreNamed(t *testing.T) {
	script, notebook := read(t, "03_baselines")
	swap := func(b []byte, from, to string) []byte {
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("the file does not hold %q any more: the test has to follow it", from)
		}
		return bytes.Replace(b, []byte(from), []byte(to), 1)
	}
	source := func(text string) []any { return []any{text} }
	for _, tc := range []struct {
		name             string
		script, notebook []byte
		want             []string
	}{
		{"code in the script", swap(script, "notebook.Show(&opts, show.Baselines)", "notebook.Show(&opts, show.Tools)"), notebook,
			[]string{"cell 6 ", "func results()", "show.Tools", "line 1"}},
		{"text in the script", swap(script, "They take the cheapest tool", "They avoid the cheapest tool"), notebook, []string{"cell 1 ", "line 3"}},
		{"a cell added to the script", swap(script, "// %% [markdown]\n// ## Results", "// %%\nfunc more() {}\n\n// %% [markdown]\n// ## Results"), notebook, []string{"cell 5 (func more() {})", "script only"}},
		{"code in the notebook", script, edit(t, notebook, func(c []any) []any {
			i := at(t, c, "func pareto()")
			c[i].(map[string]any)["source"] = source("func pareto() { notebook.Show(&opts, show.Tools) }\n\n//gonb:%exec pareto")
			return c
		}), []string{"cell 8 ", "func pareto()", "the notebook has", "show.Tools"}},
		{"text in the notebook", script, edit(t, notebook, func(c []any) []any {
			c[at(t, c, "## Results")].(map[string]any)["source"] = source("## Results, edited")
			return c
		}), []string{"cell 5 ", "## Results, edited"}},
		{"a cell added to the notebook", script, edit(t, notebook, func(c []any) []any {
			added := map[string]any{"cell_type": "code", "source": "fmt.Println(1)", "metadata": map[string]any{}, "outputs": []any{}}
			return slices.Insert(c, 3, any(added))
		}), []string{"cell 4 (fmt.Println(1))", "notebook only"}},
		{"the last cell deleted from the notebook", script, edit(t, notebook, func(c []any) []any { return c[:len(c)-1] }), []string{"func main()", "script only"}},
		{"a text made code in the notebook", script, edit(t, notebook, func(c []any) []any {
			c[0].(map[string]any)["cell_type"] = "code"
			return c
		}), []string{"cell 1 ", "markdown in the script and code in the notebook"}},
	} {
		s, n := parse(t, tc.script, tc.notebook)
		got := Diff(s, n)
		for _, w := range tc.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: got %q, want it to hold %q", tc.name, got, w)
			}
		}
	}
	// Outputs and how JupyterLab shows a cell are no difference.
	s, n := parse(t, script, edit(t, notebook, func(c []any) []any {
		i := at(t, c, "func pareto()")
		c[i].(map[string]any)["outputs"] = []any{map[string]any{"output_type": "stream", "name": "stdout", "text": "x"}}
		c[i].(map[string]any)["metadata"] = map[string]any{"collapsed": true}
		return c
	}))
	if d := Diff(s, n); d != "" {
		t.Errorf("outputs alone: got %q, want no difference", d)
	}
}

func TestDamagedFiles(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"header without end", "// ---\n// jupyter:\npackage main\n", "no end"},
		{"text before the first cell", "// ---\n// ---\n\npackage main\n", "before the first cell"},
		{"marker", "// %% [markup]\n// x\n", "line 1: cannot read the cell marker"},
		{"tags", "// %% tags=[x]\nvar a int\n", "tags"},
		{"code in a text", "// %% [markdown]\n// x\nvar a int\n", "no comment"},
	} {
		if _, err := ParseScript([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error that holds %q", tc.name, err, tc.want)
		}
	}
	for _, tc := range []struct{ name, text, want string }{
		{"no JSON", "{", "not a notebook"},
		{"old", `{"nbformat": 3, "cells": []}`, "format 3"},
		{"source", `{"nbformat": 4, "cells": [{"cell_type": "code", "source": 7}]}`, "cell 1"},
	} {
		if _, err := ParseNotebook([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error that holds %q", tc.name, err, tc.want)
		}
	}
}
