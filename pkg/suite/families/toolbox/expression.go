package toolbox

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// Bounds of an expression and of every value on the way.
const (
	maxExpression = 200  // bytes
	maxDepth      = 32   // nesting of brackets, functions, signs and powers
	maxBits       = 1024 // of a numerator or denominator
	resultPlaces  = 3
)

// functions are those of scientific_calculator. Angles are in degrees, log is to base 10.
var functions = map[string]func(float64) float64{
	"sin": func(x float64) float64 { return math.Sin(x * math.Pi / 180) },
	"cos": func(x float64) float64 { return math.Cos(x * math.Pi / 180) },
	"tan": func(x float64) float64 { return math.Tan(x * math.Pi / 180) },
	"log": math.Log10, "ln": math.Log, "exp": math.Exp, "sqrt": math.Sqrt,
}

// functionNames are the functions in the order in which errors list them.
const functionNames = "sin, cos, tan, log, ln, exp, sqrt"

// Calculation is an expression's value and its canonical form.
type Calculation struct {
	Value     string // rounded to 3 places
	Canonical string // without spaces and needless brackets, the terms of each sum and the factors of each product sorted
	Operators int    // operators and functions; signs do not count
}

// Calculate evaluates an expression as scientific_calculator does, or as calculator where no functions are allowed. The grammar,
// loosest first:
//
//	sum     = product { ("+" | "-") product }
//	product = signed { ("*" | "/") signed }
//	signed  = { "-" | "+" } power
//	power   = primary [ "**" signed ]           right to left; "^" is the same
//	primary = number | "(" sum ")" | function "(" sum ")"
//
// An exponent is a whole number or 0.5. Values are exact until a root that is no fraction, or a function other than sqrt. The error
// is one short line.
func Calculate(expression string, allowFunctions bool) (Calculation, error) {
	if len(expression) > maxExpression {
		return Calculation{}, fmt.Errorf("expression: has %d bytes, at most %d", len(expression), maxExpression)
	}
	p := &parser{text: expression, functions: allowFunctions}
	v, err := p.sum()
	if err == nil {
		if p.space(); p.at < len(p.text) {
			err = p.unexpected()
		}
	}
	if err != nil {
		return Calculation{}, fmt.Errorf("expression: %w", err)
	}
	return Calculation{decimal(v.rat, resultPlaces), v.in(rankSum), p.operators}, nil
}

// value is an evaluated part of an expression with its canonical text. The sign of a negative number or product stands apart, so that
// -2*3, 2*(-3) and -(2*3) are one text.
type value struct {
	rat      *big.Rat
	text     string // without the sign
	rank     int    // of the loosest operator in text
	negative bool
}

// Ranks of texts: a text of a lower rank than its place needs stands in brackets.
const (
	rankSum = iota
	rankProduct
	rankPower
	rankPrimary
)

// absolute is the text without its sign, in a place of a rank.
func (v value) absolute(rank int) string {
	if v.rank < rank {
		return "(" + v.text + ")"
	}
	return v.text
}

func (v value) in(rank int) string {
	switch {
	case !v.negative:
		return v.absolute(rank)
	case rank > rankSum:
		return "(-" + v.absolute(rankProduct) + ")"
	}
	return "-" + v.absolute(rankProduct)
}

