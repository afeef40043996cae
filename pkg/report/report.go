// Package report writes what an evaluation found into a run folder: the results table and tables by stratum, routing and
// paired comparisons as markdown and CSV, pictures as PNG and SVG, ten diagnosed trajectories, and report.html, one
// self-contained page that opens from the file system. It computes nothing that package eval has not computed, knows no
// suite (columns and pictures of a suite come as data), and gives the same bytes for the same input.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/table"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Input is all that a report is made of. Collected is required; everything else may be left out, and the report then lacks the parts that
// need it.
type Input struct {
	Title     string
	Collected *eval.Collector // every episode of the run
	Options   eval.Options    // of the tables: order of rows, resamples, training of learned rows
	// Dimensions are the suite's own, by which tasks are sorted into strata.
	Dimensions []eval.Dimension
	// Families, where a suite has any, replace combinations of tools in what is shown of routing.
	Families []eval.ToolFamily
	// Headline is the method that the routing matrix and the diagnosed trajectories show; empty is the last one of the table.
	Headline string
	// Budget and Decoding choose the rows of the pictures; empty ones are those of the table's first row.
	Budget, Decoding string
	// Bounds are methods that know what no method can know, such as the oracle: shown, but no part of a Pareto frontier.
	Bounds []string
	// Compare lists pairs of methods; each is compared on every split, budget mode and decoding that both have.
	Compare []eval.Pair
	// Trajectories are the episodes that the page lists and that the diagnosed ones are picked from (see Sample).
	Trajectories []trajectory.Trajectory
	Profiles     []Profile
	Training     []TrainingRun
	Pictures     []Picture // further pictures, such as learning curves
	Manifest     []byte    // the run's manifest as text, shown as it is
	Notes        []string  // sentences for the top of the page and of the table
}

// Write makes the report in dir, file by file, each written whole or not at all.
func Write(dir string, in Input) ([]string, error) {
	files, err := Files(in)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := run.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), files[name]); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	for _, name := range sometimes { // they may be left from an earlier report
		if files[name] == nil {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("report: %w", err)
			}
		}
	}
	return names, nil
}

// sometimes are tables that not every run has.
var sometimes = []string{"results_by_seed.md", "results_by_seed.csv", "comparisons.md", "routing.md", "choices.md", "choices.csv"}

// Files returns the report as contents by slash-separated name.
func Files(in Input) (map[string][]byte, error) {
	if in.Collected == nil {
		return nil, fmt.Errorf("report: Collected is missing; collect the trajectories of the run first")
	}
	rows := eval.Table(in.Collected, in.Options)
	if len(rows) == 0 {
		return nil, fmt.Errorf("report: no episode was collected; play the evaluation first")
	}
	level := in.Options.Level
	if level == 0 {
		level = 0.95
	}
	if in.Title == "" {
		in.Title = "Results: " + rows[0].Suite
	}
	in.Budget, in.Decoding = cmp.Or(in.Budget, rows[0].Budget), cmp.Or(in.Decoding, rows[0].Decoding)
	shown := headlineRows(rows, in.Budget, in.Decoding)
	if len(shown) == 0 {
		return nil, fmt.Errorf("report: no row has budget mode %q and decoding %q", in.Budget, in.Decoding)
	}
	if in.Headline == "" {
		in.Headline = shown[len(shown)-1].Method
	}
	if !slices.ContainsFunc(rows, func(r eval.Row) bool { return r.Method == in.Headline }) {
		return nil, fmt.Errorf("report: headline method %q has no episodes; played: %s", in.Headline, strings.Join(namesOf(rows), ", "))
	}
	files := map[string][]byte{}
	if err := addTables(files, in, rows, level); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	figures, err := figuresOf(in, shown, level)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	pictures, err := addPictures(files, figures)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if len(in.Trajectories) > 0 {
		texts, err := shownFiles(in.Trajectories, in.Headline, in.Options.Seed)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		for name, b := range texts {
			files["trajectories/"+name] = b
		}
	}
	page, err := pageOf(in, rows, pictures, level)
	if err != nil {
		return nil, fmt.Errorf("report: page: %w", err)
	}
	files["report.html"] = page
	return files, nil
}

