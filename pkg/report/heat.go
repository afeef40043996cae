package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/toolroute/toolroute/pkg/eval"
)

// maxCombinations is how many rows and columns a routing matrix shows; the rarest beyond it are summed as "other".
const maxCombinations = 20

// shortNames maps tools to the part of their names before "_" where that is still unambiguous.
func shortNames(tools []string) map[string]string {
	count := map[string]int{}
	for _, t := range tools {
		s, _, _ := strings.Cut(t, "_")
		count[s]++
	}
	short := map[string]string{}
	for _, t := range tools {
		s, _, _ := strings.Cut(t, "_")
		if count[s] > 1 || s == "" {
			s = t
		}
		short[t] = s
	}
	return short
}

// shortCombinations abbreviates the tools of combinations such as "sql_query+doc_search".
func shortCombinations(combinations []string) func(string) string {
	seen := map[string]bool{}
	var tools []string
	for _, c := range combinations {
		for _, t := range strings.Split(c, "+") {
			if !seen[t] {
				seen[t] = true
				tools = append(tools, t)
			}
		}
	}
	short := shortNames(tools)
	return func(c string) string {
		parts := strings.Split(c, "+")
		for i, t := range parts {
			if s, ok := short[t]; ok {
				parts[i] = s
			}
		}
		return strings.Join(parts, "+")
	}
}

// trimmed keeps the commonest rows and columns of a confusion matrix and sums the rest.
func trimmed(m eval.Confusion) eval.Confusion {
	rowSum := func(i int) int {
		n := 0
		for _, v := range m.Count[i] {
			n += v
		}
		return n
	}
	colSum := func(j int) int {
		n := 0
		for i := range m.Count {
			n += m.Count[i][j]
		}
		return n
	}
	rows, restRows := commonest(len(m.Gold), rowSum)
	cols, restCols := commonest(len(m.Used), colSum)
	var out eval.Confusion
	line := func(from []int) []int {
		l := make([]int, 0, len(cols)+1)
		at := func(js []int) int {
			n := 0
			for _, i := range from {
				for _, j := range js {
					n += m.Count[i][j]
				}
			}
			return n
		}
		for _, j := range cols {
			l = append(l, at([]int{j}))
		}
		if len(restCols) > 0 {
			l = append(l, at(restCols))
		}
		return l
	}
	for _, j := range cols {
		out.Used = append(out.Used, m.Used[j])
	}
	if len(restCols) > 0 {
		out.Used = append(out.Used, fmt.Sprintf("other (%d)", len(restCols)))
	}
	for _, i := range rows {
		out.Gold = append(out.Gold, m.Gold[i])
		out.Count = append(out.Count, line([]int{i}))
	}
	if len(restRows) > 0 {
		out.Gold = append(out.Gold, fmt.Sprintf("other (%d)", len(restRows)))
		out.Count = append(out.Count, line(restRows))
	}
	return out
}

// commonest returns the indices of the maxCombinations largest sums, in their order, and the others.
func commonest(n int, sum func(int) int) (kept, rest []int) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sum(b), sum(a)) })
	kept = order[:min(n, maxCombinations)]
	rest = order[len(kept):]
	slices.Sort(kept)
	slices.Sort(rest)
	return kept, rest
}

func routingFigure(m eval.Confusion, of string) *figure {
	accuracy := m.Accuracy()
	m = trimmed(m)
	f := &figure{
		name: "routing_matrix", title: "Which tools were called",
		subtitle: fmt.Sprintf("%s. Counts of episodes; shade: share of the gold combination's episodes; outlined: the gold combination was used (%.0f%% of all).", of, 100*accuracy),
		alt:      fmt.Sprintf("Routing confusion matrix of %s: %d gold combinations by %d used ones; %.0f%% of episodes used the gold combination.", of, len(m.Gold), len(m.Used), 100*accuracy),
	}
	return f.withHeat(m, "used combination", "gold combination", shortCombinations(append(slices.Clone(m.Gold), m.Used...)))
}

