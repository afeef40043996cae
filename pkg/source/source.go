// Package source holds where the values that an observation shows come from: read from a store, or calculated. A tool says
// it of each part of its text, a trajectory records it, and a task lists the places that its gold values may come from, so
// that a value which a policy wrote itself never passes for one that it looked up. The package holds the types alone; package
// suite decides what counts.
package source

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Read is a part of an observation's text: the bytes from Start up to End, either read from a store or calculated.
type Read struct {
	Start int `json:"start"`
	End   int `json:"end"`
	// From lists the places of a store that hold what the part shows, such as "products.stock@17" (a cell) or
	// "docs:memo-3#1" (a passage). A name means the same place in every episode of a world.
	From []string `json:"from,omitempty"`
	// Of lists the values that a calculation was made of, as its expression has them. The part is then its result, and counts
	// only where each of these was known before: from the question, from a store or from an earlier result.
	Of []string `json:"of,omitempty"`
}

// Part is what a read shows of a text; ok is false where it does not lie within the text.
func (r Read) Part(text string) (part string, ok bool) {
	if r.Start < 0 || r.Start > r.End || r.End > len(text) {
		return "", false
	}
	return text[r.Start:r.End], true
}

// Evidence is a gold value that an answer rests on, and the places that it may be read from; without places any will do.
type Evidence struct {
	Value   string
	Sources []string
}

type evidence struct {
	Value   string   `json:"value"`
	Sources []string `json:"sources"`
}

// MarshalJSON writes a value without sources as a string, one with sources as {"value": "48", "sources": ["products.stock@17"]}.
func (e Evidence) MarshalJSON() ([]byte, error) {
	if len(e.Sources) == 0 {
		return json.Marshal(e.Value)
	}
	return json.Marshal(evidence(e))
}

// UnmarshalJSON reads either form.
func (e *Evidence) UnmarshalJSON(b []byte) error {
	*e = Evidence{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &e.Value)
	}
	var v evidence
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v.Value == "" || len(v.Sources) == 0 {
		return fmt.Errorf("evidence %s: an object has a value and sources", b)
	}
	*e = Evidence(v)
	return nil
}

// Values lists values that may be read anywhere.
func Values(values ...string) []Evidence {
	out := make([]Evidence, len(values))
	for i, v := range values {
		out[i].Value = v
	}
	return out
}

// Takes reports whether a value from one of these places is from one that the evidence lists.
func (e Evidence) Takes(from []string) bool {
	return len(e.Sources) == 0 || slices.ContainsFunc(from, func(s string) bool { return slices.Contains(e.Sources, s) })
}
