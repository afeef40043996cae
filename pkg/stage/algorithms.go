package stage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/suite"
)

// algorithm describes a way to train, as the stages need to know it. A new one is one more entry of algorithms.
type algorithm struct {
	// demos says that it imitates demonstrations: demos, rows and max_tools pick them, tokens_of says how long.
	demos bool
	// pairs says that it learns from preferences, of the kind that pairs names.
	pairs bool
	// gated says that it trains on what the policy plays itself, from a parent whose reward profile passes the gate.
	gated bool
	// history says that it evaluates the policy on val at intervals and stores the eval points. A choosing recipe reads them, and the
	// report draws them.
	history bool
	// decided lists what decides the training of a recipe, by the names of the settings. The stage's key is the hash of the values, so a
	// changed list makes every finished run of the algorithm stale. read and parent are the hashes of the data set and of the parent's
	// weights.
	decided func(e *Env, name string, seed uint64, parent, read string) []decision
	train   func(e *Env, ctx context.Context, name string, seed uint64, parent Trained) error
}

// decision is one of the values that decide a step of training. Those that are nil come last and are not part of the key.
type decision struct {
	name  string
	value any
}

var algorithms map[string]algorithm

func init() { // not in the declaration: the functions read algorithms, which would be an initialization cycle
	algorithms = map[string]algorithm{
		"sft": {
			demos: true,
			decided: func(e *Env, name string, seed uint64, parent, read string) []decision {
				return append([]decision{{"stage", "sft"}, {"version", 2}, {"data set", read}, {"parent's weights", parent}, {"recipes." + name, e.Config.Recipes[name].Decided()},
					{"sft", e.sftConfig(name, seed)}, {"seed", seed}, {"suite", e.shown()}}, e.root().replayed()...)
			},
			train: (*Env).imitate,
		},
		"dpo": {
			pairs: true,
			decided: func(e *Env, name string, seed uint64, parent, read string) []decision {
				return []decision{{"stage", "dpo"}, {"version", 3}, {"data set", read}, {"parent's weights", parent}, {"recipes." + name, e.Config.Recipes[name].Decided()},
					{"dpo", e.Config.DPO}, {"seed", seed}, {"suite", e.shown()}}
			},
			train: (*Env).dpo,
		},
		"grpo": {
			gated: true, history: true,
			decided: func(e *Env, name string, seed uint64, parent, read string) []decision {
				var worlds any
				if n := e.Config.Recipes[name].Worlds; n > 0 {
					worlds = n
				}
				return []decision{{"stage", "grpo"}, {"version", 5}, {"data set", read}, {"parent's weights", parent}, {"grpo", e.Config.GRPO},
					{"episode", e.Config.Episode}, {"reward", e.Config.Reward}, {"seed", seed}, {"suite", e.shown()},
					{"recipes." + name + ".worlds", worlds}}
			},
			train: (*Env).grpo,
		},
	}
}

// algorithmOf is the algorithm of a recipe; sft where it names none.
func algorithmOf(r config.Recipe) algorithm {
	if r.Algorithm == "" {
		return algorithms["sft"]
	}
	return algorithms[r.Algorithm]
}

// checkAlgorithms names each field of a recipe that the recipe's algorithm, or the suite, does not use.
func checkAlgorithms(d suite.Definition, c config.Config) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Recipes)) {
		r := c.Recipes[name]
		fault := func(field, format string, args ...any) {
			errs = append(errs, fmt.Errorf("recipes.%s.%s: %s", name, field, fmt.Sprintf(format, args...)))
		}
		if _, ok := algorithms[r.Algorithm]; !ok && r.Algorithm != "" {
			fault("algorithm", "%q is none of %s", r.Algorithm, strings.Join(slices.Sorted(maps.Keys(algorithms)), ", "))
			continue
		}
		a := algorithmOf(r)
		if r.Demos != "" && !a.demos {
			fault("demos", "%s has no use for demonstrations; set it on the recipe that this one starts from", r.Algorithm)
		}
		if a.demos && len(r.Choose) == 0 && !slices.Contains(d.Demos, r.Demos) {
			fault("demos", "%q is no kind of demonstrations of this suite; there are %s", r.Demos, strings.Join(d.Demos, ", "))
		}
		if r.Pairs != "" && !a.pairs {
			fault("pairs", "only dpo learns from preferences")
		}
		if a.pairs && len(d.Pairs) == 0 {
			fault("algorithm", "suite %s has no preferences to learn from", d.Name)
		} else if a.pairs && !slices.Contains(d.Pairs, r.Pairs) {
			fault("pairs", "%q is no kind of preferences of this suite; there are %s", r.Pairs, strings.Join(d.Pairs, ", "))
		}
		if r.Rows > 0 && !a.demos && !a.pairs {
			fault("rows", "it counts demonstrations, which %s has none of; set it on the recipe that this one starts from", r.Algorithm)
		}
		if r.MaxTools > 0 && !a.demos && !a.pairs {
			fault("max_tools", "it picks demonstrations, which %s has none of; set it on the recipe that this one starts from", r.Algorithm)
		}
		if r.Worlds > 0 && d.ExtraWorlds == nil {
			fault("worlds", "the suite has no further worlds; leave it out")
		}
		if r.TokensOf != "" && !a.demos {
			fault("tokens_of", "it is for supervised training; %s takes its own number of iterations", r.Algorithm)
		}
		for _, of := range r.Choose {
			if o, ok := c.Recipes[of]; !ok || !algorithmOf(o).history || len(o.Choose) > 0 {
				fault("choose", "%q is no recipe of reinforcement learning, whose histories hold what was seen on val", of)
			}
		}
	}
	return errors.Join(errs...)
}
