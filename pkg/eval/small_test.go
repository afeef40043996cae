package eval_test

import (
	"math"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
)

// A cost that is not 0 does not print as 0.
func TestSmallCostsShow(t *testing.T) {
	for _, c := range []struct {
		v                float64
		decimals, number string
	}{
		{0.00001, "0.00001", "0.00001"}, {0.0000497312, "0.0000497", "0.0000497"}, {1234567.5, "1234567.500", "1234567.5"}, {0.5, "0.500", "0.5"}, {0.00149, "0.001", "0.00149"},
		{-0.0004, "-0.0004", "-0.0004"}, {0, "0.000", "0"}, {-1e-17, "0.000", "0"}, {0.0000012345, "0.00000123", "0.00000123"}, {math.NaN(), "-", ""},
	} {
		if d, n := eval.Decimals(c.v, 3), eval.Number(c.v); d != c.decimals || n != c.number {
			t.Errorf("%v prints as %q and %q, want %q and %q", c.v, d, n, c.decimals, c.number)
		}
	}
	if got := eval.Decimals(0.4, 0); got != "0" {
		t.Errorf("0.4 without decimals is %q", got)
	}
}
