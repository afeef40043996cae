package calc

import (
	"fmt"
	"math/big"
)

// parser evaluates while it parses; it holds no state but its place.
type parser struct {
	toks  []token
	pos   int
	depth int
}

func (p *parser) peek() token { return p.toks[p.pos] }

func (p *parser) take(ops ...string) (string, bool) {
	t := p.peek()
	if t.kind != op {
		return "", false
	}
	for _, o := range ops {
		if t.text == o {
			p.pos++
			return o, true
		}
	}
	return "", false
}

func (p *parser) enter() error {
	if p.depth++; p.depth > MaxDepth {
		return fmt.Errorf("nested more than %d deep", MaxDepth)
	}
	return nil
}

func (p *parser) unexpected(t token) error {
	switch t.kind {
	case end:
		return fmt.Errorf("the expression ends too early")
	case number, name:
		if p.pos > 0 && (p.toks[p.pos-1].kind == number || p.toks[p.pos-1].text == ")") {
			return fmt.Errorf("an operator is missing before %q", clip(t.text))
		}
	case op:
		switch {
		case t.text == "(" && p.pos > 0 && (p.toks[p.pos-1].kind == number || p.toks[p.pos-1].text == ")"):
			return fmt.Errorf(`an operator is missing before "("`)
		case t.text == ")":
			return fmt.Errorf(`unexpected ")"`)
		case t.text == ",":
			return fmt.Errorf(`unexpected ",": it separates thousands or the arguments of a function`)
		case t.text == "of":
			return fmt.Errorf(`"of" stands only after a percent`)
		case t.text == "/" && p.pos > 0 && p.toks[p.pos-1].text == "/":
			return fmt.Errorf(`"//" is not an operator: use / and round`)
		}
	}
	return fmt.Errorf("unexpected %q", clip(t.text))
}

func (p *parser) sum() (*big.Rat, error) {
	x, err := p.product()
	for err == nil {
		o, ok := p.take("+", "-")
		if !ok {
			return x, nil
		}
		var y *big.Rat
		if y, err = p.product(); err != nil {
			break
		}
		if o == "+" {
			x = new(big.Rat).Add(x, y)
		} else {
			x = new(big.Rat).Sub(x, y)
		}
		err = checkSize(x)
	}
	return nil, err
}

func (p *parser) product() (*big.Rat, error) {
	x, err := p.signed()
	for err == nil {
		if t := p.peek(); t.kind == op && t.text == "of" && (p.pos == 0 || p.toks[p.pos-1].text != "%") {
			return nil, p.unexpected(t)
		}
		o, ok := p.take("*", "/", "%", "of")
		if !ok {
			return x, nil
		}
		var y *big.Rat
		if y, err = p.signed(); err != nil {
			break
		}
		switch o {
		case "*", "of":
			x = new(big.Rat).Mul(x, y)
		case "/":
			if y.Sign() == 0 {
				return nil, fmt.Errorf("division by zero")
			}
			x = new(big.Rat).Quo(x, y)
		case "%":
			if y.Sign() == 0 {
				return nil, fmt.Errorf("remainder of a division by zero")
			}
			q := floor(new(big.Rat).Quo(x, y))
			x = new(big.Rat).Sub(x, q.Mul(q, y))
		}
		err = checkSize(x)
	}
	return nil, err
}

func (p *parser) signed() (*big.Rat, error) {
	neg := false
	for {
		o, ok := p.take("-", "+")
		if !ok {
			break
		}
		neg = neg != (o == "-")
	}
	x, err := p.power()
	if err == nil && neg {
		x = new(big.Rat).Neg(x)
	}
	return x, err
}

