package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
)

// A text becomes, by the type of its setting, the value beside it here, or gives an error that names key and assignment.
func TestValuesAreWhatIsWritten(t *testing.T) {
	read := map[string]func(Config) any{
		"seed": func(c Config) any { return c.Seed }, "train_seeds": func(c Config) any { return c.TrainSeeds },
		"eval.attempts": func(c Config) any { return c.Eval.Attempts }, "sft.schedule.learning_rate": func(c Config) any { return c.SFT.Schedule.LearningRate },
		"suite.budget_step": func(c Config) any { return c.Suite.(*company.Settings).BudgetStep }, "suite.prices.web_search": func(c Config) any { return c.Suite.(*company.Settings).Prices["web_search"] },
		"suite.plan": func(c Config) any { return c.Suite.(*company.Settings).Plan }, "grpo.heldout_split": func(c Config) any { return c.GRPO.HeldoutSplit },
		"sft.optimizer.beta1": func(c Config) any { return c.SFT.Optimizer.Beta1 }, "suite.budget_factor": func(c Config) any { return c.Suite.(*company.Settings).BudgetFactor },
		"eval.splits": func(c Config) any { return c.Eval.Splits }, "episode.free_failures": func(c Config) any { return c.Episode.FreeFailures },
	}
	for set, want := range map[string]string{
		// Seeds and counts: decimal or refused.
		"train_seeds=[10, 11]":               "[10 11]",
		"train_seeds=[010,011]":              "!train_seeds[0]: \"010\" is not a whole number in decimal digits",
		"seed=18446744073709551615":          "18446744073709551615",
		"seed=18446744073709551616":          "!seed: 18446744073709551616 is out of range",
		"seed=9007199254740993":              "9007199254740993", // not 2^53
		"seed=-1":                            "!seed: -1 is out of range",
		"seed=0":                             "0",
		"eval.attempts=+5":                   "5",
		"eval.attempts=08":                   "!eval.attempts: \"08\"",
		"eval.attempts=0x10":                 "!eval.attempts: \"0x10\"",
		"eval.attempts=0o7":                  "!eval.attempts: \"0o7\"",
		"eval.attempts=0b1":                  "!eval.attempts: \"0b1\"",
		"eval.attempts=1_0":                  "!eval.attempts: \"1_0\"",
		"eval.attempts=1e1":                  "!eval.attempts: \"1e1\"",
		"eval.attempts=8.0":                  "!eval.attempts: \"8.0\"",
		"eval.attempts=1:30":                 "!eval.attempts: \"1:30\"",
		"eval.attempts='8'":                  "!eval.attempts: \"8\" is not a whole number in decimal digits: leave the quotes out",
		"eval.attempts=~":                    "!eval.attempts: it has no value",
		"eval.attempts=null":                 "!eval.attempts: it has no value",
		"eval.attempts=":                     "!eval.attempts: it has no value",
		"eval.attempts=true":                 "!eval.attempts: \"true\"",
		"eval.attempts=[8]":                  "!eval.attempts: this is a list, want a whole number",
		"eval.attempts={a: 1}":               "!eval.attempts: this is a section, want a whole number",
		"eval.attempts=!!int 8":              "!tags (!!int)",
		"eval.attempts=&x 8":                 "!anchors and aliases",
		"eval.attempts=*x":                   "!anchors and aliases",
		"eval.attempts=99999999999999999999": "!eval.attempts: 99999999999999999999 is beyond the largest number",
		" eval.attempts = 8 ":                "8",
		"eval.attempts=8 # attempts":         "8",
		"eval.attempts=8\n---\neval: 1":      "!second document",
		"eval.attempts=8\x00":                "!control character",
		"eval.attempts=\xff":                 "!not UTF-8",
		// Numbers: finite, and as near as 64 bits come.
		"sft.schedule.learning_rate=1":       "1",
		"sft.schedule.learning_rate=1e-3":    "0.001",
		"sft.schedule.learning_rate=.5":      "0.5",
		"sft.schedule.learning_rate=.nan":    "!sft.schedule.learning_rate: .nan: it must be a finite number",
		"sft.schedule.learning_rate=NaN":     "!sft.schedule.learning_rate: NaN: it must be a finite number",
		"sft.schedule.learning_rate=-.inf":   "!sft.schedule.learning_rate: -.inf: it must be a finite number",
		"sft.schedule.learning_rate=1e999":   "!sft.schedule.learning_rate: 1e999 is out of range",
		"sft.schedule.learning_rate=1e-999":  "!sft.schedule.learning_rate: 1e-999 is out of range",
		"sft.schedule.learning_rate=1_000.5": "!sft.schedule.learning_rate: \"1_000.5\"",
		"sft.schedule.learning_rate=1,5":     "!sft.schedule.learning_rate: \"1,5\"",
		"sft.schedule.learning_rate=010":     "!sft.schedule.learning_rate: \"010\"",
		"sft.schedule.learning_rate=0x1p-3":  "!sft.schedule.learning_rate: \"0x1p-3\"",
		"sft.schedule.learning_rate=\"1\"":   "!leave the quotes out",
		"suite.budget_factor=.nan":           "!suite.budget_factor: .nan: it must be a finite number",
		"suite.budget_factor=.inf":           "!suite.budget_factor: .inf: it must be a finite number",
		"sft.optimizer.max_grad_norm=.inf":   "!sft.optimizer.max_grad_norm: .inf: it must be a finite number",
		"suite.budget_factor=1e15":           "!suite.budget_factor is 1e+15: it is times the optimal cost",
		"suite.budget_factor=0":              "!suite.budget_factor is 0",
		// Amounts keep their digits.
		"suite.prices.web_search=0.00001":    "0.00001",
		"suite.prices.web_search=1234567.5":  "1234567.5",
		"suite.prices.web_search=1e-05":      "!suite.prices.web_search: price \"1e-05\": not a decimal number",
		"suite.prices.web_search=1e12":       "!suite.prices.web_search: ",
		"suite.prices.web_search=9999999999": "!suite.prices.web_search: price \"9999999999\": too large",
		"suite.prices.web_search=.nan":       "!suite.prices.web_search: ",
		"suite.prices.web_search=0.0000001":  "!more than six decimals",
		"suite.budget_step=0":                "0",
		"suite.budget_step=-1":               "!suite.budget_step is -1",
		// 0 where it means something.
		"sft.optimizer.beta1=0": "0",
		"sft.optimizer.eps=0":   "!sft.optimizer.eps is 0",
		// Truth values.
		"suite.plan=false": "false", "suite.plan=True": "true",
		"suite.plan=yes": "!suite.plan: \"yes\" is not true or false", "suite.plan=off": "!suite.plan: \"off\"",
		"suite.plan=0": "!suite.plan: \"0\"", "suite.plan='true'": "!leave the quotes out",
		// Texts.
		"grpo.heldout_split=2024-01-01": "2024-01-01", "grpo.heldout_split=yes": "yes", "grpo.heldout_split=010": "010",
		"grpo.heldout_split=\"\"": "", "grpo.heldout_split=": "!grpo.heldout_split: it has no value; an empty text is \"\"",
		"grpo.heldout_split='a = b'": "a = b", "grpo.heldout_split=a=b": "a=b",
		"eval.splits=[]": "[]", "eval.splits=[test, val]": "[test val]", "eval.splits=test": "!eval.splits: this is a single value, want a list",
		"eval.splits=": "!eval.splits: it has no value",
		// Keys.
		"evl.k=8": `!unknown key "evl"; did you mean "eval"?`, "eval.attemts=8": `!unknown key "eval.attemts"; did you mean "eval.attempts"?`,
		"=8": "!want key=value", "eval.attempts": "!want key=value", "eval..k=8": "!want key=value", "eval.attempts: 3\nseed=4": "!want key=value",
		"eval={attempts: 8, attempts: 9}": "!mapping key \"attempts\" already defined", "eval=8": "!eval: this is a single value: want a section",
		"eval={<<: {k: 8}}": "!anchors and aliases", "eval={? attempts : 8}": "!settings are sections",
	} {
		c, err := Load("company", "default", "", []string{set})
		if no, refused := strings.CutPrefix(want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), no) || !strings.Contains(err.Error(), "--set ") {
				t.Errorf("%q: error %v, want one that names --set and says %q", set, err, no)
			}
			continue
		}
		key, _, _ := strings.Cut(set, "=")
		if err != nil {
			t.Errorf("%q: %v", set, err)
		} else if got := fmt.Sprint(read[strings.TrimSpace(key)](c)); got != want {
			t.Errorf("%q is read as %s, want %s", set, got, want)
		}
	}
}

