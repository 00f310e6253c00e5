package wal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

func TestRoundTrip(t *testing.T) {
	rng := newRand(t)
	fs := vfstest.New()
	want := map[uint64]string{}
	w := entrytest.NewWorld(rng)
	for life := range 6 {
		l, got := open(t, Options{FS: fs, SegmentBytes: 32 << 10})
		if !maps.Equal(got, want) {
			t.Fatalf("life %d: replay of %d entries differs from the %d appended", life, len(got), len(want))
		}
		if len(l.Damage()) > 0 {
			t.Fatalf("damage: %+v", l.Damage())
		}
		for range 60 {
			e := w.Entry(30)
			s := mustAppend(t, l, e)
			want[e.Sequence] = s
		}
		if l.epoch != uint32(life+1) || l.Sequence() != uint64(len(want)) {
			t.Fatalf("epoch %d, sequence %d after %d entries in life %d", l.epoch, l.Sequence(), len(want), life)
		}
		mustClose(t, l)
	}
	checkGoroutines(t)
}

func TestReplaySharesSeriesAndLayouts(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs})
	s := entrytest.Series(7)
	mustAppend(t, l, entrytest.Note(s, 1, 10, "a"))
	mustClose(t, l)
	l, _ = open(t, Options{FS: fs})
	mustAppend(t, l, entrytest.Note(s, 1, 10, "b"))
	mustClose(t, l)
	l, err := Open("w", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var series []*point.Series
	var layouts []*point.Layout
	if err := l.Replay(func(e *entry.Entry) error {
		series = append(series, e.Writes[0].Rows[0].Series)
		layouts = append(layouts, e.Writes[0].Rows[0].Layout)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(series) != 2 || series[0] != series[1] || layouts[0] != layouts[1] || series[0].ID() != 7 || series[0].Key() != s.Key() {
		t.Fatalf("series %v layouts %v", series, layouts)
	}
}

func TestSplitEntry(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs})
	s := entrytest.Series(1)
	want := map[uint64]string{}
	for i, n := range []int{10, 5, 40, 3} {
		// Rows of 100 KB: entries of up to 4 MB, in up to 4 records.
		e := entrytest.Note(s, 1, 100_000, fmt.Sprint(i))
		for range n - 1 {
			e.Writes[0].Rows = append(e.Writes[0].Rows, e.Writes[0].Rows[0])
		}
		w := mustAppend(t, l, e)
		want[e.Sequence] = w
	}
	mustClose(t, l)
	l, got := open(t, Options{FS: fs})
	defer mustClose(t, l)
	if !maps.Equal(got, want) || len(l.Damage()) > 0 {
		t.Fatalf("got %d entries, damage %v", len(got), l.Damage())
	}
}

// TestApplyFails has an entry that cannot be applied: the log fails with it, applies nothing
// behind it, and has all of it after a reopening.
func TestApplyFails(t *testing.T) {
	fs := vfstest.New()
	var applied []uint64
	failures := 0
	l, _ := open(t, Options{FS: fs, OnFailure: func(error) { failures++ }, Apply: func(e *entry.Entry) error {
		if e.Sequence == 3 {
			return syscall.EIO
		}
		applied = append(applied, e.Sequence)
		return nil
	}})
	s := entrytest.Series(1)
	for i := range 5 {
		err := l.Append(entrytest.Note(s, 1, 10, fmt.Sprint(i)))
		if failed := i >= 2; failed != errors.Is(err, syscall.EIO) || !failed && err != nil {
			t.Errorf("append %d: %v", i+1, err)
		}
	}
	if failures != 1 || !errors.Is(l.Err(), syscall.EIO) || !slices.Equal(applied, []uint64{1, 2}) {
		t.Errorf("%d failures, %v, applied %v", failures, l.Err(), applied)
	}
	_ = l.Close()
	again, got := open(t, Options{FS: fs})
	defer mustClose(t, again)
	if len(got) != 3 || len(again.Damage()) > 0 {
		t.Errorf("reopened: %v, damage %v", got, again.Damage())
	}
}

