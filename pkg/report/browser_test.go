package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// browser drives a headless Chromium over the DevTools protocol on a pair of pipes: messages are JSON, ended by a zero
// byte. Nothing but the standard library and the browser is needed.
type browser struct {
	t       *testing.T
	out     *os.File
	in      *bufio.Reader
	session string
	id      int
	events  []string // methods of the events that came, with their text where they have one
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

func chromium(t *testing.T) string {
	if p := os.Getenv("TOOLROUTE_CHROMIUM"); p != "" {
		return p
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	t.Skip("no chromium, chromium-browser or google-chrome on PATH and TOOLROUTE_CHROMIUM is not set: the page is not tested in a browser")
	return ""
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := chromium(t)
	toBrowser, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "toolroute-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4 of the browser
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, out: out, in: bufio.NewReaderSize(in, 1<<20)}
	t.Cleanup(func() {
		out.Close() // the browser ends with its pipe
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-done
		}
		in.Close()
		os.RemoveAll(profile) // may leave something where a child of the browser still writes; not the test's concern
	})
	if err := in.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		t.Fatal(err)
	}
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call sends a command and waits for its answer; events that come before it are kept.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	msg := map[string]any{"id": b.id, "method": method}
	if params != nil {
		msg["params"] = params
	}
	if b.session != "" {
		msg["sessionId"] = b.session
	}
	raw, err := json.Marshal(msg)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.out.Write(append(raw, 0)); err != nil {
		b.t.Fatalf("browser: %s: %v", method, err)
	}
	for {
		m := b.read(method)
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("browser: %s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("browser: %s: %v", method, err)
			}
		}
		return
	}
}

func (b *browser) read(during string) message {
	b.t.Helper()
	raw, err := b.in.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("browser: during %s: %v", during, err)
	}
	var m message
	if err := json.Unmarshal(raw[:len(raw)-1], &m); err != nil {
		b.t.Fatalf("browser: during %s: %v", during, err)
	}
	if m.Method != "" {
		b.events = append(b.events, m.Method+" "+string(m.Params))
	}
	return m
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for {
		for _, e := range b.events {
			if strings.HasPrefix(e, "Page.loadEventFired") {
				return
			}
		}
		b.read("load")
	}
}

// js evaluates an expression in the page; a promise is waited for.
func js[T any](b *browser, expression string) T {
	b.t.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		b.t.Fatalf("browser: %s: %s %s", expression, e.Text, e.Exception.Description)
	}
	var v T
	if err := json.Unmarshal(r.Result.Value, &v); err != nil {
		b.t.Fatalf("browser: %s gives %s: %v", expression, r.Result.Value, err)
	}
	return v
}

