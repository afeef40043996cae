package notebook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/show"
	"github.com/toolroute/toolroute/pkg/stage"
)

func TestSettingsTakeTheEnvironmentFirst(t *testing.T) {
	t.Setenv(ProfileVar, "")
	t.Setenv(OutVar, "")
	o := stage.Options{Suite: "chain", Profile: "default", Out: "here"}
	if got := Settings(o); got.Profile != "default" || got.Out != "here" || got.Suite != "chain" {
		t.Errorf("without variables: got %+v, want the cell's own", got)
	}
	t.Setenv(ProfileVar, "smoke")
	t.Setenv(OutVar, "there")
	if got := Settings(o); got.Profile != "smoke" || got.Out != "there" || got.Suite != "chain" {
		t.Errorf("with variables: got %+v, want smoke and there", got)
	}
}

func TestLiveLog(t *testing.T) {
	var html, newest string
	l := &liveLog{send: func(h, n string) { html, newest = h, n }}
	write := func(s string) {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	write("world: not ")
	if html != "" {
		t.Errorf("half a line was shown: %q", html)
	}
	write("done <yet>\n  sft: 3/10 (30%), loss 2\n")
	write("  sft: 7/10 (70%), loss 1\n")
	if want := "<pre>world: not done &lt;yet&gt;\n  sft: 7/10 (70%), loss 1</pre>"; html != want {
		t.Errorf("got %q, want %q: progress of the same work replaces its line", html, want)
	}
	if want := "  sft: 7/10 (70%), loss 1"; newest != want {
		t.Errorf("newest line: got %q, want %q", newest, want)
	}
	write("  base: 1/10 (10%)\n")
	if strings.Count(html, "\n") != 2 {
		t.Errorf("got %q, want the progress of other work on a line of its own", html)
	}
	write(strings.Repeat("x\n", 3*shownLines))
	if got := strings.Count(html, "x"); got != shownLines {
		t.Errorf("%d lines are shown, want the last %d", got, shownLines)
	}
	l.end(errors.New("failed"))
	if html == "" {
		t.Error("the log of a failed cell was taken away")
	}
	l.end(nil)
	if html != "" {
		t.Errorf("after success the log shows %q, want nothing", html)
	}
}

// The curves of a training stand above the log in its one place, are drawn anew as they grow, and go away with it.
func TestLiveCurve(t *testing.T) {
	var html, newest string
	sent := 0
	l := &liveLog{send: func(h, n string) { html, newest, sent = h, n, sent+1 }}
	run := report.TrainingRun{Name: "sft+grpo"}
	l.draw(run)
	if sent != 0 {
		t.Errorf("a curve of nothing was shown: %q", html)
	}
	if _, err := l.Write([]byte("  sft+grpo (seed 1): 3/10 (30%)\n")); err != nil {
		t.Fatal(err)
	}
	was := ""
	for i := range 5 {
		run.Records = append(run.Records, report.MetricsRecord{Step: i, Values: map[string]float64{"reward_mean": 0.1 * float64(i), "val/success": 0.2}})
		l.draw(run)
		if html == was || !strings.HasPrefix(html, "<svg ") || strings.Count(html, "<svg ") != 1 || !strings.HasSuffix(html, "3/10 (30%)</pre>") || newest != "  sft+grpo (seed 1): 3/10 (30%)" {
			t.Fatalf("after %d records: %.200q ... %q", i+1, html, newest)
		}
		was = html
	}
	for i := range 5000 {
		run.Records = append(run.Records, report.MetricsRecord{Step: 5 + i, Values: map[string]float64{"reward_mean": 0.5}})
	}
	l.draw(run)
	if len(html) > 60_000 {
		t.Errorf("a long training is sent as %d bytes", len(html))
	}
	l.end(nil)
	if html != "" {
		t.Errorf("after success %.100q is shown", html)
	}
}

func TestWarningsHaveNoTime(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: withoutTime})).Warn("equal rewards", "update", 3)
	if got, want := b.String(), "level=WARN msg=\"equal rewards\" update=3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShowAllStopsAtTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	said := func(s string) show.Exhibit {
		return func(context.Context, *stage.Env) ([]show.Shown, error) { return []show.Shown{{Markdown: s}}, nil }
	}
	var got []string
	err := showAll(t.Context(), nil, []show.Exhibit{said("a"), func(context.Context, *stage.Env) ([]show.Shown, error) { return nil, broken }, said("b")},
		func(s show.Shown) error { got = append(got, s.Markdown); return nil })
	if !errors.Is(err, broken) || len(got) != 1 || got[0] != "a" {
		t.Errorf("got %v and %q, want the failure and what was shown before it", err, got)
	}
}

func TestPrint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs.png")
	if err := os.WriteFile(file, []byte("picture"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := print(&b, show.Shown{Markdown: "| a |"}); err != nil {
		t.Fatal(err)
	}
	if err := print(&b, show.Shown{Picture: file}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "| a |\npicture: "+file+" (sha256 "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
	if err := print(&b, show.Shown{Picture: file + "x"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing picture: got %v, want that it does not exist", err)
	}
}
