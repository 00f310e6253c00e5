package object

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
)

// clocked is a store whose clock is ahead, and which may fail.
type clocked struct {
	Store
	ahead   atomic.Int64
	failing atomic.Bool
	lax     bool // replaces objects
}

func (c *clocked) Stat(ctx context.Context, name string) (Info, error) {
	i, err := c.Store.Stat(ctx, name)
	i.Age = time.Duration(c.ahead.Load()) // the file system in memory has no clock
	return i, err
}

func (c *clocked) Put(ctx context.Context, name string, b Content) error {
	if c.failing.Load() {
		return ErrUnreachable
	}
	if c.lax {
		_ = c.Store.Delete(ctx, name)
	}
	return c.Store.Put(ctx, name, b)
}

func (c *clocked) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if c.failing.Load() {
		return nil, ErrUnreachable
	}
	return c.Store.ReadRange(ctx, name, offset, length)
}

func newClocked() *clocked { return &clocked{Store: OpenDir(vfstest.New(), "/s")} }

func acquire(t *testing.T, s Store, owner string, opt LeaseOptions) *Lease {
	t.Helper()
	opt.Owner = owner
	l, err := Acquire(t.Context(), s, "lease", opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLease(t *testing.T) {
	s := newClocked()
	a := acquire(t, s, "a", LeaseOptions{Holder: "x"})
	if _, err := Acquire(t.Context(), s, "lease", LeaseOptions{Owner: "b", Holder: "y"}); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "in use by a") {
		t.Fatalf("a second owner: %v", err)
	}
	if err := a.Held(); err != nil {
		t.Fatal(err)
	}
	// A silent owner: its lease is old by the clock of the store.
	s.ahead.Store(int64(4 * time.Minute))
	if _, err := Acquire(t.Context(), s, "lease", LeaseOptions{Owner: "b"}); !errors.Is(err, ErrHeld) {
		t.Fatalf("after 4 minutes: %v", err)
	}
	s.ahead.Store(int64(5 * time.Minute))
	b := acquire(t, s, "b", LeaseOptions{})
	s.ahead.Store(0)
	if err := a.Held(); !errors.Is(err, ErrLost) {
		t.Errorf("the silent owner wakes up: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Held(); err != nil {
		t.Errorf("after the close of the one that was lost: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// A released lease is free at once; numbers go on.
	c := acquire(t, s, "c", LeaseOptions{Holder: "x"})
	// The process of c ends without a release. The same holder need not wait.
	c.stop()
	c.ended.Wait()
	d := acquire(t, s, "d", LeaseOptions{Holder: "x"})
	if err := c.Held(); !errors.Is(err, ErrLost) {
		t.Errorf("taken over by the same holder: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := s.List(t.Context(), "lease"); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLeaseAfterLongStop wakes an owner up after others have had the lease and are gone.
func TestLeaseAfterLongStop(t *testing.T) {
	s := newClocked()
	a := acquire(t, s, "a", LeaseOptions{})
	s.ahead.Store(int64(time.Hour))
	for _, name := range []string{"b", "c", "d"} {
		if err := acquire(t, s, name, LeaseOptions{}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	// The number that comes next for a was given and removed meanwhile.
	if err := a.renew(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("renewed a lease that others have had: %v", err)
	}
	if err := a.Held(); !errors.Is(err, ErrLost) {
		t.Errorf("held: %v", err)
	}
}

// TestLeaseRenews keeps a lease that others would take over soon.
func TestLeaseRenews(t *testing.T) {
	s := newClocked()
	a := acquire(t, s, "a", LeaseOptions{TTL: 50 * time.Millisecond})
	first := a.name(1)
	for range 1000 {
		time.Sleep(5 * time.Millisecond)
		if _, err := s.Store.Stat(t.Context(), first); errors.Is(err, ErrNotFound) {
			break
		}
	}
	if _, err := s.Store.Stat(t.Context(), first); !errors.Is(err, ErrNotFound) {
		t.Fatalf("it was never renewed: %v", err)
	}
	// The store is away: the owner cannot say that it has the lease.
	s.failing.Store(true)
	a.mu.Lock()
	a.mu.renewed = time.Now().Add(-time.Minute)
	a.mu.Unlock()
	if err := a.Held(); err == nil {
		t.Error("held without an answer of the store")
	}
	s.failing.Store(false)
	if err := a.Held(); err != nil {
		t.Errorf("the store is back: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestLeaseOfOne has many ask at the same time.
func TestLeaseOfOne(t *testing.T) {
	s := newClocked()
	var held, most atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				l, err := Acquire(context.Background(), s, "lease", LeaseOptions{})
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := held.Add(1); n > 1 {
					t.Errorf("%d have the lease", n)
				}
				most.Add(1)
				held.Add(-1)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() == 0 {
		t.Error("nobody had the lease")
	}
}

// TestLeaseNeedsConditions refuses a store that replaces objects.
func TestLeaseNeedsConditions(t *testing.T) {
	s := newClocked()
	s.lax = true
	if _, err := Acquire(t.Context(), s, "lease", LeaseOptions{}); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}
