package company

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolroute/toolroute/pkg/suite"
)

// MinScore is the retrieval score below which static_threshold goes from the documents to the web: it lies between the
// scores of passages that name the entity only and of those that also say the words asked for.
const MinScore = 13.0

// Rules word queries and read answers for scripted baselines. They see the bare question, the observations and the schema of the database
// (the same in every world, printed in the full prompt), never a task, a template or the attributes of the corpora. A
// question is read so:
//
//  1. The entity is the first run of two capitalised words, the words that open a sentence aside.
//  2. "above" and "more than" part the two sides of a yes/no question; "plus", "minus" and "times" part the operands of a calculation,
//     "k percent of" is a factor; "how many" and "count" ask for a number of rows, "belong to" and "list" for their names. What is left is one
//     fact, or two parted by "and its".
//  3. A fact is a chain of words parted by "of": the innermost is asked of the entity, each further one of the value before
//     it. "its" is the entity's.
//  4. The next need is the first link of a chain whose value was not seen. SQL can serve it when its words are the name of
//     a column; a search asks for the subject and the words (of the first need that no column serves, where there is one);
//     the calculator waits until all operands are known.
//  5. A link's value is the single cell that answered its SELECT, or stands in a passage that names the subject and all its words and does
//     not say that it is a draft, withdrawn, denied or no longer true: what follows the last "is" or colon of the first sentence that has one,
//     up to a comma or the end, a number without its unit.
//
// They fail on aggregates beyond a count, on words that no passage repeats and on calculations of more than two operands with
// facts, and ask a tool about one need at a time.
type Rules struct{}

// Call words the arguments of a tool; false when the rules have nothing to ask it.
func (Rules) Call(question, name string, seen []suite.Seen) (json.RawMessage, bool) {
	q := parseQuestion(question)
	arg, ok := q.ask(name, q.learn(seen))
	if !ok || argName[name] == "" {
		return nil, false
	}
	args, err := encode(map[string]string{argName[name]: arg})
	return args, err == nil
}

// Extract reads the answer out of the observations; false when they do not hold it.
func (Rules) Extract(question string, seen []suite.Seen) (string, bool) {
	q := parseQuestion(question)
	return q.answer(q.learn(seen))
}

// Score is the score of a search's best passage; false when the observation shows none.
func (Rules) Score(s suite.Seen) (float64, bool) {
	line, _, _ := strings.Cut(s.Body, "\n")
	m := scoreMark.FindStringSubmatch(line)
	if s.Failed || m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil
}

var scoreMark = regexp.MustCompile(`\((?:score )?(\d+\.\d\d)\)$`)

// question is what the rules understood.
type question struct {
	form   string // "value", "calc", "compare", "count", "list", "both"
	entity string
	op     string // of a calculation: + - * or %
	terms  []term
}

// term is a number, or a chain of links from the innermost outwards.
type term struct {
	number string
	links  []string
}

var (
	percentOf = regexp.MustCompile(`^([\d.]+) percent of (.*)$`)
	opWord    = regexp.MustCompile(` (plus|minus|times) `)
	than      = regexp.MustCompile(` (?:above|more than) `)
	plainNum  = regexp.MustCompile(`^[\d.]+$`)
	leadIns   = []string{"i need to know when", "i need to know who is", "i need to know how many", "i need to know", "i need the names of all",
		"what is the name of", "what is its", "what is", "what are", "who is its", "who is", "when is its", "when is", "on which day is", "tell me both",
		"tell me", "please give", "how much is", "how many", "count", "compute", "take", "which are its", "which", "list", "is its", "is", "does"}
	trailers = []string{", what is it", " come to", " belong to @", " does @ have", " have", " has", " is"}
)

func parseQuestion(text string) question {
	q := question{form: "value"}
	q.entity = firstName(text)
	s := strings.TrimRight(strings.TrimSpace(text), "?.")
	if q.entity != "" {
		s = strings.Replace(s, q.entity, "@", 1)
	}
	s = strings.ToLower(s)
	switch {
	case strings.Contains(s, "how many") || strings.HasPrefix(s, "count "):
		q.form = "count"
	case strings.Contains(s, "belong to") || strings.HasPrefix(s, "list ") || strings.Contains(s, "which are its") || strings.Contains(s, "names of all"):
		q.form = "list"
	}
	s = strings.TrimSpace(strings.TrimPrefix(s, "@:"))
	for _, l := range leadIns {
		if rest, ok := strings.CutPrefix(s, l+" "); ok {
			s = rest
			break
		}
	}
	for _, t := range trailers {
		s = strings.TrimSuffix(s, t)
	}
	parts := []string{s}
	switch {
	case q.form != "value":
	case than.MatchString(s):
		q.form = "compare"
		parts = than.Split(s, 2)
	case percentOf.MatchString(s):
		m := percentOf.FindStringSubmatch(s)
		q.form, q.op, parts = "calc", "%", []string{m[2], m[1]}
	case opWord.MatchString(s):
		q.form, q.op = "calc", map[string]string{"plus": "+", "minus": "-", "times": "*"}[opWord.FindStringSubmatch(s)[1]]
		parts = opWord.Split(s, 2)
	case strings.Contains(s, " and its "):
		q.form = "both"
		parts = strings.SplitN(s, " and its ", 2)
	}
	for _, p := range parts {
		q.terms = append(q.terms, parseTerm(strings.TrimSuffix(strings.TrimSpace(p), " come to")))
	}
	return q
}

