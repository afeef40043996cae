package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite/chain"
	"github.com/toolroute/toolroute/pkg/train"
)

// A value that is wrong at top level is wrong under `with`. The error has the same words and names the recipe.
func TestWithIsHeldToWhatHoldsAtTopLevel(t *testing.T) {
	for set, want := range map[string]string{
		// Out of range.
		"episode.max_turns=-1":                           "episode.max_turns is -1",
		"episode.max_context=5000":                       "episode.max_context is 5000",
		"episode.observation_limit=3":                    "episode.observation_limit is 3",
		"episode.budget_mode=sfot":                       "episode.budget_mode is \"sfot\"",
		"reward.call=-1":                                 "reward.call is -1",
		"reward.max_invalid=-2":                          "reward.max_invalid is -2",
		"reward={additive: true, efficiency: 0}":         "reward.additive is set and efficiency is 0",
		"gate.mixed=1.5":                                 "gate.mixed is 1.5",
		"gate.format=-0.1":                               "gate.format is -0.1",
		"profile.attempts=0":                             "profile.attempts is 0",
		"profile.tasks=-3":                               "profile.tasks is -3",
		"profile.temperature=0":                          "profile.temperature is 0",
		"suite.wasteful_share=2":                         "suite.wasteful_share is 2",
		"suite.random_offers=7":                          "suite.random_offers is 7",
		"suite.mask_tools=1.5":                           "suite.mask_tools is 1.5",
		"suite.wasteful_share=-0.1":                      "suite.wasteful_share is -0.1",
		"replay_fraction=0.95":                           "replay_fraction is 0.95",
		"tiny.copy_pretraining.micro_batch_size=0":       "tiny.copy_pretraining.micro_batch_size is 0",
		"tiny.copy_pretraining.vocabulary_steps=-1":      "tiny.copy_pretraining.vocabulary_steps is -1",
		"tiny.copy_pretraining.vocabulary_start=2":       "tiny.copy_pretraining.vocabulary_start is 2",
		"tiny.copy_pretraining.length=120":               "tiny.copy_pretraining.length is 120: rows of replay have up to 360 tokens",
		"tiny.copy_pretraining.learning_rate=-0.1":       "tiny.copy_pretraining.learning_rate must be",
		"engine.slots=0":                                 "engine.slots is 0",
		"engine.contexts=[256, 0]":                       "engine.contexts holds 0",
		"engine.prefill=[-32]":                           "engine.prefill holds -32",
		"sft.run.max_steps=-5":                           "sft.run.max_steps must be at least 0, got -5",
		"sft.batch.micro_batch_size=0":                   "sft.batch.micro_batch_size must be at least 1, got 0",
		"sft.batch.lengths=[]":                           "sft.batch.lengths is empty",
		"sft.batch.lengths=[300, 200]":                   "sft.batch.lengths must ascend",
		"sft.optimizer.beta2=1":                          "sft.optimizer.beta2 must lie in [0, 1), got 1",
		"sft.schedule.learning_rate=-1":                  "sft.schedule.learning_rate must be",
		"sft.schedule.kind=cosin":                        `sft.schedule.kind is "cosin"`,
		"sft.loss.kind=nl":                               `sft.loss.kind is "nl"`,
		"grpo.iterations=0":                              "grpo.iterations is 0",
		"grpo.prompts=-1":                                "grpo.prompts is -1",
		"grpo.group_size=1":                              "grpo.group_size is 1",
		"grpo.temperature=0":                             "grpo.temperature is 0",
		"grpo.resample=-1":                               "grpo.resample is -1",
		"grpo.resample=16":                               "grpo.resample is 16",
		"grpo.eval_temperatures=[0.7]":                   "grpo.eval_temperatures is [0.7]",
		"grpo.scale=grup":                                `grpo.scale is "grup"`,
		"grpo.stop.max_kl=-1":                            "grpo.stop.max_kl is -1",
		"grpo.update.loss.kind=dap":                      `grpo.update.loss.kind is "dap"`,
		"grpo.update.loss.beta=-1":                       "grpo.update.loss.beta must be at least 0, got -1",
		"grpo.update.loss.sequence_level=true":           "grpo.update: sequence_level needs batch unpacked",
		"grpo.update.optimizer.max_grad_norm=-1":         "grpo.update.optimizer.max_grad_norm must be",
		"grpo.update.batch.lengths=[64]":                 "grpo.update.batch.lengths has rows of up to 64 tokens",
		"grpo.update.batch.lengths=[5000]":               "grpo.update.batch.lengths holds 5000",
		"sft.batch.lengths=[5000]":                       "sft.batch.lengths holds 5000",
		"grpo.update.schedule.kind=cosin":                `grpo.update.schedule.kind is "cosin"`,
		"grpo.update.batch.micro_batch_size=-8":          "grpo.update.batch.micro_batch_size must be at least 1, got -8",
		"grpo.update.epochs=-1":                          "grpo.update.epochs is -1",
		"grpo.update.minibatches=100000":                 "grpo.update.minibatches is 100000",
		"grpo.update.old_logprobs=samplr":                `grpo.update.old_logprobs is "samplr"`,
		"warnings.max_clip=-1":                           "warnings.max_clip is -1",
		"warnings.patience=-1":                           "warnings.patience is -1",
		"grpo.update={loss: {beta: -2}, optimizer: {}} ": "grpo.update.loss.beta must be at least 0, got -2",
	} {
		key, value, _ := strings.Cut(set, "=")
		if _, err := Load("company", "default", "", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", set, err, want)
		} else if strings.Contains(err.Error(), "recipes.") {
			t.Errorf("%s: a recipe is blamed for a setting of the run: %v", set, err)
		}
		under := "recipes.sft.with." + key + "=" + value
		if _, err := Load("company", "default", "", []string{under}); err == nil || !strings.Contains(err.Error(), "recipes.sft.with."+want) {
			t.Errorf("%s: error %v, want one that says %q of the recipe", under, err, want)
		} else if strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: one mistake, several complaints: %v", under, err)
		}
	}
}

