package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/tool"
)

func echo(name string, p tool.Price) tool.Func {
	return tool.Func{
		Def: tool.Spec{Name: name, Description: "says it back", Price: p, Parameters: tool.StringSchema("text", "what to say")},
		Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
			return tool.ReadFrom(args["text"].(string), "store:x"), nil
		},
	}
}

func with(name, schema string, run func(context.Context, map[string]any) (tool.Observation, error)) tool.Func {
	return tool.Func{Def: tool.Spec{Name: name, Parameters: json.RawMessage(schema)}, Run: run}
}

const anything = `{"type":"object"}`

func args(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func box(t testing.TB, tools []tool.Tool, opts ...tool.Option) *tool.Box {
	t.Helper()
	b, err := tool.NewBox(tools, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// One task offers two of three tools, in its own order and at its own prices.
func ExampleBox() {
	tools := []tool.Tool{echo("sql_query", tool.Price{Base: price.Of(1)}), echo("doc_search", tool.Price{Base: price.Of(2)}), echo("web_search", tool.Price{Base: price.Of(5)}), tool.Finish()}
	b, err := tool.NewBox(tools, tool.WithOffers(
		tool.Offer{Tool: "web_search", Price: tool.Price{Base: price.Of(1.5)}},
		tool.Offer{Tool: "sql_query", Price: tool.Price{Base: price.Of(3)}},
	))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	for _, s := range b.Specs() {
		fmt.Println(s.Name, s.Price.Base)
	}
	obs, err := b.Call(context.Background(), "web_search", map[string]any{"text": "hello"})
	fmt.Println(obs.Text, err)
	_, err = b.Call(context.Background(), "doc_search", map[string]any{"text": "hello"})
	fmt.Println(err)
	_, err = b.Call(context.Background(), "sql_query", map[string]any{"txt": "hello"})
	fmt.Println(err)
	// Output:
	// web_search 1.5
	// sql_query 3
	// finish 0
	// hello <nil>
	// unknown tool "doc_search"; the tools are web_search, sql_query, finish
	// sql_query: argument txt: is not known; the arguments are text
}

func TestNewBoxErrors(t *testing.T) {
	ok := echo("a", tool.Price{})
	for _, c := range []struct {
		tools []tool.Tool
		opts  []tool.Option
		want  string
	}{
		{[]tool.Tool{ok, ok}, nil, `two tools are named "a"`},
		{[]tool.Tool{tool.Func{}}, nil, "has no name"},
		{[]tool.Tool{with("b", "", nil)}, nil, "tool b: parameters: no JSON schema"},
		{[]tool.Tool{with("b", "{", nil)}, nil, "tool b: parameters: not JSON"},
		{[]tool.Tool{with("b", `{"type":"string"}`, nil)}, nil, `must be an object with "type": "object"`},
		{[]tool.Tool{with("b", `{"type":"object","properties":{"x":{"type":"nonsense"}}}`, nil)}, nil, "not a JSON schema"},
		{[]tool.Tool{with("b", `{"type":"object","properties":{"x":{"$ref":"http://example.org/x.json"}}}`, nil)}, nil, "must stand alone"},
		{[]tool.Tool{echo("a", tool.Price{Base: -1})}, nil, "must not be negative"},
		{[]tool.Tool{echo("a", tool.Price{PerUnit: 1})}, nil, "unit_arg names no argument"},
		{[]tool.Tool{echo("a", tool.Price{PerUnit: 1, UnitArg: "cities"})}, nil, `unit_arg "cities" is not an argument`},
		{[]tool.Tool{ok}, []tool.Option{tool.WithOffers(tool.Offer{Tool: "z"})}, `offer of "z": unknown tool; the box holds a`},
		{[]tool.Tool{ok}, []tool.Option{tool.WithOffers(tool.Offer{Tool: "a"}, tool.Offer{Tool: "a"})}, "offered twice"},
		{[]tool.Tool{ok}, []tool.Option{tool.WithDeadline(-1)}, "must not be negative"},
		{[]tool.Tool{ok}, []tool.Option{tool.WithMaxObservation(3)}, "at least 64"},
	} {
		if _, err := tool.NewBox(c.tools, c.opts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

const cities = `{"type":"object","properties":{
	"cities":{"type":"array","items":{"type":"string","minLength":1},"minItems":1,"maxItems":3},
	"days":{"type":"integer","minimum":1,"maximum":14},
	"unit":{"enum":["C","F"]},
	"at":{"type":"object","properties":{"hour":{"type":"number","exclusiveMaximum":24}},"required":["hour"],"additionalProperties":false},
	"id":{"type":["string","integer"],"pattern":"^[a-z]+$","maxLength":4}},
	"required":["cities"],"additionalProperties":false}`

func TestValidate(t *testing.T) {
	b := box(t, []tool.Tool{with("weather", cities, nil), with("now", `{"type":"object","additionalProperties":false}`, nil)})
	for _, c := range []struct{ tool, args, want string }{
		{"weather", `{"cities":["Oslo"]}`, ""},
		{"weather", `{"cities":["Oslo"],"days":3,"unit":"C","at":{"hour":23.5},"id":7}`, ""},
		{"weather", `{"cities":["Oslo"],"days":3.0}`, ""},
		{"weather", `{}`, "weather: argument cities: is missing"},
		{"weather", `{"Cities":["Oslo"]}`, "weather: argument Cities: is not known; the arguments are at, cities, days, id, unit"},
		{"weather", `{"cities":"Oslo"}`, "weather: argument cities: is a string, must be a list"},
		{"weather", `{"cities":null}`, "weather: argument cities: is null, must be a list"},
		{"weather", `{"cities":[]}`, "weather: argument cities: has 0 elements, must have at least 1"},
		{"weather", `{"cities":["a","b","c","d"]}`, "weather: argument cities: has 4 elements, must have at most 3"},
		{"weather", `{"cities":["a","",7]}`, "weather: argument cities[1]: must not be empty"},
		{"weather", `{"cities":["a"],"days":0}`, "weather: argument days: must be at least 1"},
		{"weather", `{"cities":["a"],"days":15}`, "weather: argument days: must be at most 14"},
		{"weather", `{"cities":["a"],"days":2.5}`, "weather: argument days: is a number, must be an integer"},
		{"weather", `{"cities":["a"],"days":"2"}`, "weather: argument days: is a string, must be an integer"},
		{"weather", `{"cities":["a"],"unit":"K"}`, `weather: argument unit: must be one of "C", "F"`},
		{"weather", `{"cities":["a"],"at":{}}`, "weather: argument at.hour: is missing"},
		{"weather", `{"cities":["a"],"at":{"hour":24}}`, "weather: argument at.hour: must be less than 24"},
		{"weather", `{"cities":["a"],"at":{"hour":1,"x":1}}`, "weather: argument at.x: is not known"},
		{"weather", `{"cities":["a"],"id":"ABC"}`, "weather: argument id: must match ^[a-z]+$"},
		{"weather", `{"cities":["a"],"id":"abcde"}`, "weather: argument id: has 5 characters, must have at most 4"},
		{"weather", `{"cities":["a"],"id":true}`, "weather: argument id: is a boolean, must be an integer or a string"},
		{"weather", `{"cities":["a"],"days":1e999999999}`, "weather: argument days: is a number with an exponent beyond 400"},
		{"weather", `{"cities":["a"],"days":` + strings.Repeat("9", 1000) + `}`, "weather: argument days: is a number of 1000 characters, more than 400"},
		{"now", `{"x":1}`, "now: argument x: is not known; the tool takes no arguments"},
		{"now", `{}`, ""},
		{"nowhere", `{}`, `unknown tool "nowhere"; the tools are weather, now`},
	} {
		for range 5 { // the text does not depend on map order
			err := b.Validate(c.tool, args(t, c.args))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s %.60s: %q, want %q", c.tool, c.args, got, c.want)
				break
			}
		}
	}
	var ae *tool.ArgumentError
	if err := b.Validate("weather", nil); !errors.As(err, &ae) || ae.Argument != "cities" {
		t.Errorf("nil arguments: %v", err)
	}
	deep := any("x")
	for range 10_000 {
		deep = []any{deep}
	}
	if err := b.Validate("weather", map[string]any{"cities": deep}); err == nil || len(err.Error()) > 400 {
		t.Errorf("deep nesting: %.100v", err)
	}
}

func TestCharge(t *testing.T) {
	perCity := tool.Price{Base: price.Of(0.01), PerUnit: price.Of(0.012), UnitArg: "cities"}
	perDay := tool.Price{Base: price.Of(0.5), PerUnit: 3, UnitArg: "days"}
	b := box(t, []tool.Tool{
		tool.Func{Def: tool.Spec{Name: "cities", Parameters: json.RawMessage(cities), Price: perCity}},
		tool.Func{Def: tool.Spec{Name: "days", Parameters: json.RawMessage(cities), Price: perDay}}, tool.Finish(),
	})
	for _, c := range []struct{ tool, args, want string }{
		{"cities", `{"cities":["a","b","c"]}`, "0.046"}, {"cities", `{"cities":[]}`, "0.01"}, {"cities", `{}`, "0.01"}, {"cities", `{"cities":"abc"}`, "0.01"},
		{"days", `{"days":7}`, "0.500021"}, {"days", `{"days":0.5}`, "0.500002"}, {"days", `{"days":-3}`, "0.5"}, {"days", `{"days":1e3}`, "0.503"},
		{"days", `{"days":1e300}`, "1000000000"}, {"days", `{"days":1e999999999}`, "0.5"}, {"finish", `{"answer":"x"}`, "0"}, {"none", `{}`, "0"},
	} {
		if got := b.Charge(c.tool, args(t, c.args)); got.String() != c.want {
			t.Errorf("%s %s costs %v, want %s", c.tool, c.args, got, c.want)
		}
	}
}

// A tool that sleeps for ever, panics or ends its goroutine makes an error that names the cause; the others go on.
func TestBadTools(t *testing.T) {
	release := make(chan struct{})
	b := box(t, []tool.Tool{
		with("sleeps", anything, func(context.Context, map[string]any) (tool.Observation, error) {
			<-release
			return tool.Said("late"), nil
		}),
		with("heeds", anything, func(ctx context.Context, _ map[string]any) (tool.Observation, error) {
			<-ctx.Done()
			return tool.Observation{}, ctx.Err()
		}),
		with("panics", anything, func(context.Context, map[string]any) (tool.Observation, error) { panic("the roof is on fire") }),
		with("index", anything, func(_ context.Context, a map[string]any) (tool.Observation, error) {
			return tool.Said(a["x"].([]any)[3].(string)), nil
		}),
		with("exits", anything, func(context.Context, map[string]any) (tool.Observation, error) {
			runtime.Goexit()
			return tool.Observation{}, nil
		}),
		with("fails", anything, func(context.Context, map[string]any) (tool.Observation, error) {
			return tool.Observation{}, errors.New("no such city")
		}),
		with("shouts", anything, func(context.Context, map[string]any) (tool.Observation, error) {
			return tool.Observation{}, errors.New(strings.Repeat("é", 1000))
		}),
		echo("echo", tool.Price{}), tool.Finish(),
	}, tool.WithDeadline(30*time.Millisecond), tool.WithMaxObservation(100))
	for _, c := range []struct {
		tool, want string
		is         error
	}{
		{"sleeps", "sleeps: no answer within 30ms: deadline passed", tool.ErrDeadline},
		{"sleeps", "sleeps: still busy with an earlier call", tool.ErrBusy},
		{"heeds", "heeds: no answer within 30ms: deadline passed", tool.ErrDeadline},
		{"heeds", "heeds: no answer within 30ms: deadline passed", tool.ErrDeadline},
		{"panics", "panics: tool panicked: the roof is on fire", tool.ErrPanic},
		{"index", "index: tool panicked: interface conversion: interface {} is nil, not []interface {}", tool.ErrPanic},
		{"exits", "exits: tool panicked: it ended its goroutine", tool.ErrPanic},
		{"fails", "no such city", nil},
		{"shouts", strings.Repeat("é", 35) + " … [cut: 2000 bytes in all]", nil},
		{"finish", "finish: argument answer: is missing", nil},
	} {
		_, err := b.Call(t.Context(), c.tool, map[string]any{})
		if err == nil || err.Error() != c.want || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q", c.tool, err, c.want)
		}
	}
	if got, err := b.Call(t.Context(), "echo", map[string]any{"text": "still here"}); got.Text != "still here" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := b.Call(t.Context(), "finish", map[string]any{"answer": "x"}); !errors.Is(err, tool.ErrFinish) {
		t.Errorf("finish: %v", err)
	}
	close(release)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		got, err := b.Call(t.Context(), "sleeps", map[string]any{})
		if err == nil && got.Text == "late" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a tool that came back is still refused: %v", err)
		}
	}
}

func TestCancel(t *testing.T) {
	b := box(t, []tool.Tool{
		with("sleeps", anything, func(context.Context, map[string]any) (tool.Observation, error) { select {} }),
	})
	stop := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(stop) })
	if _, err := b.Call(ctx, "sleeps", nil); !errors.Is(err, stop) || errors.Is(err, tool.ErrDeadline) {
		t.Errorf("canceled while it runs: %v", err)
	}
	if _, err := b.Call(ctx, "sleeps", nil); !errors.Is(err, stop) {
		t.Errorf("canceled before: %v", err)
	}
}

