package notebook

import (
	"html"
	"regexp"
	"strings"
	"sync"

	"github.com/toolroute/toolroute/pkg/report"
)

// shownLines is how much of the log a running cell shows.
const shownLines = 12

// liveLog is what the stages of a running cell write to: the last lines are shown while it runs and go away when it has
// succeeded, so that an executed notebook is the same whether a stage ran or was done before, and however long it took.
// After a failure they stay.
type liveLog struct {
	mu    sync.Mutex
	send  func(html, newest string)
	lines []string
	part  string // a line that has not ended yet
	// curve is the picture of a training in progress, shown above the lines.
	curve  string
	newest string
	// warnings are what the stages logged at level warn or above.
	warnings lockedBuffer
}

func (l *liveLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(l.part+string(b), "\n")
	l.part = lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	for _, line := range lines {
		if n := len(l.lines); n > 0 && sameProgress(l.lines[n-1], line) {
			l.lines = l.lines[:n-1]
		}
		l.lines = append(l.lines, line)
	}
	if len(lines) > 0 {
		l.lines = l.lines[max(0, len(l.lines)-shownLines):]
		l.newest = lines[len(lines)-1]
		l.show()
	}
	return len(b), nil
}

// show sends the picture and the lines. The lock is held.
func (l *liveLog) show() {
	l.send(l.curve+"<pre>"+html.EscapeString(strings.Join(l.lines, "\n"))+"</pre>", l.newest)
}

// draw shows the curves of a training in progress: in the place of the log, so that one picture is drawn again and again and none is
// left when the cell has succeeded.
func (l *liveLog) draw(run report.TrainingRun) {
	svg, err := report.LiveSVG(run)
	if err != nil || svg == nil { // nothing to show yet; the training goes on
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.curve = string(prologue.ReplaceAll(svg, []byte("$1")))
	l.show()
}

// prologue matches what stands before the svg element in a file.
var prologue = regexp.MustCompile(`(?s)^.*?(<svg )`)

// end takes the log away, unless the cell failed. Its empty place stays, whether anything was written or not, so that the
// outputs do not depend on what was done before.
func (l *liveLog) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.send("", "")
	}
}

// counted is the beginning of a progress line: its label and "done/total".
var counted = regexp.MustCompile(`^(.*?)\d+/\d+ \(`)

// sameProgress reports whether two lines are the progress of the same work.
func sameProgress(a, b string) bool {
	x, y := counted.FindStringSubmatch(a), counted.FindStringSubmatch(b)
	return x != nil && y != nil && x[1] == y[1]
}

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