// choicesFigure shows what a policy called where the cheapest path calls one tool of a family.
func choicesFigure(choices []eval.Choice, of string) *figure {
	m := eval.Confusion{Used: []string{"gold tool", "other tool", "both", "neither"}}
	right, all := 0, 0
	for _, c := range choices {
		m.Gold = append(m.Gold, c.Family+": "+c.Gold)
		m.Count = append(m.Count, []int{c.Right, c.Other, c.Both, c.Neither})
		right, all = right+c.Right, all+c.Episodes
	}
	share := 100 * float64(right) / float64(max(1, all))
	f := &figure{
		name: "routing_matrix", title: "Which tool of a family was called",
		subtitle: fmt.Sprintf("%s. Counts of episodes by the tool that the cheapest path calls; shade: share of the line (gold tool alone: %.0f%% of all).", of, share),
		alt:      fmt.Sprintf("Choices of %s in %d families and directions: %.0f%% of episodes called the gold tool alone.", of, len(m.Gold), share),
	}
	return f.withHeat(m, "called", "family: gold tool", func(s string) string { return s })
}

// withHeat draws the counts of a confusion matrix. short abbreviates its labels.
func (f *figure) withHeat(m eval.Confusion, x, y string, short func(string) string) *figure {
	cell := vg.Length(30)
	widest := vg.Length(0)
	style := textStyle(8.5, ink)
	for _, n := range append(slices.Clone(m.Gold), m.Used...) {
		widest = max(widest, style.Width(short(n)))
	}
	f.w = max(420, 2*margin+widest+40+cell*vg.Length(len(m.Used)))
	f.h = 2*margin + 80 + widest + 0.8*cell*vg.Length(len(m.Gold))
	p := newPanel("", x, y)
	p.X.Min, p.X.Max = -0.5, float64(len(m.Used))-0.5
	p.Y.Min, p.Y.Max = -0.5, float64(len(m.Gold))-0.5
	p.X.Padding, p.Y.Padding, p.X.Tick.Length, p.Y.Tick.Length = 6, 0, 0, 0
	p.X.LineStyle.Width = 0
	var xt, yt plot.ConstantTicks
	for j, u := range m.Used {
		xt = append(xt, plot.Tick{Value: float64(j), Label: short(u)})
	}
	for i, g := range m.Gold {
		yt = append(yt, plot.Tick{Value: float64(len(m.Gold) - 1 - i), Label: short(g)})
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = xt, yt
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/2, draw.XRight, draw.YCenter
	p.X.Tick.Label.Color, p.Y.Tick.Label.Color = ink, ink
	p.Add(heat{m})
	f.body = p.Draw
	return f
}

type heat struct{ m eval.Confusion }

func (h heat) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	text := textStyle(8, ink)
	text.XAlign, text.YAlign = draw.XCenter, draw.YCenter
	for i, line := range h.m.Count {
		sum := 0
		for _, n := range line {
			sum += n
		}
		y := float64(len(h.m.Count) - 1 - i)
		for j, n := range line {
			x0, x1, y0, y1 := tx(float64(j)-0.5), tx(float64(j)+0.5), ty(y-0.5), ty(y+0.5)
			if n > 0 {
				share := float64(n) / float64(sum)
				c.SetColor(faded(paletteColor(0), uint8(20+150*share)))
				c.Fill(rectangle(x0, y0, x1, y1))
				c.FillText(text, vg.Point{X: (x0 + x1) / 2, Y: (y0 + y1) / 2}, strconv.Itoa(n))
			}
			c.SetLineStyle(draw.LineStyle{Color: rule, Width: vg.Points(0.4)})
			c.Stroke(rectangle(x0, y0, x1, y1))
		}
	}
	for i, g := range h.m.Gold { // outlines last, so that no neighbour's rule covers them
		if j := slices.Index(h.m.Used, g); j >= 0 {
			y := float64(len(h.m.Gold) - 1 - i)
			c.SetLineStyle(draw.LineStyle{Color: color.Color(ink), Width: vg.Points(1.1)})
			c.Stroke(rectangle(tx(float64(j)-0.5), ty(y-0.5), tx(float64(j)+0.5), ty(y+0.5)))
		}
	}
}
