package company

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// World is a generated company: the stores and the tasks about them. Close it when done.
type World struct {
	Tables []Table
	Docs   []Document // the internal corpus
	Pages  []Document // the external corpus

	opt    Options
	all    []*Entity
	byKind map[Kind][]*Entity
	byName map[string]*Entity
	rows   map[string]map[string][]int // table.column -> value -> rows
	tasks  map[string][]suite.Task
	words  map[string]bool // that train questions and calls are made of
	stores *stores
	probe  *prober
}

// Generate makes a world and its tasks. The same options give the same world, whatever the number of CPUs; every gold path
// has been executed and every task proved (see Prove) before it is accepted.
func Generate(opt Options) (*World, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &World{opt: opt, tasks: map[string][]suite.Task{}}
	if err := w.entities(); err != nil {
		return nil, fmt.Errorf("company: seed %d: %w", opt.Seed, err)
	}
	w.makeTables()
	w.indexRows()
	w.Docs = w.makeCorpus(Doc)
	w.Pages = w.makeCorpus(Web)
	if err := w.openTemp(); err != nil { // gold paths are executed on the real file
		return nil, fmt.Errorf("company: %w", err)
	}
	w.probe = newProber(w)
	if err := w.makeTasks(); err != nil {
		return nil, errors.Join(fmt.Errorf("company: seed %d: %w", opt.Seed, err), w.Close())
	}
	w.probe = nil // its caches are larger than the world
	return w, nil
}

// Close releases the world's files.
func (w *World) Close() error { return w.stores.Close() }

// Tasks returns the tasks of a split, nil for a split that the world does not have.
func (w *World) Tasks(split string) []suite.Task { return w.tasks[split] }

// Splits lists the splits of the world.
func (w *World) Splits() []string { return splitNames(w.opt.TwoSource) }

func splitNames(two bool) []string {
	s := []string{Train, Val, ValCombo, Test, HeldoutCombo, HeldoutTemplate}
	if two {
		s = append(s, TwoSourceTest)
	}
	return s
}

// All returns the tasks of all splits.
func (w *World) All() []suite.Task {
	var all []suite.Task
	for _, s := range w.Splits() {
		all = append(all, w.tasks[s]...)
	}
	return all
}

func (w *World) indexRows() {
	w.rows = map[string]map[string][]int{}
	for _, t := range w.Tables {
		for c, col := range t.Columns {
			m := map[string][]int{}
			for i, row := range t.Rows {
				m[row[c]] = append(m[row[c]], i)
			}
			w.rows[t.Name+"."+col.Name] = m
		}
	}
}

func (w *World) table(name string) *Table {
	for i := range w.Tables {
		if w.Tables[i].Name == name {
			return &w.Tables[i]
		}
	}
	panic("company: no table " + name)
}

func (w *World) column(table, column string) int {
	return slices.IndexFunc(w.table(table).Columns, func(c Column) bool { return c.Name == column })
}

func (w *World) rowsOf(table, column, value string) [][]string {
	t := w.table(table)
	var out [][]string
	for _, i := range w.rows[table+"."+column][value] {
		out = append(out, t.Rows[i])
	}
	return out
}

// job makes the tasks of one template in one split.
type job struct {
	w      *World
	split  string
	pool   Pool
	t      *template
	quota  int
	unseen bool // every fifth task has a wording that train lacks

	rand  *rand.Rand
	items []item
	at    int
	pass  int
	asked map[string]bool
	tasks []suite.Task
	err   error
}

type item struct {
	v variant
	e *Entity
}

// constTries bounds the search for constants of a task without facts; maxPasses the wordings of one fact in a split.
const (
	constTries = 4000
	maxPasses  = 3
)

func (w *World) newJob(split string, pool Pool, t *template, quota int) *job {
	j := &job{w: w, split: split, pool: pool, t: t, quota: quota, unseen: split == Test, asked: map[string]bool{}}
	j.rand = rng.New(w.opt.Seed, "company tasks", split, t.name)
	for _, v := range t.variants {
		if t.structure == constOp || t.structure == constOpOp {
			for range constTries / len(t.variants) {
				j.items = append(j.items, item{v: v})
			}
			continue
		}
		for _, e := range w.byKind[v.root()] {
			if e.Pool == pool {
				j.items = append(j.items, item{v, e})
			}
		}
	}
	j.rand.Shuffle(len(j.items), func(a, b int) { j.items[a], j.items[b] = j.items[b], j.items[a] })
	if split == HeldoutTemplate {
		j.items = inTurn(j.items)
	}
	return j
}

// inTurn reorders items so that the attributes that are asked for in the end take turns. Otherwise the few tasks of a template would ask
// for those that many entities have.
func inTurn(items []item) []item {
	turn, of := map[string]int{}, make(map[item]int, len(items))
	for _, it := range items {
		of[it] = turn[it.v.last()]
		turn[it.v.last()]++
	}
	slices.SortStableFunc(items, func(a, b item) int { return of[a] - of[b] })
	return items
}

