package coldcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"tsdbd/internal/aside"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model/point"
)

// A store that is away fails reads within the time, with the class and the name of the
// object; what is cached is read all the same; and all is well when the store is back.
func TestAway(t *testing.T) {
	s := newStore(3 * rangeBytes)
	c := open(t, s, func(o *Options) { o.Timeout = 300 * time.Millisecond })
	o := s.object(c, "objects/0")
	if err := s.read(t.Context(), o, 0, 10); err != nil {
		t.Fatal(err)
	}
	hang := func(ctx context.Context, _ string, _ int64, _ []byte) (io.Reader, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, f := range map[string]struct {
		fault func(ctx context.Context, name string, off int64, b []byte) (io.Reader, error)
		want  string
	}{
		"5xx": {func(context.Context, string, int64, []byte) (io.Reader, error) { return nil, object.ErrUnreachable }, "cannot be reached"},
		"refused": {func(context.Context, string, int64, []byte) (io.Reader, error) {
			return nil, fmt.Errorf("%w: expired", object.ErrRefused)
		}, "expired"},
		"hangs": {hang, "no answer in 300ms"},
		"breaks": {func(_ context.Context, _ string, _ int64, b []byte) (io.Reader, error) {
			return io.MultiReader(bytes.NewReader(b[:1000]), iotest.ErrReader(errors.New("connection reset"))), nil
		}, "connection reset"},
		"stalls": {func(ctx context.Context, _ string, _ int64, b []byte) (io.Reader, error) {
			return io.MultiReader(bytes.NewReader(b[:1000]), stalled{ctx}), nil
		}, "no answer in"},
	} {
		t.Run(name, func(t *testing.T) {
			s.setFault(f.fault)
			begin := time.Now()
			err := s.read(t.Context(), o, rangeBytes+5, 10)
			if !errors.Is(err, ErrUnreachable) || binio.Damaged(err) || errors.Is(err, context.DeadlineExceeded) ||
				!strings.HasPrefix(err.Error(), "cold storage unreachable: objects/0: ") || !strings.Contains(err.Error(), f.want) {
				t.Errorf("%v, want %q", err, f.want)
			}
			// The deadline of the reader is shorter.
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err = s.read(ctx, o, rangeBytes+5, 10)
			if !errors.Is(err, ErrUnreachable) || !point.Temporary(err) || name != "refused" && !strings.Contains(err.Error(), "no answer in time: ") {
				t.Errorf("with a deadline: %v", err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			if err := s.read(t.Context(), o, 7, 70); err != nil {
				t.Errorf("a cached range: %v", err)
			}
			s.setFault(nil)
			if err := s.read(t.Context(), o, rangeBytes+5, 10); err != nil {
				t.Errorf("when the store is back: %v", err)
			}
			if err := o.ReadBodyAgain(t.Context(), make([]byte, 1), rangeBytes); err != nil {
				t.Error(err)
			}
			c.drop(c.table.find(o.key(1)))
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.setFault(hang) // else the range may be there before the reader looks at its context
	if err := s.read(ctx, o, 2*rangeBytes, 10); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("canceled: %v", err)
	}
	s.setFault(nil)
	if err := s.read(t.Context(), c.Object("objects/none", 10), 0, 1); !errors.Is(err, ErrUnreachable) || binio.Damaged(err) || !strings.Contains(err.Error(), "not exist") {
		t.Errorf("no such object: %v", err)
	}
	c.runs.Wait()
	if n := s.inFlight.Load(); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}

// A reader waits for the store without its turn, and needs none for what is cached.
func TestWaitsWithoutTurn(t *testing.T) {
	s := newStore(2 * rangeBytes)
	c := open(t, s, nil)
	o := s.object(c, "objects/0")
	waiting := make(chan struct{}) // the store answers no earlier: else there is nothing to wait for
	s.setFault(func(_ context.Context, _ string, _ int64, b []byte) (io.Reader, error) {
		<-waiting
		return bytes.NewReader(b), nil
	})
	waits := 0
	ctx := aside.With(t.Context(), func(_ context.Context, f func() error) error {
		if waits++; waits == 1 {
			close(waiting)
		}
		return f()
	})
	for _, want := range []int{1, 1} {
		if err := s.read(ctx, o, 5, 10); err != nil || waits != want {
			t.Errorf("%d waits, want %d, %v", waits, want, err)
		}
	}
}

// stalled is an answer that does not go on.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// An object that is shorter than it must be is damage, named by the object.
func TestShort(t *testing.T) {
	s := newStore(3*rangeBytes, 3*rangeBytes)
	c := open(t, s, nil)
	o := c.Object("objects/0", 3*rangeBytes)
	s.objects["objects/0"] = s.objects["objects/0"][:2*rangeBytes+5]
	if err := s.read(t.Context(), o, 0, 2*rangeBytes); err != nil {
		t.Fatal(err)
	}
	err := o.ReadBody(t.Context(), make([]byte, 1), 2*rangeBytes)
	if d, ok := errors.AsType[*binio.CorruptError](err); !ok || d.Path != "objects/0" || errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	// A short answer alone is none.
	var n atomic.Int64
	s.setFault(func(_ context.Context, _ string, _ int64, b []byte) (io.Reader, error) {
		if n.Add(1) == 1 {
			b = b[:9]
		}
		return bytes.NewReader(b), nil
	})
	if err := s.read(t.Context(), s.object(c, "objects/1"), 100, 100); err != nil {
		t.Error(err)
	}
}

// Many readers of a range wait for one request, and it ends with the last of them.
func TestSharedFetch(t *testing.T) {
	s := newStore(2 * rangeBytes)
	c := open(t, s, nil)
	o := s.object(c, "objects/0")
	arrived, let := make(chan struct{}, 10), make(chan struct{})
	var ended atomic.Int64
	s.setFault(func(ctx context.Context, _ string, _ int64, b []byte) (io.Reader, error) {
		arrived <- struct{}{}
		select {
		case <-let:
			return bytes.NewReader(b), nil
		case <-ctx.Done():
			ended.Add(1)
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var canceled atomic.Int64
	for range 20 {
		wg.Go(func() {
			if err := s.read(ctx, o, 5, 5); errors.Is(err, context.Canceled) {
				canceled.Add(1)
			} else {
				t.Errorf("%v", err)
			}
		})
	}
	<-arrived
	cancel()
	wg.Wait()
	if canceled.Load() != 20 {
		t.Errorf("%d of 20 readers were canceled", canceled.Load())
	}
	// The next reader does not get the end of the others.
	wg.Go(func() {
		if err := s.read(t.Context(), o, 5, 5); err != nil {
			t.Error(err)
		}
	})
	<-arrived
	for range 20 {
		wg.Go(func() {
			if err := s.read(t.Context(), o, 500, 5); err != nil {
				t.Error(err)
			}
		})
	}
	close(let)
	wg.Wait()
	if n := s.gets.Load(); n > 2+canceled.Load() || ended.Load() == 0 || c.Stats().Gets > 22 {
		t.Errorf("%d requests, %d of them ended", n, ended.Load())
	}
}

// Reads that walk forward find the next ranges there, single reads fetch nothing more.
func TestReadAhead(t *testing.T) {
	s := newStore(40 * rangeBytes)
	c := open(t, s, nil)
	o := s.object(c, "objects/0")
	for _, at := range []int64{20, 21, 30, 7} {
		if err := s.read(t.Context(), o, at*rangeBytes+9, 10); err != nil {
			t.Fatal(err)
		}
	}
	c.runs.Wait()
	if n := s.gets.Load(); n != 4 {
		t.Errorf("%d requests for 4 single reads", n)
	}
	for off := int64(0); off < 12*rangeBytes; off += 100_000 {
		if err := s.read(t.Context(), o, off, 100_000); err != nil {
			t.Fatal(err)
		}
		c.runs.Wait()
	}
	if e := c.table.find(o.key(14)); e == nil || e.wasRead() || !e.there() {
		t.Error("nothing was read ahead")
	}
	if st := c.Stats(); st.Misses > 4+7 {
		t.Errorf("a walk waited for %d ranges", st.Misses-4)
	}
}

// A disk that is full keeps nothing: reads go on, a range at a time, and the bound of the
// memory holds. When there is room again, ranges are kept.
func TestFullDisk(t *testing.T) {
	s := newStore(6 * rangeBytes)
	fs := vfstest.New()
	c := open(t, s, func(o *Options) { o.FS, o.Dir, o.Parallel = fs, "/cache", 2 })
	o := s.object(c, "objects/0")
	fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "write" || op.Kind == "create" {
			return syscall.ENOSPC
		}
		return nil
	})
	for range 2 {
		for off := int64(0); off < o.size-1000; off += 1000 * 97 {
			if err := s.read(t.Context(), o, off, 1000); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.runs.Wait()
	if st := c.Stats(); st.BytesCached != 0 || st.Gets > 14 || len(c.free) != 2 {
		t.Errorf("%+v, %d buffers are free", st, len(c.free))
	}
	fs.SetHook(nil)
	for n := range int64(6) {
		if e := c.table.find(o.key(n)); e != nil {
			c.drop(e)
		}
		if err := s.read(t.Context(), o, n*rangeBytes, 100); err != nil {
			t.Fatal(err)
		}
	}
	c.runs.Wait()
	if st := c.Stats(); st.BytesCached != 6*fileBytes {
		t.Errorf("%+v", st)
	}
}

// After a power cut at any operation the cache opens and gives right bytes.
func TestCrash(t *testing.T) {
	s := newStore(4*rangeBytes+100, 2*rangeBytes)
	rng := rand.New(rand.NewPCG(testseed.Of(t), 3))
	for at := 1; ; at++ {
		fs := vfstest.New()
		if err := errors.Join(fs.MkdirAll("/cache"), fs.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		reached := false
		var mu sync.Mutex
		begin := 0
		fs.SetHook(func(op vfstest.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if begin == 0 {
				begin = op.N
			}
			if reached = reached || op.N >= begin+at; reached {
				return errors.New("power cut")
			}
			return nil
		})
		use := func(fs *vfstest.FS, size int64) error {
			c, err := Open(Options{FS: fs, Dir: "/cache", Size: size, Parallel: 1, Store: s})
			if err != nil {
				return err
			}
			defer func() {
				_ = c.Close() // the disk fails
			}()
			for _, r := range []struct {
				name string
				off  int64
			}{{"objects/0", 0}, {"objects/0", 2 * rangeBytes}, {"objects/1", rangeBytes}, {"objects/0", 4 * rangeBytes}, {"objects/0", 3 * rangeBytes}, {"objects/0", 100}} {
				if err := s.read(t.Context(), s.object(c, r.name), r.off, 90); err != nil {
					t.Fatalf("power cut at operation %d: %v", at, err)
				}
				c.runs.Wait()
			}
			return nil
		}
		err := use(fs, 3*fileBytes)
		for range 3 {
			if err := use(fs.Crash(rng, rng.Float64()), 3*fileBytes); err != nil {
				t.Fatalf("power cut at operation %d: %v", at, err)
			}
		}
		if !reached {
			if err != nil || at < 15 {
				t.Fatalf("%d operations, %v", at, err)
			}
			return
		}
	}
}