func TestConcurrentWriters(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Millisecond} {
		rng := newRand(t)
		fs := vfstest.New()
		var applied atomic.Uint64
		opt := Options{FS: fs, SegmentBytes: 64 << 10, SyncInterval: interval, Apply: func(e *entry.Entry) error {
			if !applied.CompareAndSwap(e.Sequence-1, e.Sequence) {
				t.Errorf("applied %d after %d", e.Sequence, applied.Load())
			}
			return nil
		}}
		l, _ := open(t, opt)
		var mu sync.Mutex
		want := map[uint64]string{}
		var wg sync.WaitGroup
		for range 16 {
			var entries []*entry.Entry
			w := entrytest.NewWorld(rng)
			for range 40 {
				entries = append(entries, w.Entry(4))
			}
			// Worlds use the same ids for different keys; keep databases apart.
			base := uint32(rng.Uint32()>>4) << 2
			for _, e := range entries {
				for i := range e.Writes {
					e.Writes[i].Database += base
				}
			}
			wg.Go(func() {
				for _, e := range entries {
					if err := l.Append(e); err != nil {
						t.Error(err)
						return
					}
					if applied.Load() < e.Sequence {
						t.Errorf("append of %d returned before it was applied", e.Sequence)
					}
					mu.Lock()
					want[e.Sequence] = entrytest.Text(e)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		st := l.Stats()
		if st.Entries != 16*40 || st.Groups == 0 || st.BytesWritten == 0 || st.Segments < 2 {
			t.Errorf("stats %+v", st)
		}
		mustClose(t, l)
		l, got := open(t, Options{FS: fs})
		if !maps.Equal(got, want) || len(l.Damage()) > 0 {
			t.Errorf("replayed %d of %d entries, damage %v", len(got), len(want), l.Damage())
		}
		mustClose(t, l)
	}
	checkGoroutines(t)
}

func TestAppendRefuses(t *testing.T) {
	l, err := Open("w", Options{FS: vfstest.New()})
	if err != nil {
		t.Fatal(err)
	}
	s := entrytest.Series(1)
	if err := l.Append(entrytest.Note(s, 1, 1, "")); !errors.Is(err, errNotReplayed) {
		t.Errorf("append before replay: %v", err)
	}
	if err := l.Replay(nil); err != nil {
		t.Fatal(err)
	}
	long := point.NewSeries(strings.Repeat("k", model.MaxKeyLength+1))
	long.SetID(2)
	for name, change := range map[string]func(w *entry.Write){
		"no series":       func(w *entry.Write) { w.Rows[0].Series = nil },
		"no id":           func(w *entry.Write) { w.Rows[0].Series = point.NewSeries("x") },
		"long key":        func(w *entry.Write) { w.Rows[0].Series = long },
		"no layout":       func(w *entry.Write) { w.Rows[0].Layout = nil },
		"no fields":       func(w *entry.Write) { w.Rows[0].Layout = &point.Layout{} },
		"unknown type":    func(w *entry.Write) { w.Rows[0].Layout = &point.Layout{Fields: []column.Field{{Type: 9}}} },
		"values too few":  func(w *entry.Write) { w.Rows[0].First = 1 },
		"string too long": func(w *entry.Write) { w.Values[0] = column.StringWord(0, column.MaxStringLength+1) },
		"string outside":  func(w *entry.Write) { w.Values[0] = column.StringWord(5, 1) },
	} {
		e := entrytest.Note(s, 1, 5, "")
		change(&e.Writes[0])
		if err := l.Append(e); err == nil {
			t.Errorf("%s: appended", name)
		}
	}
	if l.Sequence() != 0 {
		t.Errorf("sequence %d after refusals", l.Sequence())
	}
	mustAppend(t, l, entrytest.Note(s, 1, 5, ""))
	mustClose(t, l)
	mustClose(t, l)
	if err := l.Append(entrytest.Note(s, 1, 5, "")); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if err := l.Rotate(); !errors.Is(err, ErrClosed) {
		t.Errorf("rotate after close: %v", err)
	}
}

func TestTrimAndRotate(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs, SegmentBytes: 8 << 10})
	s := entrytest.Series(1)
	want := map[uint64]string{}
	for i := range 50 {
		e := entrytest.Note(s, 1, 1000, fmt.Sprint(i))
		w := mustAppend(t, l, e)
		want[e.Sequence] = w
	}
	before := l.Stats()
	if before.Segments < 6 {
		t.Fatalf("%d segments", before.Segments)
	}
	if err := l.Trim(0); err != nil || l.Stats().Segments != before.Segments {
		t.Fatalf("trim of nothing: %v, %+v", err, l.Stats())
	}
	if err := l.Trim(25); err != nil {
		t.Fatal(err)
	}
	mid := l.Stats()
	if mid.Segments >= before.Segments || mid.Spares > maxSpares+1 {
		t.Fatalf("after trim: %+v", mid)
	}
	if err := l.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := l.Rotate(); err != nil { // the active one is empty: nothing to do
		t.Fatal(err)
	}
	if err := l.Trim(50); err != nil {
		t.Fatal(err)
	}
	if st := l.Stats(); st.Segments != 1 {
		t.Fatalf("after rotate and trim: %+v", st)
	}
	mustClose(t, l)
	l, got := open(t, Options{FS: fs, SegmentBytes: 8 << 10})
	if len(got) != 0 || l.Sequence() != 50 || len(l.Damage()) != 0 {
		t.Fatalf("%d entries after trim, sequence %d, damage %v", len(got), l.Sequence(), l.Damage())
	}
	if err := l.Trim(100); err != nil {
		t.Fatal(err)
	}
	if len(segments(fs)) != 1 {
		t.Fatalf("the newest segment was trimmed: %v", segments(fs))
	}
	e := entrytest.Note(s, 1, 10, "next")
	mustAppend(t, l, e)
	if e.Sequence != 51 {
		t.Fatalf("sequence %d", e.Sequence)
	}
	mustClose(t, l)
	_ = want
}

func TestAdvance(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs})
	s := entrytest.Series(1)
	mustAppend(t, l, entrytest.Note(s, 1, 10, "a"))
	mustClose(t, l)
	l, _ = open(t, Options{FS: fs})
	if err := l.Advance(100); err != nil {
		t.Fatal(err)
	}
	e := entrytest.Note(s, 1, 10, "b")
	mustAppend(t, l, e)
	if e.Sequence != 101 {
		t.Fatalf("sequence %d", e.Sequence)
	}
	if err := l.Advance(200); err == nil {
		t.Fatal("advanced an active log")
	}
	mustClose(t, l)
	l, got := open(t, Options{FS: fs})
	defer mustClose(t, l)
	if len(got) != 2 || got[101] == "" || len(l.Damage()) != 0 {
		t.Fatalf("got %d, damage %v", len(got), l.Damage())
	}
}

