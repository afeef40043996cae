// Package rollout plays many episodes at once with one policy, and records them. The episodes advance in lockstep: at a barrier,
// every episode in a slot takes one turn, and their tools run concurrently. Slots are filled by episode index, never by wall
// clock, and records are written in episode order. The file is therefore the same byte for byte, except for latencies, for any
// number of slots and workers and after any number of interruptions. The package hands token ids on without looking at them, and
// knows no training.
//
// Two kinds of faults are told apart:
//
//   - The policy fails in one slot (Reply.Err), or a tool panics or does not return. That episode ends with reason error. It is
//     counted, and recorded after all others. If more episodes end so than Options.MaxErrors allows, Run returns an error with
//     the first cause, and the next Run on the same output plays them again.
//   - The session fails, panics or exceeds Options.StepDeadline, or the context ends. Run returns an error with the cause. Every
//     finished episode is on disk. The next Run on the same output plays the others.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Version is raised when the same actions on the same suite give another record: another reading of a text, another rule of the game, observation, verdict
// or reward. It is in the key of every stage that plays or trains on episodes. A test compares it with what a fixed list of actions gives.
const Version = 1

// Run plays the items and returns their records in item order. It takes the records that opt.Output already holds from there.
// Together with an error it returns the records of the finished items only.
func Run(ctx context.Context, s suite.Suite, p policy.Policy, items []Item, opt Options) ([]trajectory.Trajectory, error) {
	opt, err := opt.normalize(p)
	if err != nil {
		return nil, err
	}
	r := &run{suite: s, opt: opt, items: items, began: time.Now(), results: make([]*result, len(items)), ids: make([]string, len(items))}
	if err := r.resume(); err != nil {
		return r.done(), err
	}
	err = r.play(ctx, p)
	if err == nil && opt.Output != nil {
		err = opt.Output.clearPending()
	}
	if err != nil {
		done := 0
		for _, res := range r.results {
			if res != nil {
				done++
			}
		}
		err = fmt.Errorf("rollout of %s: stopped with %d of %d episodes done: %w", opt.Method, done, len(items), err)
	}
	return r.done(), err
}

type result struct {
	t      trajectory.Trajectory
	tokens *trajectory.TokenRecord
	old    bool // from an earlier run
}

// failed reports an episode that ended with reason error.
func (r *result) failed() bool { return r.t.End == trajectory.Error }

// deferred reports a failed episode of this run. It is written last: if the run stops because of it, the next run plays it again.
func (r *result) deferred() bool { return r.failed() && !r.old }

// run is the state of one Run. Only the goroutine of Run uses it; workers get single episodes.
type run struct {
	suite   suite.Suite
	opt     Options
	items   []Item
	ids     []string
	results []*result
	next    int // next item to start
	emitted int // items handed on, in order
	began   time.Time
	prog    Progress
	sum     float64
	solved  int
	cause   error // of the first episode that failed
}

// active is an episode that is being played in a slot.
type active struct {
	item   int
	key    policy.Key
	prompt suite.Prompt
	ep     *episode.Episode
	tokens *trajectory.TokenRecord
	obs    policy.Observation
	err    error
}

// done returns the records of the finished items, in their order.
func (r *run) done() []trajectory.Trajectory {
	out := make([]trajectory.Trajectory, 0, len(r.results))
	for _, res := range r.results {
		if res != nil {
			out = append(out, res.t)
		}
	}
	return out
}

func (r *run) key(i int) policy.Key {
	return policy.Key{Seed: r.opt.Seed, Task: r.items[i].Task.ID, Attempt: r.items[i].Attempt}
}

// resume names the episodes, and takes from the output those that it holds.
func (r *run) resume() error {
	seen := make(map[string]int, len(r.items))
	for i := range r.items {
		id := EpisodeID(r.opt.Method, r.key(i), r.opt.Episode.Budget, r.opt.Decoding, r.opt.Temperature)
		if j, twice := seen[id]; twice {
			return fmt.Errorf("rollout: items %d and %d are both episode %s; give them different attempts", j, i, id)
		}
		seen[id], r.ids[i] = i, id
		if r.opt.Output == nil {
			continue
		}
		if t, tokens, ok := r.opt.Output.find(id); ok {
			r.results[i] = &result{t: t, tokens: tokens, old: true}
			r.count(t)
			r.prog.Resumed++
		}
	}
	r.prog.Total = len(r.items)
	r.progress()
	return r.emit(false)
}

// count adds a finished episode to the progress.
func (r *run) count(t trajectory.Trajectory) {
	r.prog.Done++
	if t.End == trajectory.Error {
		r.prog.Errors++
		return
	}
	r.sum += t.Outcome.Reward.Total
	if t.Outcome.Verified {
		r.solved++
	}
}

