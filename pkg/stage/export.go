package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/export"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/tiny"
)

// ExportOptions are what the script export takes beside Options.
type ExportOptions struct {
	To     string // the folder
	Demos  string // a kind of demonstrations; empty is the suite's first
	Pairs  string // a kind of preferences; empty is the suite's first, where it has any
	Format string // jsonl, parquet or all
}

// ExportFlags adds the flags of the script to those of every script.
func ExportFlags(x *ExportOptions) func(*flag.FlagSet) {
	return func(fs *flag.FlagSet) {
		fs.StringVar(&x.To, "to", x.To, "the `folder` that the tables are written into")
		fs.StringVar(&x.Demos, "demos", x.Demos, "the `kind` of demonstrations (default: the suite's first)")
		fs.StringVar(&x.Pairs, "pairs", x.Pairs, "the `kind` of preferences (default: the suite's first, where it has any)")
		fs.StringVar(&x.Format, "format", x.Format, "the `format`: jsonl, parquet or all")
	}
}

// Export writes the suite's tasks, demonstrations and preferences as tables for other programs. The files of an earlier export in the folder are
// replaced.
func (e *Env) Export(ctx context.Context, x ExportOptions) error {
	d := e.Definition
	if x.To == "" {
		return errors.New("--to is empty: name the folder that the tables are written into")
	}
	formats := []string{x.Format}
	if x.Format == "all" {
		formats = export.Formats()
	} else if !slices.Contains(export.Formats(), x.Format) {
		return fmt.Errorf("--format %q: want one of %s, all", x.Format, strings.Join(export.Formats(), ", "))
	}
	if x.Demos == "" {
		x.Demos = d.Demos[0]
	}
	if x.Pairs == "" && len(d.Pairs) > 0 {
		x.Pairs = d.Pairs[0]
	}
	switch {
	case !slices.Contains(d.Demos, x.Demos):
		return fmt.Errorf("--demos %q: suite %s has %s", x.Demos, d.Name, strings.Join(d.Demos, ", "))
	case x.Pairs != "" && len(d.Pairs) == 0:
		return fmt.Errorf("--pairs %q: suite %s has no preferences", x.Pairs, d.Name)
	case x.Pairs != "" && !slices.Contains(d.Pairs, x.Pairs):
		return fmt.Errorf("--pairs %q: suite %s has %s", x.Pairs, d.Name, strings.Join(d.Pairs, ", "))
	}
	if err := export.CheckFolder(x.To); err != nil {
		return err
	}
	s, err := e.Suite(ctx)
	if err != nil {
		return err
	}
	m := export.Manifest{Suite: d.Name, Profile: e.Options.Profile, Seed: e.Config.Seed, Settings: e.Config.Suite, Demos: x.Demos, Pairs: x.Pairs}
	tasks, err := export.Tasks(s, s.Splits())
	if err != nil {
		return err
	}
	demos, err := s.Demonstrations(ctx, x.Demos, e.Config.Seed)
	if err != nil {
		return err
	}
	played, err := tiny.Play(ctx, s, demos, e.Config.Episode)
	if err != nil {
		return err
	}
	if err := writeTable(&m, x.To, "tasks", formats, tasks); err != nil {
		return err
	}
	if err := writeTable(&m, x.To, "demonstrations", formats, export.Demonstrations(conversations(played))); err != nil {
		return err
	}
	if x.Pairs != "" {
		chosen, rejected, err := e.preferences(ctx, config.Recipe{Pairs: x.Pairs}, e.Config.Seed)
		if err != nil {
			return err
		}
		pairs, err := export.Preferences(conversations(chosen), conversations(rejected))
		if err != nil {
			return err
		}
		if err := writeTable(&m, x.To, "preferences", formats, pairs); err != nil {
			return err
		}
	}
	if err := run.WriteJSON(filepath.Join(x.To, export.ManifestFile), m); err != nil {
		return err
	}
	for _, f := range m.Files {
		e.Logf("%s: %d rows", filepath.Join(x.To, f.Name), f.Rows)
	}
	return nil
}

func conversations(played []tiny.Played) []export.Episode {
	out := make([]export.Episode, len(played))
	for i, p := range played {
		out[i] = export.Episode{TaskID: p.Trajectory.Task.ID, Cost: p.Trajectory.Outcome.Spend.Float(), Messages: chat.Conversation(p.Prompt.System, p.Prompt.User, p.Exchanges())}
	}
	return out
}

func writeTable[T any](m *export.Manifest, dir, name string, formats []string, rows []T) error {
	for _, format := range formats {
		file, err := export.Write(dir, name, format, rows)
		if err != nil {
			return err
		}
		hash, err := run.HashFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, export.ExportedFile{Name: file, Rows: len(rows), SHA256: hash})
	}
	return nil
}
