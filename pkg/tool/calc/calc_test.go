package calc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/tool/calc"
)

func Example() {
	for _, e := range []string{"0.1 + 0.2", "15% of 1,240.50", "2^100", "1/3", "9**9**9"} {
		v, err := calc.Eval(e)
		if err != nil {
			v = "error: " + err.Error()
		}
		fmt.Println(v)
	}
	// Output:
	// 0.3
	// 186.075
	// 1267650600228229401496703205376
	// 0.333333333333
	// error: the power is too large: more than 1000 digits
}

var values = []struct{ expr, want string }{
	{"1", "1"}, {"  42 ", "42"}, {"007", "7"}, {".5", "0.5"}, {"5.", "5"}, {"1e3", "1000"}, {"2.5E-3", "0.0025"}, {"1e+2", "100"},
	{"1+2*3", "7"}, {"(1+2)*3", "9"}, {"10-2-3", "5"}, {"100/10/2", "5"}, {"2*-3", "-6"}, {"--5", "5"}, {"-+-5", "5"}, {"+5", "5"}, {"3 - -2", "5"},
	{"0.1+0.2", "0.3"}, {"0.1*3", "0.3"}, {"1.10*3", "3.3"}, {"1-0.9", "0.1"}, {"3*0.1-0.3", "0"}, {"-0", "0"}, {"0*-5", "0"}, {"-0.0", "0"},
	{"9007199254740993", "9007199254740993"}, {"9007199254740992+1", "9007199254740993"},
	{"123456789012345678901234567890*10", "1234567890123456789012345678900"}, {"99999999999999999999.99+0.01", "100000000000000000000"},
	{"9223372036854775807+1", "9223372036854775808"},
	{"1/3", "0.333333333333"}, {"2/3", "0.666666666667"}, {"-2/3", "-0.666666666667"}, {"1/8", "0.125"}, {"7/2", "3.5"}, {"10/4", "2.5"}, {"22/7", "3.14285714286"},
	{"1000000/3", "333333.333333"}, {"1e12/7", "142857142857.142857"}, {"1/3*3", "1"}, {"1/7e6", "0.000000142857142857"}, {"0.1**20", "0.00000000000000000001"},
	{"0.1**50", "0." + strings.Repeat("0", 49) + "1"}, {"999999999999.9999999/3", "333333333333.3333333"}, {"1e12/3", "333333333333.333333"}, {"2/3e20", "0.00000000000000000000666666666667"},
	{"2^10", "1024"}, {"2**10", "1024"}, {"2^3^2", "512"}, {"-2^2", "-4"}, {"(-2)^2", "4"}, {"2^-2", "0.25"}, {"2^(1+1)", "4"}, {"0^0", "1"}, {"1^1e9", "1"},
	{"(-1)^(10^20)", "1"}, {"(-1)^(10^20+1)", "-1"}, {"0^1e9", "0"}, {"1.05^3", "1.157625"}, {"10^30", "1" + strings.Repeat("0", 30)}, {"2^10%", ""},
	{"10%", "0.1"}, {"50%*3", "1.5"}, {"50% * 3", "1.5"}, {"200+10%", "200.1"}, {"200*(1+10%)", "220"}, {"15% of 80", "12"}, {"12.5% of 1,000", "125"}, {"10%%", "0.001"},
	{"(5+5)%", "0.1"}, {"-50%", "-0.5"}, {"5% + 5%", "0.1"}, {"20% - 5%", "0.15"}, {"100 - 20%", "99.8"},
	{"10 % 3", "1"}, {"10%3", "1"}, {"-7 % 3", "2"}, {"7 % (-3)", "-2"}, {"5.5 % 2", "1.5"}, {"10 % (3)", "1"}, {"10 % max(3,4)", "2"}, {"50% % 0.3", "0.2"},
	{"1,234.5", "1234.5"}, {"1,234,567+1", "1234568"}, {"12,345 * 2", "24690"}, {"(1,234)", "1234"}, {"1,000,000.25-0.25", "1000000"},
	{"max(1,2)", "2"}, {"max(1, 2, 3)", "3"}, {"min(3,1,2)", "1"}, {"max(1,234)", "234"}, {"max((1,234), 5)", "1234"}, {"sum(1,2,3)", "6"}, {"sum(100,200)", "300"},
	{"avg(1,2)", "1.5"}, {"avg(1,2,2)", "1.66666666667"}, {"abs(-3.5)", "3.5"}, {"ABS(-1)", "1"}, {"round(2.5)", "3"}, {"round(-2.5)", "-3"}, {"round(2.345, 2)", "2.35"},
	{"round(1234.5, -2)", "1200"}, {"round(2/3, 3)", "0.667"}, {"round(1.005, 2)", "1.01"}, {"min(max(1,2),max(3,4))", "2"}, {"max(-1,-2)", "-1"}, {"sum(1)", "1"},
	{"5 − 3", "2"}, {"−5 + 3", "-2"}, {"5 – 3", "2"}, {"3 × 4", "12"}, {"3·4", "12"}, {"8 ÷ 2", "4"}, {"5\u00a0+\u20093", "8"}, {"（1＋2）", "3"},
	{"2\n*\t3", "6"}, {"15%of 20", "3"},
}

