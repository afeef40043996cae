package lm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// EngineOptions sizes an engine. Every field's zero value is the default written at it. Each list of buckets adds
// compiled graphs; see [Engine.MaxCompilations].
type EngineOptions struct {
	// Slots is the number of contexts that live at once; default 32.
	Slots int
	// MaxContext is the longest context in tokens; default Config.MaxPositions.
	MaxContext int
	// DecodeTokens is how many tokens one device call makes at most; default 32 on XLA. The Go backend makes 1.
	DecodeTokens int
	// PrefillTokens are the chunk lengths of prefill; default 16, 64 and 256.
	PrefillTokens []int
	// Contexts are the lengths the cache grows through; default 128, then doubling up to MaxContext.
	Contexts []int
	// Rows are the batch sizes of a call; default an eighth of Slots, and Slots.
	Rows []int
}

// Engine generates for a fixed number of slots. A slot holds one context: ids whose keys and values stay on the device
// from turn to turn. Append adds ids (a prompt, an observation), Generate continues them, Fork copies a context, Release
// empties a slot.
//
// The decoder has not read the last id of a context yet: the next Generate or Append feeds it. So prefill never needs the
// output head, and every sampled token passes through the decoder once.
//
// All shapes come from small sets of buckets, so after each was used once nothing is compiled again. An Engine is not
// safe for concurrent use.
type Engine struct {
	backend *Backend
	config  *Config
	opt     EngineOptions
	weights *Weights // with the adapter merged in
	shared  bool     // the weights are the caller's, not to be freed here
	merger  *Merger
	merged  *AdapterConfig
	gen     *generator

	prefills, decodes map[programKey]*Program
	grow, gather      *Program

	cache   []*tensors.Tensor
	columns int // columns of the cache
	slots   []slot
	forks   []int // by slot, the slot whose cache row is copied to it before the next call; its own number: none
}

type programKey struct {
	subset bool
	sampler
}

// slot is what the host knows of a context. The keys and values of the first cached ids are in the cache. The decoder has
// not read the other ids yet.
type slot struct {
	ids    []int32
	cached int
}

// ErrContextFull is the cause when a context would grow beyond MaxContext.
var ErrContextFull = errors.New("context is full")

// NewEngine makes an engine for a model, with its adapter folded in if it has one. The model's weights are shared, not
// copied, when there is no adapter.
func NewEngine(m *Model, opt EngineOptions) (*Engine, error) {
	opt, err := opt.withDefaults(m)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{backend: m.Backend, config: m.Config, opt: opt, prefills: map[programKey]*Program{}, decodes: map[programKey]*Program{}}
	e.gen = &generator{decoder: Decoder{Config: m.Config}, names: m.Weights.Names(), loop: m.Backend.Loops()}
	if !slices.Equal(e.gen.names, paramNames(m.Config.Params())) {
		return nil, errors.New("engine: the weights are not those of the model's configuration")
	}
	if e.grow, err = NewProgram(m.Backend, "grow cache", func(in []*graph.Node) []*graph.Node {
		return extend(in[1:], in[0].Shape().Dimensions[0]) // the first input only carries a length
	}); err != nil {
		return nil, err
	}
	if e.gather, err = NewProgram(m.Backend, "fork", func(in []*graph.Node) []*graph.Node { return pickRows(in[1:], in[0]) }); err != nil {
		return nil, err
	}
	e.slots = make([]slot, opt.Slots)
	e.forks = make([]int, opt.Slots)
	if err := e.SetWeights(m.Weights, m.Adapter); err != nil {
		return nil, err
	}
	return e, e.clear()
}

