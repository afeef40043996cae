package families

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
)

// The groups of templates.
const (
	groupSingle = "single" // one need, with a cheaper and a pricier tool
	groupPath   = "path"   // one need that one tool serves
	groupLookup = "lookup" // several needs of one kind
	groupChain  = "chain"  // a need whose result another one needs, or needs of several families
	groupMix    = "mix"    // unrelated needs
)

// draft is what a template makes of a builder's values.
type draft struct {
	// values name the underlying task within its template: tasks with the same ones are the same task.
	values []string
	// wordings are the questions. The tasks of an underlying task take two of them.
	wordings [3]string
	answer   suite.Answer
	final    string // what finish says; empty is the answer's only value
}

// template makes underlying tasks. weight is how many of 1,000 underlying tasks are of it, as far as its values allow.
type template struct {
	name, group string
	weight      int
	make        func(b *builder) draft
}

// templates are all templates in the order of the data set.
var templates = slices.Concat(singles, paths, lookups, chains, mixes)

func number(v string) suite.Answer { return suite.Answer{Type: suite.Number, Values: []string{v}} }
func text(v string) suite.Answer   { return suite.Answer{Type: suite.String, Values: []string{v}} }

// done is the answer of a task that changes something and asks for no value.
var done = text("done")

func yesNo(prime string) suite.Answer {
	v := "no"
	if prime == "prime" {
		v = "yes"
	}
	return suite.Answer{Type: suite.YesNo, Values: []string{v}}
}

// listed is an answer of several values in any order.
func listed(values []string) (suite.Answer, string) {
	return suite.Answer{Type: suite.List, Values: values}, strings.Join(values, ", ")
}

// wordings puts values into three questions, {0} and so on.
func wordings(values []string, questions ...string) [3]string {
	var pairs []string
	for i, v := range values {
		pairs = append(pairs, fmt.Sprintf("{%d}", i), v)
	}
	r := strings.NewReplacer(pairs...)
	return [3]string{r.Replace(questions[0]), r.Replace(questions[1]), r.Replace(questions[2])}
}

// Draws of values.

func (b *builder) city() string   { return pick(b, b.world.Cities()) }
func (b *builder) ticker() string { return pick(b, b.world.Tickers()) }

func (b *builder) ints(n, low, high int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(b.number(low, high))
	}
	return out
}

// conversion is an amount with a currency or a unit of measure, and what to convert it to.
func (b *builder) conversion(currency bool) (amount, from, to string) {
	units := b.world.Currencies()
	if !currency {
		kinds := toolbox.Units()
		units = kinds[pick(b, slices.Sorted(maps.Keys(kinds)))]
	}
	two := several(b, units, 2)
	return strconv.Itoa(b.number(2, 999)), two[0], two[1]
}

// pair is two cities that the table of distances has, or that it visibly lacks: one of them is no hub.
func (b *builder) pair(inTable bool) (from, to string) {
	if inTable {
		p := pick(b, b.world.Pairs())
		from, to = p[0], p[1]
	} else {
		for hubs := b.world.Hubs(); ; {
			two := several(b, b.world.Cities(), 2)
			if from, to = two[0], two[1]; !slices.Contains(hubs, from) || !slices.Contains(hubs, to) {
				break
			}
		}
	}
	if b.r.IntN(2) == 0 {
		from, to = to, from
	}
	return from, to
}

// prime is a number below or above the limit of the cheaper tool, often a prime one.
func (b *builder) primeCandidate(small bool) string {
	low, high := 1001, smallPrimes
	if !small {
		low, high = smallPrimes+2, 99999
	}
	return strconv.Itoa(b.number(low, high) | 1)
}

// expression is an arithmetic one, or one with a function that the calculator lacks.
func (b *builder) expression(plain bool) string {
	x, y := b.number(2, 99), b.number(2, 99)
	if plain {
		switch b.r.IntN(4) {
		case 0:
			return fmt.Sprintf("%d+%d*%d", x, y, b.number(2, 9))
		case 1:
			return fmt.Sprintf("%d*%d", x, y)
		case 2:
			return fmt.Sprintf("(%d+%d)*%d", x, y, b.number(2, 9))
		}
		return fmt.Sprintf("%d**0.5", x*x)
	}
	switch b.r.IntN(4) {
	case 0:
		return fmt.Sprintf("%d*sin(%d)", x, b.number(1, 89))
	case 1:
		return fmt.Sprintf("%d*cos(%d)", x, b.number(1, 89))
	case 2:
		return fmt.Sprintf("%d+log(%d)", x, b.number(2, 999))
	}
	return fmt.Sprintf("%d+ln(%d)", x, b.number(2, 999))
}

