package toolbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
)

// The sandbox takes so many files, events and mails and then refuses, whatever an episode tries.
func TestBounds(t *testing.T) {
	s := open(t, toolbox.Initial{})
	for _, c := range []struct {
		tool, args, want string
		most             int
	}{
		{"file_write", `{"name":"f%d","text":"x"}`, "there are 64 files already", toolbox.MaxFiles},
		{"calendar_create", `{"title":"e%d","date":"2026-03-04","time":"09:00"}`, "there are 200 events already", toolbox.MaxEvents},
		{"send_email", `{"to":"ana%d","subject":"hi","body":"x"}`, "50 mails were sent already", toolbox.MaxMails},
	} {
		done := 0
		for i := range 1000 {
			_, err := s.call(c.tool, fmt.Sprintf(c.args, i))
			switch {
			case err == nil:
				done++
			case !strings.Contains(err.Error(), c.want):
				t.Fatalf("%s %d: %v", c.tool, i, err)
			}
		}
		if done != c.most {
			t.Errorf("%s worked %d times, want %d", c.tool, done, c.most)
		}
	}
	if _, err := s.call("file_write", `{"name":"f3","text":"new"}`); err != nil {
		t.Errorf("a full sandbox refuses to write a file anew: %v", err)
	}
	if o := s.state.Outcome(); len(o.Files) != toolbox.MaxFiles || len(o.Events) != toolbox.MaxEvents || len(o.Mails) != toolbox.MaxMails {
		t.Errorf("%d files, %d events, %d mails", len(o.Files), len(o.Events), len(o.Mails))
	}
	if _, err := s.call("calendar_list", `{"date":"2026-03-04"}`); err != nil {
		t.Errorf("200 events cannot be listed: %v", err)
	}
}

// A text of a gigabyte is refused by its length, and the error does not repeat it.
func TestGigabyte(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a gigabyte of memory")
	}
	s := open(t, toolbox.Initial{})
	big := strings.Repeat("x", 1<<30)
	for name, args := range map[string]map[string]any{
		"file_write": {"name": "big", "text": big}, "file_read": {"name": big}, "send_email": {"to": "ana", "subject": "hi", "body": big},
		"calculator": {"expression": big}, "calendar_list": {"date": big}, "word_count": {"text": big},
		"convert_base": {"number": big, "from": json.Number("10"), "to": json.Number("2")},
	} {
		// Not through the box, whose validator copies the text: the tool refuses it by itself.
		if _, err := world.Tools(s.state)[slices.Index(toolbox.Names(), name)].Call(t.Context(), args); err == nil || len(err.Error()) > 200 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	if o := s.state.Outcome(); !o.Equal(toolbox.Outcome{}) {
		t.Errorf("it left %v", o)
	}
}

// The outcome that observations tell is the one that the sandbox holds, also after failed calls, a file written twice and a mail sent
// twice.
func TestRebuild(t *testing.T) {
	initial := toolbox.Initial{Files: map[string]string{"old": "a", "kept": "b"}, Events: []toolbox.Event{{Title: "call", Date: "2026-01-02", Time: "09:30"}}}
	s := open(t, initial)
	mail := `{"to":"ana","subject":"hi","body":"x"}`
	for _, c := range [][2]string{
		{"file_write", `{"name":"old","text":"first"}`}, {"file_write_verified", `{"name":"old","text":"second"}`},
		{"file_write", `{"name":"../x","text":"x"}`}, {"file_write", `{"name":"新しい","text":"x"}`}, {"file_read", `{"name":"kept"}`},
		{"calendar_create", `{"title":"a","date":"2026-03-04","time":"09:00"}`}, {"calendar_list", `{"date":"2026-01-02"}`},
		{"calendar_create_verified", `{"title":"a","date":"2026-03-04","time":"09:00"}`}, {"calendar_create", `{"title":"b","date":"x","time":"09:00"}`},
		{"send_email", mail}, {"send_short_email", mail}, {"send_short_email", `{"to":"ana","subject":"hi","body":"` + strings.Repeat("x", 101) + `"}`},
	} {
		if _, err := s.call(c[0], c[1]); err != nil && !strings.Contains(c[1], "../x") && !strings.Contains(c[1], `"x","time"`) && len(c[1]) < 100 {
			t.Errorf("%s %s: %v", c[0], c[1], err)
		}
	}
	got, holds := toolbox.Rebuild(initial, s.seen), s.state.Outcome()
	h := toolbox.Hash
	want := toolbox.Outcome{
		Files:  map[string]string{"old": h("second"), "kept": h("b"), "新しい": h("x")},
		Events: []string{"a|2026-03-04|09:00", "a|2026-03-04|09:00", "call|2026-01-02|09:30"},
		Mails:  []string{"ana/" + h("hi\nx"), "ana/" + h("hi\nx")},
	}
	if !got.Equal(want) || !holds.Equal(want) {
		t.Errorf("told %v\nheld %v\nwant %v", got, holds, want)
	}
	for _, other := range []toolbox.Outcome{
		{Files: want.Files, Events: want.Events, Mails: want.Mails[:1]},
		{Files: want.Files, Events: want.Events[1:], Mails: want.Mails},
		{Files: map[string]string{"old": h("first"), "kept": h("b"), "新しい": h("x")}, Events: want.Events, Mails: want.Mails},
	} {
		if got.Equal(other) {
			t.Errorf("%v is taken for the same", other)
		}
	}
	if len(initial.Files) != 2 || initial.Files["old"] != "a" {
		t.Errorf("the episode changed what it started from: %v", initial.Files)
	}
	// An episode does not see another one's sandbox.
	if _, err := open(t, initial).call("file_read", `{"name":"新しい"}`); err == nil {
		t.Error("a second sandbox has the first one's file")
	}
}

