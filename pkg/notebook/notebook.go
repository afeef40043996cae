// Package notebook runs the cells of the numbered notebooks and shows what they give. The same cell works in a GoNB kernel,
// where tables and pictures appear below it and a long stage shows its progress there, and in a headless Go program, where
// tables go to standard output, progress to standard error, and pictures are named by the file that holds them. It computes
// nothing: a cell is a list of exhibits of package show. How a notebook and its script are kept the same is the concern of
// package cells.
package notebook

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/show"
	"github.com/toolroute/toolroute/pkg/stage"
)

// Environment variables that take precedence over the settings cell, so that the committed notebooks can be executed on
// small data in another folder without an edit.
const (
	ProfileVar = "TOOLROUTE_PROFILE"
	OutVar     = "TOOLROUTE_OUT"
)

// Settings returns the options of a settings cell with those that the environment sets instead.
func Settings(o stage.Options) stage.Options {
	o.Profile = cmp.Or(os.Getenv(ProfileVar), o.Profile)
	o.Out = cmp.Or(os.Getenv(OutVar), o.Out)
	return o
}

// Show opens the run that the options describe, makes the exhibits in order and shows each as soon as it is made. It is the
// body of a cell: a failure ends the process with a message and a status other than 0. The run is opened anew for every
// cell, because cells of a notebook share files, not memory; a run that is to begin afresh does so once.
func Show(o *stage.Options, exhibits ...show.Exhibit) {
	opts := *o
	o.Fresh = false
	var log *liveLog
	if gonbui.IsNotebook {
		log = &liveLog{send: sendLog(gonbui.UniqueId())}
		log.send("", "") // reserves its place, above everything else that the cell shows
		opts.Log, opts.Curve = log, log.draw
		// Warnings are kept: they belong to the results.
		slog.SetDefault(slog.New(slog.NewTextHandler(io.MultiWriter(log, &log.warnings), &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime})))
	}
	stage.Do(opts, func(ctx context.Context, e *stage.Env) error {
		err := showAll(ctx, e, exhibits, put)
		if log != nil {
			log.end(err)
			if w := log.warnings.String(); w != "" && err == nil {
				gonbui.DisplayMarkdown("```text\n" + w + "```\n")
			}
			gonbui.Sync() // the process may end right after: wait until all output has reached the kernel
		}
		return err
	})
}

// withoutTime drops the time of a record, which would make every execution differ.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func showAll(ctx context.Context, e *stage.Env, exhibits []show.Exhibit, put func(show.Shown) error) error {
	for _, x := range exhibits {
		shown, err := x(ctx, e)
		if err != nil {
			return err
		}
		for _, s := range shown {
			if err := put(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func put(s show.Shown) error {
	if !gonbui.IsNotebook {
		return print(os.Stdout, s)
	}
	if s.Markdown != "" {
		gonbui.DisplayMarkdown(s.Markdown)
	}
	if s.Picture == "" {
		return nil
	}
	b, err := os.ReadFile(s.Picture)
	if err != nil {
		return err
	}
	gonbui.DisplayPNG(b)
	return gonbui.Error()
}

// print writes a table as it stands, and where a picture lies.
func print(w io.Writer, s show.Shown) error {
	if s.Markdown != "" {
		if _, err := fmt.Fprintf(w, "%s\n", s.Markdown); err != nil {
			return err
		}
	}
	if s.Picture == "" {
		return nil
	}
	sum, err := run.HashFile(s.Picture)
	if err == nil {
		_, err = fmt.Fprintf(w, "picture: %s (sha256 %.12s)\n\n", s.Picture, sum)
	}
	return err
}

// sendLog shows the log below the cell, in one place that is rewritten. The plain text is the newest line, for programs that follow an
// execution without a browser.
func sendLog(id string) func(html, newest string) {
	return func(html, newest string) {
		gonbui.SendData(&protocol.DisplayData{DisplayID: "log-" + id,
			Data: map[protocol.MIMEType]any{protocol.MIMETextHTML: html, protocol.MIMETextPlain: newest}})
	}
}
