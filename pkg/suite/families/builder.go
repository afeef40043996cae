package families

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tool"
)

// need is one thing that a task must find out or do.
type need struct {
	// ways are the valid ways to do it. All give the same facts. The first one is run when the task is made.
	ways [][]suite.Call
	// fails is a call that looks cheap and fails; a call without a tool is none.
	fails suite.Call
	// takes are the indices of the facts that the task asks for, among those of the first way; nil takes all.
	takes []int
}

// builder makes one underlying task: it draws values, adds needs, and learns their results by running the tools.
type builder struct {
	world   *toolbox.World
	tools   map[string]tool.Tool
	limits  Limits
	r       *rand.Rand
	index   int // of the underlying task in its template
	needs   []need
	facts   []source.Evidence
	results []string // what was learned and not used yet, as observations say it: "Oslo 12"
	context string   // results that the next thought says again
	err     error
	digits  int // most digits of a value so far
	longest int // characters of the longest text so far
}

func newBuilder(w *toolbox.World, l Limits, r *rand.Rand, index int) *builder {
	b := &builder{world: w, limits: l, r: r, index: index, tools: map[string]tool.Tool{}}
	for _, t := range w.Tools(toolbox.NewState(toolbox.Initial{})) {
		b.tools[t.Spec().Name] = t
	}
	return b
}

// side is balanced over the underlying tasks of a template. Sides of different bits are independent.
func (b *builder) side(bit int) bool { return b.index>>bit&1 == 1 }

func (b *builder) number(low, high int) int { return low + b.r.IntN(high-low+1) }

func pick[T any](b *builder, list []T) T { return list[b.r.IntN(len(list))] }

// several draws n different elements.
func several[T any](b *builder, list []T, n int) []T {
	out := make([]T, n)
	for i, at := range b.r.Perm(len(list))[:n] {
		out[i] = list[at]
	}
	return out
}

// newCall is a call with arguments in the order of the pairs.
func newCall(thought, name string, pairs ...any) suite.Call {
	var args bytes.Buffer
	args.WriteByte('{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			args.WriteByte(',')
		}
		fmt.Fprintf(&args, "%q:", pairs[i])
		args.Write(encode(pairs[i+1]))
	}
	args.WriteByte('}')
	return suite.Call{Thought: thought, Tool: name, Args: args.Bytes()}
}

