package edits_test

import (
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/edits"
)

func ExampleDistance() {
	fmt.Println(edits.Distance([]rune("kitten"), []rune("sitting")))
	// Output: 3
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 2}, {"größe", "grösse", 2}, {"ab", "ba", 2}, {"1234", "1243", 2}, {"flaw", "lawn", 2}} {
		if got := edits.Distance([]rune(c.a), []rune(c.b)); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := edits.Distance([]rune(c.b), []rune(c.a)); got != c.want {
			t.Errorf("%q to %q: %d, want as much as back, %d", c.b, c.a, got, c.want)
		}
	}
}
