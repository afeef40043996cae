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
	"github.com/toolroute/toolroute/pkg/rng"
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
	near := func(got float64, want, tol number) bool {
		if math.IsNaN(float64(want)) {
			return math.IsNaN(got)
		}
		return math.Abs(got-float64(want)) <= float64(tol)
	}
	for _, c := range f.Cases {
		for _, name := range slices.Sorted(maps.Keys(c.Intervals)) {
			want := c.Intervals[name]
			_, rest, _ := strings.Cut(name, ".") // "mean.percentile.0.95"
			method, levelText, _ := strings.Cut(rest, ".")
			level, err := strconv.ParseFloat(levelText, 64)
			if err != nil || !strings.HasPrefix(name, "mean.") {
				t.Fatalf("interval %q: want mean.<method>.<level>", name)
			}
			got, err := eval.MeanInterval(c.Data, eval.BootstrapMethod(method), level, 20000, rng.New(1, "test", c.Name))
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Value-c.Mean) > 1e-12 || !near(got.Lo, want.Low, want.ToleranceLow) || !near(got.Hi, want.High, want.ToleranceHigh) {
				t.Errorf("%s %s: got %v, want [%v, %v] within %v, %v", c.Name, name, got, want.Low, want.High, want.ToleranceLow, want.ToleranceHigh)
			}
		}
	}
}

func TestBootstrapRefusesBadInput(t *testing.T) {
	r := rng.New(1, "test")
	for name, f := range map[string]func() (eval.Interval, error){
		"no data":      func() (eval.Interval, error) { return eval.MeanInterval(nil, eval.Percentile, 0.95, 10, r) },
		"no resamples": func() (eval.Interval, error) { return eval.MeanInterval([]float64{1}, eval.Percentile, 0.95, 0, r) },
		"level":        func() (eval.Interval, error) { return eval.MeanInterval([]float64{1}, eval.Percentile, 95, 10, r) },
		"method":       func() (eval.Interval, error) { return eval.MeanInterval([]float64{1}, "t", 0.95, 10, r) },
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

func TestClosedFormFixtures(t *testing.T) {
	var f struct {
		Binomial []struct {
			K, N           int
			Level          float64
			Wilson         [2]float64
			ClopperPearson [2]float64 `json:"clopper_pearson"`
		} `json:"binomial_intervals_exact"`
		Paired struct {
			A, B              []float64
			TTest             [2]float64         `json:"ttest_rel"`
			McNemar           map[string]float64 `json:"mcnemar_exact_p"`
			Spearman, Pearson [2]float64
		}
	}
	fixtures.JSON(t, "stats", "bootstrap.json", &f)
	tol := fixtures.ToleranceOf(t, "stats")
	check := func(name string, got, want [2]float64) {
		t.Helper()
		if !tol.Near(got[0], want[0]) || !tol.Near(got[1], want[1]) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for _, b := range f.Binomial {
		w, c := eval.Wilson(b.K, b.N, b.Level), eval.ClopperPearson(b.K, b.N, b.Level)
		check(fmt.Sprintf("Wilson(%d, %d, %v)", b.K, b.N, b.Level), [2]float64{w.Lo, w.Hi}, b.Wilson)
		check(fmt.Sprintf("ClopperPearson(%d, %d, %v)", b.K, b.N, b.Level), [2]float64{c.Lo, c.Hi}, b.ClopperPearson)
	}
	p := f.Paired
	two := func(a, b float64) [2]float64 { return [2]float64{a, b} }
	check("PairedT", two(eval.PairedT(p.A, p.B)), p.TTest)
	check("Pearson", two(eval.Pearson(p.A, p.B)), p.Pearson)
	check("Spearman", two(eval.Spearman(p.A, p.B)), p.Spearman)
	for pairText, want := range p.McNemar {
		var lost, gained int
		if _, err := fmt.Sscanf(pairText, "%d,%d", &lost, &gained); err != nil {
			t.Fatal(err)
		}
		if got := eval.McNemarExact(lost, gained); !tol.Near(got, want) {
			t.Errorf("McNemarExact(%s) = %v, want %v", pairText, got, want)
		}
	}
}

func TestEntropyFixtures(t *testing.T) {
	var rows []struct {
		Logits  []float64
		Entropy float64 `json:"entropy_nats"`
		LSE     float64 `json:"logsumexp"`
	}
	fixtures.JSON(t, "stats", "entropy.json", &rows)
	for i, r := range rows {
		h, lse := eval.Entropy(r.Logits)
		if math.Abs(h-r.Entropy) > 1e-12 || math.Abs(lse-r.LSE) > 1e-12*max(1, math.Abs(r.LSE)) {
			t.Errorf("row %d: entropy %v, logsumexp %v; want %v, %v", i, h, lse, r.Entropy, r.LSE)
		}
	}
	if h, _ := eval.Entropy([]float64{0, math.Inf(-1)}); h != 0 {
		t.Errorf("entropy of a certain outcome = %v, want 0", h)
	}
}
