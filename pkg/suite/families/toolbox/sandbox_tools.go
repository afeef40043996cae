package toolbox

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/tool"
)

func fileWrite(verified bool) run {
	return func(_ *World, s *State, a arguments) (tool.Observation, error) {
		name, content := a.text("name"), a.text("text")
		if err := checkName(name); err != nil {
			return failed(err)
		}
		if err := checkText("text", content); err != nil {
			return failed(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, there := s.files[name]; !there && len(s.files) >= MaxFiles {
			return failed(fmt.Errorf("there are %d files already, no more fit", MaxFiles))
		}
		s.files[name] = content
		fact := name + "/" + Hash(content)
		t := new(text).state("written", "file_write/"+fact)
		if verified {
			t.say("; it reads: ").state(s.files[name], "file_read/"+fact)
		}
		return t.done()
	}
}

func fileRead(_ *World, s *State, a arguments) (tool.Observation, error) {
	name := a.text("name")
	if err := checkName(name); err != nil {
		return failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.files[name]
	if !ok {
		return failed(fmt.Errorf("no file %q", name))
	}
	return stated(content, "file_read/"+name+"/"+Hash(content))
}

func calendarCreate(verified bool) run {
	return func(_ *World, s *State, a arguments) (tool.Observation, error) {
		e := Event{a.text("title"), a.text("date"), a.text("time")}
		if err := e.check(); err != nil {
			return failed(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.events) >= MaxEvents {
			return failed(fmt.Errorf("there are %d events already, no more fit", MaxEvents))
		}
		s.events = append(s.events, e)
		t := new(text).state("created", "event/"+e.fact())
		if verified {
			t.say("; the day has: ").state(e.Time+" "+e.Title, "event_list/"+e.fact())
		}
		return t.done()
	}
}

func calendarList(_ *World, s *State, a arguments) (tool.Observation, error) {
	date := a.text("date")
	if _, err := parseDate("date", date); err != nil {
		return failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	day := slices.DeleteFunc(slices.Clone(s.events), func(e Event) bool { return e.Date != date })
	if len(day) == 0 {
		return stated("no events", "event_list/"+date)
	}
	slices.SortStableFunc(day, func(x, y Event) int { return strings.Compare(x.Time+x.Title, y.Time+y.Title) })
	var t text
	for _, e := range day {
		t.next().state(e.Time+" "+e.Title, "event_list/"+e.fact())
	}
	return t.done()
}

func sendMail(short bool) run {
	return func(_ *World, s *State, a arguments) (tool.Observation, error) {
		to, subject, body := a.text("to"), a.text("subject"), a.text("body")
		switch {
		case to == "" || len(to) > MaxName || !utf8.ValidString(to):
			return failed(fmt.Errorf("to: must have 1 to %d bytes", MaxName))
		case len(subject) > 2*MaxName || !utf8.ValidString(subject) || strings.ContainsAny(subject, "\r\n"):
			return failed(fmt.Errorf("subject: must be one line of at most %d bytes", 2*MaxName))
		}
		if err := plain("to", to, "@.-_+"); err != nil {
			return failed(err)
		}
		if err := checkText("body", body); err != nil {
			return failed(err)
		}
		if n := utf8.RuneCountInString(body); short && n > MaxShortBody {
			return failed(fmt.Errorf("body: has %d characters, at most %d, use send_email", n, MaxShortBody))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.mails) >= MaxMails {
			return failed(fmt.Errorf("%d mails were sent already, no more are", MaxMails))
		}
		mail := to + "/" + Hash(subject+"\n"+body)
		s.mails = append(s.mails, mail)
		return stated("sent", "mail/"+mail)
	}
}
