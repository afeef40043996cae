package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/price"
)

// Causes of a failed call that are not the tool's own answer; compare with errors.Is.
var (
	ErrUnknown  = errors.New("unknown tool")
	ErrDeadline = errors.New("deadline passed")
	ErrPanic    = errors.New("tool panicked")
	ErrBusy     = errors.New("still busy with an earlier call")
	ErrClosed   = errors.New("box is closed")
)

// Defaults of the options of a Box.
const (
	DefaultDeadline       = 10 * time.Second
	DefaultMaxObservation = 4096
)

// Offer is a tool at the price of one episode. It has the fields of the offers that a task records, so one converts to
// the other.
type Offer struct {
	Tool  string
	Price Price
}

// Option sets up a Box.
type Option func(*Box) error

// WithOffers restricts a box to the offered tools, in the order of the offers and at their prices; no offers leave it as
// it is. A tool named finish stays even when no offer names it, last and at its own price: an episode must be able to end.
func WithOffers(offers ...Offer) Option {
	return func(b *Box) error {
		if len(offers) == 0 {
			return nil
		}
		own := b.order
		b.order = nil
		specs := make(map[string]Spec, len(offers)+1)
		for _, o := range offers {
			s, ok := b.specs[o.Tool]
			if !ok {
				return fmt.Errorf("offer of %q: %w; the box holds %s", o.Tool, ErrUnknown, strings.Join(own, ", "))
			}
			if _, twice := specs[o.Tool]; twice {
				return fmt.Errorf("offer of %q: offered twice", o.Tool)
			}
			s.Price = o.Price
			specs[o.Tool] = s
			b.order = append(b.order, o.Tool)
		}
		if s, ok := b.specs[FinishName]; ok {
			if _, offered := specs[FinishName]; !offered {
				specs[FinishName] = s
				b.order = append(b.order, FinishName)
			}
		}
		b.specs = specs
		return nil
	}
}

// WithDeadline bounds the time of one call; 0 is the default.
func WithDeadline(d time.Duration) Option {
	return func(b *Box) error {
		if d < 0 {
			return fmt.Errorf("deadline %v: must not be negative", d)
		}
		if d > 0 {
			b.deadline = d
		}
		return nil
	}
}

// WithMaxObservation caps an observation, and the text of an error, at n bytes of UTF-8; 0 is the default.
func WithMaxObservation(n int) Option {
	return func(b *Box) error {
		if n < 0 || n > 0 && n < 64 {
			return fmt.Errorf("observation cap %d: must be at least 64 bytes", n)
		}
		if n > 0 {
			b.maxObs = n
		}
		return nil
	}
}

// WithClose registers what Close calls, last registered first: the end of tools that belong to one episode.
func WithClose(f func() error) Option {
	return func(b *Box) error {
		b.close = append(b.close, f)
		return nil
	}
}

// Box is the registry of the tools one episode may call, in prompt order, each at the price offered to that episode.
// It is safe for concurrent use as far as its tools are.
type Box struct {
	order    []string
	tools    map[string]Tool
	specs    map[string]Spec
	schemas  map[string]*argSchema
	close    []func() error
	deadline time.Duration
	maxObs   int

	mu     sync.Mutex
	stuck  map[string]int // calls, by tool, that outlived their deadline and have not come back
	closed bool
}

// NewBox makes a box of the tools in their order. A name that is empty or taken, a schema that does not compile or a price
// that cannot be charged is an error that names the tool.
func NewBox(tools []Tool, opts ...Option) (*Box, error) {
	b := &Box{
		tools: make(map[string]Tool, len(tools)), specs: make(map[string]Spec, len(tools)),
		schemas:  make(map[string]*argSchema, len(tools)),
		deadline: DefaultDeadline, maxObs: DefaultMaxObservation,
	}
	for _, t := range tools {
		s := t.Spec()
		if s.Name == "" {
			return nil, errors.New("tool box: a tool has no name")
		}
		if _, ok := b.tools[s.Name]; ok {
			return nil, fmt.Errorf("tool box: two tools are named %q", s.Name)
		}
		sch, err := compileSchema(s.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool box: tool %s: parameters: %w", s.Name, err)
		}
		b.order = append(b.order, s.Name)
		b.tools[s.Name], b.specs[s.Name], b.schemas[s.Name] = t, s, sch
	}
	for _, o := range opts {
		if err := o(b); err != nil {
			return nil, fmt.Errorf("tool box: %w", err)
		}
	}
	for _, name := range b.order {
		if err := b.specs[name].Price.check(b.schemas[name]); err != nil {
			return nil, fmt.Errorf("tool box: tool %s: price: %w", name, err)
		}
	}
	return b, nil
}

