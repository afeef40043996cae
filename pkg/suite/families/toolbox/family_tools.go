package toolbox

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/tool"
)

// familyTools are the tools of the ten families.
var familyTools = []definition{
	{"calculator", "arithmetic with + - * / ** and brackets, ** 0.5 is the root", flat(0.01), object("expression", aText), calculator(false)},
	{"scientific_calculator", "arithmetic and sin, cos, tan (degrees), log, ln, exp, sqrt", flat(0.03), object("expression", aText), calculator(true)},
	{"weather", "the temperature in one city", flat(0.02), object("city", aWord),
		func(w *World, _ *State, a arguments) (tool.Observation, error) { return w.weather(a.text("city")) }},
	{"weather_batch", "the temperature in each of several cities", per(0.01, 0.012, "cities"), object("cities", words),
		func(w *World, _ *State, a arguments) (tool.Observation, error) {
			return batch(a.list("cities"), w.temperature)
		}},
	{"stock_price", "the price of one stock", flat(0.02), object("ticker", aWord),
		func(w *World, _ *State, a arguments) (tool.Observation, error) { return w.stockPrice(a.text("ticker")) }},
	{"stock_prices", "the price of each of several stocks", per(0.01, 0.012, "tickers"), object("tickers", words),
		func(w *World, _ *State, a arguments) (tool.Observation, error) {
			return batch(a.list("tickers"), w.quote)
		}},
	{"statistics", "one statistic of numbers", flat(0.01),
		object("statistic", `{"enum":["mean","median","max","min","sum","range"]}`, "numbers", numbers), statistics},
	{"describe_numbers", "mean, median, max, min, sum and range of numbers", flat(0.015), object("numbers", numbers), describe},
	{"small_prime_checker", "whether a number up to 9999 is prime", flat(0.004), object("number", anInt), primeChecker(9999)},
	{"prime_checker", "whether a number is prime", flat(0.01), object("number", anInt), primeChecker(maxPrime)},
	{"currency_converter", "an amount of one currency in another", flat(0.004), object("amount", aNumber, "from", aWord, "to", aWord), converter(false)},
	{"converter", "an amount in another currency or unit of length, mass, temperature or volume", flat(0.01),
		object("amount", aNumber, "from", aWord, "to", aWord), converter(true)},
	{"distance_between", "the distance of two cities, from a table of 100 pairs", flat(0.02), object("from", aWord, "to", aWord), distance(false)},
	{"geo_distance", "the distance of any two cities", flat(0.05), object("from", aWord, "to", aWord), distance(true)},
	{"file_write", "write a file", flat(0.02), object("name", aText, "text", aText), fileWrite(false)},
	{"file_read", "read a file", flat(0.01), object("name", aText), fileRead},
	{"file_write_verified", "write a file and read it back", flat(0.025), object("name", aText, "text", aText), fileWrite(true)},
	{"calendar_create", "put an event into the calendar", flat(0.02), object("title", aText, "date", aDate, "time", aTime), calendarCreate(false)},
	{"calendar_list", "the events of a day", flat(0.01), object("date", aDate), calendarList},
	{"calendar_create_verified", "put an event into the calendar and read it back", flat(0.025),
		object("title", aText, "date", aDate, "time", aTime), calendarCreate(true)},
	{"send_short_email", "send a mail with a body of up to 100 characters", flat(0.02), object("to", aText, "subject", aText, "body", aText), sendMail(true)},
	{"send_email", "send a mail", flat(0.05), object("to", aText, "subject", aText, "body", aText), sendMail(false)},
}

func calculator(scientific bool) run {
	return func(_ *World, _ *State, a arguments) (tool.Observation, error) {
		c, err := Calculate(a.text("expression"), scientific)
		if err != nil {
			return failed(err)
		}
		if c.Operators == 0 { // a number that the policy wrote, given back
			return tool.Said(c.Value), nil
		}
		return named(a.text("expression")+" =", c.Value, "calc/"+c.Canonical, "")
	}
}

// entry is a value by its name, as a table has it.
type entry struct{ name, value, fact string }

func (w *World) temperature(city string) (entry, error) {
	c, err := w.city(city)
	return entry{c.Name, strconv.Itoa(c.Temperature), "weather/" + c.Name}, err
}

func (w *World) quote(ticker string) (entry, error) {
	s, ok := w.Stock(ticker)
	if !ok {
		return entry{}, fmt.Errorf("no ticker %q", clip(ticker))
	}
	return entry{s.Ticker, s.Price, "stock/" + s.Ticker}, nil
}

func (w *World) city(name string) (City, error) {
	c, ok := w.City(name)
	if !ok {
		return c, fmt.Errorf("no city %q", clip(name))
	}
	return c, nil
}

