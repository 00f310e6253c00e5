package coldcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/object"
)

const (
	firstWait   = 50 * time.Millisecond // between attempts
	longestWait = 2 * time.Second
)

// run is one request for one range or some neighbors, and its attempts.
type run struct {
	o       *Object
	first   int64
	flights []*flight
	ctx     context.Context
	cancel  context.CancelFunc

	mu struct {
		sync.Mutex
		readers int   // that wait; a run ahead of readers is one itself
		left    bool  // there are none any more
		last    error // of the last attempt
	}
}

// flight is a range that a run fetches.
type flight struct {
	run  *run
	e    *entry
	done chan struct{} // closed when the range is there, or err is set
	err  error
}

// errAbandoned is the error of a run that all readers have left.
var errAbandoned = errors.New("nobody waits for the range any more")

// join adds a reader. It returns false if the run ends because all have left.
func (r *run) join() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.left {
		r.mu.readers++
	}
	return !r.mu.left
}

// leave takes a reader away. The last one ends the run.
func (r *run) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.readers--; r.mu.readers == 0 {
		r.mu.left = true
		r.cancel()
	}
}

func (r *run) lastError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.last
}

// start returns the flight of range first, which a run fetches with missing neighbors up to
// last. The caller has joined the run. It returns nil if the range is there.
func (o *Object) start(first, last int64) *flight {
	for {
		r, f := o.begin(first, last)
		if r != nil {
			o.c.runs.Go(func() { r.fetch(nil) })
			return f
		}
		if f == nil || f.run.join() {
			return f
		}
		<-f.done // soon: it has been left
	}
}

// startAhead starts a run for which nobody waits, if a buffer is free.
func (o *Object) startAhead(first, last int64) {
	select {
	case b := <-o.c.free:
		r, _ := o.begin(first, last)
		if r == nil {
			o.c.free <- b
			return
		}
		o.c.runs.Go(func() {
			defer r.leave()
			r.fetch(b)
		})
	default:
	}
}

// begin makes a run with one reader, for range first and missing neighbors up to last. If
// range first is not missing it returns no run, but the flight of it, if there is one.
func (o *Object) begin(first, last int64) (*run, *flight) {
	if o.c.ctx.Err() != nil {
		f := &flight{run: &run{o: o, cancel: func() {}}, done: make(chan struct{}), err: o.unreachable(errClosed)}
		close(f.done)
		return nil, f
	}
	r := &run{o: o, first: first}
	r.mu.readers = 1
	r.ctx, r.cancel = context.WithTimeout(o.c.ctx, o.c.opt.Timeout)
	for n := first; n <= last; n++ {
		f := &flight{run: r, done: make(chan struct{})}
		if e := o.c.table.begin(o.key(n), o.rangeSize(n), f); e == nil {
			r.flights = append(r.flights, f)
		} else if n > first {
			break
		} else {
			r.cancel()
			return nil, e.flight()
		}
	}
	return r, r.flights[0]
}

// unreachable returns the error of a read that the store has failed. The cause is a text
// alone: an object that the store lacks is no file that is gone, and its disk is not ours.
func (o *Object) unreachable(err error) error {
	return fmt.Errorf("%w: %s: %v", ErrUnreachable, o.name, err)
}

// ended returns why the context of the run has ended.
func (r *run) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.o.c.ctx.Err() != nil:
		return r.o.unreachable(errClosed)
	case r.mu.left:
		return errAbandoned
	case r.mu.last != nil:
		return r.o.unreachable(r.mu.last)
	}
	return r.o.unreachable(fmt.Errorf("no answer in %s", r.o.c.opt.Timeout))
}

// fetch fetches the ranges of the run, into b and other buffers.
func (r *run) fetch(b *buffer) {
	defer r.cancel()
	c, left := r.o.c, r.flights
	short := false
	for wait := firstWait; ; {
		if b == nil {
			select {
			case b = <-c.free:
			case <-r.ctx.Done():
				r.fail(left, r.ended())
				return
			}
		}
		n, err := r.get(left, b)
		b, left = nil, left[n:]
		if len(left) == 0 {
			return
		}
		if err == nil {
			continue // there were too few buffers for all
		}
		c.count.errors.Add(1)
		switch {
		case r.ctx.Err() != nil:
			r.fail(left, r.ended())
			return
		case errors.Is(err, object.ErrRefused), errors.Is(err, object.ErrNotFound):
			r.fail(left, r.o.unreachable(err))
			return
		case errors.Is(err, io.ErrUnexpectedEOF) && short:
			r.fail(left, binio.Corruptf(r.o.name, left[0].e.offset(), "object is shorter than its %d bytes: %v", r.o.size, err))
			return
		case errors.Is(err, io.ErrUnexpectedEOF):
			short = true
		}
		r.mu.Lock()
		r.mu.last = err
		r.mu.Unlock()
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
			wait = min(2*wait, longestWait)
		case <-r.ctx.Done():
			r.fail(left, r.ended())
			return
		}
	}
}

// get makes one request for the first of flights, as many as there are buffers. It returns
// how many have arrived.
func (r *run) get(flights []*flight, b *buffer) (n int, err error) {
	c := r.o.c
	buffers := []*buffer{b}
	for len(buffers) < len(flights) {
		select {
		case b := <-c.free:
			buffers = append(buffers, b)
			continue
		default:
		}
		break
	}
	defer func() {
		for _, b := range buffers[n:] {
			c.free <- b
		}
	}()
	length := int64(0)
	for _, f := range flights[:len(buffers)] {
		length += int64(f.e.size)
	}
	c.count.gets.Add(1)
	body, err := c.opt.Store.ReadRange(r.ctx, r.o.name, flights[0].e.offset(), length)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	for _, b := range buffers {
		f := flights[n]
		got, err := io.ReadFull(body, b.take(c, f.e.size))
		c.count.bytes.Add(int64(got))
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, err
		}
		n++
		c.arrive(f, b)
	}
	return n, nil
}

// fail ends flights with an error.
func (r *run) fail(flights []*flight, err error) {
	for _, f := range flights {
		f.err = err
		r.o.c.drop(f.e)
		close(f.done)
	}
}
