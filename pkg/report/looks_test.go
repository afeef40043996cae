package report

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Sixteen methods, and many more, are all told apart: no two share colour, dashes and mark, and no two splits a colour.
func TestLooksDiffer(t *testing.T) {
	lines, areas := map[string]int{}, map[string]int{}
	for i := range 120 {
		l := lookOf(i)
		k := fmt.Sprintf("%v %v %T", l.color, l.dashes, l.glyph)
		if j, twice := lines[k]; twice {
			t.Errorf("series %d and %d look alike: %s", j, i, k)
		}
		lines[k] = i
	}
	for i := range 30 {
		k := fmt.Sprint(areaColor(i))
		if j, twice := areas[k]; twice {
			t.Errorf("bars %d and %d have the colour %s", j, i, k)
		}
		areas[k] = i
	}
}

var stroke = regexp.MustCompile(`<path d="[^"]*"\s+style="([^"]*stroke:[^"]*)"`)

// The drawn lines and legends of sixteen series differ, in the picture itself.
func TestSixteenSeriesOfAPicture(t *testing.T) {
	pic := Picture{Name: "many", Title: "Many", Panels: []Panel{{X: "x", Y: "y"}}}
	for i := range 16 {
		pic.Panels[0].Lines = append(pic.Panels[0].Lines, Line{Name: fmt.Sprint("m", i), X: []float64{0, 1}, Y: []float64{float64(i), float64(i) + 0.5}})
	}
	svg, err := pic.figure().svg()
	if err != nil {
		t.Fatal(err)
	}
	styles := map[string]bool{}
	for _, m := range stroke.FindAllSubmatch(svg, -1) {
		for _, c := range palette {
			if bytes.Contains(bytes.ToUpper(m[1]), []byte(fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B))) {
				styles[string(regexp.MustCompile(`stroke-width:[^;]*`).ReplaceAll(m[1], nil))] = true
			}
		}
	}
	if len(styles) < 16 {
		t.Errorf("%d styles of lines for 16 series:\n%v", len(styles), styles)
	}
	// And a picture of sixteen methods draws.
	var trs []trajectory.Trajectory
	for i := range 16 {
		trs = append(trs, newEpisode(fmt.Sprintf("m%02d", i), "a", "sql_query", "4821", "sql_query"))
	}
	in := inputOf(t, trs)
	in.Headline, in.Compare = "", nil
	rows := eval.Table(in.Collected, in.Options)
	f := scatterFigure("s", "S", "cost", rows, func(r *eval.Row) eval.Interval { return r.Get("mean_cost") }, nil, 0.95)
	if b, err := f.svg(); err != nil || len(b) == 0 {
		t.Error(err)
	}
}
