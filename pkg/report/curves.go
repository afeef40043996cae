package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Picture is a picture of lines that a caller describes as data: learning curves, regimes, sweeps.
type Picture struct {
	Name     string // of the files, without extension
	Title    string
	Subtitle string // what is drawn, and how
	Columns  int    // panels side by side; 0 means one
	Tall     bool   // panels of twice the height, for many lines in one
	Panels   []Panel
}

// Panel is one plot of a Picture, with units in its labels.
type Panel struct {
	Title, X, Y string
	Rate        bool // y is a share: the axis runs from 0 to 1
	Log         bool // y on a logarithmic axis; values that are not positive are left out
	Lines       []Line
}

// Line is a series; Lo and Hi, when given, are the ends of a band. NaN values leave a gap. Lines that share a name share
// its colour and its entry in the legend.
type Line struct {
	Name      string
	X, Y      []float64
	Lo, Hi    []float64
	Reference bool // a level to compare with, drawn dashed and thin
	Dashed    bool // the second of two lines of a name; the subtitle says which that is
}

func (pic Picture) validate() error {
	if pic.Name == "" || strings.ContainsAny(pic.Name, `/\`) {
		return fmt.Errorf("picture %q: the name must be a file name without extension", pic.Name)
	}
	for _, p := range pic.Panels {
		for _, l := range p.Lines {
			if len(l.X) != len(l.Y) || len(l.Lo) != len(l.Hi) || len(l.Lo) != 0 && len(l.Lo) != len(l.X) {
				return fmt.Errorf("picture %s: line %q has %d x, %d y, %d lo and %d hi values", pic.Name, l.Name, len(l.X), len(l.Y), len(l.Lo), len(l.Hi))
			}
		}
	}
	return nil
}

// figure lays the panels out in rows. Lines of the same name have the same colour in all panels, and one legend names them.
func (pic Picture) figure() *figure {
	var names []string
	for _, p := range pic.Panels {
		for _, l := range p.Lines {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	f := &figure{name: pic.Name, title: pic.Title, subtitle: pic.Subtitle}
	for i, n := range names {
		f.legend = append(f.legend, swatch{n, lookOf(i)})
	}
	cols := max(1, pic.Columns)
	rows := max(1, (len(pic.Panels)+cols-1)/cols)
	height, ticks := 165, 4
	if pic.Tall {
		height, ticks = 2*height, 2*ticks
	}
	f.w, f.h = vg.Length(560), vg.Length(70+height*rows)
	if cols > 1 {
		f.w = vg.Length(340 * cols)
	}
	f.alt = pic.Title + ". " + pic.Subtitle + " Lines: " + strings.Join(names, ", ") + "."
	f.body = func(c draw.Canvas) {
		for r, row := range rowsOf(c, rows, 10) {
			for j, part := range columns(row, cols, 14) {
				if i := r*cols + j; i < len(pic.Panels) {
					pic.Panels[i].plot(names, ticks).Draw(part)
				}
			}
		}
	}
	return f
}

func (pan Panel) plot(names []string, ticks int) *plot.Plot {
	p := newPanel(pan.Title, pan.X, pan.Y)
	if pan.Log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	var shown []curve
	for _, l := range pan.Lines {
		cv := curve{l, lookOf(slices.Index(names, l.Name)), pan.Log}
		x0, x1, y0, y1 := cv.DataRange()
		if x0 <= x1 && y0 <= y1 {
			p.X.Min, p.X.Max = min(p.X.Min, x0), max(p.X.Max, x1)
			p.Y.Min, p.Y.Max = min(p.Y.Min, y0), max(p.Y.Max, y1)
			shown = append(shown, cv)
		}
	}
	if len(shown) == 0 {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
		if pan.Log {
			p.Y.Min = 0.1
		}
	}
	switch {
	case pan.Rate:
		p.Y.Min, p.Y.Max = min(0, p.Y.Min), max(1, p.Y.Max)
	case pan.Log:
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)+1e-9))
	case p.Y.Min == p.Y.Max:
		p.Y.Min, p.Y.Max = p.Y.Min-0.5, p.Y.Max+0.5
	default:
		d := (p.Y.Max - p.Y.Min) * 0.05
		p.Y.Min, p.Y.Max = p.Y.Min-d, p.Y.Max+d
	}
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min-1, p.X.Max+1
	}
	if !pan.Log {
		p.Y.Tick.Marker = fewTicks{ticks}
	}
	p.Add(gridLines{y: true})
	for _, cv := range shown {
		p.Add(cvOnly{cv})
	}
	return p
}

// cvOnly hides the range of a curve, which the panel has set already.
type cvOnly struct{ c curve }

func (o cvOnly) Plot(c draw.Canvas, p *plot.Plot) { o.c.Plot(c, p) }

type curve struct {
	Line
	look
	log bool
}

func (cv curve) ok(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!cv.log || v > 0)
}

func (cv curve) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for i, x := range cv.X {
		if !cv.ok(cv.Y[i]) {
			continue
		}
		xmin, xmax = min(xmin, x), max(xmax, x)
		values := []float64{cv.Y[i]}
		if len(cv.Lo) > 0 {
			values = append(values, cv.Lo[i], cv.Hi[i])
		}
		for _, v := range values {
			if cv.ok(v) {
				ymin, ymax = min(ymin, v), max(ymax, v)
			}
		}
	}
	return xmin, xmax, ymin, ymax
}

func (cv curve) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	if len(cv.Lo) > 0 {
		var upper, lower []vg.Point
		for i, x := range cv.X {
			if cv.ok(cv.Lo[i]) && cv.ok(cv.Hi[i]) {
				upper = append(upper, vg.Point{X: tx(x), Y: ty(cv.Hi[i])})
				lower = append(lower, vg.Point{X: tx(x), Y: ty(cv.Lo[i])})
			}
		}
		slices.Reverse(lower)
		if len(upper) > 1 {
			c.FillPolygon(faded(cv.color, 0x30), c.ClipPolygonXY(append(upper, lower...)))
		}
	}
	style := draw.LineStyle{Color: cv.color, Width: vg.Points(1.4), Dashes: cv.dashes}
	switch {
	case cv.Reference:
		style.Width, style.Dashes = vg.Points(1), append(slices.Clone(cv.dashes), 4, 3)
	case cv.Dashed:
		style.Width, style.Dashes = vg.Points(1.1), append(slices.Clone(cv.dashes), 5, 2.5)
	}
	var run []vg.Point
	flush := func() {
		if len(run) > 1 {
			c.StrokeLines(style, c.ClipLinesXY(run)...)
		}
		marks := run
		if len(run) > 1 && cv.round == 0 { // the colour is enough
			marks = nil
		}
		for i, at := range marks {
			if i%max(1, len(run)/8) == 0 {
				c.DrawGlyphNoClip(draw.GlyphStyle{Color: cv.color, Radius: 2 + vg.Length(min(1, cv.round))*0.6, Shape: cv.glyph}, at)
			}
		}
		run = nil
	}
	for i, x := range cv.X {
		if !cv.ok(cv.Y[i]) {
			flush()
			continue
		}
		run = append(run, vg.Point{X: tx(x), Y: ty(cv.Y[i])})
	}
	flush()
}

// livePoints is how many points of a line a live picture has at most: it is drawn again and again, and sent each time.
const livePoints = 300

// LiveSVG draws the reward, success and loss of a run that is still training; nil where it has logged none of them yet.
func LiveSVG(run TrainingRun) ([]byte, error) {
	for stride := 1; ; stride++ {
		if len(run.Records)/stride <= livePoints {
			var kept []MetricsRecord
			for i, r := range run.Records {
				if i%stride == 0 || i == len(run.Records)-1 || hasValidation(r) {
					kept = append(kept, r)
				}
			}
			run.Records = kept
			break
		}
	}
	for _, f := range trainingFigures([]TrainingRun{run}) {
		if f.name == trainingPictures[0].name {
			return f.svg()
		}
	}
	return nil, nil
}

// hasValidation reports whether a record has a metric that is measured at some steps only.
func hasValidation(r MetricsRecord) bool {
	for name := range r.Values {
		if strings.HasPrefix(name, "val") {
			return true
		}
	}
	return false
}
