package run

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Progress prints one line. A terminal shows it rewritten, logs and notebooks get a new one every few seconds. The time left comes
// from the pace since the first report, because the first piece of work often compiles what the others use. The first report
// itself goes by the pace since the start. Progress is safe for concurrent use. The zero value and a nil pointer print nothing.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	label    string
	terminal bool
	start    time.Time
	from     time.Time // when the pace begins
	first    int       // what was done by then: resumed work does not count for the pace
	last     time.Time
	width    int
}

// NewProgress starts a line. done is what earlier runs have finished already.
func NewProgress(w io.Writer, label string, done int) *Progress {
	f, ok := w.(*os.File)
	terminal := false
	if ok {
		if st, err := f.Stat(); err == nil {
			terminal = st.Mode()&os.ModeCharDevice != 0
		}
	}
	now := time.Now()
	return &Progress{w: w, label: label, terminal: terminal, start: now, last: now, from: now, first: done}
}

// Set reports done of total; note is free text ("reward 0.71"). It prints at most every 0.2 s on a terminal, every 5 s elsewhere.
func (p *Progress) Set(done, total int, note string) {
	if p == nil || p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	now := time.Now()
	if now.Sub(p.last) >= every || done >= total {
		p.last = now
		p.print(now, done, total, note)
	}
	if p.from.Equal(p.start) && done > p.first {
		p.from, p.first = now, done
	}
}

func (p *Progress) print(now time.Time, done, total int, note string) {
	line := fmt.Sprintf("%s %d/%d", p.label, done, total)
	if total > 0 {
		line += fmt.Sprintf(" (%d%%)", 100*done/total)
	}
	if fresh := done - p.first; fresh > 0 && done < total {
		left := time.Duration(float64(now.Sub(p.from)) / float64(fresh) * float64(total-done))
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	} else if done >= total {
		line += fmt.Sprintf(", took %s", now.Sub(p.start).Round(100*time.Millisecond))
	}
	if note != "" {
		line += ", " + note
	}
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	pad := max(0, p.width-len(line))
	p.width = len(line)
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", pad))
	if done >= total {
		fmt.Fprintln(p.w)
	}
}