func TestObservationsAreCapped(t *testing.T) {
	b := box(t, []tool.Tool{echo("echo", tool.Price{})}, tool.WithMaxObservation(64))
	for in, want := range map[string]string{
		"short":                   "short",
		strings.Repeat("é", 32):   strings.Repeat("é", 32),
		strings.Repeat("a", 65):   strings.Repeat("a", 37) + " … [cut: 65 bytes in all]",
		strings.Repeat("世", 1000): strings.Repeat("世", 11) + " … [cut: 3000 bytes in all]",
		"\xff\xfeabc":             "\uFFFDabc",
	} {
		got, err := b.Call(t.Context(), "echo", map[string]any{"text": in})
		if err != nil || got.Text != want || len(got.Text) > 64 {
			t.Errorf("%.20q: %q (%d bytes), %v; want %q", in, got.Text, len(got.Text), err, want)
		}
		if whole := in == want; whole != (len(got.Reads) == 1) {
			t.Errorf("%.20q: %d parts of a text that is whole: %v", in, len(got.Reads), whole)
		}
	}
}

// A part that was cut is no part any more; those before it stay.
func TestCutParts(t *testing.T) {
	text := strings.Repeat("a", 30) + "48" + strings.Repeat("b", 30) + "91"
	o := tool.Observation{Text: text, Reads: []source.Read{{Start: 30, End: 32}, {Start: 30, End: 50}, {Start: 62, End: 64}}}
	got := o.Cut(63)
	if len(got.Reads) != 1 || got.Reads[0].End != 32 || len(o.Reads) != 3 {
		t.Errorf("%q has the parts %v", got.Text, got.Reads)
	}
	if part, ok := got.Reads[0].Part(got.Text); !ok || part != "48" {
		t.Errorf("%q, %v", part, ok)
	}
	if same := o.Cut(64); len(same.Reads) != 3 || same.Text != text {
		t.Errorf("uncut: %v", same)
	}
}

