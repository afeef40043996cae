package toolbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tool"
)

var world = toolbox.NewWorld(7)

// sandbox is one episode.
type sandbox struct {
	t     *testing.T
	state *toolbox.State
	box   *tool.Box
	seen  []tool.Observation
}

func open(t *testing.T, initial toolbox.Initial) *sandbox {
	t.Helper()
	s := toolbox.NewState(initial)
	b, err := tool.NewBox(world.Tools(s))
	if err != nil {
		t.Fatal(err)
	}
	return &sandbox{t: t, state: s, box: b}
}

func (s *sandbox) call(name, args string) (tool.Observation, error) {
	s.t.Helper()
	d := json.NewDecoder(strings.NewReader(args))
	d.UseNumber()
	var a map[string]any
	if err := d.Decode(&a); err != nil {
		s.t.Fatalf("%.100s: %v", args, err)
	}
	o, err := s.box.Call(s.t.Context(), name, a)
	if err == nil {
		s.seen = append(s.seen, o)
	}
	return o, err
}

// facts writes the parts of an observation and what they state: "12 <- weather/Oslo".
func facts(o tool.Observation) string {
	var out []string
	for _, r := range o.Reads {
		part, ok := r.Part(o.Text)
		if !ok {
			part = "OUTSIDE"
		}
		out = append(out, part+" <- "+strings.Join(r.From, "+"))
	}
	return strings.Join(out, " | ")
}

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

