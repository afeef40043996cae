// Package toolbox holds the 35 priced tools of the suite of tool families, the tables that they read and the sandbox that three of
// the families change. Ten families offer a cheaper and a pricier way to the same thing, and the task decides which one is right.
// A successful observation names the exact fact that each value states, such as "weather/Oslo", so that text of a policy's own never
// counts as evidence. The package knows no tasks, and no tool touches the machine: files, events and mails are those of one episode.
//
// Facts, by tool (HASH is Hash of a text, numbers are canonical decimals, names are as the tables write them):
//
//	calculator, scientific_calculator          calc/EXPRESSION             the canonical one of Calculate; none without an operator or function
//	weather, weather_batch                     weather/CITY
//	stock_price, stock_prices                  stock/TICKER
//	statistics, describe_numbers               statistic/mean/3,8,12       numbers sorted
//	small_prime_checker, prime_checker         prime/7919
//	currency_converter, converter              convert/120/usd/eur
//	distance_between, geo_distance             distance/Oslo/Rome          names sorted
//	file_write, file_read                      file_write/NAME/HASH, file_read/NAME/HASH; file_write_verified states both
//	calendar_create                            event/TITLE|DATE|TIME
//	calendar_list                              event_list/TITLE|DATE|TIME for each event, event_list/DATE where there is none
//	calendar_create_verified                   event/... and event_list/... of the new event
//	send_short_email, send_email               mail/TO/HASH                of subject, line feed, body
//	date_difference, day_of_week               date_difference/FROM/TO, day_of_week/DATE
//	city_time, country_of, population          city_time/CITY/HOUR, country/CITY, population/CITY
//	word_count, change_case                    word_count/HASH, change_case/CASE/HASH
//	roman_numeral, factorize                   roman_numeral/N, factorize/N
//	common_divisor                             common_divisor/A/B          numbers sorted
//	convert_base                               convert_base/NUMBER/FROM/TO
//	element, book                              element/NAME/symbol, element/NAME/number, book/TITLE/author, book/TITLE/year
//
// The state-changing facts cover the word "written", "created" or "sent" of their observation.
package toolbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Family is a set of tools of which two or more do the same for some tasks.
type Family struct {
	Name    string
	Cheaper []string // the tools of the cheaper way, by default prices; more than one where it takes two calls
	Pricier []string // the tools of the pricier way
	// Fails says that the cheaper tool fails beyond its limit. In the other families it always works and only costs more where it
	// must be called again.
	Fails bool
}

// Families lists the ten families.
func Families() []Family {
	return []Family{
		{"calculator", []string{"calculator"}, []string{"scientific_calculator"}, true},
		{"weather", []string{"weather"}, []string{"weather_batch"}, false},
		{"stocks", []string{"stock_price"}, []string{"stock_prices"}, false},
		{"statistics", []string{"statistics"}, []string{"describe_numbers"}, false},
		{"primes", []string{"small_prime_checker"}, []string{"prime_checker"}, true},
		{"conversion", []string{"currency_converter"}, []string{"converter"}, true},
		{"distance", []string{"distance_between"}, []string{"geo_distance"}, true},
		{"files", []string{"file_write", "file_read"}, []string{"file_write_verified"}, false},
		{"calendar", []string{"calendar_create", "calendar_list"}, []string{"calendar_create_verified"}, false},
		{"email", []string{"send_short_email"}, []string{"send_email"}, true},
	}
}

// FamilyOf names the family of a tool, "" for a tool without an alternative.
func FamilyOf(tool string) string {
	for _, f := range Families() {
		if slices.Contains(f.Cheaper, tool) || slices.Contains(f.Pricier, tool) {
			return f.Name
		}
	}
	return ""
}

// run is what a tool does with arguments that passed its schema.
type run func(w *World, s *State, a arguments) (tool.Observation, error)

// definition is a tool without its world.
type definition struct {
	name, description string
	price             tool.Price
	parameters        json.RawMessage
	run               run
}

// definitions are all tools in the canonical order.
var definitions = slices.Concat(familyTools, otherTools)

// Names lists the tools in the canonical order.
func Names() []string {
	return names(definitions, func(d definition) string { return d.name })
}

// Prices gives the default price of each tool.
func Prices() map[string]tool.Price {
	out := make(map[string]tool.Price, len(definitions))
	for _, d := range definitions {
		out[d.name] = d.price
	}
	return out
}

// Tools are all tools over the world and the sandbox of one episode, in the canonical order, at default prices. Finish is not among
// them. Nil for the state is an empty sandbox.
func (w *World) Tools(s *State) []tool.Tool {
	if s == nil {
		s = NewState(Initial{})
	}
	out := make([]tool.Tool, len(definitions))
	for i, d := range definitions {
		out[i] = tool.Func{
			Def: tool.Spec{Name: d.name, Description: d.description, Parameters: d.parameters, Price: d.price},
			Run: func(_ context.Context, args map[string]any) (tool.Observation, error) { return d.run(w, s, args) },
		}
	}
	return out
}

// Hash names a text in a fact: the first 12 hex digits of its SHA-256.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:12]
}

func flat(base float64) tool.Price { return tool.Price{Base: price.Of(base)} }

func per(base, unit float64, arg string) tool.Price {
	return tool.Price{Base: price.Of(base), PerUnit: price.Of(unit), UnitArg: arg}
}
