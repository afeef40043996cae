package study

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
)

func evalPoint(iteration int, split string, temperature, rate float64) rl.EvalPoint {
	return rl.EvalPoint{Iteration: iteration, Split: split, Temperature: temperature, Episodes: 10, Values: []train.Metric{{Name: "chain_rate", Value: rate}}}
}

// The picture has a panel for each split, a line for each recipe and temperature, and a band where several seeds have the iteration.
func TestPictureOfHistories(t *testing.T) {
	history := func(recipe string, seed uint64, points ...rl.EvalPoint) Reinforced {
		return Reinforced{History: rl.History{Recipe: recipe, Seed: seed, Points: points}}
	}
	rs := Reinforcements{
		history("a", 1, evalPoint(0, "val", 0, 0), evalPoint(0, "val", 0.7, 0.25), evalPoint(5, "val", 0, 0.5), evalPoint(10, "val", 0, 1)),
		history("a", 2, evalPoint(0, "val", 0, 0.5), evalPoint(5, "val", 0, 0.75)), // ended early
		history("b", 1, evalPoint(0, "val", 0, 0.5), evalPoint(0, "heldout", 0, 0.25)),
	}
	pic, ok := rs.Picture(suite.TitledColumn{Column: "chain_rate", Title: "chain rate"})
	if !ok || len(pic.Panels) != 2 || pic.Panels[0].Title != "val" || pic.Panels[1].Title != "heldout" {
		t.Fatalf("%d panels, want val and heldout: %+v", len(pic.Panels), pic)
	}
	var lines []string
	for _, l := range pic.Panels[0].Lines {
		lines = append(lines, fmt.Sprintf("%s %t %v %v %v %v", l.Name, l.Dashed, l.X, l.Y, l.Lo, l.Hi))
	}
	want := "a false [0 5 10] [0.25 0.625 1] [0 0.5 1] [0.5 0.75 1]\na true [0] [0.25] [0.25] [0.25]\nb false [0] [0.5] [] []"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("lines of val:\n%s\nwant\n%s", got, want)
	}
	for _, want := range []string{"solid: greedy", "sampled at temperature 0.7", "band from"} {
		if !strings.Contains(strings.ToLower(pic.Subtitle), want) {
			t.Errorf("the subtitle lacks %q: %s", want, pic.Subtitle)
		}
	}
	if _, err := pic.PNG(); err != nil {
		t.Error(err)
	}
	if _, ok := (Reinforcements{{History: rl.History{Recipe: "a", Seed: 1}}}).Picture(suite.TitledColumn{Column: "chain_rate", Title: "chain rate"}); ok {
		t.Error("runs without a history have a picture")
	}
}
