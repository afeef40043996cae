// Package tool holds what a priced tool is: its name, description, argument schema and price, how it is called, and the
// Box that offers a set of tools to one episode. The tools themselves live in subpackages (sqlbox, search, calc) and in
// the suites. It knows no tasks, no budgets and no models.
package tool

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
)

// Spec describes a tool to policies and to the validator of its arguments.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON schema of the arguments object
	Price       Price           `json:"price"`
	// Latency is simulated: it is added to the reported tool time of a call and never slept.
	Latency time.Duration `json:"latency,omitempty"`
}

// Price is what a call costs: a base, plus a price per unit of one argument (per element of a list, per value of a
// number) when PerUnit is not zero.
type Price struct {
	Base    price.Amount `json:"base" yaml:"base"`
	PerUnit price.Amount `json:"per_unit,omitempty" yaml:"per_unit,omitempty"`
	UnitArg string       `json:"unit_arg,omitempty" yaml:"unit_arg,omitempty"`
}

// Tool is one callable tool. Call gets arguments that passed the schema; json numbers arrive as json.Number. An error is a
// failed call: its text becomes the observation and it is charged like a success unless the config says otherwise.
// Implementations must be safe for concurrent calls, unless they belong to one episode.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, args map[string]any) (Observation, error)
}

// Observation is what a call gives: the text that the policy reads, and which parts of it were read from a store or
// calculated. What no part covers (headers, scores, an echo of the arguments) is no evidence for an answer.
type Observation struct {
	Text  string
	Reads []source.Read
}

// Said is a text of which nothing is evidence.
func Said(text string) Observation { return Observation{Text: text} }

// ReadFrom is a text that is a value of a store, as a whole; from names the places that hold it.
func ReadFrom(text string, from ...string) Observation {
	return Observation{text, []source.Read{{End: len(text), From: from}}}
}

// Calculated is the result of a calculation; of lists the values that it was made of, as the policy wrote them. A result of fewer
// than two is not evidence: it would be what the policy wrote, in other digits.
func Calculated(text string, of ...string) Observation {
	if len(of) < 2 {
		return Said(text)
	}
	return Observation{text, []source.Read{{End: len(text), Of: of}}}
}

// Cut cuts the text as CutText does and leaves out the parts that are not whole any more.
func (o Observation) Cut(n int) Observation {
	text := CutText(o.Text, n)
	if text == o.Text {
		return o
	}
	same := 0
	for same < len(text) && same < len(o.Text) && text[same] == o.Text[same] {
		same++
	}
	reads := slices.DeleteFunc(slices.Clone(o.Reads), func(r source.Read) bool { return r.End > same })
	return Observation{text, reads}
}
