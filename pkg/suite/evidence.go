package suite

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Evidenced reports whether the calls of an episode showed each value of the evidence at one of its sources. What counts:
//
//   - A part that was read from a store counts as the places that the tool names for it. Evidence without sources takes any.
//   - The result of a calculation counts as "calculated:" and the numbers that it was made of, sorted, if each of them stands
//     in the question, was read from a store before, or is an earlier result that counts (whose own numbers then stand for it).
//     One 100 in a calculation is free and not among the numbers, and n/100 is known where n is, so that a percentage can be
//     written in any way.
//   - Nothing else does: no error, no echo of arguments, nothing that the policy wrote.
func Evidenced(question string, evidence []source.Evidence, seen []tool.Observation) bool {
	found := make([]bool, len(evidence))
	missing := len(evidence)
	walk(question, seen, func(o *Observed, from []string) bool {
		for i, e := range evidence {
			if !found[i] && e.Takes(from) && o.Holds(e.Value) {
				found[i] = true
				missing--
			}
		}
		return missing > 0
	})
	return missing == 0
}

// SourcesOf lists where the calls of an episode showed a value, sorted: what a task's evidence may list.
func SourcesOf(question, value string, seen []tool.Observation) []string {
	all := map[string]bool{}
	walk(question, seen, func(o *Observed, from []string) bool {
		if o.Holds(value) {
			for _, f := range from {
				all[f] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(all))
}

// walk visits the parts of the observations that count, in order, with their sources, until visit returns false.
func walk(question string, seen []tool.Observation, visit func(o *Observed, from []string) bool) {
	k := &knowledge{seen: []*Observed{Observe(question)}, results: map[string][][]string{}}
	for _, obs := range seen {
		for _, r := range obs.Reads {
			part, ok := r.Part(obs.Text)
			if !ok {
				continue
			}
			from := r.From
			if len(r.Of) > 0 {
				made := k.madeOf(r.Of)
				if len(made) == 0 {
					continue
				}
				from = nil
				for _, m := range made {
					from = append(from, calculated(m))
				}
				c := canonical(part)
				k.results[c] = append(k.results[c], made...)
			}
			if len(from) == 0 {
				continue
			}
			o := Observe(part)
			if len(r.Of) == 0 {
				k.seen = append(k.seen, o)
			}
			if !visit(o, from) {
				return
			}
		}
	}
}

// CalculatedOf is the source of a result that was calculated from these numbers, one 100 among them left out.
func CalculatedOf(numbers ...string) string {
	made := make([]string, len(numbers))
	for i, n := range numbers {
		made[i] = canonical(n)
	}
	if i := slices.Index(made, hundred); i >= 0 {
		made = slices.Delete(made, i, i+1)
	}
	return calculated(made)
}

func calculated(numbers []string) string {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	return "calculated:" + strings.Join(numbers, ",")
}

const (
	hundred = "100"
	free    = "" // the 100 of a percentage, among the numbers of a way
)

// knowledge is what an episode's policy could know at some time.
type knowledge struct {
	seen    []*Observed           // the question and what was read from stores
	results map[string][][]string // what the results that count were made of, in each way that they were
}

// maxWays bounds the ways in which a result is made of known numbers: a number that stands in the question and is also a result
// may be meant as either.
const maxWays = 16

// madeOf lists the ways in which a calculation with these operands is made of known numbers. There is none if an operand is not known.
func (k *knowledge) madeOf(operands []string) [][]string {
	ways := [][]string{nil}
	for _, op := range operands {
		of := k.known(op)
		var next [][]string
		for _, w := range ways {
			for _, o := range of {
				if len(next) < maxWays {
					next = append(next, slices.Concat(w, o))
				}
			}
		}
		ways = next
	}
	var out [][]string
	for _, w := range ways {
		if i := slices.Index(w, free); i >= 0 {
			w = slices.Delete(w, i, i+1)
		}
		if !slices.Contains(w, free) {
			out = append(out, w)
		}
	}
	return out
}

// known lists the ways in which an operand is known: as itself, if the question or a store shows it, and as the numbers of each result that
// it equals.
func (k *knowledge) known(operand string) [][]string {
	forms := []string{canonical(operand)}
	if r, ok := new(big.Rat).SetString(forms[0]); ok {
		forms = append(forms, new(big.Rat).Neg(r).RatString(), new(big.Rat).Mul(r, big.NewRat(100, 1)).RatString())
	}
	var out [][]string
	for i, f := range forms {
		if f == hundred && i == 0 {
			out = append(out, []string{free})
		}
		if slices.ContainsFunc(k.seen, func(o *Observed) bool { return o.numbers[f] || i == 0 && o.Holds(operand) }) {
			out = append(out, []string{f})
		}
		out = append(out, k.results[f]...)
	}
	return out
}

// canonical is a number's exact value, and any other text as it is compared.
func canonical(s string) string {
	if r, ok := ParseNumber(s); ok {
		return r.RatString()
	}
	return fold(s)
}