// encode writes a value as JSON with its marks as they are.
func encode(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // texts, numbers and lists of them always encode
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// finish ends a path. The thought before it says again what the answer is made of.
func finish(thought, answer string) suite.Call {
	return newCall(thought, tool.FinishName, "answer", answer)
}

// summary is the thought before finish.
func (b *builder) summary() string {
	if len(b.results) == 0 {
		return "answer"
	}
	return "answer: " + strings.Join(b.results, ", ")
}

// learned notes results by the names that the observations give them.
func (b *builder) learned(names []string, values []string) []string {
	for i, v := range values[:min(len(values), len(names))] {
		b.results = append(b.results, names[i]+" "+v)
	}
	return values
}

func decode(args json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var out map[string]any
	err := d.Decode(&out)
	return out, err
}

// add runs the first way of a need and returns the values of the facts that the task asks for.
func (b *builder) add(n need) []string {
	if b.err != nil {
		return make([]string, 9)
	}
	var found []source.Evidence
	for _, c := range n.ways[0] {
		args, err := decode(c.Args)
		var obs tool.Observation
		if err == nil {
			obs, err = b.tools[c.Tool].Call(context.Background(), args)
		}
		if err != nil {
			b.err = fmt.Errorf("%s%s: %w", c.Tool, c.Args, err)
			return make([]string, 9)
		}
		for _, r := range obs.Reads {
			value, _ := r.Part(obs.Text)
			found = append(found, source.Evidence{Value: value, Sources: r.From})
		}
	}
	if n.takes != nil {
		var taken []source.Evidence
		for _, i := range n.takes {
			taken = append(taken, found[i])
		}
		found = taken
	}
	b.needs, b.facts = append(b.needs, n), append(b.facts, found...)
	values := make([]string, len(found))
	for i, f := range found {
		values[i] = f.Value
		b.bound(f.Value)
	}
	return values
}

// also names a further fact that states the last value, which a path of other tools gives.
func (b *builder) also(fact string) {
	if b.err == nil {
		last := &b.facts[len(b.facts)-1]
		last.Sources = append(slices.Clone(last.Sources), fact)
	}
}

// total is the sum of values by the calculator; the sum of statistics is as good.
func (b *builder) total(values ...string) string {
	sum := b.use().calculate(strings.Join(values, "+"))
	if b.err == nil {
		b.also(toolbox.StatisticFact("sum", values...))
	}
	return sum
}

// bound notes the size of a value that a policy has to copy.
func (b *builder) bound(value string) {
	if _, ok := suite.ParseNumber(value); ok {
		b.digits = max(b.digits, strings.Count(value, "")-1-strings.Count(value, ".")-strings.Count(value, "-"))
	}
	b.longest = max(b.longest, len(value))
}

var errTooLong = errors.New("a value or text is longer than the settings allow")

// fits says whether the values of the task are as short as the settings want them.
func (b *builder) fits() error {
	if b.err != nil {
		return b.err
	}
	if l := b.limits; l.MaxDigits > 0 && b.digits > l.MaxDigits || l.MaxBody > 0 && b.longest > l.MaxBody {
		return errTooLong
	}
	return nil
}

// each is a way of one call for each element.
func each(list []string, c func(string) suite.Call) []suite.Call {
	out := make([]suite.Call, len(list))
	for i, x := range list {
		out[i] = c(x)
	}
	return out
}

func (b *builder) weather(cities ...string) []string {
	return b.learned(cities, b.add(need{ways: [][]suite.Call{
		each(cities, func(c string) suite.Call { return newCall("weather of "+c, "weather", "city", c) }),
		{newCall("weather of "+strings.Join(cities, ", "), "weather_batch", "cities", cities)},
	}}))
}

func (b *builder) stocks(tickers ...string) []string {
	return b.learned(tickers, b.add(need{ways: [][]suite.Call{
		each(tickers, func(t string) suite.Call { return newCall("price of "+t, "stock_price", "ticker", t) }),
		{newCall("price of "+strings.Join(tickers, ", "), "stock_prices", "tickers", tickers)},
	}}))
}

// statistics are those of a list, such as mean and max. Texts of numbers stay as they are written.
func (b *builder) statistics(which []string, numbers []string) []string {
	list := make([]json.Number, len(numbers))
	for i, n := range numbers {
		list[i] = json.Number(n)
		b.bound(n)
	}
	context := b.think("")
	return b.learned(which, b.add(need{ways: [][]suite.Call{
		each(which, func(s string) suite.Call { return newCall(context+s, "statistics", "statistic", s, "numbers", list) }),
		{newCall(context+strings.Join(which, ", "), "describe_numbers", "numbers", list)},
	}}))
}

// prime is "prime" or "not prime".
func (b *builder) prime(number string) string {
	n := json.Number(number)
	thought := b.think("prime " + number)
	small, large := newCall(thought, "small_prime_checker", "number", n), newCall(thought, "prime_checker", "number", n)
	if v, err := strconv.Atoi(number); err == nil && v > smallPrimes {
		return b.one(number, need{ways: [][]suite.Call{{large}}, fails: small})
	}
	return b.one(number, need{ways: [][]suite.Call{{small}, {large}}})
}

// smallPrimes is the largest number that small_prime_checker takes.
const smallPrimes = 9999

func (b *builder) convert(amount, from, to string) string {
	thought := b.think(amount + " " + from + " in " + to)
	b.bound(amount)
	money := newCall(thought, "currency_converter", "amount", json.Number(amount), "from", from, "to", to)
	all := newCall(thought, "converter", "amount", json.Number(amount), "from", from, "to", to)
	if slices.Contains(b.world.Currencies(), from) {
		return b.one(amount+" "+from+" =", need{ways: [][]suite.Call{{money}, {all}}})
	}
	return b.one(amount+" "+from+" =", need{ways: [][]suite.Call{{all}}, fails: money})
}

func (b *builder) distance(from, to string) string {
	thought := "distance " + from + " " + to
	table, any := newCall(thought, "distance_between", "from", from, "to", to), newCall(thought, "geo_distance", "from", from, "to", to)
	if b.world.InTable(from, to) {
		return b.one(from+" to "+to, need{ways: [][]suite.Call{{table}, {any}}})
	}
	return b.one(from+" to "+to, need{ways: [][]suite.Call{{any}}, fails: table})
}

// calculate evaluates an expression, with functions that the calculator lacks or without.
func (b *builder) calculate(expression string) string {
	thought := b.think("compute")
	plain := newCall(thought, "calculator", "expression", expression)
	scientific := newCall(thought, "scientific_calculator", "expression", expression)
	if _, err := toolbox.Calculate(expression, false); err != nil {
		return b.one(expression+" =", need{ways: [][]suite.Call{{scientific}}, fails: plain})
	}
	return b.one(expression+" =", need{ways: [][]suite.Call{{plain}, {scientific}}})
}

// use gives what was learned to the next thought, because the call after it is made of that.
func (b *builder) use() *builder {
	if len(b.results) > 0 {
		b.context = strings.Join(b.results, ", ") + ": "
	}
	b.results = nil
	return b
}

// think is a thought with the results that it uses.
func (b *builder) think(thought string) string {
	thought = b.context + thought
	b.context = ""
	return thought
}

// one is the value of a need of one fact, learned under a name.
func (b *builder) one(name string, n need) string { return b.learned([]string{name}, b.add(n))[0] }

// write puts a text into a file, and reads it back where the task asks for that.
func (b *builder) write(name, text string, confirm bool) {
	thought := b.think("write " + name)
	write := newCall(thought, "file_write", "name", name, "text", text)
	verified := newCall(thought, "file_write_verified", "name", name, "text", text)
	if !confirm {
		b.add(need{ways: [][]suite.Call{{write}, {verified}}})
		return
	}
	b.add(need{ways: [][]suite.Call{{write, newCall("read "+name, "file_read", "name", name)}, {verified}}})
}

func (b *builder) event(title, date, time string, confirm bool) {
	create := newCall("event "+title, "calendar_create", "title", title, "date", date, "time", time)
	verified := newCall("event "+title, "calendar_create_verified", "title", title, "date", date, "time", time)
	if !confirm {
		b.add(need{ways: [][]suite.Call{{create}, {verified}}})
		return
	}
	b.add(need{ways: [][]suite.Call{{create, newCall("list "+date, "calendar_list", "date", date)}, {verified}}})
}

func (b *builder) mail(to, subject, body string) {
	b.bound(body)
	thought := b.think("mail to " + to)
	short := newCall(thought, "send_short_email", "to", to, "subject", subject, "body", body)
	any := newCall(thought, "send_email", "to", to, "subject", subject, "body", body)
	if len([]rune(body)) > toolbox.MaxShortBody {
		b.add(need{ways: [][]suite.Call{{any}}, fails: short})
		return
	}
	b.add(need{ways: [][]suite.Call{{short}, {any}}})
}

// only is a need that one tool serves. takes is the fact that the task asks for, among those of the observation. name is what the observation
// calls it; empty is nothing.
func (b *builder) only(thought, name, tool string, takes int, pairs ...any) string {
	v := b.add(need{ways: [][]suite.Call{{newCall(thought, tool, pairs...)}}, takes: []int{takes}})[0]
	b.results = append(b.results, strings.TrimSpace(name+" "+v))
	return v
}
