package search

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/tool"
)

// NoResults is the observation of a search that found nothing.
const NoResults = "no results"

// Render writes hits as an observation, one line each:
//
//	[1] title: passage (score 3.21)
//
// At most maxPassages hits are shown, each with at most maxWords words of its body: the whole body when it fits, else the
// stretch that holds most of the query, marked with … where it was cut. 0 is no limit. Each passage is a part of the observation, with its
// source; titles and scores are not.
func Render(hits []Hit, maxPassages, maxWords int) tool.Observation {
	if len(hits) == 0 {
		return tool.Said(NoResults)
	}
	var b strings.Builder
	var reads []source.Read
	for i, h := range hits {
		if maxPassages > 0 && i == maxPassages {
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%d] ", i+1)
		if title := strings.Join(strings.Fields(h.Doc.Title), " "); title != "" {
			b.WriteString(title + ": ")
		}
		start := b.Len()
		b.WriteString(h.Passage(maxWords))
		reads = append(reads, source.Read{Start: start, End: b.Len(), From: []string{h.Source()}})
		fmt.Fprintf(&b, " (score %.2f)", h.Score)
	}
	return tool.Observation{Text: b.String(), Reads: reads}
}

// Passage returns at most n words of the document's body on one line: all of it when it fits (or n is 0), else the stretch
// in which the query's words weigh most (by idf, each word once). Of the first run of equal stretches it is the one that
// starts a sentence as late as can be, so that most of what follows the words is shown; without one, the middle of the run.
func (h Hit) Passage(n int) string {
	fields := strings.Fields(h.Doc.Body)
	if n <= 0 || len(fields) <= n {
		return strings.Join(fields, " ")
	}
	windows := h.weights(fields, n)
	first := 0
	for start, w := range windows {
		if w > windows[first] {
			first = start
		}
	}
	last := first
	for last+1 < len(windows) && windows[last+1] == windows[first] {
		last++
	}
	best := (first + last) / 2
	for start := last; start >= first; start-- {
		if start == 0 || strings.ContainsAny(fields[start-1][len(fields[start-1])-1:], ".!?:;") {
			best = start
			break
		}
	}
	out := strings.Join(fields[best:best+n], " ")
	if best > 0 {
		out = "…" + out
	}
	if best+n < len(fields) {
		out += "…"
	}
	return out
}

// weights returns, for each start of a stretch of n fields, the summed idf of the distinct query words in it.
func (h Hit) weights(fields []string, n int) []float64 {
	want := make(map[string]float64, len(h.words))
	for _, w := range h.words {
		want[w] = h.ix.idf[w]
	}
	in := make([][]string, len(fields))
	for i, f := range fields {
		for _, w := range h.ix.words(f, len(f)) {
			if _, ok := want[w]; ok {
				in[i] = append(in[i], w)
			}
		}
	}
	out := make([]float64, len(fields)-n+1)
	for start := range out {
		seen := map[string]bool{}
		for _, ws := range in[start : start+n] {
			for _, w := range ws {
				seen[w] = true
			}
		}
		for _, w := range h.words { // in query order: the sum does not depend on map order
			if seen[w] {
				out[start] += want[w]
				seen[w] = false
			}
		}
	}
	return out
}

// NewTool makes an index a priced tool with one argument, query: the passages best passages of at most words words each.
func NewTool(ix *Index, name, description string, price tool.Price, passages, words int) tool.Func {
	return tool.Func{
		Def: tool.Spec{
			Name: name, Description: description, Price: price,
			Parameters: tool.StringSchema("query", "words to look for"),
		},
		Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
			query, _ := args["query"].(string)
			return Render(ix.Search(query, passages), passages, words), nil
		},
	}
}
