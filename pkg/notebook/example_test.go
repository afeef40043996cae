package notebook_test

import (
	"context"
	"os"

	"github.com/toolroute/toolroute/pkg/notebook"
	"github.com/toolroute/toolroute/pkg/show"
	"github.com/toolroute/toolroute/pkg/stage"
)

// A cell is one call: the options of the settings cell, and what to show.
func ExampleShow() {
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	opts := stage.Options{Suite: "chain", Profile: "smoke", Out: dir, Log: os.Stderr}
	notebook.Show(&opts, func(_ context.Context, e *stage.Env) ([]show.Shown, error) {
		return []show.Shown{{Markdown: "suite " + e.Options.Suite + ", profile " + e.Options.Profile}}, nil
	})
	// Output: suite chain, profile smoke
}
