package rng_test

import (
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/rng"
)

func ExampleNew() {
	a, b := rng.New(7, "sampling", "task-1", 0), rng.New(7, "sampling", "task-1", 0)
	fmt.Println(a.Uint64() == b.Uint64())
	// Output: true
}

// Streams whose keys differ in any part, or only in where the parts are cut, must not coincide.
func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for name, v := range map[string]uint64{
		"base":    rng.Seed64(1, "ab", "c"),
		"seed":    rng.Seed64(2, "ab", "c"),
		"cut":     rng.Seed64(1, "a", "bc"),
		"item":    rng.Seed64(1, "ab", "d"),
		"no item": rng.Seed64(1, "ab"),
		"two":     rng.Seed64(1, "ab", "c", 0),
	} {
		if other, dup := seen[v]; dup {
			t.Errorf("streams %q and %q coincide", name, other)
		}
		seen[v] = name
	}
}
