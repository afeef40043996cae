package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// checkRecipe names the fields of a recipe that make no sense. If the settings of the run are sound, it checks the values under `with` too.
func (c Config) checkRecipe(name string, sound bool) []error {
	r := c.Recipes[name]
	var errs []error
	fault := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("recipes.%s.%s: %s", name, field, fmt.Sprintf(format, args...)))
	}
	switch {
	case r.Seeds < 0:
		fault("seeds", "%d: it must be 0 (every training seed) or more", r.Seeds)
	case r.Rows < 0:
		fault("rows", "%d: it must be 0 (all demonstrations) or more", r.Rows)
	case r.Worlds < 0 || r.Worlds > mostWorlds:
		fault("worlds", "%d: it must be 0 (the run's own world alone) to %d", r.Worlds, mostWorlds)
	case r.MaxTools < 0:
		fault("max_tools", "%d: it must be 0 (any number of tools) or more", r.MaxTools)
	}
	if r.TokensOf != "" {
		if err := c.tokensKnown(name); err != nil {
			fault("tokens_of", "%v", err)
		}
	}
	if len(r.Choose) > 0 {
		if r.From != "" || r.Demos != "" || r.Algorithm != "" || r.TokensOf != "" || len(r.With) > 0 {
			fault("choose", "a recipe that chooses trains nothing: leave out from, demos, algorithm, tokens_of and with")
		}
	}
	if err := c.hasStart(name); err != nil {
		errs = append(errs, err)
	}
	if (r.Ablation == "") != (r.Against == "") {
		fault("against", "ablation and against belong together: what is changed, and the recipe it is compared with")
	}
	if r.Against != "" {
		if a, ok := c.Recipes[r.Against]; !ok {
			fault("against", "no recipe is named %q", r.Against)
		} else if a.Method == "" || r.Method == "" {
			fault("against", "%q and the recipe itself must have a method, which names their rows", r.Against)
		}
	}
	return append(errs, c.checkWith(name, sound)...)
}

// hasStart returns an error for a recipe that neither starts from another nor chooses among others. Most often its name is misspelt.
func (c Config) hasStart(name string) error {
	if r := c.Recipes[name]; r.From != "" || len(r.Choose) > 0 {
		return nil
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Recipes)), func(n string) bool { return n == name })
	hint := ""
	if near := Nearest(name, others); near != "" {
		hint = fmt.Sprintf("; did you mean recipes.%s?", near)
	}
	return fmt.Errorf("recipes.%s.from: empty: name the recipe that it starts from, or %q%s", name, RootName, hint)
}

// methodName is what a method may be called: it names rows of tables, and folders.
var methodName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// checkMethods names the recipes whose method cannot name rows and folders, or is the name of another method.
func (c Config) checkMethods() (errs []error) {
	of := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Recipes)) {
		m := c.Recipes[name].Method
		switch {
		case m == "":
			continue
		case !methodName.MatchString(m):
			errs = append(errs, fmt.Errorf("recipes.%s.method: %q names rows and a folder: use letters, digits, and + - _ . between them", name, m))
		case slices.Contains(c.Baselines.Methods, m):
			errs = append(errs, fmt.Errorf("recipes.%s.method: %q is a scripted baseline; name it otherwise", name, m))
		case of[m] != "":
			errs = append(errs, fmt.Errorf("recipes.%s.method: %q is the method of recipes.%s already; name it otherwise", name, m, of[m]))
		default:
			of[m] = name
		}
	}
	return errs
}

// checkWith checks the settings under a recipe's `with` by the rules for the run's settings.
func (c Config) checkWith(name string, sound bool) (errs []error) {
	with := c.Recipes[name].With
	for _, key := range with.keys() {
		if why := c.fixed(key); why != "" {
			errs = append(errs, fmt.Errorf("recipes.%s.with.%s: a recipe cannot change it, %s", name, key, why))
		}
	}
	if len(errs) > 0 || !sound || len(with) == 0 {
		return errs
	}
	own, err := c.For(name)
	if err != nil {
		return []error{err}
	}
	for _, err := range own.values() {
		errs = append(errs, fmt.Errorf("recipes.%s.with.%w", name, err))
	}
	return errs
}

// keys lists the settings that it changes, by their whole keys.
func (w With) keys() []string { return keysOf(w) }

func keysOf(m map[string]any) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		below, ok := m[k].(map[string]any)
		if !ok || len(below) == 0 {
			out = append(out, k)
			continue
		}
		for _, key := range keysOf(below) {
			out = append(out, k+"."+key)
		}
	}
	return out
}

// SeedsOf lists the training seeds that make a recipe.
func (c Config) SeedsOf(name string) []uint64 {
	if n := c.Recipes[name].Seeds; n > 0 && n < len(c.TrainSeeds) {
		return c.TrainSeeds[:n]
	}
	return c.TrainSeeds
}

// changeable lists the settings that a recipe can change: those that training and the gate read. A section stands for all its settings. Of
// the suite's own settings a recipe can change those that the suite's RecipeKeys list.
var changeable = []string{"episode", "reward", "gate", "profile", "tiny.copy_pretraining", "engine", "sft", "replay_fraction", "dpo", "grpo", "warnings"}

// fixed says why a recipe cannot change a setting; empty where it can.
func (c Config) fixed(key string) string {
	section, rest, _ := strings.Cut(key, ".")
	rest, _, _ = strings.Cut(rest, ".")
	switch {
	case slices.Contains(changeable, section), slices.Contains(changeable, section+"."+rest), section == "suite" && slices.Contains(c.Suite.RecipeKeys(), rest):
		return ""
	case section == "suite" || section == "seed":
		return "because it decides the data set or what evaluation shows, which all recipes share: make a profile for it. Of the suite's settings a recipe can change " + strings.Join(c.Suite.RecipeKeys(), ", ")
	}
	return "because it is the whole run's: make a profile for it. A recipe can change " + strings.Join(changeable, ", ")
}

// tokensKnown follows tokens_of through the named recipes and their ancestors. If that leads back to the recipe, its length would depend on
// itself: an error.
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
