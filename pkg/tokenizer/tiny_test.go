package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// corpus is text of the kind the tiny preset is trained on: questions about made-up companies, tool calls as JSON in a
// fence, passages, numbers. Names are syllables, so that many share pieces; shift gives other names.
func corpus(n, shift int) []string {
	on := strings.Fields("Mar Bel Kor Dan Ost Vel Tri Han Sol Gre Lin Pas")
	mid := strings.Fields("che ro li va ne sti mo ka du fe")
	end := strings.Fields("tti son berg nov ra ley quist mann dal")
	name := func(i int) string {
		i += shift
		s := on[i%len(on)] + mid[i/3%len(mid)]
		if i%2 == 0 {
			s += mid[i/5%len(mid)]
		}
		return s + end[i/7%len(end)]
	}
	var out []string
	for i := range n {
		a, b := name(i*5), name(i*11+3)
		v := 100 + i*37%9000
		out = append(out,
			fmt.Sprintf("What was the revenue of %s in %d, and who leads its office in %s?", a, 2000+i%25, b),
			fmt.Sprintf("```json\n{\"tool\": \"sql_query\", \"args\": {\"query\": \"SELECT revenue FROM companies WHERE name = '%s' AND year = %d\"}}\n```", a, 2000+i%25),
			fmt.Sprintf("```json\n{\"tool\": \"doc_search\", \"args\": {\"query\": \"%s office lead\"}}\n```", b),
			fmt.Sprintf("Memo (internal): %s's office in \u201c%s\u201d moved. Price: \u20ac%d.%02d per unit - see [1], page %d.", a, b, v, i%100, i%9+1),
			fmt.Sprintf("```json\n{\"tool\": \"finish\", \"args\": {\"answer\": %d}}\n```", v),
			fmt.Sprintf("sql_query: 1\ndoc_search: 2\nweb_search: 5\ncalculator: 0.5\nbudget left: %d.5", i%9),
		)
	}
	return out
}

var corpusAtoms = []string{
	"```json\n{\"tool\": \"", "\", \"args\": {\"", "\": \"", "\"}}\n```", "}}\n```", "\": ", "sql_query", "doc_search", "web_search", "calculator", "finish",
}

