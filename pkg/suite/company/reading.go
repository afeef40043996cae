package company

import (
	"regexp"
	"slices"
	"strings"
)

// reading is a question taken apart. Its terms are numbers and facts in the order in which they are compared or calculated with;
// a term that is a fact is empty and stands in facts.
type reading struct {
	entity string
	form   string // value, count, list, compare or both
	terms  []string
	ops    []string   // between the terms: + - * or %, of which the second term is the percentage
	times  string     // what the result is multiplied by, if anything
	facts  [][]string // each the words of its hops, the entity's own first
}

var (
	timesMore  = regexp.MustCompile(`, what is it(?: times ([\d.]+))?$`)
	thenAlso   = regexp.MustCompile(`,? (?:what|who|when) is its `)
	isThan     = regexp.MustCompile(`(?: is)? (?:above|more than) `)
	percents   = regexp.MustCompile(`^(.*?)([\d.]+) percent of (.+)$`)
	signWord   = regexp.MustCompile(` (plus|minus|times) `)
	countWords = regexp.MustCompile(`(?:how many|^count(?: the)?) (.+?)(?: of @| does @ have| @ has| has @)?$`)
	listWords  = regexp.MustCompile(`(?:which|^list the|which are its|names of all) (?:are its )?(.+?)(?: of @| belong to @| for @)?$`)
	haveWords  = regexp.MustCompile(`(?:what|which) (.+?) does @ have$`)
	factStart  = regexp.MustCompile(`(?:^| )(?:the|its) `)
	signs      = map[string]string{"plus": "+", "minus": "-", "times": "*"}
)

// readQuestion takes a question apart. What it does not understand is a reading without terms.
func readQuestion(text string) reading {
	r := reading{form: "value", entity: firstName(text)}
	s := strings.Join(strings.Fields(text), " ")
	if r.entity != "" {
		s = strings.Replace(s, r.entity, "@", 1)
	}
	s = strings.TrimPrefix(strings.TrimRight(strings.ToLower(s), "?."), "@: ")
	s = strings.TrimPrefix(s, "on which day is ")
	if m := countWords.FindStringSubmatch(s); m != nil {
		r.form, r.terms, r.facts = "count", []string{""}, [][]string{{m[1]}}
		return r
	}
	if m := haveWords.FindStringSubmatch(s); m != nil {
		s = "the " + m[1] + " of @"
	} else if m := listWords.FindStringSubmatch(s); m != nil {
		r.form, r.terms, r.facts = "list", []string{""}, [][]string{{m[1]}}
		return r
	}
	if m := timesMore.FindStringSubmatch(s); m != nil {
		r.times = m[1]
		s = strings.TrimSuffix(s, m[0])
	}
	parts := []string{s}
	switch {
	case thenAlso.MatchString(s) && strings.Contains(s, ", "):
		r.form, parts = "both", splitLast(thenAlso, s)
	case isThan.MatchString(s):
		r.form, parts = "compare", isThan.Split(s, 2)
	case percents.MatchString(s):
		m := percents.FindStringSubmatch(s)
		r.ops, parts = []string{"%"}, []string{m[3], m[2]}
	case signWord.MatchString(s):
		for _, m := range signWord.FindAllStringSubmatch(s, -1) {
			r.ops = append(r.ops, signs[m[1]])
		}
		parts = signWord.Split(s, -1)
	}
	for _, part := range parts {
		if !r.term(part) {
			return reading{}
		}
	}
	return r
}

// splitLast parts "…, what is its b" at the last match.
func splitLast(re *regexp.Regexp, s string) []string {
	all := re.FindAllStringIndex(s, -1)
	last := all[len(all)-1]
	return []string{s[:last[0]], "its " + s[last[1]:]}
}

// term reads a number, whatever stands before it, or a fact: "the c of the b of the a of @", "the b of its a", "its a".
func (r *reading) term(s string) bool {
	words := strings.Fields(s)
	if len(words) == 0 {
		return false
	}
	if last := words[len(words)-1]; plainNum.MatchString(last) {
		r.terms = append(r.terms, last)
		return true
	}
	at := factStart.FindStringIndex(s)
	if at == nil {
		return false
	}
	s = strings.TrimSuffix(s[at[1]:], " is")
	s = strings.TrimPrefix(s, "name of the ")
	s = strings.TrimSuffix(strings.TrimSuffix(s, " of @"), " for @")
	hops := strings.FieldsFunc(strings.NewReplacer(" of the ", "\x00", " of its ", "\x00").Replace(s), func(c rune) bool { return c == 0 })
	if len(hops) == 0 || strings.Contains(s, "@") {
		return false
	}
	slices.Reverse(hops)
	r.terms, r.facts = append(r.terms, ""), append(r.facts, hops)
	return true
}
