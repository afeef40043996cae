package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/reward"
)

// maxPanels is how many splits the scatter pictures show.
const maxPanels = 4

// rowName is the method, with its model where several models share the method's name.
func rowName(rows []eval.Row, r eval.Row) string {
	for _, o := range rows {
		if o.Method == r.Method && o.Model != r.Model {
			return r.Method + " (" + r.Model + ")"
		}
	}
	return r.Method
}

// names lists the row names in the order of the table; a name's position gives its colour in every picture.
func namesOf(rows []eval.Row) []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range rows {
		if n := rowName(rows, r); !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

func splitsOf(rows []eval.Row) []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range rows {
		if !seen[r.Split] {
			seen[r.Split] = true
			out = append(out, r.Split)
		}
	}
	return out
}

// headlineRows keeps the rows of the headline's budget mode and decoding.
func headlineRows(rows []eval.Row, budget, decoding string) []eval.Row {
	var out []eval.Row
	for _, r := range rows {
		if r.Budget == budget && r.Decoding == decoding {
			out = append(out, r)
		}
	}
	return out
}

func intervalNote(level float64) string {
	return fmt.Sprintf("Bars: %.0f%% intervals over tasks and training seeds.", 100*level)
}

// scatterFigure draws success against x in one panel a split, with the Pareto frontier of each.
func scatterFigure(name, title, xLabel string, rows []eval.Row, x func(*eval.Row) eval.Interval, bounds []string, level float64) *figure {
	names := namesOf(rows)
	splits := splitsOf(rows)
	splits = splits[:min(len(splits), maxPanels)]
	marks := make([][]mark, len(splits))
	var all []mark
	for i := range rows {
		s := slices.Index(splits, rows[i].Split)
		if s < 0 {
			continue
		}
		n := rowName(rows, rows[i])
		m := mark{n, x(&rows[i]), rows[i].Get("success_rate"), lookOf(slices.Index(names, n)), slices.Contains(bounds, rows[i].Method)}
		marks[s] = append(marks[s], m)
		all = append(all, m)
	}
	lo, hi := extent(all)
	logX := lo > 0 && hi/lo > 50
	if logX {
		xLabel += ", log scale"
	}
	cols := len(splits)
	if cols > 3 {
		cols = 2
	}
	f := &figure{name: name, title: title, w: vg.Length([]int{560, 920, 1140}[cols-1]), subtitle: intervalNote(level) + " Dashed: Pareto frontier (no other method is as good for less)."}
	if len(bounds) > 0 {
		f.subtitle += " Hollow: a bound, not part of the frontier."
	}
	nRows := (len(splits) + cols - 1) / cols
	f.h = vg.Length(60 + 290*nRows)
	var said []string
	panels := make([]*plot.Plot, len(splits))
	for i, split := range splits {
		var front []string
		for _, j := range frontier(marks[i]) {
			front = append(front, marks[i][j].name)
		}
		said = append(said, fmt.Sprintf("%s: frontier %s", split, strings.Join(front, ", ")))
		panels[i] = scatterPanel(split, xLabel, marks[i], lo, hi, logX)
	}
	f.alt = title + ". " + strings.Join(said, "; ") + "."
	f.body = func(c draw.Canvas) {
		for r, row := range rowsOf(c, nRows, 12) {
			for j, part := range columns(row, cols, 16) {
				if i := r*cols + j; i < len(panels) {
					panels[i].Draw(part)
				}
			}
		}
	}
	return f
}