// TestRecycledSegments runs through many lives of the same files and compares
// after each crash: nothing of an older life may come back.
func TestRecycledSegments(t *testing.T) {
	rng := newRand(t)
	fs := vfstest.New()
	s := entrytest.Series(1)
	want := map[uint64]string{}
	trimmed := uint64(0)
	stale := 0
	for life := range 40 {
		l, got := open(t, Options{FS: fs, SegmentBytes: 4 << 10})
		for seq := range got {
			if seq <= trimmed {
				delete(got, seq) // a segment goes as a whole
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("life %d: %d entries, want %d", life, len(got), len(want))
		}
		for _, d := range l.Damage() {
			t.Fatalf("life %d: damage %+v", life, d)
		}
		for i := range 10 + rng.IntN(20) {
			e := entrytest.Note(s, 1, 50+rng.IntN(400), fmt.Sprint(life, i))
			w := mustAppend(t, l, e)
			want[e.Sequence] = w
		}
		for _, name := range segments(fs) {
			if data := fs.Content(name); !allZero(data[min(recordsEnd(data)+2*recordHeaderSize, len(data)):]) {
				stale++
			}
		}
		trimmed = l.Sequence() - uint64(rng.IntN(10))
		if err := l.Trim(trimmed); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(want, func(seq uint64, _ string) bool { return seq <= trimmed })
		crashed := fs.CrashLocked(rng, 0)
		mustClose(t, l)
		fs = crashed
	}
	if stale == 0 {
		t.Fatal("no segment held bytes of an older life: the test tests nothing")
	}
}

func TestNoSpaceForSegment(t *testing.T) {
	fs := vfstest.New()
	fs.SetLimit(40 << 10)
	var applied []uint64
	failures := 0
	l, _ := open(t, Options{
		FS: fs, SegmentBytes: 8 << 10,
		Apply:     func(e *entry.Entry) error { applied = append(applied, e.Sequence); return nil },
		OnFailure: func(error) { failures++ },
	})
	s := entrytest.Series(1)
	want := map[uint64]string{}
	refused := 0
	var full error
	for i := range 100 {
		e := entrytest.Note(s, 1, 700, fmt.Sprint(i))
		if err := l.Append(e); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			if e.Sequence != 0 {
				t.Fatal("refused entry kept a sequence")
			}
			refused++
			full = err
			continue
		}
		if full != nil {
			t.Fatal("appended without space")
		}
		want[e.Sequence] = entrytest.Text(e)
	}
	if refused == 0 || l.Err() != nil || failures != 0 || l.Stats().Refused != uint64(refused) {
		t.Fatalf("refused %d, err %v, failures %d", refused, l.Err(), failures)
	}
	// Rows that let others expire may have half of the room that is kept, and leave some for
	// the commands that say so, which leave some for drops.
	for _, c := range []struct {
		what string
		next func(n int) *entry.Entry
	}{
		{"rows", func(n int) *entry.Entry {
			e := entrytest.Note(s, 1, 10, fmt.Sprint("aggregate", n))
			e.Reserve = 2
			return e
		}},
		{"commands", func(int) *entry.Entry { return &entry.Entry{Command: make([]byte, 40), Reserve: 3} }},
	} {
		n := 0
		for ; n < 1000; n++ {
			e := c.next(n)
			if err := l.Append(e); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				break
			}
			want[e.Sequence] = entrytest.Text(e)
		}
		if n == 0 || n == 1000 {
			t.Fatalf("%d %s that make room", n, c.what)
		}
	}
	// Deletes still find room.
	d := &entry.Entry{Deletes: []entry.Delete{{Database: 1, Shard: 1, Series: []byte{1}, Range: model.AllTime}}}
	if err := l.Append(d); err != nil {
		t.Fatalf("delete on a full disk: %v", err)
	}
	want[d.Sequence] = entrytest.Text(d)
	// And so do commands that make room, but no others.
	if err := l.Append(&entry.Entry{Command: make([]byte, 800)}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("command on a full disk: %v", err)
	}
	drop := &entry.Entry{Command: make([]byte, 200), Reserve: 4}
	if err := l.Append(drop); err != nil {
		t.Fatalf("drop on a full disk: %v", err)
	}
	want[drop.Sequence] = entrytest.Text(drop)
	// And so do writes once there is space again.
	fs.SetLimit(0)
	time.Sleep(retryAfter + 10*time.Millisecond)
	for i := range 20 {
		e := entrytest.Note(s, 1, 700, fmt.Sprint("again", i))
		w := mustAppend(t, l, e)
		want[e.Sequence] = w
	}
	if len(applied) != len(want) {
		t.Fatalf("applied %d, want %d", len(applied), len(want))
	}
	mustClose(t, l)
	l, got := open(t, Options{FS: fs})
	defer mustClose(t, l)
	if !maps.Equal(got, want) || len(l.Damage()) != 0 {
		t.Fatalf("replayed %d, want %d; damage %v", len(got), len(want), l.Damage())
	}
}