func (p *parser) power() (*big.Rat, error) {
	x, err := p.percent()
	if err != nil {
		return nil, err
	}
	if _, ok := p.take("^"); !ok {
		return x, nil
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	y, err := p.signed()
	p.depth--
	if err != nil {
		return nil, err
	}
	return pow(x, y)
}

func (p *parser) percent() (*big.Rat, error) {
	x, err := p.primary()
	for err == nil && p.peek().kind == op && p.peek().text == "%" && !p.operandAt(p.pos+1) {
		p.pos++
		x = new(big.Rat).Quo(x, big.NewRat(100, 1))
		err = checkSize(x)
	}
	return x, err
}

// operandAt reports whether an operand without a sign starts at a token.
func (p *parser) operandAt(i int) bool {
	t := p.toks[i]
	return t.kind == number || t.kind == name || t.kind == op && t.text == "("
}

func (p *parser) primary() (*big.Rat, error) {
	t := p.peek()
	switch {
	case t.kind == number:
		p.pos++
		return t.val, nil
	case t.kind == name:
		return p.call()
	}
	if _, ok := p.take("("); !ok {
		return nil, p.unexpected(t)
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	x, err := p.sum()
	if err != nil {
		return nil, err
	}
	p.depth--
	return x, p.closing()
}

func (p *parser) closing() error {
	if _, ok := p.take(")"); ok {
		return nil
	}
	if p.peek().kind == end {
		return fmt.Errorf(`a ")" is missing at the end`)
	}
	return p.unexpected(p.peek())
}

func (p *parser) call() (*big.Rat, error) {
	fn := p.peek().text
	f, ok := functions[fn]
	if !ok {
		return nil, fmt.Errorf("unknown name %q: the functions are min, max, sum, avg, round, abs", clip(fn))
	}
	p.pos++
	if _, ok := p.take("("); !ok {
		return nil, fmt.Errorf(`%s needs its arguments in brackets`, fn)
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	var args []*big.Rat
	grouping, spaced := false, false
	for {
		if p.peek().text == ")" && p.peek().kind == op && len(args) == 0 {
			break
		}
		x, err := p.sum()
		if err != nil {
			return nil, err
		}
		args = append(args, x)
		comma := p.peek()
		if _, ok := p.take(","); !ok {
			break
		}
		grouping = grouping || comma.grouping
		spaced = spaced || comma.spaced
	}
	p.depth--
	if err := p.closing(); err != nil {
		return nil, err
	}
	if grouping && spaced {
		return nil, fmt.Errorf("%s: commas are ambiguous: write numbers without thousands separators", fn)
	}
	if len(args) < f.least || f.most > 0 && len(args) > f.most {
		return nil, fmt.Errorf("%s: %d arguments, needs %s", fn, len(args), f.needs)
	}
	x, err := f.apply(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fn, err)
	}
	return x, checkSize(x)
}

type function struct {
	least, most int // 0: no upper bound
	needs       string
	apply       func([]*big.Rat) (*big.Rat, error)
}

var functions = map[string]function{
	"min": {1, 0, "at least one", func(a []*big.Rat) (*big.Rat, error) { return pick(a, -1), nil }},
	"max": {1, 0, "at least one", func(a []*big.Rat) (*big.Rat, error) { return pick(a, 1), nil }},
	"sum": {1, 0, "at least one", total},
	"avg": {1, 0, "at least one", func(a []*big.Rat) (*big.Rat, error) {
		s, err := total(a)
		if err != nil {
			return nil, err
		}
		return s.Quo(s, big.NewRat(int64(len(a)), 1)), nil
	}},
	"abs":   {1, 1, "one", func(a []*big.Rat) (*big.Rat, error) { return new(big.Rat).Abs(a[0]), nil }},
	"round": {1, 2, "a value and, optionally, decimals", round},
}

func pick(a []*big.Rat, sign int) *big.Rat {
	best := a[0]
	for _, x := range a[1:] {
		if x.Cmp(best) == sign {
			best = x
		}
	}
	return best
}

func total(a []*big.Rat) (*big.Rat, error) {
	s := new(big.Rat)
	for _, x := range a {
		s.Add(s, x)
		if err := checkSize(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func round(a []*big.Rat) (*big.Rat, error) {
	scale := big.NewRat(1, 1)
	if len(a) == 2 {
		if !a[1].IsInt() || !a[1].Num().IsInt64() || a[1].Num().Int64() > maxRoundArg || a[1].Num().Int64() < -maxRoundArg {
			return nil, fmt.Errorf("decimals must be a whole number within %d", maxRoundArg)
		}
		var err error
		if scale, err = pow(big.NewRat(10, 1), a[1]); err != nil {
			return nil, err
		}
	}
	x := new(big.Rat).Mul(a[0], scale)
	half := big.NewRat(1, 2)
	r := floor(new(big.Rat).Add(new(big.Rat).Abs(x), half))
	if x.Sign() < 0 {
		r.Neg(r)
	}
	return r.Quo(r, scale), nil
}

func floor(x *big.Rat) *big.Rat {
	q := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean; the denominator is positive, so it is the floor
	return new(big.Rat).SetInt(q)
}

// pow raises x to a whole power, refusing by estimate before it computes what would be too large.
func pow(x, y *big.Rat) (*big.Rat, error) {
	if !y.IsInt() {
		return nil, fmt.Errorf("the exponent of a power must be a whole number")
	}
	n := y.Num()
	switch one := big.NewRat(1, 1); {
	case n.Sign() == 0 || x.Cmp(one) == 0:
		return one, nil
	case x.Sign() == 0:
		if n.Sign() < 0 {
			return nil, fmt.Errorf("division by zero")
		}
		return new(big.Rat), nil
	case new(big.Rat).Abs(x).Cmp(one) == 0:
		if n.Bit(0) == 0 {
			return one, nil
		}
		return x, nil
	}
	bits := int64(max(x.Num().BitLen(), x.Denom().BitLen()) - 1)
	if !n.IsInt64() || max(n.Int64(), -n.Int64()) > maxBits || bits*max(n.Int64(), -n.Int64()) > maxBits {
		return nil, fmt.Errorf("the power is %s", tooLargeText)
	}
	e := new(big.Int).Abs(n)
	num := new(big.Int).Exp(x.Num(), e, nil)
	den := new(big.Int).Exp(x.Denom(), e, nil)
	if n.Sign() < 0 {
		num, den = den, num
	}
	r := new(big.Rat).SetFrac(num, den)
	return r, checkSize(r)
}

func checkSize(r *big.Rat) error {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return fmt.Errorf("a value is %s", tooLargeText)
	}
	return nil
}