var statisticNames = []string{"mean", "median", "max", "min", "sum", "range"}

// Words of texts that tasks write and send, all of them common.
var (
	fileNames = strings.Fields("notes report draft plan budget agenda summary letter invoice memo recipe diary")
	textWords = strings.Fields(`the team will meet near station after lunch please bring new paper and blue folder train leaves early we need more time for
		second part of project garden party starts at noon call me when you arrive last order was late thank your help with this week test kitchen window
		door green small large house road river winter summer music book story table chair`)
	eventTitles = strings.Fields("lunch standup review dentist training rehearsal interview workshop inspection concert")
	people      = strings.Fields("ada bruno clara david elena felix greta hugo irene jonas karla lucas maria nina oscar paula")
	subjects    = strings.Fields("hello update reminder question meeting news thanks request")
)

func (b *builder) words(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = pick(b, textWords)
	}
	return strings.Join(out, " ")
}

// body is a mail's text: well below the limit of a short mail, or above it.
func (b *builder) body(short bool) string {
	if short {
		return b.words(b.number(4, 12))
	}
	text := b.words(20)
	for len(text) <= toolbox.MaxShortBody+10 {
		text += " " + pick(b, textWords)
	}
	return text
}

func (b *builder) date() string {
	return fmt.Sprintf("%d-%02d-%02d", b.number(2024, 2027), b.number(1, 12), b.number(1, 28))
}

func (b *builder) time() string {
	return fmt.Sprintf("%02d:%s", b.number(8, 18), pick(b, []string{"00", "15", "30", "45"}))
}

func (b *builder) address() string { return pick(b, people) + "@example.com" }

// ask is the end of a question about a file or an event: whether to read it back.
func confirmation(confirm bool, yes, no string) string {
	if confirm {
		return yes
	}
	return no
}

// singles are tasks of one need with a cheaper and a pricier tool.
var singles = []template{
	{"calculation", groupSingle, 28, func(b *builder) draft {
		e := b.expression(b.index%3 == 0) // other templates calculate without functions
		v := []string{e}
		return draft{v, wordings(v, "What is {0}?", "Compute {0}.", "Find the value of {0}."), number(b.calculate(e)), ""}
	}},
	{"weather", groupSingle, 16, func(b *builder) draft {
		c := b.city()
		v := []string{c}
		return draft{v, wordings(v, "What is the temperature in {0}?", "How warm is it in {0}?", "Give the temperature of {0}."), number(b.weather(c)[0]), ""}
	}},
	{"stock", groupSingle, 11, func(b *builder) draft {
		t := b.ticker()
		v := []string{t}
		return draft{v, wordings(v, "What does a share of {0} cost?", "What is the price of {0}?", "Give the stock price of {0}."), number(b.stocks(t)[0]), ""}
	}},
	{"statistic", groupSingle, 27, func(b *builder) draft {
		s, n := pick(b, statisticNames), b.ints(b.number(3, 5), 1, 99)
		v := []string{s, strings.Join(n, ", ")}
		return draft{v, wordings(v, "What is the {0} of {1}?", "Compute the {0} of the numbers {1}.", "Find the {0} of {1}."), number(b.statistics([]string{s}, n)[0]), ""}
	}},
	{"prime", groupSingle, 28, func(b *builder) draft {
		n := b.primeCandidate(b.side(0))
		v := []string{n}
		return draft{v, wordings(v, "Is {0} a prime number?", "Is {0} prime?", "Check whether {0} is prime."), yesNo(b.prime(n)), ""}
	}},
	{"conversion", groupSingle, 28, func(b *builder) draft {
		a, from, to := b.conversion(b.side(0))
		v := []string{a, from, to}
		return draft{v, wordings(v, "Convert {0} {1} to {2}.", "How much is {0} {1} in {2}?", "What are {0} {1} in {2}?"), number(b.convert(a, from, to)), ""}
	}},
	{"distance", groupSingle, 28, func(b *builder) draft {
		x, y := b.pair(b.side(0))
		v := []string{x, y}
		return draft{v, wordings(v, "How far is it from {0} to {1}?", "What is the distance between {0} and {1}?", "Give the distance from {0} to {1}."), number(b.distance(x, y)), ""}
	}},
	{"mail", groupSingle, 27, func(b *builder) draft {
		to, subject, body := b.address(), pick(b, subjects), b.body(b.side(0))
		v := []string{to, subject, body}
		b.mail(to, subject, body)
		return draft{v, wordings(v, "Send {0} a mail with the subject {1}: {2}", "Mail {0}, subject {1}, this text: {2}", "Write to {0}, subject {1}: {2}"), done, ""}
	}},
}

