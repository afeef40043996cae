package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Layer is one source of settings, named for error messages ("configs/default.yaml", "--config my.yaml", "--set").
type Layer struct {
	Name string
	YAML []byte
}

// Merge decodes the layers over each other into target, a pointer to a struct with yaml tags: later layers win key by key,
// lists are replaced whole. A key that target does not have is an error that names the key, where it stands and the
// nearest known key; a value of the wrong type names the key and the source line.
func Merge(target any, layers ...Layer) error {
	merged := map[string]any{}
	for _, l := range layers {
		var m map[string]any
		if err := yaml.Unmarshal(l.YAML, &m); err != nil {
			return fmt.Errorf("%s: %s", l.Name, readable(err))
		}
		if err := checkKeys(reflect.TypeOf(target).Elem(), m, ""); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		// Decoding each layer by itself makes a wrong type point into the file that holds it.
		probe := reflect.New(reflect.TypeOf(target).Elem()).Interface()
		if err := yaml.Unmarshal(l.YAML, probe); err != nil {
			return fmt.Errorf("%s: %s", l.Name, readable(err))
		}
		overlay(merged, m)
	}
	b, err := yaml.Marshal(merged)
	if err != nil {
		return fmt.Errorf("merge settings: %w", err)
	}
	if err := yaml.Unmarshal(b, target); err != nil {
		return fmt.Errorf("merged settings: %s", readable(err))
	}
	return nil
}

// goType is how the decoder names what it expected; people set YAML values, not Go fields.
var goType = regexp.MustCompile(`cannot unmarshal (\w+) into Go (?:struct field \S+|value) of type (\S+)`)

func readable(err error) string {
	text := yaml.FormatError(err, false, true)
	m := goType.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	want := "a value of type " + m[2]
	switch m[2] {
	case "bool":
		want = "true or false"
	case "float64":
		want = "a number"
	case "int", "int64", "uint64":
		want = "a whole number"
	}
	return strings.TrimRight(strings.ReplaceAll(text, m[0], fmt.Sprintf("this is a %s, want %s", m[1], want)), "\n")
}

// Assignment turns "sft.schedule.peak=0.001" into a layer, so that flags and files go through the same checks.
func Assignment(s string) (Layer, error) {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return Layer{}, fmt.Errorf("--set %q: want key=value, such as eval.k=8", s)
	}
	parts := strings.Split(key, ".")
	var b strings.Builder
	for i, p := range parts {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), p)
		if i < len(parts)-1 {
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, " %s\n", value)
	return Layer{Name: "--set " + s, YAML: []byte(b.String())}, nil
}

func overlay(dst, src map[string]any) {
	for k, v := range src {
		if _, section := dst[k].(map[string]any); section && v == nil {
			continue // a section whose every line is a comment
		}
		if sub, ok := v.(map[string]any); ok {
			if have, ok := dst[k].(map[string]any); ok {
				overlay(have, sub)
				continue
			}
			fresh := map[string]any{}
			overlay(fresh, sub)
			dst[k] = fresh
			continue
		}
		dst[k] = v
	}
}

// checkKeys walks m beside the struct type; a map in the struct takes any key.
func checkKeys(t reflect.Type, m map[string]any, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Map {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if sub, ok := m[k].(map[string]any); ok {
				if err := checkKeys(t.Elem(), sub, path+k+"."); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if t.Kind() != reflect.Struct {
		return nil // a wrong type is reported by the decoder, with its line
	}
	fields := yamlFields(t)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		ft, ok := fields[k]
		if !ok {
			known := slices.Sorted(maps.Keys(fields))
			return fmt.Errorf("unknown key %q%s", path+k, suggestion(k, path, known))
		}
		if sub, ok := m[k].(map[string]any); ok {
			if err := checkKeys(ft, sub, path+k+"."); err != nil {
				return err
			}
		}
		if err := checkNumber(ft, m[k], path+k); err != nil {
			return err
		}
	}
	return nil
}

// checkNumber finds what the decoder takes in silence: a missing value as 0 or false, and the whole part of a fraction.
func checkNumber(t reflect.Type, v any, path string) error {
	switch {
	case v == nil && t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64:
		return fmt.Errorf("%q has no value", path)
	case t.PkgPath() == "" && t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64: // a type of its own reads itself
		if x, ok := v.(float64); ok && x != math.Trunc(x) {
			return fmt.Errorf("%q is %v: want a whole number", path, x)
		}
	case t.Kind() == reflect.Slice:
		list, _ := v.([]any)
		for _, v := range list {
			if err := checkNumber(t.Elem(), v, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func yamlFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case opts == "inline":
			maps.Copy(out, yamlFields(f.Type))
		case name == "":
			out[strings.ToLower(f.Name)] = f.Type
		default:
			out[name] = f.Type
		}
	}
	return out
}

func suggestion(key, path string, known []string) string {
	if best := Nearest(key, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", path+best)
	}
	return fmt.Sprintf("; known keys here: %s", strings.Join(known, ", "))
}

// Nearest returns the known word with the smallest edit distance to word, or "" when none is near enough to be what was
// meant (far more than half of the letters differ).
func Nearest(word string, known []string) string {
	best, bestD := "", (len(word)+1)/2+1
	for _, k := range known {
		if d := editDistance(word, k); d < bestD {
			best, bestD = k, d
		}
	}
	return best
}

// editDistance is Levenshtein's, one row at a time.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}
