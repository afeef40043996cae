package stage

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/suites"
)

// Every value that decides a step of training has a name, in both suites. A message about a difference gives this name.
func TestWhatDecidesHasNames(t *testing.T) {
	for _, s := range suites.Names() {
		e, err := Open(Options{Suite: s, Out: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, name := range append([]string{config.RootName}, e.Config.Train...) {
			sub := e
			if name != config.RootName {
				if sub, err = e.with(name); err != nil {
					t.Fatal(err)
				}
			}
			here := sub.decidedBy(name, 1, "weights", "data")
			var names []string
			for _, d := range sub.decisions(name, 1, "weights", "data") {
				names = append(names, d.name)
			}
			if len(here) > len(names) {
				t.Fatalf("%s, %s: %d values, %d names", s, name, len(here), len(names))
			}
			encode := func(v any) json.RawMessage {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			for i := range here {
				other := append([]any{}, here...)
				other[i] = "another"
				if got := sub.whatDiffers(name, encode(here), encode(other)); !strings.HasPrefix(got, names[i]) {
					t.Errorf("%s, %s: value %d differs, told %q, want it to begin with %q", s, name, i, got, names[i])
				}
			}
			if got := sub.whatDiffers(name, encode(here), encode(here[:len(here)-1])); !strings.Contains(got, names[len(here)-1]) {
				t.Errorf("%s, %s: the last value is missing, told %q", s, name, got)
			}
		}
	}
}
