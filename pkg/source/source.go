// Package source says where the values in an observation come from: read from a store, or calculated. A tool names the source of
// each part of its text, and a trajectory records it. A task lists the places from which its gold values may come. So a value
// that a policy wrote itself is not taken for one that it looked up. This package has the types only; package suite decides
// what counts.
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
	// Of lists the operands of a calculation, as its expression has them. The part is then the result. It counts only if each
	// operand was known before: from the question, from a store or from an earlier result.
	Of []string `json:"of,omitempty"`
}

// Part returns the part of a text that a read is about. ok is false if the read does not lie within the text.
func (r Read) Part(text string) (part string, ok bool) {
	if r.Start < 0 || r.Start > r.End || r.End > len(text) {
		return "", false
	}
	return text[r.Start:r.End], true
}

// Evidence is a gold value that an answer needs, and the places from which it may be read. Without places, any place will do.
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

// Values makes evidence of values that may be read anywhere.
func Values(values ...string) []Evidence {
	out := make([]Evidence, len(values))
	for i, v := range values {
		out[i].Value = v
	}
	return out
}

// Takes reports whether the evidence accepts a value that was read from these places: it lists one of them, or no place at all.
func (e Evidence) Takes(from []string) bool {
	return len(e.Sources) == 0 || slices.ContainsFunc(from, func(s string) bool { return slices.Contains(e.Sources, s) })
}
