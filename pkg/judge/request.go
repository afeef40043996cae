package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/toolroute/toolroute/pkg/benchmark"
)

// failure is an error of the endpoint or of the way to it: it says nothing of the question.
type failure struct {
	err     error
	passing bool          // the next attempt may succeed
	final   bool          // no request to this endpoint will succeed: the key, the URL or the model is wrong
	after   time.Duration // that the endpoint asks to wait; 0 where it does not say
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// request asks for one completion, as often as the settings allow, and returns its text.
func (j *Judge) request(ctx context.Context, p prompt) (string, error) {
	params := j.params(p)
	for attempt := 0; ; attempt++ {
		if err := j.limit.wait(ctx, j.sleep); err != nil {
			return "", err
		}
		text, err := j.once(ctx, params)
		if err == nil || ctx.Err() != nil {
			return text, err
		}
		var f *failure
		if !errors.As(err, &f) || !f.passing {
			return "", err
		}
		if attempt >= j.settings.Retries {
			return "", fmt.Errorf("after %d attempts: %w", attempt+1, err)
		}
		delay := min(firstDelay<<attempt, longestDelay)
		if f.after > 0 {
			delay = min(f.after, longestDelay)
		}
		if err := j.sleep(ctx, delay); err != nil {
			return "", err
		}
	}
}

func (j *Judge) params(p prompt) openai.ChatCompletionNewParams {
	params := openai.ChatCompletionNewParams{
		Model:       j.settings.Model,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(p.system), openai.UserMessage(p.user)},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(int64(j.settings.MaxTokens)),
	}
	switch j.settings.Format {
	case benchmark.FormatSchema:
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "verdict", Strict: openai.Bool(true), Schema: p.schema()},
		}
	case benchmark.FormatObject:
		params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	return params
}

// once makes one request. Its errors are failures, but those that the answer itself is the cause of.
func (j *Judge) once(ctx context.Context, params openai.ChatCompletionNewParams) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.settings.Timeout*float64(time.Second)))
	defer cancel()
	var resp *http.Response
	c, err := j.client.New(ctx, params, option.WithResponseInto(&resp))
	if err != nil {
		return "", failed(ctx, err, resp, j.settings)
	}
	if len(c.Choices) != 1 {
		return "", fmt.Errorf("the endpoint's answer holds %d choices, want 1: it is no chat completion", len(c.Choices))
	}
	switch choice := c.Choices[0]; {
	case choice.FinishReason == "length":
		return "", fmt.Errorf("the judge's answer is cut off at judge.max_tokens, %d", j.settings.MaxTokens)
	case choice.Message.Refusal != "":
		return "", fmt.Errorf("the judge refuses: %s", brief(choice.Message.Refusal))
	default:
		return choice.Message.Content, nil
	}
}

// failed says what went wrong with a request, and whether another one may help.
func failed(ctx context.Context, err error, resp *http.Response, s benchmark.JudgeSettings) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure{err: fmt.Errorf("no answer within judge.timeout, %v s", s.Timeout), passing: true}
	}
	if errors.Is(err, errTooLong) {
		return &failure{err: errTooLong}
	}
	if resp != nil && resp.StatusCode >= 400 {
		f := &failure{err: fmt.Errorf("the endpoint answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
		var of *openai.Error
		if errors.As(err, &of) && of.Message != "" {
			f.err = fmt.Errorf("%w: %s", f.err, brief(of.Message))
		}
		switch code := resp.StatusCode; code {
		case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
			f.passing, f.after = true, retryAfter(resp.Header)
		case http.StatusUnauthorized, http.StatusForbidden:
			f.final, f.err = true, fmt.Errorf("%w (the key is that of the environment variable %q, which judge.key_env names)", f.err, s.KeyEnv)
		case http.StatusNotFound:
			f.final, f.err = true, fmt.Errorf("%w (judge.base_url is %s, judge.model %s)", f.err, s.BaseURL, s.Model)
		default:
			f.passing, f.after = code >= 500, retryAfter(resp.Header)
		}
		return f
	}
	var network net.Error
	if resp == nil || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &failure{err: fmt.Errorf("the request to %s failed: %w", s.BaseURL, err), passing: true}
	}
	return &failure{err: fmt.Errorf("the endpoint's answer is no chat completion: %s", brief(err.Error()))}
}

// retryAfter is how long the endpoint asks to wait, in seconds or until a date; 0 where it does not say.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(min(s, longestDelay.Seconds()) * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

// brief is the beginning of a text of others, on one line.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}

// limiter spaces requests evenly.
type limiter struct {
	mu    sync.Mutex
	every time.Duration // 0 is no limit
	next  time.Time
}

func newLimiter(perMinute int) *limiter {
	if perMinute == 0 {
		return &limiter{}
	}
	return &limiter{every: time.Minute / time.Duration(perMinute)}
}

// wait returns when the next request may be made.
func (l *limiter) wait(ctx context.Context, sleep func(context.Context, time.Duration) error) error {
	if l.every == 0 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	at := l.next
	if at.Before(now) {
		at = now
	}
	l.next = at.Add(l.every)
	l.mu.Unlock()
	if d := at.Sub(now); d > 0 {
		return sleep(ctx, d)
	}
	return nil
}
