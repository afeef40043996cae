// Command publish copies the results of a finished run (tables, plots, a sample of trajectories, the manifest) from the run folder
// to results/<suite>, which is committed.
package main

import (
	"context"

	"github.com/toolroute/toolroute/pkg/stage"
)

func main() {
	var o stage.Options
	stage.Flags("publish", "copy a finished run's tables, plots, sample and manifest to results/", &o)
	stage.Do(o, func(ctx context.Context, e *stage.Env) error { return e.Publish(ctx) })
}
