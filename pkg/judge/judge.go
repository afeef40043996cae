// Package judge asks a language model behind an OpenAI-compatible endpoint whether answers are right. It knows no suite and reads no
// states: package benchmark does, and takes what this package returns as a second opinion beside the programmatic check.
//
// What a policy wrote is data, whatever it says. It goes to the judge as a JSON string within a JSON object, and the judge's answer counts
// only if it is one JSON object of exactly the expected form. That object must repeat a code that is made of question and answer, which no
// answer can hold: so a judge that merely repeats the policy's text gives no verdict. Whatever is no verdict is an error.
package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/toolroute/toolroute/pkg/benchmark"
)

// ErrNoKey says that the environment variable of the key is empty.
var ErrNoKey = errors.New("no key")

// Bounds of what an endpoint can make a request cost.
const (
	maxBody      = 1 << 20          // bytes of a response
	firstDelay   = time.Second      // before the first retry; each further one doubles it
	longestDelay = 60 * time.Second // before a retry, also where the endpoint asks for more
	// inARow is how many questions in a row may fail in a way that has nothing to do with the question before the rest is not asked.
	inARow = 5
)

// Judge asks one model. It is safe for concurrent use.
type Judge struct {
	settings benchmark.JudgeSettings
	key      string
	client   openai.ChatCompletionService
	cache    cache
	log      func(format string, a ...any)
	limit    *limiter
	sleep    func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex
	failed  int   // questions in a row that the endpoint failed
	stopped error // why nothing is asked any more
}

// Open makes a judge. The key is read from the environment. It stands in no file, log or error. cacheDir is the folder of answers that
// are kept; log receives lines for the user. Nothing is asked yet.
func Open(s benchmark.JudgeSettings, cacheDir string, log func(format string, a ...any)) (benchmark.Judge, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("judge.%w", err)
	}
	if s.Model == "" {
		return nil, errors.New("judge.model is empty: name the model that judges")
	}
	key := ""
	if s.KeyEnv != "" {
		if key = strings.TrimSpace(os.Getenv(s.KeyEnv)); key == "" {
			return nil, fmt.Errorf("%w: the environment variable %s, which judge.key_env names, is empty", ErrNoKey, s.KeyEnv)
		}
	}
	j := &Judge{settings: s, key: key, cache: cache{cacheDir, log}, log: log, limit: newLimiter(s.RequestsPerMinute), sleep: sleep}
	options := []option.RequestOption{
		option.WithBaseURL(s.BaseURL),
		option.WithHTTPClient(&http.Client{Transport: bounded{http.DefaultTransport}}),
		// The library neither repeats a request that ran out of time nor one whose answer broke off, so all repeating is done here.
		option.WithMaxRetries(0),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	j.client = openai.NewChatCompletionService(options...)
	return j, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bounded cuts off responses that are too long.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxBody}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

var errTooLong = fmt.Errorf("the response is longer than %d bytes", maxBody)

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One byte more tells a response of the greatest length from one that is longer.
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Name is the judge in texts.
func (j *Judge) Name() string { return j.settings.Model }

// Identity is what decides a verdict beside the question. Whether the endpoint gives the same one twice is its own affair.
func (j *Judge) Identity() any {
	return map[string]any{"model": j.settings.Model, "base_url": j.settings.BaseURL, "max_tokens": j.settings.MaxTokens, "format": j.settings.Format, "prompt": promptVersion}
}

// Ask returns the model's verdict on an answer: that of the cache, or a new one.
func (j *Judge) Ask(ctx context.Context, q benchmark.Question) (benchmark.Verdict, error) {
	p := newPrompt(q)
	if text, ok := j.cache.get(j.settings.Model, p); ok {
		if v, err := parse(text, p.code); err == nil {
			return v, nil
		}
	}
	if err := j.mayAsk(); err != nil {
		return benchmark.Verdict{}, err
	}
	text, err := j.request(ctx, p)
	if ctx.Err() != nil {
		return benchmark.Verdict{}, context.Cause(ctx)
	}
	j.note(err)
	if err != nil {
		return benchmark.Verdict{}, j.safe(err)
	}
	v, err := parse(text, p.code)
	if err != nil {
		return v, j.safe(fmt.Errorf("the judge's answer is no verdict: %w", err))
	}
	return v, j.cache.put(j.settings.Model, p, text)
}

func (j *Judge) mayAsk() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopped
}

// note keeps the endpoint's failures, and stops the asking where more of it is of no use.
func (j *Judge) note(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var f *failure
	switch {
	case !errors.As(err, &f):
		j.failed = 0
		return
	case f.final:
		j.failed = inARow
	default:
		j.failed++
	}
	if j.failed >= inARow && j.stopped == nil {
		j.stopped = fmt.Errorf("not asked, as the endpoint failed before: %w", j.safe(err))
		j.log("judge: %v; nothing more is asked. Mend it, and ask again with --stage evaluate --again", j.safe(err))
	}
}

// safe takes the key out of an error that an endpoint had a word in.
func (j *Judge) safe(err error) error {
	if err == nil || j.key == "" || !strings.Contains(err.Error(), j.key) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), j.key, "[key]"))
}
