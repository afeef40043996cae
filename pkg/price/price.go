// Package price holds amounts of the priced-tool economy as exact fixed-point numbers, so that budgets and optimal costs
// are compared without rounding. It knows no currency: an amount is what the prompt shows.
package price

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Amount is a price or a sum of prices in millionths. The zero value is free.
type Amount int64

// Unit is the amount 1.
const Unit Amount = 1_000_000

// Max is the largest price that Parse accepts, a billion. An Amount can hold the sum of some thousand of them.
const Max = 1_000_000_000 * Unit

var decimal = regexp.MustCompile(`^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)$`)

// Parse reads a decimal such as "0.5", "12" or "-1.25"; more than six decimals, or a value beyond Max, is an error.
func Parse(s string) (Amount, error) {
	if len(s) > 40 || !decimal.MatchString(s) {
		return 0, fmt.Errorf("price %q: not a decimal number", s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, fmt.Errorf("price %q: not a decimal number", s)
	}
	r.Mul(r, big.NewRat(int64(Unit), 1))
	if !r.IsInt() {
		return 0, fmt.Errorf("price %q: more than six decimals", s)
	}
	if n := new(big.Int).Abs(r.Num()); n.Cmp(big.NewInt(int64(Max))) > 0 {
		return 0, fmt.Errorf("price %q: too large, %v is the most", s, Max)
	}
	return Amount(r.Num().Int64()), nil
}

// Of rounds v to the nearest millionth. It is for constants of a program, and panics if v is not finite or is beyond Max.
func Of(v float64) Amount {
	if !(math.Abs(v) <= Max.Float()) { // NaN too
		panic(fmt.Sprintf("price.Of(%v): no amount, it must be finite and at most %v", v, Max))
	}
	return Amount(math.Round(v * float64(Unit)))
}

// Float returns the amount as a float64, for rewards and statistics.
func (a Amount) Float() float64 { return float64(a) / float64(Unit) }

// String prints the shortest exact decimal: 7.5, 0.004, 12.
func (a Amount) String() string {
	sign, u := "", uint64(a)
	if a < 0 {
		sign, u = "-", -uint64(a)
	}
	s := strconv.FormatUint(u/uint64(Unit), 10)
	if frac := u % uint64(Unit); frac != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%06d", frac), "0")
	}
	return sign + s
}

// MarshalText makes an amount a decimal in YAML and in text.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (a *Amount) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err == nil {
		*a = v
	}
	return err
}

// MarshalJSON writes a JSON number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a JSON number.
func (a *Amount) UnmarshalJSON(b []byte) error { return a.UnmarshalText(b) }

// RoundUp returns a rounded up to a multiple of step (for example a budget to the next 0.5). A step of 0 or less leaves a as it is, and
// so does a multiple that no Amount can hold.
func (a Amount) RoundUp(step Amount) Amount {
	if step <= 0 || a%step == 0 {
		return a
	}
	if a < 0 {
		return a - a%step
	}
	if a-a%step > math.MaxInt64-step {
		return a
	}
	return a - a%step + step
}

// Scale returns a times a factor, rounded to the nearest millionth; a product that is not finite or beyond Max is an error.
func (a Amount) Scale(f float64) (Amount, error) {
	x := math.Round(float64(a) * f)
	if !(math.Abs(x) <= float64(Max)) { // NaN too
		return 0, fmt.Errorf("%v times %v is no amount: it must be finite and at most %v", a, f, Max)
	}
	return Amount(x), nil
}
