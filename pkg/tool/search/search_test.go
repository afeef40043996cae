package search

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/tool"
)

type ftsCase struct {
	Query string
	Rows  []struct {
		Doc  int
		BM25 float64
	}
	Error string
}

type rankCase struct {
	Query  string
	Tokens []string
	Scores []float64
}

type bm25Fixture struct {
	Docs []string
	FTS5 map[string][]ftsCase
	Two  map[string]json.RawMessage `json:"fts5_two_columns"`
	Rank map[string]json.RawMessage `json:"rank_bm25"`
}

func bodies(texts []string) []Doc {
	docs := make([]Doc, len(texts))
	for i, s := range texts {
		docs[i] = Doc{ID: strconv.Itoa(i), Body: s}
	}
	return docs
}

// checkFTS compares with rows that FTS5 gives: its scores are the negative of ours, its order and the set of documents the
// same. A query in FTS5's syntax matches documents with all its words unless they are joined by OR.
func checkFTS(t *testing.T, name string, docs []Doc, opt Options, cases []ftsCase) {
	tol := fixtures.ToleranceOf(t, "bm25")
	for _, c := range cases {
		if c.Error != "" {
			continue // FTS5's syntax; here any text is a query
		}
		opt.All = !strings.Contains(c.Query, " OR ")
		hits := New(docs, opt).Search(strings.ReplaceAll(c.Query, " OR ", " "), 0)
		if len(hits) != len(c.Rows) {
			t.Errorf("%s: %q finds %d documents, want %d", name, c.Query, len(hits), len(c.Rows))
			continue
		}
		for i, h := range hits {
			want := c.Rows[i]
			if h.Index != want.Doc || !tol.Near(-h.Score, want.BM25) {
				t.Errorf("%s: %q hit %d: document %d score %.12f, want %d %.12f", name, c.Query, i, h.Index, -h.Score, want.Doc, want.BM25)
			}
		}
	}
}

func TestFTS5Fixture(t *testing.T) {
	var f bm25Fixture
	fixtures.JSON(t, "bm25", "bm25.json", &f)
	if len(f.FTS5) == 0 || len(f.Two) == 0 {
		t.Fatal("the fixture holds no FTS5 cases")
	}
	for name, cases := range f.FTS5 {
		checkFTS(t, name, bodies(f.Docs), Options{Stem: strings.Contains(name, "porter")}, cases)
	}
	var pairs [][2]string
	if err := json.Unmarshal(f.Two["docs"], &pairs); err != nil {
		t.Fatal(err)
	}
	var docs []Doc
	for _, p := range pairs {
		docs = append(docs, Doc{Title: p[0], Body: p[1]})
	}
	weighted := 0
	for name, raw := range f.Two {
		var title, body float64
		if n, _ := fmt.Sscanf(strings.ReplaceAll(name, "_", " "), "weights %g %g", &title, &body); n != 2 {
			continue
		}
		var cases []ftsCase
		if err := json.Unmarshal(raw, &cases); err != nil {
			t.Fatal(err)
		}
		weighted++
		checkFTS(t, name, docs, Options{TitleWeight: &title, BodyWeight: &body}, cases)
	}
	if weighted == 0 {
		t.Error("the fixture holds no weights")
	}
}

