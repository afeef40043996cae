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
// # 03 What fixed rules achieve
//
// **What is asked.** How far do rules get that learn nothing? They take the cheapest tool, call every tool, escalate by a threshold on search scores,
// or choose at random. Beside them stand two rows of another kind. rule_parser is a parser that was written by hand for the wordings of this suite; it is
// no learned policy. The oracle knows the cheapest path, and so is a bound.
//
// **How it is measured.** Every rule plays every evaluated task once in each budget mode. With a soft budget, a policy may spend more. With a
// hard one, a call that would exceed the budget ends the episode. Success means a right answer whose values the policy has observed.

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

// %%
func results() { notebook.Show(&opts, show.Baselines) }

//gonb:%exec results

// %% [markdown]
// Success against mean cost: up and to the left is better. The line joins the rules that no other rule beats on both; the
// oracle stands apart because no policy can know what it knows.

// %%
func pareto() { notebook.Show(&opts, show.Picture("notebook/baselines/cost_vs_success")) }

//gonb:%exec pareto

// %% [markdown]
// The same rules on test and on the held-out kinds of questions. Fixed rules learn nothing, so any difference here comes from the
// questions.

// %%
func heldout() { notebook.Show(&opts, show.Picture("notebook/baselines/test_vs_heldout_bars")) }

//gonb:%exec heldout

// %% [markdown]
// Rows: the tools that the cheapest path needs. Columns: the tools that the best rule calls, apart from rule_parser and the oracle.

// %%
func routing() { notebook.Show(&opts, show.Picture("notebook/baselines/routing_matrix")) }

//gonb:%exec routing

// %% [markdown]
// ## What the figures say

// %%
func findings() { notebook.Show(&opts, show.BaselineFindings) }

//gonb:%exec findings

// %% [markdown]
// As a program, all cells run in this order; the notebook leaves this cell out.

// %% tags=["active-go"]
func main() {
	stage.Flags("03_baselines", "play the scripted baselines on all evaluated splits and show their results", &opts)
	settings()
	results()
	pareto()
	heldout()
	routing()
	findings()
}
