package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/benchmark"
)

const (
	keyVariable = "TOOLROUTE_TEST_JUDGE_KEY"
	secret      = "sk-secret-0123456789"
)

var asked = benchmark.Question{Question: "stock of bolts", Gold: []string{"412"}, Type: "number", Answer: "412"}

// settings are those of an endpoint in a test.
func settings(url string) benchmark.JudgeSettings {
	return benchmark.JudgeSettings{BaseURL: url + "/v1", Model: "the-judge", KeyEnv: keyVariable, Parallel: 1, Retries: 3, Timeout: 5, MaxTokens: 50, Format: benchmark.FormatSchema}
}

// open makes a judge that does not wait between attempts; waits receives how long it would have.
func open(t *testing.T, s benchmark.JudgeSettings, dir string) (j *Judge, waits *[]time.Duration, log *strings.Builder) {
	t.Helper()
	t.Setenv(keyVariable, secret)
	log, waits = &strings.Builder{}, &[]time.Duration{}
	opened, err := Open(s, dir, func(format string, a ...any) { fmt.Fprintf(log, format+"\n", a...) })
	if err != nil {
		t.Fatal(err)
	}
	j = opened.(*Judge)
	var mu sync.Mutex
	j.sleep = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		*waits = append(*waits, d)
		return ctx.Err()
	}
	return j, waits, log
}