func addTables(files map[string][]byte, in Input, rows []eval.Row, level float64) error {
	files["results_table.csv"] = eval.ResultsTable(rows, in.Collected.Columns).CSV()
	md := resultsMarkdown(in.Title, rows, in.Collected.Columns, level)
	for _, n := range in.Notes {
		md = append(md, "\n"+table.Plain(n)+"\n"...)
	}
	files["results_table.md"] = md
	if seeds := eval.BySeed(in.Collected, in.Options); len(seeds) > 0 {
		files["results_by_seed.md"] = seedsMarkdown(seeds, rows, in.Collected.Columns, level)
		files["results_by_seed.csv"] = eval.SeedsTable(seeds, in.Collected.Columns).CSV()
	}
	var all []eval.Stratum
	for _, d := range eval.Dimensions(in.Dimensions) {
		strata := eval.Strata(in.Collected, d, in.Options)
		if len(strata) == 0 {
			continue
		}
		all = append(all, strata...)
		files["results_by_"+cmp.Or(d.File, d.Name)+".md"] = strataMarkdown("Results by "+d.Title, strata, level)
	}
	files["results_by_stratum.csv"] = strataTable(all).CSV()
	files["latency.md"], files["latency.csv"] = latencyMarkdown(rows, level), latencyTable(rows).CSV()
	if set := headlineSet(in); set != nil {
		of, tools := in.Headline+", "+section(set.Key), eval.CallsByTool(set)
		if in.Families == nil {
			files["routing.md"] = routingMarkdown(eval.Routing(set), tools, of)
		} else {
			files["routing.md"] = familiesMarkdown(eval.Choices(set, in.Families), tools, of)
		}
	}
	if in.Families != nil {
		t := eval.ChoicesTable(headlineSets(in), in.Families)
		files["choices.csv"], files["choices.md"] = t.CSV(), choicesMarkdown(t)
	}
	cs, err := eval.ComparePairs(in.Collected, in.Compare, in.Options, nil)
	if err != nil {
		return err
	}
	if len(cs) > 0 {
		files["comparisons.md"] = comparisonsMarkdown(cs, level)
	}
	return nil
}

// headlineSet is the headline method's episodes of the first split, in the headline's budget mode and decoding.
func headlineSet(in Input) *eval.Set {
	for _, s := range headlineSets(in) {
		if s.Key.Method == in.Headline {
			return &s
		}
	}
	return nil
}

// headlineSets are the episodes of all methods and splits in the headline's budget mode and decoding.
func headlineSets(in Input) []eval.Set {
	return slices.DeleteFunc(in.Collected.Sets(in.Options.Splits, in.Options.Methods), func(s eval.Set) bool {
		return s.Key.Budget != in.Budget || s.Key.Decoding != in.Decoding
	})
}

func figuresOf(in Input, rows []eval.Row, level float64) ([]*figure, error) {
	figs := []*figure{
		barsFigure(rows, level),
		scatterFigure("cost_vs_success", "Cost and success", "mean cost of an episode (price units)", rows,
			func(r *eval.Row) eval.Interval { return r.Get("mean_cost") }, in.Bounds, level),
		scatterFigure("latency_vs_success", "Latency and success", "median time of an episode, model and tools (s)", rows,
			func(r *eval.Row) eval.Interval { return r.Latency.TotalP50 }, in.Bounds, level),
	}
	if slices.ContainsFunc(rows, func(r eval.Row) bool { return r.Training != nil }) {
		figs = append(figs, scatterFigure("compute_vs_success", "Training and success", "tokens trained, all steps before included (millions)", rows, trainedTokens, nil, level))
	}
	if set := headlineSet(in); set != nil {
		of := in.Headline + ", " + section(set.Key)
		if in.Families == nil {
			figs = append(figs, routingFigure(eval.Routing(set), of))
		} else {
			figs = append(figs, choicesFigure(eval.Choices(set, in.Families), of))
		}
	}
	if len(in.Profiles) > 0 {
		figs = append(figs, profileFigure(in.Profiles))
	}
	figs = append(figs, trainingFigures(in.Training)...)
	for _, p := range in.Pictures {
		if err := p.validate(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(figs, func(f *figure) bool { return f.name == p.Name }) {
			return nil, fmt.Errorf("picture %s: another picture has that name", p.Name)
		}
		figs = append(figs, p.figure())
	}
	return figs, nil
}

// trainedTokens is what a learned policy cost to train, in millions of tokens; NaN, which is not drawn, for the others.
func trainedTokens(r *eval.Row) eval.Interval {
	v := math.NaN()
	if r.Training != nil {
		v = float64(r.Training.Tokens) / 1e6
	}
	return eval.Interval{Value: v, Lo: math.NaN(), Hi: math.NaN()}
}

// picture is a rendered figure for the page.
type picture struct {
	name, title, alt string
	svg              []byte
}

func addPictures(files map[string][]byte, figs []*figure) ([]picture, error) {
	var out []picture
	for _, f := range figs {
		png, err := f.png()
		if err != nil {
			return nil, err
		}
		svg, err := f.svg()
		if err != nil {
			return nil, err
		}
		files[f.name+".png"], files[f.name+".svg"] = png, svg
		out = append(out, picture{f.name, f.title, f.alt, svg})
	}
	return out, nil
}
