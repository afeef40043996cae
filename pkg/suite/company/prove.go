package company

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/toolroute/toolroute/pkg/suite"
)

// Leak is a row or passage of another store that holds both the subject of a lookup and its value.
type Leak struct {
	Task    string
	Subject string
	Value   string
	Store   Store  // where it leaks
	Text    string // the row or passage
}

func (l Leak) String() string {
	return fmt.Sprintf("task %s: %s and %s stand together in %s: %s", l.Task, l.Subject, l.Value, l.Store, l.Text)
}

// CheckLeaks reports every leak of the tasks in the tables and corpora of the world as they are now. Tasks of the stratum
// two_source are exempt: their fact stands in both corpora on purpose.
func CheckLeaks(w *World, tasks []suite.Task) []Leak {
	m := newMentions(w)
	var all []Leak
	for _, t := range tasks {
		all = append(all, m.leaks(t)...)
	}
	return all
}

// unit is one row or passage.
type unit struct {
	store Store
	place string // of a passage, as a source
	text  string
	seen  *suite.Observed
}

// mentions knows the rows and passages that name an entity.
type mentions struct {
	w     *World
	alias map[string]*Entity
	of    map[*Entity][]*unit
}

func newMentions(w *World) *mentions {
	m := &mentions{w: w, alias: map[string]*Entity{}, of: map[*Entity][]*unit{}}
	for _, e := range w.all {
		m.alias[strings.ToLower(e.Alias)] = e
	}
	add := func(s Store, place, text string) {
		u := &unit{store: s, place: place, text: text}
		for _, e := range m.entities(text) {
			m.of[e] = append(m.of[e], u)
		}
	}
	for _, t := range w.Tables {
		for _, row := range t.Rows {
			add(SQL, "", strings.Join(row, " | "))
		}
	}
	for s, docs := range map[Store][]Document{Doc: w.Docs, Web: w.Pages} { // order within an entity's list does not matter
		for _, d := range docs {
			for i, p := range d.Passages {
				add(s, passagePlace(s, d.ID, i), p)
			}
		}
	}
	for _, us := range m.of {
		for _, u := range us {
			if u.seen == nil {
				u.seen = suite.Observe(u.text)
			}
		}
	}
	return m
}

// entities lists the entities that a text names, by name or alias, each once, in order.
func (m *mentions) entities(text string) []*Entity {
	var out []*Entity
	note := func(e *Entity) {
		if e != nil && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		if word[0] >= '0' && word[0] <= '9' {
			continue
		}
		note(m.alias[strings.ToLower(word)])
		if i+1 < len(words) {
			if e := m.w.byName[word+" "+words[i+1]]; e != nil {
				note(e)
			} else {
				note(m.w.byName[title(strings.ToLower(word))+" "+title(strings.ToLower(words[i+1]))])
			}
		}
	}
	return out
}

func extraOf(t suite.Task) Extra {
	var x Extra
	// A task of another suite has no extra that fits; it rests on no lookup then.
	_ = json.Unmarshal(t.Extra, &x)
	return x
}

func (m *mentions) leaks(t suite.Task) []Leak {
	if t.HasTag(TagTwoSource) {
		return nil
	}
	x := extraOf(t)
	var out []Leak
	check := func(e *Entity, l Lookup) {
		for _, u := range m.of[e] {
			if u.store != l.Store && u.seen.Holds(l.Value) {
				out = append(out, Leak{t.ID, e.Name, l.Value, u.store, u.text})
			}
		}
	}
	for i, l := range x.Lookups {
		if e := m.w.byName[l.Subject]; e != nil {
			check(e, l)
		}
		if i == len(x.Lookups)-1 && i > 0 {
			for _, e := range m.entities(t.Question) { // the entities that the question names, together with the last value
				if e.Name != l.Subject {
					check(e, l)
				}
			}
		}
	}
	return out
}

// Shortcut is a set of tools that answers a task without one of its gold tools.
type Shortcut struct {
	Task  string
	Tools []string
}

