package company

import (
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/trajectory"
)

// The strata of the published tables, by what a task and its split say.
func TestDimensions(t *testing.T) {
	for _, c := range []struct {
		split string
		tags  []string
		want  string
	}{
		{Test, nil, "seen template; seen phrasing; "},
		{Test, []string{TagUnseenPhrasing, TagLongNumber}, "seen template; unseen phrasing; "},
		{HeldoutTemplate, nil, "unseen template; seen phrasing; "},
		{HeldoutCombo, []string{TagNewFilling}, "seen template; seen phrasing; new_filling"},
		{HeldoutCombo, []string{TagNewStructure, TagUnseenPhrasing}, "seen template; unseen phrasing; new_structure"},
	} {
		var got []string
		for _, d := range Definition().Dimensions {
			got = append(got, strings.Join(d.Of(c.split, &trajectory.Task{Tags: c.tags}), ","))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s with tags %v: %q, want %q", c.split, c.tags, got, c.want)
		}
	}
}
