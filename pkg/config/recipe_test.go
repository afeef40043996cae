package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite/company"
)

func TestRecipeMistakesNameTheField(t *testing.T) {
	for set, want := range map[string]string{
		"recipes.sft.with.suite.two_source=true":                        "recipes.sft.with.suite.two_source: a recipe cannot change it",
		"recipes.sft.with.suite.train_tasks=5":                          "recipes.sft.with.suite.train_tasks: a recipe cannot change it",
		"recipes.sft.with.suite.passages=4":                             "Of the suite's settings a recipe can change random_offers, thoughts, plan, wasteful_share, mask_tools",
		"recipes.sft.with={suite: {prices: {web_search: 1}}}":           "recipes.sft.with.suite.prices",
		"recipes.sft.with.seed=4":                                       "recipes.sft.with.seed: ",
		"recipes.sft.with.suite.random_offer=1":                         `did you mean "recipes.sft.with.suite.random_offers"`,
		"recipes.sft.rows=-1":                                           "recipes.sft.rows: -1",
		"recipes.sft.worlds=-2":                                         "recipes.sft.worlds: -2",
		"recipes.sft.max_tools=-1":                                      "recipes.sft.max_tools: -1",
		"recipes.sft.tokens_of=stf":                                     `did you mean "sft"`,
		"recipes.sft.tokens_of=sft+grpo":                                "depends on this recipe itself",
		"recipes.x={choose: [sft+grpo], from: sft}":                     "a recipe that chooses trains nothing",
		"recipes.sft.ablation=less":                                     "recipes.sft.against: ablation and against belong together",
		"recipes.x={from: sft, ablation: a, against: sft}":              "must have a method",
		"recipes.x={from: sft, method: x, ablation: a, against: sft-x}": `recipes.x.against: no recipe is named "sft-x"`,
		"recipes.sft.method=zero_shot":                                  `recipes.sft.method: "zero_shot" is the method of recipes.base already`,
		"recipes.sft.method=oracle":                                     `recipes.sft.method: "oracle" is a scripted baseline`,
		"recipes.sft.method=x/../y":                                     `recipes.sft.method: "x/../y" names rows and a folder`,
		"recipes.sft.from=bas":                                          `recipes.sft.from: no recipe is named "bas"; did you mean "base"`,
		"train_seeds=[1, 2, 1]":                                         "train_seeds names 1 twice",
		"eval.headline=sftgrpo":                                         `eval.headline is "sftgrpo"`,
		"recipes.sftt.demos=optimal":                                    "recipes.sftt.from: empty: name the recipe that it starts from, or \"root\"; did you mean recipes.sft?",
		"eval.attempts=-3":                                              "eval.attempts is -3",
		"eval.attempts=99999999999":                                     "eval.attempts is 99999999999: it must be at most 1000",
		"suite.train_tasks=100000000":                                   "suite.train_tasks is 100000000: it must be at most 20000",
		"publish=stroy":                                                 `publish: "stroy" is none of story, experiment, nothing`,
		"suite.shifted_tasks=-1":                                        "suite.shifted_tasks is -1",
	} {
		if _, err := Load("company", "default", "", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", set, err, want)
		}
	}
}

// A recipe's company settings hold for the recipe and not for the run.
func TestRecipeSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	err := os.WriteFile(file, []byte(`recipes:
  varied: {from: base, method: varied, demos: wasteful, max_tools: 2, ablation: much, against: sft,
           with: {suite: {random_offers: 1, thoughts: false, plan: false, wasteful_share: 0.9, mask_tools: 0.5}}}
  best: {method: best, choose: [sft+grpo]}
  longer: {from: sft, method: longer, demos: optimal, tokens_of: best}
train: [best, longer]
`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load("company", "default", file, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.For("varied")
	if err != nil {
		t.Fatal(err)
	}
	if o := own.Suite.(*company.Settings); o.RandomOffers != 1 || o.MaskTools != 0.5 || o.Thoughts || o.Plan || o.WastefulShare != 0.9 || o.BudgetFactor != c.Suite.(*company.Settings).BudgetFactor {
		t.Errorf("the recipe's settings are %+v", o)
	}
	plain, err := Load("company", "default", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Suite.(*company.Settings), plain.Suite.(*company.Settings)) || !c.Suite.(*company.Settings).Thoughts {
		t.Errorf("the run's settings are %+v, want %+v", c.Suite.(*company.Settings), plain.Suite.(*company.Settings))
	}
	if line, err := c.Lineage("best"); err != nil || len(line) != 1 {
		t.Errorf("lineage of a recipe that chooses: %v, %v", line, err)
	}
	if d := c.Recipes["varied"].Decided(); d.Ablation != "" || d.Against != "" || d.MaxTools != 2 {
		t.Errorf("what decides training: %+v", d)
	}
}

// Stages are known by the hash of their settings' JSON. A setting of a recipe that is not used must not stand in it, or every policy
// of an earlier version would be trained again.
func TestUnusedSettingsAreNotInTheJSON(t *testing.T) {
	c, err := Load("company", "default", "", []string{"recipes.sft+grpo.worlds=0", "sft.run.max_steps=2400"})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		`{"from":"base","method":"sft","demos":"optimal","rows":0,"worlds":5}`:                           c.Recipes["sft"].Decided(),
		`{"from":"sft","method":"sft+grpo","demos":"","rows":0,"worlds":0,"algorithm":"grpo"}`:           c.Recipes["sft+grpo"].Decided(),
		`{"correct":0.7,"efficiency":0.3,"format":0.1,"max_invalid":3,"call":0,"require_evidence":true}`: c.Reward,
		`{"seed":0,"max_steps":2400,"epochs":1,"accumulate":1,"eval_every":50,"restore_best":true}`:      c.SFT.Run,
	} {
		if b, err := json.Marshal(v); err != nil || string(b) != name {
			t.Errorf("%s, want %s (%v)", b, name, err)
		}
	}
}

// A recipe can be made with the first training seeds alone, which changes nothing of its training.
func TestSeedsOfARecipe(t *testing.T) {
	c := Config{TrainSeeds: []uint64{7, 8, 9}, Recipes: map[string]Recipe{"all": {}, "one": {Seeds: 1}, "many": {Seeds: 5}}}
	for name, want := range map[string]int{"all": 3, "one": 1, "many": 3} {
		if got := c.SeedsOf(name); len(got) != want || got[0] != 7 {
			t.Errorf("%s: seeds %v, want the first %d", name, got, want)
		}
	}
	if (Recipe{Seeds: 1}).Decided().Seeds != 0 {
		t.Error("the number of seeds decides what is trained")
	}
}
