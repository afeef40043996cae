package stage_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/show"
	"github.com/toolroute/toolroute/pkg/stage"
)

// text is the text of an exhibit, and the files of its pictures.
func text(t *testing.T, e *stage.Env, x show.Exhibit) (markdown string, pictures []string) {
	t.Helper()
	shown, err := x(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shown {
		markdown += s.Markdown + "\n"
		if s.Picture != "" {
			pictures = append(pictures, s.Picture)
		}
	}
	return markdown, pictures
}

// A cell shows only what was made with its settings. It never shows a picture of earlier settings:
// it says that the picture has to be made again.
func TestPicturesOfOtherSettings(t *testing.T) {
	out := t.TempDir()
	open := func(set ...string) *stage.Env {
		t.Helper()
		e, err := stage.Open(stage.Options{Suite: "chain", Profile: "smoke", Out: out, Log: io.Discard, Set: append([]string{"eval.resamples=50", "train=[sft_lazy+grpo]"}, set...)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	later := map[string]show.Exhibit{"picture": show.Picture("notebook/baselines/cost_vs_success"), "report's picture": show.Picture("test_vs_heldout_bars"), "routing": show.Routing,
		"episodes": show.Trajectories, "history": show.History(), "warnings": show.Warnings(), "curves": show.Curves(), "training findings": show.TrainingFindings}
	first := open()
	if _, err := show.Baselines(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := first.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	stage.Leave(t, first, "sft_lazy+grpo", 1)
	same, other := open(), open("eval.n_tasks=7", "grpo.iterations=1")
	for name, x := range later {
		if _, err := x(t.Context(), same); err != nil {
			t.Errorf("%s, with the settings that it was made with: %v", name, err)
		}
		if _, err := x(t.Context(), other); !errors.Is(err, stage.ErrOtherSettings) || !strings.Contains(err.Error(), "made with other settings: run the cell above") {
			t.Errorf("%s, after a change of settings: %v", name, err)
		}
	}
	// A setting that decides nothing that is shown changes nothing.
	if _, err := show.Picture("test_vs_heldout_bars")(t.Context(), open("checkpoints.max_mb=1")); err != nil {
		t.Error(err)
	}
	// The files of a report that was broken off do not count as whole.
	if err := first.Making(".", func() error { return errors.New("broken off") }); err == nil {
		t.Fatal("no error")
	}
	if _, err := show.Picture("test_vs_heldout_bars")(t.Context(), first); !errors.Is(err, stage.ErrOtherSettings) {
		t.Errorf("after a broken report: %v", err)
	}
}

func TestReinforcementExhibits(t *testing.T) {
	e := stage.Small(t, "train=[sft_lazy+grpo, polished+grpo]", stage.Bounds)
	for name, x := range map[string]show.Exhibit{"history": show.History(), "warnings": show.Warnings()} {
		if got, pictures := text(t, e, x); len(pictures) != 0 || !strings.HasPrefix(got, "No history") && !strings.HasPrefix(got, "There is nothing") {
			t.Errorf("%s before anything was trained: %d pictures, %q", name, len(pictures), got)
		}
	}
	stage.Leave(t, e, "polished+grpo", 1)
	got, pictures := text(t, e, show.History("polished+grpo"))
	if len(pictures) != 1 || !strings.HasSuffix(pictures[0], "history_polished+grpo.png") {
		t.Errorf("pictures %v, want one of the recipe", pictures)
	}
	for _, want := range []string{"| polished+grpo | val | greedy | 0.250 | 0.750 (5) | 0.125 (8) |", "| polished+grpo | val | sampled at 0.7 | 0.500 | 0.625 (5) | 0.000 (8) |", "The chain rate"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to hold %q", got, want)
		}
	}
	if got, pictures := text(t, e, show.History("sft_lazy+grpo")); len(pictures) != 0 {
		t.Errorf("a recipe that was not trained has a picture: %s", got)
	}
	if got, _ := text(t, e, show.Warnings()); !strings.Contains(got, "| polished+grpo | kl | announced | 1 | 8 | 0.6, 0.7, 0.1 | 5 | above 0.1 | 0.3 | 3 | 2 |") {
		t.Errorf("got\n%s\nwant kl to announce the collapse", got)
	}
	silent := stage.Small(t, "train=[polished+grpo]", "warnings.max_kl=0", "warnings.min_entropy=0", "warnings.max_clip=0", "warnings.max_grad_norm=0")
	stage.Leave(t, silent, "polished+grpo", 1)
	if got, _ := text(t, silent, show.Warnings()); !strings.HasPrefix(got, "There is nothing") {
		t.Errorf("all bounds are off: got\n%s", got)
	}
}
