package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suites"
)

// Every profile must resolve for the suites that it is of: both, or the one that it has settings for.
func TestProfilesResolve(t *testing.T) {
	one := map[string]string{"nocopy": "chain", "nonumbers": "chain", "seeds": "company", "prices": "company", "wasteful": "company"}
	for _, s := range suites.Names() {
		for _, p := range Profiles() {
			_, err := Load(s, p, "", nil)
			if of := one[p]; of == "" || of == s {
				if err != nil {
					t.Errorf("%s/%s: %v", s, p, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "--suite "+of) {
				t.Errorf("%s/%s: error %v, want one that names the suite %s", s, p, err, of)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("eval: {attempts: 3, pass_k: 1}\nprofile: {attempts: 5}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load("company", "smoke", file, []string{"profile.attempts=6"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Eval.Attempts != 3 || c.Profile.Attempts != 6 || c.Profile.Tasks != 8 || c.Reward.Correct != 0.7 {
		t.Errorf("got eval.attempts %d (file), profile.attempts %d (--set), profile.tasks %d (profile), reward.correct %v (default)", c.Eval.Attempts, c.Profile.Attempts, c.Profile.Tasks, c.Reward.Correct)
	}
}

func TestMistakesNameTheField(t *testing.T) {
	for _, tc := range []struct{ suite, profile, set, want string }{
		{"compnay", "smoke", "", `no suite is named "compnay"`},
		{"company", "fast", "", "the profiles are"},
		{"company", "smoke", "evl.k=3", `did you mean "eval"`},
		{"company", "smoke", "eval.attempts=0", "eval.attempts is 0"},
		{"company", "smoke", "eval.pass_k=9", "eval.pass_k is 9"},
		{"company", "smoke", "eval.methods=[orcale]", `eval.methods: no recipe and no baseline has the method "orcale"; there are always_all_tools`},
		{"company", "smoke", "max_steps=-1", "max_steps is -1"},
		{"company", "smoke", "eval.budget_modes=[sfot]", `"sfot" is none of`},
		{"company", "smoke", "eval.temperature=0", "eval.temperature is 0"},
		{"company", "smoke", "reward.correct=minus", "--set reward.correct=minus: reward.correct: "},
		{"company", "smoke", "eval.attempts=abc", `eval.attempts: "abc" is not a whole number`},
	} {
		var sets []string
		if tc.set != "" {
			sets = []string{tc.set}
		}
		if _, err := Load(tc.suite, tc.profile, "", sets); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v", tc, err)
		}
	}
}

// max_steps bounds every kind of training, also one whose length is given in epochs.
func TestMaxStepsBoundsEveryTraining(t *testing.T) {
	for sets, want := range map[string][3]int{
		"": {7, 7, 7},
		"sft.run.max_steps=0 dpo.run.max_steps=0":                   {7, 7, 7},
		"sft.run.max_steps=3 dpo.run.max_steps=4 grpo.iterations=5": {3, 4, 5},
	} {
		c, err := Load("company", "default", "", append(strings.Fields(sets), "max_steps=7"))
		if err != nil {
			t.Fatal(err)
		}
		own, err := c.For("sft")
		if got := [3]int{own.SFT.Run.MaxSteps, own.DPO.Run.MaxSteps, own.GRPO.Iterations}; err != nil || got != want {
			t.Errorf("max_steps=7 %s: steps of sft, dpo, grpo are %v, want %v (%v)", sets, got, want, err)
		}
	}
}
