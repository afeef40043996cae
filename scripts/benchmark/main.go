// Command benchmark measures one policy on the tasks of one split, in two stages: run plays it and keeps the final states, evaluate
// checks them, asks a judge if one is set, and writes a summary. Both go on after an interruption.
package main

import "github.com/toolroute/toolroute/pkg/stage"

func main() {
	var o stage.Options
	b := stage.BenchmarkOptions{Split: "test"}
	stage.Flags("benchmark", "play a policy on test tasks, evaluate what it did, and compare it with another one", &o, stage.BenchmarkFlags(&o, &b))
	stage.DoBenchmark(o, b)
}