// TestNoSpaceInSegment is the case of a file system that allocates on
// overwrite: the write of a group stops in the middle. Half of its entries are
// whole in the file, but all were refused: none may return.
func TestNoSpaceInSegment(t *testing.T) {
	for _, scrubWorks := range []bool{true, false} {
		fs := vfstest.New()
		var hold, full atomic.Bool
		held := make(chan struct{})
		fs.SetHook(func(op vfstest.Op) error {
			if op.Kind != "write" || !strings.HasSuffix(op.Path, segmentSuffix) {
				return nil
			}
			if hold.Swap(false) {
				<-held // while the others gather in the queue
				full.Store(true)
				return nil
			}
			if full.Load() {
				full.Store(!scrubWorks)
				return shortWrite(op)
			}
			return nil
		})
		l, _ := open(t, Options{FS: fs})
		s := entrytest.Series(1)
		want := map[uint64]string{}
		ok := func(e *entry.Entry) {
			t.Helper()
			w := mustAppend(t, l, e)
			want[e.Sequence] = w
		}
		ok(entrytest.Note(s, 1, 600, "before"))
		hold.Store(true)
		var wg sync.WaitGroup
		held1 := entrytest.Note(s, 1, 600, "first")
		wg.Go(func() { mustAppend(t, l, held1) })
		for hold.Load() {
			time.Sleep(time.Millisecond)
		}
		for i := range 6 {
			wg.Go(func() {
				if err := l.Append(entrytest.Note(entrytest.Series(uint32(2+i)), 1, 1000, "refused")); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("append: %v", err)
				}
			})
		}
		for l.Stats().Queued < 6 {
			time.Sleep(time.Millisecond)
		}
		held <- struct{}{}
		wg.Wait()
		want[held1.Sequence] = entrytest.Text(held1)
		if !scrubWorks {
			if err := l.Append(entrytest.Note(s, 1, 10, "refused")); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("append before the scrub: %v", err)
			}
			full.Store(false)
		} else if c, got := open(t, Options{FS: fs.CrashLocked(newRand(t), 1)}); !maps.Equal(got, want) || len(c.Damage()) != 0 {
			t.Fatalf("replayed %d, want %d; damage %+v", len(got), len(want), c.Damage())
		} else {
			mustClose(t, c)
		}
		ok(entrytest.Note(s, 1, 10, "after"))
		// Its series was not defined: the refused entry's definition is gone.
		ok(entrytest.Note(entrytest.Series(2), 1, 10, "after"))
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		c, got := open(t, Options{FS: fs.CrashLocked(newRand(t), 1)})
		if !maps.Equal(got, want) || len(c.Damage()) != 0 {
			t.Fatalf("replayed %d, want %d; damage %+v", len(got), len(want), c.Damage())
		}
		mustClose(t, c)
		mustClose(t, l)
	}
	checkGoroutines(t)
}