// Unknown keys, wrong types, missing values, and what is not a recipe's to change.
func TestWithMistakes(t *testing.T) {
	for with, want := range map[string][]string{
		"{sfd: {run: {max_steps: 3}}}":                    {`unknown key "recipes.sft.with.sfd"; did you mean "recipes.sft.with.sft"?`},
		"{sft: {run: {max_step: 3}}}":                     {`did you mean "recipes.sft.with.sft.run.max_steps"?`},
		"{grpo: {update: {batch: {micro_batch_siz: 1}}}}": {`did you mean "recipes.sft.with.grpo.update.batch.micro_batch_size"?`},
		"{sft: {run: {max_steps: many}}}":                 {"recipes.sft.with.sft.run.max_steps: ", `"many" is not a whole number`},
		"{sft: {run: {max_steps: {a: 1}}}}":               {"recipes.sft.with.sft.run.max_steps: this is a section"},
		"{sft: {run: {max_steps: 2.5}}}":                  {"recipes.sft.with.sft.run.max_steps: ", `"2.5" is not a whole number`},
		"{sft: {batch: {lengths: [300.5]}}}":              {`recipes.sft.with.sft.batch.lengths[0]: "300.5" is not a whole number`},
		"{sft: {run: 7}}":                                 {"recipes.sft.with.sft.run: "},
		"{sft: 7, gate: {mixed: [1]}}":                    {"recipes.sft.with.sft: ", "recipes.sft.with.gate.mixed: "},
		"{sft: {batch: {lengths: 300}}}":                  {"recipes.sft.with.sft.batch.lengths: "},
		"{sft: {batch: {lengths: [300, x]}}}":             {"recipes.sft.with.sft.batch.lengths[1]: "},
		"{suite: {thoughts: perhaps}}":                    {"recipes.sft.with.suite.thoughts: "},
		"{sft: {run: {max_steps: }}}":                     {"recipes.sft.with.sft.run.max_steps: ", "has no value"},
		"{suite: {plan: null}}":                           {"recipes.sft.with.suite.plan: ", "has no value"},
		"{eval: {attempts: 3}}":                           {"recipes.sft.with.eval.attempts: a recipe cannot change it", "the whole run's"},
		"{train: [sft]}":                                  {"recipes.sft.with.train: a recipe cannot change it"},
		"{train_seeds: [4]}":                              {"recipes.sft.with.train_seeds: a recipe cannot change it"},
		"{recipes: {base: {rows: 3}}}":                    {"recipes.sft.with.recipes.base.rows: a recipe cannot change it"},
		"{tiny: {model: {hidden: 8}}}":                    {"recipes.sft.with.tiny.model.hidden: a recipe cannot change it"},
		"{checkpoints: {use: never}}":                     {"recipes.sft.with.checkpoints.use: a recipe cannot change it"},
		"{suite: {train_tasks: 5}}":                       {"recipes.sft.with.suite.train_tasks: a recipe cannot change it", "the data set"},
		"{gate: {mixed: 2}, profile: {attempts: 0}}":      {"recipes.sft.with.gate.mixed is 2", "recipes.sft.with.profile.attempts is 0"},
		"{gate: {mixed: 2}, suite: {passages: 4}}":        {"recipes.sft.with.suite.passages: a recipe cannot change it"},
	} {
		_, err := Load("company", "default", "", []string{"recipes.sft.with=" + with})
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %v, want one that says %q", with, err, w)
			}
		}
	}
}

