package toolbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/tool"
)

// Bounds of a sandbox and of what one call puts into it.
const (
	MaxFiles     = 64
	MaxText      = 4096 // bytes of a file, and of any text that a tool takes
	MaxEvents    = 200
	MaxMails     = 50
	MaxName      = 64  // bytes of a file's name, a title or an address
	MaxShortBody = 100 // characters of a mail that send_short_email sends
)

// Event is one entry of the calendar.
type Event struct {
	Title string `json:"title"`
	Date  string `json:"date"` // 2026-03-04
	Time  string `json:"time"` // 09:30
}

func (e Event) fact() string { return e.Title + "|" + e.Date + "|" + e.Time }

// Initial is what a sandbox holds before an episode.
type Initial struct {
	Files  map[string]string `json:"files,omitempty"` // text by name
	Events []Event           `json:"events,omitempty"`
}

// Check says whether a sandbox can start so: the bounds hold, names and times are such as the tools accept.
func (i Initial) Check() error {
	if len(i.Files) > MaxFiles {
		return fmt.Errorf("files: %d, at most %d", len(i.Files), MaxFiles)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Files)) {
		if err := checkName(name); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		if err := checkText("text", i.Files[name]); err != nil {
			return fmt.Errorf("files: %s: %w", name, err)
		}
	}
	if len(i.Events) > MaxEvents {
		return fmt.Errorf("events: %d, at most %d", len(i.Events), MaxEvents)
	}
	for n, e := range i.Events {
		if err := e.check(); err != nil {
			return fmt.Errorf("events[%d]: %w", n, err)
		}
	}
	return nil
}

// State is the sandbox of one episode: files, events and mails in memory. It is safe for concurrent use.
type State struct {
	mu     sync.Mutex
	files  map[string]string
	events []Event
	mails  []string // facts
}

// NewState starts a sandbox. What Check refuses must not be given.
func NewState(initial Initial) *State {
	s := &State{files: maps.Clone(initial.Files), events: slices.Clone(initial.Events)}
	if s.files == nil {
		s.files = map[string]string{}
	}
	return s
}

// Outcome is what a sandbox holds, with texts as hashes: what a task's final state is compared by.
type Outcome struct {
	Files  map[string]string `json:"files,omitempty"`  // Hash of the text, by name
	Events []string          `json:"events,omitempty"` // TITLE|DATE|TIME, sorted
	Mails  []string          `json:"mails,omitempty"`  // TO/HASH, in the order of sending
}

// Equal reports whether two sandboxes hold the same. An event or mail that is there twice is not the same as once.
func (o Outcome) Equal(other Outcome) bool {
	return maps.Equal(o.Files, other.Files) && slices.Equal(o.Events, other.Events) && slices.Equal(o.Mails, other.Mails)
}

// Outcome is what the sandbox holds now.
func (s *State) Outcome() Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := outcome(Initial{s.files, s.events})
	o.Mails = slices.Clone(s.mails)
	return o
}

func outcome(i Initial) Outcome {
	var o Outcome
	for name, text := range i.Files {
		o.write(name, Hash(text))
	}
	for _, e := range i.Events {
		o.Events = append(o.Events, e.fact())
	}
	slices.Sort(o.Events)
	return o
}

func (o *Outcome) write(name, hash string) {
	if o.Files == nil {
		o.Files = map[string]string{}
	}
	o.Files[name] = hash
}

// Rebuild is the outcome of an episode that started so and in which these observations were made, in order. It reads the facts that
// tools state and nothing else.
func Rebuild(initial Initial, seen []tool.Observation) Outcome {
	o := outcome(initial)
	for _, obs := range seen {
		for _, r := range obs.Reads {
			for _, fact := range r.From {
				kind, rest, _ := strings.Cut(fact, "/")
				switch kind {
				case "file_write":
					name, hash, _ := strings.Cut(rest, "/")
					o.write(name, hash)
				case "event":
					o.Events = append(o.Events, rest)
				case "mail":
					o.Mails = append(o.Mails, rest)
				}
			}
		}
	}
	slices.Sort(o.Events)
	return o
}

// checkName keeps names of files plain: letters of any script, digits, and - _ . and spaces within. None is a path.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("name: must not be empty")
	case len(name) > MaxName:
		return fmt.Errorf("name: has %d bytes, at most %d", len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("name: is not valid UTF-8")
	case strings.ContainsAny(name, `/\`) || strings.Contains(name, ".."):
		return fmt.Errorf("name: must be a name without slashes and without .., not a path")
	case strings.HasPrefix(name, ".") || strings.TrimSpace(name) != name:
		return fmt.Errorf("name: must start with a letter or digit and not end with a space")
	}
	return plain("name", name, "-_. ")
}

// plain allows letters with their marks, digits and the listed signs.
func plain(arg, text, signs string) error {
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune(signs, r) {
			return fmt.Errorf("%s: has %q, only letters, digits and %s are used", arg, r, strings.TrimSpace(signs))
		}
	}
	return nil
}

func checkText(arg, text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("%s: has %d bytes, at most %d", arg, len(text), MaxText)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s: is not valid UTF-8", arg)
	}
	return nil
}

func (e Event) check() error {
	if key(e.Title) == "" || len(e.Title) > MaxName || !utf8.ValidString(e.Title) {
		return fmt.Errorf("title: must have 1 to %d bytes of text", MaxName)
	}
	if err := plain("title", e.Title, "-_.,:'&() "); err != nil {
		return err
	}
	if _, err := parseDate("date", e.Date); err != nil {
		return err
	}
	return checkTime(e.Time)
}