// progress reports how far the run is.
func (r *run) progress() {
	if r.opt.Progress == nil {
		return
	}
	p := &r.prog
	p.Elapsed = time.Since(r.began)
	if scored := p.Done - p.Errors; scored > 0 {
		p.MeanReward, p.Solved = r.sum/float64(scored), float64(r.solved)/float64(scored)
	}
	p.Left = 0
	if fresh := p.Done - p.Resumed; fresh > 0 {
		p.Left = time.Duration(float64(p.Elapsed) / float64(fresh) * float64(p.Total-p.Done))
	}
	r.opt.Progress(*p)
}

// tooManyErrors returns an error if more episodes failed than Options.MaxErrors allows, else nil.
func (r *run) tooManyErrors() error {
	n, of := r.prog.Errors, len(r.items)
	if float64(n) <= r.opt.MaxErrors*float64(of) || n == 1 && of > 1 && r.opt.MaxErrors > 0 {
		return nil
	}
	cause := r.cause
	if cause == nil { // all of them are of an earlier run
		cause = errors.New("of an earlier run, in " + r.opt.Output.Path() + "; delete it and its episodes are played again")
	}
	return fmt.Errorf("%w: %d of %d, at most a share of %v may; the first: %w", ErrEpisodes, n, of, r.opt.MaxErrors, cause)
}

// emit writes and hands on the results that are next in order. last includes the deferred ones.
func (r *run) emit(last bool) error {
	from := r.emitted
	for r.emitted < len(r.items) && r.results[r.emitted] != nil && (last || !r.results[r.emitted].deferred()) {
		r.emitted++
	}
	if r.opt.Output != nil && r.emitted > from {
		if err := r.opt.Output.write(r.results[from:r.emitted]); err != nil {
			return err
		}
	}
	for i := from; i < r.emitted; i++ {
		res := r.results[i]
		if r.opt.Each != nil {
			if err := r.opt.Each(i, res.t, res.tokens); err != nil {
				return err
			}
		}
		res.tokens = nil
	}
	return nil
}

// play opens a session and plays the items that are left.
func (r *run) play(ctx context.Context, p policy.Policy) (err error) {
	left := len(r.items) - r.prog.Done
	if left == 0 {
		return r.tooManyErrors()
	}
	d := newDriver(r.opt.StepDeadline)
	defer d.stop()
	var ses policy.Session
	if err := d.do(ctx, "open", func(ctx context.Context) (err error) {
		ses, err = p.Open(ctx, min(r.opt.Slots, left))
		return err
	}); err != nil {
		return err
	}
	bySlot := make([]*active, ses.Slots())
	defer func() {
		for _, s := range bySlot {
			if s != nil && s.ep != nil {
				err = errors.Join(err, s.ep.Close())
			}
		}
		if !errors.Is(err, ErrStuck) {
			// The session must be closed after the context has ended too.
			err = errors.Join(err, d.do(context.WithoutCancel(ctx), "close", func(context.Context) error { return ses.Close() }))
		}
	}()
	if len(bySlot) == 0 {
		return fmt.Errorf("%w: it granted no slots", ErrSession)
	}
	for {
		if err := r.fill(ctx, d, ses, bySlot); err != nil {
			return err
		}
		var slots []int
		for i, s := range bySlot {
			if s != nil {
				slots = append(slots, i)
			}
		}
		if len(slots) == 0 {
			return r.emit(true)
		}
		if err := r.barrier(ctx, d, ses, bySlot, slots); err != nil {
			return err
		}
	}
}

// fill starts the next episodes in the free slots: the first episode in the lowest slot.
func (r *run) fill(ctx context.Context, d *driver, ses policy.Session, bySlot []*active) error {
	var fresh []int
	for slot := range bySlot {
		for r.next < len(r.items) && r.results[r.next] != nil {
			r.next++
		}
		if bySlot[slot] != nil || r.next == len(r.items) {
			continue
		}
		bySlot[slot] = &active{item: r.next, key: r.key(r.next)}
		fresh = append(fresh, slot)
		r.next++
	}
	r.each(bySlot, fresh, func(_ int, s *active) {
		task := r.items[s.item].Task
		if s.prompt, s.err = r.suite.Prompt(task); s.err != nil {
			s.err = fmt.Errorf("task %s: prompt: %w", task.ID, s.err)
			return
		}
		s.ep, s.err = episode.New(r.suite, task, r.opt.Episode)
	})
	for _, slot := range fresh {
		s := bySlot[slot]
		if s.err != nil {
			return s.err
		}
		if err := d.do(ctx, "start of "+r.ids[s.item], func(context.Context) error { return ses.Start(slot, s.key, s.prompt) }); err != nil {
			return err
		}
	}
	return nil
}