func TestValues(t *testing.T) {
	if len(values) < 100 {
		t.Fatalf("%d rows", len(values))
	}
	for _, c := range values {
		got, err := calc.Eval(c.expr)
		if c.want == "" {
			if err == nil {
				t.Errorf("Eval(%q) = %s, want an error", c.expr, got)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("Eval(%q) = %q, %v; want %s", c.expr, got, err, c.want)
		}
	}
}

var refused = []struct{ expr, want string }{
	{"", "empty"}, {" \t\n", "empty"}, {"1/0", "division by zero"}, {"0/0", "division by zero"}, {"5 % 0", "zero"}, {"0^-1", "division by zero"}, {"1/(2-2)", "division by zero"},
	{"9**9**9", "too large"}, {"9^9^9^9^9", "too large"}, {"10^1e9", "too large"}, {"(1e9)!", "factorial"}, {"5!", "factorial"}, {"1e9999999", "too large"}, {"1e99999999999999999999", "too large"},
	{"10^(10^20)", "too large"}, {"10^1000*10^1000", "too large"}, {"2^-100000", "too large"}, {"(1/3)^1000000000000", "too large"}, {"0.5^5000", "too large"},
	{strings.Repeat("(", 10_000), "bytes"}, {strings.Repeat("(", 1000), "nested"}, {strings.Repeat("(", 900) + "1" + strings.Repeat(")", 900), "nested"},
	{strings.Repeat("abs(", 300), "nested"}, {strings.Repeat("2^", 900) + "1", "nested"}, {strings.Repeat("-", 1999), "ends too early"},
	{strings.Repeat("9", 1500), "too large"}, {strings.Repeat("1+", 5000) + "1", "bytes"}, {"round(1, 1e9)", "decimals"}, {"round(1, 0.5)", "decimals"}, {"round(1,2,3)", "needs"},
	{"2^0.5", "whole number"}, {"4^(1/2)", "whole number"}, {"2^10%", "whole number"},
	{"__import__('os')", "unexpected"}, {"__import__", "unknown name"}, {"import os", "unknown name"}, {"os.system('ls')", "unexpected"}, {"eval(1)", "unknown name"}, {"x", "unknown name"}, {"pi", "unknown name"},
	{"inf", "unknown name"}, {"NaN", "unknown name"}, {"sqrt(4)", "unknown name"}, {"1 if 1 else 2", "operator is missing"}, {"2(3)", "operator is missing"}, {"(2)(3)", "operator is missing"}, {"2 3", "operator is missing"},
	{"1,23", "comma"}, {"1234,567", "comma"}, {"1.234,56", "not a number"}, {"1.2.3", "not a number"}, {"12,34,567", "comma"}, {"1,", "unexpected"}, {"max(1,,2)", "unexpected"}, {"max(1,2", "missing"},
	{"sum(1,234, 5,678)", "ambiguous"}, {"max()", "needs"}, {"abs(1,2)", "needs"}, {"max", "brackets"}, {"max 1", "brackets"}, {"(1", "missing"}, {"1)", "unexpected"}, {"()", "unexpected"}, {"1+", "too early"}, {"*2", "unexpected"},
	{"1 of 2", "percent"}, {"7//2", "//"}, {"[1,2]", "round brackets"}, {"{1}", "round brackets"}, {"$5", "unexpected"}, {"5€", "unexpected"}, {"5 = 5", "unexpected"}, {"1 < 2", "unexpected"}, {"1;2", "unexpected"},
	{"5kg", "units"}, {"0x10", "units"}, {"1_000", "units"}, {"'a'", "unexpected"}, {"🙂", "unexpected"}, {"1 & 2", "unexpected"}, {"a=1", "unexpected"}, {"\xff", "UTF-8"}, {"1\x002", "unexpected"}, {"٣+٤", "unexpected"},
}

// Every refusal is short and quick.
func TestRefused(t *testing.T) {
	for _, c := range refused {
		start := time.Now()
		got, err := calc.Eval(c.expr)
		took := time.Since(start)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Eval(%.40q) = %q, %v; want an error with %q", c.expr, got, err, c.want)
		} else if len(err.Error()) > 120 {
			t.Errorf("Eval(%.40q): an error of %d bytes: %v", c.expr, len(err.Error()), err)
		}
		if took > 10*time.Millisecond {
			start = time.Now() // once more: the machine may have been busy
			calc.Eval(c.expr)
			if took = time.Since(start); took > 10*time.Millisecond {
				t.Errorf("Eval(%.40q) took %v", c.expr, took)
			}
		}
	}
}

