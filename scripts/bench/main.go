// Command bench measures tokens per second of prefill, decoding and training on the backend that models use on this machine, and
// prints one JSON document. With --markdown it writes tables into a Markdown file. They come from a new measurement, or with --from
// from the JSON of an earlier one.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/toolroute/toolroute/pkg/bench"
	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/run"
)

func main() {
	quick := flag.Bool("quick", false, "a smoke run of seconds: short prompts, small batches of training")
	backend := flag.String("backend", "auto", "the `backend`: auto, xla:cuda, xla:cpu or go")
	out := flag.String("out", "", "write the JSON to this `file` instead of the terminal")
	from := flag.String("from", "", "measure nothing, read the JSON of this `file`")
	markdown := flag.String("markdown", "", "replace the tables of this Markdown `file`")
	limit := flag.Duration("limit", 0, "stop repeating disturbed timings after this `time` (default 8m)")
	flag.Parse()
	if err := do(*backend, *out, *from, *markdown, bench.Options{TimeLimit: *limit}, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func do(backend, out, from, markdown string, opt bench.Options, quick bool) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; flags begin with --", flag.Arg(0))
	}
	var r bench.Report
	var err error
	if from != "" {
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	} else if r, err = measure(backend, opt, quick); err != nil {
		return err
	}
	if markdown != "" {
		b, err := os.ReadFile(markdown)
		if err == nil {
			b, err = bench.Insert(b, r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", markdown, err)
		}
		if err := run.WriteFile(markdown, b); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	switch {
	case out != "":
		return run.WriteFile(out, b)
	case from == "":
		_, err = os.Stdout.Write(b)
	}
	return err
}

func measure(backend string, opt bench.Options, quick bool) (bench.Report, error) {
	c, err := config.Load("company", "default", "", nil)
	if err != nil {
		return bench.Report{}, err
	}
	b, err := lm.OpenBackend(backend)
	if err != nil {
		return bench.Report{}, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	opt.Log = func(format string, a ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", a...) }
	opt.Log("backend %s: %s", b.Kind, b.Why)
	if quick {
		opt.TimeLimit = 1 // disturbed timings are kept
	}
	r, err := bench.Run(ctx, b, bench.Standard(c.Tiny.Model, c.SFT.Batch.MicroBatchSize, c.SFT.Batch.Lengths, quick), opt)
	for _, c := range r.Checks {
		if !c.Pass {
			opt.Log("%s: only %.1f times, want %.1f", c.Name, c.Value, c.Want)
		}
	}
	return r, err
}
