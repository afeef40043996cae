package report

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/toolroute/toolroute/pkg/eval"
)

// bar is a horizontal bar from 0 with an interval; NaN draws none.
type bar struct {
	value eval.Interval
	color color.Color
}

// barGroups are horizontal bars in groups from top to bottom; a group's bars stand in the given order.
type barGroups struct {
	names []string
	bars  [][]bar
}

// panel returns a plot of the groups; x runs from 0 to at least 1 for rates.
func (g barGroups) panel(title, xLabel string, xMax float64) *plot.Plot {
	p := newPanel(title, xLabel, "")
	p.X.Min, p.X.Max = 0, xMax
	p.X.Tick.Marker = fewTicks{5}
	n := len(g.names)
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	ticks := make(plot.ConstantTicks, n)
	for i, name := range g.names {
		ticks[i] = plot.Tick{Value: float64(n - 1 - i), Label: name}
	}
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.Padding = ticks, 0, 0
	p.Y.Tick.Label.Color = ink
	p.Add(gridLines{x: true}, g)
	return p
}

func (g barGroups) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for i, bars := range g.bars {
		centre := float64(len(g.bars) - 1 - i)
		step := 0.8 / float64(len(bars))
		for j, b := range bars {
			top := centre + 0.4 - step*float64(j)
			bottom := top - step*0.92
			if math.IsNaN(b.value.Value) {
				continue
			}
			c.SetColor(faded(b.color, 0xc8))
			c.Fill(rectangle(tx(0), ty(bottom), max(tx(b.value.Value), tx(0)+0.8), ty(top)))
			if math.IsNaN(b.value.Lo) {
				continue
			}
			y := ty((top + bottom) / 2)
			line := draw.LineStyle{Color: ink, Width: vg.Points(0.9)}
			c.StrokeLine2(line, tx(b.value.Lo), y, tx(b.value.Hi), y)
			for _, end := range []float64{b.value.Lo, b.value.Hi} {
				c.StrokeLine2(line, tx(end), y-2, tx(end), y+2)
			}
		}
	}
}

// stacked is one horizontal bar of shares that sum to 1, from left to right.
type stacked struct {
	names  []string
	shares [][]float64
	colors []color.Color
}

func (s stacked) panel(title, xLabel string) *plot.Plot {
	groups := barGroups{names: s.names, bars: make([][]bar, len(s.names))}
	p := groups.panel(title, xLabel, 1)
	p.Add(s)
	return p
}

func (s stacked) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	text := textStyle(8, ink)
	text.XAlign, text.YAlign = draw.XCenter, draw.YCenter
	for i, shares := range s.shares {
		y := float64(len(s.shares) - 1 - i)
		from := 0.0
		for j, v := range shares {
			c.SetColor(faded(s.colors[j], 0xb0))
			c.Fill(rectangle(tx(from), ty(y-0.36), tx(from+v), ty(y+0.36)))
			if l := strconv.FormatFloat(v, 'f', 2, 64); tx(from+v)-tx(from) > text.Width(l)+4 {
				c.FillText(text, vg.Point{X: (tx(from) + tx(from+v)) / 2, Y: ty(y)}, l)
			}
			from += v
		}
	}
}

// histogramBars are vertical bars with given edges.
type histogramBars struct {
	low, high, count []float64
	color            color.Color
}

func (h histogramBars) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = math.Inf(1), math.Inf(-1)
	for i := range h.low {
		xmin, xmax, ymax = min(xmin, h.low[i]), max(xmax, h.high[i]), max(ymax, h.count[i])
	}
	return xmin, xmax, 0, ymax
}

func (h histogramBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	c.SetColor(faded(h.color, 0xc8))
	for i, n := range h.count {
		if n > 0 {
			c.Fill(rectangle(tx(h.low[i])+0.5, ty(0), tx(h.high[i])-0.5, ty(n)))
		}
	}
}
