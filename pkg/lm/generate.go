package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/rng"
)

// AppendRequest adds ids to the context of a slot.
type AppendRequest struct {
	Slot int
	IDs  []int32
}

// GenerateRequest asks for the continuation of a slot's context.
type GenerateRequest struct {
	Slot int
	// MaxNewTokens is the most tokens to make, at least 1.
	MaxNewTokens int
	// Stop are ids that end the row; the one that was sampled is part of the result.
	Stop     []int32
	Sampling Sampling
	// Seed keys the row's random stream. Derive it from (seed, task, attempt, turn): the i-th token of the turn then
	// takes the stream's i-th number, whatever else is in the batch.
	Seed uint64
}

// StopReason says why a row ended.
type StopReason string

// The reasons.
const (
	StopToken   StopReason = "stop"    // a stop id was sampled
	StopLength  StopReason = "length"  // MaxNewTokens tokens were made
	StopContext StopReason = "context" // the context reached MaxContext
)

// GenerateResult is what was generated for one request. All slices have the same length.
type GenerateResult struct {
	Slot int
	IDs  []int32
	// LogProbs are log softmax(logits / temperature) of the sampled ids (temperature 1 when greedy), in nats: what a
	// trainer recomputes.
	LogProbs []float32
	// FilteredLogProbs are those of the distribution that was drawn from, after penalty and filters; 0 when greedy.
	FilteredLogProbs []float32
	// Entropies are those of softmax(logits / temperature), in nats.
	Entropies []float32
	Stop      StopReason
}

// maxStops is the largest number of stop ids of a row. All calls have this width, so that they share compiled graphs.
const maxStops = 16

// Append adds ids to contexts: all rows together, in chunks of the bucket lengths. A context that would become longer
// than MaxContext is an error ([ErrContextFull]) before anything is done.
func (e *Engine) Append(reqs []AppendRequest) error {
	used := map[int]bool{}
	for _, r := range reqs {
		if err := e.checkAppend(r, used); err != nil {
			return fmt.Errorf("engine: append: %w", err)
		}
	}
	if len(reqs) == 0 {
		return nil
	}
	longest := 0
	for _, r := range reqs {
		longest = max(longest, len(e.slots[r.Slot].ids)+len(r.IDs)-1)
	}
	if err := e.applyForks(); err != nil {
		return err
	}
	if err := e.reserve(max(longest, e.longest())); err != nil {
		return err
	}
	var todo []int
	for _, r := range reqs {
		s := &e.slots[r.Slot]
		s.ids = append(s.ids, r.IDs...)
		if len(s.ids)-1 > s.cached {
			todo = append(todo, r.Slot)
		}
	}
	for len(todo) > 0 {
		if err := e.prefill(todo); err != nil {
			return err
		}
		todo = slices.DeleteFunc(todo, func(s int) bool { return len(e.slots[s].ids)-1 == e.slots[s].cached })
	}
	return nil
}

func (e *Engine) checkAppend(r AppendRequest, used map[int]bool) error {
	if err := e.checkSlot(r.Slot); err != nil {
		return err
	}
	if used[r.Slot] {
		return fmt.Errorf("slot %d is named twice", r.Slot)
	}
	used[r.Slot] = true
	if len(r.IDs) == 0 {
		return fmt.Errorf("slot %d: no ids", r.Slot)
	}
	for i, id := range r.IDs {
		if id < 0 || int(id) >= e.config.Vocab {
			return fmt.Errorf("slot %d: ids[%d] is %d, the vocabulary has %d", r.Slot, i, id, e.config.Vocab)
		}
	}
	if n := len(e.slots[r.Slot].ids) + len(r.IDs); n > e.opt.MaxContext {
		return fmt.Errorf("slot %d: %w: %d tokens of %d", r.Slot, ErrContextFull, n, e.opt.MaxContext)
	}
	return nil
}

// longest is the number of cache columns in use.
func (e *Engine) longest() int {
	n := 0
	for _, s := range e.slots {
		n = max(n, s.cached)
	}
	return n
}

// batch says which slots the rows of a call are. A subset names them in rows; otherwise row i is slot i.
type batch struct {
	rows   []int // slot of each row, -1: none
	subset bool
}

func (e *Engine) layout(slots []int) batch {
	n := bucket(e.opt.Rows, len(slots))
	b := batch{rows: make([]int, n), subset: n < len(e.slots)}
	for i := range b.rows {
		b.rows[i] = -1
	}
	for i, s := range slots {
		if !b.subset {
			i = s
		}
		b.rows[i] = s
	}
	return b
}

// args starts the inputs of a program: weights, then rows and source for a subset.
func (e *Engine) args(b batch) []any {
	args := []any{e.weights}
	if b.subset {
		rows, source := make([]int32, len(b.rows)), make([]int32, len(e.slots))
		for i := range source {
			source[i] = -1
		}
		for r, s := range b.rows {
			if s >= 0 {
				rows[r], source[s] = int32(s), int32(r)
			}
		}
		args = append(args, rows, source)
	}
	return args
}