func TestClose(t *testing.T) {
	var order []string
	note := func(s string, err error) tool.Option {
		return tool.WithClose(func() error { order = append(order, s); return err })
	}
	bad := errors.New("the file is busy")
	b, err := tool.NewBox([]tool.Tool{echo("echo", tool.Price{})}, note("first", nil), note("second", bad))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); !errors.Is(err, bad) {
		t.Errorf("close: %v", err)
	}
	if err := b.Close(); err != nil || strings.Join(order, " ") != "second first" {
		t.Errorf("twice: %v, %v", err, order)
	}
	if _, err := b.Call(t.Context(), "echo", map[string]any{"text": "x"}); !errors.Is(err, tool.ErrClosed) {
		t.Errorf("call after close: %v", err)
	}
}

func TestThousandsOfBoxes(t *testing.T) {
	shared := []tool.Tool{echo("echo", tool.Price{Base: price.Unit}), with("weather", cities, nil), tool.Finish()}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 5000 {
		wg.Go(func() {
			b, err := tool.NewBox(shared, tool.WithOffers(tool.Offer{Tool: "echo", Price: tool.Price{Base: price.Amount(i)}}))
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			in := fmt.Sprint(i)
			if got, err := b.Call(context.Background(), "echo", map[string]any{"text": in}); got.Text != in || err != nil || b.Charge("echo", nil) != price.Amount(i) {
				t.Errorf("box %d: %v, %v, %v", i, got, err, b.Charge("echo", nil))
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("5,000 boxes took %v", took)
	}
	if s := shared[0].Spec(); s.Price.Base != price.Unit {
		t.Errorf("an offer changed the tool: %v", s.Price)
	}
}
