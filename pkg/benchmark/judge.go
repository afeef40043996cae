package benchmark

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// JudgeSettings are the section judge of the settings.
type JudgeSettings struct {
	// BaseURL is that of an OpenAI-compatible API, up to and with its version: https://host/v1.
	BaseURL string `yaml:"base_url" json:"base_url"`
	// Model is the judge's name at that endpoint; empty asks no judge.
	Model string `yaml:"model" json:"model"`
	// KeyEnv names the environment variable that holds the key; empty is an endpoint that needs none.
	KeyEnv string `yaml:"key_env" json:"key_env"`
	// RequestsPerMinute bounds the requests, retries included; 0 is no bound.
	RequestsPerMinute int `yaml:"requests_per_minute" json:"requests_per_minute"`
	// Parallel is how many requests may be under way at once.
	Parallel int `yaml:"parallel" json:"parallel"`
	// Retries is how often a request is made again that failed for a reason that may pass.
	Retries int `yaml:"retries" json:"retries"`
	// Timeout bounds one request, in seconds.
	Timeout float64 `yaml:"timeout" json:"timeout"`
	// MaxTokens bounds an answer.
	MaxTokens int `yaml:"max_tokens" json:"max_tokens"`
	// Format is how the request asks for JSON: json_schema, json_object, or none for endpoints that know neither.
	Format string `yaml:"format" json:"format"`
}

// The values of JudgeSettings.Format.
const (
	FormatSchema = "json_schema"
	FormatObject = "json_object"
	FormatNone   = "none"
)

// Check names what makes no sense; the text begins with a key of the section.
func (s JudgeSettings) Check() error {
	u, err := url.Parse(s.BaseURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("base_url is %q: it must be an http or https URL such as https://host/v1", s.BaseURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("base_url: it must have no user, query or fragment; a key belongs in the environment variable that key_env names")
	case s.RequestsPerMinute < 0:
		return fmt.Errorf("requests_per_minute is %d: it must be at least 0, which is no bound", s.RequestsPerMinute)
	case s.Parallel < 1 || s.Parallel > 256:
		return fmt.Errorf("parallel is %d: it must be from 1 to 256", s.Parallel)
	case s.Retries < 0 || s.Retries > 20:
		return fmt.Errorf("retries is %d: it must be from 0 to 20", s.Retries)
	case !(s.Timeout > 0 && s.Timeout <= time.Hour.Seconds()):
		return fmt.Errorf("timeout is %v: it is in seconds, above 0 and at most an hour", s.Timeout)
	case s.MaxTokens < 1:
		return fmt.Errorf("max_tokens is %d: it must be at least 1", s.MaxTokens)
	case s.Format != FormatSchema && s.Format != FormatObject && s.Format != FormatNone:
		return fmt.Errorf("format: %q is none of %s, %s, %s", s.Format, FormatSchema, FormatObject, FormatNone)
	}
	return nil
}

// Question is what a judge is asked: is the answer right?
type Question struct {
	Question string
	Gold     []string // the value, or those of a list
	Type     string   // how gold is compared: number, string, date, list, yesno; empty where the record does not say
	Answer   string   // as the policy gave it: data, whatever it says
}

// Verdict is a judge's answer.
type Verdict struct {
	Correct bool   `json:"correct"`
	Reason  string `json:"reason"`
}

// Judge decides whether answers are right.
type Judge interface {
	// Ask returns the verdict on one answer, or an error where there is none: an answer that cannot be read is an error, never a
	// verdict. It is called from several goroutines. After the end of ctx it returns soon.
	Ask(ctx context.Context, q Question) (Verdict, error)
	// Identity is what decides the verdicts beside the question: the model, the prompt's version and the like. Its JSON is hashed.
	Identity() any
	// Name is the judge in texts.
	Name() string
}
