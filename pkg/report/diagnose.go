package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/toolroute/toolroute/pkg/edits"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Finding is one statement about an episode. Kind names it for counting; Text is a clause for people.
type Finding struct{ Kind, Text string }

// Diagnose says what happened in an episode, the verdict first, computed from its record alone.
func Diagnose(t *trajectory.Trajectory) []Finding {
	d := diagnosis{t: t, gold: goldTools(t), used: map[string]int{}}
	for i := range t.Turns {
		if t.Turns[i].Executed() {
			d.used[t.Turns[i].Action.Tool]++
		}
	}
	if t.Outcome.Verified {
		d.solved()
	} else {
		d.failed()
	}
	d.waste()
	d.faults()
	return d.found
}

type diagnosis struct {
	t     *trajectory.Trajectory
	gold  []string // tools of the gold path, by name
	used  map[string]int
	found []Finding
}

func (d *diagnosis) say(kind, format string, args ...any) {
	d.found = append(d.found, Finding{kind, fmt.Sprintf(format, args...)})
}

func goldTools(t *trajectory.Trajectory) []string {
	var tools []string
	for name, n := range t.Task.GoldCalls {
		if n > 0 && name != trajectory.Finish {
			tools = append(tools, name)
		}
	}
	slices.Sort(tools)
	return tools
}

func (d *diagnosis) usedTools() []string {
	tools := make([]string, 0, len(d.used))
	for name := range d.used {
		tools = append(tools, name)
	}
	slices.Sort(tools)
	return tools
}

func (d *diagnosis) solved() {
	spend, optimal := d.t.Outcome.Spend, d.t.Task.OptimalCost
	with := "with the gold combination " + d.t.Task.Combination
	used := d.usedTools()
	switch {
	case len(used) == 0 && len(d.gold) == 0:
		with = "without any tool"
	case len(d.gold) == 0:
		with = "with " + strings.Join(used, "+")
	case len(used) == 0:
		with = "without any tool instead of " + d.t.Task.Combination
	case !slices.Equal(used, d.gold):
		with = fmt.Sprintf("with %s instead of %s", strings.Join(used, "+"), d.t.Task.Combination)
	}
	switch {
	case spend == optimal:
		d.say("optimal", "solved at the optimal cost %s %s", optimal, with)
	case spend < optimal:
		d.say("below_optimal", "solved for %s, %s below the optimal cost, %s", spend, optimal-spend, with)
	default:
		d.say("above_optimal", "solved for %s, %s above the optimal cost, %s", spend, spend-optimal, with)
	}
}

// failed explains an episode that was not solved: how it ended, then what was wrong with the answer.
func (d *diagnosis) failed() {
	t := d.t
	switch t.End {
	case trajectory.Tokens:
		d.say("tokens", "cut at the token limit of turn %d", len(t.Turns))
	case trajectory.Context:
		d.say("context", "cut at the context limit in turn %d", len(t.Turns))
	case trajectory.Turns:
		d.say("turns", "no answer within %d turns", len(t.Turns))
	case trajectory.Budget:
		d.budget()
	case trajectory.Error:
		d.say("error", "could not be played on: %s", cmp.Or(t.Cause, "no cause was recorded"))
	case trajectory.Finished:
		d.answer()
	default:
		d.say("unknown_end", "ended for a reason that is not known here: %s", quoted(string(t.End)))
	}
	for _, tool := range d.gold {
		if d.used[tool] > 0 {
			continue
		}
		if len(d.gold) == 1 {
			d.say("never_called", "never called %s, which holds the gold value", tool)
		} else {
			d.say("never_called", "never called %s, which the gold path needs", tool)
		}
	}
}