// Zeros that packages would take for "the default" are refused by name, in a recipe too.
func TestZerosAreNotReplaced(t *testing.T) {
	for _, key := range []string{"sft.run.epochs", "sft.run.accumulate", "sft.run.keep_last", "sft.stop.patience",
		"dpo.run.epochs", "dpo.run.accumulate", "dpo.run.keep_last", "dpo.stop.patience", "grpo.update.epochs", "grpo.update.minibatches",
		"grpo.update.loss.tau_pos", "grpo.update.loss.tau_neg", "grpo.update.optimizer.eps", "grpo.stop.patience", "warnings.patience", "episode.max_turns",
		"engine.slots", "engine.decode", "tiny.tokenizer.max_vocab", "tiny.tokenizer.min_texts", "tiny.model.rope_theta", "suite.passage_words",
		"suite.wasteful_share", "eval.resamples", "checkpoints.max_mb"} {
		if _, err := Load("company", "default", "", []string{key + "=0"}); err == nil || !strings.HasPrefix(err.Error(), key+" is 0") {
			t.Errorf("%s=0: error %v, want one that begins with the key", key, err)
		}
	}
	if _, err := Load("company", "default", "", []string{"grpo.update.loss.eps_low=0", "grpo.update.loss.eps_high=0"}); err == nil || !strings.Contains(err.Error(), "grpo.update.loss.eps_low and eps_high are 0") {
		t.Errorf("eps_low=eps_high=0: %v", err)
	}
	if c, err := Load("company", "default", "", []string{"grpo.update.loss.eps_low=0"}); err != nil || c.GRPO.Update.Loss.EpsLow != 0 {
		t.Errorf("eps_low=0 beside eps_high: %v, %v", c.GRPO.Update.Loss.EpsLow, err)
	}
}

