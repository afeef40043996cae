package config

import (
	"fmt"
	"strings"
	"testing"
)

type inner struct {
	LR    float64  `yaml:"lr"`
	Steps int      `yaml:"steps"`
	Modes []string `yaml:"modes"`
}

type outer struct {
	Name  string            `yaml:"name"`
	Train inner             `yaml:"train"`
	Sets  map[string]inner  `yaml:"sets"`
	Env   map[string]string `yaml:"env"`
}

func layer(name, text string) Layer { return Layer{Name: name, YAML: []byte(text)} }

func ExampleMerge() {
	var c outer
	err := Merge(&c, layer("defaults", "name: a\ntrain: {lr: 0.001, steps: 10}"), layer("profile", "train: {steps: 3}"))
	fmt.Println(c.Name, c.Train.LR, c.Train.Steps, err)
	// Output: a 0.001 3 <nil>
}

func TestLaterLayersWinKeyByKey(t *testing.T) {
	set, err := Assignment("train.modes=[hard]")
	if err != nil {
		t.Fatal(err)
	}
	var c outer
	if err := Merge(&c, layer("d", "train: {lr: 1, modes: [soft, hard]}\nsets: {x: {steps: 1}}"), layer("p", "sets: {x: {lr: 2}, y: {lr: 3}}"), set); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Train.LR, c.Train.Modes, c.Sets["x"], c.Sets["y"].LR); got != "1 [hard] {2 1 []} 3" {
		t.Errorf("got %s", got)
	}
}

func TestErrorsNameTheKey(t *testing.T) {
	for _, tc := range []struct{ yaml, want string }{
		{"train: {stpes: 3}", `mine.yaml:1: unknown key "train.stpes"; did you mean "train.steps"?`},
		{"sets: {x: {lrr: 3}}", `unknown key "sets.x.lrr"; did you mean "sets.x.lr"?`},
		{"zzzzzzzz: 1", "known keys here: env, name, sets, train"},
		{"name: a\ntrain: {steps: many}", `mine.yaml:2: train.steps: "many" is not a whole number in decimal digits`},
		{"train: [1", "mine.yaml: [1:8]"},
	} {
		var c outer
		err := Merge(&c, layer("mine.yaml", tc.yaml))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want it to contain %q", tc.yaml, err, tc.want)
		}
	}
	if _, err := Assignment("train.lr"); err == nil {
		t.Error("an assignment without = was accepted")
	}
}