func trainCorpus(t testing.TB) *Tokenizer {
	t.Helper()
	opts := TinyOptions{MaxVocab: 1500, MaxPieces: 300, Atoms: slices.DeleteFunc(slices.Clone(corpusAtoms), func(s string) bool { return strings.HasSuffix(s, " ") })}
	tok, err := TrainTiny(corpus(300, 0), opts)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// roundTrips are texts to which each of the text rules applies, and some to which none does.
var roundTrips = []string{
	"", " ", "  ", "a", " a", "  a", "a ", "a  b", "a   b", "a\nb", "a\n b", "\n", "\n\n \n", "\ta", "a\t b",
	"5", " 5", "a5", "a 5", "a  5", "5a", "5 a", "5  a", "a5b 6 c7 8d", "1234567", "12:30", "3.14", "-5", "a -5", "a - 5", "a-b", "a - b", "a- b", "a -b",
	"\"a\"", "say \"a\" now", "say \" a \" now", "say\"a\"now", "\" a", "don't", "boys' room", "'Paris' is", "name = 'Paris' AND x='y'", "O'Brien's", "' a", "a 's", "''a", "\"\"a \"\" a",
	"(a)", "( a )", "a(b)", "a (b) c", "[a]", "{a}", "{\"a\": \"b\", \"c\": 5}", "{\"a\":\"b\",\"c\":5}", "`a` b", "` a `",
	"a/b", "a / b", "a/ b", "http://example.com/a_b?c=d&e=f#g", "U.S. army", "a.b", "a. B", "a,b", "a, b", "x=y", "x = y", "a<b", "a < b", "a <b", "a>b", "a > b", "</tool> a", "<a>b</a>", "<", "<a", ">a", "> a", "|a|b|", "| a | b |",
	"snake_case _x __y z_", "caf\u00e9 na\u00efve", "e\u0301a", "\u0301a", "a\u0301 5", "a\u03015", "\u4e2d\u6587 5\u4e2d", "\u0663", "\u00bd a", "a \u00bd", "\u2028a", "a\u00a0b", "\u00a0 a", "\U0001f600 a", "a\U0001f600b",
	"\u20ac5 a", "$ a", "a $b", "#a # a", "@a", "100%a", "100% a", "\\a \\n", "a\\b", "\u201ca\u201d b", "\u201c a",
	"<|im_end|>a", "a<|im_end|> a", "<|user|>5 a<|im_end|><|assistant|>\"a\"", "\x00\x01 a", "\ufffd", "a\r\nb",
}

func TestTinyRoundTrip(t *testing.T) {
	tok := trainCorpus(t)
	for _, s := range append(slices.Clone(roundTrips), corpus(40, 1000)...) {
		ids := tok.Encode(s)
		checkDecode(t, tok, ids, s, false)
		if got := tok.Decode(tok.EncodeOrdinary(s), false); got != s {
			t.Errorf("EncodeOrdinary: %q decodes to %q", s, got)
		}
	}
	if got, want := tok.Decode(tok.Encode("a\ue000b\xff"), false), "a\ufffdb\ufffd"; got != want || Canonical("a\ue000b\xff") != want {
		t.Errorf("the mark itself: %q, want %q", got, want)
	}
}

// The one-pass normalizer does what the rules in the file say.
func TestTinyNormalizersAgree(t *testing.T) {
	rules := tinyRules(t)
	texts := append(slices.Clone(roundTrips), corpus(20, 7)...)
	alphabet := []rune("aZ_\u00e9\u0301\u4e2d5\u0663\u00bd  \n\t\u00a0.,:;!?%#@$\u20ac\u00a3()[]{}<>|\"'`\u201c\u201d\u2018\u00ab-/=&+*^~\\\U00010d4a\u0897\ue000\ue001")
	for _, a := range alphabet { // every two and three characters
		for _, b := range alphabet {
			for _, c := range "a5 \"_" {
				texts = append(texts, string([]rune{a, b, c}), string([]rune{a, b, ' ', c}), string([]rune{'x', a, b, ' ', ' ', c}))
			}
		}
	}
	for _, s := range texts {
		if got, want := tinyNormalizeFast(s), rules(s); got != want {
			t.Fatalf("%q: %q, the rules give %q", s, got, want)
		}
	}
}

func tinyRules(t testing.TB) normalizer {
	t.Helper()
	rules, err := parseNormalizer(tinyNormalizerJSON())
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestTinyWordHasOneID(t *testing.T) {
	tok := trainCorpus(t)
	for _, word := range []string{"revenue", "office", "SELECT", "Memo", "companies", "Marchetti", "Grelimorley"} {
		want := tok.Encode(word)
		for _, frame := range []string{"%s", "the %s", "\"%s\"", "(%s)", "the %s.", "is '%s' AND", "\n%s\n", "a-%s", "x/%s/y", "5 %s", "%s 5", "{\"a\": \"%s\"}", "<|user|>%s<|im_end|>", "`%s`", "\u201c%s\u201d", "%s's", "%s, %s", "a.%s"} {
			ids := tok.Encode(strings.ReplaceAll(frame, "%s", word))
			if !containsIDs(ids, want) {
				t.Errorf("%q: ids %v of %q are not in %v", frame, want, word, ids)
			}
		}
	}
	for d := range 10 {
		want := tok.Encode(fmt.Sprint(d))
		if len(want) != 1 {
			t.Fatalf("digit %d is %v", d, want)
		}
		for _, s := range []string{"x %d", "x%d", "12%d", "$%d", "%d.5", "(%d)", ": %d"} {
			if ids := tok.Encode(fmt.Sprintf(s, d)); !containsIDs(ids, want) {
				t.Errorf("digit %d in %q: %v", d, s, ids)
			}
		}
	}
}

func containsIDs(ids, sub []int32) bool {
	for i := 0; i+len(sub) <= len(ids); i++ {
		if slices.Equal(ids[i:i+len(sub)], sub) {
			return true
		}
	}
	return false
}

func TestTinySpacesAreFree(t *testing.T) {
	tok := trainCorpus(t)
	for s, want := range map[string]int{
		"What was the revenue of its office": 7,
		"office (internal)":                  4,
		"What, \"office\", leads?":           9,
		"revenue of 5":                       3,
		"who leads\nits office":              5,
	} {
		if ids := tok.Encode(s); len(ids) > want {
			t.Errorf("%q takes %d tokens %q, want at most %d", s, len(ids), spellings(tok, ids), want)
		}
	}
}

func spellings(tok *Tokenizer, ids []int32) []string {
	var out []string
	for _, id := range ids {
		s, _ := tok.IDToken(id)
		out = append(out, s)
	}
	return out
}

func TestTinyNamesAreSpelled(t *testing.T) {
	train, test := corpus(300, 0), corpus(60, 5000)
	tok, err := TrainTiny(train, TinyOptions{Names: []string{"SELECT AND", "office"}, IsName: func(w string) bool { return w == "revenue" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"SELECT", "office", "revenue"} {
		if n := len(tok.Encode(w)); n < 2 {
			t.Errorf("%q was flagged and is %d token", w, n)
		}
	}
	known := map[int32]bool{}
	for _, text := range train {
		for _, id := range tok.Encode(text) {
			known[id] = true
		}
	}
	words, pieces := 0, 0
	for _, text := range test {
		for _, id := range tok.Encode(text) {
			token := string(fromByteLevel(tok.tokens[id]))
			if !known[id] {
				t.Errorf("token %q of the test occurs in no training text", token)
			}
			if !utf8.ValidString(token) {
				t.Errorf("token %q is a part of a character", token)
			}
			if word, ok := plainWord(token); ok && strings.HasPrefix(token, " ") {
				words++
			} else if ok && word == token {
				pieces++
			}
		}
	}
	if words == 0 || pieces == 0 {
		t.Errorf("%d words and %d pieces of words in the test, want some of both", words, pieces)
	}
}

func TestTinyIsDeterministic(t *testing.T) {
	a, b := trainCorpus(t), trainCorpus(t)
	if !bytes.Equal(a.JSON(), b.JSON()) {
		t.Error("two trainings differ")
	}
	texts := corpus(300, 0)
	slices.Reverse(texts)
	c, err := TrainTiny(texts, TinyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := TrainTiny(corpus(300, 0), TinyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.JSON(), d.JSON()) {
		t.Error("the order of the texts matters")
	}
}

func TestTinyOptionErrors(t *testing.T) {
	for name, o := range map[string]TinyOptions{
		"is empty":                  {Atoms: []string{""}},
		"starts or ends with":       {Atoms: []string{"Question: "}},
		"too small":                 {MaxVocab: 100},
		`control token "<<5 end"`:   {Control: []string{"<<5 end"}},
		`control token "<|a 5|> -"`: {Control: []string{"<|a 5|> -"}},
	} {
		if _, err := TrainTiny(corpus(2, 0), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got error %v, want one with %q", err, name)
		}
	}
}

func FuzzTinyRoundTrip(f *testing.F) {
	tok, err := TrainTiny(corpus(30, 0), TinyOptions{Atoms: []string{"```json\n{\"tool\": \"", "\", \"args\": {\"", "sql_query", "\"}}\n```"}})
	if err != nil {
		f.Fatal(err)
	}
	rules := tinyRules(f)
	for _, s := range roundTrips {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "")
		}
		want := Canonical(s)
		if got, want := tinyNormalizeFast(s), rules(s); got != want {
			t.Errorf("%q is normalized to %q, the rules give %q", s, got, want)
		}
		checkDecode(t, tok, tok.Encode(s), want, false)
		if got := tok.Decode(tok.EncodeOrdinary(s), false); got != want {
			t.Errorf("EncodeOrdinary(%q) decodes to %q", s, got)
		}
	})
}
