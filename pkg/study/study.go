// Package study turns the records of a run into what goes beyond its table of results: ablations, prices, loopholes, histories of
// reinforcement and the warnings that its diagnostics would have given. It knows neither run folders nor how a policy came about: episodes,
// histories and a few names go in, rows and tables come out.
package study

import "github.com/toolroute/toolroute/pkg/eval"

// Scope is what the studies of one run share.
type Scope struct {
	// Options hold the splits and methods in the order of the tables, and how intervals are made.
	Options eval.Options
	// Budget is the budget mode whose episodes are studied.
	Budget string
}
