// Package aside has a goroutine wait for what may take long, such as an object store or another
// query, without the turn in which it works.
//
// Queries work in turns, of which there is one for each core (admission.Cores). A query puts into
// its context how to wait without its turn, and whoever makes it wait below calls Wait. All
// goroutines that work with this context must have a turn. Who waits for its turn again must hold
// nothing for which others wait with theirs.
package aside

import "context"

type key struct{}

// Outside calls f, which may wait, without the turn of the calling goroutine.
type Outside func(ctx context.Context, f func() error) error

// With returns a context with which Wait calls outside.
func With(ctx context.Context, outside Outside) context.Context {
	return context.WithValue(ctx, key{}, outside)
}

// Wait calls f without the turn of the calling goroutine, if the context has one. An error is one
// of f, or of waiting for a turn again.
func Wait(ctx context.Context, f func() error) error {
	if outside, ok := ctx.Value(key{}).(Outside); ok {
		return outside(ctx, f)
	}
	return f()
}