type parser struct {
	text      string
	at        int
	depth     int
	operators int
	functions bool
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take reads one of the operators, the first that fits.
func (p *parser) take(ops ...string) string {
	p.space()
	for _, o := range ops {
		if strings.HasPrefix(p.text[p.at:], o) {
			p.at += len(o)
			return o
		}
	}
	return ""
}

func (p *parser) unexpected() error {
	p.space()
	if p.at == len(p.text) {
		return fmt.Errorf("ends too early")
	}
	for _, r := range p.text[p.at:] {
		return fmt.Errorf("unexpected %q, only numbers, + - * / ** and round brackets are read", r)
	}
	return nil
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	return nil
}

// part is one term of a sum or one factor of a product. Inverse means subtracted or divided by.
type part struct {
	text    string
	inverse bool
}

// joined writes parts in a canonical order: those that are not inverse first, each kind sorted. So 2+3 and 3+2 are one fact.
func joined(parts []part, op, inverse string) string {
	slices.SortFunc(parts, func(a, b part) int {
		if a.inverse != b.inverse {
			if a.inverse {
				return 1
			}
			return -1
		}
		return strings.Compare(a.text, b.text)
	})
	var b strings.Builder
	for i, t := range parts {
		switch {
		case t.inverse:
			b.WriteString(inverse)
		case i > 0:
			b.WriteString(op)
		}
		b.WriteString(t.text)
	}
	return b.String()
}

func (p *parser) sum() (value, error) {
	v, err := p.product()
	if err != nil {
		return v, err
	}
	var parts []part
	for {
		op := p.take("+", "-")
		if op == "" {
			break
		}
		if parts == nil {
			parts = []part{{v.absolute(rankProduct), v.negative}}
		}
		p.operators++
		w, err := p.product()
		if err != nil {
			return v, err
		}
		parts = append(parts, part{w.absolute(rankProduct), w.negative != (op == "-")})
		if op == "-" {
			v.rat = new(big.Rat).Sub(v.rat, w.rat)
		} else {
			v.rat = new(big.Rat).Add(v.rat, w.rat)
		}
		if err := bounded(v.rat); err != nil {
			return v, err
		}
	}
	if parts != nil {
		v.text, v.rank, v.negative = joined(parts, "+", "-"), rankSum, false
	}
	return v, nil
}

func (p *parser) product() (value, error) {
	v, err := p.signed()
	if err != nil {
		return v, err
	}
	var parts []part
	for {
		op := p.take("*", "/")
		if op == "" {
			break
		}
		if parts == nil {
			parts = []part{{v.absolute(rankPower), false}}
		}
		p.operators++
		w, err := p.signed()
		if err != nil {
			return v, err
		}
		parts = append(parts, part{w.absolute(rankPower), op == "/"})
		v.negative = v.negative != w.negative
		if op == "/" {
			if w.rat.Sign() == 0 {
				return v, fmt.Errorf("division by zero")
			}
			v.rat = new(big.Rat).Quo(v.rat, w.rat)
		} else {
			v.rat = new(big.Rat).Mul(v.rat, w.rat)
		}
		if err := bounded(v.rat); err != nil {
			return v, err
		}
	}
	if parts != nil {
		v.text, v.rank = joined(parts, "*", "/"), rankProduct
	}
	return v, nil
}

func (p *parser) signed() (value, error) {
	if err := p.enter(); err != nil {
		return value{}, err
	}
	defer func() { p.depth-- }()
	switch p.take("+", "-") {
	case "+":
		return p.signed()
	case "-":
		v, err := p.signed()
		if err != nil {
			return v, err
		}
		v.rat, v.negative = new(big.Rat).Neg(v.rat), !v.negative
		return v, nil
	}
	return p.power()
}

func (p *parser) power() (value, error) {
	v, err := p.primary()
	if err != nil || p.take("**", "^") == "" {
		return v, err
	}
	p.operators++
	w, err := p.signed()
	if err != nil {
		return v, err
	}
	r, err := raise(v.rat, w.rat)
	return value{r, v.in(rankPrimary) + "**" + w.in(rankPrimary), rankPower, false}, err
}

func (p *parser) primary() (value, error) {
	p.space()
	start := p.at
	for p.at < len(p.text) && (p.text[p.at] >= '0' && p.text[p.at] <= '9' || p.text[p.at] == '.') {
		p.at++
	}
	if p.at > start {
		r, ok := rational(p.text[start:p.at])
		if !ok {
			return value{}, fmt.Errorf("%q is not a number", clip(p.text[start:p.at]))
		}
		return value{r, exact(r), rankPrimary, false}, nil
	}
	for p.at < len(p.text) && (p.text[p.at]|0x20 >= 'a' && p.text[p.at]|0x20 <= 'z') {
		p.at++
	}
	name := strings.ToLower(p.text[start:p.at])
	var f func(float64) float64
	if name != "" {
		var ok bool
		if f, ok = functions[name]; !ok {
			return value{}, fmt.Errorf("%q is not a function, scientific_calculator has %s", clip(name), functionNames)
		}
		if !p.functions {
			return value{}, fmt.Errorf("%s is not available here, use scientific_calculator", name)
		}
	}
	if p.take("(") == "" {
		if name != "" {
			return value{}, fmt.Errorf("%s needs its argument in brackets", name)
		}
		return value{}, p.unexpected()
	}
	if err := p.enter(); err != nil {
		return value{}, err
	}
	v, err := p.sum()
	if err != nil {
		return v, err
	}
	p.depth--
	if p.take(")") == "" {
		if p.at == len(p.text) {
			return v, fmt.Errorf(`a ")" is missing at the end`)
		}
		return v, p.unexpected()
	}
	if name == "" {
		return v, nil
	}
	p.operators++
	r, err := apply(name, f, v.rat)
	return value{r, name + "(" + v.in(rankSum) + ")", rankPrimary, false}, err
}

// raise gives x to a whole power or to 0.5. It refuses what would be too large before it computes it.
func raise(x, y *big.Rat) (*big.Rat, error) {
	if y.Cmp(big.NewRat(1, 2)) == 0 {
		return apply("sqrt", math.Sqrt, x)
	}
	if !y.IsInt() {
		return nil, fmt.Errorf("an exponent must be a whole number or 0.5")
	}
	if x.Sign() == 0 && y.Sign() < 0 {
		return nil, fmt.Errorf("division by zero")
	}
	n := new(big.Int).Abs(y.Num())
	bits := int64(max(x.Num().BitLen(), x.Denom().BitLen()))
	if !n.IsInt64() || n.Int64() > maxBits || bits*n.Int64() > 2*maxBits {
		return nil, fmt.Errorf("the power is too large")
	}
	num, den := new(big.Int).Exp(x.Num(), n, nil), new(big.Int).Exp(x.Denom(), n, nil)
	if y.Sign() < 0 {
		num, den = den, num
	}
	r := new(big.Rat).SetFrac(num, den)
	return r, bounded(r)
}

// apply gives f of x. The root of a square stays exact.
func apply(name string, f func(float64) float64, x *big.Rat) (*big.Rat, error) {
	if name == "sqrt" && x.Sign() >= 0 {
		num, den := new(big.Int).Sqrt(x.Num()), new(big.Int).Sqrt(x.Denom())
		root := new(big.Rat).SetFrac(num, den)
		if new(big.Rat).Mul(root, root).Cmp(x) == 0 {
			return root, nil
		}
	}
	in, _ := x.Float64()
	if name == "tan" && math.Mod(math.Abs(in), 180) == 90 {
		return nil, fmt.Errorf("tan is not defined there")
	}
	out := f(in)
	if math.IsNaN(out) || math.IsInf(out, 0) {
		return nil, fmt.Errorf("%s is not defined there or its value is too large", name)
	}
	r := new(big.Rat).SetFloat64(out)
	return r, bounded(r)
}

// bounded refuses a value that is too large, or so small that its fraction is.
func bounded(r *big.Rat) error {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return fmt.Errorf("a value is too large or too small")
	}
	return nil
}

// clip keeps an echo of an argument short.
func clip(s string) string {
	const most = 40
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
