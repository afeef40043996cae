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
// # 04 Training
//
// **What is asked.** Can a small model, trained from scratch on a laptop, learn to route: first by imitating cheapest paths
// (supervised fine-tuning), then from its own attempts and their rewards (GRPO)?
//
// **How it is measured.** Every update logs its figures into the run folder; the curves are drawn from there. Validation
// examples are set apart from the demonstrations and never trained on. What a policy is worth is measured in 05.
//
// Below a running cell stand its progress, the time left and the growing curves. The finished curves replace them. You may interrupt a cell at any time. Run it again, and it
// continues from its last checkpoint.

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
// ## Single calls
//
// Copy pre-training teaches the network to repeat what it has read. Then `base` learns the format and single calls.

// %%
func base() { notebook.Show(&opts, show.TrainPolicy("base"), show.Curves("base")) }

//gonb:%exec base

// %% [markdown]
// ## Imitation
//
// `sft` continues from `base` with demonstrations of cheapest paths. They are of the training tasks of the run's own world, and of further training
// worlds, in which nothing is evaluated. The table counts worlds and demonstrations.

// %%
func sft() { notebook.Show(&opts, show.TrainPolicy("sft"), show.Curves("sft")) }

//gonb:%exec sft

// %% [markdown]
// ## Reinforcement
//
// `sft+grpo` continues from `sft`. It makes a group of attempts at each training task of a world that was not imitated, and rewards each attempt. Training makes the better
// attempts of a group more likely. If the profile does not train this recipe, the cell says so.

// %%
func grpo() { notebook.Show(&opts, show.TrainPolicy("sft+grpo"), show.Curves("sft+grpo")) }

//gonb:%exec grpo

// %% [markdown]
// ## What the figures say

// %%
func findings() { notebook.Show(&opts, show.TrainingFindings) }

//gonb:%exec findings

// %% [markdown]
// As a program, all cells run in this order; the notebook leaves this cell out.

// %% tags=["active-go"]
func main() {
	stage.Flags("04_training", "train the policies of the profile and show their curves", &opts)
	settings()
	base()
	sft()
	grpo()
	findings()
}
