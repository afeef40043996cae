package company

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Document is a file of a corpus. Its passages are what a search finds.
type Document struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Genre    string   `json:"genre"`
	Date     string   `json:"date"`
	Passages []string `json:"passages"`
}

var docFrames = []string{
	"The {a} of {E} is {v}.", "{E} has this {a}: {v}.", "For {E} the {a} is {v}.", "{A} of {E}: {v}.",
	"Please note that the {a} of {E} is {v}.", "It was agreed that the {a} for {E} is {v}.",
}

var webFrames = []string{
	"The {a} of {E} is {v}, writes {o}.", "{o} reports: the {a} of {E} is {v}.", "{E} has this {a}: {v}.",
	"According to {o} the {a} for {E} is {v}.", "{A} of {E}: {v}.", "Readers asked {o} about the {a} of {E}; it is {v}.",
}

var docTails = []string{"", "", "", "The board was told.", "This replaces earlier notes.", "See the annex for the reasons.", "Questions go to the office.",
	"Valid until further notice."}

var webTails = []string{"", "", "", "Nobody was available for comment.", "Analysts had expected this.", "The figure was confirmed on request.",
	"More in the weekend edition."}

var outlets = []string{"Harbour Times", "Trade Monitor", "Daily Ledger", "Market Post", "Northern Echo", "Industry Week"}

var docStale = []string{"Draft, never in force: the {a} of {E} is {v}.", "Withdrawn proposal: the {a} of {E} would be {v}."}

var webStale = []string{"Rumour, since denied: the {a} of {E} is {v}.", "Old listing, no longer true: the {a} of {E} was {v}."}

var docNoise = []string{
	"{E} came up at the meeting of the steering group; no figures were given.",
	"Photographs of {E} are kept in the archive and may be shown to guests.",
	"Staff who deal with {E} should read this text to the end.",
	"Papers on {E} are filed under {L} in the basement.",
}

var webNoise = []string{
	"{E} was among the names at the fair this spring, {o} noticed.",
	"{o} could not reach {E} before this page went to print.",
	"A reader from {c} wrote to {o} about {E} and got no answer.",
}

var genreIntro = map[string]string{
	"policy":      "This policy binds all departments and is read by new staff in their first week.",
	"handbook":    "This handbook is for daily use; ask your team for the printed edition.",
	"memo":        "Memo to all team leads, please pass on what concerns your people.",
	"post-mortem": "This post-mortem names no culprits; it says what happened and what was learned.",
	"news":        "Short news from the region, gathered by our correspondents.",
	"prices":      "Prices as asked by our staff by telephone, without guarantee.",
	"regulation":  "From the official gazette, in plain words and without legal force.",
	"competitors": "Our comparison of makers and dealers, paid by none of them.",
}

// The shares of a corpus's facts, in percent, that are said in other words, have a stale near-duplicate (of those whose value is
// drawn, so no reference and no person) and have a passage beside them that names the entity without any fact.
const (
	synonymShare = 6
	staleShare   = 12
	noiseShare   = 8
	perDocument  = 8 // facts of a document
)

// makeCorpus writes the documents of one store: each holds an introduction and some facts of one attribute, among them
// near-duplicates (stale values of the same subject and attribute) and passages without a fact.
func (w *World) makeCorpus(s Store) []Document {
	var docs []Document
	attrs := make([]*attr, 0, len(catalog)+1)
	for i := range catalog {
		if catalog[i].store == s {
			attrs = append(attrs, &catalog[i])
		}
	}
	if w.opt.TwoSource {
		a := guidePrice
		a.store = s
		if s == Web {
			a.genre = "prices"
		}
		attrs = append(attrs, &a)
	}
	for _, a := range attrs {
		r := rng.New(w.opt.Seed, "company corpus", s, a.kind, a.key)
		es := append([]*Entity(nil), w.byKind[a.kind]...)
		r.Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
		for n := 0; len(es) > 0; n++ {
			k := min(perDocument, len(es))
			d := Document{
				ID:    fmt.Sprintf("%s-%04d", s, len(docs)+1),
				Title: fmt.Sprintf("%s %s: %s of %ss", title(a.genre), letters(n), a.words, a.kind),
				Genre: a.genre,
			}
			d.Date, _ = (&attr{typ: tDate}).draw(r, map[string]bool{}, nil)
			d.Passages = append(d.Passages, genreIntro[a.genre])
			for _, e := range es[:k] {
				d.Passages = append(d.Passages, w.factPassages(r, s, a, e)...)
			}
			es = es[k:]
			docs = append(docs, d)
		}
	}
	return docs
}

func (w *World) factPassages(r *rand.Rand, s Store, a *attr, e *Entity) []string {
	frames, tails, stale, noise := docFrames, docTails, docStale, docNoise
	if s == Web {
		frames, tails, stale, noise = webFrames, webTails, webStale, webNoise
	}
	words := a.words
	if a.syn != "" && r.IntN(100) < synonymShare {
		words = a.syn
	}
	fill := func(frame, words, value string) string {
		if a.unit != "" {
			value += " " + a.unit
		}
		at := r.IntN(len(outlets))
		city := r.IntN(len(cities))
		if cities[city] == e.values["city"] { // a fact of the database, which no passage states
			city = (city + 1) % len(cities)
		}
		return strings.NewReplacer("{a}", words, "{A}", title(words), "{E}", e.Name, "{L}", e.Alias, "{v}", value,
			"{o}", outlets[at], "{c}", cities[city]).Replace(frame)
	}
	out := []string{strings.TrimSpace(fill(frames[r.IntN(len(frames))], words, e.values[a.key]) + " " + tails[r.IntN(len(tails))])}
	if r.IntN(100) < staleShare && a.typ != tRef && a.typ != tPerson {
		if v, err := a.draw(r, e.used, nil); err == nil {
			out = append(out, fill(stale[r.IntN(len(stale))], a.words, v))
		}
	}
	if r.IntN(100) < noiseShare {
		out = append(out, fill(noise[r.IntN(len(noise))], a.words, ""))
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func title(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// letters numbers documents without digits, which could pass for values.
func letters(n int) string {
	s := string(rune('A' + n%26))
	for n /= 26; n > 0; n /= 26 {
		n--
		s = string(rune('A'+n%26)) + s
	}
	return s
}
