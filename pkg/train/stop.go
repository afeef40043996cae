package train

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotFinite says that the loss or the gradient of a step is not a finite number. It ends every run.
var ErrNotFinite = errors.New("not finite")

// ErrDiverged says that the stop rule, or a step that was not finite, ended a run before it had a checkpoint to go back to.
var ErrDiverged = errors.New("training diverged")

// StopRule ends a run of SFT, DPO or GRPO when its diagnostics leave their bounds. A bound of 0 is off, so the zero value never
// stops a run.
type StopRule struct {
	// MaxLossRise bounds how far the loss may rise above that of the run's first update. Its unit is that of the loss; in SFT it
	// is nats per token.
	MaxLossRise float64 `json:"max_loss_rise" yaml:"max_loss_rise"`
	// MaxKL bounds the divergence from the reference.
	MaxKL float64 `json:"max_kl" yaml:"max_kl"`
	// MinEntropy bounds the entropy of a sampled token from below, in nats.
	MinEntropy float64 `json:"min_entropy" yaml:"min_entropy"`
	// MaxClip bounds the share of clipped tokens.
	MaxClip float64 `json:"max_clip" yaml:"max_clip"`
	// MaxGradNorm bounds the gradient norm before clipping.
	MaxGradNorm float64 `json:"max_grad_norm" yaml:"max_grad_norm"`
	// Patience is how many updates in a row must violate a bound before the run ends; default 1.
	Patience int `json:"patience" yaml:"patience"`
}

// diagnostics are the figures that a StopRule can bound, in the order in which it checks them.
var diagnostics = []struct {
	name, what string
	metrics    []string // of an update's log; their sum is bounded
	limit      func(*StopRule) *float64
	least      bool // the limit is a lower bound
	rise       bool // the limit bounds the rise above the first line
}{
	{"loss", "rise of the loss", []string{"loss"}, func(r *StopRule) *float64 { return &r.MaxLossRise }, false, true},
	{"kl", "kl", []string{"kl"}, func(r *StopRule) *float64 { return &r.MaxKL }, false, false},
	{"entropy", "entropy", []string{"entropy"}, func(r *StopRule) *float64 { return &r.MinEntropy }, true, false},
	{"clip", "share of clipped tokens", []string{"clip_low", "clip_high"}, func(r *StopRule) *float64 { return &r.MaxClip }, false, false},
	{"grad_norm", "gradient norm", []string{"grad_norm"}, func(r *StopRule) *float64 { return &r.MaxGradNorm }, false, false},
}

// Bound is one of the bounds of a StopRule.
type Bound struct {
	Diagnostic string // loss (its rise), kl, entropy, clip (both sides together) or grad_norm
	Limit      float64
	Least      bool     // Limit is a lower bound
	Rule       StopRule // has this bound alone, with the patience of the whole rule

	what    string
	metrics []string
	rise    bool
}

// Bounds returns the bounds of a rule that are on, in the order in which it checks them.
func (r StopRule) Bounds() []Bound {
	var out []Bound
	for _, d := range diagnostics {
		limit := *d.limit(&r)
		if limit <= 0 {
			continue
		}
		alone := StopRule{Patience: r.Patience}
		*d.limit(&alone) = limit
		out = append(out, Bound{d.name, limit, d.least, alone, d.what, d.metrics, d.rise})
	}
	return out
}

// Value returns the bounded diagnostic of an update from its line of metrics; first is the run's first line. It is false if the
// line does not have it.
func (b Bound) Value(first, line StepLog) (v float64, ok bool) {
	for _, name := range b.metrics {
		x, there := line.Get(name)
		if b.rise {
			start, began := first.Get(name)
			x, there = x-start, there && began
		}
		if there {
			v, ok = v+x, true
		}
	}
	return v, ok
}

// broken says how a line violates the bound, "" if it does not.
func (b Bound) broken(first, line StepLog) string {
	v, ok := b.Value(first, line)
	switch {
	case !ok:
		return ""
	case math.IsNaN(v):
		return b.what + " is not a number"
	case b.Least && v < b.Limit:
		return fmt.Sprintf("%s %.3g is below %g", b.what, v, b.Limit)
	case !b.Least && v > b.Limit:
		return fmt.Sprintf("%s %.3g is above %g", b.what, v, b.Limit)
	}
	return ""
}

// Broken says how an update's line of metrics violates a bound, the first of them in order; "" means none. first is the run's
// first line. A diagnostic that is not in the line violates nothing. One that is not a number violates its bound.
func (r StopRule) Broken(first, line StepLog) string {
	for _, b := range r.Bounds() {
		if why := b.broken(first, line); why != "" {
			return why
		}
	}
	return ""
}

// Stop returns why a run with these lines of metrics should end, "" if it should go on. There is a line for each update so far,
// oldest first.
func (r StopRule) Stop(lines []StepLog) string {
	n := max(1, r.Patience)
	if len(lines) < n {
		return ""
	}
	reason := ""
	for _, line := range lines[len(lines)-n:] {
		if reason = r.Broken(lines[0], line); reason == "" {
			return ""
		}
	}
	if n > 1 {
		reason += fmt.Sprintf(", as in the %d updates before", n-1)
	}
	return reason
}

// Replay returns where the rule would have ended a finished run: the index of the line after which it stops, and why. The index
// is -1 if the rule never stops. lines are as for Stop.
func (r StopRule) Replay(lines []StepLog) (at int, why string) {
	for i := range lines {
		if why := r.Stop(lines[:i+1]); why != "" {
			return i, why
		}
	}
	return -1, ""
}

// Check reports the first bound that makes no sense.
func (r StopRule) Check() error {
	for _, b := range []struct {
		name string
		v    float64
	}{{"max_loss_rise", r.MaxLossRise}, {"max_kl", r.MaxKL}, {"min_entropy", r.MinEntropy}, {"max_clip", r.MaxClip}, {"max_grad_norm", r.MaxGradNorm}, {"patience", float64(r.Patience)}} {
		if !(b.v >= 0) || math.IsInf(b.v, 0) {
			return fmt.Errorf("%s is %g: it must be 0 (off) or more", b.name, b.v)
		}
	}
	return nil
}
