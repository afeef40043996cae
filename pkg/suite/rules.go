package suite

import (
	"encoding/json"

	"github.com/toolroute/toolroute/pkg/tool"
)

// Rules are a suite's documented rules for wording queries and reading answers. They get the bare question and what was
// observed so far, never the task.
type Rules interface {
	// Call words the arguments of a tool; false when the rules have nothing to ask it, now or at all.
	Call(question, tool string, seen []Seen) (args json.RawMessage, ok bool)
	// Fallback words a call to a tool that Call has nothing to ask, for the baseline that calls every tool; false for a tool that
	// the suite does not have.
	Fallback(question, tool string, seen []Seen) (args json.RawMessage, ok bool)
	// Extract reads the answer out of the observations; false when they do not hold it.
	Extract(question string, seen []Seen) (answer string, ok bool)
	// Score is how well the best passage of a search matched; false when the observation shows no score.
	Score(seen Seen) (float64, bool)
}

// Parser is a suite's hand-written parser of its questions. It shows what rules can reach that know how the suite words its questions. It
// is no learned policy. It gets what Rules get, with the price list.
type Parser interface {
	// Next is the next call, finish included; false when the parser does not understand the question or finds no answer. Seen holds the
	// calls that it was asked for before, in order.
	Next(question string, tools []tool.Spec, seen []Seen) (Call, bool)
}

// Knower is implemented by Rules and Parsers that depend on the names of tools. An episode that offers a tool under another name is
// refused. In it a baseline could only give up, which would look like a policy that fails.
type Knower interface {
	Knows(tool string) bool
}