// paths are tasks that one tool serves.
var paths = []template{
	{"date_difference", groupPath, 15, func(b *builder) draft {
		x, y := b.date(), b.date()
		v := []string{x, y}
		return draft{v, wordings(v, "How many days are there from {0} to {1}?", "Count the days from {0} to {1}.", "Give the number of days from {0} to {1}."),
			number(b.only("days from "+x+" to "+y, "", "date_difference", 0, "from", x, "to", y)), ""}
	}},
	{"day_of_week", groupPath, 15, func(b *builder) draft {
		d := b.date()
		v := []string{d}
		return draft{v, wordings(v, "What day of the week is {0}?", "Which weekday is {0}?", "Give the day of the week of {0}."), text(b.only("weekday of "+d, "", "day_of_week", 0, "date", d)), ""}
	}},
	{"city_time", groupPath, 15, func(b *builder) draft {
		c, h := b.city(), strconv.Itoa(b.number(0, 23))
		v := []string{c, h}
		return draft{v, wordings(v, "What hour is it in {0} when it is {1} UTC?", "It is {1} UTC. What hour is it in {0}?", "Give the hour in {0} at {1} UTC."),
			number(b.only("time in "+c, "", "city_time", 0, "city", c, "hour", json.Number(h))), ""}
	}},
	{"country", groupPath, 16, func(b *builder) draft {
		c := b.city()
		v := []string{c}
		return draft{v, wordings(v, "In which country is {0}?", "What is the country of {0}?", "Name the country of {0}."), text(b.only("country of "+c, c, "country_of", 0, "city", c)), ""}
	}},
	{"population", groupPath, 16, func(b *builder) draft {
		c := b.city()
		v := []string{c}
		return draft{v, wordings(v, "How many thousand people live in {0}?", "What is the population of {0} in thousands?", "Give the population of {0} in thousands."),
			number(b.only("population of "+c, c, "population", 0, "city", c)), ""}
	}},
	{"word_count", groupPath, 15, func(b *builder) draft {
		t := b.words(b.number(3, 9))
		v := []string{t}
		return draft{v, wordings(v, "How many words has this text: {0}", "Count the words: {0}", "Give the number of words of: {0}"), number(b.only("count words", "", "word_count", 0, "text", t)), ""}
	}},
	{"change_case", groupPath, 15, func(b *builder) draft {
		t, c := strings.Join(several(b, eventTitles, b.number(2, 3)), " "), pick(b, []string{"upper", "lower", "title"})
		v := []string{t, c}
		return draft{v, wordings(v, "Write in {1} case: {0}", "Put this into {1} case: {0}", "Give in {1} case: {0}"), text(b.only(c+" case", "", "change_case", 0, "text", t, "case", c)), ""}
	}},
	{"roman", groupPath, 15, func(b *builder) draft {
		n := strconv.Itoa(b.number(2, 399))
		v := []string{n}
		return draft{v, wordings(v, "Write {0} in roman numerals.", "What is {0} in roman numerals?", "Give the roman numeral of {0}."), text(b.only("roman "+n, "", "roman_numeral", 0, "number", json.Number(n))), ""}
	}},
	{"divisor", groupPath, 15, func(b *builder) draft {
		d := b.number(2, 12)
		x, y := strconv.Itoa(d*b.number(2, 40)), strconv.Itoa(d*b.number(2, 40))
		v := []string{x, y}
		return draft{v, wordings(v, "What is the greatest common divisor of {0} and {1}?", "Find the greatest common divisor of {0} and {1}.", "Give the largest number that divides {0} and {1}."),
			number(b.only("divisor of "+x+" and "+y, "", "common_divisor", 0, "a", json.Number(x), "b", json.Number(y))), ""}
	}},
	{"factors", groupPath, 15, func(b *builder) draft {
		n := strconv.Itoa(b.number(4, 400))
		v := []string{n}
		return draft{v, wordings(v, "What are the prime factors of {0}?", "Factorize {0}.", "Give the prime factors of {0}."), text(b.only("factors of "+n, "", "factorize", 0, "number", json.Number(n))), ""}
	}},
	{"base", groupPath, 15, func(b *builder) draft {
		n, to := strconv.Itoa(b.number(10, 999)), strconv.Itoa(b.number(5, 9))
		v := []string{n, to}
		return draft{v, wordings(v, "Write {0} in base {1}.", "What is {0} in base {1}?", "Give {0} in base {1}."),
			text(b.only(n+" in base "+to, "", "convert_base", 0, "number", n, "from", 10, "to", json.Number(to))), ""}
	}},
	{"element", groupPath, 9, func(b *builder) draft {
		e := pick(b, b.world.Elements())
		v := []string{e}
		return draft{v, wordings(v, "What is the atomic number of {0}?", "Which atomic number has {0}?", "Give the atomic number of {0}."), number(b.only("number of "+e, e, "element", 1, "name", e)), ""}
	}},
	{"book", groupPath, 10, func(b *builder) draft {
		t := pick(b, b.world.Books())
		v := []string{t}
		return draft{v, wordings(v, "Who wrote the book {0}?", "Name the author of the book {0}.", "Who is the author of the book {0}?"), text(b.only("author of "+t, t, "book", 0, "title", t)), ""}
	}},
}

