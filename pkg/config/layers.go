package config

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/edits"
)

// Merge reads the layers over each other into target, a pointer to a struct with yaml tags: later layers win key by key,
// lists are replaced whole, and what no layer names stays as it is. Merge reports everything that is wrong. Each error names the file and
// line or the assignment, and the dotted key; for an unknown key also the nearest known one. A value must be of its setting's type as it is
// written: a whole number is decimal digits, a number is finite, true and false are these words.
func Merge(target any, layers ...Layer) error {
	_, err := merge(target, layers...)
	return err
}

// merge is Merge; origin says where each setting got its value, by the dotted key.
func merge(target any, layers ...Layer) (origin map[string]string, err error) {
	v := reflect.ValueOf(target).Elem()
	r := &reader{root: v.Type(), of: map[reflect.Type]reflect.Type{}, origin: map[string]string{}}
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Interface && !f.IsNil() {
			r.of[f.Type()] = f.Elem().Type().Elem()
		}
	}
	for _, l := range layers {
		n, err := l.parse()
		if err != nil {
			return nil, err
		}
		r.read(n, v, "")
		if len(r.errs) > 0 { // later layers would only add errors that follow from these
			return nil, errors.Join(r.errs...)
		}
	}
	return r.origin, nil
}

// With holds settings for one place alone, with the keys of the whole file. Its values have the types of the settings that they change.
type With map[string]any

// reader puts nodes into typed settings, and collects the errors.
type reader struct {
	root reflect.Type // the struct whose keys a With can have
	// of maps the interface type of a field of root to the struct type whose pointer the field holds.
	of     map[reflect.Type]reflect.Type
	origin map[string]string
	errs   []error
}

func (r *reader) fault(n *node, key, format string, args ...any) {
	at := n.at
	if key != "" {
		at += ": " + key
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

var withType = reflect.TypeFor[With]()

// read puts a node into v, the setting of that key.
func (r *reader) read(n *node, v reflect.Value, key string) {
	t := v.Type()
	if _, ok := r.of[t]; ok {
		r.read(n, v.Elem().Elem(), key)
		return
	}
	switch {
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		if n.shape == nothing {
			return // a section whose every line is a comment
		}
		if n.shape != section {
			r.fault(n, key, "this is %s: %v", n.shape, errNoSection)
			return
		}
		if t == withType {
			if v.IsNil() {
				v.Set(reflect.MakeMap(t))
			}
			r.readWith(n, r.root, v.Interface().(With), key)
			return
		}
		for i, k := range n.keys {
			if t.Kind() == reflect.Map {
				if v.IsNil() {
					v.Set(reflect.MakeMap(t))
				}
				e, name := reflect.New(t.Elem()).Elem(), reflect.ValueOf(k).Convert(t.Key())
				if old := v.MapIndex(name); old.IsValid() {
					e.Set(old)
				}
				r.read(n.items[i], e, key+dot(key)+k)
				v.SetMapIndex(name, e)
			} else if f := r.field(n.items[i], t, k, key); f >= 0 {
				r.read(n.items[i], v.Field(f), key+dot(key)+k)
			}
		}
	case n.shape == nothing:
		r.fault(n, key, "it has no value%s", map[bool]string{true: `; an empty text is ""`, false: ""}[t.Kind() == reflect.String])
	case t.Kind() == reflect.Slice:
		if n.shape != list {
			r.fault(n, key, "this is %s, want a list such as [a, b]", n.shape)
			return
		}
		out := reflect.MakeSlice(t, len(n.items), len(n.items))
		for i, item := range n.items {
			r.read(item, out.Index(i), fmt.Sprintf("%s[%d]", key, i))
		}
		v.Set(out)
		r.origin[key] = n.at
	case n.shape != text:
		r.fault(n, key, "this is %s, want %s", n.shape, wanted(t))
	default:
		if err := scalar(n, v); err != nil {
			r.fault(n, key, "%v", err)
			return
		}
		r.origin[key] = n.at
	}
}

// readWith puts a section into a With: typed as the settings of t.
func (r *reader) readWith(n *node, t reflect.Type, into map[string]any, key string) {
	for i, k := range n.keys {
		item, at := n.items[i], key+"."+k
		ft := t
		if t.Kind() == reflect.Map {
			ft = t.Elem()
		} else if f := r.field(item, t, k, key); f >= 0 {
			ft = t.Field(f).Type
		} else {
			continue
		}
		if behind, ok := r.of[ft]; ok {
			ft = behind
		}
		if kind := ft.Kind(); kind == reflect.Struct || kind == reflect.Map && ft != withType {
			if item.shape == nothing {
				continue
			}
			if item.shape != section {
				r.fault(item, at, "this is %s: %v", item.shape, errNoSection)
				continue
			}
			below, ok := into[k].(map[string]any)
			if !ok {
				below = map[string]any{}
				into[k] = below
			}
			r.readWith(item, ft, below, at)
			continue
		}
		v := reflect.New(ft).Elem()
		r.read(item, v, at)
		into[k] = v.Interface()
	}
}

// field is the index of a struct's field by its key, -1 after a fault.
func (r *reader) field(n *node, t reflect.Type, k, key string) int {
	fields := yamlFields(t)
	if f, ok := fields[k]; ok {
		return f
	}
	path := key + dot(key)
	r.errs = append(r.errs, fmt.Errorf("%s: unknown key %q%s", n.at, path+k, suggestion(k, path, slices.Sorted(maps.Keys(fields)))))
	return -1
}

func dot(key string) string {
	if key == "" {
		return ""
	}
	return "."
}

var (
	whole  = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)$`)
	number = regexp.MustCompile(`^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
)

func wanted(t reflect.Type) string {
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a decimal number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "a whole number in decimal digits"
	case t.Kind() == reflect.Float64:
		return "a number"
	}
	return "a text"
}

