package train

import (
	"fmt"
	"math"
)

// Schedule gives the learning rate of every optimizer step: a linear warm-up from 0, then constant, linear or cosine. The factors
// are those of the transformers library: get_*_schedule_with_warmup, and cosine_with_min_lr if Floor is set. The first step of a
// run with a warm-up therefore has a learning rate of exactly 0.
type Schedule struct {
	// Kind is "constant" (the default), "linear" or "cosine".
	Kind string `json:"kind" yaml:"kind"`
	// Peak is the learning rate after the warm-up.
	Peak float64 `json:"peak" yaml:"peak"`
	// Warmup is the number of warm-up steps; 0 starts at Peak.
	Warmup int `json:"warmup" yaml:"warmup"`
	// Total is the number of steps of the whole run, the warm-up included. "constant" does not need it.
	Total int `json:"total" yaml:"-"`
	// Floor is the fraction of Peak that linear and cosine end at; 0 ends at 0.
	Floor float64 `json:"floor" yaml:"floor"`
}

// Check reports the first field that makes no sense.
func (s Schedule) Check() error {
	switch s.Kind {
	case "", "constant":
	case "linear", "cosine":
		if s.Total <= 0 {
			return fmt.Errorf("schedule: %s needs total > 0 (the steps of the whole run), got %d", s.Kind, s.Total)
		}
	default:
		return fmt.Errorf("schedule: kind is %q, which is none of constant, linear, cosine", s.Kind)
	}
	switch {
	case !(s.Peak >= 0) || math.IsInf(s.Peak, 0):
		return fmt.Errorf("schedule: peak must be a finite learning rate of at least 0, got %v", s.Peak)
	case s.Warmup < 0:
		return fmt.Errorf("schedule: warmup must be at least 0, got %d", s.Warmup)
	case !(s.Floor >= 0 && s.Floor <= 1):
		return fmt.Errorf("schedule: floor is a fraction of peak between 0 and 1, got %v", s.Floor)
	}
	return nil
}

// Factor returns the multiple of Peak at a step, counted from 0.
//
//	warm-up  step / warmup
//	linear   max(0, (total - step) / (total - warmup))
//	cosine   max(0, (1 + cos(pi (step - warmup) / (total - warmup))) / 2)
//
// With a Floor f, linear and cosine become f + (1-f) times that.
func (s Schedule) Factor(step int) float64 {
	if step < s.Warmup {
		return float64(step) / float64(max(1, s.Warmup))
	}
	span := float64(max(1, s.Total-s.Warmup))
	var f float64
	switch s.Kind {
	case "linear":
		f = math.Max(0, float64(s.Total-step)/span)
	case "cosine":
		f = math.Max(0, 0.5*(1+math.Cos(math.Pi*float64(step-s.Warmup)/span)))
	default:
		return 1
	}
	return s.Floor + (1-s.Floor)*f
}

// At returns the learning rate of a step, counted from 0.
func (s Schedule) At(step int) float64 { return s.Peak * s.Factor(step) }
