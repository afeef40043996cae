package toolbox_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tool/calc"
)

// Ways of writing one calculation have one canonical text, other calculations another.
func TestCanonical(t *testing.T) {
	for _, group := range [][]string{
		{"2+3*4", "2 + 3 * 4", "4*3+2", "2+(3*4)", "(2)+((3*4))", "2.0+03*4.00", "2--3*4", "2-(-3)*4", "+2+3*4"},
		{"-2*3", "2*(-3)", "-(2*3)", "2*-3", "(3*-2)"},
		{"10-2-3", "10-3-2", "-2+10-3", "-(2)-3+10"},
		{"10-(2-3)"},
		{"12/3/2", "12/2/3"},
		{"12/(3/2)"},
		{"2**3**2", "2**(3**2)", "2^3^2", "2 ** 3 ** 2"},
		{"(2**3)**2"},
		{"(-2)**2"},
		{"-2**2", "-(2**2)"},
		{"2**(-1)", "2**-1"},
		{"9**0.5", "9**.5", "(9)**(0.5)"},
		{"sin(30)*2", "2*SIN( 30 )"},
		{"-sin(30)", "-(sin(30))"},
		{"sin(-30)", "sin(-(30))"},
	} {
		for _, text := range group {
			c, err := toolbox.Calculate(text, true)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			first, _ := toolbox.Calculate(group[0], true)
			if c.Canonical != first.Canonical || c.Value != first.Value {
				t.Errorf("%s is %s = %s, %s is %s = %s", text, c.Canonical, c.Value, group[0], first.Canonical, first.Value)
			}
		}
	}
	seen := map[string]string{}
	for _, text := range []string{"2+3", "2*3", "2-3", "3-2", "2/3", "3/2", "2**3", "3**2", "-2**2", "(-2)**2", "10-2-3", "10-(2-3)", "12/3/2",
		"12/(3/2)", "2*(3+4)", "2*3+4", "sin(30)", "cos(30)", "2**3**2", "(2**3)**2", "ln(2)", "log(2)"} {
		c, err := toolbox.Calculate(text, true)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if other, twice := seen[c.Canonical]; twice {
			t.Errorf("%s and %s are both %s", text, other, c.Canonical)
		}
		seen[c.Canonical] = text
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0.1+0.2", "0.3"}, {"2/3", "0.667"}, {"-2/3", "-0.667"}, {"0.0005", "0.001"}, {"-0.0004", "0"}, {"16**0.5", "4"}, {"(1/4)**0.5", "0.5"},
		{"2**0.5*2**0.5", "2"}, {"0**0", "1"}, {"2**-2", "0.25"}, {"cos(60)", "0.5"}, {"tan(45)", "1"}, {"sin(180)", "0"}, {"ln(1)", "0"},
		{"log(0.001)", "-3"}, {"exp(1)", "2.718"}, {"sqrt(1e)", ""}, {"sqrt(2)", "1.414"}, {"sqrt(123454321)", "11111"}, {"99999*99999", "9999800001"},
	} {
		got, err := toolbox.Calculate(c.text, true)
		if got.Value != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s = %q, %v; want %q", c.text, got.Value, err, c.want)
		}
	}
}

// Depth, length and size are bounded; what is refused is refused at once.
func TestExpressionBounds(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{strings.Repeat("(", 150), "nested more than 32 deep"},
		{strings.Repeat("-", 150) + "1", "nested more than 32 deep"},
		{strings.Repeat("2**", 60) + "1", "nested more than 32 deep"},
		{strings.Repeat("1+", 100) + "1", "has 201 bytes, at most 200"},
		{"10**999", "too large"}, {"(1/3)**900", "too large"}, {strings.Repeat("9", 41), "is not a number"}, {"1.2.3", "is not a number"},
		{".", "is not a number"}, {"1,000", "unexpected ','"}, {"2 3", "unexpected '3'"}, {"(2", `a ")" is missing`}, {"2)", "unexpected ')'"}, {"2 +", "ends too early"},
		{"1e5", "unexpected 'e'"}, {"2 × 3", "unexpected '×'"}, {"\xff", "unexpected"},
	} {
		if _, err := toolbox.Calculate(c.text, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20s: %v, want %s", c.text, err, c.want)
		}
	}
}

// random writes an expression of plain arithmetic.
func random(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(4) == 0 {
		return fmt.Sprint(r.IntN(20), []string{"", ".5", ".25"}[r.IntN(3)])
	}
	switch r.IntN(6) {
	case 0:
		return "(" + random(r, depth-1) + ")"
	case 1:
		return "-" + random(r, depth-1)
	case 2:
		return "(" + random(r, depth-1) + ")**" + fmt.Sprint(r.IntN(4))
	}
	return random(r, depth-1) + []string{"+", "-", "*", "/"}[r.IntN(4)] + random(r, depth-1)
}

