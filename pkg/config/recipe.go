package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// checkRecipe names the fields of a recipe that make no sense.
func (c Config) checkRecipe(name string) error {
	r := c.Recipes[name]
	var errs []error
	fault := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("recipes.%s.%s: %s", name, field, fmt.Sprintf(format, args...)))
	}
	if a := r.Algorithm; a != "" && a != "sft" && a != "grpo" {
		fault("algorithm", "%q is none of sft, grpo", a)
	}
	grpo := r.Algorithm == "grpo"
	switch {
	case r.Seeds < 0:
		fault("seeds", "%d: it must be 0 (every training seed) or more", r.Seeds)
	case r.MaxTools < 0:
		fault("max_tools", "%d: it must be 0 (any number of tools) or more", r.MaxTools)
	case r.MaxTools > 0 && grpo:
		fault("max_tools", "it picks demonstrations, which grpo has none of; set it on the recipe that this one starts from")
	}
	if r.TokensOf != "" {
		if grpo {
			fault("tokens_of", "it is for supervised training; grpo takes its own number of iterations")
		}
		if err := c.tokensKnown(name); err != nil {
			fault("tokens_of", "%v", err)
		}
	}
	if len(r.Choose) > 0 {
		if r.From != "" || r.Demos != "" || grpo || r.TokensOf != "" || len(r.With) > 0 {
			fault("choose", "a recipe that chooses trains nothing: leave out from, demos, algorithm, tokens_of and with")
		}
		for _, of := range r.Choose {
			if o, ok := c.Recipes[of]; !ok || o.Algorithm != "grpo" {
				fault("choose", "%q is no recipe of reinforcement learning, whose histories hold what was seen on val", of)
			}
		}
	}
	if (r.Ablation == "") != (r.Against == "") {
		fault("against", "ablation and against belong together: what is changed, and the recipe it is compared with")
	}
	if r.Against != "" {
		if a, ok := c.Recipes[r.Against]; !ok || a.Method == "" || r.Method == "" {
			fault("against", "%q and the recipe itself must have a method, which names their rows", r.Against)
		}
	}
	own, err := c.For(name)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, key := range fixed(c, own) {
		fault("with."+key, "a recipe cannot change it, because it decides the data set or what evaluation shows, which all recipes share: make a profile for it. "+
			"Of company's settings a recipe can change %s", strings.Join(free, ", "))
	}
	return errors.Join(errs...)
}

// SeedsOf lists the training seeds that make a recipe.
func (c Config) SeedsOf(name string) []uint64 {
	if n := c.Recipes[name].Seeds; n > 0 && n < len(c.TrainSeeds) {
		return c.TrainSeeds[:n]
	}
	return c.TrainSeeds
}

// free are the keys of company that a recipe can change: they are applied when the suite is opened.
var free = []string{"random_offers", "thoughts", "plan", "wasteful_share"}

// fixed lists the settings that decide the data set and differ between a run and one of its recipes.
func fixed(run, own Config) []string {
	var out []string
	if run.Seed != own.Seed {
		out = append(out, "seed")
	}
	if !reflect.DeepEqual(run.Chain, own.Chain) {
		out = append(out, "chain")
	}
	a, b := reflect.ValueOf(run.Company), reflect.ValueOf(own.Company)
	for i := range a.NumField() {
		key := a.Type().Field(i).Tag.Get("yaml")
		if !slices.Contains(free, key) && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			out = append(out, "company."+key)
		}
	}
	return out
}

// tokensKnown follows tokens_of, ancestors included, until it ends: a recipe cannot be as long as itself.
func (c Config) tokensKnown(name string) error {
	seen := map[string]bool{}
	next := []string{c.Recipes[name].TokensOf}
	for len(next) > 0 {
		of := next[0]
		next = next[1:]
		line, err := c.Lineage(of)
		if err != nil {
			return err
		}
		for _, n := range line {
			if n == name {
				return fmt.Errorf("%s depends on this recipe itself", c.Recipes[name].TokensOf)
			}
			if r := c.Recipes[n]; !seen[n] {
				seen[n] = true
				if r.TokensOf != "" {
					next = append(next, r.TokensOf)
				}
				next = append(next, r.Choose...)
			}
		}
	}
	return nil
}
