package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is one picture: a title, a subtitle that says what is drawn and how, a legend in rows below, and a body. Alt is
// the text that stands for it where it cannot be seen.
type figure struct {
	name, title, subtitle, alt string
	legend                     []swatch
	w, h                       vg.Length
	body                       func(draw.Canvas)
}

type swatch struct {
	name string
	look look
}

// look is the colour, dashes and mark of a line or a point. No two lines of a picture share all three.
type look struct {
	color  color.NRGBA
	dashes []vg.Length
	glyph  draw.GlyphDrawer
	round  int // how often the colours were used up before
}

// The colours of everything that is not data. The page replaces them by its own, so that inline pictures follow the theme.
var (
	ink   = color.NRGBA{0x1f, 0x23, 0x28, 0xff}
	muted = color.NRGBA{0x57, 0x60, 0x6a, 0xff}
	rule  = color.NRGBA{0xd0, 0xd7, 0xde, 0xff}
	paper = color.NRGBA{0xff, 0xff, 0xfe, 0xff}
)

// palette holds colours that stay apart for the common kinds of colour blindness (after Okabe and Ito 2008), and that are readable on a
// light and a dark background.
var palette = []color.NRGBA{
	{0x1f, 0x77, 0xb4, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff},
	{0x56, 0xb4, 0xe9, 0xff}, {0x8c, 0x56, 0x4b, 0xff}, {0x7f, 0x7f, 0x7f, 0xff}, {0x94, 0x67, 0xbd, 0xff}, {0xbc, 0xa8, 0x00, 0xff},
}

func paletteColor(i int) color.NRGBA { return palette[i%len(palette)] }

// rounds are the dashes and marks of series beyond the first ten, ten more each.
var rounds = []struct {
	dashes []vg.Length
	glyph  draw.GlyphDrawer
}{
	{nil, draw.CircleGlyph{}}, {[]vg.Length{7, 2}, draw.SquareGlyph{}}, {[]vg.Length{2, 2}, draw.TriangleGlyph{}}, {[]vg.Length{8, 2, 2, 2}, draw.PlusGlyph{}},
	{[]vg.Length{10, 3, 3, 3, 3, 3}, draw.CrossGlyph{}}, {[]vg.Length{1, 3}, draw.PyramidGlyph{}},
}

// lookOf is the look of a picture's series i: a colour of the palette, and from the eleventh on other dashes and marks too. Beyond
// sixty the colours themselves are darkened by a twelfth a time.
func lookOf(i int) look {
	round := i / len(palette)
	r := rounds[round%len(rounds)]
	c := paletteColor(i)
	for range round / len(rounds) {
		c.R, c.G, c.B = c.R-c.R/12, c.G-c.G/12, c.B-c.B/12
	}
	return look{c, r.dashes, r.glyph, round}
}

// areaColor is the colour of bars of series i, which have nothing but their colour: from the eleventh on darker ones.
func areaColor(i int) color.NRGBA {
	c := paletteColor(i)
	for range i / len(palette) {
		c.R, c.G, c.B = c.R/3*2, c.G/3*2, c.B/3*2
	}
	return c
}

func faded(c color.Color, alpha uint8) color.NRGBA {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = alpha
	return n
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

func textStyle(size float64, c color.Color) text.Style {
	return text.Style{Color: c, Font: sans(size), Handler: plot.DefaultTextHandler}
}

// newPanel is an empty plot in the house style: no box, horizontal grid lines, units in the labels.
func newPanel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	p.Title.Padding = vg.Points(6)
	p.Title.TextStyle = textStyle(9.5, ink)
	p.Title.TextStyle.Font.Weight = stdfont.WeightBold
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = sans(9), muted
		a.Label.Padding = vg.Points(3)
		a.Tick.Label.Font, a.Tick.Label.Color = sans(8.5), muted
		a.LineStyle.Color, a.Tick.LineStyle.Color = rule, rule
		a.LineStyle.Width, a.Tick.LineStyle.Width = vg.Points(0.75), vg.Points(0.75)
		a.Tick.Length = vg.Points(3)
		a.Padding = vg.Points(4)
		a.Tick.Marker = fewTicks{6}
	}
	return p
}

// fewTicks places at most about n labelled ticks on multiples of 1, 2 or 5 times a power of ten, and no others.
type fewTicks struct{ n int }

func (t fewTicks) Ticks(lo, hi float64) []plot.Tick {
	if !(hi > lo) {
		return []plot.Tick{{Value: lo, Label: tickLabel(lo, 1)}}
	}
	raw := (hi - lo) / float64(t.n)
	base := math.Pow(10, math.Floor(math.Log10(raw)))
	step := base * 10
	for _, m := range []float64{1, 2, 5} {
		if m*base >= raw {
			step = m * base
			break
		}
	}
	var out []plot.Tick
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+step*1e-9; i++ {
		out = append(out, plot.Tick{Value: i * step, Label: tickLabel(i*step, step)})
	}
	return out
}

