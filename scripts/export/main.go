// Command export writes a suite's tasks, demonstrations and preferences as JSON lines and Parquet, in the conversational formats that TRL reads.
package main

import (
	"context"

	"github.com/toolroute/toolroute/pkg/stage"
)

func main() {
	var o stage.Options
	x := stage.ExportOptions{Format: "all"}
	stage.Flags("export", "write a suite's tasks, demonstrations and preferences for other programs", &o, stage.ExportFlags(&x))
	stage.Do(o, func(ctx context.Context, e *stage.Env) error { return e.Export(ctx, x) })
}
