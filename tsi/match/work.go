package match

import (
	"context"
	"errors"
)

// ErrBudget is returned for work that needs more steps than its Work allows.
var ErrBudget = errors.New("step budget exceeded")

// workSteps is how many steps lie between two looks at the context. A step
// takes some nanoseconds.
const workSteps = 1 << 16

// Work counts the steps of one goroutine's loops and stops them when its
// context ends or its steps are used up. A loop that it stopped has no result:
// its caller returns Err.
type Work struct {
	ctx     context.Context
	since   int // steps since the last look at ctx
	left    int
	limited bool
	err     error
}

// NewWork returns a Work without a limit of steps.
func NewWork(ctx context.Context) *Work { return &Work{ctx: ctx} }

// NewLimitedWork returns a Work that stops with ErrBudget after steps.
func NewLimitedWork(ctx context.Context, steps int) *Work {
	return &Work{ctx: ctx, left: steps, limited: true}
}

// Limited reports whether the steps are limited.
func (w *Work) Limited() bool { return w.limited }

// Err returns why the work was stopped, or nil.
func (w *Work) Err() error { return w.err }

// Done counts steps and reports whether to stop.
func (w *Work) Done(steps int) bool {
	if w.limited {
		if w.left -= steps; w.left < 0 && w.err == nil {
			w.err = ErrBudget
		}
	}
	if w.since += steps; w.since >= workSteps && w.err == nil {
		w.since = 0
		w.err = w.ctx.Err()
	}
	return w.err != nil
}
