package toolbox

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolroute/toolroute/pkg/tool"
)

// otherTools are the tools without an alternative.
var otherTools = []definition{
	{"date_difference", "the days from one date to another", flat(0.005), object("from", aDate, "to", aDate), dateDifference},
	{"day_of_week", "the day of the week of a date", flat(0.005), object("date", aDate), dayOfWeek},
	{"city_time", "the hour in a city when it is a given hour UTC", flat(0.01), object("city", aWord, "hour", anInt), cityTime},
	{"country_of", "the country of a city", flat(0.01), object("city", aWord), country},
	{"population", "the population of a city in thousands", flat(0.015), object("city", aWord), population},
	{"word_count", "the number of words of a text", flat(0.003), object("text", aText), wordCount},
	{"change_case", "a text in upper, lower or title case", flat(0.003), object("text", aText, "case", `{"enum":["upper","lower","title"]}`), changeCase},
	{"roman_numeral", "a number up to 3999 in roman numerals", flat(0.004), object("number", anInt), roman},
	{"common_divisor", "the greatest common divisor of two numbers", flat(0.005), object("a", anInt, "b", anInt), commonDivisor},
	{"factorize", "the prime factors of a number", flat(0.008), object("number", anInt), factorize},
	{"convert_base", "a whole number of one base in another, bases 2 to 36", flat(0.005),
		object("number", `{"type":["string","integer"]}`, "from", anInt, "to", anInt), convertBase},
	{"element", "the symbol and number of a chemical element", flat(0.01), object("name", aWord), element},
	{"book", "the author and year of a book", flat(0.01), object("title", aWord), book},
}

func dateDifference(_ *World, _ *State, a arguments) (tool.Observation, error) {
	from, err := parseDate("from", a.text("from"))
	if err != nil {
		return failed(err)
	}
	to, err := parseDate("to", a.text("to"))
	if err != nil {
		return failed(err)
	}
	days := (to.Unix() - from.Unix()) / (24 * 60 * 60) // in UTC each day has as many seconds
	return new(text).state(strconv.FormatInt(days, 10), "date_difference/"+a.text("from")+"/"+a.text("to")).say(" days").done()
}

func dayOfWeek(_ *World, _ *State, a arguments) (tool.Observation, error) {
	d, err := parseDate("date", a.text("date"))
	if err != nil {
		return failed(err)
	}
	return stated(d.Weekday().String(), "day_of_week/"+a.text("date"))
}

func cityTime(w *World, _ *State, a arguments) (tool.Observation, error) {
	c, err := w.city(a.text("city"))
	if err != nil {
		return failed(err)
	}
	hour, err := a.integer("hour", 0, 23)
	if err != nil {
		return failed(err)
	}
	return stated(strconv.Itoa((int(hour)+c.Offset+24)%24), fmt.Sprintf("city_time/%s/%d", c.Name, hour))
}

func country(w *World, _ *State, a arguments) (tool.Observation, error) {
	c, err := w.city(a.text("city"))
	if err != nil {
		return failed(err)
	}
	return named(c.Name, c.Country, "country/"+c.Name, "")
}

func population(w *World, _ *State, a arguments) (tool.Observation, error) {
	c, err := w.city(a.text("city"))
	if err != nil {
		return failed(err)
	}
	return named(c.Name, strconv.Itoa(c.Population), "population/"+c.Name, " thousand")
}

func wordCount(_ *World, _ *State, a arguments) (tool.Observation, error) {
	t := a.text("text")
	if err := checkText("text", t); err != nil {
		return failed(err)
	}
	return stated(strconv.Itoa(len(strings.Fields(t))), "word_count/"+Hash(t))
}

func changeCase(_ *World, _ *State, a arguments) (tool.Observation, error) {
	t, to := a.text("text"), a.text("case")
	if err := checkText("text", t); err != nil {
		return failed(err)
	}
	fact := "change_case/" + to + "/" + Hash(t)
	switch to {
	case "upper":
		return stated(strings.ToUpper(t), fact)
	case "lower":
		return stated(strings.ToLower(t), fact)
	}
	return stated(title(t), fact)
}

