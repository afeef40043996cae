// Package search is the document search tool: a small BM25 index held in memory. By default it scores exactly like
// SQLite's FTS5 with its bm25() function over the columns title and body (tokenizer unicode61, optionally with the porter
// stemmer), which the sqlite driver offers only behind a build tag; the Okapi, plus and L variants are there to compare.
// Any text is a query: it is cut into words like a document, so there is no query syntax to get wrong. The package does not
// write to disk, update an index or understand phrases.
//
// FTS5's score of a document D for the query words q, with the signs of this package (higher is better; FTS5 itself
// returns the negative):
//
//	score = sum over q of idf(q) * f(q,D) * (k1+1) / (f(q,D) + k1 * (1 - b + b*|D|/avgdl))
//	idf(q) = max(1e-6, ln((N - n(q) + 0.5) / (n(q) + 0.5)))
//
// f counts the word in each column times the column's weight, |D| is the number of words of all columns, N counts empty
// documents too, k1 = 1.2 and b = 0.75. A word that stands twice in the query counts twice. Source: the section "The bm25()
// function" of https://www.sqlite.org/fts5.html.
package search

import (
	"cmp"
	"math"
	"slices"
)

// Doc is one document.
type Doc struct {
	ID    string
	Title string
	Body  string
}

// Scoring is a formula of the BM25 family.
type Scoring uint8

// The formulas. The last three are those of the rank_bm25 package, with its defaults k1 = 1.5 and b = 0.75.
const (
	FTS5  Scoring = iota // see the package doc; k1 = 1.2, b = 0.75
	Okapi                // idf ln((N-n+0.5)/(n+0.5)), a negative one becomes a quarter of the mean idf
	Plus                 // idf ln((N+1)/n), delta = 1 added to the saturated frequency
	L                    // idf ln((N+1)/(n+0.5)), delta = 0.5 added to the length-normalised frequency
)

// Options sets up an index. The zero value is FTS5 with unicode61 tokens, no stemming, any word matching.
type Options struct {
	Name    string // of the corpus: it stands before the colon in the sources of passages
	Scoring Scoring
	Stem    bool // porter
	// RawWords keeps letters with their diacritics and the underscore within words (the runs matched by \w+), as
	// rank_bm25 is usually fed.
	RawWords bool
	// All makes a document match only when it holds every word of the query; otherwise one is enough.
	All bool
	// K1 and B; where nil the formula's own.
	K1, B *float64
	// TitleWeight and BodyWeight multiply the occurrences of a word in a column (FTS5 only); where nil 1.
	TitleWeight, BodyWeight *float64
}

// Limits of a query: beyond them it is cut, not refused.
const (
	MaxQueryBytes = 16 << 10
	MaxQueryWords = 64
)

const (
	okapiEpsilon = 0.25
	plusDelta    = 1.0
	lDelta       = 0.5
	minIDF       = 1e-6
)

// Index is a searchable set of documents. It never changes after New and is safe for concurrent use.
type Index struct {
	docs     []Doc
	opt      Options
	k1, b    float64
	weights  [2]float64
	postings map[string][]posting // by document, ascending
	idf      map[string]float64
	length   []float64 // words of each document
	avgdl    float64
}

type posting struct {
	doc  int
	freq [2]int // title, body
}

// New indexes documents; the slice is copied.
func New(docs []Doc, opt Options) *Index {
	ix := &Index{
		docs: slices.Clone(docs), opt: opt, k1: 1.5, b: 0.75, weights: [2]float64{1, 1},
		postings: map[string][]posting{}, idf: map[string]float64{}, length: make([]float64, len(docs)),
	}
	if opt.Scoring == FTS5 {
		ix.k1 = 1.2
		for i, w := range []*float64{opt.TitleWeight, opt.BodyWeight} {
			if w != nil {
				ix.weights[i] = *w
			}
		}
	}
	if opt.K1 != nil {
		ix.k1 = *opt.K1
	}
	if opt.B != nil {
		ix.b = *opt.B
	}
	total := 0.0
	var order []string // words by first appearance: sums over words do not depend on map order
	for d := range ix.docs {
		for col, text := range []string{ix.docs[d].Title, ix.docs[d].Body} {
			for _, w := range ix.words(text, math.MaxInt) {
				ps, known := ix.postings[w]
				if !known {
					order = append(order, w)
				}
				if len(ps) == 0 || ps[len(ps)-1].doc != d {
					ps = append(ps, posting{doc: d})
				}
				ps[len(ps)-1].freq[col]++
				ix.postings[w] = ps
				ix.length[d]++
				total++
			}
		}
	}
	if len(docs) > 0 {
		ix.avgdl = total / float64(len(docs))
	}
	ix.setIDF(order)
	return ix
}

