package study

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/table"
	"github.com/toolroute/toolroute/pkg/train"
)

// A run has collapsed when the success of its rollouts stays below collapseShare of the best that it had reached before, for
// all of its last collapseLength updates or more. A shorter poor end may be chance.
const (
	collapseShare  = 0.5
	collapseLength = 3
)

// Warnings are what each bound on a diagnostic would have said in each run.
type Warnings []warning

// warning is what one bound on a diagnostic would have said in one run.
type warning struct {
	recipe  string
	seed    uint64
	updates int
	course  course
	bound   train.Bound
	fired   int     // the update after which the bound would have ended the run; 0: never
	value   float64 // of the diagnostic at that update; NaN where it never fired
	extreme float64 // see extreme
}

// verdict is what the warning was worth.
func (w warning) verdict() string {
	switch {
	case w.course.collapsed == 0 && w.fired == 0:
		return "rightly silent"
	case w.course.collapsed == 0:
		return "false alarm"
	case w.fired == 0:
		return "missed"
	case w.fired < w.course.collapsed:
		return "announced"
	}
	return "too late"
}

// lead is how many updates before the collapse the bound would have ended the run.
func (w warning) lead() (int, bool) {
	return w.course.collapsed - w.fired, w.course.collapsed > 0 && w.fired > 0
}

// course sums up the rollouts of a run.
type course struct {
	metric           string // success, or the mean reward where success was not logged
	start, best, end float64
	collapsed        int // the update that brought the collapse; 0: none
}

// courseOf finds the collapse of a run from its lines of metrics, one an update. The rollouts of a line were played before its update, so
// the update of the line before is to blame for bad ones. A value that is not a number counts as bad.
func courseOf(lines []report.MetricsRecord) course {
	f := course{metric: "success", start: math.NaN(), best: math.NaN(), end: math.NaN()}
	has := func(l report.MetricsRecord) bool { _, ok := l.Values[f.metric]; return ok }
	if !slices.ContainsFunc(lines, has) {
		f.metric = "reward_mean"
	}
	lines = slices.DeleteFunc(slices.Clone(lines), func(l report.MetricsRecord) bool { return !has(l) })
	if len(lines) == 0 {
		return f
	}
	value := func(i int) float64 { return lines[i].Values[f.metric] }
	f.start, f.end = value(0), value(len(lines)-1)
	best := math.Inf(-1)
	for i := range lines {
		if f.collapsed == 0 && i > 0 && len(lines)-i >= collapseLength && best > 0 {
			stays := true
			for j := i; j < len(lines) && stays; j++ {
				stays = !(value(j) >= collapseShare*best)
			}
			if stays {
				f.collapsed = lines[i-1].Step
			}
		}
		if v := value(i); v > best {
			best = v
		}
	}
	if !math.IsInf(best, -1) {
		f.best = best
	}
	return f
}

// Warnings checks every run against each of its bounds, by run and then by bound. Runs without metrics are left out.
func (rs Reinforcements) Warnings() Warnings {
	var out Warnings
	for _, r := range rs {
		if len(r.Lines) == 0 {
			continue
		}
		lines := make([]train.StepLog, len(r.Lines))
		for i, l := range r.Lines {
			lines[i].Step = l.Step
			for name, v := range l.Values { // read by name alone: the order does not matter
				lines[i].Metrics = append(lines[i].Metrics, train.Metric{Name: name, Value: v})
			}
		}
		f := courseOf(r.Lines)
		sound := lines
		if f.collapsed > 0 {
			sound = lines[:slices.IndexFunc(lines, func(l train.StepLog) bool { return l.Step >= f.collapsed })]
		}
		for _, b := range r.Bounds.Bounds() {
			w := warning{recipe: r.Recipe, seed: r.Seed, updates: lines[len(lines)-1].Step, course: f, bound: b, value: math.NaN(), extreme: extreme(b, sound)}
			if at, why := b.Rule.Replay(lines); why != "" {
				w.fired = lines[at].Step
				w.value, _ = b.Value(lines[0], lines[at])
			}
			out = append(out, w)
		}
	}
	return out
}

// extreme is the worst value that the diagnostic kept for b.Patience lines in a row. A bound at this value is the tightest one that would
// not have fired. It is infinite if the value was no number for so long, and NaN if it was not logged for so long.
func extreme(b train.Bound, lines []train.StepLog) float64 {
	sign := 1.0
	if b.Least {
		sign = -1
	}
	worst, found := math.Inf(-1), false
	for window := range windows(lines, max(1, b.Rule.Patience)) {
		kept := math.Inf(1)
		for _, l := range window {
			v, ok := b.Value(lines[0], l)
			switch {
			case !ok:
				kept = math.NaN() // min keeps it
			case !math.IsNaN(v):
				kept = min(kept, sign*v)
			}
		}
		if !math.IsNaN(kept) {
			worst, found = max(worst, kept), true
		}
	}
	if !found {
		return math.NaN()
	}
	return sign * worst
}

// windows are the runs of n lines in a row.
func windows(lines []train.StepLog, n int) iter.Seq[[]train.StepLog] {
	return func(yield func([]train.StepLog) bool) {
		for i := n; i <= len(lines); i++ {
			if !yield(lines[i-n : i]) {
				return
			}
		}
	}
}

