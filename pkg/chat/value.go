package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// bigInt is an integer beyond int64, kept as its digits.
type bigInt string

// parseJSON reads one JSON value for use in a template: objects keep the order of their keys, integers their digits.
// Every string, keys too, goes through text.
func parseJSON(raw []byte, text func(string) string) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := readValue(d, text)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the JSON value")
	}
	return v, nil
}

func readValue(d *json.Decoder, text func(string) string) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := t.(type) {
	case json.Delim:
		if v == '[' {
			list := []any{}
			for d.More() {
				item, err := readValue(d, text)
				if err != nil {
					return nil, err
				}
				list = append(list, item)
			}
			_, err := d.Token()
			return list, err
		}
		dict := exec.NewDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			item, err := readValue(d, text)
			if err != nil {
				return nil, err
			}
			setKey(dict, text(k.(string)), item)
		}
		_, err := d.Token()
		return dict, err
	case json.Number:
		return number(v.String())
	case string:
		return text(v), nil
	default:
		return t, nil
	}
}

// setKey sets a key as a Python dict does: a key that is there keeps its place.
func setKey(d *exec.Dict, key string, item any) {
	for _, p := range d.Pairs {
		if p.Key.String() == key {
			p.Value = exec.AsValue(item)
			return
		}
	}
	d.Pairs = append(d.Pairs, &exec.Pair{Key: exec.AsValue(key), Value: exec.AsValue(item)})
}

func number(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.Atoi(s); err == nil {
			return n, nil
		}
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			return nil, fmt.Errorf("number %q", s)
		}
		return bigInt(n.String()), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, err
	}
	return f, nil
}

// pyFloat prints a float as Python's repr does: the shortest digits that read back the same, with an exponent from 1e16
// up and below 1e-4, and always a point or an exponent.
func pyFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// dumper writes JSON as Python's json.dumps(ensure_ascii=False) does.
type dumper struct {
	strings.Builder
	indent   string
	sortKeys bool
}

func (w *dumper) value(v any, depth int) error {
	switch x := v.(type) {
	case *exec.Value:
		return w.value(x.Interface(), depth)
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(x))
	case int:
		w.WriteString(strconv.Itoa(x))
	case int64:
		w.WriteString(strconv.FormatInt(x, 10))
	case bigInt:
		w.WriteString(string(x))
	case float64:
		w.WriteString(pyFloat(x))
	case string:
		w.str(x)
	case *exec.Dict:
		return w.dict(x, depth)
	case exec.Dict:
		return w.dict(&x, depth)
	case []any:
		return w.block('[', ']', len(x), depth, func(i int) error { return w.value(x[i], depth+1) })
	case []*exec.Value:
		return w.block('[', ']', len(x), depth, func(i int) error { return w.value(x[i], depth+1) })
	case exec.ValuesList:
		return w.block('[', ']', len(x), depth, func(i int) error { return w.value(x[i], depth+1) })
	case map[string]any:
		d := exec.NewDict()
		for k, item := range x {
			setKey(d, k, item)
		}
		slices.SortFunc(d.Pairs, func(a, b *exec.Pair) int { return strings.Compare(a.Key.String(), b.Key.String()) })
		return w.dict(d, depth)
	default:
		return fmt.Errorf("tojson: a %T cannot be written", v)
	}
	return nil
}

func (w *dumper) dict(d *exec.Dict, depth int) error {
	pairs := d.Pairs
	if w.sortKeys {
		pairs = slices.Clone(pairs)
		slices.SortStableFunc(pairs, func(a, b *exec.Pair) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	}
	return w.block('{', '}', len(pairs), depth, func(i int) error {
		w.str(pairs[i].Key.String())
		w.WriteString(": ")
		return w.value(pairs[i].Value, depth+1)
	})
}

func (w *dumper) block(open, end byte, n, depth int, item func(int) error) error {
	w.WriteByte(open)
	for i := range n {
		switch {
		case i > 0 && w.indent == "":
			w.WriteString(", ")
		case i > 0:
			w.WriteByte(',')
		}
		if w.indent != "" {
			w.WriteString("\n" + strings.Repeat(w.indent, depth+1))
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 && w.indent != "" {
		w.WriteString("\n" + strings.Repeat(w.indent, depth))
	}
	w.WriteByte(end)
	return nil
}

func (w *dumper) str(s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"':
			w.WriteString(`\"`)
		case '\\':
			w.WriteString(`\\`)
		case '\n':
			w.WriteString(`\n`)
		case '\r':
			w.WriteString(`\r`)
		case '\t':
			w.WriteString(`\t`)
		case '\f':
			w.WriteString(`\f`)
		case '\b':
			w.WriteString(`\b`)
		default:
			if r < 0x20 {
				fmt.Fprintf(w, `\u%04x`, r)
			} else {
				w.WriteRune(r)
			}
		}
	}
	w.WriteByte('"')
}

// toJSON is the tojson filter that chat templates expect.
func toJSON(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	var w dumper
	if len(params.Args) > 0 {
		return exec.ValueError(fmt.Errorf("tojson: name the arguments"))
	}
	for k, v := range params.KwArgs {
		switch k {
		case "indent":
			switch {
			case v.IsNil():
			case v.IsString():
				w.indent = v.String()
			default:
				w.indent = strings.Repeat(" ", v.Integer())
			}
		case "ensure_ascii":
			if v.IsTrue() {
				return exec.ValueError(fmt.Errorf("tojson: ensure_ascii=true is not supported"))
			}
		case "sort_keys":
			w.sortKeys = v.IsTrue()
		default:
			return exec.ValueError(fmt.Errorf("tojson: argument %q is not supported", k))
		}
	}
	if err := w.value(in, 0); err != nil {
		return exec.ValueError(err)
	}
	return exec.AsSafeValue(w.String())
}
