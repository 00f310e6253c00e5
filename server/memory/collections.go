package memory

import (
	"context"
	"runtime"
	"time"

	"tsdbd/internal/pulse"
)

// collections returns a channel that has a value after each garbage collection. As a
// collection may be noticed late, it has one after some time, too.
func collections(ctx context.Context) <-chan struct{} {
	over := make(chan struct{}, 1)
	tell := func() {
		select {
		case over <- struct{}{}:
		default:
		}
	}
	var await func(struct{})
	await = func(struct{}) {
		if ctx.Err() == nil {
			runtime.AddCleanup(new([4]uint64), await, struct{}{}) // which nothing refers to
			tell()
		}
	}
	await(struct{}{})
	go func() {
		tick := pulse.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				tell()
			}
		}
	}()
	return over
}
