package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Line returns the record as one line of JSON with its newline. Non-ASCII text and the characters <, > and & stand as
// they are.
func (t Trajectory) Line() ([]byte, error) {
	if t.Turns == nil {
		t.Turns = []Turn{} // [] rather than null
	}
	if t.Task.Gold == nil {
		t.Task.Gold = []string{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, fmt.Errorf("episode %s: %w", t.EpisodeID, err)
	}
	return b.Bytes(), nil
}

// Canonical returns the record's line without latencies: what two runs of one seed have in common byte for byte, and what
// hashes are taken of.
func (t Trajectory) Canonical() ([]byte, error) {
	t.Turns = slices.Clone(t.Turns)
	for i := range t.Turns {
		t.Turns[i].ModelTime, t.Turns[i].ToolTime = 0, 0
	}
	return t.Line()
}
