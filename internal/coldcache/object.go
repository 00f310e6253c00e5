package coldcache

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"tsdbd/internal/aside"
	"tsdbd/internal/binio"
)

// Object is an object of the store, read through the cache. It holds nothing.
type Object struct {
	c    *Cache
	name string
	id   objectID
	size int64
}

// objectID stands for the name of an object: the first bytes of its SHA-256.
type objectID [16]byte

func idOf(name string) (id objectID) {
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	return id
}

// Object returns an object of the store by its name and its size, which never change.
func (c *Cache) Object(name string, size int64) *Object {
	return &Object{c: c, name: name, id: idOf(name), size: size}
}

// Name returns the name of the object.
func (o *Object) Name() string { return o.name }

// ReadBody fills p with the bytes at offset off. It waits for the store if they are not
// cached, until the context or Options.Timeout ends.
func (o *Object) ReadBody(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > o.size || int64(len(p)) > o.size-off {
		return binio.Corruptf(o.name, off, "read of %d bytes of an object of %d bytes", len(p), o.size)
	}
	for expected := off; len(p) > 0; {
		at := off % rangeBytes
		if off >= expected {
			if err := o.Expect(ctx, off, len(p)); err != nil {
				return err
			}
			expected = off - at + maxRun*rangeBytes
		}
		part := p[:min(int64(len(p)), rangeBytes-at)]
		if err := o.read(ctx, off/rangeBytes, part, at); err != nil {
			return err
		}
		off, p = off+int64(len(part)), p[len(part):]
	}
	return nil
}

// Expect fetches the ranges of the n bytes at offset off in as few requests as possible, if
// they are more than one: the first few of them.
func (o *Object) Expect(ctx context.Context, off int64, n int) error {
	first, last := off/rangeBytes, (off+int64(n)-1)/rangeBytes
	if n <= 0 || first == last {
		return nil // the read does that
	}
	last = min(last, first+maxRun-1, o.last())
	var flights []*flight
	for at := first; at <= last; at++ {
		if e := o.c.table.find(o.key(at)); e != nil && e.there() {
			continue
		}
		if f := o.start(at, last); f != nil {
			o.c.count.misses.Add(1)
			flights = append(flights, f)
		}
	}
	var failed error
	for _, f := range flights {
		if err := o.wait(ctx, f); err != nil && !errors.Is(err, errAbandoned) && failed == nil {
			failed = err
		}
	}
	return failed
}

// ReadBodyAgain is ReadBody for bytes that were found wrong: it fetches them again.
func (o *Object) ReadBodyAgain(ctx context.Context, p []byte, off int64) error {
	for n := off / rangeBytes; len(p) > 0 && n <= (off+int64(len(p))-1)/rangeBytes; n++ {
		if e := o.c.table.find(o.key(n)); e != nil && e.there() { // else it is fetched now
			o.c.drop(e)
		}
	}
	return o.ReadBody(ctx, p, off)
}

func (o *Object) key(n int64) key { return key{o.id, uint32(n)} }

// last returns the number of the last range.
func (o *Object) last() int64 { return (o.size - 1) / rangeBytes }

// rangeSize returns the size of range n.
func (o *Object) rangeSize(n int64) int { return int(min(rangeBytes, o.size-n*rangeBytes)) }

// read copies bytes of one range.
func (o *Object) read(ctx context.Context, n int64, p []byte, at int64) error {
	missed := false
	for {
		if e := o.c.table.find(o.key(n)); e != nil {
			ok, first := e.read(o, p, at)
			if ok {
				if !missed {
					o.c.count.hits.Add(1)
				}
				if first {
					o.ahead(n)
				}
				return nil
			}
		}
		f := o.start(n, n)
		if f == nil {
			continue
		}
		if !missed {
			missed = true
			o.c.count.misses.Add(1)
		}
		if err := o.wait(ctx, f); err != nil && !errors.Is(err, errAbandoned) {
			return err
		}
	}
}

// ahead fetches ranges behind n, which is read for the first time, if reads have walked
// up to it.
func (o *Object) ahead(n int64) {
	walked := int64(0)
	for walked < aheadAfter*maxRun && n-walked > 0 {
		if e := o.c.table.find(o.key(n - walked - 1)); e == nil || !e.wasRead() {
			break
		}
		walked++
	}
	for at, last := n+1, min(n+walked/aheadAfter, o.last()); at <= last; at++ {
		o.startAhead(at, last)
	}
}

// wait waits for a flight that start has returned.
func (o *Object) wait(ctx context.Context, f *flight) error {
	defer f.run.leave()
	select {
	case <-f.done:
		return f.err
	default:
	}
	// If the context ends while the goroutine waits for its turn, who reads on finds that out.
	_ = aside.Wait(ctx, func() error {
		select {
		case <-f.done:
		case <-ctx.Done():
		}
		return nil
	})
	select {
	case <-f.done:
		return f.err
	default:
	}
	err := ctx.Err() // of the reader, not of the run
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("read cold storage: %s: %w", o.name, err)
	}
	if last := f.run.lastError(); last != nil {
		err = last
	}
	return o.unreachable(fmt.Errorf("no answer in time: %w", err))
}