func (w *World) weather(city string) (tool.Observation, error) {
	e, err := w.temperature(city)
	if err != nil {
		return failed(err)
	}
	return named(e.name, e.value, e.fact, "")
}

func (w *World) stockPrice(ticker string) (tool.Observation, error) {
	e, err := w.quote(ticker)
	if err != nil {
		return failed(err)
	}
	return named(e.name, e.value, e.fact, "")
}

// batch looks each name up. One that is unknown fails the call: it is charged by the list as it was given.
func batch(list []string, look func(string) (entry, error)) (tool.Observation, error) {
	var t text
	for _, name := range list {
		e, err := look(name)
		if err != nil {
			return failed(err)
		}
		t.next().say(e.name+" ").state(e.value, e.fact)
	}
	return t.done()
}

// statisticNames are the statistics in the order in which describe_numbers lists them.
var statisticNames = []string{"mean", "median", "max", "min", "sum", "range"}

// statistic computes one over sorted numbers, of which there is at least one.
func statistic(name string, sorted []*big.Rat) *big.Rat {
	n := len(sorted)
	low, high := sorted[0], sorted[n-1]
	switch name {
	case "max":
		return high
	case "min":
		return low
	case "range":
		return new(big.Rat).Sub(high, low)
	case "median":
		sum := new(big.Rat).Add(sorted[(n-1)/2], sorted[n/2])
		return sum.Quo(sum, big.NewRat(2, 1))
	}
	sum := new(big.Rat)
	for _, x := range sorted {
		sum.Add(sum, x)
	}
	if name == "mean" {
		sum.Quo(sum, big.NewRat(int64(n), 1))
	}
	return sum
}

// sortedNumbers reads the argument numbers and writes them as facts have them.
func sortedNumbers(a arguments) ([]*big.Rat, string, error) {
	list, err := a.numbers("numbers")
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("numbers: must have at least one")
	}
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(list, func(x, y *big.Rat) int { return x.Cmp(y) })
	return list, strings.Join(names(list, exact), ","), nil
}

// StatisticFact is the fact of a statistic of decimal numbers, whose texts must be such.
func StatisticFact(name string, numbers ...string) string {
	list := make([]*big.Rat, len(numbers))
	for i, n := range numbers {
		r, ok := rational(n)
		if !ok {
			panic(fmt.Sprintf("%q is not a decimal number", n))
		}
		list[i] = r
	}
	slices.SortFunc(list, func(x, y *big.Rat) int { return x.Cmp(y) })
	return "statistic/" + name + "/" + strings.Join(names(list, exact), ",")
}

// statisticPlaces are the decimals of a statistic.
const statisticPlaces = 2

func statistics(_ *World, _ *State, a arguments) (tool.Observation, error) {
	list, of, err := sortedNumbers(a)
	if err != nil {
		return failed(err)
	}
	name := a.text("statistic")
	return named(name, decimal(statistic(name, list), statisticPlaces), "statistic/"+name+"/"+of, "")
}

func describe(_ *World, _ *State, a arguments) (tool.Observation, error) {
	list, of, err := sortedNumbers(a)
	if err != nil {
		return failed(err)
	}
	var t text
	for _, name := range statisticNames {
		t.next().say(name+" ").state(decimal(statistic(name, list), statisticPlaces), "statistic/"+name+"/"+of)
	}
	return t.done()
}

// maxPrime bounds prime_checker: below 2^64 the test that it uses is exact.
const maxPrime = 999_999_999_999_999

func primeChecker(limit int64) run {
	return func(_ *World, _ *State, a arguments) (tool.Observation, error) {
		n, err := a.integer("number", 0, maxPrime)
		if err != nil {
			return failed(err)
		}
		if n > limit {
			return failed(fmt.Errorf("number: %d is above %d, use prime_checker", n, limit))
		}
		word := "not prime"
		if big.NewInt(n).ProbablyPrime(0) {
			word = "prime"
		}
		return named(strconv.FormatInt(n, 10), word, fmt.Sprintf("prime/%d", n), "")
	}
}

func distance(anyPair bool) run {
	return func(w *World, _ *State, a arguments) (tool.Observation, error) {
		from, err := w.city(a.text("from"))
		if err != nil {
			return failed(err)
		}
		to, err := w.city(a.text("to"))
		if err != nil {
			return failed(err)
		}
		x, y := ordered(from.Name, to.Name)
		km, ok := w.distances[[2]string{x, y}]
		if !ok {
			if !anyPair {
				return failed(fmt.Errorf("%s and %s are not in the table, use geo_distance", from.Name, to.Name))
			}
			km = kilometers(from, to)
		}
		return named(from.Name+" to "+to.Name, strconv.Itoa(km), "distance/"+x+"/"+y, " km")
	}
}
