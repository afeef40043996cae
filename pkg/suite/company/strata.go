package company

import (
	"slices"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// dimensions sort the tasks by what is new to a policy in them: the template, the wording, or how tools are combined.
var dimensions = []suite.Dimension{
	suite.SeenInTraining("template_seen", "template", func(split string, _ *trajectory.Task) bool { return split == HeldoutTemplate }),
	suite.SeenInTraining("phrasing", "phrasing", func(_ string, t *trajectory.Task) bool { return slices.Contains(t.Tags, TagUnseenPhrasing) }),
	{Name: "heldout_kind", Title: "kind of held-out combination", Of: func(_ string, t *trajectory.Task) (kinds []string) {
		for _, tag := range []string{TagNewFilling, TagNewStructure} {
			if slices.Contains(t.Tags, tag) {
				kinds = append(kinds, tag)
			}
		}
		return kinds
	}},
}
