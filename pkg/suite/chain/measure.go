package chain

import (
	"math"
	"math/big"
	"regexp"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// RanChain reports whether an episode of a compose task ran the whole chain: two lookups that did not fail, one of each
// entity that the question names, and after both a calculator call that did not fail and whose arguments hold both values
// as the lookups returned them. The order of the lookups, the operation, further calls and the final answer do not matter,
// so a chain can end in a wrong answer; a right answer without the chain is a guess. The entities are read from the
// question (Task.Question, Task.Phrasing), so a stored trajectory is enough. Episodes of other kinds ran no chain.
func RanChain(tr trajectory.Trajectory) bool {
	return ranChain(&tr, holdsAll)
}

// CalledChain is like RanChain, but the calculator may have any arguments. The difference between the two rates is due to digits that were
// mis-copied from the observations.
func CalledChain(tr trajectory.Trajectory) bool {
	return ranChain(&tr, func(string, []*big.Rat) bool { return true })
}

func ranChain(tr *trajectory.Trajectory, calculated func(args string, values []*big.Rat) bool) bool {
	q, ok := readQuestion(tr.Task.Phrasing, tr.Task.Question)
	if !ok || q.kind != Compose || tr.Task.Template != Compose {
		return false
	}
	values := make([]*big.Rat, len(q.entities))
	for _, turn := range tr.Turns {
		if !turn.Called() || turn.Failed {
			continue
		}
		args, err := decodeArgs(turn.Action.Args)
		if err != nil {
			continue
		}
		switch turn.Action.Tool {
		case LookupTool:
			name, _ := args["name"].(string)
			for i, e := range q.entities {
				if n := numbers(turn.Observation); canonical(name) == canonical(e) && len(n) > 0 {
					values[i] = n[0]
				}
			}
		case CalculatorTool:
			e, _ := args["expression"].(string)
			if values[0] != nil && values[1] != nil && calculated(e, values) {
				return true
			}
		}
	}
	return false
}

var numberPattern = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// numbers are the unsigned numbers of a text, in order, each with all its digits.
func numbers(text string) []*big.Rat {
	var out []*big.Rat
	for _, m := range numberPattern.FindAllString(text, -1) {
		if r, ok := new(big.Rat).SetString(m); ok {
			out = append(out, r)
		}
	}
	return out
}

// holdsAll reports whether each value is a number of the text; equal values need as many numbers.
func holdsAll(text string, values []*big.Rat) bool {
	left := numbers(text)
	for _, v := range values {
		found := false
		for i, n := range left {
			if n != nil && n.Cmp(v) == 0 {
				left[i], found = nil, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// AccKind is the share of the episodes of a kind whose answer verified; NaN without any.
func AccKind(trs []trajectory.Trajectory, kind string) float64 { return ratio(trs, accuracy(kind)) }

// ChainRate is the share of the compose episodes that ran the whole chain; NaN without any.
func ChainRate(trs []trajectory.Trajectory) float64 { return ratio(trs, chained) }

// Columns are the suite's columns in their stable order.
func Columns() []suite.Column {
	return []suite.Column{
		{Name: "acc_calc", Title: "calc", Ratio: accuracy(Calc), Share: true},
		{Name: "acc_lookup", Title: "lookup", Ratio: accuracy(Lookup), Share: true},
		{Name: "acc_compose", Title: "compose", Ratio: accuracy(Compose), Share: true},
		{Name: "chain_rate", Title: "chain rate", Ratio: chained, Share: true},
		{Name: "chain_rate_sampled", Title: "chain rate, sampled", Ratio: chained, Share: true, Decoding: "sampled"},
	}
}

// RequiredBehaviours are what a gate looks for in sampled episodes before training. If no episode runs the chain, the members of a group of
// compose episodes differ only by luck, and training has nothing to amplify.
func RequiredBehaviours() []suite.Behaviour {
	return []suite.Behaviour{{
		Name:   "chain",
		Among:  func(tr trajectory.Trajectory) bool { return tr.Task.Template == Compose },
		Shown:  RanChain,
		Advice: "lower suite.habit.lazy_share below 1, or imitate demonstrations of kind " + Clean + " first",
	}}
}

func accuracy(kind string) func(*trajectory.Trajectory) (num, den float64) {
	return func(t *trajectory.Trajectory) (num, den float64) {
		if t.Task.Template != kind {
			return 0, 0
		}
		return indicator(t.Outcome.Verified), 1
	}
}

func chained(t *trajectory.Trajectory) (num, den float64) {
	if t.Task.Template != Compose {
		return 0, 0
	}
	return indicator(RanChain(*t)), 1
}

func ratio(trs []trajectory.Trajectory, of func(*trajectory.Trajectory) (num, den float64)) float64 {
	var num, den float64
	for i := range trs {
		n, d := of(&trs[i])
		num, den = num+n, den+d
	}
	if den == 0 {
		return math.NaN()
	}
	return num / den
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Mean is the mean of the three accuracies, the summary of the results; NaN when a kind has no episode.
func Mean(trs []trajectory.Trajectory) float64 {
	sum := 0.0
	for _, k := range Kinds() {
		sum += AccKind(trs, k)
	}
	return sum / float64(len(Kinds()))
}