// known prints a number, and nothing for NaN.
func known(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// counted prints the number of an update, and nothing if there is no such update.
func counted(n int, there bool) string {
	if !there {
		return ""
	}
	return strconv.Itoa(n)
}

// CSV has a line for each run and bound. Empty: never, or not known.
func (ws Warnings) CSV() []byte {
	out := table.New(0, "recipe", "seed", "updates", "measure", "start", "best", "end", "collapse_update", "diagnostic", "bound", "patience", "extreme", "fired_update", "fired_value", "updates_before", "verdict")
	for _, w := range ws {
		lead, led := w.lead()
		out.Add(w.recipe, fmt.Sprint(w.seed), fmt.Sprint(w.updates), w.course.metric, known(w.course.start), known(w.course.best), known(w.course.end), counted(w.course.collapsed, w.course.collapsed > 0),
			w.bound.Diagnostic, known(w.bound.Limit), fmt.Sprint(max(1, w.bound.Rule.Patience)), known(w.extreme), counted(w.fired, w.fired > 0), known(w.value), counted(lead, led), w.verdict())
	}
	return out.CSV()
}

// Markdown says what a collapse is, what each bound was worth over all runs, and what it said in each.
func (ws Warnings) Markdown() string {
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	short := func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	type key struct {
		diagnostic, bound string
		patience          int
		least             bool
	}
	side := func(w warning) string {
		if w.bound.Least {
			return fmt.Sprintf("below %g", w.bound.Limit)
		}
		return fmt.Sprintf("above %g", w.bound.Limit)
	}
	type total struct {
		announced, collapses, alarms, calm int
		leads                              []int
		sound, before                      []float64 // the extremes of runs that did not collapse, and of those that did
	}
	totals := map[key]*total{}
	var order []key
	var lines [][]string
	for _, w := range ws {
		k := key{w.bound.Diagnostic, side(w), max(1, w.bound.Rule.Patience), w.bound.Least}
		if totals[k] == nil {
			totals[k] = &total{}
			order = append(order, k)
		}
		t := totals[k]
		lead, led := w.lead()
		switch w.verdict() {
		case "announced":
			t.announced++
			t.leads = append(t.leads, lead)
		case "false alarm":
			t.alarms++
		}
		if w.course.collapsed > 0 {
			t.collapses++
			t.before = append(t.before, w.extreme)
		} else {
			t.calm++
			t.sound = append(t.sound, w.extreme)
		}
		lines = append(lines, []string{w.recipe, w.bound.Diagnostic, w.verdict(), fmt.Sprint(w.seed), fmt.Sprint(w.updates),
			fmt.Sprintf("%s, %s, %s", short(w.course.start), short(w.course.best), short(w.course.end)), dash(counted(w.course.collapsed, w.course.collapsed > 0)),
			side(w), short(w.extreme), dash(counted(w.fired, w.fired > 0)), dash(counted(lead, led))})
	}
	var sums [][]string
	for _, k := range order {
		t := totals[k]
		lead := "-"
		if n := len(t.leads); n > 0 {
			lead = fmt.Sprint(slices.Min(t.leads))
			if most := slices.Max(t.leads); most > slices.Min(t.leads) {
				lead += fmt.Sprintf(" to %d", most)
			}
		}
		// The worst extreme of the sound runs, and the mildest one before a collapse.
		most, least := most, least
		if k.least {
			most, least = least, most
		}
		sums = append(sums, []string{k.diagnostic, k.bound, fmt.Sprint(k.patience), fmt.Sprintf("%d of %d", t.announced, t.collapses), lead, fmt.Sprintf("%d of %d", t.alarms, t.calm),
			short(most(t.sound)), short(least(t.before))})
	}
	return fmt.Sprintf(`A run has collapsed when the %s of its rollouts stays below %g of the best that it had reached before, to its end and for at least %d
updates. The collapse is counted as the update after which this is so: rollouts are played before the update of their line. A bound
fires at the update that breaks it for the last of so many times in a row (patience), which is where `+"`grpo.stop`"+` with the same bound
would have ended the run. It announced the collapse if it fired before that update: the policy that it would have kept was sound. In a
run that did not collapse, a bound that fires is a false alarm. The bounds are those of the settings, `+"`warnings`"+`.

%s
Worst is the largest value, for entropy the least, that a diagnostic kept for the bound's patience, before the collapse or in the whole
run. A bound between the last two columns, where the last one is the worse, would have announced every collapse here and raised no
false alarm.

%s`, measures(ws), collapseShare, collapseLength,
		(&table.Table{Header: []string{"diagnostic", "bound", "patience", "collapses announced", "updates before", "false alarms", "worst of sound runs", "before every collapse"}, Lines: sums, Left: 2}).Markdown(),
		(&table.Table{Header: []string{"recipe", "diagnostic", "verdict", "seed", "updates", "start, best, end", "collapse", "bound", "worst", "fired", "updates before"}, Lines: lines, Left: 3}).Markdown())
}

// most and least are NaN without values, and if one of the values is NaN.
func most(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return slices.Max(v)
}

func least(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return slices.Min(v)
}

// measures names what collapses were read from.
func measures(ws []warning) string {
	out := ""
	for i, name := range []string{"success", "reward_mean"} {
		if !slices.ContainsFunc(ws, func(w warning) bool { return w.course.metric == name }) {
			continue
		}
		if out != "" {
			out += " or "
		}
		out += []string{"success", "mean reward (where success was not logged)"}[i]
	}
	return out
}
