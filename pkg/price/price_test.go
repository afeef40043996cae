package price_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
)

// A budget of 1.5 times the optimal cost, rounded up to the next half.
func ExampleAmount_RoundUp() {
	budget, err := price.Of(7.5).Scale(1.5)
	fmt.Println(budget.RoundUp(price.Of(0.5)), err)
	// Output: 11.5 <nil>
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{"0.5": "0.5", "12": "12", "-1.250": "-1.25", "0.000001": "0.000001", "0": "0",
		"0.00001": "0.00001", "1234567.5": "1234567.5", "1000000000": "1000000000", "+5": "5", ".5": "0.5", "2.": "2"} {
		a, err := price.Parse(in)
		if err != nil || a.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", in, a, err, want)
		}
	}
	for _, in := range []string{"", "x", "1e3", "0.0000001", "1/2", "99999999999999999999", "NaN", "Inf", "0x10", "010", "0b1", "0o7", "1_000", "1e-05",
		"1000000000.000001", "1,5", " 1", "--1", "9223372036854.775808"} {
		if a, err := price.Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, a)
		}
	}
}

// A budget of 1e15 times the optimal cost was -9223372036854.5.
func TestNothingWrapsAround(t *testing.T) {
	for _, f := range []float64{1e15, -1e15, 1e300, math.Inf(1), math.Inf(-1), math.NaN()} {
		if a, err := price.Of(7.5).Scale(f); err == nil {
			t.Errorf("7.5 times %v = %v, want an error", f, a)
		}
	}
	if a := price.Amount(math.MaxInt64 - 1).RoundUp(price.Max); a < 0 {
		t.Errorf("the largest amount rounded up is %v", a)
	}
	var sum price.Amount
	for range 9000 {
		if sum += price.Max; sum < 0 {
			t.Fatal("thousands of the largest price wrap around")
		}
	}
}

// 0.1 ten times is 1 exactly, which it is not in float64.
func TestSumsAreExact(t *testing.T) {
	var sum price.Amount
	for range 10 {
		sum += price.Of(0.1)
	}
	if sum != price.Unit {
		t.Errorf("sum = %v, want 1", sum)
	}
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(map[string]price.Amount{"p": price.Of(0.004)})
	if err != nil || string(b) != `{"p":0.004}` {
		t.Fatalf("marshal: %s, %v", b, err)
	}
	var m map[string]price.Amount
	if err := json.Unmarshal(b, &m); err != nil || m["p"] != price.Of(0.004) {
		t.Fatalf("unmarshal: %v, %v", m, err)
	}
}
