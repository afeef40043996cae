// Command repro runs every stage of a suite in order: world, baselines, training, reward profiles and gate, evaluation,
// report. It skips stages that are done, and continues interrupted ones.
package main

import "github.com/toolroute/toolroute/pkg/stage"

func main() {
	var o stage.Options
	stage.Flags("repro", "run all stages of a suite and leave its report in the run folder", &o)
	stage.Do(o, stage.All)
}