func (e *Engine) prefill(slots []int) error {
	b := e.layout(slots)
	most := 0
	for _, s := range slots {
		most = max(most, len(e.slots[s].ids)-1-e.slots[s].cached)
	}
	t := bucket(e.opt.PrefillTokens, most)
	n := len(b.rows)
	ids, length, count := make([]int32, n*t), make([]int32, n), make([]int32, n)
	for r, s := range b.rows {
		if s >= 0 && slices.Contains(slots, s) {
			sl := e.slots[s]
			fed := copy(ids[r*t:(r+1)*t], sl.ids[sl.cached:len(sl.ids)-1])
			length[r], count[r] = int32(sl.cached), int32(fed)
		}
	}
	key := programKey{subset: b.subset}
	p := e.prefills[key]
	if p == nil {
		var err error
		p, err = NewProgram(e.backend, "prefill", func(in []*graph.Node) []*graph.Node { return e.gen.prefill(in, b.subset) })
		if err != nil {
			return fmt.Errorf("engine: %w", err)
		}
		e.prefills[key] = p
	}
	out, err := p.Call(append(e.args(b), tensors.FromFlatDataAndDimensions(ids, n, t), length, count, e.cache)...)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.setCache(out)
	for r, s := range b.rows {
		if s >= 0 {
			e.slots[s].cached += int(count[r])
		}
	}
	return nil
}

// row is a request in progress.
type row struct {
	req    *GenerateRequest
	res    *GenerateResult
	limit  int
	stream *rand.Rand
	done   bool
}

