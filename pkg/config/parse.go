package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Layer is one source of settings, named for error messages ("configs/default.yaml", "my.yaml", "--set eval.attempts=8").
type Layer struct {
	Name string
	YAML []byte
	// below is the key that the text is the value of, part by part; empty for a whole file.
	below []string
}

// maxBytes bounds a file of settings, and maxDepth how deep its sections and lists may be nested: the YAML library's time grows with
// the square of either.
const maxBytes, maxDepth = 64 << 10, 32

// shape is what a value looks like in YAML.
type shape int

const (
	nothing shape = iota // null, ~ or no text at all
	text
	list
	section
)

func (s shape) String() string {
	return [...]string{"nothing", "a single value", "a list", "a section"}[s]
}

// node is a value as it was written. Numbers stay texts until their type is known, because a conversion before that could change a digit.
type node struct {
	shape  shape
	text   string
	quoted bool
	keys   []string // of a section, in the order of items
	items  []*node
	at     string // where it stands, for messages
}

// parse reads a layer's text. It refuses, by name, the parts of YAML that settings do not use: anchors, aliases, tags, further documents.
func (l Layer) parse() (n *node, err error) {
	b := bytes.TrimPrefix(l.YAML, []byte("\xef\xbb\xbf")) // a byte order mark, which editors on Windows write
	fail := func(format string, args ...any) (*node, error) {
		return nil, fmt.Errorf("%s: %s", l.Name, fmt.Sprintf(format, args...))
	}
	if len(b) > maxBytes {
		return fail("more than %d bytes: this is no file of settings", maxBytes)
	}
	if !utf8.Valid(b) {
		return fail("the text is not UTF-8: save it as UTF-8")
	}
	if i := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }); i >= 0 {
		return fail("line %d holds a control character", 1+bytes.Count(b[:i], []byte("\n")))
	}
	if deep(b) {
		return fail("nested more than %d deep", maxDepth)
	}
	defer func() {
		if p := recover(); p != nil { // the YAML library panicked
			n, err = fail("this is no YAML that can be read (%v)", p)
		}
	}()
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		return fail("%s", strings.TrimRight(yaml.FormatError(err, false, true), "\n"))
	}
	root := &node{at: l.place(nil)}
	for i, doc := range file.Docs {
		switch {
		case i > 0:
			return fail("a second document begins after ---: put all settings into one")
		case doc.Body != nil:
			if root, err = l.node(doc.Body, 0); err != nil {
				return nil, err
			}
		}
	}
	for i := len(l.below) - 1; i >= 0; i-- {
		root = &node{shape: section, keys: []string{l.below[i]}, items: []*node{root}, at: l.place(nil)}
	}
	return root, nil
}

var flows = regexp.MustCompile(`(?m)^[ \t]*([-?][ \t]+|&\S+[ \t]+|!\S*[ \t]+){8}`)

// deep reports whether a text is nested deeper than any settings are, before the library reads it.
func deep(b []byte) bool {
	depth, most := 0, 0
	for _, c := range b {
		switch c {
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return most > maxDepth || flows.Match(b)
}

func (l Layer) place(t *token.Token) string {
	if t == nil || t.Position == nil || len(l.below) > 0 {
		return l.Name
	}
	return fmt.Sprintf("%s:%d", l.Name, t.Position.Line)
}

func (l Layer) node(of ast.Node, depth int) (*node, error) {
	n := &node{at: l.place(of.GetToken())}
	refuse := func(format string, args ...any) (*node, error) {
		return nil, fmt.Errorf("%s: %s", n.at, fmt.Sprintf(format, args...))
	}
	if depth > maxDepth {
		return refuse("nested more than %d deep", maxDepth)
	}
	switch x := of.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.shape, n.text = text, x.Value
		n.quoted = x.Token.Type == token.SingleQuoteType || x.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		n.shape, n.text, n.quoted = text, x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.shape, n.text = text, of.GetToken().Value
	case *ast.SequenceNode:
		n.shape = list
		for _, v := range x.Values {
			item, err := l.node(v, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case *ast.MappingNode:
		n.shape = section
		for _, v := range x.Values {
			if err := l.entry(n, v, depth); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		n.shape = section
		if err := l.entry(n, x, depth); err != nil {
			return nil, err
		}
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return refuse("anchors and aliases (&x, *x, <<) have no place in settings: write the value out; a text that begins with & or * stands in quotes")
	case *ast.TagNode:
		return refuse("tags (%s) have no place in settings: a setting has one type", x.GetToken().Value)
	default:
		return refuse("settings are sections, lists and single values; this is a %s", of.Type())
	}
	return n, nil
}

func (l Layer) entry(n *node, v *ast.MappingValueNode, depth int) error {
	key, err := l.node(v.Key, depth)
	switch {
	case err != nil:
		return err
	case key.shape != text || key.text == "":
		return fmt.Errorf("%s: a key is missing, or is no word", key.at)
	}
	for _, k := range n.keys {
		if k == key.text {
			return fmt.Errorf("%s: the key %q stands twice in its section", key.at, k)
		}
	}
	if v.Value == nil {
		n.keys, n.items = append(n.keys, key.text), append(n.items, &node{at: key.at})
		return nil
	}
	item, err := l.node(v.Value, depth+1)
	if err != nil {
		return err
	}
	n.keys, n.items = append(n.keys, key.text), append(n.items, item)
	return nil
}

// Assignment turns "sft.schedule.learning_rate=0.001" into a layer, so that flags and files go through the same checks. The value is YAML, the
// key dotted; of two assignments to one key the later one holds.
func Assignment(s string) (Layer, error) {
	key, value, ok := strings.Cut(s, "=")
	parts := strings.Split(strings.TrimSpace(key), ".")
	for _, p := range parts {
		ok = ok && p != "" && !strings.ContainsAny(p, " \t\n:{}[],#\"'")
	}
	if !ok {
		return Layer{}, fmt.Errorf("--set %q: want key=value, such as eval.attempts=8", short(s))
	}
	l := Layer{Name: "--set " + short(s), YAML: []byte(value), below: parts}
	if len(parts) > maxDepth {
		return Layer{}, fmt.Errorf("%s: nested more than %d deep", l.Name, maxDepth)
	}
	_, err := l.parse()
	return l, err
}

// short is a text as a message shows it.
func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:77], "") + "..."
	}
	return s
}

var errNoSection = errors.New("want a section of settings, such as eval: {attempts: 8}")