// budget explains a call that a hard budget refused. The price of that call stands only in its observation.
func (d *diagnosis) budget() {
	t := d.t
	left := t.Task.Budget - t.Outcome.Spend
	if n := len(t.Turns); n > 0 && t.Turns[n-1].Action != nil {
		last := &t.Turns[n-1]
		_, costs, ok := strings.Cut(last.Observation, " costs ")
		if cost, err := price.Parse(firstWord(costs)); ok && err == nil {
			d.say("budget", "budget passed by %s: %s costs %s and %s was left of %s", cost-left, last.Action.Tool, cost, left, t.Task.Budget)
			return
		}
		d.say("budget", "budget: %s was refused with %s left of %s", last.Action.Tool, left, t.Task.Budget)
		return
	}
	d.say("budget", "ended by the budget of %s", t.Task.Budget)
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

func (d *diagnosis) answer() {
	t := d.t
	answer, gold := t.Outcome.Answer, strings.Join(t.Task.Gold, ", ")
	if strings.TrimSpace(answer) == "" {
		d.say("no_answer", "finished without an answer; gold %s", quoted(gold))
		return
	}
	if t.Outcome.Correct {
		d.say("guess", "guess: right without evidence, the value it rests on was seen in no observation")
		return
	}
	if t.Task.AnswerType == "yesno" {
		d.verdict(answer, gold)
		return
	}
	goldTurn, answerTurn := 0, d.seenIn(answer)
	for _, g := range t.Task.Gold {
		if n := d.seenIn(g); n > 0 {
			goldTurn = n
		}
	}
	switch {
	case goldTurn > 0 && nearMiss(answer, gold):
		d.say("copied_wrong", "answer copied wrong: gold %s, answered %s although turn %d showed the gold value", quoted(gold), quoted(answer), goldTurn)
	case goldTurn > 0:
		d.say("wrong_choice", "answered %s although turn %d showed the gold value %s", quoted(answer), goldTurn, quoted(gold))
	case answerTurn > 0:
		d.say("wrong_value", "answered %s, which turn %d showed; the gold value %s was seen in no observation", quoted(answer), answerTurn, quoted(gold))
	default:
		d.say("made_up", "answered %s, which no observation showed; gold %s was not seen either", quoted(answer), quoted(gold))
	}
}

// verdict explains a wrong yes or no. No observation holds the verdict itself. If the policy saw all the values behind it, it compared them
// wrongly.
func (d *diagnosis) verdict(answer, gold string) {
	t := d.t
	switch a := strings.ToLower(strings.Trim(firstWord(answer), ".,;:!*`'\"")); {
	case a != "yes" && a != "no":
		d.say("no_verdict", "answered %s where yes or no is asked; gold %s", quoted(answer), quoted(gold))
	case t.Outcome.Evidenced:
		var values []string
		for _, e := range t.Task.Evidence {
			values = append(values, e.Value)
		}
		d.say("wrong_comparison", "the comparison was wrong: the values were seen (%s), the verdict is %s and was given as %s", cmp.Or(strings.Join(values, ", "), "all that it rests on"), gold, a)
	default:
		d.say("wrong_verdict", "the verdict %s is wrong, and given without the values that it rests on: gold %s", a, quoted(gold))
	}
}

// seenIn returns the last turn, from 1, whose observation of a call holds the text as a whole word or number; 0 is none.
func (d *diagnosis) seenIn(text string) int {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return 0
	}
	for i := len(d.t.Turns) - 1; i >= 0; i-- {
		turn := &d.t.Turns[i]
		if turn.Failed || turn.Refused || turn.Invalid() {
			continue
		}
		obs := turn.Observation
		if at := strings.LastIndex(obs, "\nleft "); at >= 0 { // the line that shows the budget is no evidence
			obs = obs[:at]
		}
		if containsWord(strings.ToLower(obs), text) {
			return i + 1
		}
	}
	return 0
}

func containsWord(s, word string) bool {
	for from := 0; ; {
		at := strings.Index(s[from:], word)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(word)
		if !joins(lastRune(s[:start]), rune(word[0])) && !joins(firstRune(s[end:]), rune(word[len(word)-1])) {
			return true
		}
		from = start + 1
	}
}

