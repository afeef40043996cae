package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// The page's template escapes all that it is given; the trajectories go in as JSON that cannot end its script element, and
// page.js shows them through textContent alone. A content security policy allows the page's own script and nothing else,
// so a text of a model or a corpus stays a text even if both failed.
var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

type pageData struct {
	Title                    string
	CSS                      template.CSS
	JS                       template.JS
	Policy                   string
	Notes                    []string
	Columns                  []pageColumn
	Rows                     []pageRow
	Splits, Budgets, Decodes []string
	Budget, Decoding         string // chosen at first
	Level                    string
	Pictures                 []pagePicture
	Trajectories             int
	Data                     template.HTML // a whole script element
	Manifest                 string
}

type pageColumn struct {
	Title, Doc string
	Numeric    bool
}

type pageRow struct {
	Split, Budget, Decoding string
	Headline                bool
	Cells                   []pageCell
}

type pageCell struct {
	Text, Range string
	Sort        string // what the column sorts by; empty sorts last
	Numeric     bool
}

type pagePicture struct {
	Name, Title, Alt string
	SVG              template.HTML
}

func pageOf(in Input, rows []eval.Row, pictures []picture, level float64) ([]byte, error) {
	data, err := pageJSON(in.Trajectories)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(pageJS))
	p := pageData{
		Title: in.Title, CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Notes: in.Notes, //nolint:gosec // our own files
		Budget: in.Budget, Decoding: in.Decoding,
		Policy: "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(hash[:]) + "'",
		Level: strconv.FormatFloat(100*level, 'f', -1, 64), Trajectories: len(in.Trajectories), Manifest: string(in.Manifest),
		Data: template.HTML(`<script type="application/json" id="data">` + string(data) + `</script>`), //nolint:gosec // escaped by pageJSON
	}
	p.Columns, p.Rows = pageTable(in, rows)
	for _, r := range rows {
		p.Splits, p.Budgets, p.Decodes = appendNew(p.Splits, r.Split), appendNew(p.Budgets, r.Budget), appendNew(p.Decodes, r.Decoding)
	}
	for _, pic := range pictures {
		p.Pictures = append(p.Pictures, pagePicture{pic.name, pic.title, pic.alt, inlineSVG(pic.svg, pic.alt)})
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

func pageTable(in Input, rows []eval.Row) ([]pageColumn, []pageRow) {
	cols := []pageColumn{
		{"method", "", false}, {"model", "", false}, {"split", "", false}, {"budget", "", false}, {"decoding", "", false},
		{"tasks", "distinct tasks", true}, {"seeds", "", true},
	}
	for _, m := range eval.Metrics {
		cols = append(cols, pageColumn{m.Title, m.Doc, true})
		if m.Name == "pass_at_k" {
			cols = append(cols, pageColumn{"k", "of pass@k", true}, pageColumn{"tasks of pass@k", "tasks with k attempts; the others are left out of it", true})
		}
	}
	for _, c := range in.Collected.Columns {
		cols = append(cols, pageColumn{cmp.Or(c.Title, c.Name), c.Doc, true})
	}
	trained := false
	for _, r := range rows {
		trained = trained || r.Training != nil
	}
	if trained {
		for i, title := range trainingTitles {
			cols = append(cols, pageColumn{title, "in training, all steps before included", i != 0 && i != 2 && i != 4})
		}
	}
	var out []pageRow
	for _, r := range rows {
		pr := pageRow{Split: r.Split, Budget: r.Budget, Decoding: r.Decoding, Headline: r.Method == in.Headline}
		text := func(s string) { pr.Cells = append(pr.Cells, pageCell{Text: s, Sort: s}) }
		count := func(n int64) {
			s := strconv.FormatInt(n, 10)
			pr.Cells = append(pr.Cells, pageCell{Text: s, Sort: s, Numeric: true})
		}
		value := func(v eval.Interval, n int) {
			c := pageCell{Text: decimals(v.Value, n), Sort: eval.Number(v.Value), Numeric: true}
			if c.Text != missing && decimals(v.Lo, n) != missing {
				c.Range = decimals(v.Lo, n) + " to " + decimals(v.Hi, n)
			}
			pr.Cells = append(pr.Cells, c)
		}
		text(r.Method)
		text(r.Model)
		text(r.Split)
		text(r.Budget)
		decoding := r.Decoding
		if r.Temperature != 0 {
			decoding += " " + eval.Number(r.Temperature)
		}
		text(decoding)
		count(int64(r.Tasks))
		count(int64(r.Seeds))
		for i, v := range r.Values {
			value(v, 3)
			if eval.Metrics[i].Name == "pass_at_k" {
				count(int64(r.K))
				count(int64(r.PassKTasks))
			}
		}
		for _, v := range r.Own {
			value(v, 3)
		}
		for i := range trainingTitles {
			c := pageCell{Text: missing, Numeric: i != 0 && i != 2 && i != 4}
			if r.Training != nil {
				if c.Text = trainingCells(r.Training)[i]; c.Text != missing {
					c.Sort = c.Text
				}
			}
			if trained {
				pr.Cells = append(pr.Cells, c)
			}
		}
		out = append(out, pr)
	}
	return cols, out
}

// The records of the page, with short names: ten thousand of them are in one file.
type pageEpisode struct {
	ID       string     `json:"i"`
	Method   string     `json:"m"`
	Split    string     `json:"s"`
	Budget   string     `json:"b"`
	Decoding string     `json:"d"`
	Seed     string     `json:"se"` // a string: 64 bits do not fit a JavaScript number
	Attempt  int        `json:"at"`
	Task     string     `json:"ta"`
	Question string     `json:"q"`
	Gold     []string   `json:"g"`
	Combo    string     `json:"c"`
	Template string     `json:"te"`
	Level    int        `json:"di"`
	Tags     []string   `json:"tg,omitempty"`
	Answer   string     `json:"a"`
	Solved   int        `json:"ok"`
	End      string     `json:"e"`
	Spend    string     `json:"sp"`
	Optimal  string     `json:"op"`
	Limit    string     `json:"bu"`
	Reward   string     `json:"r"`
	Findings []string   `json:"dx"`
	Turns    []pageTurn `json:"n"`
}

type pageTurn struct {
	Title       string `json:"t"`
	Text        string `json:"x"`
	Observation string `json:"o,omitempty"`
	Price       string `json:"p"`
	Bad         int    `json:"w,omitempty"` // invalid, failed or refused
}

// pageJSON encodes the episodes so that they can stand in a script element: encoding/json writes "<", ">", "&", U+2028 and
// U+2029 as escapes, so no text can close the element or open a comment.
func pageJSON(trs []trajectory.Trajectory) ([]byte, error) {
	out := make([]pageEpisode, len(trs))
	for i := range trs {
		t := &trs[i]
		e := pageEpisode{
			ID: t.EpisodeID, Method: t.Method, Split: t.Split, Budget: t.BudgetMode, Decoding: t.Decoding, Seed: strconv.FormatUint(t.Seed, 10),
			Attempt: t.Attempt, Task: t.Task.ID, Question: t.Task.Question, Gold: t.Task.Gold, Combo: t.Task.Combination, Template: t.Task.Template,
			Level: t.Task.Difficulty, Tags: t.Task.Tags, Answer: t.Outcome.Answer, End: string(t.End), Spend: t.Outcome.Spend.String(),
			Optimal: t.Task.OptimalCost.String(), Limit: t.Task.Budget.String(), Reward: eval.Number(t.Outcome.Reward.Total),
		}
		if t.Outcome.Verified {
			e.Solved = 1
		}
		for _, f := range Diagnose(t) {
			e.Findings = append(e.Findings, f.Text)
		}
		for j := range t.Turns {
			turn := &t.Turns[j]
			pt := pageTurn{Title: turnTitle(turn), Text: turn.Text, Observation: turn.Observation, Price: turn.Price.String()}
			if turn.Invalid() || turn.Failed || turn.Refused {
				pt.Bad = 1
			}
			e.Turns = append(e.Turns, pt)
		}
		out[i] = e
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("episodes: %w", err)
	}
	return b, nil
}

var (
	svgStart = regexp.MustCompile(`(?s)^.*?<svg width="([0-9.]+)pt" height="[0-9.]+pt"`)
	svgBack  = regexp.MustCompile(`<!--.*?-->`)
)

// inlineSVG makes a picture part of the page: no prologue, a role and a name, sizes that follow the page, and the colours
// of ink and rules taken from the page's theme.
func inlineSVG(svg []byte, alt string) template.HTML {
	s := svgStart.ReplaceAllString(string(svg), `<svg role="img" focusable="false" aria-label="`+template.HTMLEscapeString(alt)+`" style="--w:$1"`)
	s = svgBack.ReplaceAllString(s, "")
	for from, to := range map[string]string{"#1F2328": "var(--ink)", "#57606A": "var(--muted)", "#D0D7DE": "var(--plot-rule)"} {
		s = strings.ReplaceAll(s, from, to) // distinct colours: the order does not matter
	}
	return template.HTML(s) //nolint:gosec // made by figure.svg, which escapes its texts
}
