package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// ArgumentError says which argument of a call is wrong and why, in one short line.
type ArgumentError struct {
	Tool     string
	Argument string // path within the arguments, such as "cities[2]"; empty when it is the object as a whole
	Reason   string
}

func (e *ArgumentError) Error() string {
	if e.Argument == "" {
		return e.Tool + ": " + e.Reason
	}
	return fmt.Sprintf("%s: argument %s: %s", e.Tool, e.Argument, e.Reason)
}

// argSchema is a compiled schema of an arguments object.
type argSchema struct {
	compiled *jsonschema.Schema
	names    []string // its properties, sorted
	open     bool     // properties beyond names are allowed
}

// compiled holds each schema text once: thousands of boxes are made of the same few tools.
var compiled sync.Map // string -> *argSchema

func compileSchema(raw json.RawMessage) (*argSchema, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("no JSON schema; a tool without arguments has {\"type\":\"object\",\"additionalProperties\":false}")
	}
	if s, ok := compiled.Load(string(raw)); ok {
		return s.(*argSchema), nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	obj, ok := doc.(map[string]any)
	if !ok || obj["type"] != "object" {
		return nil, errors.New(`the schema must be an object with "type": "object"`)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const id = "arguments.json"
	if err := c.AddResource(id, doc); err != nil {
		return nil, err
	}
	sch, err := c.Compile(id)
	if err != nil {
		return nil, fmt.Errorf("not a JSON schema: %w", err)
	}
	out := &argSchema{compiled: sch, open: true}
	if v, ok := obj["additionalProperties"].(bool); ok {
		out.open = v
	}
	props, _ := obj["properties"].(map[string]any)
	for name := range props {
		out.names = append(out.names, name)
	}
	sort.Strings(out.names)
	compiled.Store(string(raw), out)
	return out, nil
}

// noLoader refuses references to other documents: a schema stands alone.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: schemas must stand alone", url)
}

func (s *argSchema) has(arg string) bool {
	i := sort.SearchStrings(s.names, arg)
	return i < len(s.names) && s.names[i] == arg || s.open && len(s.names) == 0
}

func (s *argSchema) validate(tool string, args map[string]any) error {
	if args == nil {
		args = map[string]any{}
	}
	if path, err := checkNumbers("", args, 0); err != nil {
		return &ArgumentError{tool, path, err.Error()}
	}
	err := s.compiled.Validate(args)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return &ArgumentError{tool, "", CutText(err.Error(), 200)}
	}
	leaves := collect(nil, ve)
	// One fault is reported: the first by place, so that the text does not depend on map order.
	sort.SliceStable(leaves, func(i, j int) bool { return leaves[i].less(leaves[j]) })
	e := leaves[0].explain(s)
	e.Tool = tool
	return e
}

type leaf struct {
	path []string
	kind jsonschema.ErrorKind
	text string
}

func (l leaf) less(m leaf) bool {
	if a, b := rank(l.kind), rank(m.kind); a != b {
		return a < b
	}
	if a, b := strings.Join(l.path, "\x00"), strings.Join(m.path, "\x00"); a != b {
		return a < b
	}
	return l.text < m.text
}

// rank puts unknown arguments before missing ones: a misspelt name is both, and the first says more.
func rank(k jsonschema.ErrorKind) int {
	switch k.(type) {
	case *kind.AdditionalProperties:
		return 0
	case *kind.Required:
		return 1
	}
	return 2
}

func collect(out []leaf, e *jsonschema.ValidationError) []leaf {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		return append(out, leaf{e.InstanceLocation, e.ErrorKind, ""})
	}
	if len(e.Causes) == 0 {
		return append(out, leaf{e.InstanceLocation, e.ErrorKind, e.Error()})
	}
	for _, c := range e.Causes {
		out = collect(out, c)
	}
	return out
}