func parseTerm(s string) term {
	if plainNum.MatchString(s) {
		return term{number: s}
	}
	if opWord.MatchString(s) && !strings.Contains(s, "@") { // "12 times 7", inside "12 times 7 plus 5"
		return term{number: strings.NewReplacer(" plus ", "+", " minus ", "-", " times ", "*").Replace(s)}
	}
	var t term
	for _, part := range strings.Split(s, " of ") {
		var words []string
		for _, w := range strings.Fields(part) {
			switch w {
			case "the", "its", "a", "@", "for", "all", "@:":
			default:
				words = append(words, strings.Trim(w, ",:;"))
			}
		}
		if len(words) > 0 {
			t.links = append(t.links, strings.Join(words, " "))
		}
	}
	slices.Reverse(t.links)
	return t
}

// firstName is the first run of two capitalised words; a word that opens the sentence counts only when the next is
// capitalised too and it is no question word.
func firstName(text string) string {
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i++ {
		a, b := words[i], strings.TrimRight(words[i+1], ".,:;?!")
		if isName(a) && isName(b) && !stopWords[strings.ToLower(a)] {
			return a + " " + b
		}
	}
	return ""
}

func isName(w string) bool {
	for i, r := range w {
		if i == 0 && !unicode.IsUpper(r) || !unicode.IsLetter(r) {
			return false
		}
	}
	return w != ""
}

// need is a link to be looked up: these words of this subject.
type need struct{ subject, words string }

// known maps needs to values; the result of the calculator and of row counts and lists stand under their form.
type known map[need]string

// needs lists the first unknown link of each term.
func (q question) needs(k known) []need {
	var out []need
	for _, t := range q.terms {
		if n, _, ok := q.resolve(t, k); !ok {
			out = append(out, n)
		}
	}
	return out
}

// resolve follows a term's chain as far as it is known.
func (q question) resolve(t term, k known) (missing need, value string, ok bool) {
	if t.number != "" {
		return need{}, t.number, true
	}
	value = q.entity
	for _, l := range t.links {
		n := need{value, l}
		v, ok := k[n]
		if !ok {
			return n, "", false
		}
		value = v
	}
	return need{}, value, len(t.links) > 0
}

// ask words a tool's argument from what is known.
func (q question) ask(name string, k known) (string, bool) {
	needs := q.needs(k)
	switch name {
	case ToolCalc:
		if q.form != "calc" || len(needs) > 0 {
			return "", false
		}
		_, x, _ := q.resolve(q.terms[0], k)
		_, y, _ := q.resolve(q.terms[1], k)
		return expression(q.op, x, y), x != "" && y != ""
	case ToolSQL:
		if q.form == "count" || q.form == "list" {
			return q.askRows()
		}
		for _, n := range needs {
			if sql := selectColumn(n); sql != "" {
				return sql, true
			}
		}
	case ToolDoc, ToolWeb:
		if i := slices.IndexFunc(needs, func(n need) bool { return selectColumn(n) == "" }); i >= 0 {
			return needs[i].subject + " " + needs[i].words, true
		}
		if len(needs) > 0 {
			return needs[0].subject + " " + needs[0].words, true
		}
		if len(q.terms) > 0 && len(q.terms[0].links) > 0 { // nothing is missing: ask again for the first fact
			return q.entity + " " + q.terms[0].links[0], true
		}
	}
	return "", false
}

// schema is the tables and columns in the order in which they are made.
var schema = func() []Table {
	w := &World{}
	w.makeTables()
	return w.Tables
}()

