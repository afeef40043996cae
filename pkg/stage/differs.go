package stage

import (
	"encoding/json"

	"github.com/toolroute/toolroute/pkg/run"
)

// whatDiffers names the first setting that decides a step of training and has another value in a checkpoint.
func (e *Env) whatDiffers(name string, here, committed json.RawMessage) string {
	var a, b []any
	if json.Unmarshal(here, &a) != nil || json.Unmarshal(committed, &b) != nil {
		return checkpointFile + " does not list them"
	}
	var names []string
	for _, d := range e.decisions(name, 0, "", "") {
		names = append(names, d.name)
	}
	switch {
	case len(a) > len(names) || len(b) > len(names):
		return "another kind of training"
	case len(a) < len(b):
		return names[len(a)] + " is not set here, but in the committed one"
	case len(a) > len(b):
		return names[len(b)] + " is set here, but not in the committed one"
	}
	for i := range a {
		if d := run.Difference(names[i], a[i], b[i], "committed"); d != "" {
			return d
		}
	}
	return checkpointFile + " lists other settings than its key is made of"
}