// The costliest expressions that the limits let through.
func TestSlowestAllowed(t *testing.T) {
	sum := "0"
	for i := 3; len(sum) < 1900; i += 2 {
		sum += fmt.Sprintf("+1/%d", i)
	}
	for _, e := range []string{
		sum, strings.Repeat("7^1170%3+", 150) + "1", strings.Repeat("9^1000-", 200) + "1", "max(" + strings.Repeat("3^2000,", 200) + "1)", "2^-3000",
		strings.Repeat("(3/7)^1000*", 100) + "1",
	} {
		best := time.Hour
		for range 3 {
			start := time.Now()
			calc.Eval(e)
			best = min(best, time.Since(start))
		}
		if best > 20*time.Millisecond {
			t.Errorf("%.40q took %v", e, best)
		}
	}
}

func TestTool(t *testing.T) {
	box, err := tool.NewBox([]tool.Tool{calc.NewTool("calculator", "exact arithmetic", tool.Price{Base: price.Of(0.5)})})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	if got, err := box.Call(t.Context(), "calculator", map[string]any{"expression": "6*7"}); err != nil || got.Text != "42" {
		t.Errorf("6*7: %v, %v", got, err)
	}
	if _, err := box.Call(t.Context(), "calculator", map[string]any{"expression": "6/0"}); err == nil {
		t.Error("6/0: no error")
	}
	if c := box.Charge("calculator", nil); c != price.Of(0.5) {
		t.Errorf("charge %v", c)
	}
}

// A result names the numbers it was made of; what is no calculation has none, so that it is no evidence.
func TestOperands(t *testing.T) {
	for expr, want := range map[string]string{
		"6*7": "6 7", "1,234.50 + 5%": "1234.5 5", "max(3, 1e3) - .5": "3 1000 0.5", "(44+113)*2": "44 113 2", "-2^3": "2 3",
		"48": "", "(48)": "", "-48": "", "48%": "", "abs(48)": "", "+ +48": "",
	} {
		got, err := calc.Calculate(expr)
		of := ""
		for _, r := range got.Reads {
			of += strings.Join(r.Of, " ")
		}
		if err != nil || of != want {
			t.Errorf("%s is made of %q, %v; want %q", expr, of, err, want)
		}
	}
}

func FuzzEval(f *testing.F) {
	for _, c := range values {
		f.Add(c.expr)
	}
	for _, c := range refused {
		f.Add(c.expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		start := time.Now()
		got, err := calc.Eval(expr)
		took := time.Since(start)
		for range 3 { // a busy machine may have kept it waiting
			if took <= 500*time.Millisecond {
				break
			}
			start = time.Now()
			calc.Eval(expr)
			took = time.Since(start)
		}
		if took > 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if err != nil {
			if s := err.Error(); s == "" || len(s) > 160 || strings.Contains(s, "\n") {
				t.Errorf("error %q", s)
			}
			return
		}
		if strings.Trim(got, "-.0123456789") != "" || len(got) > 2200 || got == "" || got == "-0" {
			t.Errorf("result %q", got)
		}
		// A result is itself an expression, of the same value.
		if again, err := calc.Eval(got); len(got) < 900 && (err != nil || again != got) {
			t.Errorf("Eval(%s) = %s, %v", got, again, err)
		}
	})
}
