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

func TestWarningsHaveNoTime(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: withoutTime})).Warn("equal rewards", "update", 3)
	if got, want := b.String(), "level=WARN msg=\"equal rewards\" update=3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShowAllStopsAtTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	said := func(s string) stage.Exhibit {
		return func(context.Context, *stage.Env) ([]stage.Shown, error) { return []stage.Shown{{Markdown: s}}, nil }
	}
	var got []string
	err := showAll(t.Context(), nil, []stage.Exhibit{said("a"), func(context.Context, *stage.Env) ([]stage.Shown, error) { return nil, broken }, said("b")},
		func(s stage.Shown) error { got = append(got, s.Markdown); return nil })
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
	if err := print(&b, stage.Shown{Markdown: "| a |"}); err != nil {
		t.Fatal(err)
	}
	if err := print(&b, stage.Shown{Picture: file}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "| a |\npicture: "+file+" (sha256 "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
	if err := print(&b, stage.Shown{Picture: file + "x"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing picture: got %v, want that it does not exist", err)
	}
}
