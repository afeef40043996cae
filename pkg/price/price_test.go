package price_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
)

// A budget of 1.5 times the optimal cost, rounded up to the next half.
func ExampleAmount_RoundUp() {
	fmt.Println(price.Of(7.5).Scale(1.5).RoundUp(price.Of(0.5)))
	// Output: 11.5
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{"0.5": "0.5", "12": "12", "-1.250": "-1.25", "0.000001": "0.000001", "0": "0"} {
		a, err := price.Parse(in)
		if err != nil || a.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", in, a, err, want)
		}
	}
	for _, in := range []string{"", "x", "1e3", "0.0000001", "1/2", "99999999999999999999", "NaN", "Inf", "0x10"} {
		if a, err := price.Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, a)
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
