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
// # 06 Price families
//
// **What is asked.** Thirty-five tools, each with a price. Ten pairs of them do the same work, and which tool of a pair is cheaper depends on the
// task: one city or several, a short mail or a long one. Does a policy learn the condition, or only which tool wins more often? And what teaches it:
// demonstrations of the cheapest path, preferences (DPO), or reinforcement with a price in the reward?
//
// **How it is measured.** Success; the share of tasks done at the cheapest cost; what solved tasks cost above the cheapest path; and, in each family
// and direction, how often the policy called the right tool alone.

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

var opts = notebook.Settings(stage.Options{Suite: "families", Profile: "default"})

func settings() { notebook.Show(&opts, show.Settings) }

//gonb:%exec settings

// %% [markdown]
// ## The tools and the tasks

// %%
func tools() { notebook.Show(&opts, show.Tools) }

//gonb:%exec tools

// %%
func tasks() { notebook.Show(&opts, show.Tasks) }

//gonb:%exec tasks

// %% [markdown]
// One task, and its cheapest path played by the oracle.

// %%
func episode() { notebook.Show(&opts, show.Task("test"), show.Episode("test")) }

//gonb:%exec episode

// %% [markdown]
// ## A and C: imitation
//
// `sft_random` (A) imitates any valid path of a task, and so knows nothing of cost. `sft_cheapest` (C) imitates the cheapest one.

// %%
func imitation() {
	notebook.Show(&opts, show.TrainPolicy("sft_random"), show.TrainPolicy("sft_cheapest"), show.Curves("sft_random", "sft_cheapest"))
}

//gonb:%exec imitation

// %% [markdown]
// ## B and B+: preferences
//
// Both continue from A, whose frozen copy is the reference. `dpo` (B) learns from all pairs as they come, in which one direction of a family is the
// majority. `dpo_balanced` (B+) learns from as many pairs of each direction, and from pairs about what to do after a failed call. Neither has pairs of
// the email family.

// %%
func preferences() {
	notebook.Show(&opts, show.TrainPolicy("dpo"), show.TrainPolicy("dpo_balanced"), show.Curves("dpo", "dpo_balanced"))
}

//gonb:%exec preferences

// %% [markdown]
// ## G: reinforcement
//
// `sft+grpo` continues from A too. A solved attempt is paid more if it cost less; an attempt that failed is paid nothing for being cheap.

// %%
func grpo() { notebook.Show(&opts, show.TrainPolicy("sft+grpo"), show.Curves("sft+grpo")) }

//gonb:%exec grpo

// %%
func history() { notebook.Show(&opts, show.History("sft+grpo")) }

//gonb:%exec history

// %% [markdown]
// ## Results

// %%
func results() { notebook.Show(&opts, show.Evaluation) }

//gonb:%exec results

// %%
func reference() { notebook.Show(&opts, show.Reference) }

//gonb:%exec reference

// %% [markdown]
// Which tool of a family is called, in each direction. The email family was left out of the preferences: there, a choice of B or B+ that differs from
// that of A was carried over from other families.

// %%
func choices() { notebook.Show(&opts, show.Choices("test")) }

//gonb:%exec choices

// %%
func routing() { notebook.Show(&opts, show.Routing) }

//gonb:%exec routing

// %% [markdown]
// The same tasks at prices that training never showed. If the choice follows the price, the shares stay as they are above.

// %%
func prices() { notebook.Show(&opts, show.Choices("test_prices")) }

//gonb:%exec prices

// %% [markdown]
// Each policy is compared with the one it was trained from, task by task.

// %%
func steps() { notebook.Show(&opts, show.Comparisons) }

//gonb:%exec steps

// %% [markdown]
// ## Episodes, diagnosed

// %%
func episodes() { notebook.Show(&opts, show.Trajectories) }

//gonb:%exec episodes

// %% [markdown]
// As a program, all cells run in this order; the notebook leaves this cell out.

// %% tags=["active-go"]
func main() {
	stage.Flags("06_price_families", "train and compare the policies of the families suite", &opts)
	settings()
	tools()
	tasks()
	episode()
	imitation()
	preferences()
	grpo()
	history()
	results()
	reference()
	choices()
	routing()
	prices()
	steps()
	episodes()
}