// Specs returns the offered tools in prompt order, with this episode's prices.
func (b *Box) Specs() []Spec {
	out := make([]Spec, len(b.order))
	for i, name := range b.order {
		out[i] = b.specs[name]
	}
	return out
}

// Lookup returns the spec of an offered tool.
func (b *Box) Lookup(name string) (Spec, bool) {
	s, ok := b.specs[name]
	return s, ok
}

// Validate checks arguments (numbers as json.Number) against the tool's schema. The error is one short line that names
// the argument, an *ArgumentError; for a tool that is not offered it wraps ErrUnknown and lists those that are.
func (b *Box) Validate(name string, args map[string]any) error {
	if _, ok := b.specs[name]; !ok {
		return b.unknown(name)
	}
	return b.schemas[name].validate(name, args)
}

func (b *Box) unknown(name string) error {
	return fmt.Errorf("%w %s; the tools are %s", ErrUnknown, quoteShort(name), strings.Join(b.order, ", "))
}

// Charge is what a call with these arguments costs, exactly as the price says; a tool that is not offered costs nothing.
func (b *Box) Charge(name string, args map[string]any) price.Amount {
	s, ok := b.specs[name]
	if !ok {
		return 0
	}
	return s.Price.Of(args)
}

// Call validates the arguments and calls the tool under the deadline. Every failure is an error: the tool's own, a panic
// (ErrPanic), a call that does not come back (ErrDeadline; the tool then refuses further calls with ErrBusy until it does)
// and the end of ctx (its cause). The observation is valid UTF-8 within the cap, and says so where it was cut;
// its reads lie within what is left.
func (b *Box) Call(ctx context.Context, name string, args map[string]any) (Observation, error) {
	if err := b.Validate(name, args); err != nil {
		return Observation{}, err
	}
	if err := ctx.Err(); err != nil {
		return Observation{}, fmt.Errorf("%s: not called: %w", name, context.Cause(ctx))
	}
	b.mu.Lock()
	busy, closed := b.stuck[name] > 0, b.closed
	b.mu.Unlock()
	switch {
	case closed:
		return Observation{}, fmt.Errorf("%s: %w", name, ErrClosed)
	case busy:
		return Observation{}, fmt.Errorf("%s: %w", name, ErrBusy)
	}
	cctx, cancel := context.WithTimeoutCause(ctx, b.deadline, ErrDeadline)
	defer cancel()
	done := make(chan answer, 1)
	go guard(cctx, name, b.tools[name], args, done)
	select {
	case a := <-done:
		return b.finishCall(ctx, cctx, name, a)
	case <-cctx.Done():
	}
	// A tool that heeds its context answers about now; its own words are better than ours.
	grace := time.NewTimer(min(b.deadline, 250*time.Millisecond))
	defer grace.Stop()
	select {
	case a := <-done:
		return b.finishCall(ctx, cctx, name, a)
	case <-grace.C:
	}
	b.addStuck(name, 1)
	go func() {
		<-done
		b.addStuck(name, -1)
	}()
	return Observation{}, b.timeout(ctx, name)
}

func (b *Box) finishCall(ctx, cctx context.Context, name string, a answer) (Observation, error) {
	if a.err == nil {
		return a.obs.Cut(b.maxObs), nil
	}
	if errors.Is(a.err, context.DeadlineExceeded) && cctx.Err() != nil || errors.Is(a.err, context.Canceled) && ctx.Err() != nil {
		return Observation{}, b.timeout(ctx, name)
	}
	return Observation{}, capError(a.err, b.maxObs)
}

