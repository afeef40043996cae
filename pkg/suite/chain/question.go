package chain

import (
	"fmt"
	"strconv"
	"strings"
)

// The operations.
const (
	Difference = "difference"
	Sum        = "sum"
	Product    = "product"
)

var allOps = []string{Difference, Sum, Product}

// sign is the operation as an expression writes it.
func sign(op string) string {
	return map[string]string{Difference: "-", Sum: "+", Product: "*"}[op]
}

func apply(op string, a, b int64) int64 {
	switch op {
	case Difference:
		return a - b
	case Sum:
		return a + b
	case Product:
		return a * b
	}
	panic("unknown operation " + op) // Validate and the phrasings allow no other
}

// expression writes a op b as the questions do, so that a calc task's argument is a plain copy.
func expression(op string, a, b int64) string {
	return fmt.Sprintf("%d %s %d", a, sign(op), b)
}

// phrasing is one wording. Slots: {a} and {b} are entities or, in calc, {e} is the expression.
type phrasing struct {
	id   string
	kind string
	op   string // of compose; calc expressions carry their own
	text string
}

// phrasings are all wordings. An id never changes its text: trajectories are read back by it.
var phrasings = []phrasing{
	{"calc_what", Calc, "", "What is {e}?"},
	{"calc_compute", Calc, "", "Compute {e}."},
	{"calc_result", Calc, "", "Give the result of {e}."},
	{"lookup_what", Lookup, "", "What is the stock of {a}?"},
	{"lookup_how", Lookup, "", "How much does {a} have?"},
	{"lookup_find", Lookup, "", "Find the stock of {a}."},
	{"difference_more", Compose, Difference, "How much more does {a} have than {b}?"},
	{"difference_minus", Compose, Difference, "What is the stock of {a} minus the stock of {b}?"},
	{"sum_together", Compose, Sum, "How much do {a} and {b} have together?"},
	{"sum_plus", Compose, Sum, "What is the stock of {a} plus the stock of {b}?"},
	{"product_of", Compose, Product, "Give the product of the stock of {a} and {b}."},
	{"product_times", Compose, Product, "What is the stock of {a} times the stock of {b}?"},
}

// wordings returns the phrasings of a kind; op matters to compose alone.
func wordings(kind, op string) []phrasing {
	var out []phrasing
	for _, p := range phrasings {
		if p.kind == kind && (kind != Compose || p.op == op) {
			out = append(out, p)
		}
	}
	return out
}

func (p phrasing) render(a, b, e string) string {
	return strings.NewReplacer("{a}", a, "{b}", b, "{e}", e).Replace(p.text)
}

// asked is what a question asks for, read back from its text.
type asked struct {
	kind, op string
	entities []string // as the question names them, in its order; none in calc
}

// readQuestion is the inverse of render, by the id of the phrasing. It needs no task, so that a stored trajectory is enough.
func readQuestion(phrasingID, question string) (asked, bool) {
	for _, p := range phrasings {
		if p.id != phrasingID {
			continue
		}
		if p.kind == Calc {
			return asked{kind: Calc}, true
		}
		before, rest, _ := strings.Cut(p.text, "{a}")
		q, ok := strings.CutPrefix(question, before)
		if !ok {
			return asked{}, false
		}
		middle, after, two := strings.Cut(rest, "{b}")
		if !two {
			a, ok := strings.CutSuffix(q, rest)
			return asked{p.kind, p.op, []string{a}}, ok
		}
		a, q, ok := strings.Cut(q, middle)
		if !ok {
			return asked{}, false
		}
		b, ok := strings.CutSuffix(q, after)
		return asked{p.kind, p.op, []string{a, b}}, ok
	}
	return asked{}, false
}

// digits is the number of decimal digits of v, its sign aside.
func digits(v int64) int {
	return len(strings.TrimPrefix(strconv.FormatInt(v, 10), "-"))
}