func TestRankFixture(t *testing.T) {
	var f bm25Fixture
	fixtures.JSON(t, "bm25", "bm25.json", &f)
	tol := fixtures.ToleranceOf(t, "bm25")
	var tokens [][]string
	if err := json.Unmarshal(f.Rank["tokens"], &tokens); err != nil {
		t.Fatal(err)
	}
	for i, want := range tokens {
		if got := tokenize(f.Docs[i], true, 1<<20); !slices.Equal(got, want) {
			t.Errorf("document %d has words %q, want %q", i, got, want)
		}
	}
	formulas := map[string]Scoring{"okapi": Okapi, "plus": Plus, "l": L}
	checked := 0
	for name, raw := range f.Rank {
		family, rest, _ := strings.Cut(name, "_")
		scoring, ok := formulas[family]
		if !ok || name == "okapi_idf" || name == "okapi_avgdl" {
			continue
		}
		opt := Options{Scoring: scoring, RawWords: true}
		if rest != "" {
			var k1, b float64
			if n, _ := fmt.Sscanf(strings.ReplaceAll(rest, "_", " "), "k1 %g b %g", &k1, &b); n != 2 {
				t.Fatalf("case %s: parameters not understood", name)
			}
			opt.K1, opt.B = &k1, &b
		}
		var cases []rankCase
		if err := json.Unmarshal(raw, &cases); err != nil {
			t.Fatal(err)
		}
		ix := New(bodies(f.Docs), opt)
		for _, c := range cases {
			checked++
			got := ix.Scores(c.Query)
			for d := range c.Scores {
				if !tol.Near(got[d], c.Scores[d]) {
					t.Errorf("%s: %q document %d: %.12f, want %.12f", name, c.Query, d, got[d], c.Scores[d])
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no rank_bm25 case was checked")
	}
	var idf map[string]float64
	if err := json.Unmarshal(f.Rank["okapi_idf"], &idf); err != nil {
		t.Fatal(err)
	}
	ix := New(bodies(f.Docs), Options{Scoring: Okapi, RawWords: true})
	for w, want := range idf {
		if !tol.Near(ix.idf[w], want) {
			t.Errorf("idf of %q: %.12f, want %.12f", w, ix.idf[w], want)
		}
	}
}

// testdata/porter.txt: words and their stems as FTS5's porter tokenizer gives them (SQLite 3.40).
func TestStem(t *testing.T) {
	b, err := os.ReadFile("testdata/porter.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) < 300 {
		t.Fatalf("%d words", len(lines))
	}
	for _, l := range lines {
		w, want, _ := strings.Cut(l, " ")
		if got := stem(tokenize(w, false, 1)[0]); got != want {
			t.Errorf("stem(%s) = %s, want %s", w, got, want)
		}
	}
}

// testdata/words.json: odd texts and their words as FTS5's unicode61 tokenizer cuts them (SQLite 3.40).
func TestWords(t *testing.T) {
	b, err := os.ReadFile("testdata/words.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text  string
		Words []string
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		if got := tokenize(c.Text, false, 1<<20); !slices.Equal(got, c.Words) {
			t.Errorf("%q: %q, want %q", c.Text, got, c.Words)
		}
	}
}

var policies = []Doc{
	{"a", "Travel policy POL-358", "Hotels in Paris are paid up to 180 EUR a night. Flights are booked by the office. State-of-the-art headsets are not paid."},
	{"b", "Band memo", "The big-band plays on 38.101 MHz. Nobody else does."},
	{"c", "Empty", ""},
	{"d", "Travel policy POL-358", "Hotels in Paris are paid up to 180 EUR a night. Flights are booked by the office. State-of-the-art headsets are not paid."},
	{"e", "Café \n handbook", strings.Repeat("Filler words come first here. ", 30) + "The night shift in Łódź gets 45 EUR. " + strings.Repeat("More filler follows it. ", 30)},
}

// Any text is a query: hits or none, never an error, and quickly.
func TestAnyTextIsAQuery(t *testing.T) {
	ix := New(policies, Options{Stem: true})
	for q, want := range map[string]string{
		"POL-358 state-of-the-art": "a b d e", "-band": "b", "38.101": "b", `"hotels in paris"`: "a d e", "title:memo": "b", "NEAR(hotels paris, 2)": "a d",
		"hotel* AND NOT paris": "a d", "cafe": "e", "CAFÉ": "e", "lodz": "", "Łódź": "e", "": "", "   ": "", "🙂": "", "'; DROP TABLE docs; --": "",
		"\x00\xff\xfe": "", "(((": "", "unknownword": "", "^": "", "office OR": "a d",
	} {
		var got []string
		for _, h := range ix.Search(q, 0) {
			got = append(got, h.Doc.ID)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q finds %q, want %q", q, s, want)
		}
	}
	for _, q := range []string{strings.Repeat("paris ", 20_000), strings.Repeat("x", 100_000), strings.Repeat("é", 50_000), strings.Repeat("\"(", 50_000)} {
		start := time.Now()
		ix.Search(q, 3)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("a query of %d bytes took %v", len(q), took)
		}
	}
	if hits := New(nil, Options{}).Search("paris", 3); hits != nil {
		t.Errorf("an empty index finds %v", hits)
	}
}

func TestOrder(t *testing.T) {
	ix := New(policies, Options{})
	hits := ix.Search("hotels paris", 2)
	if len(hits) != 2 || hits[0].Index != 0 || hits[1].Index != 3 || hits[0].Score != hits[1].Score || hits[0].Score <= 0 {
		t.Errorf("equal documents: %+v, want documents 0 and 3 with one positive score", hits)
	}
}

func TestRender(t *testing.T) {
	ix := New(policies, Options{Stem: true})
	if got := Render(ix.Search("night shift", 0), 1, 8).Text; got != "[1] Café handbook: …The night shift in Łódź gets 45 EUR.… (score 0.50)" {
		t.Errorf("got  %s", got)
	}
	got := Render(ix.Search("flights", 5), 2, 0)
	if lines := strings.Split(got.Text, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "[2] Travel policy POL-358: Hotels in Paris") {
		t.Errorf("two passages: %s", got.Text)
	}
	if got := Render(nil, 2, 40); got.Text != NoResults || got.Reads != nil {
		t.Errorf("nothing found: %v", got)
	}
	for _, h := range ix.Search("words night flights band", 0) {
		for n := 1; n < 12; n++ {
			if p := h.Passage(n); len(strings.Fields(p)) > n {
				t.Errorf("%s: a passage of %d words: %s", h.Doc.ID, n, p)
			}
		}
	}
}

// The parts of an observation are the passages alone, each with its document.
func TestParts(t *testing.T) {
	ix := New(policies, Options{Name: "docs"})
	got := Render(ix.Search("band flights office", 0), 2, 4)
	var parts []string
	for _, r := range got.Reads {
		p, _ := r.Part(got.Text)
		parts = append(parts, strings.Join(r.From, ",")+"="+p)
	}
	if want := "docs:b=The big-band plays on…; docs:a=…Flights are booked by…"; strings.Join(parts, "; ") != want {
		t.Errorf("%q has the parts %q, want %s", got.Text, parts, want)
	}
}

func TestTool(t *testing.T) {
	box, err := tool.NewBox([]tool.Tool{NewTool(New(policies, Options{}), "doc_search", "internal documents", tool.Price{Base: 2 * price.Unit}, 2, 40)})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			got, err := box.Call(t.Context(), "doc_search", map[string]any{"query": "band"})
			if err != nil || got.Text != "[1] Band memo: The big-band plays on 38.101 MHz. Nobody else does. (score 1.96)" {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if got, err := box.Call(t.Context(), "doc_search", map[string]any{"query": ""}); err != nil || got.Text != NoResults {
		t.Errorf("empty query: %v, %v", got, err)
	}
}

func FuzzSearch(f *testing.F) {
	for _, q := range []string{"paris", "POL-358", "-band", "38.101", "\"", "NEAR(a b)", "", "🙂 é", "\xff", "The the THE"} {
		f.Add(q, "some body "+q, 3)
	}
	f.Fuzz(func(t *testing.T, query, body string, words int) {
		for _, opt := range []Options{{}, {Stem: true, All: true}, {Scoring: Okapi, RawWords: true}, {Scoring: Plus}, {Scoring: L}} {
			ix := New(append(slices.Clone(policies), Doc{Body: body}), opt)
			hits := ix.Search(query, 3)
			for i, h := range hits {
				if h.Score != h.Score || i > 0 && h.Score > hits[i-1].Score {
					t.Errorf("scores out of order: %v after %v", h.Score, hits[i-1].Score)
				}
			}
			if words > 0 && words < 1000 {
				Render(hits, 2, words)
			}
		}
	})
}
