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
	// LearningRate is the learning rate after the warm-up.
	LearningRate float64 `json:"learning_rate" yaml:"learning_rate"`
	// WarmupSteps is the number of warm-up steps; 0 starts at LearningRate.
	WarmupSteps int `json:"warmup_steps" yaml:"warmup_steps"`
	// Total is the number of steps of the whole run, the warm-up included. "constant" does not need it.
	Total int `json:"total" yaml:"-"`
	// Floor is the fraction of LearningRate that linear and cosine end at; 0 ends at 0.
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
	case !(s.LearningRate >= 0) || math.IsInf(s.LearningRate, 0):
		return fmt.Errorf("schedule: learning_rate must be a finite learning rate of at least 0, got %v", s.LearningRate)
	case s.WarmupSteps < 0:
		return fmt.Errorf("schedule: warmup_steps must be at least 0, got %d", s.WarmupSteps)
	case !(s.Floor >= 0 && s.Floor <= 1):
		return fmt.Errorf("schedule: floor is a fraction of learning_rate between 0 and 1, got %v", s.Floor)
	}
	return nil
}

// Factor returns the multiple of LearningRate at a step, counted from 0.
//
//	warm-up  step / warmup
//	linear   max(0, (total - step) / (total - warmup))
//	cosine   max(0, (1 + cos(pi (step - warmup) / (total - warmup))) / 2)
//
// With a Floor f, linear and cosine become f + (1-f) times that.
func (s Schedule) Factor(step int) float64 {
	if step < s.WarmupSteps {
		return float64(step) / float64(max(1, s.WarmupSteps))
	}
	span := float64(max(1, s.Total-s.WarmupSteps))
	var f float64
	switch s.Kind {
	case "linear":
		f = math.Max(0, float64(s.Total-step)/span)
	case "cosine":
		f = math.Max(0, 0.5*(1+math.Cos(math.Pi*float64(step-s.WarmupSteps)/span)))
	default:
		return 1
	}
	return s.Floor + (1-s.Floor)*f
}

// At returns the learning rate of a step, counted from 0.
func (s Schedule) At(step int) float64 { return s.LearningRate * s.Factor(step) }
