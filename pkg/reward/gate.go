package reward

import (
	"fmt"
	"strings"
)

// Thresholds are what a profile must reach before reinforcement learning starts.
type Thresholds struct {
	PassK  float64 `json:"pass_at_k" yaml:"pass_at_k"` // mean pass@k over tasks
	Mixed  float64 `json:"mixed" yaml:"mixed"`         // share of groups whose rewards differ
	Format float64 `json:"format" yaml:"format"`       // share of valid actions
}

// DefaultThresholds is pass@k 0.15, mixed groups 0.25, format 0.50.
func DefaultThresholds() Thresholds { return Thresholds{PassK: 0.15, Mixed: 0.25, Format: 0.50} }

// Validate names the first threshold that is no share.
func (t Thresholds) Validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{{"pass_at_k", t.PassK}, {"mixed", t.Mixed}, {"format", t.Format}} {
		if !(f.v >= 0 && f.v <= 1) {
			return fmt.Errorf("gate: %s is %v, must be between 0 and 1", f.name, f.v)
		}
	}
	return nil
}

// Reason is one threshold that a profile failed, and what to do about it.
type Reason struct {
	Name   string  `json:"name"`
	Got    float64 `json:"got"`
	Want   float64 `json:"want"` // at least
	Advice string  `json:"advice"`
}

func (r Reason) String() string {
	want := fmt.Sprintf("%.3f", r.Want)
	if r.Want == 0 { // a behaviour that is never sampled cannot be reinforced
		want = "more than 0"
	}
	return fmt.Sprintf("%s is %.3f, needs %s: %s", r.Name, r.Got, want, r.Advice)
}

// Verdict is the gate's answer.
type Verdict struct {
	Go      bool     `json:"go"`
	Failed  []Reason `json:"failed,omitempty"`
	Summary string   `json:"summary"` // the profile's line
}

// Gate compares a profile with the thresholds and with the behaviours it was asked about. All that failed is listed, in
// this order: format, pass@k, mixed groups, behaviours.
func Gate(p Profile, t Thresholds) Verdict {
	v := Verdict{Summary: p.String()}
	if t == (Thresholds{}) {
		v.Summary += " (all bounds of the gate are 0 here, so that it refuses nothing but for behaviours that a suite requires)"
	}
	fail := func(name string, got, want float64, advice string) {
		v.Failed = append(v.Failed, Reason{name, got, want, advice})
	}
	if p.All.Episodes == 0 {
		fail("episodes", 0, 1, "the profile is empty; play k attempts at some training tasks first")
		return v
	}
	if p.All.FormatValid < t.Format {
		fail("format", p.All.FormatValid, t.Format, "most actions cannot be executed; warm up with supervised training on the action format first"+commonest(p.InvalidActions))
	}
	if p.All.PassK < t.PassK {
		fail(fmt.Sprintf("pass@%d", p.K), p.All.PassK, t.PassK, "too few tasks are ever solved, so hardly a group shows what a success looks like; warm up with more demonstrations, or start from easier tasks")
	}
	if p.All.Mixed < t.Mixed {
		advice := "in most groups all rewards are equal, which gives no gradient; raise the temperature or the group size, or choose tasks of other difficulty"
		if p.All.Success > 0.9 {
			advice = "nearly every attempt already earns the same full reward; there is little left to learn here, choose harder tasks"
		}
		fail("mixed groups", p.All.Mixed, t.Mixed, advice)
	}
	for _, b := range p.Behaviours {
		if b.Shown > 0 && b.Share >= b.Min {
			continue
		}
		advice := b.Advice
		if advice == "" {
			advice = "training amplifies what is sampled and cannot find what never is; add demonstrations that show it, or raise the temperature"
		}
		fail("behaviour "+b.Name, b.Share, b.Min, fmt.Sprintf("sampled in %d of %d episodes; %s", b.Shown, b.Episodes, advice))
	}
	v.Go = len(v.Failed) == 0
	return v
}

func commonest(kinds map[string]int) string {
	best := ""
	for k, n := range kinds {
		if best == "" || n > kinds[best] || n == kinds[best] && k < best {
			best = k
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (the commonest fault: %s, %d times)", best, kinds[best])
}

// String says go, or no-go with every reason on a line of its own.
func (v Verdict) String() string {
	var b strings.Builder
	if v.Go {
		b.WriteString("gate: go\n  ")
	} else {
		b.WriteString("gate: no-go, training would not learn\n  ")
	}
	b.WriteString(v.Summary)
	for _, r := range v.Failed {
		b.WriteString("\n  " + r.String())
	}
	return b.String()
}