// A typing error gives an error message, and not a process that is killed.
func TestAbsurdSizesAreRefused(t *testing.T) {
	for _, set := range []string{"engine.slots=1000000000", "engine.rows=[1000000000]", "grpo.prompts=100000000", "grpo.group_size=100000", "grpo.iterations=100000000000",
		"eval.resamples=100000000000", "tiny.model.hidden=1000000000", "tiny.model.layers=1000000", "sft.batch.micro_batch_size=1000000000", "tiny.copy_pretraining.micro_batch_size=1000000000",
		"recipes.sft.worlds=1000000", "suite.passages=1000000000", "episode.max_turns=1000000000", "profile.tasks=1000000000", "eval.attempts=1000000"} {
		key, _, _ := strings.Cut(set, "=")
		if _, err := Load("company", "default", "", []string{set}); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: error %v, want one that begins with the key", set, err)
		}
	}
}

// Files as editors and people write them.
func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mine.yaml")
	for text, want := range map[string]string{
		"\xef\xbb\xbfeval: {attempts: 8}\n": "",
		"eval:\r\n  attempts: 8\r\n":        "",
		"":                                  "",
		"# nothing yet\n":                   "",
		"eval:\n":                           "",
		"---\neval: {attempts: 8}\n":        "",
		"eval: {attempts: 8}\n---\neval: {attempts: 9}\n": "mine.yaml: a second document begins after ---",
		"eval: {attempts: 8}\n---\n":                      "mine.yaml: a second document",
		"%YAML 1.2\n---\neval: {attempts: 8}\n":           "mine.yaml:1: settings are sections",
		"- eval\n":                                        "mine.yaml:1: this is a list: want a section of settings",
		"eval\n":                                          "mine.yaml:1: this is a single value: want a section of settings",
		"42":                                              "mine.yaml:1: this is a single value",
		"eval:\n\tattempts: 8\n":                          "mine.yaml: [2:1] found character",
		"eval: {attempts: 8}\nseed: 2\neval: {attempts: 9}\n":                       `mapping key "eval" already defined`,
		"eval:\n  attempts: 8\n  \"attempts\": 9\n":                                 `"attempts"`,
		"seed: 2\neval:\n  attempts: abc\n  resamples: x\n":                         "mine.yaml:3: eval.attempts: \"abc\" is not a whole number in decimal digits\n",
		"a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]\n":                                  "mine.yaml:1: anchors and aliases",
		"seed: 2\neval:\n  attempts: 0\n":                                           "eval.attempts is 0: it must be at least 1 (set in " + name + ":3)",
		"seed: 2\nrecipes:\n  sft: {with: {sft: {batch: {micro_batch_size: 0}}}}\n": "recipes.sft.with.sft.batch.micro_batch_size must be at least 1, got 0 (set in " + name + ":3)",
		strings.Repeat("#", maxBytes+1):                                             "more than 65536 bytes",
		"eval: " + strings.Repeat("[", 60_000):                                      "nested more than 32 deep",
		strings.Repeat("{a: ", 15_000):                                              "nested more than 32 deep",
		strings.Repeat("- ", 30_000):                                                "nested more than 32 deep",
		strings.Repeat("? ", 30_000):                                                "nested more than 32 deep",
		strings.Repeat("&a ", 20_000) + "x":                                         "nested more than 32 deep",
		string(nested(200)):                                                         "nested more than 32 deep",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := Load("company", "default", name, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%.60q: error %v, want one that names the file and says %q", text, err, want)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%.60q took %v", text, d)
		}
	}
	if _, err := Load("company", "default", "/dev/zero", nil); err == nil || !strings.Contains(err.Error(), "/dev/zero") {
		t.Errorf("a device: %v", err)
	}
}