func (ix *Index) setIDF(order []string) {
	n := float64(len(ix.docs))
	sum := 0.0
	var negative []string
	for _, w := range order {
		df := float64(len(ix.postings[w]))
		var v float64
		switch ix.opt.Scoring {
		case FTS5:
			v = math.Max(math.Log((n-df+0.5)/(df+0.5)), 0)
			if v == 0 {
				v = minIDF
			}
		case Okapi:
			v = math.Log(n-df+0.5) - math.Log(df+0.5)
			if v < 0 {
				negative = append(negative, w)
			}
		case Plus:
			v = math.Log((n + 1) / df)
		case L:
			v = math.Log(n+1) - math.Log(df+0.5)
		}
		sum += v
		ix.idf[w] = v
	}
	for _, w := range negative {
		ix.idf[w] = okapiEpsilon * sum / float64(len(order))
	}
}

// words cuts text into at most n words as the index spells them.
func (ix *Index) words(text string, n int) []string {
	ws := tokenize(text, ix.opt.RawWords, n)
	if ix.opt.Stem {
		for i, w := range ws {
			ws[i] = stem(w)
		}
	}
	return ws
}

func (ix *Index) queryWords(query string) []string {
	if len(query) > MaxQueryBytes {
		query = query[:MaxQueryBytes] // a character cut in half ends the word before it
	}
	return ix.words(query, MaxQueryWords)
}

// Len returns the number of documents.
func (ix *Index) Len() int { return len(ix.docs) }

// Doc returns document i, in the order given to New.
func (ix *Index) Doc(i int) Doc { return ix.docs[i] }

// Hit is a document found.
type Hit struct {
	Index int     // of the document, in the order given to New
	Score float64 // higher is better
	Doc   Doc

	ix    *Index
	words []string // of the query
}

// Source names the passage as a source: "corpus:document".
func (h Hit) Source() string { return h.ix.opt.Name + ":" + h.Doc.ID }

// Search returns the k best documents that match the query, best first; equal scores keep document order. A query without
// words that the index knows finds nothing. k of 0 or less returns all that match.
func (ix *Index) Search(query string, k int) []Hit {
	words := ix.queryWords(query)
	scores, matched := ix.score(words)
	all := distinct(words)
	few := k > 0 && k <= 32 // keep the best in order as they come: sorting all that match is most of the time
	var found []int
	for d, m := range matched {
		switch {
		case m == 0 || ix.opt.All && m != all:
		case !few:
			found = append(found, d)
		case len(found) < k || scores[d] > scores[found[k-1]]:
			at := len(found)
			for at > 0 && scores[found[at-1]] < scores[d] {
				at--
			}
			found = slices.Insert(found, at, d)
			found = found[:min(k, len(found))]
		}
	}
	if !few {
		slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		if k > 0 {
			found = found[:min(k, len(found))]
		}
	}
	var hits []Hit
	for _, d := range found {
		hits = append(hits, Hit{Index: d, Score: scores[d], Doc: ix.docs[d], ix: ix, words: words})
	}
	return hits
}

// Scores returns the score of every document, in document order, whether it matches or not (Plus gives a document without
// a single word of the query a score above 0).
func (ix *Index) Scores(query string) []float64 {
	s, _ := ix.score(ix.queryWords(query))
	return s
}

// score also counts the distinct query words that each document holds.
func (ix *Index) score(words []string) ([]float64, []int) {
	scores := make([]float64, len(ix.docs))
	matched := make([]int, len(ix.docs))
	seen := make(map[string]bool, len(words))
	for _, w := range words {
		ps, known := ix.postings[w]
		if !known {
			continue
		}
		idf := ix.idf[w]
		if ix.opt.Scoring == Plus {
			for d := range scores {
				scores[d] += idf * plusDelta
			}
		}
		for _, p := range ps {
			scores[p.doc] += idf * ix.saturated(p)
			if !seen[w] {
				matched[p.doc]++
			}
		}
		seen[w] = true
	}
	return scores, matched
}

func (ix *Index) saturated(p posting) float64 {
	f := ix.weights[0]*float64(p.freq[0]) + ix.weights[1]*float64(p.freq[1])
	norm := 1 - ix.b + ix.b*ix.length[p.doc]/ix.avgdl
	if ix.opt.Scoring == L {
		c := f/norm + lDelta
		return f * (ix.k1 + 1) * c / (ix.k1 + c)
	}
	return f * (ix.k1 + 1) / (f + ix.k1*norm)
}

func distinct(words []string) int {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return len(m)
}