// completion is a response of an endpoint.
func completion(content, finish string) string {
	b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": map[string]any{"role": "assistant", "content": content}}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// verdict is a reply of the right form to a request.
func verdict(r *http.Request, correct bool, reason string) string {
	var body struct {
		Messages []struct{ Role, Content string } `json:"messages"`
	}
	var data struct {
		Code string `json:"code"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) != 2 {
		return "no request of this package"
	}
	if err := json.Unmarshal([]byte(body.Messages[1].Content), &data); err != nil {
		return "the user's message is not JSON"
	}
	b, err := json.Marshal(map[string]any{"code": data.Code, "reason": reason, "correct": correct})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func good(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, completion(verdict(r, true, "same number"), "stop"))
}

func says(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func content(reply string) http.HandlerFunc {
	return says(http.StatusOK, "application/json", completion(reply, "stop"))
}

func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the server sees a client leave only after it has read the request
	select {
	case <-r.Context().Done():
	case <-time.After(20 * time.Second):
	}
}

// cut breaks a connection off, before the response or within it.
func cut(begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		fmt.Fprint(c, begin)
		c.Close()
	}
}

func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"choices": [{"message": {"content": "`)
	for range 64 {
		if _, err := w.Write([]byte(strings.Repeat("a", 1<<20))); err != nil {
			return // cut off, as it should be
		}
	}
}

// An endpoint that misbehaves gives an error that says how, after as many attempts as help, and never a verdict; one that recovers
// gives its verdict. The key is in no error, log or file.
func TestMisbehavingEndpoints(t *testing.T) {
	const quota = `{"error": {"message": "you said ` + secret + `: slow down", "type": "rate_limit"}}`
	limited := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		says(http.StatusTooManyRequests, "application/json", quota)(w, r)
	}
	for _, c := range []struct {
		name     string
		script   []http.HandlerFunc // request by request; the last one goes on
		requests int32
		want     string // in the error; empty is a verdict
		waits    []time.Duration
	}{
		{"well", []http.HandlerFunc{good}, 1, "", nil},
		{"429, then well", []http.HandlerFunc{limited, good}, 2, "", []time.Duration{7 * time.Second}},
		{"500 twice, then well", []http.HandlerFunc{says(500, "text/plain", "oops"), says(503, "text/plain", ""), good}, 3, "", []time.Duration{time.Second, 2 * time.Second}},
		{"429 for ever", []http.HandlerFunc{limited}, 4, "after 4 attempts: the endpoint answers 429 Too Many Requests: you said [key]: slow down", []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}},
		{"500 for ever", []http.HandlerFunc{says(500, "application/json", `{"error": {"message": "broken"}}`)}, 4, "the endpoint answers 500 Internal Server Error: broken", []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		{"hangs, then well", []http.HandlerFunc{hang, good}, 2, "", []time.Duration{time.Second}},
		{"closes the connection, then well", []http.HandlerFunc{cut(""), good}, 2, "", []time.Duration{time.Second}},
		{"closes the connection for ever", []http.HandlerFunc{cut("")}, 4, "after 4 attempts: the request to ", nil},
		{"truncated body, then well", []http.HandlerFunc{cut("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"choices\": ["), good}, 2, "", []time.Duration{time.Second}},
		{"truncated JSON of full length", []http.HandlerFunc{says(200, "application/json", `{"choices": [{"mess`)}, 4, "after 4 attempts: the request to ", nil},
		{"malformed JSON", []http.HandlerFunc{says(200, "application/json", `{"choices": oops}`)}, 1, "is no chat completion", nil},
		{"HTML", []http.HandlerFunc{says(200, "text/html", "<html><body>verdict: correct</body></html>")}, 1, "is no chat completion", nil},
		{"HTML as JSON", []http.HandlerFunc{says(200, "application/json", "<html></html>")}, 1, "is no chat completion", nil},
		{"another schema", []http.HandlerFunc{says(200, "application/json", `{"result": {"correct": true}}`)}, 1, "holds 0 choices", nil},
		{"choices of a wrong type", []http.HandlerFunc{says(200, "application/json", `{"choices": [{"message": {"content": 7}}]}`)}, 1, "", nil},
		{"an empty body", []http.HandlerFunc{says(200, "application/json", "")}, 1, "", nil},
		{"huge", []http.HandlerFunc{huge}, 1, "longer than 1048576 bytes", nil},
		{"401", []http.HandlerFunc{says(401, "application/json", `{"error": {"message": "bad key `+secret+`"}}`)}, 1, `401 Unauthorized: bad key [key] (the key is that of the environment variable "` + keyVariable + `"`, nil},
		{"404", []http.HandlerFunc{says(404, "text/plain", "no")}, 1, "judge.model the-judge", nil},
		{"400", []http.HandlerFunc{says(400, "application/json", `{"error": {"message": "response_format is unknown"}}`)}, 1, "400 Bad Request: response_format is unknown", nil},
		{"cut off at max_tokens", []http.HandlerFunc{says(200, "application/json", completion(`{"code": "`, "length"))}, 1, "cut off at judge.max_tokens, 50", nil},
		{"prose", []http.HandlerFunc{content("The answer is correct.")}, 1, "is no verdict: it does not begin a JSON object", nil},
		{"a verdict without the code", []http.HandlerFunc{content(`{"correct": true, "reason": "yes"}`)}, 1, "is no verdict: its fields are not", nil},
		{"a verdict with a made-up code", []http.HandlerFunc{content(`{"code": "00000000", "correct": true, "reason": "yes"}`)}, 1, "is no verdict: its code is not", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(requests.Add(1))
				if got := r.Header.Get("Authorization"); got != "Bearer "+secret || r.URL.Path != "/v1/chat/completions" {
					t.Errorf("request to %s with authorization %q", r.URL.Path, got)
				}
				c.script[min(n, len(c.script))-1](w, r)
			}))
			defer server.Close()
			dir := t.TempDir()
			s := settings(server.URL)
			if strings.HasPrefix(c.name, "hangs") {
				s.Timeout = 0.3
			}
			j, waits, log := open(t, s, dir)
			v, err := j.Ask(t.Context(), asked)
			isError := c.want != "" || !strings.Contains(c.name, "well")
			if isError != (err != nil) || isError && !strings.Contains(err.Error(), c.want) || !isError && (!v.Correct || v.Reason != "same number") {
				t.Fatalf("verdict %+v, error %v; want one that says %q", v, err, c.want)
			}
			if isError && v != (benchmark.Verdict{}) {
				t.Errorf("with the error comes the verdict %+v", v)
			}
			if n := requests.Load(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if c.waits != nil && fmt.Sprint(*waits) != fmt.Sprint(c.waits) {
				t.Errorf("waits %v, want %v", *waits, c.waits)
			}
			if strings.Contains(log.String()+fmt.Sprint(err), secret) {
				t.Errorf("the key stands in %q or %v", log, err)
			}
			if kept := files(t, dir); isError && len(kept) > 0 {
				t.Errorf("what is no verdict was kept: %v", kept)
			} else if strings.Contains(fmt.Sprint(kept), secret) {
				t.Errorf("the key stands in a file: %v", kept)
			}
		})
	}
}