func (b *Box) timeout(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: given up: %w", name, context.Cause(ctx))
	}
	return fmt.Errorf("%s: no answer within %v: %w", name, b.deadline, ErrDeadline)
}

func (b *Box) addStuck(name string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck == nil {
		b.stuck = make(map[string]int)
	}
	b.stuck[name] += n
}

// Close ends the box: further calls are refused and what WithClose registered is called once, last registered first. A
// call that outlived its deadline may still be running in its own goroutine; Close does not wait for it.
func (b *Box) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	var errs []error
	for i := len(b.close) - 1; i >= 0; i-- {
		errs = append(errs, b.close[i]())
	}
	return errors.Join(errs...)
}

type answer struct {
	obs Observation
	err error
}

// PanicError is a panic of a tool made an error. It wraps ErrPanic; Stack is for logs, never for observations.
type PanicError struct {
	Tool  string
	Value string
	Stack string
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.Tool, ErrPanic, e.Value)
}

// Unwrap makes errors.Is(err, ErrPanic) hold.
func (e *PanicError) Unwrap() error { return ErrPanic }

// guard calls a tool and sends one answer, also when the tool panics or ends its goroutine.
func guard(ctx context.Context, name string, t Tool, args map[string]any, done chan<- answer) {
	var a answer
	returned := false
	defer func() {
		if !returned {
			v := "it ended its goroutine"
			if r := recover(); r != nil {
				v = CutText(fmt.Sprint(r), 200)
			}
			a = answer{err: &PanicError{Tool: name, Value: v, Stack: string(debug.Stack())}}
		}
		done <- a
	}()
	a.obs, a.err = t.Call(ctx, args)
	returned = true
}

// cutError shows a shortened text and keeps the chain of the original.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.err }

func capError(err error, n int) error {
	if s := err.Error(); len(s) > n || !utf8.ValidString(s) {
		return &cutError{CutText(s, n), err}
	}
	return err
}

// CutText returns s as valid UTF-8 of at most n bytes; where it was cut it ends in a note of how much was left out.
func CutText(s string, n int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= n {
		return s
	}
	note := fmt.Sprintf(" … [cut: %d bytes in all]", len(s))
	keep := max(0, n-len(note))
	for keep > 0 && !utf8.RuneStart(s[keep]) {
		keep--
	}
	return s[:keep] + note
}

// check reports a price that no call can be charged by.
func (p Price) check(s *argSchema) error {
	switch {
	case p.Base < 0 || p.PerUnit < 0:
		return fmt.Errorf("%v + %v a unit: must not be negative", p.Base, p.PerUnit)
	case p.PerUnit != 0 && p.UnitArg == "":
		return errors.New("per_unit is set but unit_arg names no argument")
	case p.PerUnit != 0 && !s.has(p.UnitArg):
		return fmt.Errorf("unit_arg %q is not an argument of the tool", p.UnitArg)
	}
	return nil
}

// Of is what a call with these arguments costs: Base + PerUnit times the units of UnitArg, rounded to the nearest
// millionth (half up). The units of a list are its length, of a number its value; a negative number, another type and a
// missing argument count 0. The sum saturates at price.Max.
func (p Price) Of(args map[string]any) price.Amount {
	if p.PerUnit == 0 {
		return p.Base
	}
	var units *big.Rat
	switch v := args[p.UnitArg].(type) {
	case []any:
		units = new(big.Rat).SetInt64(int64(len(v)))
	case json.Number:
		if checkNumber(v) == nil {
			units, _ = new(big.Rat).SetString(string(v))
		}
	case float64:
		units = new(big.Rat).SetFloat64(v)
	case int:
		units = new(big.Rat).SetInt64(int64(v))
	}
	if units == nil || units.Sign() <= 0 {
		return p.Base
	}
	units.Mul(units, new(big.Rat).SetInt64(int64(p.PerUnit)))
	units.Add(units, big.NewRat(1, 2))
	sum := new(big.Int).Quo(units.Num(), units.Denom())
	sum.Add(sum, big.NewInt(int64(p.Base)))
	if sum.Cmp(big.NewInt(int64(price.Max))) > 0 {
		return price.Max
	}
	return price.Amount(sum.Int64())
}