func (o EngineOptions) withDefaults(m *Model) (EngineOptions, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Slots, 32)
	def(&o.MaxContext, m.Config.MaxPositions)
	def(&o.DecodeTokens, 32)
	if !m.Backend.Loops() {
		o.DecodeTokens = 1
	}
	if o.PrefillTokens == nil {
		o.PrefillTokens = []int{16, 64, 256}
	}
	if o.Contexts == nil {
		for c := 128; c < o.MaxContext; c *= 2 {
			o.Contexts = append(o.Contexts, c)
		}
	}
	if o.Rows == nil {
		o.Rows = []int{max(1, o.Slots/8)}
	}
	for _, f := range []struct {
		name string
		v    int
	}{{"Slots", o.Slots}, {"MaxContext", o.MaxContext}, {"DecodeTokens", o.DecodeTokens}} {
		if f.v < 1 {
			return o, fmt.Errorf("%s is %d, want at least 1", f.name, f.v)
		}
	}
	if o.MaxContext > m.Config.MaxPositions {
		return o, fmt.Errorf("MaxContext %d is over the model's max_position_embeddings %d", o.MaxContext, m.Config.MaxPositions)
	}
	var err error
	o.Rows, err = buckets("Rows", o.Rows, o.Slots, true)
	if err == nil {
		o.Contexts, err = buckets("Contexts", o.Contexts, o.MaxContext, true)
	}
	if err == nil {
		o.PrefillTokens, err = buckets("PrefillTokens", o.PrefillTokens, o.MaxContext, false)
	}
	return o, err
}

