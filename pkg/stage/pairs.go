package stage

import (
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
)

// A recipe names other recipes: the one that it starts from, those that its candidates started from, the one that it is trained as long as,
// the one that it changes as an ablation. In a comparison the recipe is the later method, and a recipe that it names is its baseline.
// Tables, ablations, loopholes, notebooks and texts all take their pairs from this file.

// TrainingSteps lists the pairs that say what each step of training brought, in the order of training. Policies without a method, and those
// that are not trained here, have no row to compare.
func (e *Env) TrainingSteps() []eval.Pair {
	var out []eval.Pair
	for _, name := range e.Config.Train {
		r := e.Config.Recipes[name]
		named := []string{r.From}
		for _, of := range r.Choose {
			named = append(named, e.Config.Recipes[of].From)
		}
		for _, baseline := range append(named, r.TokensOf) {
			if p, ok := e.pair(name, baseline); ok && slices.Contains(e.Config.Train, baseline) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// pair compares a recipe with one that it names, by their methods. It returns false if one of them has no row.
func (e *Env) pair(name, baseline string) (eval.Pair, bool) {
	p := eval.Pair{Baseline: e.Config.Recipes[baseline].Method, Later: e.Config.Recipes[name].Method}
	return p, p.Baseline != "" && p.Later != ""
}

// changed is the pair of an ablation.
func (e *Env) changed(name string) eval.Pair {
	p, _ := e.pair(name, e.Config.Recipes[name].Against)
	return p
}

// parentOf returns the method of the recipe that a method's recipe starts from. It is empty if that recipe has no method.
func (e *Env) parentOf(method string) string {
	for _, name := range e.Config.Train {
		if r := e.Config.Recipes[name]; r.Method == method {
			p, _ := e.pair(name, r.From)
			return p.Baseline
		}
	}
	return ""
}