func (l leaf) explain(s *argSchema) *ArgumentError {
	path := formatPath(l.path)
	within := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch k := l.kind.(type) {
	case *kind.Required:
		missing := append([]string(nil), k.Missing...)
		sort.Strings(missing)
		return &ArgumentError{Argument: within(missing[0]), Reason: "is missing"}
	case *kind.AdditionalProperties:
		extra := append([]string(nil), k.Properties...)
		sort.Strings(extra)
		reason := "is not known"
		if path == "" {
			reason = "is not known; the arguments are " + strings.Join(s.names, ", ")
			if len(s.names) == 0 {
				reason = "is not known; the tool takes no arguments"
			}
		}
		return &ArgumentError{Argument: within(CutText(extra[0], 60)), Reason: reason}
	case *kind.Type:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("is %s, must be %s", article(k.Got), strings.Join(articles(k.Want), " or "))}
	case *kind.Enum:
		var want []string
		for _, v := range k.Want {
			b, _ := json.Marshal(v)
			want = append(want, string(b))
		}
		return &ArgumentError{Argument: path, Reason: "must be one of " + CutText(strings.Join(want, ", "), 160)}
	case *kind.AnyOf, *kind.OneOf:
		return &ArgumentError{Argument: path, Reason: "fits none, or more than one, of the forms allowed"}
	case *kind.Not:
		return &ArgumentError{Argument: path, Reason: "has a form that is not allowed"}
	case *kind.MinLength:
		if k.Want == 1 {
			return &ArgumentError{Argument: path, Reason: "must not be empty"}
		}
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("has %d characters, must have at least %d", k.Got, k.Want)}
	case *kind.MaxLength:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("has %d characters, must have at most %d", k.Got, k.Want)}
	case *kind.MinItems:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("has %d elements, must have at least %d", k.Got, k.Want)}
	case *kind.MaxItems:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("has %d elements, must have at most %d", k.Got, k.Want)}
	case *kind.Minimum:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("must be at least %s", k.Want.RatString())}
	case *kind.Maximum:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("must be at most %s", k.Want.RatString())}
	case *kind.ExclusiveMinimum:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("must be more than %s", k.Want.RatString())}
	case *kind.ExclusiveMaximum:
		return &ArgumentError{Argument: path, Reason: fmt.Sprintf("must be less than %s", k.Want.RatString())}
	case *kind.Pattern:
		return &ArgumentError{Argument: path, Reason: "must match " + k.Want}
	}
	return &ArgumentError{Argument: path, Reason: CutText(strings.ReplaceAll(l.text, "\n", " "), 160)}
}

func formatPath(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			b.WriteString("[" + p + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(CutText(p, 60))
	}
	return b.String()
}

func article(t string) string {
	switch t {
	case "null", "":
		return "null"
	case "array":
		return "a list"
	case "integer", "object":
		return "an " + t
	}
	return "a " + t
}

func articles(types []string) []string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = article(t)
	}
	return out
}

// Numbers beyond these are refused before anything computes with them: 1e999999999 is ten bytes of JSON and gigabytes of
// digits.
const (
	maxDigits   = 400
	maxExponent = 400
	maxDepth    = 64
)

func checkNumber(n json.Number) error {
	s := string(n)
	if len(s) > maxDigits {
		return fmt.Errorf("is a number of %d characters, more than %d", len(s), maxDigits)
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > maxExponent || e < -maxExponent {
			return fmt.Errorf("is a number with an exponent beyond %d", maxExponent)
		}
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return errors.New("is not a number")
	}
	return nil
}

func checkNumbers(path string, v any, depth int) (string, error) {
	if depth > maxDepth {
		return path, fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		return path, checkNumber(v)
	case []any:
		for i, x := range v {
			if p, err := checkNumbers(path+"["+strconv.Itoa(i)+"]", x, depth+1); err != nil {
				return p, err
			}
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for k := range v {
			names = append(names, k)
		}
		sort.Strings(names)
		for _, k := range names {
			p := CutText(k, 60)
			if path != "" {
				p = path + "." + p
			}
			if p, err := checkNumbers(p, v[k], depth+1); err != nil {
				return p, err
			}
		}
	}
	return path, nil
}

func quoteShort(s string) string {
	if utf8.RuneCountInString(s) > 40 {
		s = string([]rune(s)[:40]) + "…"
	}
	return strconv.Quote(s)
}
