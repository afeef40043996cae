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
const MinScore = 11.0

// Rules word queries and read answers for scripted baselines. They see the bare question, the observations and the schema of
// the database (the same in every world, printed in the full prompt), never a task, a template or the attributes of the
// corpora. They read a question as being about one fact, and take nothing apart that is about two:
//
//  1. The entity is the first run of two capitalised words, the word that opens a question aside.
//  2. "above" and "more than" part the fact from the number it is compared with; "plus", "minus" and "times" part the operands of a
//     calculation, "k percent of" is a factor; "how many" and "count" ask for a number of rows, "belong to" and "list" for
//     their names. What is left, without common words, are the words of the fact.
//  3. SQL is asked when the words are the name of a column, or of a table that refers to the entity where rows are
//     wanted; a search gets the entity and the words; the calculator waits until its operands are known.
//  4. The fact's value is the single cell that SQL answered, or stands in a passage that names the entity and all the words and does
//     not say that it is a draft, withdrawn, denied or no longer true: what follows the last "is" or colon of the first
//     sentence that names the entity, up to a comma or the end, a number without its unit.
//  5. A question that names a second fact ("of the ... of", "its ...") or calculates with a result (", what is it times") is
//     searched for as a whole and never answered.
//
// So they fail on hops, on two facts in one question, on aggregates beyond a count, and where passages use other words.
type Rules struct{}

// Knows implements scripted.Knower. The rules need the tools' own names, so masked tasks (Options.MaskTools) are refused.
func (Rules) Knows(name string) bool { return argName[name] != "" }

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

var plainNumber = regexp.MustCompile(`\d+(?:\.\d+)?`)

// Fallback words a call to a tool that Call has nothing to ask: a search for the question as it stands, the whole row of the entity
// (without an entity, the first product), the sum of the numbers of the question, or of the first number seen where it has none. What
// comes back is never taken for the answer.
func (Rules) Fallback(question, name string, seen []suite.Seen) (json.RawMessage, bool) {
	arg := question
	switch name {
	case ToolDoc, ToolWeb:
	case ToolSQL:
		entity := firstName(question)
		arg = "SELECT name FROM " + Product.table() + " LIMIT 1"
		for _, t := range schema {
			if t.Name == kindOf(entity).table() && !strings.Contains(entity, "'") {
				columns := make([]string, len(t.Columns))
				for i, c := range t.Columns {
					columns[i] = c.Name
				}
				arg = fmt.Sprintf("SELECT %s FROM %s WHERE name = '%s'", strings.Join(columns, ", "), t.Name, entity)
			}
		}
	case ToolCalc:
		numbers := plainNumber.FindAllString(question, 8)
		for i := 0; i < len(seen) && len(numbers) == 0; i++ {
			numbers = plainNumber.FindAllString(seen[i].Body, 1)
		}
		if arg = strings.Join(numbers, "+"); arg == "" {
			arg = "0"
		}
	default:
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
	form   string // "value", "calc", "compare", "count", "list"
	entity string
	op     string // of a calculation: + - * or %
	terms  []term
	second bool // it is about more than one fact
}

// term is a number, or the words of a fact.
type term struct{ number, words string }

var (
	percentOf = regexp.MustCompile(`^([\d.]+) percent of (.*)$`)
	opWord    = regexp.MustCompile(` (plus|minus|times) `)
	than      = regexp.MustCompile(` (?:above|more than) `)
	plainNum  = regexp.MustCompile(`^[\d.]+$`)
	leadIns   = []string{"do you know if", "do you know who is", "do you know when", "do you know", "i want to see", "i need to see",
		"i need to know when", "i need to know who is", "i need to know how many", "i need to know", "i need the names of all", "i need the name of", "i need",
		"i want to know if", "i want to know who is", "i want to know when", "i want to know how many", "i want to know which", "i want to know",
		"let me know if", "let me know who is", "let me know when", "let me know how many", "let me know",
		"please tell me if", "please tell me who is", "please tell me when", "please tell me", "please give the names of all", "please give",
		"what is the name of", "what is its", "what is", "what are", "what", "who is its", "who is", "when is its", "when is", "on which day is",
		"tell me if", "tell me how many", "tell me which", "tell me both", "tell me",
		"find", "look up", "how much is", "how many", "count", "compute", "take", "which are its", "which", "list", "is its", "is", "does"}
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
	}
	facts := 0
	for _, p := range parts {
		t := parseTerm(strings.TrimSuffix(strings.TrimSpace(p), " come to"))
		q.terms = append(q.terms, t)
		if t.words != "" {
			facts++
		}
	}
	q.second = facts > 1 || strings.Contains(s, ", what is it times ") || strings.Contains(s, "its ") || strings.Count(s, " of ")-strings.Count(s, "percent of") > 1
	return q
}