// title writes the first letter of each word large and the others small. Words are what spaces separate.
func title(t string) string {
	start := true
	return strings.Map(func(r rune) rune {
		first := start
		start = unicode.IsSpace(r)
		if first {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, t)
}

var romanDigits = []struct {
	value int64
	text  string
}{
	{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"},
}

func roman(_ *World, _ *State, a arguments) (tool.Observation, error) {
	n, err := a.integer("number", 1, 3999)
	if err != nil {
		return failed(err)
	}
	fact := fmt.Sprintf("roman_numeral/%d", n)
	var b strings.Builder
	for _, d := range romanDigits {
		for ; n >= d.value; n -= d.value {
			b.WriteString(d.text)
		}
	}
	return stated(b.String(), fact)
}

// maxWhole bounds the numbers of common_divisor, factorize and convert_base: trial division to its root takes a millisecond.
const maxWhole = 999_999_999_999

func commonDivisor(_ *World, _ *State, a arguments) (tool.Observation, error) {
	x, err := a.integer("a", 1, maxWhole)
	if err != nil {
		return failed(err)
	}
	y, err := a.integer("b", 1, maxWhole)
	if err != nil {
		return failed(err)
	}
	x, y = min(x, y), max(x, y)
	divisor := new(big.Int).GCD(nil, nil, big.NewInt(x), big.NewInt(y))
	return stated(divisor.String(), fmt.Sprintf("common_divisor/%d/%d", x, y))
}

func factorize(_ *World, _ *State, a arguments) (tool.Observation, error) {
	n, err := a.integer("number", 2, maxWhole)
	if err != nil {
		return failed(err)
	}
	fact := fmt.Sprintf("factorize/%d", n)
	var factors []string
	for p := int64(2); p*p <= n; p++ {
		for ; n%p == 0; n /= p {
			factors = append(factors, strconv.FormatInt(p, 10))
		}
	}
	if n > 1 {
		factors = append(factors, strconv.FormatInt(n, 10))
	}
	return stated(strings.Join(factors, " * "), fact)
}

func convertBase(_ *World, _ *State, a arguments) (tool.Observation, error) {
	from, err := a.integer("from", 2, 36)
	if err != nil {
		return failed(err)
	}
	to, err := a.integer("to", 2, 36)
	if err != nil {
		return failed(err)
	}
	number := a.text("number")
	if n, ok := a["number"].(json.Number); ok && !strings.ContainsAny(string(n), "eE.") { // 1e3 would be read as three digits of base 16
		number = string(n)
	}
	n, err := int64(0), errLength
	if len(number) <= maxNumberText && !strings.ContainsAny(number, "+-") {
		number = strings.ToLower(number)
		n, err = strconv.ParseInt(number, int(from), 64)
	}
	if err != nil || n > maxWhole {
		return failed(fmt.Errorf("number: %q is no whole number from 0 to %d in base %d", clip(number), int64(maxWhole), from))
	}
	return stated(strconv.FormatInt(n, int(to)), fmt.Sprintf("convert_base/%s/%d/%d", strconv.FormatInt(n, int(from)), from, to))
}

func element(w *World, _ *State, a arguments) (tool.Observation, error) {
	e, ok := w.Element(a.text("name"))
	if !ok {
		return failed(fmt.Errorf("no element %q", clip(a.text("name"))))
	}
	fact := "element/" + e.Name
	return new(text).say(e.Name+": symbol ").state(e.Symbol, fact+"/symbol").say("; number ").state(strconv.Itoa(e.Number), fact+"/number").done()
}

func book(w *World, _ *State, a arguments) (tool.Observation, error) {
	b, ok := w.Book(a.text("title"))
	if !ok {
		return failed(fmt.Errorf("no book %q", clip(a.text("title"))))
	}
	fact := "book/" + b.Title
	return new(text).say(b.Title+": author ").state(b.Author, fact+"/author").say("; year ").state(strconv.Itoa(b.Year), fact+"/year").done()
}