func TestFailureIsSticky(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			fs := vfstest.New()
			var broken atomic.Bool
			fs.SetHook(func(o vfstest.Op) error {
				if broken.Load() && o.Kind == op && strings.HasSuffix(o.Path, segmentSuffix) {
					return syscall.EIO
				}
				return nil
			})
			var failures, applied atomic.Int32
			l, _ := open(t, Options{FS: fs, OnFailure: func(error) { failures.Add(1) }, Apply: func(*entry.Entry) error { applied.Add(1); return nil }})
			s := entrytest.Series(1)
			want := map[uint64]string{}
			for i := range 5 {
				e := entrytest.Note(s, 1, 10, fmt.Sprint(i))
				w := mustAppend(t, l, e)
				want[e.Sequence] = w
			}
			broken.Store(true)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := l.Append(entrytest.Note(s, 1, 10, "lost")); !errors.Is(err, syscall.EIO) {
						t.Errorf("append: %v", err)
					}
				})
			}
			wg.Wait()
			broken.Store(false) // the disk is well again, the log stays down
			if err := l.Append(entrytest.Note(s, 1, 10, "lost")); !errors.Is(err, syscall.EIO) {
				t.Errorf("append after failure: %v", err)
			}
			if err := l.Rotate(); !errors.Is(err, syscall.EIO) {
				t.Errorf("rotate after failure: %v", err)
			}
			if l.Err() == nil || failures.Load() != 1 || applied.Load() != 5 {
				t.Errorf("err %v, %d failures, %d applied", l.Err(), failures.Load(), applied.Load())
			}
			mustClose(t, l)
			l, got := open(t, Options{FS: fs.CrashLocked(newRand(t), 0)})
			if !maps.Equal(got, want) {
				t.Errorf("replayed %d, want %d", len(got), len(want))
			}
			mustAppend(t, l, entrytest.Note(s, 1, 10, "works"))
			mustClose(t, l)
		})
	}
	checkGoroutines(t)
}