// A section without lines of its own changes nothing. It does not set its settings to 0.
func TestAnEmptySectionChangesNothing(t *testing.T) {
	c, err := Load("company", "default", "", []string{"sft.run=", "recipes.sft.with={grpo: {update: }}"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.For("sft")
	if err != nil {
		t.Fatal(err)
	}
	if c.SFT.Run.MaxSteps == 0 || own.GRPO.Update.Batch.MicroBatchSize == 0 {
		t.Errorf("sft.run is %+v, grpo.update of the recipe %+v", c.SFT.Run, own.GRPO.Update)
	}
}

// A package's error about its settings stays reachable behind the text that names the whole key.
func TestFaultsKeepTheirCause(t *testing.T) {
	cause := errors.New("stop: max_kl is -1")
	var f faults
	f.of("grpo.stop", train.StopRule{}, cause)
	if got, want := f[0].Error(), "grpo.stop.max_kl is -1"; got != want || !errors.Is(f[0], cause) {
		t.Errorf("got %q, want %q; the cause is kept: %v", got, want, errors.Is(f[0], cause))
	}
	f.of("grpo.stop", train.StopRule{}, nil)
	if len(f) != 1 {
		t.Errorf("no error made a fault: %v", f)
	}
}

// Each suite has settings of its own. Those of another suite are unknown, and a recipe can change those that RecipeKeys lists.
func TestSettingsOfASuite(t *testing.T) {
	for set, want := range map[string]string{
		"suite.habit.lazy_share=2":                                "suite.habit.lazy_share is 2",
		"suite.world.min_digits=9":                                "suite.world.min_digits is 9",
		"suite.random_offers=1":                                   `unknown key "suite.random_offers"`,
		"recipes.polished.with={suite: {world: {ops: [sum]}}}":    "recipes.polished.with.suite.world.ops: a recipe cannot change it",
		"recipes.polished.with={suite: {habit: {copy_noise: 3}}}": "recipes.polished.with.suite.habit.copy_noise is 3",
	} {
		if _, err := Load("chain", "default", "", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", set, err, want)
		}
	}
	c, err := Load("chain", "default", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	noisy, err := c.For("noisy")
	if err != nil {
		t.Fatal(err)
	}
	if own, of := noisy.Suite.(*chain.Settings).Habit.CopyNoise, c.Suite.(*chain.Settings).Habit.CopyNoise; own != 0.03 || of != 0 {
		t.Errorf("the recipe has noise %v, want 0.03; the run %v, want none", own, of)
	}
}
