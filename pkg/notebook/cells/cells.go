// Package cells reads the cells of a numbered notebook and of the Go program in percent form that it is made from, and says
// where they differ. A notebook and its script are two files for one text; this comparison is what keeps them one. It needs
// neither Jupyter nor Python, converts nothing (jupytext does, see scripts/notebooks.sh) and does not look at outputs.
package cells

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// The kinds of cells, as notebooks name them. A script's code cell that is tagged ScriptOnly is raw in the notebook: text
// that is shown and not executed.
const (
	Code     = "code"
	Markdown = "markdown"
	Raw      = "raw"
)

// ScriptOnly is the tag of cells that only the program runs, such as main.
const ScriptOnly = "active-go"

// Cell is one cell. Source has no trailing newline.
type Cell struct {
	Kind   string
	Source string
	Tags   []string
}

// Name is what a reader knows a cell by: its first line that says something.
func (c Cell) Name() string {
	for _, l := range strings.Split(c.Source, "\n") {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "package ") && l != "import (" {
			if r := []rune(l); len(r) > 60 {
				l = string(r[:60]) + "..."
			}
			return l
		}
	}
	return "an empty cell"
}

var marker = regexp.MustCompile(`^// %%(?: \[(markdown|raw)\])?(?: tags=(\[.*\]))?$`)

// ParseScript reads the cells of a go:percent program. The header between two lines "// ---" is no cell.
func ParseScript(b []byte) ([]Cell, error) {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	at := 0
	if lines[0] == "// ---" {
		end := slices.Index(lines[1:], "// ---")
		if end < 0 {
			return nil, fmt.Errorf("the header has no end (a second line %q)", "// ---")
		}
		at = end + 2
	}
	var out []Cell
	var body []string
	for n := at; n <= len(lines); n++ {
		if n < len(lines) && !strings.HasPrefix(lines[n], "// %%") {
			if len(out) == 0 && strings.TrimSpace(lines[n]) != "" {
				return nil, fmt.Errorf("line %d stands before the first cell (a line %q)", n+1, "// %%")
			}
			body = append(body, lines[n])
			continue
		}
		if len(out) > 0 {
			if err := out[len(out)-1].take(body); err != nil {
				return nil, fmt.Errorf("the cell that ends at line %d: %w", n, err)
			}
		}
		body = nil
		if n == len(lines) {
			break
		}
		m := marker.FindStringSubmatch(lines[n])
		if m == nil {
			return nil, fmt.Errorf("line %d: cannot read the cell marker %q", n+1, lines[n])
		}
		c := Cell{Kind: Code}
		if m[1] != "" {
			c.Kind = m[1]
		}
		if m[2] != "" {
			if err := json.Unmarshal([]byte(m[2]), &c.Tags); err != nil {
				return nil, fmt.Errorf("line %d: tags: %w", n+1, err)
			}
		}
		if c.Kind == Code && slices.Contains(c.Tags, ScriptOnly) {
			c.Kind = Raw
		}
		out = append(out, c)
	}
	return out, nil
}

// take sets a cell's source from the lines between two markers: it drops blank lines around the source, and the comment marks of texts.
func (c *Cell) take(body []string) error {
	for len(body) > 0 && body[len(body)-1] == "" {
		body = body[:len(body)-1]
	}
	if c.Kind == Markdown || c.Kind == Raw && !slices.Contains(c.Tags, ScriptOnly) {
		plain := make([]string, len(body))
		for i, l := range body {
			if l != "//" && !strings.HasPrefix(l, "// ") {
				return fmt.Errorf("%q is no comment, in a cell of text", l)
			}
			plain[i] = strings.TrimPrefix(strings.TrimPrefix(l, "//"), " ")
		}
		body = plain
	}
	c.Source = strings.Join(body, "\n")
	return nil
}