// root is the kind of entity that the variant asks about.
func (v variant) root() Kind {
	for i, r := range v.a {
		if r == '.' {
			return Kind(v.a[:i])
		}
	}
	return Kind(v.a)
}

// last is the attribute that the variant asks for in the end.
func (v variant) last() string { return cmp.Or(v.c, v.b, v.a) }

// next makes one more task; ok is false when the pool is used up.
func (j *job) next() (ok bool) {
	for j.err == nil {
		if j.at == len(j.items) {
			if j.pass++; j.pass >= maxPasses || len(j.tasks) == 0 {
				return false
			}
			j.at = 0
		}
		it := j.items[j.at]
		j.at++
		t, ok := j.try(it)
		if ok {
			j.asked[t.Question] = true
			j.tasks = append(j.tasks, t)
			return true
		}
	}
	return false
}

func (j *job) try(it item) (suite.Task, bool) {
	list, id := j.t.phrasings, "p"
	if j.unseen && len(j.t.unseen) > 0 && len(j.tasks)%5 == 4 {
		list, id = j.t.unseen, "u"
	}
	i := j.rand.IntN(len(list))
	offers, own := j.offers()
	if j.t.tag == TagTwoSource {
		it.v.op = string(cheaperSource(offers))
	}
	c, ok := j.w.build(j.rand, j.t, it.v, it.e, list[i])
	if !ok || j.asked[c.question] || it.e == nil && constPool(c.facts[0]) != j.pool {
		return suite.Task{}, false
	}
	c.phrasing = fmt.Sprintf("%s%d", id, i)
	t, err := j.w.task(j.t, c, offers, own)
	if err != nil {
		j.err = err
		return t, false
	}
	t.Split = j.split
	if id == "u" {
		t.Tags = append(t.Tags, TagUnseenPhrasing)
	}
	if j.split != Train && !j.w.spelled(t) {
		return t, false
	}
	if t.Evidence, err = j.w.execute(t, c); err != nil || !j.w.probe.proved(t) {
		return t, false
	}
	return t, true
}

// constPool deals tasks without facts out to the pools by the expression, so that no expression is in two splits.
func constPool(fact string) Pool {
	return Pool(rng.Seed64(0, "company const", fact) % 3)
}

// offers are the tools and prices that a task is made for. Only tasks of the stratum of two sources have their own. When a suite is opened,
// Options.RandomOffers replaces the offers of some train tasks.
func (j *job) offers() (offers []suite.Offer, own bool) {
	if j.t.tag != TagTwoSource {
		if j.split == Train {
			j.rand.Float64() // without this draw a seed would have other train tasks than its committed checkpoints were trained on
		}
		return j.w.opt.offers(), false
	}
	return randomOffers(j.rand, priceLists[:len(priceLists)-1], Tools), true // the last list has no cheaper corpus
}

func cheaperSource(offers []suite.Offer) Store {
	p := map[string]price.Amount{}
	for _, o := range offers {
		p[o.Tool] = o.Price.Base
	}
	if p[ToolWeb] < p[ToolDoc] {
		return Web
	}
	return Doc
}

// execute runs a gold path in either style and returns the evidence: each value that a step must show, with the places that
// hold it. The error names the first step whose observation does not show what it must. The two passages of the compact style
// are the first two of the full one.
func (w *World) execute(t suite.Task, c candidate) ([]source.Evidence, error) {
	var evidence []source.Evidence
	for _, style := range []Style{Compact, Full} {
		opt := w.opt
		opt.Style = style
		opt.Passages = min(opt.Passages, 2)
		var seen []tool.Observation
		for _, s := range c.steps {
			obs, err := w.stores.call(context.Background(), opt, s.tool, s.arg)
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", s.tool, s.arg, err)
			}
			seen = append(seen, obs)
			o := suite.Observe(obs.Text)
			for _, v := range s.shows {
				if !o.Holds(v) {
					return nil, fmt.Errorf("%s %q does not show %q: %s", s.tool, s.arg, v, obs.Text)
				}
				if style == Compact {
					evidence = append(evidence, source.Evidence{Value: v, Sources: w.placesOf(t, c, s, obs, v)})
				}
			}
		}
		if !suite.Evidenced(c.question, evidence, seen) {
			return nil, fmt.Errorf("the gold path of %q does not show %v where it may be read", c.question, evidence)
		}
	}
	return evidence, nil
}