// nested is a section in a section, so many deep, line by line.
func nested(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.Bytes()
}

// Of two assignments to a key the later one holds, over those of files.
func TestTheLaterAssignmentHolds(t *testing.T) {
	c, err := Load("company", "default", "", []string{"eval.attempts=3", "eval={attempts: 4, resamples: 5}", "eval.attempts=6"})
	if err != nil || c.Eval.Attempts != 6 || c.Eval.Resamples != 5 {
		t.Errorf("eval.attempts %d, eval.resamples %d, %v; want 6 and 5", c.Eval.Attempts, c.Eval.Resamples, err)
	}
}

// Every setting has its default in a YAML file. Nobody would find a default in code, and a 0 there would be no setting.
func TestDefaultsStandInTheYAML(t *testing.T) {
	c := Config{Suite: new(company.Settings)}
	var layers []Layer
	for _, name := range []string{"default", "suite-company"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "configs", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, Layer{Name: name, YAML: b})
	}
	origin, err := merge(&c, layers...)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, key string) {
		for k, f := range yamlFields(typ) {
			ft, at := typ.Field(f).Type, key+dot(key)+k
			if ft == reflect.TypeFor[suite.Settings]() {
				ft = reflect.TypeFor[company.Settings]()
			}
			switch {
			case ft.Kind() == reflect.Struct:
				walk(ft, at)
			case ft.Kind() == reflect.Map:
			case origin[at] == "":
				t.Errorf("%s has no default in configs/default.yaml", at)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}

// Whatever a person writes, nothing panics. An accepted value is finite, and the manifest's JSON gives it back unchanged.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"eval: {attempts: 8}", "a: &a [*a]", "suite: {prices: {web_search: 0.00001}, budget_factor: .nan}", "train_seeds: [010, 18446744073709551615]",
		"recipes: {sft: {with: {sft: {schedule: {learning_rate: 1e-400}}}}}", "? a\n: b", "eval:\n\tattempts: 1", "{}", "\xef\xbb\xbfseed: 3", "seed: 1\n---\n", "eval: [[[[", "reward: {correct: 1e308}",
		"sft: {optimizer: {beta1: -0}}", "x: |\n y", "recipes: {a: {from: root, with: {recipes: {b: {with: {seed: 3}}}}}}"} {
		f.Add(s, "eval.attempts=8")
	}
	for _, s := range []string{"=", "a.b.c=d", "recipes.sft.with.sft.run.max_steps=3", "eval={attempts: 1, n_tasks: 2}", "seed=--- 3", "eval.attempts=\n3", "suite.prices={sql_query: 1.5}", "train=[sft, base]"} {
		f.Add("", s)
	}
	base, err := Load("company", "smoke", "", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, file, set string) {
		c := unshared(reflect.ValueOf(base)).Interface().(Config)
		layers := []Layer{{Name: "fuzz.yaml", YAML: []byte(file)}}
		if l, err := Assignment(set); err == nil {
			layers = append(layers, l)
		}
		origin, err := merge(&c, layers...)
		if err != nil {
			return
		}
		if located(c.check(), origin) != nil {
			return
		}
		for name := range c.Recipes {
			if _, err := c.For(name); err != nil {
				t.Fatalf("recipe %s of accepted settings: %v", name, err)
			}
		}
		once, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("accepted settings are not finite: %v", err)
		}
		back := Config{Suite: new(company.Settings)}
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("the manifest is not read: %v", err)
		}
		twice, err := json.Marshal(back)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("settings change on their way through the manifest (%v):\n%s\n%s", err, once, twice)
		}
	})
}

// unshared copies a value so that a change of its maps is not one of the original's.
func unshared(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer: // to a suite's settings
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(unshared(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(unshared(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(unshared(v.Field(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMap(v.Type()))
		}
		for _, k := range v.MapKeys() {
			out.SetMapIndex(k, unshared(v.MapIndex(k)))
		}
	}
	return out
}