// scalar reads one value. What other readers of YAML take for another number (010, 0x10, 1_000, 1:30) or for a truth value (yes, on) is an error.
func scalar(n *node, v reflect.Value) error {
	t, s := v.Type(), n.text
	if t.Kind() == reflect.String {
		v.SetString(s)
		return nil
	}
	no := fmt.Errorf("%q is not %s", short(s), wanted(t))
	if n.quoted {
		return fmt.Errorf("%w: leave the quotes out", no)
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(s))
	}
	switch kind := t.Kind(); {
	case kind == reflect.Bool:
		switch s {
		case "true", "True", "TRUE":
			v.SetBool(true)
		case "false", "False", "FALSE":
			v.SetBool(false)
		default:
			return no
		}
	case kind >= reflect.Int && kind <= reflect.Uint64 && !whole.MatchString(s):
		return no
	case kind >= reflect.Int && kind <= reflect.Int64:
		x, err := strconv.ParseInt(s, 10, t.Bits())
		if err != nil {
			return fmt.Errorf("%s is beyond the largest number, %d", short(s), int64(math.MaxInt64>>(64-t.Bits())))
		}
		v.SetInt(x)
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		x, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, t.Bits())
		if err != nil {
			return fmt.Errorf("%s is out of range: it is a whole number from 0 to %d", short(s), uint64(math.MaxUint64>>(64-t.Bits())))
		}
		v.SetUint(x)
	case kind == reflect.Float64:
		x, err := strconv.ParseFloat(s, 64)
		switch {
		case number.MatchString(s) && (err != nil || x == 0 && strings.ContainsAny(strings.FieldsFunc(s, func(r rune) bool { return r == 'e' || r == 'E' })[0], "123456789")):
			return fmt.Errorf("%s is out of range: no number of 64 bits is near it", short(s))
		case err == nil && (math.IsNaN(x) || math.IsInf(x, 0)), slices.Contains([]string{".nan", ".inf", "-.inf", "+.inf"}, strings.ToLower(s)):
			return fmt.Errorf("%s: it must be a finite number", s)
		case !number.MatchString(s):
			return no
		}
		v.SetFloat(x + 0) // -0 is 0
	default:
		return fmt.Errorf("a setting of type %s cannot be read", t)
	}
	return nil
}

// apply changes the settings that a With names. It replaces maps and lists as a whole, because other settings may share them.
func (w With) apply(v reflect.Value) error { return apply(v, w, "") }

func apply(v reflect.Value, with map[string]any, key string) error {
	for _, k := range slices.Sorted(maps.Keys(with)) {
		at := key + dot(key) + k
		var to reflect.Value
		switch v.Kind() {
		case reflect.Map:
			to = reflect.New(v.Type().Elem()).Elem()
			if old := v.MapIndex(reflect.ValueOf(k)); old.IsValid() {
				to.Set(old)
			}
		default:
			f, ok := yamlFields(v.Type())[k]
			if !ok {
				return fmt.Errorf("%s: unknown key", at)
			}
			to = v.Field(f)
		}
		below, ok := with[k].(map[string]any)
		if ok && to.Kind() == reflect.Interface {
			fresh := reflect.New(to.Elem().Type().Elem())
			fresh.Elem().Set(to.Elem().Elem())
			to.Set(fresh)
			to = fresh.Elem()
		}
		if ok && to.Kind() == reflect.Map {
			fresh := reflect.MakeMap(to.Type())
			for _, name := range to.MapKeys() {
				fresh.SetMapIndex(name, to.MapIndex(name))
			}
			to.Set(fresh)
		}
		switch x := reflect.ValueOf(with[k]); {
		case ok && (to.Kind() == reflect.Struct || to.Kind() == reflect.Map):
			if err := apply(to, below, at); err != nil {
				return err
			}
		case x.IsValid() && x.Type() == to.Type():
			to.Set(x)
		default:
			return fmt.Errorf("%s: a value of type %T, want %s", at, with[k], to.Type())
		}
		if v.Kind() == reflect.Map {
			v.SetMapIndex(reflect.ValueOf(k), to)
		}
	}
	return nil
}

// yamlFields are the indices of a struct's fields by their keys.
func yamlFields(t reflect.Type) map[string]int {
	out := map[string]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "":
			out[strings.ToLower(f.Name)] = i
		default:
			out[name] = i
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
		if d := edits.Distance([]byte(word), []byte(k)); d < bestD {
			best, bestD = k, d
		}
	}
	return best
}