// placesOf lists where the value that a step shows may be read: the cells that the gold query read it from, every passage of the
// store that names the subject and holds the value, the numbers that the result is calculated of. A fact of the stratum of two
// sources may be read in either corpus.
func (w *World) placesOf(t suite.Task, c candidate, s step, obs tool.Observation, value string) []string {
	var out []string
	add := func(places ...string) {
		for _, p := range places {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	switch s.tool {
	case ToolCalc:
		for _, r := range obs.Reads {
			add(suite.CalculatedOf(r.Of...))
		}
	case ToolSQL:
		for _, r := range obs.Reads {
			if part, ok := r.Part(obs.Text); ok && suite.Shows(value, part) {
				add(r.From...)
			}
		}
	default:
		for _, l := range c.extra.Lookups {
			if l.Value != value || l.Store.tool() != s.tool {
				continue
			}
			for _, u := range w.probe.of[w.byName[l.Subject]] {
				if (u.store == l.Store || u.store != SQL && t.HasTag(TagTwoSource)) && u.seen.Holds(value) {
					add(u.place)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// makeTasks fills the splits, template by template.
func (w *World) makeTasks() error {
	type plan struct {
		split     string
		pool      Pool
		templates []template
	}
	plans := []plan{{Train, PoolTrain, trained}, {Val, PoolVal, trained}, {ValCombo, PoolValCombo, heldCombos}, {Test, PoolTest, trained},
		{HeldoutCombo, PoolCombo, heldCombos}, {HeldoutTemplate, PoolTemplate, heldTemplates}}
	if w.opt.TwoSource {
		plans[0].templates = append(slices.Clone(trained), withWeight(twoSource, 8)...)
		plans = append(plans, plan{TwoSourceTest, PoolTest, twoSource})
	}
	jobs := make([][]*job, len(plans))
	for i, p := range plans {
		weights := make([]int, len(p.templates))
		for k := range p.templates {
			weights[k] = p.templates[k].weight
		}
		for k, quota := range apportion(w.opt.Counts[p.split], weights) {
			jobs[i] = append(jobs[i], w.newJob(p.split, p.pool, &p.templates[k], quota))
		}
	}
	run := func(jobs []*job) {
		parallel(len(jobs), func(i int) {
			for j := jobs[i]; len(j.tasks) < j.quota && j.next(); {
			}
		})
	}
	run(jobs[0])
	for i, p := range plans {
		tasks, err := gather(jobs[i], w.opt.Counts[p.split])
		if err != nil {
			return fmt.Errorf("split %s: %w", p.split, err)
		}
		if p.split == Train {
			w.learnWords(tasks)
			run(slices.Concat(jobs[1:]...))
		}
		r := rng.New(w.opt.Seed, "company order", p.split)
		r.Shuffle(len(tasks), func(a, b int) { tasks[a], tasks[b] = tasks[b], tasks[a] })
		for n := range tasks {
			tasks[n].ID = fmt.Sprintf("%s-%04d", p.split, n+1)
		}
		w.tasks[p.split] = tasks
	}
	return nil
}

// learnWords notes the words of the train tasks. Apart from wordings of their own, the tasks of other splits use no further words in what a
// policy must write. The tokenizer is made of train: a policy could not copy a name with a word that it lacks, and the task would test only
// that.
func (w *World) learnWords(train []suite.Task) {
	w.words = map[string]bool{}
	for _, t := range train {
		for _, x := range wordsOf(t) {
			w.words[x] = true
		}
	}
}

// spelled reports whether train has all words of the task. It is always true in a world without train tasks.
func (w *World) spelled(t suite.Task) bool {
	return len(w.words) == 0 || !slices.ContainsFunc(wordsOf(t), func(x string) bool { return !w.words[x] })
}

func wordsOf(t suite.Task) []string {
	text := ""
	if !t.HasTag(TagUnseenPhrasing) {
		text = t.Question
	}
	for _, c := range t.GoldPath {
		text += " " + string(c.Args)
	}
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
}

// fewestTrain is the least number of train tasks of a world that has tasks of other splits. Those use the words of train alone, and few
// train tasks hold few words.
const fewestTrain = 60

var smallest = fmt.Sprintf("the smallest world has %d tasks of train and 1 of every other split", fewestTrain)

// gather collects the tasks of a split. If a template cannot make its share, the other templates make more.
func gather(jobs []*job, count int) ([]suite.Task, error) {
	n := 0
	for _, j := range jobs {
		n += len(j.tasks)
	}
	for progress := true; n < count && progress; {
		progress = false
		for _, j := range jobs {
			if n < count && j.err == nil && j.next() {
				n, progress = n+1, true
			}
		}
	}
	var tasks []suite.Task
	for _, j := range jobs {
		if j.err != nil {
			return nil, j.err
		}
		tasks = append(tasks, j.tasks...)
	}
	if n < count {
		todo := fmt.Sprintf("lower its count to %d", n)
		if n == 0 {
			todo = "raise the count of train, whose words alone other splits use"
		}
		return nil, fmt.Errorf("the world has facts for %d tasks, not for the %d asked for: %s (%s)", n, count, todo, smallest)
	}
	return tasks, nil
}

func withWeight(ts []template, weight int) []template {
	out := slices.Clone(ts)
	for i := range out {
		out[i].weight = weight
	}
	return out
}

// parallel calls f for 0..n-1 on all CPUs.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