func TestSyncInterval(t *testing.T) {
	fs := vfstest.New()
	var syncs atomic.Int32
	fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "sync" && strings.HasSuffix(op.Path, segmentSuffix) {
			syncs.Add(1)
		}
		return nil
	})
	l, _ := open(t, Options{FS: fs, SyncInterval: 100 * time.Millisecond})
	s := entrytest.Series(1)
	for i := range 200 {
		mustAppend(t, l, entrytest.Note(s, 1, 10, fmt.Sprint(i)))
	}
	if n := syncs.Load(); n > 100 {
		t.Errorf("%d syncs for 200 entries", n)
	}
	for deadline := time.Now().Add(time.Minute); l.dirty() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	c, got := open(t, Options{FS: fs.CrashLocked(newRand(t), 0)})
	if len(got) != 200 {
		t.Errorf("%d of 200 entries durable after the interval", len(got))
	}
	mustClose(t, c)
	mustClose(t, l)
}

func TestOperatingSystemFiles(t *testing.T) {
	dir := t.TempDir()
	s := entrytest.Series(1)
	for life := range 3 {
		l, err := Open(dir+"/wal", Options{SegmentBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := l.Replay(func(*entry.Entry) error { n++; return nil }); err != nil || n != life*100 {
			t.Fatalf("replayed %d: %v", n, err)
		}
		for i := range 100 {
			mustAppend(t, l, entrytest.Note(s, 1, 2000, fmt.Sprint(i)))
		}
		mustClose(t, l)
	}
}

// TestCloseSyncsOnFullDisk closes a log of relaxed durability when the last
// write was refused and cannot be overwritten either, for lack of space: what
// was accepted before must be durable then, as no later sync comes.
func TestCloseSyncsOnFullDisk(t *testing.T) {
	fs := vfstest.New()
	opt := Options{FS: fs, SyncInterval: time.Hour}
	l, _ := open(t, opt)
	s := entrytest.Series(1)
	want := map[uint64]string{1: mustAppend(t, l, entrytest.Note(s, 1, 100, "accepted"))}
	fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := l.Append(entrytest.Note(s, 1, 100, "refused")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append on a full disk: %v", err)
	}
	mustClose(t, l)
	left := fs.CrashLocked(newRand(t), 0)
	l, got := open(t, Options{FS: left})
	defer l.Close()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("entries %v, want %v", got, want)
	}
}

// TestLongCommand cuts a command into several records, between other entries.
func TestLongCommand(t *testing.T) {
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs})
	want := map[uint64]string{}
	for _, e := range []*entry.Entry{
		entrytest.Note(entrytest.Series(1), 1, 10, "before"),
		{Command: []byte(strings.Repeat("x", 2*maxPayload+1))},
		entrytest.Note(entrytest.Series(1), 1, 10, "after"),
	} {
		s := mustAppend(t, l, e)
		want[e.Sequence] = s
	}
	mustClose(t, l)
	l, got := open(t, Options{FS: fs})
	mustClose(t, l)
	if !maps.Equal(got, want) || len(l.Damage()) != 0 {
		t.Fatalf("%d entries of %d, damage %v", len(got), len(want), l.Damage())
	}
}

// TestLogsShareNothing: what a log in a bubble of testing/synctest leaves is no part of a
// log outside of it.
func TestLogsShareNothing(t *testing.T) {
	appends := func(t *testing.T) {
		l, _ := open(t, Options{FS: vfstest.New()})
		for range 10 {
			mustAppend(t, l, entrytest.Note(entrytest.Series(1), 1, 10, "a"))
			if err := l.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, l)
	}
	synctest.Test(t, appends)
	appends(t)
}