// buckets sorts a list of sizes and lowers those over the limit to it. withLimit adds the limit to the list.
func buckets(name string, list []int, limit int, withLimit bool) ([]int, error) {
	list = slices.Clone(list)
	for i, v := range list {
		if v < 1 {
			return nil, fmt.Errorf("%s holds %d, want at least 1", name, v)
		}
		list[i] = min(v, limit)
	}
	if withLimit || len(list) == 0 {
		list = append(list, limit)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// bucket returns the smallest size that is at least n, or the largest of all.
func bucket(list []int, n int) int {
	for _, v := range list {
		if v >= n {
			return v
		}
	}
	return list[len(list)-1]
}

// SetWeights changes the weights, after a training step for example. Nothing is recompiled. base is used as it is and
// must outlive its use here; with an adapter, the engine makes its own merged copy. The contexts are dropped: their keys
// and values belong to the old weights.
func (e *Engine) SetWeights(base *Weights, adapter *Adapter) error {
	w, shared := base, true
	if adapter != nil {
		if e.merger == nil || e.merged != adapter.Config {
			mg, err := NewMerger(e.backend, e.config, adapter.Config)
			if err != nil {
				return fmt.Errorf("engine: %w", err)
			}
			e.merger, e.merged = mg, adapter.Config
		}
		var err error
		if w, err = e.merger.Merge(base, adapter.Weights); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		shared = false
	} else if !slices.Equal(base.names, e.gen.names) {
		return errors.New("engine: the weights are not those of the model's configuration")
	}
	if e.weights != nil && !e.shared {
		e.weights.Free()
	}
	e.weights, e.shared = w, shared
	for i := range e.slots {
		e.Release(i)
	}
	return nil
}

// Slots is the number of slots.
func (e *Engine) Slots() int { return len(e.slots) }

// MaxContext is the longest context in tokens.
func (e *Engine) MaxContext() int { return e.opt.MaxContext }

// Context returns the ids of a slot: everything appended and sampled so far.
func (e *Engine) Context(slot int) []int32 { return slices.Clone(e.slots[slot].ids) }

// Release empties a slot. It costs no device call.
func (e *Engine) Release(slot int) {
	e.slots[slot] = e.slots[slot].empty()
	e.forks[slot] = slot
}

func (s slot) empty() slot { return slot{ids: s.ids[:0]} }

// Compilations counts the graphs compiled so far.
func (e *Engine) Compilations() int {
	n := e.grow.Compilations() + e.gather.Compilations()
	for _, m := range []map[programKey]*Program{e.prefills, e.decodes} {
		for _, p := range m {
			n += p.Compilations()
		}
	}
	return n
}

// MaxCompilations is how many graphs can ever be compiled with the given number of kinds of sampling in use (with and
// without filters, with and without a repetition penalty: 1 to 4).
func (e *Engine) MaxCompilations(kinds int) int {
	c, r := len(e.opt.Contexts), len(e.opt.Rows)
	return c*r*len(e.opt.PrefillTokens) + c*r*kinds + (c - 1) + c
}

// Close frees the device's memory. The engine must not be used afterwards.
func (e *Engine) Close() {
	Free(e.cache...)
	if !e.shared {
		e.weights.Free()
	}
	for _, m := range []map[programKey]*Program{e.prefills, e.decodes} {
		for _, p := range m {
			p.Close()
		}
	}
	e.grow.Close()
	e.gather.Close()
}

// clear makes an empty cache of the smallest size.
func (e *Engine) clear() error {
	return Catch("engine: make the cache", func() error {
		Free(e.cache...)
		e.columns = e.opt.Contexts[0]
		e.cache = make([]*tensors.Tensor, 2*e.config.Layers)
		for i := range e.cache {
			e.cache[i] = tensors.FromShape(e.config.cacheShape(e.opt.Slots, e.columns))
		}
		for i := range e.slots {
			e.Release(i)
		}
		return nil
	})
}

// reserve grows the cache until it has the given number of columns, and shrinks it when nothing is in it.
func (e *Engine) reserve(columns int) error {
	if e.columns > e.opt.Contexts[0] && bucket(e.opt.Contexts, columns) < e.columns && !slices.ContainsFunc(e.slots, func(s slot) bool { return s.cached > 0 }) {
		held := slices.Clone(e.slots)
		if err := e.clear(); err != nil {
			return err
		}
		copy(e.slots, held) // ids that were appended but not fed yet
	}
	for e.columns < columns {
		next := bucket(e.opt.Contexts, e.columns+1)
		out, err := e.grow.Call(tensors.FromShape(shapes.Make(dtypes.Int32, next-e.columns)), e.cache)
		if err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		e.setCache(out)
		e.columns = next
	}
	return nil
}

func (e *Engine) setCache(cache []*tensors.Tensor) {
	Free(e.cache...)
	e.cache = cache
}

// Fork copies the context of one slot to others, whose own contexts are dropped: one prefill serves a group.
func (e *Engine) Fork(from int, to ...int) error {
	if err := e.checkSlot(from); err != nil {
		return fmt.Errorf("engine: fork: %w", err)
	}
	for _, t := range to {
		if err := e.checkSlot(t); err != nil {
			return fmt.Errorf("engine: fork: %w", err)
		}
		if t == from {
			return fmt.Errorf("engine: fork: slot %d onto itself", t)
		}
	}
	for _, t := range to {
		// Other slots may still have to copy the old row of this one.
		if slices.ContainsFunc(e.slotsCopying(t), func(s int) bool { return s != t }) {
			if err := e.applyForks(); err != nil {
				return err
			}
		}
		e.slots[t] = slot{ids: append(e.slots[t].ids[:0], e.slots[from].ids...), cached: e.slots[from].cached}
		e.forks[t] = e.forks[from]
	}
	return nil
}

// slotsCopying lists the slots whose pending copy reads the row of slot s.
func (e *Engine) slotsCopying(s int) []int {
	var out []int
	for i, f := range e.forks {
		if f == s && i != s {
			out = append(out, i)
		}
	}
	return out
}

// applyForks copies the rows of all pending forks in one call.
func (e *Engine) applyForks() error {
	pending := false
	index := make([]int32, len(e.forks))
	for i, f := range e.forks {
		index[i] = int32(f)
		pending = pending || f != i
	}
	if !pending {
		return nil
	}
	out, err := e.gather.Call(index, e.cache)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.setCache(out)
	for i := range e.forks {
		e.forks[i] = i
	}
	return nil
}

func (e *Engine) checkSlot(s int) error {
	if s < 0 || s >= len(e.slots) {
		return fmt.Errorf("slot %d of %d", s, len(e.slots))
	}
	return nil
}
