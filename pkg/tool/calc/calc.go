// Package calc is the exact calculator tool: decimal arithmetic on rationals, written as people and models write it.
// It is its own small parser, so nothing but the grammar below is ever evaluated, and every step is bounded, so that no
// expression takes more than a few milliseconds. It has no variables, no roots, no trigonometry and no floating point.
//
// Grammar, loosest first:
//
//	sum      = product { ("+" | "-") product }
//	product  = signed { ("*" | "/" | "%" | "of") signed }   "%" between two operands is the remainder
//	signed   = { "-" | "+" } power
//	power    = percent [ ("^" | "**") signed ]              right to left: 2^3^2 = 2^9, -2^2 = -4
//	percent  = primary { "%" }                              10% = 0.1
//	primary  = number | "(" sum ")" | function "(" sum { "," sum } ")"
//
// Rules that are choices:
//   - "%" is the remainder when an operand (a number, a bracket or a function) follows, else percent: "10 % 3" is 1,
//     "10% * 3" is 0.3, "10% - 3" is -2.9. The remainder has the sign of the divisor: -7 % 3 = 2. Percent is a factor
//     only: 200 + 10% is 200.1. "of" is multiplication and stands only after a percent: 15% of 80 = 12.
//   - Thousands separators are read when the groups are right (1,234,567.8). Among the arguments of a function a comma
//     separates arguments: max(1,234) is 234. A call that mixes "1,234" with ", " is ambiguous and refused.
//   - The other minus signs and dashes of Unicode, the signs × · ÷ and digits with exponents (1.5e3) are read as usual.
//   - The exponent of a power is a whole number; 0^0 is 1.
//   - Functions: min, max, sum, avg of one or more, abs of one, round of a value and, optionally, decimals (which may be
//     negative). Halves round away from zero.
//   - The result is exact when its decimals end within 40 places. Otherwise it is rounded, half away from zero, to 12
//     significant digits but never to fewer than 6 decimals. Trailing zeros, signs of zero and exponents are not written.
package calc

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/tool"
)

// Limits of an expression and of every value on the way.
const (
	MaxInput  = 2000 // bytes of an expression
	MaxDepth  = 64   // nesting of brackets, functions and powers
	MaxDigits = 1000 // digits of a numerator or denominator
)

const (
	maxBits      = MaxDigits * 3322 / 1000
	exactPlaces  = 40
	roundDigits  = 12
	roundPlaces  = 6
	maxExpOfTen  = MaxDigits // of a number written with an exponent
	maxRoundArg  = 100
	tooLargeText = "too large: more than 1000 digits"
)

// Eval evaluates one expression. The error is one short line for the reader of an observation.
func Eval(expr string) (string, error) {
	r, err := evalRat(expr)
	if err != nil {
		return "", err
	}
	return format(r), nil
}

func evalRat(expr string) (*big.Rat, error) {
	if len(expr) > MaxInput {
		return nil, fmt.Errorf("expression of %d bytes: at most %d are read", len(expr), MaxInput)
	}
	if !utf8.ValidString(expr) {
		return nil, fmt.Errorf("the expression is not valid UTF-8")
	}
	toks, err := lex(expr)
	if err != nil {
		return nil, err
	}
	if len(toks) == 1 {
		return nil, fmt.Errorf("empty expression")
	}
	p := &parser{toks: toks}
	r, err := p.sum()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != end {
		return nil, p.unexpected(t)
	}
	return r, nil
}

// format writes r by the rule of the package doc.
func format(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	if n, exact := r.FloatPrec(); exact && n <= exactPlaces {
		return r.FloatString(n)
	}
	// Significant digits: the place of the first one is found by estimate and then by printing.
	abs := new(big.Rat).Abs(r)
	places := roundPlaces
	if whole := new(big.Int).Quo(abs.Num(), abs.Denom()); whole.Sign() > 0 {
		places = max(places, roundDigits-len(whole.String()))
	} else {
		lead := leadingZeros(abs)
		places = max(places, lead+roundDigits)
	}
	s := r.FloatString(places)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// leadingZeros counts the zeros between the decimal point and the first digit of a value in (0, 1).
func leadingZeros(abs *big.Rat) int {
	n, ten := 0, big.NewInt(10)
	v := new(big.Int).Mul(abs.Num(), ten)
	for v.Cmp(abs.Denom()) < 0 {
		v.Mul(v, ten)
		n++
	}
	return n
}

// Calculate is Eval with the numbers that the result was made of.
func Calculate(expr string) (tool.Observation, error) {
	result, err := Eval(expr)
	if err != nil {
		return tool.Observation{}, err
	}
	toks, err := lex(expr)
	if err != nil {
		return tool.Observation{}, err
	}
	var of []string
	for _, t := range toks {
		if t.kind == number {
			of = append(of, format(t.val))
		}
	}
	return tool.Calculated(result, of...), nil
}

// NewTool makes the calculator a priced tool with one argument, expression.
func NewTool(name, description string, price tool.Price) tool.Func {
	return tool.Func{
		Def: tool.Spec{
			Name: name, Description: description, Price: price,
			Parameters: tool.StringSchema("expression", "arithmetic: + - * / % ^ ( ) min max sum avg round abs"),
		},
		Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
			expr, _ := args["expression"].(string)
			return Calculate(expr)
		},
	}
}