// An outcome goes into a task's file and comes back equal.
func TestOutcomeJSON(t *testing.T) {
	for _, o := range []toolbox.Outcome{{}, {Files: map[string]string{"a": "1"}, Events: []string{"b"}, Mails: []string{"c", "c"}}} {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var got toolbox.Outcome
		if err := json.Unmarshal(b, &got); err != nil || !got.Equal(o) {
			t.Errorf("%s is read %v, %v", b, got, err)
		}
	}
}

func TestCheckInitial(t *testing.T) {
	many := map[string]string{}
	for i := range toolbox.MaxFiles + 1 {
		many[fmt.Sprint("f", i)] = "x"
	}
	event := toolbox.Event{Title: "call", Date: "2026-01-02", Time: "09:30"}
	for _, c := range []struct {
		initial toolbox.Initial
		want    string
	}{
		{toolbox.Initial{}, ""},
		{toolbox.Initial{Files: map[string]string{"a": "x"}, Events: []toolbox.Event{event}}, ""},
		{toolbox.Initial{Files: map[string]string{"../a": "x"}}, "files: name: must be a name without slashes"},
		{toolbox.Initial{Files: map[string]string{"a": strings.Repeat("x", 5000)}}, "files: a: text: has 5000 bytes"},
		{toolbox.Initial{Files: map[string]string{"a": "\xff"}}, "files: a: text: is not valid UTF-8"},
		{toolbox.Initial{Files: many}, "files: 65, at most 64"},
		{toolbox.Initial{Events: slices.Repeat([]toolbox.Event{event}, 201)}, "events: 201, at most 200"},
		{toolbox.Initial{Events: []toolbox.Event{event, {Title: "x", Date: "2026-1-2", Time: "09:30"}}}, "events[1]: date:"},
	} {
		err := c.initial.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Calls at the same time do not lose an event.
func TestConcurrentCalls(t *testing.T) {
	s := toolbox.NewState(toolbox.Initial{})
	create := world.Tools(s)[slices.Index(toolbox.Names(), "calendar_create")]
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			args := map[string]any{"title": fmt.Sprint("e", i), "date": "2026-03-04", "time": "09:00"}
			if _, err := create.Call(t.Context(), args); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if o := s.Outcome(); len(o.Events) != 100 {
		t.Errorf("%d events, want 100", len(o.Events))
	}
}

// Whatever the name of a file is: the sandbox takes it as it is and gives it back, or refuses it and is as before; it is never a path.
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"notes.txt", "../../etc/passwd", "..", "a/b", `a\b`, "日本", "e\u0301", "\x00", "\xff", " a", "a ", ".a", "a..b", "a\u2028b"} {
		f.Add(s, "text")
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		s := toolbox.NewState(toolbox.Initial{})
		tools := world.Tools(s)
		write := tools[slices.Index(toolbox.Names(), "file_write")]
		read := tools[slices.Index(toolbox.Names(), "file_read")]
		if _, err := write.Call(t.Context(), map[string]any{"name": name, "text": text}); err != nil {
			if o := s.Outcome(); len(o.Files) > 0 || len(err.Error()) > 300 {
				t.Errorf("refused with %v, left %v", err, o)
			}
			return
		}
		if strings.ContainsAny(name, "/\\\x00\n") || strings.Contains(name, "..") || len(name) > toolbox.MaxName || len(text) > toolbox.MaxText {
			t.Errorf("%q was taken", name)
		}
		if o, err := read.Call(t.Context(), map[string]any{"name": name}); err != nil || o.Text != text {
			t.Errorf("%q reads %q, %v; want %q", name, o.Text, err, text)
		}
	})
}

// A fact of an event can be told apart: title, date and time come back from it.
func FuzzEvent(f *testing.F) {
	f.Add("team lunch", "2026-03-04", "12:30")
	f.Add("a|b", "2026-03-04", "12:30")
	f.Add("x", "2026-02-30", "24:00")
	f.Add("x", "0000-01-01", "00:00")
	f.Add("\xff", "2026-03-04T00:00", "1:2")
	f.Fuzz(func(t *testing.T, title, date, at string) {
		s := toolbox.NewState(toolbox.Initial{})
		create := world.Tools(s)[slices.Index(toolbox.Names(), "calendar_create")]
		_, err := create.Call(t.Context(), map[string]any{"title": title, "date": date, "time": at})
		o := s.Outcome()
		if err != nil {
			if len(o.Events) > 0 || len(err.Error()) > 300 {
				t.Errorf("refused with %v, left %v", err, o)
			}
			return
		}
		if len(date) != 10 || len(at) != 5 || !slices.Equal(strings.Split(o.Events[0], "|"), []string{title, date, at}) {
			t.Errorf("%q %q %q is %v", title, date, at, o)
		}
	})
}
