package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/toolroute/toolroute/pkg/reward"
)

// Interval is an estimate and the ends of its interval. All three are NaN where the estimate is not defined.
type Interval struct{ Value, Lo, Hi float64 }

// Excludes0 reports whether the whole interval lies on one side of 0.
func (i Interval) Excludes0() bool { return i.Lo > 0 || i.Hi < 0 }

// PassAtK is [reward.PassAtK], under the name by which tables and their readers look for it.
func PassAtK(n, c, k int) float64 { return reward.PassAtK(n, c, k) }

// Quantile interpolates linearly between the order statistics of sorted values (type 7 of Hyndman and Fan 1996, the
// default of numpy). It is NaN without values.
func Quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	h := p * float64(len(sorted)-1)
	i := min(int(h), len(sorted)-1)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (h-float64(i))*(sorted[j]-sorted[i])
}

// BootstrapMethod is how an interval is read from the resampled estimates.
type BootstrapMethod string

// The methods. Tables use Percentile.
const (
	Percentile BootstrapMethod = "percentile"
	Basic      BootstrapMethod = "basic" // reflected: 2 estimate - percentile
	BCa        BootstrapMethod = "BCa"   // bias-corrected and accelerated (Efron 1987)
)

// MeanInterval returns the mean of data and its bootstrap interval. BCa is NaN for data without spread.
func MeanInterval(data []float64, method BootstrapMethod, level float64, resamples int, r *rand.Rand) (Interval, error) {
	if len(data) == 0 || resamples < 1 || level <= 0 || level >= 1 {
		return Interval{}, fmt.Errorf("bootstrap of %d values, %d resamples, level %v: need at least one value, one resample, a level between 0 and 1", len(data), resamples, level)
	}
	n := len(data)
	boot := make([]float64, resamples)
	for b := range boot {
		s := 0.0
		for range n {
			s += data[r.IntN(n)]
		}
		boot[b] = s / float64(n)
	}
	slices.Sort(boot)
	m := stat.Mean(data, nil)
	lo, hi := (1-level)/2, (1+level)/2
	switch method {
	case Percentile:
		return Interval{m, Quantile(boot, lo), Quantile(boot, hi)}, nil
	case Basic:
		return Interval{m, 2*m - Quantile(boot, hi), 2*m - Quantile(boot, lo)}, nil
	case BCa:
		lo, hi = bcaLevels(data, boot, m, lo), bcaLevels(data, boot, m, hi)
		if math.IsNaN(lo) || math.IsNaN(hi) {
			return Interval{m, math.NaN(), math.NaN()}, nil
		}
		return Interval{m, Quantile(boot, lo), Quantile(boot, hi)}, nil
	}
	return Interval{}, fmt.Errorf("bootstrap method %q: know %q, %q and %q", method, Percentile, Basic, BCa)
}

// bcaLevels corrects a level for the bias z0 of the resamples and the acceleration a from the jackknife (Efron and
// Tibshirani 1993, equations 14.10 to 14.15). Ties with the estimate count half.
func bcaLevels(data, sorted []float64, mean, level float64) float64 {
	below, _ := slices.BinarySearch(sorted, mean)
	upTo, _ := slices.BinarySearch(sorted, math.Nextafter(mean, math.Inf(1)))
	z0 := distuv.UnitNormal.Quantile(float64(below+upTo) / 2 / float64(len(sorted)))
	s2, s3 := 0.0, 0.0
	for _, x := range data { // the jackknife's deviation of a mean is (x - mean) times a constant, which cancels
		d := x - mean
		s2 += d * d
		s3 += d * d * d
	}
	a := s3 / (6 * math.Pow(s2, 1.5))
	z := z0 + distuv.UnitNormal.Quantile(level)
	return distuv.UnitNormal.CDF(z0 + z/(1-a*z))
}

// Wilson is the score interval of a proportion of k in n (Wilson 1927), which stays sensible at 0 and n where a bootstrap
// interval has no width.
func Wilson(k, n int, level float64) Interval {
	if n < 1 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	z := distuv.UnitNormal.Quantile((1 + level) / 2)
	nf, p := float64(n), float64(k)/float64(n)
	mid := (p + z*z/(2*nf)) / (1 + z*z/nf)
	half := z / (1 + z*z/nf) * math.Sqrt(p*(1-p)/nf+z*z/(4*nf*nf))
	out := Interval{p, mid - half, mid + half}
	if k == 0 {
		out.Lo = 0
	}
	if k == n {
		out.Hi = 1
	}
	return out
}

// ClopperPearson is the exact interval of a proportion of k in n (Clopper and Pearson 1934): quantiles of beta
// distributions.
func ClopperPearson(k, n int, level float64) Interval {
	if n < 1 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	return exactCount(float64(k), float64(n), level)
}

// exactShare is the exact interval of a share v of n tasks.
func exactShare(v float64, n int, level float64) Interval {
	if n < 1 {
		return Interval{v, math.NaN(), math.NaN()}
	}
	v = min(max(v, 0), 1)
	return exactCount(v*float64(n), float64(n), level)
}

// exactCount is ClopperPearson of a k that need not be whole: tasks whose attempts succeed half of the time count half.
func exactCount(k, n, level float64) Interval {
	out := Interval{k / n, 0, 1}
	if k > 0 {
		out.Lo = distuv.Beta{Alpha: k, Beta: n - k + 1}.Quantile((1 - level) / 2)
	}
	if k < n {
		out.Hi = distuv.Beta{Alpha: k + 1, Beta: n - k}.Quantile((1 + level) / 2)
	}
	return out
}

// McNemarExact is the two-sided exact p-value of gained against lost tasks under "either is as likely" (a binomial test
// with p = 1/2; McNemar 1947).
func McNemarExact(lost, gained int) float64 {
	n, k := lost+gained, min(lost, gained)
	if n == 0 || lost == gained {
		return 1
	}
	return min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k)))
}

// PairedT is Student's paired t statistic of a - b and its two-sided p-value. Slices have the same length, at least 2.
func PairedT(a, b []float64) (t, p float64) {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	m, sd := stat.MeanStdDev(d, nil)
	n := float64(len(d))
	t = m / (sd / math.Sqrt(n))
	return t, twoSidedT(t, n-1)
}

// Pearson is the correlation of a and b and the two-sided p-value of "none" (t distribution, n-2 degrees of freedom).
func Pearson(a, b []float64) (r, p float64) {
	r = stat.Correlation(a, b, nil)
	nu := float64(len(a) - 2)
	return r, twoSidedT(r*math.Sqrt(nu/((1-r)*(1+r))), nu)
}

// Spearman is the correlation of the ranks of a and b (ties get their mean rank) and its p-value as in Pearson.
func Spearman(a, b []float64) (r, p float64) { return Pearson(ranks(a), ranks(b)) }

func twoSidedT(t, nu float64) float64 {
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: nu}.CDF(-math.Abs(t))
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case x[i] < x[j]:
			return -1
		case x[i] > x[j]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, o := range order[i:j] {
			out[o] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}

// Entropy returns the entropy in nats of softmax(logits) and the logarithm of the sum of their exponentials, computed from
// the largest logit so that nothing overflows. Logits of -Inf have probability 0.
func Entropy(logits []float64) (entropy, logSumExp float64) {
	top := slices.Max(logits)
	sum, weighted := 0.0, 0.0
	for _, z := range logits {
		if e := math.Exp(z - top); e > 0 {
			sum += e
			weighted += e * (z - top)
		}
	}
	return math.Log(sum) - weighted/sum, top + math.Log(sum)
}