// lookups are tasks of several needs of one kind.
var lookups = []template{
	{"weather_list", groupLookup, 29, func(b *builder) draft {
		c := several(b, b.world.Cities(), b.number(2, 4))
		v := []string{strings.Join(c, ", ")}
		a, final := listed(b.weather(c...))
		return draft{v, wordings(v, "What are the temperatures in {0}?", "How warm is it in {0}?", "List the temperatures of {0}."), a, final}
	}},
	{"stocks_list", groupLookup, 29, func(b *builder) draft {
		t := several(b, b.world.Tickers(), b.number(2, 4))
		v := []string{strings.Join(t, ", ")}
		a, final := listed(b.stocks(t...))
		return draft{v, wordings(v, "What are the prices of {0}?", "What do shares of {0} cost?", "List the stock prices of {0}."), a, final}
	}},
	{"statistics_list", groupLookup, 29, func(b *builder) draft {
		s, n := several(b, statisticNames, b.number(2, 4)), b.ints(b.number(3, 5), 1, 99)
		v := []string{strings.Join(s, ", "), strings.Join(n, ", ")}
		a, final := listed(b.statistics(s, n))
		return draft{v, wordings(v, "What are the {0} of {1}?", "Compute {0} of the numbers {1}.", "Find {0} of {1}."), a, final}
	}},
	{"conversions", groupLookup, 28, func(b *builder) draft {
		var v, got []string
		for i := range 2 {
			a, from, to := b.conversion(b.side(i))
			v, got = append(v, a, from, to), append(got, b.convert(a, from, to))
		}
		a, final := listed(got)
		return draft{v, wordings(v, "Convert {0} {1} to {2} and {3} {4} to {5}.", "How much is {0} {1} in {2}, and {3} {4} in {5}?", "Give {0} {1} in {2} and {3} {4} in {5}."), a, final}
	}},
	{"distances", groupLookup, 28, func(b *builder) draft {
		var v, got []string
		for i := range 2 {
			x, y := b.pair(b.side(i))
			v, got = append(v, x, y), append(got, b.distance(x, y))
		}
		a, final := listed(got)
		return draft{v, wordings(v, "How far is it from {0} to {1} and from {2} to {3}?", "What are the distances from {0} to {1} and from {2} to {3}?", "List the distances {0} to {1} and {2} to {3}."), a, final}
	}},
	{"primes", groupLookup, 28, func(b *builder) draft {
		x, y := b.primeCandidate(b.side(0)), b.primeCandidate(b.side(1))
		v := []string{x, y}
		both := yesNo(b.prime(x)).Values[0] + ", " + yesNo(b.prime(y)).Values[0]
		return draft{v, wordings(v, "Are {0} and {1} prime? Answer for each in order.", "Is {0} prime, and is {1}? Answer in order.", "Check in order whether {0} and {1} are prime."), text(both), ""}
	}},
}