// press sends a real key: the browser moves the focus and activates buttons itself.
func (b *browser) press(key string) {
	b.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, "ArrowDown": 40, "ArrowUp": 38, "PageDown": 34, "/": 191}[key]
	params := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	switch key {
	case "Enter":
		params["text"] = "\r"
	case "/":
		params["text"] = "/"
	}
	b.call("Input.dispatchKeyEvent", params, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

func (b *browser) width(w int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": w, "height": 740, "deviceScaleFactor": 1, "mobile": w < 600}, nil)
}

// hostile is a text that must stay a text wherever it is shown.
const hostile = "<script>alert(1)</script> </script><img src=x onerror=alert(2)> \"'` & <!-- \u2028 \U0001f642 ]]> {{.}} ${1}"

// hostileRun has n episodes of two methods; everything a model, a corpus or a config could write is hostile.
func hostileRun(n int) []trajectory.Trajectory {
	trs := make([]trajectory.Trajectory, n)
	for i := range trs {
		method, answer := "sft+grpo", "4821"
		if i%4 == 0 {
			method, answer = hostile, "17 "+hostile
		}
		t := newEpisode(method, fmt.Sprintf("task-%05d", i), []string{"doc_search", "sql_query"}[i%2], answer, "doc_search", "sql_query")
		t.Task.Question = fmt.Sprintf("Question %d? %s", i, hostile)
		t.Task.Template, t.Task.Tags = hostile, []string{hostile}
		t.Turns[0].Text, t.Turns[0].Observation = hostile, hostile+" passage "+strings.Repeat("lorem ipsum ", 40)
		if i == 7777%n {
			t.Turns[1].Observation = "the one Needle in the haystack"
		}
		trs[i] = t
	}
	return trs
}

func hostilePage(t *testing.T, n int) (url string, size int) {
	t.Helper()
	trs := hostileRun(n)
	in := Input{Title: "Page " + hostile, Headline: "sft+grpo", Trajectories: trs, Notes: []string{hostile}, Manifest: []byte(hostile)}
	in.Options.Resamples = 50
	var err error
	if in.Collected, err = eval.Collect(trs, nil); err != nil {
		t.Fatal(err)
	}
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, files["report.html"], 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path, len(files["report.html"])
}

func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	b := startBrowser(t)
	const n = 10000
	url, size := hostilePage(t, n)
	b.width(1200)
	start := time.Now()
	b.open(url)
	t.Logf("%d episodes, %.1f MB, loaded in %v", n, float64(size)/1e6, time.Since(start))

	t.Run("nothing but texts", func(t *testing.T) {
		b.t = t
		// page.js must have run. Nothing else may have run or been requested.
		if got := js[int](b, `document.querySelectorAll("script").length`); got != 2 {
			t.Errorf("%d script elements, want the data and page.js", got)
		}
		if got := js[int](b, `document.querySelectorAll("img, iframe, object, embed, link[rel=stylesheet]").length`); got != 0 {
			t.Errorf("%d elements that load something, want none", got)
		}
		if got := js[string](b, `document.title`); got != "Page "+hostile {
			t.Errorf("title %q, want the text as it is", got)
		}
		for _, e := range b.events {
			switch {
			case strings.HasPrefix(e, "Page.javascriptDialogOpening"), strings.HasPrefix(e, "Runtime.exceptionThrown"), strings.HasPrefix(e, "Log.entryAdded"):
				t.Errorf("the page raised %s", e)
			case strings.HasPrefix(e, "Network.requestWillBeSent") && !strings.Contains(e, `"url":"file://`) && !strings.Contains(e, `"url":"data:`):
				t.Errorf("the page asked for something: %s", e)
			}
		}
	})

	count := func() string { return js[string](b, `document.getElementById("count").textContent`) }
	choose := func(id, text string) {
		b.t.Helper()
		ok := js[bool](b, fmt.Sprintf(`(() => { const s = document.getElementById(%q); const o = [...s.options].find(o => o.textContent === %q);
			if (!o) return false; s.value = o.value; s.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`, id, text))
		if !ok {
			b.t.Fatalf("%s has no choice %q", id, text)
		}
	}
	clear := func() {
		b.t.Helper()
		js[bool](b, `new Promise(r => { document.querySelector("#filters [type=reset]").click(); setTimeout(() => r(true), 50); })`)
	}

	t.Run("filters", func(t *testing.T) {
		b.t = t
		if got, want := count(), "10000 of 10000 episodes, 7500 solved"; got != want {
			t.Fatalf("count %q, want %q", got, want)
		}
		choose("f-m", hostile)
		if got, want := count(), "2500 of 10000 episodes, 0 solved"; got != want {
			t.Errorf("hostile method: %q, want %q", got, want)
		}
		choose("f-ok", "solved")
		if got, want := count(), "0 of 10000 episodes, 0 solved"; got != want {
			t.Errorf("solved of the hostile method: %q, want %q", got, want)
		}
		choose("f-m", "all")
		choose("f-c", "sql_query")
		if got, want := count(), "5000 of 10000 episodes, 5000 solved"; got != want {
			t.Errorf("solved with sql: %q, want %q", got, want)
		}
		clear()
		if got, want := count(), "10000 of 10000 episodes, 7500 solved"; got != want {
			t.Errorf("cleared: %q, want %q", got, want)
		}
	})

	t.Run("search", func(t *testing.T) {
		b.t = t
		search := func(text string) (string, float64) {
			ms := js[float64](b, fmt.Sprintf(`(() => { const q = document.getElementById("f-q"); q.value = %q; const t = performance.now();
				document.getElementById("filters").dispatchEvent(new Event("submit", {cancelable: true})); return performance.now() - t; })()`, text))
			return count(), ms
		}
		got, ms := search("needle HAYSTACK")
		if want := "1 of 10000 episodes, 1 solved"; got != want {
			t.Errorf("search: %q, want %q", got, want)
		}
		_, again := search("needle")
		t.Logf("search of %d episodes: first %.0f ms, then %.0f ms", n, ms, again)
		if again > 1000 {
			t.Errorf("a search takes %.0f ms, want less than a second", again)
		}
		if got, _ := search("<script>alert(1)</script> \U0001f642"); got != "10000 of 10000 episodes, 7500 solved" {
			t.Errorf("search for the hostile text: %q, want all", got)
		}
		clear()
	})

	t.Run("keyboard", func(t *testing.T) {
		b.t = t
		if got := js[int](b, `document.querySelectorAll("#list .ep").length`); got != 50 {
			t.Errorf("%d episodes in the document, want one page of 50", got)
		}
		js[bool](b, `(document.body.focus(), document.activeElement.blur(), true)`)
		b.press("/")
		if got := js[string](b, `document.activeElement.id`); got != "f-q" {
			t.Fatalf("/ moves the focus to %q, want the search", got)
		}
		for i := 0; js[string](b, `document.activeElement.className`) != "ep"; i++ {
			if i > 5 {
				t.Fatal("Tab does not reach the list from the search")
			}
			b.press("Tab")
		}
		if got := js[string](b, `getComputedStyle(document.activeElement).outlineStyle`); got != "solid" {
			t.Errorf("the focus is drawn %q, want a solid outline", got)
		}
		b.press("ArrowDown")
		b.press("Enter")
		if got := js[int](b, `[...document.querySelectorAll("#list .ep")].findIndex(e => e.getAttribute("aria-expanded") === "true")`); got != 1 {
			t.Errorf("Enter after ArrowDown opens episode %d, want the second (1)", got)
		}
		if got := js[string](b, `document.querySelector("#list .detail .turn pre").textContent`); got != hostile {
			t.Errorf("the turn shows %q, want its text as it is", got)
		}
		if got := js[int](b, `document.querySelectorAll("#list script, #list img").length`); got != 0 {
			t.Errorf("%d elements came out of texts", got)
		}
		b.press("Enter")
		if got := js[int](b, `document.querySelectorAll("#list .detail").length`); got != 0 {
			t.Errorf("%d details open after closing, want 0", got)
		}
		b.press("PageDown")
		if got := js[string](b, `document.getElementById("page").textContent + "; " + document.activeElement.className`); got != "page 2 of 200; ep" {
			t.Errorf("Page Down: %q, want page 2 of 200 with the focus on an episode", got)
		}
		unnamed := js[[]string](b, `[...document.querySelectorAll("button, select, input, [role=region], [role=img]")].filter(e =>
			!(e.textContent.trim() && e.tagName === "BUTTON") && !e.closest("label") && !e.getAttribute("aria-label")).map(e => e.outerHTML.slice(0, 80))`)
		if len(unnamed) > 0 {
			t.Errorf("controls without a name: %q", unnamed)
		}
	})

	t.Run("sorting", func(t *testing.T) {
		b.t = t
		column := `[...document.querySelectorAll("#table thead th")].findIndex(h => h.textContent === "success")`
		js[bool](b, `(document.querySelectorAll("#table thead button")[`+column+`].focus(), true)`)
		b.press("Enter")
		got := js[string](b, `(() => { const c = `+column+`; return document.querySelectorAll("#table thead th")[c].getAttribute("aria-sort") + " " +
			[...document.querySelectorAll("#table tbody tr")].map(r => r.cells[c].firstChild.textContent).join(" "); })()`)
		if got != "descending 1.000 0.000" {
			t.Errorf("sorted by success: %q, want descending 1.000 0.000", got)
		}
	})

	t.Run("phone", func(t *testing.T) {
		b.t = t
		b.width(360)
		b.open(url)
		if got := js[int](b, `document.documentElement.clientWidth`); got != 360 {
			t.Fatalf("the page is %d px wide, want 360", got)
		}
		js[bool](b, `(document.querySelectorAll("#list .ep").forEach((e, i) => { if (i < 3) e.click(); }), document.querySelectorAll("details").forEach(d => d.open = true), true)`)
		if got := js[int](b, `document.documentElement.scrollWidth`); got > 360 {
			t.Errorf("the page scrolls sideways: %d px of content in 360; widest: %v", got, js[[]string](b,
				`[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > 361).slice(0, 5).map(e => e.outerHTML.slice(0, 100))`))
		}
		if !js[bool](b, `(() => { const s = document.querySelector("#results .scroll"); return s.scrollWidth > s.clientWidth; })()`) {
			t.Error("the results table does not scroll within its frame")
		}
		small := js[[]string](b, `[...document.querySelectorAll("#filters select, #filters button, .pager button, .ep")].filter(e => e.getBoundingClientRect().height < 32).map(e => e.outerHTML.slice(0, 60))`)
		if len(small) > 0 {
			t.Errorf("controls too low for a finger: %q", small)
		}
	})
}