// selectColumn is the SELECT of a need whose words name a column, empty when none does.
func selectColumn(n need) string {
	if strings.Contains(n.subject, "'") || n.subject == "" {
		return ""
	}
	column := strings.ReplaceAll(n.words, " ", "_")
	table := ""
	for _, t := range schema {
		if t.Columns[0].Name == "name" && slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == column }) {
			if table == "" || t.Name == kindOf(n.subject).table() { // two tables have the column: the name tells
				table = t.Name
			}
		}
	}
	if table == "" {
		return ""
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE name = '%s'", column, table, n.subject)
}

// askRows counts or lists the rows of the table that the question names which refer to the entity.
func (q question) askRows() (string, bool) {
	if q.entity == "" || len(q.terms) == 0 || len(q.terms[0].links) == 0 {
		return "", false
	}
	for _, t := range schema {
		if !slices.Contains(strings.Fields(strings.Join(q.terms[0].links, " ")), t.Name) {
			continue
		}
		for _, c := range t.Columns {
			if strings.HasPrefix(c.Type, "TEXT REFERENCES "+kindOf(q.entity).table()+"(") {
				what := "name"
				if q.form == "count" {
					what = "COUNT(*)"
				}
				return fmt.Sprintf("SELECT %s FROM %s WHERE %s = '%s'", what, t.Name, c.Name, q.entity), true
			}
		}
	}
	return "", false
}

// learn reads the values out of the calls so far. A SELECT's cell belongs to the need that was first when it was worded.
func (q question) learn(seen []suite.Seen) known {
	k := known{}
	for _, s := range seen {
		if s.Failed {
			continue
		}
		switch s.Tool {
		case ToolCalc:
			if _, ok := q.ask(ToolCalc, k); ok {
				k[need{"", "calc"}] = s.Body
			}
		case ToolSQL:
			lines := strings.Split(s.Body, "\n")
			if q.form == "count" || q.form == "list" {
				if s.Body != "no rows" {
					k[need{"", q.form}] = strings.Join(cells(lines), ", ")
				}
				continue
			}
			c := cells(lines)
			for _, n := range q.needs(k) {
				if selectColumn(n) != "" {
					if len(c) == 1 && c[0] != "no rows" {
						k[n] = c[0]
					}
					break
				}
			}
		case ToolDoc, ToolWeb:
			for again := true; again; {
				again = false
				for _, n := range q.needs(k) {
					if v := readPassages(s.Body, n); v != "" {
						k[n], again = v, true
					}
				}
			}
		}
	}
	return k
}

// cells drops the header line of the full style: it is the name of a column.
func cells(lines []string) []string {
	if len(lines) > 1 {
		for _, t := range schema {
			if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == lines[0] }) {
				return lines[1:]
			}
		}
		if strings.HasPrefix(lines[0], "COUNT(") {
			return lines[1:]
		}
	}
	return lines
}

var void = []string{"draft", "withdrawn", "rumour", "denied", "no longer", "proposal"}

// readPassages finds a need's value in the passages of a search.
func readPassages(body string, n need) string {
	for _, line := range strings.Split(body, "\n") {
		line = scoreMark.ReplaceAllString(strings.TrimPrefix(line, "- "), "")
		low := strings.ToLower(line)
		o := suite.Observe(line)
		if !o.Holds(n.subject) || slices.ContainsFunc(strings.Fields(n.words), func(w string) bool { return !o.Holds(w) }) ||
			slices.ContainsFunc(void, func(v string) bool { return strings.Contains(low, v) }) {
			continue
		}
		for _, sentence := range strings.SplitAfter(line, ". ") {
			at := max(strings.LastIndex(sentence, " is ")+3, strings.LastIndex(sentence, ": ")+1)
			if at < 3 || !strings.Contains(sentence[:at], n.subject) {
				continue
			}
			v := strings.TrimSpace(sentence[at:])
			if i := strings.IndexAny(v, ","); i >= 0 {
				v = v[:i]
			}
			v = strings.TrimRight(v, ". ")
			if first, _, _ := strings.Cut(v, " "); plainNum.MatchString(first) {
				v = first
			}
			if v != "" {
				return v
			}
		}
	}
	return ""
}

func (q question) answer(k known) (string, bool) {
	switch q.form {
	case "calc", "count", "list":
		v, ok := k[need{"", q.form}]
		return v, ok
	}
	var values []string
	for _, t := range q.terms {
		_, v, ok := q.resolve(t, k)
		if !ok {
			return "", false
		}
		values = append(values, v)
	}
	if q.form != "compare" {
		return strings.Join(values, ", "), len(values) > 0
	}
	x, ok1 := suite.ParseNumber(values[0])
	y, ok2 := suite.ParseNumber(values[1])
	if !ok1 || !ok2 {
		return "", false
	}
	return map[bool]string{true: "yes", false: "no"}[x.Cmp(y) > 0], true
}