func parseTerm(s string) term {
	if plainNum.MatchString(s) {
		return term{number: s}
	}
	if opWord.MatchString(s) && !strings.Contains(s, "@") { // "7 plus 5", within "12 times 7 plus 5"
		return term{number: strings.NewReplacer(" plus ", "+", " minus ", "-", " times ", "*").Replace(s)}
	}
	var words []string
	for _, w := range strings.Fields(s) {
		if w = strings.Trim(w, ",:;@"); w != "" && !stopWords[w] {
			words = append(words, w)
		}
	}
	return term{words: strings.Join(words, " ")}
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

// need is a fact to be looked up: these words of this subject.
type need struct{ subject, words string }

// fact is what the question needs to know, if anything.
func (q question) fact() (need, bool) {
	for _, t := range q.terms {
		if t.words != "" && q.entity != "" {
			return need{q.entity, t.words}, true
		}
	}
	return need{}, false
}

// learned is what the observations told.
type learned struct {
	fact   string // the value of the question's fact
	rows   string // a count or a list of names
	result string // of the calculator
}

// operand is a number of the question, or the value of its fact.
func (t term) operand(k learned) string {
	if t.number != "" {
		return t.number
	}
	return k.fact
}

// ask words a tool's argument from what is known.
func (q question) ask(name string, k learned) (string, bool) {
	n, ok := q.fact()
	switch name {
	case ToolCalc:
		if q.form != "calc" || q.second || len(q.terms) < 2 {
			return "", false
		}
		x, y := q.terms[0].operand(k), q.terms[1].operand(k)
		return expression(q.op, x, y), x != "" && y != ""
	case ToolSQL:
		if q.form == "count" || q.form == "list" {
			return q.askRows()
		}
		sql := selectColumn(n)
		return sql, ok && !q.second && sql != ""
	case ToolDoc, ToolWeb:
		if q.second && ok {
			for _, t := range q.terms[1:] {
				n.words = strings.TrimSpace(n.words + " " + t.words)
			}
		}
		return n.subject + " " + n.words, ok
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
	n, ok := q.fact()
	if !ok {
		return "", false
	}
	for _, t := range schema {
		if !slices.Contains(strings.Fields(n.words), t.Name) {
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

// learn reads the values out of the calls so far. A question about two facts teaches nothing, nor does a fall-back call.
func (q question) learn(seen []suite.Seen) (k learned) {
	n, ok := q.fact()
	for _, s := range seen {
		switch {
		case s.Failed || q.second:
		case s.Tool == ToolCalc:
			if _, asked := q.ask(ToolCalc, k); asked {
				k.result = s.Body
			}
		case s.Tool == ToolSQL && ok:
			if _, asked := q.ask(ToolSQL, k); !asked {
				continue
			}
			c := cells(strings.Split(s.Body, "\n"))
			if s.Body == "no rows" {
				continue
			}
			if q.form == "count" || q.form == "list" {
				k.rows = strings.Join(c, ", ")
			} else if len(c) == 1 {
				k.fact = c[0]
			}
		case ok && k.fact == "":
			k.fact = readPassages(s.Body, n)
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

func (q question) answer(k learned) (string, bool) {
	switch q.form {
	case "calc":
		return k.result, k.result != ""
	case "count", "list":
		return k.rows, k.rows != ""
	case "value":
		return k.fact, k.fact != ""
	}
	x, ok1 := suite.ParseNumber(q.terms[0].operand(k))
	y, ok2 := suite.ParseNumber(q.terms[1].operand(k))
	if !ok1 || !ok2 {
		return "", false
	}
	return map[bool]string{true: "yes", false: "no"}[x.Cmp(y) > 0], true
}
