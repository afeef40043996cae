package stage

import (
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
)

// Oracle knows the cheapest path of every task, so it is a bound and no competitor. RuleParser knows how the suite words its questions, so
// texts that sum up the other rules name it apart.
const (
	Oracle     = "oracle"
	RuleParser = "rule_parser"
)

// IsBaseline reports whether a method is one of the configured scripted baselines; every other method is learned.
func (e *Env) IsBaseline(method string) bool {
	return slices.Contains(e.Config.Scripted(), method)
}

// EvalOptions are those of the run's tables: splits and methods in their order, and how intervals are made.
func (e *Env) EvalOptions() eval.Options {
	return eval.Options{Resamples: e.Config.Eval.Resamples, Seed: e.Config.Seed, PassK: e.Config.Eval.PassK, Splits: e.Splits(), Methods: e.Methods(),
		Training: func(k eval.Key, seeds []uint64) (eval.Training, bool) { return e.training(k.Method, seeds) }}
}
