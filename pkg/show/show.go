// Package show makes what notebooks show: tables, pictures and sentences, in which every number is computed from the results of a run. An
// exhibit runs the stages that it shows where they were not run yet. It computes nothing that a stage stores.
package show

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/table"
)

// view is a run that exhibits look at.
type view struct{ *stage.Env }

// Shown is one thing to look at: a text, or a picture in a file.
type Shown struct {
	Markdown string
	Picture  string // path of a PNG file
}

// Exhibit is what a cell of a notebook does: it runs the stage it shows if that was not run yet, and returns tables,
// pictures and sentences, in which every number is computed from the results.
type Exhibit func(ctx context.Context, e *stage.Env) ([]Shown, error)

func text(format string, a ...any) []Shown { return []Shown{{Markdown: fmt.Sprintf(format, a...)}} }

// picture stores a PNG below the folder that notebooks draw into.
func (e view) picture(name string, png []byte) ([]Shown, error) {
	file := e.Run.Path("notebook", name+".png")
	if err := run.WriteFile(file, png); err != nil {
		return nil, err
	}
	return []Shown{{Picture: file}}, nil
}

// grid is a markdown table whose first left columns are texts and whose others are numbers.
func grid(left int, header []string, lines [][]string) string {
	return (&table.Table{Header: header, Lines: lines, Left: left}).Markdown()
}

// bullets writes sentences as a list.
func bullets(lines []string) []Shown {
	return text("- %s\n", strings.Join(lines, "\n- "))
}

// Picture shows a picture that an earlier exhibit or stage left in the run folder, by its slash-separated name.
func Picture(name string) Exhibit {
	return func(_ context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		folder, base := path.Split(name)
		file, err := e.MadeNow(path.Clean(folder), base+".png")
		if err != nil {
			return nil, err
		}
		return []Shown{{Picture: file}}, nil
	}
}