// barrier lets every active episode take one turn.
func (r *run) barrier(ctx context.Context, d *driver, ses policy.Session, bySlot []*active, slots []int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var replies []policy.Reply
	if err := d.do(ctx, "step", func(ctx context.Context) (err error) {
		replies, err = ses.Step(ctx, slots)
		return err
	}); err != nil {
		return err
	}
	if len(replies) != len(slots) {
		return fmt.Errorf("%w: %d replies for %d slots", ErrSession, len(replies), len(slots))
	}
	r.each(bySlot, slots, func(i int, s *active) { r.act(ctx, s, replies[i]) })
	if err := r.collect(ctx, d, ses, bySlot, slots); err != nil {
		return err
	}
	for _, slot := range slots {
		if s := bySlot[slot]; s != nil {
			if err := d.do(ctx, "observation of "+r.ids[s.item], func(context.Context) error { return ses.Observe(slot, s.obs) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// act records the tokens of a reply and takes the episode's step.
func (r *run) act(ctx context.Context, s *active, reply policy.Reply) {
	if tok := reply.Tokens; tok != nil && reply.Err == nil {
		if s.tokens == nil {
			s.tokens = &trajectory.TokenRecord{EpisodeID: r.ids[s.item], PolicyVersion: r.opt.PolicyVersion}
		}
		s.tokens.Append(tok.Context...)
		if s.err = s.tokens.AppendSampled(tok.Sampled, tok.LogProbs); s.err != nil {
			return
		}
	}
	s.obs, _ = s.ep.Step(ctx, reply)
	if err := s.ep.Err(); errors.Is(err, episode.ErrFault) && ctx.Err() != nil {
		s.err = err // the end of the context interrupted the tool: the episode is not at fault
	}
}

// collect finishes the episodes that are done and frees their slots. It keeps all of them before it returns the first fault.
func (r *run) collect(ctx context.Context, d *driver, ses policy.Session, bySlot []*active, slots []int) error {
	var fault error
	finished := 0
	for _, slot := range slots {
		s := bySlot[slot]
		if s.err != nil {
			if fault == nil {
				fault = fmt.Errorf("episode %s: %w", r.ids[s.item], s.err)
			}
			continue
		}
		if !s.ep.Done() {
			continue
		}
		if err := r.finish(s); err != nil {
			return err
		}
		finished++
		bySlot[slot] = nil
		if err := d.do(ctx, "release", func(context.Context) error { ses.Release(slot); return nil }); err != nil && fault == nil {
			fault = err
		}
	}
	if err := r.emit(false); err != nil {
		return err
	}
	if finished > 0 {
		r.progress()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if fault == nil {
		fault = r.tooManyErrors()
	}
	return fault
}

// finish scores a finished episode. If earlier ones are still being played, it writes the episode to the pending file.
func (r *run) finish(s *active) error {
	t := s.ep.Result()
	if t.End == trajectory.Error {
		if r.cause == nil {
			r.cause = fmt.Errorf("episode %s: %w", r.ids[s.item], s.ep.Err())
		}
		closeWithin(s.ep, time.Second)
	} else if err := s.ep.Close(); err != nil {
		return fmt.Errorf("episode %s: tools: %w", r.ids[s.item], err)
	}
	s.ep = nil
	t.EpisodeID, t.Method, t.Model = r.ids[s.item], r.opt.Method, r.opt.Model
	t.Seed, t.Attempt, t.Decoding, t.Temperature = r.opt.Seed, s.key.Attempt, r.opt.Decoding, r.opt.Temperature
	reward.Apply(r.opt.Reward, &t)
	res := &result{t: t, tokens: s.tokens}
	r.results[s.item] = res
	r.count(t)
	if r.opt.Output != nil && !res.deferred() && !r.nextInOrder(s.item) {
		return r.opt.Output.writePending(res)
	}
	return nil
}

// closeWithin closes the tools of a failed episode. It waits no longer than timeout: a tool that hangs may never close.
func closeWithin(ep *episode.Episode, timeout time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ep.Close() // the episode already has an error
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// nextInOrder reports whether all earlier items are finished and not deferred, so that this one can be written at once.
func (r *run) nextInOrder(item int) bool {
	for i := r.emitted; i < item; i++ {
		if r.results[i] == nil || r.results[i].deferred() {
			return false
		}
	}
	return true
}

// each calls f for the active episodes of the slots, several at once. A panic becomes the episode's error.
func (r *run) each(bySlot []*active, slots []int, f func(i int, s *active)) {
	one := func(i int) {
		s := bySlot[slots[i]]
		defer func() {
			if v := recover(); v != nil {
				s.err = newPanic(v)
			}
		}()
		f(i, s)
	}
	workers := min(r.opt.Workers, len(slots))
	if workers <= 1 {
		for i := range slots {
			one(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(slots)); i = next.Add(1) - 1 {
				one(int(i))
			}
		})
	}
	wg.Wait()
}