func tickLabel(v, step float64) string {
	if v == 0 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e5 || a < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// logTicks labels powers of ten.
type logTicks struct{}

func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		if v := math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
			out = append(out, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 3, 64)})
		}
	}
	return out
}

// gridLines draws a line at every labelled tick of the axes that are asked for.
type gridLines struct{ x, y bool }

func (g gridLines) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := draw.LineStyle{Color: faded(rule, 0xa0), Width: vg.Points(0.5)}
	if g.y {
		for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
			c.StrokeLine2(style, c.Min.X, ty(t.Value), c.Max.X, ty(t.Value))
		}
	}
	if g.x {
		for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
			c.StrokeLine2(style, tx(t.Value), c.Min.Y, tx(t.Value), c.Max.Y)
		}
	}
}

const margin = vg.Length(10)

func (f *figure) draw(c draw.Canvas) {
	c = draw.Crop(c, margin, -margin, margin, -margin)
	title := textStyle(12, ink)
	title.Font.Weight = stdfont.WeightBold
	title.YAlign = draw.YTop
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, f.title)
	c.Max.Y -= 17
	if f.subtitle != "" {
		sub := textStyle(9, muted)
		sub.YAlign = draw.YTop
		for _, line := range wrap(f.subtitle, sub, c.Size().X) {
			c.FillText(sub, vg.Point{X: c.Min.X, Y: c.Max.Y}, line)
			c.Max.Y -= 12
		}
	}
	c.Max.Y -= 3
	if len(f.legend) > 0 {
		c.Max.Y -= drawLegend(c, f.legend)
	}
	c.Max.Y -= 4
	f.body(c)
}

// swatch draws the legend's sample: a block of the colour, and from the eleventh series on a line with its dashes and mark.
func (l look) swatch(c draw.Canvas, x, y vg.Length) {
	if l.round == 0 {
		c.SetColor(l.color)
		c.Fill(rectangle(x, y-4, x+9, y+4))
		return
	}
	c.StrokeLine2(draw.LineStyle{Color: l.color, Width: vg.Points(1.4), Dashes: l.dashes}, x-1, y, x+10, y)
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: 2.6, Shape: l.glyph}, vg.Point{X: x + 4, Y: y})
}

// drawLegend writes the entries in rows from the top left and returns the height they took.
func drawLegend(c draw.Canvas, entries []swatch) vg.Length {
	style := textStyle(9, ink)
	style.YAlign = draw.YCenter
	x, y := c.Min.X, c.Max.Y-6
	for _, e := range entries {
		w := 14 + style.Width(e.name) + 14
		if x > c.Min.X && x+w > c.Max.X {
			x, y = c.Min.X, y-13
		}
		e.look.swatch(c, x, y)
		c.FillText(style, vg.Point{X: x + 13, Y: y}, e.name)
		x += w
	}
	return c.Max.Y - y + 8
}

func rectangle(x0, y0, x1, y1 vg.Length) vg.Path {
	return vg.Rectangle{Min: vg.Point{X: x0, Y: y0}, Max: vg.Point{X: x1, Y: y1}}.Path()
}

func wrap(s string, style text.Style, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		next := strings.TrimSpace(line + " " + word)
		if line != "" && style.Width(next) > width {
			lines, next = append(lines, line), word
		}
		line = next
	}
	return append(lines, line)
}

// columns splits a canvas into n equal parts from left to right, with a gap between.
func columns(c draw.Canvas, n int, gap vg.Length) []draw.Canvas {
	out := make([]draw.Canvas, n)
	w := (c.Size().X - gap*vg.Length(n-1)) / vg.Length(n)
	for i := range out {
		out[i] = c
		out[i].Min.X = c.Min.X + (w+gap)*vg.Length(i)
		out[i].Max.X = out[i].Min.X + w
	}
	return out
}

// rowsOf splits a canvas into n equal parts from top to bottom.
func rowsOf(c draw.Canvas, n int, gap vg.Length) []draw.Canvas {
	out := make([]draw.Canvas, n)
	h := (c.Size().Y - gap*vg.Length(n-1)) / vg.Length(n)
	for i := range out {
		out[i] = c
		out[i].Max.Y = c.Max.Y - (h+gap)*vg.Length(i)
		out[i].Min.Y = out[i].Max.Y - h
	}
	return out
}

// png renders at 144 dots an inch, on the colour paper.
func (f *figure) png() ([]byte, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(f.w, f.h), vgimg.UseDPI(144), vgimg.UseBackgroundColor(paper))
	f.draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("picture %s: %w", f.name, err)
	}
	return b.Bytes(), nil
}

// svg renders without a background, with a family of fonts that every system has.
func (f *figure) svg() ([]byte, error) {
	canvas := vgsvg.New(f.w, f.h)
	f.draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("picture %s: %w", f.name, err)
	}
	return []byte(fontFamily.ReplaceAllString(b.String(), `font-family:'Liberation Sans',Arial,Helvetica,sans-serif`)), nil
}

var fontFamily = regexp.MustCompile(`font-family:[^;"]*`)
