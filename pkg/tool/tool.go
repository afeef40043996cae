// Package tool holds what a priced tool is: its name, description, argument schema and price, how it is called, and the
// Box that offers a set of tools to one episode. The tools themselves live in subpackages (sqlbox, search, calc) and in
// the suites. It knows no tasks, no budgets and no models.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
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
	Call(ctx context.Context, args map[string]any) (observation string, err error)
}
