package rollout

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// driver makes every call to a session from one goroutine of its own. A session that hangs then blocks only that goroutine, and
// the run can stop with an error that names the call.
type driver struct {
	deadline time.Duration
	calls    chan func()
	stuck    bool // a call did not return, so no other can be made
}

func newDriver(deadline time.Duration) *driver {
	d := &driver{deadline: deadline, calls: make(chan func())}
	go func() {
		for f := range d.calls {
			f()
		}
	}()
	return d
}

// stop ends the goroutine once its call, if any, has returned.
func (d *driver) stop() { close(d.calls) }

// do makes one call. Its errors wrap ErrSession, or are ErrStuck, or the cause of a context that ended.
func (d *driver) do(ctx context.Context, what string, f func(context.Context) error) error {
	if d.stuck {
		return fmt.Errorf("%s: %w", what, ErrStuck)
	}
	callCtx, cancel := context.WithTimeout(ctx, d.deadline)
	defer cancel()
	done := make(chan error, 1)
	d.calls <- func() {
		defer func() {
			if v := recover(); v != nil {
				done <- newPanic(v)
			}
		}()
		done <- f(callCtx)
	}
	var err error
	select {
	case err = <-done:
	case <-callCtx.Done():
		// A session that obeys its context returns about now.
		grace := time.NewTimer(min(d.deadline, 5*time.Second))
		defer grace.Stop()
		select {
		case err = <-done:
		case <-grace.C:
			d.stuck = true
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %w after it was told to stop: %w", what, ErrStuck, context.Cause(ctx))
			}
			return fmt.Errorf("%s: %w within %v", what, ErrStuck, d.deadline)
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case callCtx.Err() != nil:
		return fmt.Errorf("%s: %w within %v: %w", what, ErrStuck, d.deadline, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrSession, err)
}

// PanicError is a recovered panic. It wraps ErrPanic; Stack is for logs.
type PanicError struct {
	Value string
	Stack string
}

func newPanic(v any) *PanicError { return &PanicError{fmt.Sprint(v), string(debug.Stack())} }

func (e *PanicError) Error() string { return "panic: " + e.Value }

// Unwrap makes errors.Is(err, ErrPanic) hold.
func (e *PanicError) Unwrap() error { return ErrPanic }