// The exact calculator, which is another parser, gives the same values, and so does the canonical text.
func TestAgainstExactCalculator(t *testing.T) {
	r := rng.New(1, "toolbox/expressions")
	compared := 0
	for range 5000 {
		text := random(r, 4)
		got, err := toolbox.Calculate(text, false)
		want, wantErr := calc.Eval("round(" + text + ", 3)")
		if err != nil || wantErr != nil {
			if wantErr == nil && !strings.Contains(err.Error(), "bytes") && !strings.Contains(err.Error(), "too large") {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		compared++
		if got.Value != want {
			t.Errorf("%s = %s, want %s", text, got.Value, want)
		}
		again(t, text, got, false)
	}
	if compared < 3000 {
		t.Errorf("only %d expressions have a value", compared)
	}
}

// again checks that the canonical text is one: it has the same value and is its own canonical text.
func again(t *testing.T, text string, c toolbox.Calculation, functions bool) {
	t.Helper()
	got, err := toolbox.Calculate(c.Canonical, functions)
	if err != nil {
		if !strings.Contains(err.Error(), "bytes") { // brackets made it longer than an expression may be
			t.Errorf("%s is written %s: %v", text, c.Canonical, err)
		}
		return
	}
	if got.Canonical != c.Canonical || got.Operators != c.Operators {
		t.Errorf("%s is written %s with %d operators, that is written %s with %d", text, c.Canonical, c.Operators, got.Canonical, got.Operators)
	}
	if !functions && got.Value != c.Value {
		t.Errorf("%s = %s is written %s = %s", text, c.Value, c.Canonical, got.Value)
	}
}

func FuzzCalculate(f *testing.F) {
	for _, s := range []string{"2+3*4", "-(2-3)**2", "2**0.5", "sin(30)+cos(-60)", "exp(ln(2))", "1/(2-2)", "((((1", "9**9**9", "--+-1", "2 ** -3", "1.2.3", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := toolbox.Calculate(text, true)
		plain, plainErr := toolbox.Calculate(text, false)
		if err != nil {
			if plainErr == nil || len(err.Error()) > 300 {
				t.Errorf("%q: %v, without functions %v", text, err, plainErr)
			}
			return
		}
		if plainErr == nil && plain != c {
			t.Errorf("%q is %v, without functions %v", text, c, plain)
		}
		if _, ok := new(big.Rat).SetString(c.Value); !ok || c.Canonical == "" {
			t.Errorf("%q = %q, written %q", text, c.Value, c.Canonical)
		}
		again(t, text, c, true)
	})
}

// Numbers of arguments are read as they are or refused, and none takes long.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1", "-1.50", "1e20", "1e999999999", "0e999999999", "1e-999999999", "+1", ".5", "1.", "0x10", "1_0", "1/3", "NaN", "", "1e", "007"} {
		f.Add(s)
	}
	describe := world.Tools(nil)[7]
	f.Fuzz(func(t *testing.T, text string) {
		o, err := describe.Call(t.Context(), map[string]any{"numbers": []any{json.Number(text)}})
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%.300v", err)
			}
			return
		}
		fact := o.Reads[2].From[0]
		want, ok := new(big.Rat).SetString(text)
		got, isNumber := new(big.Rat).SetString(strings.TrimPrefix(fact, "statistic/max/"))
		if !ok || !isNumber || got.Cmp(want) != 0 {
			t.Errorf("%q is %s", text, fact)
		}
	})
}

// A number comes back from any base as it was, or is refused.
func FuzzConvertBase(f *testing.F) {
	f.Add("ff", 16, 2)
	f.Add("0012", 10, 36)
	f.Add("-1", 10, 2)
	f.Add("-0", 10, 2) // was read as 0
	f.Add("1_000", 10, 2)
	f.Add("\xff", 36, 2)
	convert := world.Tools(nil)[32]
	f.Fuzz(func(t *testing.T, text string, from, to int) {
		call := func(number string, from, to int) (string, error) {
			o, err := convert.Call(t.Context(), map[string]any{"number": number, "from": json.Number(fmt.Sprint(from)), "to": json.Number(fmt.Sprint(to))})
			return o.Text, err
		}
		there, err := call(text, from, to)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%.300v", err)
			}
			return
		}
		back, err := call(there, to, from)
		if want := strings.TrimLeft(strings.ToLower(text), "0"); err != nil || strings.TrimLeft(back, "0") != want {
			t.Errorf("%q of base %d is %q of base %d and back %q, %v", text, from, there, to, back, err)
		}
	})
}