func (s Shortcut) String() string {
	return fmt.Sprintf("task %s is answered with %s", s.Task, strings.Join(s.Tools, ", "))
}

// CheckCheapest proves the gold paths cheapest: no set of tools that lacks a gold tool answers the task. Each gold tool is called once, so
// the gold path then costs the least at any prices. For each gold tool, CheckCheapest plays all the other tools together: what this set
// cannot do, none of its subsets can. The task counts as answered in either of two ways.
//
// By values, whatever counts as evidence. A first round of rule-based queries asks SQL, in every table, for every row that names an entity
// of the question. It asks both searches for the content words of the question, for the entity, for both, and for the gold queries of known
// subjects. Two more rounds do the same for entities that the observations name. The task is answered if the first round shows every
// evidence value, about whatever, or if any round shows each lookup's subject and value in one row or passage. The calculator supplies its
// own result only.
//
// By evidence. Beside the searches, it plays the forms of SQL that the grammar has for the entities and numbers of the question (see
// attempts). It tells all tools the gold values, as a policy would that knows the answer. The task is answered if the verifier accepts what
// they show.
//
// It reports the sets that answer.
func CheckCheapest(w *World, tasks []suite.Task) []Shortcut {
	p := newProber(w)
	found := make([][]Shortcut, len(tasks))
	parallel(len(tasks), func(i int) {
		tried := p.attempts(tasks[i])
		for _, s := range without(tasks[i]) {
			if p.sufficient(tasks[i], s) || p.evidenced(tasks[i], s, tried) {
				found[i] = append(found[i], Shortcut{tasks[i].ID, s})
			}
		}
	})
	return slices.Concat(found...)
}

// without lists, for each gold tool, all the other tools. A two_source task needs one of the corpora, but neither of them in particular.
func without(t suite.Task) [][]string {
	drop := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(Tools), func(s string) bool { return slices.Contains(names, s) })
	}
	if t.HasTag(TagTwoSource) {
		return [][]string{drop(ToolDoc, ToolWeb)}
	}
	var out [][]string
	for _, g := range t.Combination {
		out = append(out, drop(g))
	}
	return out
}

// prober plays rule-based queries and remembers what came back.
type prober struct {
	*mentions
	opt   Options
	cache sync.Map // tool and argument -> []*found
	shown sync.Map // tool and argument -> tool.Observation
	forms sync.Map // *Entity -> []string, the SQL about it
	units sync.Map // text -> *found
}

// found is a row or passage of an observation.
type found struct {
	seen *suite.Observed
	text string
	once sync.Once
	ents []*Entity
}

// probePassages is how many passages a search of the prober shows: as many as the wider style.
const probePassages = 4

func newProber(w *World) *prober {
	p := &prober{mentions: newMentions(w), opt: w.opt}
	p.opt.Passages = max(p.opt.Passages, probePassages)
	return p
}

func (p *prober) proved(t suite.Task) bool {
	if len(p.leaks(t)) > 0 || !everyToolShows(t) {
		return false
	}
	for _, s := range without(t) {
		if p.sufficient(t, s) {
			return false
		}
	}
	return true
}

// query plays one query; the rows and passages it shows are prepared once however many queries find them.
func (p *prober) query(name, arg string) []*found {
	key := name + "\x00" + arg
	if v, ok := p.cache.Load(key); ok {
		return v.([]*found)
	}
	var out []*found
	st := p.w.stores
	switch name {
	case ToolSQL:
		if res, err := st.query(context.Background(), arg); err == nil {
			for _, row := range res.Rows {
				out = append(out, p.unit(strings.Join(row, " | ")))
			}
		}
	case ToolDoc, ToolWeb:
		ix := st.docs
		if name == ToolWeb {
			ix = st.web
		}
		for _, h := range ix.Search(arg, p.opt.Passages) {
			out = append(out, p.unit(h.Passage(p.opt.PassageWords)))
		}
	}
	p.cache.Store(key, out)
	return out
}

