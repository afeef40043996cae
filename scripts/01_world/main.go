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
// # 01 The world
//
// **What is asked.** What does a policy that routes questions to priced tools have to know? This notebook makes the world
// of the experiments: a company's database, documents and the web around it. A tool with a price stands before each. The answers to
// all questions are known, and so is the cheapest path to each, which a program has run.
//
// **How it is measured.** Every table counts the tasks of the data set on disk. The episode at the end is played by the
// oracle, which knows the cheapest path, through the same engine that later plays every other policy.
//
// The cells share files, not memory. Each cell opens the run folder, makes what is missing, and shows it. So an interrupted
// notebook continues where it was. The program `go run ./scripts/01_world` has the same cells.

// %%
//gonb:%noautoget
//gonb:%goflags -ldflags=-w
//gonb:!*rm -f go.work && go work init . "$(go -C "$GONB_DIR" list -m -f '{{.Dir}}')"

// %% [markdown]
// ## Settings
//
// `Profile` says how much is done: smoke in minutes, default on a laptop, full in hours. The flags of the program have the
// same names; the environment variables TOOLROUTE_PROFILE and TOOLROUTE_OUT take precedence over this cell.

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
// ## Tools and their prices
//
// Every call costs its price, whether it helped or not. Giving the answer is free.

// %%
func tools() { notebook.Show(&opts, show.Tools) }

//gonb:%exec tools

// %% [markdown]
// ## What the tools read
//
// These are the three stores, as they are on disk. A fact is in one of them only. In the documents and on the web, some facts have a near-duplicate: a draft or a
// denied rumour with another value, which a search finds just as easily.

// %%
func stores() { notebook.Show(&opts, show.Stores) }

//gonb:%exec stores

// %% [markdown]
// ## Tasks
//
// The splits share no fact. Two of them hold questions of a kind that training never shows: other combinations of tools, and
// other templates.

// %%
func tasks() { notebook.Show(&opts, show.Tasks, show.Costs) }

//gonb:%exec tasks

// %% [markdown]
// The tools that the cheapest path needs, by split. A row with nothing under train is a combination that training never
// shows.

// %%
func combinations() { notebook.Show(&opts, show.Combinations) }

//gonb:%exec combinations

// %% [markdown]
// ## One task, and its best episode
//
// The prompt is all that a policy learns before its first action: the question, the budget, the tools and what they cost.

// %%
func task() { notebook.Show(&opts, show.Task("test")) }

//gonb:%exec task

// %% [markdown]
// The oracle plays it. An action is a fenced JSON object; what comes back is the observation with what is left of the budget.

// %%
func oracle() { notebook.Show(&opts, show.Episode("test")) }

//gonb:%exec oracle

// %% [markdown]
// ## What the figures say

// %%
func findings() { notebook.Show(&opts, show.WorldFindings) }

//gonb:%exec findings

// %% [markdown]
// As a program, all cells run in this order; the notebook leaves this cell out.

// %% tags=["active-go"]
func main() {
	stage.Flags("01_world", "make the data set and show its tools, tasks and one episode", &opts)
	settings()
	tools()
	stores()
	tasks()
	combinations()
	task()
	oracle()
	findings()
}
