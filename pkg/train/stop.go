package train

import "fmt"

// warnZeroVariance is the share of groups without variance above which an update is hardly worth its time.
const warnZeroVariance = 0.8

// warnSamplerGap is the mean difference of log-probabilities above which the trainer does not see the sampler's policy.
const warnSamplerGap = 1e-3

// Warnings say what makes an update doubtful, in words for a log.
func (u GRPOUpdate) Warnings() []string {
	var out []string
	if u.ZeroVarianceShare > warnZeroVariance {
		out = append(out, fmt.Sprintf("%.0f%% of the groups have equal rewards and teach nothing: the loss near 0 is no fault, the tasks are too hard or too easy for the policy", 100*u.ZeroVarianceShare))
	}
	if u.SamplerGap > warnSamplerGap {
		out = append(out, fmt.Sprintf("sampler and trainer differ by %.2g in the log-probability of a token (more than %g): other weights, temperature or ids than were sampled with", u.SamplerGap, warnSamplerGap))
	}
	return out
}

// StopRule ends a reinforcement run whose diagnostics announce a collapse. A bound of 0 is off, so the zero value never
// stops.
type StopRule struct {
	// MaxKL bounds the divergence from the reference.
	MaxKL float64 `json:"max_kl" yaml:"max_kl"`
	// MinEntropy bounds the entropy of a sampled token from below, in nats.
	MinEntropy float64 `json:"min_entropy" yaml:"min_entropy"`
	// MaxClip bounds the share of clipped tokens.
	MaxClip float64 `json:"max_clip" yaml:"max_clip"`
	// MaxGradNorm bounds the gradient norm before clipping.
	MaxGradNorm float64 `json:"max_grad_norm" yaml:"max_grad_norm"`
	// Patience is how many updates in a row must break a bound; default 1.
	Patience int `json:"patience" yaml:"patience"`
}

// Broken names the first bound that an update breaks, "" for none.
func (r StopRule) Broken(u GRPOUpdate) string {
	line := StepLog{Metrics: u.Metrics()}
	get := func(name string) float64 { v, _ := line.Get(name); return v }
	kl, entropy, norm := get("kl"), get("entropy"), get("grad_norm")
	clip := get("clip_low") + get("clip_high")
	switch {
	case r.MaxKL > 0 && kl > r.MaxKL:
		return fmt.Sprintf("kl %.3g is above %g", kl, r.MaxKL)
	case r.MinEntropy > 0 && entropy < r.MinEntropy:
		return fmt.Sprintf("entropy %.3g is below %g", entropy, r.MinEntropy)
	case r.MaxClip > 0 && clip > r.MaxClip:
		return fmt.Sprintf("share of clipped tokens %.3g is above %g", clip, r.MaxClip)
	case r.MaxGradNorm > 0 && norm > r.MaxGradNorm:
		return fmt.Sprintf("gradient norm %.3g is above %g", norm, r.MaxGradNorm)
	}
	return ""
}

// Stop looks at the updates so far, oldest first, and returns why the run should end, "" to go on.
func (r StopRule) Stop(updates []GRPOUpdate) string {
	n := max(1, r.Patience)
	if len(updates) < n {
		return ""
	}
	reason := ""
	for _, u := range updates[len(updates)-n:] {
		if reason = r.Broken(u); reason == "" {
			return ""
		}
	}
	if n > 1 {
		reason += fmt.Sprintf(", as in the %d updates before", n-1)
	}
	return reason
}
