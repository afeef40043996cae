package eval_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// number is a float64 that the fixtures may write as the string "NaN".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	if s := strings.Trim(string(b), `"`); s == "NaN" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Two of three attempts were right: the chance that one of two drawn attempts is right is 1 - C(1,2)/C(3,2) = 1.
func ExamplePassAtK() {
	fmt.Printf("%.3f %.3f %.3f\n", eval.PassAtK(3, 2, 1), eval.PassAtK(3, 2, 2), eval.PassAtK(8, 1, 4))
	// Output: 0.667 1.000 0.500
}

func TestPassAtKFixtures(t *testing.T) {
	var f struct {
		Rows []struct {
			N, C, K int
			PassAtK float64 `json:"pass_at_k"`
		}
		Bench struct {
			Counts [][2]int           `json:"counts_n_c"`
			Mean   map[string]float64 `json:"mean_pass_at_k"`
		}
	}
	fixtures.JSON(t, "stats", "pass_at_k.json", &f)
	tol := fixtures.ToleranceOf(t, "stats.pass_at_k")
	if len(f.Rows) == 0 {
		t.Fatal("no rows")
	}
	for _, r := range f.Rows {
		if got := eval.PassAtK(r.N, r.C, r.K); !tol.Near(got, r.PassAtK) {
			t.Errorf("PassAtK(%d, %d, %d) = %v, want %v", r.N, r.C, r.K, got, r.PassAtK)
		}
	}
	for ks, want := range f.Bench.Mean {
		k, err := strconv.Atoi(ks)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, nc := range f.Bench.Counts {
			sum += eval.PassAtK(nc[0], nc[1], k)
		}
		if got := sum / float64(len(f.Bench.Counts)); !tol.Near(got, want) {
			t.Errorf("mean pass@%d = %v, want %v", k, got, want)
		}
	}
}

func TestPassAtKOutsideItsDomain(t *testing.T) {
	for _, c := range [][3]int{{4, 2, 5}, {4, 2, 0}, {4, 5, 1}, {4, -1, 1}, {0, 0, 1}} {
		if got := eval.PassAtK(c[0], c[1], c[2]); !math.IsNaN(got) {
			t.Errorf("PassAtK%v = %v, want NaN", c, got)
		}
	}
}

func TestBootstrapFixtures(t *testing.T) {
	type interval struct {
		Low, High     number
		ToleranceLow  number `json:"tolerance_low"`
		ToleranceHigh number `json:"tolerance_high"`
	}
	var f struct {
		Cases []struct {
			Name      string
			Data      []float64
			Mean      float64
			Intervals map[string]interval
		}
	}
	fixtures.JSON(t, "stats", "bootstrap.json", &f)
	near := func(got float64, want, tol number) bool { return math.Abs(got-float64(want)) <= float64(tol) }
	compared := 0
	for _, c := range f.Cases {
		for _, name := range slices.Sorted(maps.Keys(c.Intervals)) {
			want := c.Intervals[name]
			_, rest, _ := strings.Cut(name, ".") // "mean.percentile.0.95"
			method, levelText, _ := strings.Cut(rest, ".")
			if method != "percentile" { // the reference has two more ways, which no table uses
				continue
			}
			level, err := strconv.ParseFloat(levelText, 64)
			if err != nil || !strings.HasPrefix(name, "mean.") {
				t.Fatalf("interval %q: want mean.<method>.<level>", name)
			}
			shares := make([]eval.Share, len(c.Data))
			for i, v := range c.Data {
				shares[i] = eval.Share{Seed: 1, Task: strconv.Itoa(i), Value: v}
			}
			got := eval.ShareInterval(shares, eval.Options{Resamples: 20000, Level: level, Seed: 1}, c.Name)
			if slices.Min(c.Data) == slices.Max(c.Data) { // nothing to resample: the exact interval of all of n instead
				exact := eval.ExactCount(float64(len(c.Data)), float64(len(c.Data)), level)
				want.Low, want.High, want.ToleranceLow, want.ToleranceHigh = number(exact.Lo), number(exact.Hi), 0, 0
			}
			compared++
			if math.Abs(got.Value-c.Mean) > 1e-12 || !near(got.Lo, want.Low, want.ToleranceLow) || !near(got.Hi, want.High, want.ToleranceHigh) {
				t.Errorf("%s %s: got %v, want [%v, %v] within %v, %v", c.Name, name, got, want.Low, want.High, want.ToleranceLow, want.ToleranceHigh)
			}
		}
	}
	if compared == 0 {
		t.Error("no interval was compared")
	}
}

func TestClosedFormFixtures(t *testing.T) {
	var f struct {
		Binomial []struct {
			K, N           int
			Level          float64
			ClopperPearson [2]float64 `json:"clopper_pearson"`
		} `json:"binomial_intervals_exact"`
		Paired struct {
			McNemar map[string]float64 `json:"mcnemar_exact_p"`
		}
	}
	fixtures.JSON(t, "stats", "bootstrap.json", &f)
	tol := fixtures.ToleranceOf(t, "stats")
	for _, b := range f.Binomial {
		got := eval.ExactCount(float64(b.K), float64(b.N), b.Level)
		if !tol.Near(got.Lo, b.ClopperPearson[0]) || !tol.Near(got.Hi, b.ClopperPearson[1]) {
			t.Errorf("exact interval of %d in %d at %v is %v, want %v", b.K, b.N, b.Level, got, b.ClopperPearson)
		}
	}
	for pairText, want := range f.Paired.McNemar {
		var lost, gained int
		if _, err := fmt.Sscanf(pairText, "%d,%d", &lost, &gained); err != nil {
			t.Fatal(err)
		}
		if got := eval.McNemarExact(lost, gained); !tol.Near(got, want) {
			t.Errorf("McNemarExact(%s) = %v, want %v", pairText, got, want)
		}
	}
}
