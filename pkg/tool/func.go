package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// Func makes a tool of a spec and a function.
type Func struct {
	Def Spec
	Run func(ctx context.Context, args map[string]any) (Observation, error)
}

var _ Tool = Func{}

// Spec implements Tool.
func (f Func) Spec() Spec { return f.Def }

// Call implements Tool.
func (f Func) Call(ctx context.Context, args map[string]any) (Observation, error) {
	return f.Run(ctx, args)
}

// FinishName is the name of the tool that ends an episode.
const FinishName = "finish"

// ErrFinish is what calling finish through a Box gives: ending the episode is the episode's work, the box only holds the
// spec so that it is offered, validated and charged like the others.
var ErrFinish = errors.New("finish is not a call: it ends the episode")

// Finish is the tool that carries the final answer: free, one argument named answer. A number counts as its text, as it was written: models
// that know JSON write one where it is one.
func Finish() Tool {
	return Func{
		Def: Spec{
			Name:        FinishName,
			Description: "give the final answer and end",
			Parameters: json.RawMessage(`{"type":"object","properties":{"answer":{"type":["string","number"],"description":"the final answer"}},` +
				`"required":["answer"],"additionalProperties":false}`),
		},
		Run: func(context.Context, map[string]any) (Observation, error) { return Observation{}, ErrFinish },
	}
}

// StringSchema is the JSON schema of an arguments object with one required string.
func StringSchema(arg, description string) json.RawMessage {
	type prop struct {
		Type        string `json:"type"`
		Description string `json:"description,omitempty"`
	}
	b, err := json.Marshal(map[string]any{
		"type": "object", "properties": map[string]prop{arg: {"string", description}},
		"required": []string{arg}, "additionalProperties": false,
	})
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}