// ParseNotebook reads the cells of a notebook file (nbformat 4).
func ParseNotebook(b []byte) ([]Cell, error) {
	var nb struct {
		Cells []struct {
			Kind     string          `json:"cell_type"`
			Source   json.RawMessage `json:"source"`
			Metadata struct {
				Tags []string `json:"tags"`
			} `json:"metadata"`
		} `json:"cells"`
		Format int `json:"nbformat"`
	}
	if err := json.Unmarshal(b, &nb); err != nil {
		return nil, fmt.Errorf("not a notebook: %w", err)
	}
	if nb.Format != 4 {
		return nil, fmt.Errorf("notebook format %d: only 4 is read", nb.Format)
	}
	var out []Cell
	for i, c := range nb.Cells {
		var whole string
		if err := json.Unmarshal(c.Source, &whole); err != nil {
			var lines []string
			if err := json.Unmarshal(c.Source, &lines); err != nil {
				return nil, fmt.Errorf("cell %d: source is neither a text nor a list of lines", i+1)
			}
			whole = strings.Join(lines, "")
		}
		out = append(out, Cell{c.Kind, strings.TrimRight(whole, "\n"), c.Metadata.Tags})
	}
	return out, nil
}

// Diff names the first cell in which a script and its notebook differ, and how; empty when they are the same.
func Diff(script, notebook []Cell) string {
	for i := range max(len(script), len(notebook)) {
		switch {
		case i >= len(notebook):
			return fmt.Sprintf("cell %d (%s) is in the script only", i+1, script[i].Name())
		case i >= len(script):
			return fmt.Sprintf("cell %d (%s) is in the notebook only", i+1, notebook[i].Name())
		}
		s, n := script[i], notebook[i]
		if same(s, n) {
			continue
		}
		switch {
		case i+1 < len(notebook) && same(s, notebook[i+1]):
			return fmt.Sprintf("cell %d (%s) is in the notebook only", i+1, n.Name())
		case i+1 < len(script) && same(script[i+1], n):
			return fmt.Sprintf("cell %d (%s) is in the script only", i+1, s.Name())
		case s.Kind != n.Kind:
			return fmt.Sprintf("cell %d (%s) is %s in the script and %s in the notebook", i+1, s.Name(), s.Kind, n.Kind)
		case s.Source == n.Source:
			return fmt.Sprintf("cell %d (%s) has the tags %q in the script and %q in the notebook", i+1, s.Name(), s.Tags, n.Tags)
		}
		return fmt.Sprintf("cell %d (%s), %s", i+1, s.Name(), firstLine(s.Source, n.Source))
	}
	return ""
}

func same(a, b Cell) bool {
	return a.Kind == b.Kind && a.Source == b.Source && slices.Equal(a.Tags, b.Tags)
}

func firstLine(script, notebook string) string {
	a, b := strings.Split(script, "\n"), strings.Split(notebook, "\n")
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("line %d: the notebook has %q, the script ends before it", i+1, b[i])
		case i >= len(b):
			return fmt.Sprintf("line %d: the script has %q, the notebook ends before it", i+1, a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("line %d: the script has %q, the notebook has %q", i+1, a[i], b[i])
		}
	}
	return ""
}

var execLine = regexp.MustCompile(`(?m)^//gonb:%exec (\w+)$`)

// Executed lists the functions that the code cells run in a notebook, in order.
func Executed(cells []Cell) []string {
	var out []string
	for _, c := range cells {
		if c.Kind == Code {
			for _, m := range execLine.FindAllStringSubmatch(c.Source, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// Called lists the functions of its own that a program's main calls, in order.
func Called(program []byte) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "main.go", program, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "main" {
			continue
		}
		for _, st := range fn.Body.List {
			if ex, ok := st.(*ast.ExprStmt); ok {
				if call, ok := ex.X.(*ast.CallExpr); ok {
					if id, ok := call.Fun.(*ast.Ident); ok {
						out = append(out, id.Name)
					}
				}
			}
		}
	}
	return out, nil
}
