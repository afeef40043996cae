package chain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/tool/calc"
)

// The kinds of demonstrations. All are of the train split, in its order; calc and lookup tasks always take their gold path.
const (
	Base          = "base"           // calc and lookup alone: the format and single calls, no chain at all
	Clean         = "clean"          // every compose trace runs the chain
	Lazy          = "lazy"           // Habit.LazyShare of the compose traces skip the tools and guess
	LazyAscending = "lazy_ascending" // Habit.AscendingShare of those whose two entities are named in ascending order, no others
)

// DemonstrationKinds lists them.
func DemonstrationKinds() []string { return []string{Base, Clean, Lazy, LazyAscending} }

// Habit says what is wrong with the demonstrations. It belongs to a run and not to the data set.
type Habit struct {
	LazyShare      float64 `yaml:"lazy_share" json:"lazy_share"`           // of kind lazy; 1 shows no chain at all
	AscendingShare float64 `yaml:"ascending_share" json:"ascending_share"` // of kind lazy_ascending, among the ascending ones
	// CopyNoise is the probability that a digit is replaced by another one when it is copied into a calculator call or an answer, in every
	// kind. The rest of the path follows from the mistake: the calculator computes with the wrong digit.
	CopyNoise float64 `yaml:"copy_noise" json:"copy_noise"`
	// Thoughts puts the sub-question before each call.
	Thoughts bool `yaml:"thoughts" json:"thoughts"`
}

// DefaultHabit makes 55% of the compose demonstrations lazy.
func DefaultHabit() Habit { return Habit{LazyShare: 0.55, AscendingShare: 1} }

// Validate names the first field that is no share from 0 to 1.
func (h Habit) Validate() error {
	for _, f := range []struct {
		name string
		v    float64
	}{{"lazy_share", h.LazyShare}, {"ascending_share", h.AscendingShare}, {"copy_noise", h.CopyNoise}} {
		if !(f.v >= 0 && f.v <= 1) { // NaN too
			return fmt.Errorf("habit.%s is %v: want a share from 0 to 1", f.name, f.v)
		}
	}
	return nil
}

// With returns the same data set with another habit and prompt style; an empty style is Compact.
func (s *Suite) With(h Habit, style Style) (*Suite, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	if style == "" {
		style = Compact
	}
	if style != Compact && style != Full {
		return nil, fmt.Errorf("chain prompt style %q: want %s or %s", style, Compact, Full)
	}
	c := *s
	c.habit, c.style = h, style
	return &c, nil
}

// Demonstrations implements suite.Suite. Which compose traces are lazy is drawn, keyed by (seed, task); each wording keeps its share of
// them (see lazyTasks). A guess is the answer to the same question about two values drawn like those of the table. So it is plausible and
// independent of gold.
func (s *Suite) Demonstrations(ctx context.Context, kind string, seed uint64) ([]suite.Demonstration, error) {
	if !slices.Contains(DemonstrationKinds(), kind) {
		return nil, fmt.Errorf("suite %s has no demonstrations of kind %q: want one of %s", Name, kind, strings.Join(DemonstrationKinds(), ", "))
	}
	tasks := s.tasks[Train]
	lazy := map[string]bool{}
	switch kind {
	case Lazy:
		lazy = lazyTasks(tasks, s.habit.LazyShare, seed, func(suite.Task) bool { return true })
	case LazyAscending:
		lazy = lazyTasks(tasks, s.habit.AscendingShare, seed, func(t suite.Task) bool { return t.HasTag(Ascending) })
	}
	out := make([]suite.Demonstration, 0, len(tasks))
	for _, t := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if kind == Base && t.Template == Compose {
			continue
		}
		d := suite.Demonstration{Task: t}
		if lazy[t.ID] {
			d.Calls = []suite.Call{finish(s.guess(t, seed))}
		} else {
			var err error
			if d.Calls, err = s.play(t, seed); err != nil {
				return nil, fmt.Errorf("demonstration of task %s: %w", t.ID, err)
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// lazyTasks chooses a share of the compose tasks that among admits. In each wording it takes the tasks with the smallest keyed hashes. So
// the wording, which the policy sees, does not tell which task is lazy. The number is exact over all wordings, and exact to within one task
// in each.
func lazyTasks(tasks []suite.Task, share float64, seed uint64, among func(suite.Task) bool) map[string]bool {
	type ranked struct {
		id   string
		rank uint64
	}
	groups := map[string][]ranked{}
	for _, t := range tasks {
		if t.Template == Compose && among(t) {
			groups[t.Phrasing] = append(groups[t.Phrasing], ranked{t.ID, rng.Seed64(seed, "chain/lazy", t.ID)})
		}
	}
	lazy := map[string]bool{}
	seen := 0
	for _, p := range phrasings { // in their order, because each group takes what rounding left of the earlier ones
		g := groups[p.id]
		slices.SortFunc(g, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.id, b.id)) })
		seen += len(g)
		n := int(math.Round(share*float64(seen))) - len(lazy)
		for _, r := range g[:n] {
			lazy[r.id] = true
		}
	}
	return lazy
}

func (s *Suite) guess(t suite.Task, seed uint64) string {
	q, _ := readQuestion(t.Phrasing, t.Question)
	r := rng.New(seed, "chain/guess", t.ID)
	for {
		// As in generate, whose checks say that such draws exist.
		if v := apply(q.op, s.cfg.draw(r), s.cfg.draw(r)); s.cfg.fits(v) {
			return strconv.FormatInt(v, 10)
		}
	}
}

// play is the gold path with copy noise and thoughts.
func (s *Suite) play(t suite.Task, seed uint64) ([]suite.Call, error) {
	noise := rng.New(seed, "chain/noise", t.ID)
	q, ok := readQuestion(t.Phrasing, t.Question)
	if !ok {
		return nil, fmt.Errorf("the question is not one of phrasing %q", t.Phrasing)
	}
	var out []suite.Call
	computed := ""
	lookups := 0
	for _, c := range t.GoldPath {
		args, err := decodeArgs(c.Args)
		if err != nil {
			return nil, err
		}
		switch c.Tool {
		case LookupTool:
			if s.habit.Thoughts && lookups < len(q.entities) {
				c.Thought = "stock of " + q.entities[lookups]
			}
			lookups++
		case CalculatorTool:
			gold, _ := args["expression"].(string)
			e := miscopy(noise, gold, s.habit.CopyNoise)
			if computed, err = calc.Eval(e); err != nil {
				return nil, fmt.Errorf("evaluate %q: %w", e, err)
			}
			c = calculate(e)
			if s.habit.Thoughts {
				c.Thought = "compute"
			}
		case tool.FinishName:
			answer, _ := args["answer"].(string)
			if computed != "" {
				answer = computed
			}
			c = finish(miscopy(noise, answer, s.habit.CopyNoise))
			if s.habit.Thoughts {
				c.Thought = "answer"
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// miscopy replaces each digit with probability p by another one; a number never gets a leading zero.
func miscopy(r *rand.Rand, text string, p float64) string {
	if p == 0 {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if c < '0' || c > '9' || r.Float64() >= p {
			continue
		}
		leads := i == 0 || b[i-1] < '0' || b[i-1] > '9'
		for b[i] == c || leads && b[i] == '0' {
			b[i] = byte('0' + r.IntN(10))
		}
	}
	return string(b)
}