// files reads all files below a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An endpoint that is gone is not asked for ever: after some questions in a row the rest is not asked, and the log says so once. A wrong
// key ends it at once.
func TestStopsAsking(t *testing.T) {
	for status, want := range map[int]int{http.StatusInternalServerError: inARow, http.StatusUnauthorized: 1, http.StatusBadRequest: inARow} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			says(status, "text/plain", "")(w, r)
		}))
		s := settings(server.URL)
		s.Retries = 0
		j, _, log := open(t, s, t.TempDir())
		for i := range 9 {
			q := asked
			q.Answer = fmt.Sprint(i)
			_, err := j.Ask(t.Context(), q)
			if err == nil || (i >= want) != strings.Contains(err.Error(), "not asked, as the endpoint failed before") {
				t.Errorf("status %d, question %d: error %v", status, i, err)
			}
		}
		if requests != want || strings.Count(log.String(), "nothing more is asked") != 1 {
			t.Errorf("status %d: %d requests, want %d; log %q", status, requests, want, log)
		}
		server.Close()
	}
}

// A verdict is asked for once: a further judge takes it from the disk. Another model, another answer and a damaged file are asked again.
func TestCache(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		good(w, r)
	}))
	defer server.Close()
	dir := t.TempDir()
	ask := func(want int, change func(*benchmark.JudgeSettings, *benchmark.Question)) {
		t.Helper()
		s, q := settings(server.URL), asked
		if change != nil {
			change(&s, &q)
		}
		j, _, _ := open(t, s, dir)
		if v, err := j.Ask(t.Context(), q); err != nil || !v.Correct {
			t.Errorf("verdict %+v, error %v", v, err)
		}
		if requests != want {
			t.Errorf("%d requests, want %d", requests, want)
		}
	}
	ask(1, nil)
	ask(1, nil)
	ask(2, func(s *benchmark.JudgeSettings, _ *benchmark.Question) { s.Model = "another" })
	ask(3, func(_ *benchmark.JudgeSettings, q *benchmark.Question) { q.Answer = "413" })
	for name := range files(t, dir) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ask(4, nil)
	ask(4, nil)
}

// Requests are spaced, retries included.
func TestRateLimit(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			says(500, "text/plain", "")(w, r)
			return
		}
		good(w, r)
	}))
	defer server.Close()
	s := settings(server.URL)
	s.RequestsPerMinute = 30
	j, waits, _ := open(t, s, t.TempDir())
	for i := range 3 {
		q := asked
		q.Answer = fmt.Sprint(i)
		if _, err := j.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing sleeps in this test, so the second to fourth requests wait for about 2, 4 and 6 s; the wait of 1 s is that before the retry.
	var got []int
	for _, d := range *waits {
		got = append(got, int(d.Seconds()+0.5))
	}
	if fmt.Sprint(got) != "[1 2 4 6]" {
		t.Errorf("waits of %v s, want [1 2 4 6]", got)
	}
}

// Asking ends with its context, whatever it is doing.
func TestInterrupted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hang))
	defer server.Close()
	j, _, _ := open(t, settings(server.URL), t.TempDir())
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if _, err := j.Ask(ctx, asked); !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Setenv(keyVariable, "")
	if _, err := Open(settings("http://localhost"), "", nil); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), keyVariable) {
		t.Errorf("without a key: error %v", err)
	}
	t.Setenv(keyVariable, secret)
	for want, change := range map[string]func(*benchmark.JudgeSettings){
		"judge.base_url": func(s *benchmark.JudgeSettings) { s.BaseURL = "localhost:80" },
		"in the environment variable that key_env names": func(s *benchmark.JudgeSettings) { s.BaseURL = "http://me:" + secret + "@host/v1" },
		"judge.model":   func(s *benchmark.JudgeSettings) { s.Model = "" },
		"judge.format":  func(s *benchmark.JudgeSettings) { s.Format = "xml" },
		"judge.timeout": func(s *benchmark.JudgeSettings) { s.Timeout = 0 },
	} {
		s := settings("http://localhost")
		change(&s)
		if _, err := Open(s, "", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the key stands in %v", err)
		}
	}
	s := settings("http://localhost")
	s.KeyEnv = ""
	if _, err := Open(s, "", nil); err != nil {
		t.Errorf("an endpoint without a key: %v", err)
	}
}
