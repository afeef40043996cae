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
// # 07 The lazy chain
//
// **What is asked.** Demonstrations are never perfect. Here some of them have a bad habit on purpose. On questions that need a
// chain of calls (look up, look up, compute) they skip the tools and state a guess. Does imitation learn the habit? And does
// reinforcement remove it, if it rewards nothing but right answers?
//
// **How it is measured.** There are three kinds of tasks: calc needs one calculation, lookup one value, compose the whole chain. Beside
// success the table has the share of compose episodes that ran the chain. It is read from their calls.

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

var opts = notebook.Settings(stage.Options{Suite: "chain", Profile: "default"})

func settings() { notebook.Show(&opts, show.Settings) }

//gonb:%exec settings

// %% [markdown]
// ## The tasks

// %%
func tasks() { notebook.Show(&opts, show.Tools, show.Tasks) }

//gonb:%exec tasks

// %% [markdown]
// One compose task, and the chain played by the oracle.

// %%
func episode() { notebook.Show(&opts, show.Task("test"), show.Episode("test")) }

//gonb:%exec episode

// %% [markdown]
// ## Imitation of lazy demonstrations

// %%
func sft() { notebook.Show(&opts, show.TrainPolicy("sft_lazy"), show.Curves("sft_lazy")) }

//gonb:%exec sft

// %% [markdown]
// ## Reinforcement
//
// The reward is 1 for a right answer and 0 otherwise, whatever tools were called. If the profile does not train this policy, the cell says so.

// %%
func grpo() {
	notebook.Show(&opts, show.TrainPolicy("sft_lazy+grpo"), show.Curves("sft_lazy+grpo"))
}

//gonb:%exec grpo

// %% [markdown]
// During training, some tasks of the validation split are played, greedily and sampled. Reinforcement can amplify what the policy
// samples now and then, even if it never does it greedily.

// %%
func history() { notebook.Show(&opts, show.History("sft_lazy+grpo")) }

//gonb:%exec history

// %% [markdown]
// A run of reinforcement can collapse. Would a bound on one of its diagnostics have announced it, or been a false alarm?

// %%
func warnings() { notebook.Show(&opts, show.Warnings()) }

//gonb:%exec warnings

// %% [markdown]
// ## Results

// %%
func results() { notebook.Show(&opts, show.Evaluation) }

//gonb:%exec results

// %%
func sampled() { notebook.Show(&opts, show.Sampled) }

//gonb:%exec sampled

// %%
func bars() { notebook.Show(&opts, show.Picture("test_vs_heldout_bars")) }

//gonb:%exec bars

// %% [markdown]
// Each policy is compared with its parent, task by task. A positive difference means that the policy has more than its parent.

// %%
func steps() { notebook.Show(&opts, show.Comparisons) }

//gonb:%exec steps

// %% [markdown]
// ## Regimes
//
// Not every start is lazy. What does reinforcement do to a start without bad habits, and to a start that is nearly as good? And what does more imitation do to
// the latter?

// %%
func regimes() { notebook.Show(&opts, show.Regimes) }

//gonb:%exec regimes

// %%
func reference() { notebook.Show(&opts, show.Reference) }

//gonb:%exec reference

// %% [markdown]
// ## Episodes, diagnosed

// %%
func episodes() { notebook.Show(&opts, show.Trajectories) }

//gonb:%exec episodes

// %% [markdown]
// ## What the figures say

// %%
func findings() { notebook.Show(&opts, show.EvaluationFindings) }

//gonb:%exec findings

// %% [markdown]
// As a program, all cells run in this order; the notebook leaves this cell out.

// %% tags=["active-go"]
func main() {
	stage.Flags("07_lazy_chain", "train on lazy demonstrations, evaluate, and show whether the chain of calls is kept", &opts)
	settings()
	tasks()
	episode()
	sft()
	grpo()
	history()
	warnings()
	results()
	sampled()
	bars()
	steps()
	regimes()
	reference()
	episodes()
	findings()
}
