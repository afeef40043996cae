package eval

import (
	"math"

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

// exactShare is the exact interval of a share v of n tasks.
func exactShare(v float64, n int, level float64) Interval {
	if n < 1 {
		return Interval{v, math.NaN(), math.NaN()}
	}
	v = min(max(v, 0), 1)
	return exactCount(v*float64(n), float64(n), level)
}

// exactCount is the exact interval of a proportion of k in n (Clopper and Pearson 1934): quantiles of beta distributions. k need not be whole: a
// task whose attempts succeed half of the time counts half.
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
