package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
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
		if d := firstDifference(names[i], a[i], b[i]); d != "" {
			return d
		}
	}
	return checkpointFile + " lists other settings than its key is made of"
}

// firstDifference compares two decoded JSON values and says where they differ; empty where they do not.
func firstDifference(path string, here, there any) string {
	a, ok := here.(map[string]any)
	b, both := there.(map[string]any)
	if !ok || !both {
		if reflect.DeepEqual(here, there) {
			return ""
		}
		show := func(v any) string {
			s, err := json.Marshal(v)
			if err != nil {
				return fmt.Sprint(v)
			}
			return string(s)
		}
		return fmt.Sprintf("%s is %s, committed is %s", path, show(here), show(there))
	}
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if d := firstDifference(path+"."+k, a[k], b[k]); d != "" {
			return d
		}
	}
	return ""
}