func Example() {
	w := toolbox.NewWorld(7)
	box, err := tool.NewBox(w.Tools(toolbox.NewState(toolbox.Initial{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	args := map[string]any{"expression": "(3 + 4) * 2"}
	o, err := box.Call(context.Background(), "calculator", args)
	fmt.Println(o.Text, o.Reads[0].From, box.Charge("calculator", args), err)
	_, err = box.Call(context.Background(), "calculator", map[string]any{"expression": "sin(30)"})
	fmt.Println(err)
	// Output:
	// (3 + 4) * 2 = 14 [calc/(3+4)*2] 0.01 <nil>
	// expression: sin is not available here, use scientific_calculator
}

// The prices and the order are those that the suite is specified with.
func TestNamesAndPrices(t *testing.T) {
	want := strings.Fields(`calculator=0.01 scientific_calculator=0.03 weather=0.02 weather_batch=0.01+0.012*cities stock_price=0.02
		stock_prices=0.01+0.012*tickers statistics=0.01 describe_numbers=0.015 small_prime_checker=0.004 prime_checker=0.01
		currency_converter=0.004 converter=0.01 distance_between=0.02 geo_distance=0.05 file_write=0.02 file_read=0.01
		file_write_verified=0.025 calendar_create=0.02 calendar_list=0.01 calendar_create_verified=0.025 send_short_email=0.02
		send_email=0.05 date_difference=0.005 day_of_week=0.005 city_time=0.01 country_of=0.01 population=0.015 word_count=0.003
		change_case=0.003 roman_numeral=0.004 common_divisor=0.005 factorize=0.008 convert_base=0.005 element=0.01 book=0.01`)
	prices := toolbox.Prices()
	var got []string
	for _, n := range toolbox.Names() {
		s := n + "=" + prices[n].Base.String()
		if prices[n].UnitArg != "" {
			s += "+" + prices[n].PerUnit.String() + "*" + prices[n].UnitArg
		}
		got = append(got, s)
	}
	if len(got) != 35 || !slices.Equal(got, want) {
		t.Errorf("%d tools:\n%v\nwant\n%v", len(got), got, want)
	}
	for i, x := range world.Tools(nil) {
		if x.Spec().Name != toolbox.Names()[i] || x.Spec().Description == "" {
			t.Errorf("tool %d is %s (%q), want %s", i, x.Spec().Name, x.Spec().Description, toolbox.Names()[i])
		}
	}
}

func TestFamilies(t *testing.T) {
	in := map[string]int{}
	for _, f := range toolbox.Families() {
		for _, n := range slices.Concat(f.Cheaper, f.Pricier) {
			in[n]++
			if toolbox.FamilyOf(n) != f.Name {
				t.Errorf("%s is of family %q, want %s", n, toolbox.FamilyOf(n), f.Name)
			}
		}
		// One use: the first tool of the cheaper way costs less than the pricier tool with one unit.
		cheap, dear := toolbox.Prices()[f.Cheaper[0]], toolbox.Prices()[f.Pricier[0]]
		if cheap.Base >= dear.Base+dear.PerUnit {
			t.Errorf("%s: %v is not cheaper than %v", f.Name, cheap, dear)
		}
	}
	without := 0
	for _, n := range toolbox.Names() {
		if in[n] > 1 {
			t.Errorf("%s is in %d families", n, in[n])
		}
		if toolbox.FamilyOf(n) == "" {
			without++
		}
	}
	if len(toolbox.Families()) != 10 || len(in) != 22 || without != 13 {
		t.Errorf("%d families with %d tools, %d tools without", len(toolbox.Families()), len(in), without)
	}
}

// Each tool with right arguments: its text and the facts of its parts.
func TestTools(t *testing.T) {
	oslo, _ := world.City("Oslo")
	rome, _ := world.City("Rome")
	abx, _ := world.Stock("ABX")
	evo, _ := world.Stock("EVO")
	title := world.Books()[0]
	book, _ := world.Book(title)
	h := toolbox.Hash
	for _, c := range []struct{ tool, args, text, facts string }{
		{"calculator", `{"expression":"7"}`, "7", ""},
		{"calculator", `{"expression":"-(7)"}`, "-7", ""},
		{"calculator", `{"expression":"2 + 3*4"}`, "2 + 3*4 = 14", "14 <- calc/2+3*4"},
		{"calculator", `{"expression":"2 ** 0.5"}`, "2 ** 0.5 = 1.414", "1.414 <- calc/2**0.5"},
		{"calculator", `{"expression":"1/3"}`, "1/3 = 0.333", "0.333 <- calc/1/3"},
		{"scientific_calculator", `{"expression":"2+3*4"}`, "2+3*4 = 14", "14 <- calc/2+3*4"},
		{"scientific_calculator", `{"expression":"sin(30)"}`, "sin(30) = 0.5", "0.5 <- calc/sin(30)"},
		{"scientific_calculator", `{"expression":"log(1000) + ln(exp(2))"}`, "log(1000) + ln(exp(2)) = 5", "5 <- calc/ln(exp(2))+log(1000)"},
		{"weather", `{"city":" oslo"}`, fmt.Sprintf("Oslo %d", oslo.Temperature), fmt.Sprintf("%d <- weather/Oslo", oslo.Temperature)},
		{"weather_batch", `{"cities":["ROME","Oslo"]}`, fmt.Sprintf("Rome %d; Oslo %d", rome.Temperature, oslo.Temperature),
			fmt.Sprintf("%d <- weather/Rome | %d <- weather/Oslo", rome.Temperature, oslo.Temperature)},
		{"stock_price", `{"ticker":"abx"}`, "ABX " + abx.Price, abx.Price + " <- stock/ABX"},
		{"stock_prices", `{"tickers":["EVO"]}`, "EVO " + evo.Price, evo.Price + " <- stock/EVO"},
		{"statistics", `{"statistic":"mean","numbers":[8,3,12]}`, "mean 7.67", "7.67 <- statistic/mean/3,8,12"},
		{"statistics", `{"statistic":"median","numbers":[8,3,12,1e1]}`, "median 9", "9 <- statistic/median/3,8,10,12"},
		{"statistics", `{"statistic":"range","numbers":[-2.50,3]}`, "range 5.5", "5.5 <- statistic/range/-2.5,3"},
		{"describe_numbers", `{"numbers":[8,3]}`, "mean 5.5; median 5.5; max 8; min 3; sum 11; range 5",
			"5.5 <- statistic/mean/3,8 | 5.5 <- statistic/median/3,8 | 8 <- statistic/max/3,8 | 3 <- statistic/min/3,8 | " +
				"11 <- statistic/sum/3,8 | 5 <- statistic/range/3,8"},
		{"small_prime_checker", `{"number":7919}`, "7919 prime", "prime <- prime/7919"},
		{"small_prime_checker", `{"number":9999}`, "9999 not prime", "not prime <- prime/9999"},
		{"small_prime_checker", `{"number":1}`, "1 not prime", "not prime <- prime/1"},
		{"prime_checker", `{"number":10007.0}`, "10007 prime", "prime <- prime/10007"},
		{"prime_checker", `{"number":999999999999989}`, "999999999999989 prime", "prime <- prime/999999999999989"},
		{"currency_converter", `{"amount":12.50,"from":"USD","to":"usd"}`, "12.5 usd = 12.5 usd", "12.5 <- convert/12.5/usd/usd"},
		{"converter", `{"amount":3,"from":"miles","to":"km"}`, "3 mile = 4.83 kilometer", "4.83 <- convert/3/mile/kilometer"},
		{"converter", `{"amount":100,"from":"celsius","to":"fahrenheit"}`, "100 celsius = 212 fahrenheit", "212 <- convert/100/celsius/fahrenheit"},
		{"converter", `{"amount":-40,"from":"fahrenheit","to":"celsius"}`, "-40 fahrenheit = -40 celsius", "-40 <- convert/-40/fahrenheit/celsius"},
		{"converter", `{"amount":0,"from":"celsius","to":"kelvin"}`, "0 celsius = 273.15 kelvin", "273.15 <- convert/0/celsius/kelvin"},
		{"converter", `{"amount":5,"from":"gram","to":"kilogram"}`, "5 gram = 0.005 kilogram", "0.005 <- convert/5/gram/kilogram"},
		{"geo_distance", `{"from":"Rome","to":"Oslo"}`, "Rome to Oslo 2003 km", "2003 <- distance/Oslo/Rome"},
		{"geo_distance", `{"from":"Rome","to":"Rome"}`, "Rome to Rome 0 km", "0 <- distance/Rome/Rome"},
		{"file_write", `{"name":"notes.txt","text":"buy milk"}`, "written", "written <- file_write/notes.txt/" + h("buy milk")},
		{"file_write", `{"name":"Ελλάδα-日本","text":""}`, "written", "written <- file_write/Ελλάδα-日本/" + h("")},
		{"file_read", `{"name":"start"}`, "hello", "hello <- file_read/start/" + h("hello")},
		{"file_write_verified", `{"name":"a b","text":"x y"}`, "written; it reads: x y",
			"written <- file_write/a b/" + h("x y") + " | x y <- file_read/a b/" + h("x y")},
		{"calendar_create", `{"title":"team lunch","date":"2026-03-04","time":"12:30"}`, "created", "created <- event/team lunch|2026-03-04|12:30"},
		{"calendar_list", `{"date":"2026-01-02"}`, "08:00 run; 09:30 call", "08:00 run <- event_list/run|2026-01-02|08:00 | 09:30 call <- event_list/call|2026-01-02|09:30"},
		{"calendar_list", `{"date":"2026-01-03"}`, "no events", "no events <- event_list/2026-01-03"},
		{"calendar_create_verified", `{"title":"call","date":"2026-03-04","time":"09:00"}`, "created; the day has: 09:00 call",
			"created <- event/call|2026-03-04|09:00 | 09:00 call <- event_list/call|2026-03-04|09:00"},
		{"send_short_email", `{"to":"ana","subject":"hi","body":"` + strings.Repeat("é", 100) + `"}`, "sent",
			"sent <- mail/ana/" + h("hi\n"+strings.Repeat("é", 100))},
		{"send_email", `{"to":"ana@example.com","subject":"","body":"` + strings.Repeat("x", 101) + `"}`, "sent",
			"sent <- mail/ana@example.com/" + h("\n"+strings.Repeat("x", 101))},
		{"date_difference", `{"from":"2026-02-27","to":"2026-03-02"}`, "3 days", "3 <- date_difference/2026-02-27/2026-03-02"},
		{"date_difference", `{"from":"2024-03-01","to":"2024-02-28"}`, "-2 days", "-2 <- date_difference/2024-03-01/2024-02-28"},
		{"day_of_week", `{"date":"2026-03-04"}`, "Wednesday", "Wednesday <- day_of_week/2026-03-04"},
		{"city_time", `{"city":"Tokyo","hour":20}`, "5", "5 <- city_time/Tokyo/20"},
		{"city_time", `{"city":"Denver","hour":3}`, "20", "20 <- city_time/Denver/3"},
		{"country_of", `{"city":"Bergen"}`, "Bergen Norway", "Norway <- country/Bergen"},
		{"population", `{"city":"Rome"}`, fmt.Sprintf("Rome %d thousand", rome.Population), fmt.Sprintf("%d <- population/Rome", rome.Population)},
		{"word_count", `{"text":" one two\nthree "}`, "3", "3 <- word_count/" + h(" one two\nthree ")},
		{"change_case", `{"text":"the OLD élan","case":"title"}`, "The Old Élan", "The Old Élan <- change_case/title/" + h("the OLD élan")},
		{"change_case", `{"text":"ab","case":"upper"}`, "AB", "AB <- change_case/upper/" + h("ab")},
		{"change_case", `{"text":"AB","case":"lower"}`, "ab", "ab <- change_case/lower/" + h("AB")},
		{"roman_numeral", `{"number":3999}`, "MMMCMXCIX", "MMMCMXCIX <- roman_numeral/3999"},
		{"roman_numeral", `{"number":444}`, "CDXLIV", "CDXLIV <- roman_numeral/444"},
		{"common_divisor", `{"a":84,"b":36}`, "12", "12 <- common_divisor/36/84"},
		{"factorize", `{"number":360}`, "2 * 2 * 2 * 3 * 3 * 5", "2 * 2 * 2 * 3 * 3 * 5 <- factorize/360"},
		{"factorize", `{"number":999999999989}`, "999999999989", "999999999989 <- factorize/999999999989"},
		{"convert_base", `{"number":"FF","from":16,"to":10}`, "255", "255 <- convert_base/ff/16/10"},
		{"convert_base", `{"number":10,"from":10,"to":2}`, "1010", "1010 <- convert_base/10/10/2"},
		{"element", `{"name":"Iron"}`, "iron: symbol Fe; number 26", "Fe <- element/iron/symbol | 26 <- element/iron/number"},
		{"book", `{"title":` + quoted(strings.ToUpper(title)) + `}`, fmt.Sprintf("%s: author %s; year %d", title, book.Author, book.Year),
			fmt.Sprintf("%s <- book/%s/author | %d <- book/%s/year", book.Author, title, book.Year, title)},
	} {
		s := open(t, toolbox.Initial{Files: map[string]string{"start": "hello"},
			Events: []toolbox.Event{{Title: "call", Date: "2026-01-02", Time: "09:30"}, {Title: "run", Date: "2026-01-02", Time: "08:00"}}})
		o, err := s.call(c.tool, c.args)
		if err != nil || o.Text != c.text || facts(o) != c.facts {
			t.Errorf("%s %.80s: %q, %v\n%s\nwant %q\n%s", c.tool, c.args, o.Text, err, facts(o), c.text, c.facts)
		}
	}
}

// Each tool with wrong arguments: the call fails, says what to do and changes nothing.
func TestWrongArguments(t *testing.T) {
	pair := world.Pairs()[0]
	var outside string // a city that has no pair with the first
	for _, c := range world.Cities() {
		if c != pair[0] && !world.InTable(c, pair[0]) {
			outside = c
		}
	}
	covered := map[string]bool{}
	for _, c := range []struct{ tool, args, want string }{
		{"calculator", `{"expression":"sqrt(9)"}`, "expression: sqrt is not available here, use scientific_calculator"},
		{"calculator", `{"expression":"1/(2-2)"}`, "division by zero"},
		{"calculator", `{"expression":""}`, "ends too early"},
		{"calculator", `{"expression":"2 ** 0.3"}`, "an exponent must be a whole number or 0.5"},
		{"calculator", `{"expression":"(-1) ** 0.5"}`, "sqrt is not defined there"},
		{"calculator", `{"expression":"9**9**9"}`, "the power is too large"},
		{"calculator", `{"expression":"os.exit(1)"}`, `"os" is not a function`},
		{"calculator", `{"expression":"2;3"}`, `unexpected ';'`},
		{"calculator", `{"expression":5}`, "is a number, must be a string"},
		{"scientific_calculator", `{"expression":"cosh(1)"}`, `"cosh" is not a function, scientific_calculator has sin, cos, tan, log, ln, exp, sqrt`},
		{"scientific_calculator", `{"expression":"tan(90)"}`, "tan is not defined there"},
		{"scientific_calculator", `{"expression":"log(0)"}`, "log is not defined there"},
		{"scientific_calculator", `{"expression":"exp(1000)"}`, "exp is not defined there or its value is too large"},
		{"scientific_calculator", `{"expression":"exp(-700)"}`, "a value is too large or too small"},
		{"scientific_calculator", `{"expression":"sin 30"}`, "sin needs its argument in brackets"},
		{"weather", `{"city":"Atlantis"}`, `no city "Atlantis"`},
		{"weather", `{"city":""}`, "must not be empty"},
		{"weather", `{"cities":["Oslo"]}`, "argument cities: is not known; the arguments are city"},
		{"weather_batch", `{"cities":["Oslo","Atlantis"]}`, `no city "Atlantis"`},
		{"weather_batch", `{"cities":"Oslo"}`, "is a string, must be a list"},
		{"weather_batch", `{"cities":[]}`, "must have at least 1"},
		{"stock_price", `{"ticker":"NOPE"}`, `no ticker "NOPE"`},
		{"stock_prices", `{"tickers":["ABX",7]}`, "argument tickers[1]"},
		{"statistics", `{"statistic":"mode","numbers":[1]}`, "argument statistic: must be one of"},
		{"statistics", `{"statistic":"mean","numbers":[]}`, "at least 1"},
		{"statistics", `{"statistic":"mean","numbers":[1e300]}`, "numbers[0]: must be a decimal number of at most"},
		{"describe_numbers", `{"numbers":["1"]}`, "argument numbers[0]"},
		{"small_prime_checker", `{"number":10007}`, "number: 10007 is above 9999, use prime_checker"},
		{"small_prime_checker", `{"number":-7}`, "must be a whole number from 0"},
		{"prime_checker", `{"number":7.5}`, "must be an integer"},
		{"prime_checker", `{"number":1e16}`, "must be a whole number from 0"},
		{"currency_converter", `{"amount":3,"from":"mile","to":"kilometer"}`, "mile is not a currency, use converter"},
		{"currency_converter", `{"amount":3,"from":"xyz","to":"usd"}`, `no currency or unit "xyz"`},
		{"converter", `{"amount":3,"from":"mile","to":"usd"}`, "mile is a length and usd a currency"},
		{"converter", `{"amount":1e-300,"from":"usd","to":"eur"}`, "amount: must be a decimal number"},
		{"distance_between", `{"from":"` + pair[0] + `","to":"` + outside + `"}`, "are not in the table, use geo_distance"},
		{"distance_between", `{"from":"` + pair[0] + `","to":"Nowhere"}`, `no city "Nowhere"`},
		{"geo_distance", `{"from":"Nowhere","to":"Oslo"}`, `no city "Nowhere"`},
		{"file_write", `{"name":"../../etc/passwd","text":"x"}`, "name: must be a name without slashes and without .., not a path"},
		{"file_write", `{"name":"..\\..\\boot.ini","text":"x"}`, "name: must be a name without slashes"},
		{"file_write", `{"name":".profile","text":"x"}`, "name: must start with a letter or digit"},
		{"file_write", `{"name":"","text":"x"}`, "name: must not be empty"},
		{"file_write", `{"name":"a\u0000b","text":"x"}`, `name: has '\x00'`},
		{"file_write", `{"name":"a\u202eb","text":"x"}`, `name: has '\u202e'`},
		{"file_write", `{"name":"` + strings.Repeat("é", 33) + `","text":"x"}`, "name: has 66 bytes, at most 64"},
		{"file_write", `{"name":"big","text":"` + strings.Repeat("x", 4097) + `"}`, "text: has 4097 bytes, at most 4096"},
		{"file_write", `{"name":"a","text":"x","mode":"append"}`, "argument mode: is not known"},
		{"file_write_verified", `{"name":"/etc/passwd","text":"x"}`, "not a path"},
		{"file_read", `{"name":"../../etc/passwd"}`, "not a path"},
		{"file_read", `{"name":"none"}`, `no file "none"`},
		{"calendar_create", `{"title":"x","date":"2026-02-30","time":"09:00"}`, `date: "2026-02-30" is not a date, write it 2026-03-04`},
		{"calendar_create", `{"title":"x","date":"2026-02-03","time":"9:00"}`, `time: "9:00" is not a time, write it 09:30`},
		{"calendar_create", `{"title":"x","date":"2026-02-03","time":"24:00"}`, `time: "24:00" is not a time`},
		{"calendar_create", `{"title":"a|b","date":"2026-02-03","time":"09:00"}`, `title: has '|'`},
		{"calendar_create", `{"title":"a/b","date":"2026-02-03","time":"09:00"}`, `title: has '/'`},
		{"calendar_create", `{"title":" ","date":"2026-02-03","time":"09:00"}`, "title: must have 1 to 64 bytes of text"},
		{"calendar_create_verified", `{"title":"` + strings.Repeat("x", 65) + `","date":"2026-02-03","time":"09:00"}`, "title: must have 1 to 64 bytes of text"},
		{"calendar_list", `{"date":"today"}`, `date: "today" is not a date`},
		{"send_short_email", `{"to":"ana","subject":"hi","body":"` + strings.Repeat("é", 101) + `"}`, "body: has 101 characters, at most 100, use send_email"},
		{"send_email", `{"to":"ana\nBcc: eve","subject":"hi","body":"x"}`, `to: has '\n'`},
		{"send_email", `{"to":"ana/eve","subject":"hi","body":"x"}`, `to: has '/'`},
		{"send_email", `{"to":"ana","subject":"hi\nBcc: eve","body":"x"}`, "subject: must be one line"},
		{"send_email", `{"to":"","subject":"hi","body":"x"}`, "to: must have 1 to 64 bytes"},
		{"send_email", `{"to":"ana","subject":"hi","body":"` + strings.Repeat("x", 4097) + `"}`, "body: has 4097 bytes, at most 4096"},
		{"date_difference", `{"from":"2026-13-01","to":"2026-03-02"}`, `from: "2026-13-01" is not a date`},
		{"day_of_week", `{"date":"04.03.2026"}`, "is not a date, write it 2026-03-04"},
		{"city_time", `{"city":"Oslo","hour":24}`, "hour: must be a whole number from 0 to 23"},
		{"country_of", `{"city":"Norway"}`, `no city "Norway"`},
		{"population", `{"city":"Norway"}`, `no city "Norway"`},
		{"word_count", `{"text":"` + strings.Repeat("x ", 2049) + `"}`, "text: has 4098 bytes"},
		{"change_case", `{"text":"x","case":"camel"}`, "argument case: must be one of"},
		{"roman_numeral", `{"number":4000}`, "number: must be a whole number from 1 to 3999"},
		{"common_divisor", `{"a":0,"b":3}`, "a: must be a whole number from 1"},
		{"factorize", `{"number":1}`, "number: must be a whole number from 2"},
		{"factorize", `{"number":1000000000000}`, "number: must be a whole number from 2 to 999999999999"},
		{"convert_base", `{"number":"12","from":2,"to":10}`, `number: "12" is no whole number from 0 to 999999999999 in base 2`},
		{"convert_base", `{"number":"-1","from":10,"to":2}`, "is no whole number"},
		{"convert_base", `{"number":"+1","from":10,"to":2}`, "is no whole number"},
		{"convert_base", `{"number":"-0","from":10,"to":2}`, "is no whole number"},
		{"convert_base", `{"number":1e3,"from":16,"to":10}`, "is no whole number"},
		{"convert_base", `{"number":"","from":10,"to":2}`, "is no whole number"},
		{"convert_base", `{"number":"1","from":37,"to":2}`, "from: must be a whole number from 2 to 36"},
		{"element", `{"name":"Fe"}`, `no element "Fe"`},
		{"book", `{"title":"no such book"}`, `no book "no such book"`},
	} {
		covered[c.tool] = true
		initial := toolbox.Initial{Files: map[string]string{"start": "hello"}}
		s := open(t, initial)
		before := s.state.Outcome()
		o, err := s.call(c.tool, c.args)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 200 {
			t.Errorf("%s %.80s: %q, %v; want an error with %q", c.tool, c.args, o.Text, err, c.want)
		}
		if len(o.Reads) > 0 || !s.state.Outcome().Equal(before) {
			t.Errorf("%s %.80s: a failed call left %v, %v", c.tool, c.args, o.Reads, s.state.Outcome())
		}
	}
	for _, n := range toolbox.Names() {
		if !covered[n] {
			t.Errorf("%s: no wrong arguments are tried", n)
		}
	}
}

// The schema of each tool asks for all of its arguments and refuses others.
func TestSchemas(t *testing.T) {
	s := open(t, toolbox.Initial{})
	for _, spec := range s.box.Specs() {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
			Additional *bool                      `json:"additionalProperties"`
		}
		if err := json.Unmarshal(spec.Parameters, &schema); err != nil {
			t.Fatalf("%s: %v", spec.Name, err)
		}
		if schema.Additional == nil || *schema.Additional || len(schema.Required) != len(schema.Properties) || len(schema.Required) == 0 {
			t.Errorf("%s: %s", spec.Name, spec.Parameters)
		}
		if _, err := s.call(spec.Name, `{}`); err == nil || !strings.Contains(err.Error(), "is missing") {
			t.Errorf("%s without arguments: %v", spec.Name, err)
		}
	}
	args := map[string]any{"cities": []any{"Oslo", "Rome", "Lima"}}
	if got := s.box.Charge("weather_batch", args); got != price.Of(0.046) {
		t.Errorf("three cities cost %v", got)
	}
}

// Both members of a family state the same fact with the same value, so that either way proves the same answer.
func TestMembersAgree(t *testing.T) {
	pair := world.Pairs()[3]
	for _, c := range []struct{ cheap, cheapArgs, dear, dearArgs string }{
		{"calculator", `{"expression":"3*(4+5)/7"}`, "scientific_calculator", `{"expression":"(5+4)*3/7"}`},
		{"weather", `{"city":"Oslo"}`, "weather_batch", `{"cities":["Oslo"]}`},
		{"stock_price", `{"ticker":"ABX"}`, "stock_prices", `{"tickers":["ABX"]}`},
		{"statistics", `{"statistic":"median","numbers":[3,1,2]}`, "describe_numbers", `{"numbers":[1,2,3]}`},
		{"small_prime_checker", `{"number":97}`, "prime_checker", `{"number":97}`},
		{"currency_converter", `{"amount":120,"from":"usd","to":"eur"}`, "converter", `{"amount":120.0,"from":"USD","to":"EUR"}`},
		{"distance_between", `{"from":"` + pair[1] + `","to":"` + pair[0] + `"}`, "geo_distance", `{"from":"` + pair[0] + `","to":"` + pair[1] + `"}`},
		{"send_short_email", `{"to":"ana","subject":"hi","body":"x"}`, "send_email", `{"to":"ana","subject":"hi","body":"x"}`},
		{"file_write", `{"name":"a","text":"x"}`, "file_write_verified", `{"name":"a","text":"x"}`},
		{"calendar_create", `{"title":"x","date":"2026-03-04","time":"09:00"}`, "calendar_create_verified", `{"title":"x","date":"2026-03-04","time":"09:00"}`},
	} {
		s := open(t, toolbox.Initial{})
		cheap, err := s.call(c.cheap, c.cheapArgs)
		if err != nil {
			t.Fatalf("%s: %v", c.cheap, err)
		}
		dear, err := s.call(c.dear, c.dearArgs)
		if err != nil {
			t.Fatalf("%s: %v", c.dear, err)
		}
		if fact := facts(cheap); fact == "" || !slices.Contains(strings.Split(facts(dear), " | "), fact) {
			t.Errorf("%s states %s, %s %s", c.cheap, fact, c.dear, facts(dear))
		}
	}
}

// What a policy writes itself is no evidence: only the fact of the right call is.
func TestEvidence(t *testing.T) {
	oslo, _ := world.City("Oslo")
	temperature := fmt.Sprint(oslo.Temperature)
	want := []source.Evidence{{Value: temperature, Sources: []string{"weather/Oslo"}}}
	for _, c := range []struct {
		tool, args string
		proves     bool
	}{
		{"weather", `{"city":"Oslo"}`, true},
		{"weather_batch", `{"cities":["Lima","Oslo"]}`, true},
		{"weather_batch", `{"cities":["Lima","Rome"]}`, false},
		{"calculator", `{"expression":"` + temperature + `"}`, false},
		{"calculator", `{"expression":"` + temperature + `+0"}`, false},
		{"file_write_verified", `{"name":"a","text":"` + temperature + `"}`, false},
		{"change_case", `{"text":"` + temperature + `","case":"upper"}`, false},
		{"statistics", `{"statistic":"max","numbers":[` + temperature + `]}`, false},
	} {
		s := open(t, toolbox.Initial{})
		if _, err := s.call(c.tool, c.args); err != nil {
			t.Fatalf("%s: %v", c.tool, err)
		}
		if got := suite.Evidenced("How warm is it in Oslo?", want, s.seen); got != c.proves {
			t.Errorf("%s %s proves it: %v, want %v", c.tool, c.args, got, c.proves)
		}
	}
}

func TestWorld(t *testing.T) {
	first, err := json.Marshal(world)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(toolbox.NewWorld(7))
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("one seed gives %d and %d other bytes, %v", len(first), len(again), err)
	}
	if other, _ := json.Marshal(toolbox.NewWorld(8)); bytes.Equal(first, other) {
		t.Error("two seeds give one world")
	}
	read := new(toolbox.World)
	if err := json.Unmarshal(first, read); err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(read); !bytes.Equal(b, first) || read.Seed() != 7 {
		t.Error("a world that was written and read is another")
	}
	for name, c := range map[string][2]int{
		"cities": {len(world.Cities()), 60}, "tickers": {len(world.Tickers()), 40}, "currencies": {len(world.Currencies()), 12},
		"pairs": {len(world.Pairs()), 100}, "elements": {len(world.Elements()), 36}, "books": {len(world.Books()), 40},
	} {
		if c[0] != c[1] {
			t.Errorf("%d %s, want %d", c[0], name, c[1])
		}
	}
	for _, seed := range []uint64{0, 1, 7, 1 << 63} {
		w := toolbox.NewWorld(seed)
		var tables map[string]json.RawMessage
		b, _ := json.Marshal(w)
		if err := json.Unmarshal(b, &tables); err != nil {
			t.Fatal(err)
		}
		delete(tables, "seed")
		for name, table := range tables {
			digits, point := 0, -1
			for _, c := range string(table) + "," {
				switch {
				case c >= '0' && c <= '9':
					digits++
					if point >= 0 {
						point++
					}
				case c == '.':
					point = 0
				default:
					if digits > 5 || point > 1 {
						t.Errorf("seed %d: %s has a number of %d digits, %d after the point", seed, name, digits, point)
					}
					digits, point = 0, -1
				}
			}
		}
	}
}

// Each row is drawn by its own name: rows differ, so that a value of one is no good guess of another's.
func TestRowsDiffer(t *testing.T) {
	values := map[string]map[string]bool{"temperature": {}, "population": {}, "price": {}, "author": {}, "year": {}}
	for _, name := range world.Cities() {
		c, _ := world.City(name)
		values["temperature"][fmt.Sprint(c.Temperature)], values["population"][fmt.Sprint(c.Population)] = true, true
	}
	for _, name := range world.Tickers() {
		s, _ := world.Stock(name)
		values["price"][s.Price] = true
	}
	for _, name := range world.Books() {
		b, _ := world.Book(name)
		values["author"][b.Author], values["year"][fmt.Sprint(b.Year)] = true, true
	}
	for name, of := range values {
		if len(of) < 20 {
			t.Errorf("only %d values of %s", len(of), name)
		}
	}
}

// Tables that a tool could not use are refused when they are read, by table and row.
func TestWorldRefuses(t *testing.T) {
	good, err := json.Marshal(world)
	if err != nil {
		t.Fatal(err)
	}
	d := world.Pairs()[0]
	for _, c := range []struct{ old, new, want string }{
		{`"name":"Oslo"`, `"name":" "`, "cities[0]: has no name"},
		{`"name":"Rome"`, `"name":"oslo"`, `cities[1]: "oslo" stands twice`},
		{`"lat":60`, `"lat":600`, "lies at no place of the earth"},
		{`"code":"usd","rate":"1"`, `"code":"usd","rate":"0"`, "currencies[0].rate"},
		{`"ticker":"ABX","price":"`, `"ticker":"ABX","price":"x`, "stocks[0].price"},
		{`{"from":"` + d[0] + `","to":"` + d[1] + `"`, `{"from":"` + d[1] + `","to":"` + d[0] + `"`, "not in the order of names"},
		{`{"from":"` + d[0] + `"`, `{"from":"Atlantis"`, `distances[0]: "Atlantis" is not among the cities`},
		{`"name":"helium"`, `"name":"hydrogen"`, `elements[1]: "hydrogen" stands twice`},
		{`"seed":7`, `"seed":"7"`, "world: json"},
	} {
		bad := strings.Replace(string(good), c.old, c.new, 1)
		if bad == string(good) {
			t.Errorf("%s is not in the world", c.old)
		}
		if err := json.Unmarshal([]byte(bad), new(toolbox.World)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}