// chains are tasks in which a result is needed for another call, or whose needs are of several families.
var chains = []template{
	{"weather_sum", groupChain, 20, func(b *builder) draft {
		c := several(b, b.world.Cities(), 2)
		t := b.weather(c...)
		return draft{c, wordings(c, "What is the sum of the temperatures in {0} and {1}?", "Add the temperatures of {0} and {1}.", "Compute the temperature in {0} plus that in {1}."),
			number(b.total(t...)), ""}
	}},
	{"weather_mean", groupChain, 20, func(b *builder) draft {
		c := several(b, b.world.Cities(), b.number(3, 4))
		v := []string{strings.Join(c, ", ")}
		return draft{v, wordings(v, "What is the mean temperature of {0}?", "Compute the mean of the temperatures in {0}.", "How warm is it on average in {0}?"),
			number(b.meanOf(b.weather(c...))), ""}
	}},
	{"stock_cost", groupChain, 20, func(b *builder) draft {
		t, n := b.ticker(), strconv.Itoa(b.number(2, 40))
		v := []string{n, t}
		return draft{v, wordings(v, "What do {0} shares of {1} cost?", "How much are {0} shares of {1}?", "Compute the cost of {0} shares of {1}."), number(b.times(b.stocks(t)[0], n)), ""}
	}},
	{"stocks_sum", groupChain, 20, func(b *builder) draft {
		t := several(b, b.world.Tickers(), b.number(2, 3))
		v := []string{strings.Join(t, ", ")}
		return draft{v, wordings(v, "What do one share each of {0} cost together?", "Add the prices of {0}.", "Compute the sum of the stock prices of {0}."),
			number(b.total(b.stocks(t...)...)), ""}
	}},
	{"stock_convert", groupChain, 20, func(b *builder) draft {
		t, to := b.ticker(), pick(b, b.world.Currencies()[1:])
		v := []string{t, to}
		return draft{v, wordings(v, "What does a share of {0} cost in {1}? Prices are in usd.", "Give the stock price of {0} in {1}. It is listed in usd.", "Convert the price of {0} from usd to {1}."),
			number(b.converted(b.stocks(t)[0], "usd", to)), ""}
	}},
	{"distance_cost", groupChain, 20, func(b *builder) draft {
		x, y := b.pair(b.side(0))
		n := strconv.Itoa(b.number(2, 9))
		v := []string{x, y, n}
		return draft{v, wordings(v, "A trip costs {2} a km. What does it cost from {0} to {1}?", "What is the fare from {0} to {1} at {2} a km?", "Compute {2} times the distance from {0} to {1}."),
			number(b.times(b.distance(x, y), n)), ""}
	}},
	{"distance_miles", groupChain, 20, func(b *builder) draft {
		x, y := b.pair(b.side(0))
		v := []string{x, y}
		return draft{v, wordings(v, "How many miles is it from {0} to {1}?", "Give the distance between {0} and {1} in miles.", "What is the distance from {0} to {1} in miles?"),
			number(b.converted(b.distance(x, y), "kilometer", "mile")), ""}
	}},
	{"weather_fahrenheit", groupChain, 15, func(b *builder) draft {
		c := b.city()
		v := []string{c}
		return draft{v, wordings(v, "How warm is it in {0} in fahrenheit?", "Give the temperature of {0} in fahrenheit.", "What is the temperature in {0} in fahrenheit?"),
			number(b.converted(b.weather(c)[0], "celsius", "fahrenheit")), ""}
	}},
	{"population_sum", groupChain, 20, func(b *builder) draft {
		c := several(b, b.world.Cities(), 2)
		x, y := b.only("population of "+c[0], c[0], "population", 0, "city", c[0]), b.only("population of "+c[1], c[1], "population", 0, "city", c[1])
		return draft{c, wordings(c, "How many thousand people live in {0} and {1} together?", "Add the populations of {0} and {1} in thousands.", "Compute the population of {0} plus that of {1} in thousands."),
			number(b.total(x, y)), ""}
	}},
	{"product_prime", groupChain, 20, func(b *builder) draft {
		x, y := b.number(21, 89), b.number(21, 89)
		if b.side(0) {
			x, y = b.number(120, 299), b.number(90, 299)
		}
		e := fmt.Sprintf("%d*%d+%d", x, y, b.number(1, 9))
		v := []string{e}
		return draft{v, wordings(v, "Is {0} a prime number?", "Compute {0}. Is it prime?", "Check whether the value of {0} is prime."), yesNo(b.primeOf(b.calculate(e))), ""}
	}},
	{"calculate_convert", groupChain, 20, func(b *builder) draft {
		_, from, to := b.conversion(b.side(0))
		e := b.expression(b.side(1))
		v := []string{e, from, to}
		return draft{v, wordings(v, "How much is {0} {1} in {2}?", "Convert {0} {1} to {2}.", "What are {0} {1} in {2}?"), number(b.converted(b.calculate(e), from, to)), ""}
	}},
	{"weather_mail", groupChain, 20, func(b *builder) draft {
		c, to, rest := b.city(), b.address(), b.body(b.side(0))
		v := []string{to, c, rest}
		degrees := b.weather(c)[0]
		b.use().mail(to, "weather", degrees+" degrees in "+c+". "+rest)
		return draft{v, wordings(v, "Mail {0} with the subject weather how many degrees it is in {1}, then: {2}", "Send {0} the degrees in {1} as subject weather, followed by: {2}",
			"Tell {0} by mail, subject weather, the degrees in {1}, then: {2}"), done, ""}
	}},
	{"stock_file", groupChain, 20, func(b *builder) draft {
		t, name, confirm := b.ticker(), pick(b, fileNames)+".txt", b.side(0)
		v := []string{t, name, confirmation(confirm, " and read it back", "")}
		price := b.stocks(t)[0]
		b.use().write(name, t+" "+price, confirm)
		return draft{v, wordings(v, "Write the ticker {0} and its price into {1}{2}.", "Put {0} and its stock price into {1}{2}.", "Store {0} and its price in the file {1}{2}."), done, ""}
	}},
	{"country_file", groupChain, 20, func(b *builder) draft {
		c, name, confirm := b.city(), pick(b, fileNames)+".txt", b.side(0)
		v := []string{c, name, confirmation(confirm, " and read it back", "")}
		country := b.only("country of "+c, c, "country_of", 0, "city", c)
		b.use().write(name, country, confirm)
		return draft{v, wordings(v, "Write the country of {0} into {1}{2}.", "Put the country of {0} into {1}{2}.", "Store the country of {0} in the file {1}{2}."), done, ""}
	}},
	{"weekday_event", groupChain, 20, func(b *builder) draft {
		title, date, time, confirm := pick(b, eventTitles), b.date(), b.time(), b.side(0)
		v := []string{title, date, time, confirmation(confirm, ", check the calendar,", "")}
		day := b.only("weekday of "+date, "", "day_of_week", 0, "date", date)
		b.event(title, date, time, confirm)
		return draft{v, wordings(v, "Create the event {0} on {1} at {2}{3} and say which weekday it is.", "Put {0} into the calendar on {1} at {2}{3} and give the weekday.",
			"Schedule {0} for {1} at {2}{3} and name the weekday."), text(day), ""}
	}},
	{"statistics_file", groupChain, 20, func(b *builder) draft {
		n, name := b.ints(b.number(3, 4), 1, 99), pick(b, fileNames)+".txt"
		s := several(b, statisticNames, 1+b.index>>1&1)
		confirm := b.side(0)
		v := []string{strings.Join(s, " and "), strings.Join(n, ", "), name, confirmation(confirm, " and read it back", "")}
		values := b.statistics(s, n)
		b.use().write(name, strings.Join(values, " "), confirm)
		return draft{v, wordings(v, "Write the {0} of {1} into {2}{3}.", "Put the {0} of {1} into {2}{3}.", "Store the {0} of {1} in the file {2}{3}."), done, ""}
	}},
	{"file", groupChain, 20, func(b *builder) draft {
		name, t, confirm := pick(b, fileNames)+".txt", b.words(b.number(3, 8)), b.side(0)
		v := []string{name, t, confirmation(confirm, " and read it back", "")}
		b.write(name, t, confirm)
		return draft{v, wordings(v, "Write into {0}{2}: {1}", "Put this into the file {0}{2}: {1}", "Store in {0}{2}: {1}"), done, ""}
	}},
	{"event", groupChain, 20, func(b *builder) draft {
		title, date, time, confirm := strings.Join(several(b, eventTitles, 2), " "), b.date(), b.time(), b.side(0)
		v := []string{title, date, time, confirmation(confirm, " and check the calendar", "")}
		b.event(title, date, time, confirm)
		return draft{v, wordings(v, "Create the event {0} on {1} at {2}{3}.", "Put {0} into the calendar on {1} at {2}{3}.", "Schedule {0} for {1} at {2}{3}."), done, ""}
	}},
	{"convert_mail", groupChain, 20, func(b *builder) draft {
		a, from, to := b.conversion(b.side(0))
		who, rest := b.address(), b.body(b.side(1))
		v := []string{who, a, from, to, rest}
		amount := b.convert(a, from, to)
		b.use().mail(who, "amount", amount+" "+to+". "+rest)
		return draft{v, wordings(v, "Mail {0} with the subject amount how many {3} are {1} {2}, then: {4}", "Send {0} the amount of {1} {2} in {3} as subject amount, followed by: {4}",
			"Tell {0} by mail, subject amount, what {1} {2} are in {3}, then: {4}"), done, ""}
	}},
}