func (p *prober) unit(text string) *found {
	if v, ok := p.units.Load(text); ok {
		return v.(*found)
	}
	v, _ := p.units.LoadOrStore(text, &found{seen: suite.Observe(text), text: text})
	return v.(*found)
}

func (p *prober) named(f *found) []*Entity {
	f.once.Do(func() { f.ents = p.entities(f.text) })
	return f.ents
}

const (
	probeRounds = 3
	probeWidth  = 8 // new entities of a round
)

func (p *prober) sufficient(t suite.Task, tools []string) bool {
	x := extraOf(t)
	content := contentWords(t.Question, p.entities(t.Question))
	has := func(s string) bool { return slices.Contains(tools, s) }
	known := map[*Entity]bool{}
	var units []*found
	ask := func(name, arg string) { units = append(units, p.query(name, arg)...) }
	news := p.entities(t.Question)
	for _, c := range []string{ToolDoc, ToolWeb} {
		if has(c) {
			ask(c, content)
		}
	}
	seen := func(us []*found, value string) bool {
		return slices.ContainsFunc(us, func(f *found) bool { return f.seen.Holds(value) })
	}
	for round := range probeRounds {
		start := len(units)
		if round == 0 {
			start = 0
		}
		for _, e := range news {
			known[e] = true
			if has(ToolSQL) {
				for _, q := range p.rowQueries(e) {
					ask(ToolSQL, q)
				}
			}
			for _, c := range []string{ToolDoc, ToolWeb} {
				if !has(c) {
					continue
				}
				ask(c, e.Name+" "+content)
				if round == 0 {
					ask(c, e.Name)
				}
				for _, l := range x.Lookups {
					if l.Subject == e.Name {
						ask(c, e.Name+" "+l.Words)
					}
				}
			}
		}
		if round == 0 {
			all := true
			for _, e := range t.Evidence {
				all = all && (e.Value == x.Result && has(ToolCalc) || seen(units, e.Value))
			}
			if all && len(t.Evidence) > 0 {
				return true
			}
		}
		if !slices.ContainsFunc(x.Lookups, func(l Lookup) bool { return !known[p.w.byName[l.Subject]] }) {
			break
		}
		news = nil
		for _, f := range units[start:] {
			for _, e := range p.named(f) {
				subject := slices.ContainsFunc(x.Lookups, func(l Lookup) bool { return l.Subject == e.Name })
				if !known[e] && !slices.Contains(news, e) && (subject || len(news) < probeWidth) {
					news = append(news, e)
				}
			}
		}
	}
	for _, l := range x.Lookups {
		if !slices.ContainsFunc(units, func(f *found) bool { return f.seen.Holds(l.Value) && f.seen.Holds(l.Subject) }) {
			return false
		}
	}
	return len(x.Lookups) > 0 && (x.Result == "" || has(ToolCalc) || seen(units, x.Result))
}

// rowQueries select every row that names an entity.
func (p *prober) rowQueries(e *Entity) []string {
	var out []string
	for _, t := range p.w.Tables {
		for _, c := range t.Columns {
			own := c.Name == "name" && t.Name == e.Kind.table()
			if own || strings.HasPrefix(c.Type, "TEXT REFERENCES "+e.Kind.table()+"(") {
				out = append(out, fmt.Sprintf("SELECT * FROM %s WHERE %s = '%s'", t.Name, c.Name, e.Name))
			}
		}
	}
	return out
}

var stopWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`what is the a an of tell me its it please give for i need to know which does have on day when who
		name above more than take plus minus times percent how much many count come did has and all are belong list names compute add then
		multiply by both sum s total`) {
		m[w] = true
	}
	return m
}()

// contentWords are the words of a question that are neither common, nor numbers, nor of the names of entities.
func contentWords(question string, names []*Entity) string {
	for _, e := range names {
		question = strings.ReplaceAll(question, e.Name, " ")
	}
	var out []string
	for _, w := range strings.FieldsFunc(question, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !stopWords[strings.ToLower(w)] && !unicode.IsDigit([]rune(w)[0]) {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}
