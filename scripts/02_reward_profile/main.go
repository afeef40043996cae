// ---
// jupyter:
//   jupytext:
//     text_representation:
//       extension: .go
//       format_name: percent
//   kernelspec:
//     display_name: Go (gonb)
//     language: go
//     name: gonb
// ---

// %% [markdown]
// # 02 The reward, and whether it can teach
//
// **What is asked.** Reinforcement learning amplifies what a policy already does now and then. Before anybody spends hours on it:
// does the starting policy ever earn a reward? Do the rewards of its attempts at one task differ? Are its actions in the right format?
//
// **How it is measured.** The policy makes k attempts at each of some training tasks, sampled as in training. Three figures
// decide: the share of tasks solved within k attempts (pass@k), the share of groups whose rewards differ (only these carry a
// gradient), and the share of valid actions. Each has a threshold. Below it, the gate refuses, and says what to do. The profile "sft for
// sft+grpo" is measured on the tasks that this recipe will train on. They are of a world that no recipe has imitated.

// %%
//gonb:%noautoget
//gonb:%goflags -ldflags=-w
//gonb:!*rm -f go.work && go work init . "$(go -C "$GONB_DIR" list -m -f '{{.Dir}}')"

// %% [markdown]
// ## Settings
//
// The names are those of the program's flags; TOOLROUTE_PROFILE and TOOLROUTE_OUT take precedence over this cell.

// %%
package main

import (
	"github.com/toolroute/toolroute/pkg/notebook"
	"github.com/toolroute/toolroute/pkg/show"
	"github.com/toolroute/toolroute/pkg/stage"
)

var opts = notebook.Settings(stage.Options{Suite: "company", Profile: "default"})

func settings() { notebook.Show(&opts, show.Settings) }

//gonb:%exec settings

// %% [markdown]
// ## The reward
//
// A right answer earns most of the reward, and a cheap right answer earns all of it. Cost counts only if the answer is right. An
// additive price on calls would teach a policy to answer at once, without any call.

// %%
func rule() { notebook.Show(&opts, show.RewardRule) }

//gonb:%exec rule

// %%
func curve() { notebook.Show(&opts, show.RewardCurve) }

//gonb:%exec curve

// %% [markdown]
// ## The policies
//
// There are two starting points. `base` has learned only what a single call looks like. `sft` has imitated cheapest paths in the run's own world and
// in further training worlds. The cell trains them if that was not done before. The log below a running cell shows its progress.

// %%
func train() { notebook.Show(&opts, show.TrainPolicy("base"), show.TrainPolicy("sft")) }

//gonb:%exec train

// %% [markdown]
// ## Profile and gate

// %%
func profile() { notebook.Show(&opts, show.Profiles("base", "sft")) }

//gonb:%exec profile

// %% [markdown]
// ## What the figures say

// %%
func findings() { notebook.Show(&opts, show.ProfileFindings("base", "sft")) }

//gonb:%exec findings

// %% [markdown]
// As a program, all cells run in this order; the notebook leaves this cell out.

// %% tags=["active-go"]
func main() {
	stage.Flags("02_reward_profile", "state the reward, profile the policies that reinforcement learning could start from, and ask the gate", &opts)
	settings()
	rule()
	curve()
	train()
	profile()
	findings()
}
