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
// **What is asked.** How far does one get without learning anything? Always taking the cheapest tool, always calling every tool,
// escalating by a threshold on search scores, choosing at random. Beside them stand two rows of another kind: rule_parser, a parser written by
// hand for the wordings of this suite, which is no learned policy and knows nothing else; and, as a bound, the oracle, which knows the cheapest path.
//
// **How it is measured.** Every rule plays every evaluated task once under each budget mode: soft (spending more only shows)
// and hard (a call that would pass the budget ends the episode). Success means a right answer that rests on what was observed.

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
// The same rules on test and on the held-out kinds of questions. A fixed rule has nothing to forget, so differences here are
// differences between the questions.

// %%
func heldout() { notebook.Show(&opts, show.Picture("notebook/baselines/test_vs_heldout_bars")) }

//gonb:%exec heldout

// %% [markdown]
// Which tools the best rule, rule_parser and the oracle aside, calls (columns) where the cheapest path needs which (rows).

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