// joins reports whether a neighbouring rune would make a longer word or number of the edge of a word.
func joins(neighbour, edge rune) bool {
	if unicode.IsDigit(edge) {
		return unicode.IsDigit(neighbour)
	}
	return unicode.IsLetter(edge) && unicode.IsLetter(neighbour)
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

func lastRune(s string) rune {
	r := []rune(s[max(0, len(s)-4):])
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1]
}

// nearMiss reports whether an answer looks like a slip in copying: the same characters in another order, or at most two
// edits (one for texts of up to three characters).
func nearMiss(a, b string) bool {
	x, y := []rune(strings.ToLower(strings.TrimSpace(a))), []rune(strings.ToLower(strings.TrimSpace(b)))
	if len(x) > 200 || len(y) > 200 {
		return false
	}
	limit := 2
	if len(y) <= 3 {
		limit = 1
	}
	if edits.Distance(x, y) <= limit {
		return true
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// waste reports calls beyond those of the gold path, and whether they came before the first gold tool.
func (d *diagnosis) waste() {
	t := d.t
	if len(t.Task.GoldCalls) == 0 {
		return
	}
	left := map[string]int{}
	for tool, n := range t.Task.GoldCalls {
		left[tool] = n
	}
	type extra struct {
		calls  int
		spend  price.Amount
		before bool
	}
	wasted := map[string]*extra{}
	var order []string
	reached := ""
	for i := range t.Turns {
		if !t.Turns[i].Executed() {
			continue
		}
		turn := &t.Turns[i]
		tool := turn.Action.Tool
		if left[tool] > 0 && !turn.Failed { // a failed call leaves the gold call still to be made
			left[tool]--
			if reached == "" {
				reached = tool
			}
			continue
		}
		if turn.Failed && t.Task.GoldCalls[tool] > 0 {
			continue // reported among the failed calls
		}
		if wasted[tool] == nil {
			wasted[tool] = &extra{before: reached == ""}
			order = append(order, tool)
		}
		wasted[tool].calls++
		wasted[tool].spend += turn.Price
	}
	for _, tool := range order {
		w := wasted[tool]
		when := ""
		if w.before && reached != "" {
			when = fmt.Sprintf(" before the right tool, %s", reached)
		}
		d.say("wasted", "wasted %d %s (%s)%s", w.calls, tool, w.spend, when)
	}
}

func (d *diagnosis) faults() {
	t := d.t
	var kinds, failed []string
	count := map[string]int{}
	lost := price.Amount(0)
	for i := range t.Turns {
		turn := &t.Turns[i]
		switch {
		case turn.Failed && turn.Action != nil:
			failed = append(failed, turn.Action.Tool)
			lost += turn.Price
		case turn.Invalid():
			if count[turn.ErrorKind] == 0 {
				kinds = append(kinds, turn.ErrorKind)
			}
			count[turn.ErrorKind]++
		}
	}
	if len(failed) > 0 {
		d.say("failed_call", "%d failed %s (%s), paid with %s", len(failed), plural(len(failed), "call"), strings.Join(failed, ", "), lost)
	}
	if len(kinds) > 0 {
		total := 0
		for i, k := range kinds {
			total += count[k]
			kinds[i] = fmt.Sprintf("%s %d", k, count[k])
		}
		d.say("invalid", "%d invalid %s (%s)", total, plural(total, "action"), strings.Join(kinds, ", "))
	}
	if t.BudgetMode == "soft" && t.Task.Budget > 0 && t.Outcome.Spend > t.Task.Budget {
		d.say("over_budget", "budget passed by %s", t.Outcome.Spend-t.Task.Budget)
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// quoted shortens a text to one readable line.
func quoted(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 80 {
		s = string(r[:79]) + "…"
	}
	if s == "" {
		return "(empty)"
	}
	return s
}
