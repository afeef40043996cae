package toolbox

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// arguments are those of one call. They passed the schema, so a value of another type reads as empty.
type arguments map[string]any

func (a arguments) text(name string) string { s, _ := a[name].(string); return s }

func (a arguments) list(name string) []string {
	items, _ := a[name].([]any)
	out := make([]string, len(items))
	for i, item := range items {
		out[i], _ = item.(string)
	}
	return out
}

// Numbers of arguments are bounded, so that no text makes a value of a million digits.
const (
	maxNumberText = 40
	maxExponent   = 20
)

// rational reads a decimal number, with or without an exponent, exactly. ok is false for anything else and beyond the bounds.
func rational(s string) (*big.Rat, bool) {
	if len(s) > maxNumberText || strings.Trim(s, "+-.eE0123456789") != "" {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

func toRational(arg string, v any) (*big.Rat, error) {
	n, _ := v.(json.Number)
	r, ok := rational(string(n))
	if !ok {
		return nil, fmt.Errorf("%s: must be a decimal number of at most %d characters", arg, maxNumberText)
	}
	return r, nil
}

func (a arguments) number(name string) (*big.Rat, error) { return toRational(name, a[name]) }

func (a arguments) numbers(name string) ([]*big.Rat, error) {
	items, _ := a[name].([]any)
	out := make([]*big.Rat, len(items))
	for i, item := range items {
		r, err := toRational(fmt.Sprintf("%s[%d]", name, i), item)
		if err != nil {
			return nil, err
		}
		out[i] = r
	}
	return out, nil
}

// integer reads a whole number from low to high.
func (a arguments) integer(name string, low, high int64) (int64, error) {
	r, err := a.number(name)
	if err != nil {
		return 0, err
	}
	if !r.IsInt() || !r.Num().IsInt64() || r.Num().Int64() < low || r.Num().Int64() > high {
		return 0, fmt.Errorf("%s: must be a whole number from %d to %d", name, low, high)
	}
	return r.Num().Int64(), nil
}

// decimal writes a value rounded, half away from zero, to at most so many places, without trailing zeros.
func decimal(r *big.Rat, places int) string {
	s := r.FloatString(places)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// exact writes a decimal number in its shortest form: the canonical one of facts.
func exact(r *big.Rat) string {
	n, _ := r.FloatPrec()
	return decimal(r, n)
}
