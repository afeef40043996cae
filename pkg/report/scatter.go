package report

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/toolroute/toolroute/pkg/eval"
)

// mark is a labelled point with its interval in both directions; less x is better, more y is better.
type mark struct {
	name string
	x, y eval.Interval
	look
	bound bool // shown hollow and kept out of the frontier: it knows what no method knows
}

// Pareto returns the indices of the points that no other beats: none has a smaller or equal x with a greater or equal y,
// one of the two strictly. Of equal points the first stays. They come sorted by x. Points with a NaN are left out.
func Pareto(x, y []float64) []int {
	var order []int
	for i := range x {
		if !math.IsNaN(x[i]) && !math.IsNaN(y[i]) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(x[a], x[b]), cmp.Compare(y[b], y[a])) })
	best := math.Inf(-1)
	var front []int
	for _, i := range order {
		if y[i] > best {
			best = y[i]
			front = append(front, i)
		}
	}
	return front
}

// extent returns the range of the marks' x, intervals included; 0 to 1 without any.
func extent(marks []mark) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, m := range marks {
		for _, v := range []float64{m.x.Value, m.x.Lo, m.x.Hi} {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if math.IsInf(lo, 1) {
		return 0, 1
	}
	return lo, hi
}

// frontier returns the indices of the marks on the Pareto frontier, bounds left out.
func frontier(marks []mark) []int {
	xs, ys := make([]float64, len(marks)), make([]float64, len(marks))
	for i, m := range marks {
		xs[i], ys[i] = m.x.Value, m.y.Value
		if m.bound {
			xs[i] = math.NaN()
		}
	}
	return Pareto(xs, ys)
}

// scatterPanel draws marks with their intervals, labels beside them and the Pareto frontier as steps.
func scatterPanel(title, xLabel string, marks []mark, lo, hi float64, logX bool) *plot.Plot {
	p := newPanel(title, xLabel, "success rate")
	p.Y.Min, p.Y.Max = -0.02, 1.02
	p.Y.Tick.Marker = fewTicks{6}
	if logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
		p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(hi)+1e-9))
	} else {
		p.X.Min, p.X.Max = 0, max(hi*1.05, 1e-3)
		p.X.Tick.Marker = fewTicks{5}
	}
	p.Add(gridLines{x: true, y: true}, scatter(marks))
	return p
}

type scatter []mark

func (s scatter) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	xs, ys := make([]float64, len(s)), make([]float64, len(s))
	for i, m := range s {
		xs[i], ys[i] = m.x.Value, m.y.Value
	}
	front := frontier(s)
	var steps []vg.Point
	for j, i := range front {
		at := vg.Point{X: tx(xs[i]), Y: ty(ys[i])}
		if j > 0 {
			steps = append(steps, vg.Point{X: at.X, Y: steps[len(steps)-1].Y})
		}
		steps = append(steps, at)
	}
	if len(steps) > 0 {
		steps = append(steps, vg.Point{X: c.Max.X, Y: steps[len(steps)-1].Y})
		c.StrokeLines(draw.LineStyle{Color: muted, Width: vg.Points(1), Dashes: []vg.Length{4, 3}}, steps)
	}
	const radius = 3.6
	var boxes []box
	for j := 1; j < len(steps); j++ {
		a, b := steps[j-1], steps[j]
		boxes = append(boxes, box{min(a.X, b.X) - 0.7, min(a.Y, b.Y) - 0.7, max(a.X, b.X) + 0.7, max(a.Y, b.Y) + 0.7})
	}
	var texts []label
	var drawn []int
	style := textStyle(8.5, ink)
	for i, m := range s {
		if math.IsNaN(xs[i]) || math.IsNaN(ys[i]) {
			continue
		}
		x, y := tx(xs[i]), ty(ys[i])
		line := draw.LineStyle{Color: faded(m.color, 0x90), Width: vg.Points(1.2)}
		if !math.IsNaN(m.x.Lo) {
			c.StrokeLine2(line, tx(m.x.Lo), y, tx(m.x.Hi), y)
			boxes = append(boxes, box{tx(m.x.Lo), y - 0.7, tx(m.x.Hi), y + 0.7})
		}
		if !math.IsNaN(m.y.Lo) {
			c.StrokeLine2(line, x, ty(m.y.Lo), x, ty(m.y.Hi))
			boxes = append(boxes, box{x - 0.7, ty(m.y.Lo), x + 0.7, ty(m.y.Hi)})
		}
		boxes = append(boxes, box{x - radius, y - radius, x + radius, y + radius})
		texts = append(texts, label{m.name, x, y, style.Width(m.name), 9})
		drawn = append(drawn, i)
	}
	for _, i := range drawn {
		glyph := draw.GlyphStyle{Color: s[i].color, Radius: radius, Shape: s[i].glyph}
		if s[i].bound {
			glyph.Shape = draw.RingGlyph{}
		}
		c.DrawGlyphNoClip(glyph, vg.Point{X: tx(xs[i]), Y: ty(ys[i])})
	}
	style.YAlign = draw.YCenter
	for i, b := range placeLabels(texts, boxes, box{c.Min.X, c.Min.Y, c.Max.X, c.Max.Y}) {
		px, py := texts[i].x, texts[i].y
		cx, cy := min(max(px, b.x0), b.x1), min(max(py, b.y0), b.y1)
		if math.Hypot(float64(cx-px), float64(cy-py)) > 9 {
			c.StrokeLine2(draw.LineStyle{Color: faded(muted, 0x80), Width: vg.Points(0.6)}, px, py, cx, cy)
		}
		c.FillText(style, vg.Point{X: b.x0, Y: (b.y0 + b.y1) / 2}, texts[i].text)
	}
}

type box struct{ x0, y0, x1, y1 vg.Length }

func (a box) overlap(b box) float64 {
	w := min(a.x1, b.x1) - max(a.x0, b.x0)
	h := min(a.y1, b.y1) - max(a.y0, b.y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return float64(w * h)
}

type label struct {
	text       string
	x, y, w, h vg.Length
}

// placeLabels finds a place for each label near its point, within bounds and clear of points and of other labels: the
// nearest of a ring of candidates at growing distance. Labels are placed in the order given, so the result is the same
// every time.
func placeLabels(labels []label, points []box, bounds box) []box {
	placed := make([]box, 0, len(labels))
	for _, l := range labels {
		var best box
		least := math.Inf(1)
		for ring := range 30 {
			gap := vg.Length(6 + 7*ring)
			for dir := range 16 {
				sin, cos := math.Sincos(float64(dir) * math.Pi / 8)
				x, y := l.x+gap*vg.Length(cos), l.y+gap*vg.Length(sin)
				b := box{x, y - l.h/2, x + l.w, y + l.h/2}
				switch {
				case cos < -0.3:
					b.x0, b.x1 = x-l.w, x
				case cos <= 0.3:
					b.x0, b.x1 = x-l.w/2, x+l.w/2
				}
				cost := float64(gap) + 0.1*float64(dir)
				for _, o := range points {
					cost += 4 * b.overlap(o)
				}
				for _, o := range placed {
					if v := b.overlap(box{o.x0 - 3, o.y0 - 1, o.x1 + 3, o.y1 + 1}); v > 0 {
						cost += 1000 + 50*v // farther away is better than touching
					}
				}
				if out := l.w*l.h - vg.Length(b.overlap(bounds)); out > 1e-6 {
					cost += 50 * float64(out)
				}
				if cost < least {
					best, least = b, cost
				}
			}
		}
		placed = append(placed, best)
	}
	return placed
}