// barsFigure draws the success of every method as a group of bars, one a split.
func barsFigure(rows []eval.Row, level float64) *figure {
	names, splits := namesOf(rows), splitsOf(rows)
	g := barGroups{names: names, bars: make([][]bar, len(names))}
	f := &figure{name: "test_vs_heldout_bars", title: "Success on every split", subtitle: intervalNote(level), w: 620}
	nan := eval.Interval{Value: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
	for s, split := range splits {
		f.legend = append(f.legend, swatch{split, look{color: faded(areaColor(s), 0xc8)}})
		for i, name := range names {
			b := bar{nan, areaColor(s)}
			for _, r := range rows {
				if r.Split == split && rowName(rows, r) == name {
					b.value = r.Get("success_rate")
				}
			}
			g.bars[i] = append(g.bars[i], b)
		}
	}
	f.h = vg.Length(95 + len(names)*(10+9*max(1, len(splits))))
	f.alt = fmt.Sprintf("Success rate of %s on %s.", strings.Join(names, ", "), strings.Join(splits, ", "))
	p := g.panel("", "success rate", 1)
	f.body = p.Draw
	return f
}

// Profile is the reward profile of a policy before reinforcement, with the gate's verdict.
type Profile struct {
	Name       string // of the policy: "base", "sft"
	Of         reward.Profile
	Thresholds reward.Thresholds
	Verdict    reward.Verdict
}

// profileFigure shows, for every profiled policy, the rewards, the gate's figures against their thresholds, and what the
// groups of each difficulty are made of.
func profileFigure(profiles []Profile) *figure {
	f := &figure{name: "reward_profile", title: "Rewards before training", w: 900, h: vg.Length(80 + 215*len(profiles)),
		subtitle: "Left: rewards of the episodes. Middle: what the gate looks at; line: the threshold. Right: groups of attempts at one task; only groups with differing rewards carry a gradient."}
	same, mixed := palette[7], palette[2]
	f.legend = []swatch{{"all rewards equal", look{color: faded(same, 0xb0)}}, {"rewards differ", look{color: faded(mixed, 0xb0)}}}
	var said []string
	var panels [][3]*plot.Plot
	for _, pr := range profiles {
		verdict := "no-go"
		if pr.Verdict.Go {
			verdict = "go"
		}
		all := pr.Of.All
		said = append(said, fmt.Sprintf("%s: %s, pass@%d %.3f, mixed groups %.3f, valid actions %.3f", pr.Name, verdict, pr.Of.K, all.PassK, all.Mixed, all.FormatValid))
		h := histogramBars{color: palette[0]}
		for _, b := range pr.Of.Histogram {
			h.low, h.high, h.count = append(h.low, b.Low), append(h.high, b.High), append(h.count, float64(b.Count))
		}
		left := newPanel(fmt.Sprintf("%s: %d episodes", pr.Name, all.Episodes), "reward", "episodes")
		if len(h.low) == 0 {
			left.X.Min, left.X.Max, left.Y.Min, left.Y.Max = 0, 1, 0, 1
		}
		left.Add(gridLines{y: true}, h)
		left.Y.Max *= 1.06
		checks := []struct {
			name      string
			got, need float64
		}{{fmt.Sprintf("pass@%d", pr.Of.K), all.PassK, pr.Thresholds.PassK}, {"mixed groups", all.Mixed, pr.Thresholds.Mixed}, {"valid actions", all.FormatValid, pr.Thresholds.Format}}
		g := barGroups{}
		var needs thresholds
		for _, c := range checks {
			col := palette[2]
			if c.got < c.need {
				col = palette[1]
			}
			g.names = append(g.names, c.name)
			g.bars = append(g.bars, []bar{{eval.Interval{Value: c.got, Lo: math.NaN(), Hi: math.NaN()}, col}})
			needs = append(needs, c.need)
		}
		middle := g.panel("gate: "+verdict, "share", 1)
		middle.Add(needs)
		st := stacked{colors: []color.Color{same, mixed}}
		for _, s := range pr.Of.ByDifficulty {
			st.names = append(st.names, fmt.Sprintf("difficulty %s (%d)", s.Name, s.Groups))
			st.shares = append(st.shares, []float64{s.ZeroVariance, s.Mixed})
		}
		panels = append(panels, [3]*plot.Plot{left, middle, st.panel("groups", "share of groups")})
	}
	f.alt = f.title + ". " + strings.Join(said, "; ") + "."
	f.body = func(c draw.Canvas) {
		for i, row := range rowsOf(c, len(panels), 12) {
			for j, part := range columns(row, 3, 16) {
				panels[i][j].Draw(part)
			}
		}
	}
	return f
}

// thresholds are drawn as a line across each bar of a barGroups, from the top.
type thresholds []float64

func (t thresholds) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for i, v := range t {
		y := float64(len(t) - 1 - i)
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: vg.Points(1.6)}, tx(v), ty(y-0.45), tx(v), ty(y+0.45))
	}
}
