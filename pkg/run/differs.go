package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Difference compares two decoded JSON values and says where they differ first; empty where they do not. path names the values,
// other is a word for the second one.
func Difference(path string, here, there any, other string) string {
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
		return fmt.Sprintf("%s is %s, %s is %s", path, show(here), other, show(there))
	}
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if d := Difference(path+"."+k, a[k], b[k], other); d != "" {
			return d
		}
	}
	return ""
}