// Generate continues the named contexts until every row has stopped, and returns the results in the order of the
// requests. Rows that stop early leave the batch at the next device call. A cancelled ctx ends it between calls with
// its error; the tokens made so far are in the contexts.
func (e *Engine) Generate(ctx context.Context, reqs []GenerateRequest) ([]GenerateResult, error) {
	results := make([]GenerateResult, len(reqs))
	live := make([]*row, len(reqs))
	used := map[int]bool{}
	var s sampler
	for i := range reqs {
		r := &reqs[i]
		if err := e.checkGen(r, used); err != nil {
			return nil, fmt.Errorf("engine: generate: %w", err)
		}
		s.filter, s.penalty = s.filter || r.Sampling.filters(), s.penalty || r.Sampling.penalizes()
		results[i] = GenerateResult{Slot: r.Slot, Stop: StopLength}
		live[i] = &row{req: r, res: &results[i], limit: r.MaxNewTokens, stream: rng.New(r.Seed, "sampling")}
		if room := e.opt.MaxContext - len(e.slots[r.Slot].ids); room < r.MaxNewTokens {
			live[i].limit, results[i].Stop = room, StopContext
		}
		live[i].done = live[i].limit <= 0
	}
	if err := e.applyForks(); err != nil {
		return nil, err
	}
	for {
		live = slices.DeleteFunc(live, func(r *row) bool { return r.done })
		if len(live) == 0 {
			return results, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := e.decode(live, s); err != nil {
			return nil, err
		}
	}
}

func (e *Engine) checkGen(r *GenerateRequest, used map[int]bool) error {
	if err := e.checkSlot(r.Slot); err != nil {
		return err
	}
	if used[r.Slot] {
		return fmt.Errorf("slot %d is named twice", r.Slot)
	}
	used[r.Slot] = true
	if len(e.slots[r.Slot].ids) == 0 {
		return fmt.Errorf("slot %d is empty: append a prompt first", r.Slot)
	}
	if r.MaxNewTokens < 1 {
		return fmt.Errorf("slot %d: MaxNewTokens is %d, want at least 1", r.Slot, r.MaxNewTokens)
	}
	if len(r.Stop) > maxStops {
		return fmt.Errorf("slot %d: %d stop ids, at most %d", r.Slot, len(r.Stop), maxStops)
	}
	if err := r.Sampling.Check(); err != nil {
		return fmt.Errorf("slot %d: %w", r.Slot, err)
	}
	return nil
}

// decode makes up to DecodeTokens tokens for each live row.
func (e *Engine) decode(live []*row, s sampler) error {
	slots := make([]int, len(live))
	bySlot := map[int]*row{}
	longest := e.longest()
	n := e.opt.DecodeTokens
	for i, r := range live {
		slots[i] = r.req.Slot
		bySlot[r.req.Slot] = r
		longest = max(longest, len(e.slots[r.req.Slot].ids)-1+min(n, r.limit-len(r.res.IDs)))
	}
	if err := e.reserve(longest); err != nil {
		return err
	}
	b := e.layout(slots)
	rows, v := len(b.rows), e.config.Vocab
	token, length, remaining, stop := make([]int32, rows), make([]int32, rows), make([]int32, rows), make([]int32, rows*maxStops)
	uniforms, settings := make([]float32, rows*n), make([]float32, 0, rows*5)
	var seen []float32
	if s.penalty {
		seen = make([]float32, rows*v)
	}
	for i := range stop {
		stop[i] = -1
	}
	for i, at := range b.rows {
		r := bySlot[at] // nil for -1 and for slots that take no part
		if r == nil {
			none := Sampling{}.row(v)
			settings = append(settings, none[:]...)
			continue
		}
		ids := e.slots[at].ids
		token[i], length[i], remaining[i] = ids[len(ids)-1], int32(len(ids)-1), int32(r.limit-len(r.res.IDs))
		copy(stop[i*maxStops:], r.req.Stop)
		for j := range n {
			uniforms[i*n+j] = uniform(r.stream)
		}
		set := r.req.Sampling.row(v)
		settings = append(settings, set[:]...)
		if s.penalty {
			for _, id := range ids {
				seen[i*v+int(id)] = 1
			}
		}
	}
	p, err := e.decodeProgram(b.subset, s)
	if err != nil {
		return err
	}
	args := append(e.args(b), token, length, remaining, tensors.FromFlatDataAndDimensions(stop, rows, maxStops),
		tensors.FromFlatDataAndDimensions(uniforms, rows, n), tensors.FromFlatDataAndDimensions(settings, rows, 5))
	if s.penalty {
		args = append(args, tensors.FromFlatDataAndDimensions(seen, rows, v))
	}
	out, err := p.Call(append(args, e.cache)...)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.setCache(out[3:])
	defer Free(out[:3]...)
	return e.collect(b, bySlot, out[:3])
}

// collect moves the tokens of a call to contexts and results.
func (e *Engine) collect(b batch, bySlot map[int]*row, out []*tensors.Tensor) error {
	count, err := Ints(out[0])
	if err != nil {
		return err
	}
	tokens, err := Ints(out[1])
	if err != nil {
		return err
	}
	values, err := Floats(out[2])
	if err != nil {
		return err
	}
	n, third := e.opt.DecodeTokens, len(values)/3
	for i, at := range b.rows { // before anything is kept
		if bySlot[at] == nil {
			continue
		}
		if err := e.checkDrawn(at, tokens[i*n:i*n+int(count[i])], values[i*n:], values[third+i*n:], values[2*third+i*n:]); err != nil {
			return err
		}
	}
	for i, at := range b.rows {
		r := bySlot[at]
		if r == nil {
			continue
		}
		if count[i] == 0 {
			return errors.New("engine: a row made no progress")
		}
		lo, hi := i*n, i*n+int(count[i])
		sl := &e.slots[at]
		sl.ids = append(sl.ids, tokens[lo:hi]...)
		sl.cached = len(sl.ids) - 1
		r.res.IDs = append(r.res.IDs, tokens[lo:hi]...)
		r.res.LogProbs = append(r.res.LogProbs, values[lo:hi]...)
		r.res.FilteredLogProbs = append(r.res.FilteredLogProbs, values[third+lo:third+hi]...)
		r.res.Entropies = append(r.res.Entropies, values[2*third+lo:2*third+hi]...)
		if slices.Contains(r.req.Stop, tokens[hi-1]) {
			r.res.Stop, r.done = StopToken, true
		} else {
			r.done = len(r.res.IDs) >= r.limit
		}
	}
	return nil
}

// ErrDraw says that a sampled id lies outside the vocabulary, or that a log-probability is no finite number. The weights, or the
// settings of sampling, are damaged.
var ErrDraw = errors.New("the model's output is no distribution over its vocabulary")

// checkDrawn checks what was drawn for a slot; each of values begins with those of its tokens.
func (e *Engine) checkDrawn(slot int, ids []int32, values ...[]float32) error {
	for j, id := range ids {
		if id < 0 || int(id) >= e.config.Vocab {
			return fmt.Errorf("engine: slot %d: %w: token %d of the turn has id %d, the vocabulary has %d", slot, ErrDraw, j, id, e.config.Vocab)
		}
		for k, name := range []string{"log-probability", "filtered log-probability", "entropy"} {
			if v := float64(values[k][j]); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("engine: slot %d: %w: token %d of the turn (id %d) has %s %v: weights or settings of sampling are unsound", slot, ErrDraw, j, id, name, v)
			}
		}
	}
	return nil
}

func (e *Engine) decodeProgram(subset bool, s sampler) (*Program, error) {
	key := programKey{subset, s}
	if p := e.decodes[key]; p != nil {
		return p, nil
	}
	p, err := NewProgram(e.backend, "decode", func(in []*graph.Node) []*graph.Node { return e.gen.decode(in, subset, s) })
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e.decodes[key] = p
	return p, nil
}

// uniform draws a float32 in [0, 1) from the top 24 bits of one number of the stream.
func uniform(r *rand.Rand) float32 { return float32(r.Uint64()>>40) * (1.0 / (1 << 24)) }
