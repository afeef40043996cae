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
// # 05 Evaluation
//
// **What is asked.** Does a trained policy route better than fixed rules, does it spend less, and does what it learned hold for
// combinations of tools and templates that it never saw?
//
// **How it is measured.** Each policy plays every evaluated split with greedy decoding, beside the baselines on the same tasks. Then it plays sampled. Intervals are at 95%, over
// tasks, and over training seeds too if there are several. Two policies are compared task by task. The whole report, with all
// strata and every episode, is `report.html` in the run folder.

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
// ## Results
//
// The cell first trains and plays what is missing. The log below it shows its progress.

// %%
func results() { notebook.Show(&opts, show.Evaluation) }

//gonb:%exec results

// %% [markdown]
// The same policies with sampled decoding, in every budget mode that the settings name for it.

// %%
func sampled() { notebook.Show(&opts, show.Sampled) }

//gonb:%exec sampled

// %% [markdown]
// Success against mean cost: up and to the left is better.

// %%
func pareto() { notebook.Show(&opts, show.Picture("cost_vs_success")) }

//gonb:%exec pareto

// %% [markdown]
// Test against the held-out kinds of questions.

// %%
func heldout() { notebook.Show(&opts, show.Picture("test_vs_heldout_bars")) }

//gonb:%exec heldout

// %% [markdown]
// ## What each step of training brought
//
// Each policy is compared with its parent, task by task. A positive difference means that the policy has more than its parent. Gained are the tasks that it solves
// and its parent does not.

// %%
func steps() { notebook.Show(&opts, show.Comparisons) }

//gonb:%exec steps

// %% [markdown]
// ## Routing
//
// Rows: the tools that the cheapest path needs. Columns: the tools that were called. Right choices lie on the diagonal.

// %%
func routing() { notebook.Show(&opts, show.Routing) }

//gonb:%exec routing

// %% [markdown]
// ## Episodes, diagnosed
//
// Each diagnosis is computed from the episode's record.

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
	stage.Flags("05_evaluation", "evaluate the trained policies, write the report and show it", &opts)
	settings()
	results()
	sampled()
	pareto()
	heldout()
	steps()
	routing()
	episodes()
	findings()
}