// times, meanOf, primeOf and converted are calls that are made of what was learned before.

func (b *builder) times(value, n string) string { return b.use().calculate(value + "*" + n) }

func (b *builder) meanOf(values []string) string {
	return b.use().statistics([]string{"mean"}, values)[0]
}

func (b *builder) primeOf(value string) string { return b.use().prime(value) }

func (b *builder) converted(value, from, to string) string { return b.use().convert(value, from, to) }

// mixes are tasks of 2 to 5 unrelated needs.
var mixes = []template{mix(2, 22), mix(3, 20), mix(4, 17), mix(5, 14)}

func mix(n, weight int) template {
	return template{fmt.Sprintf("mix_%d", n), groupMix, weight, func(b *builder) draft {
		var v, got []string
		for i, ask := range several(b, mixed, n) {
			what, value := ask(b, b.side(i))
			v, got = append(v, what), append(got, value)
		}
		a, final := listed(got)
		all := strings.Join(v, "; ")
		return draft{v, wordings([]string{all}, "Find: {0}.", "Give each of these: {0}.", "I need {0}."), a, final}
	}}
}

// mixed are the needs of a mix: what the question says of each, and its value. side chooses the direction of a crossover.
var mixed = []func(b *builder, side bool) (what, value string){
	func(b *builder, _ bool) (string, string) {
		c := b.city()
		return "the temperature in " + c, b.weather(c)[0]
	},
	func(b *builder, _ bool) (string, string) {
		t := b.ticker()
		return "the price of " + t, b.stocks(t)[0]
	},
	func(b *builder, side bool) (string, string) {
		a, from, to := b.conversion(side)
		return a + " " + from + " in " + to, b.convert(a, from, to)
	},
	func(b *builder, side bool) (string, string) {
		x, y := b.pair(side)
		return "the distance from " + x + " to " + y, b.distance(x, y)
	},
	func(b *builder, _ bool) (string, string) {
		s, n := pick(b, statisticNames), b.ints(3, 1, 99)
		return "the " + s + " of " + strings.Join(n, ", "), b.statistics([]string{s}, n)[0]
	},
	func(b *builder, side bool) (string, string) {
		e := b.expression(side)
		return "the value of " + e, b.calculate(e)
	},
	func(b *builder, _ bool) (string, string) {
		c := b.city()
		return "the population of " + c, b.only("population of "+c, c, "population", 0, "city", c)
	},
	func(b *builder, _ bool) (string, string) {
		c := b.city()
		return "the country of " + c, b.only("country of "+c, c, "country_of", 0, "city", c)
	},
	func(b *builder, _ bool) (string, string) {
		e := pick(b, b.world.Elements())
		return "the atomic number of " + e, b.only("number of "+e, e, "element", 1, "name", e)
	},
}
