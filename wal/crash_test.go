package wal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// script runs appends, rotations, trims and a restart on fs and records what
// was acknowledged. Errors end it: the process is dead.
type script struct {
	offered map[uint64][]string // texts offered with this sequence, acknowledged or not
	acked   map[uint64]string
	trimmed uint64 // highest sequence given to Trim
}

const scriptSegment = 4 << 10

func (s *script) run(fs *vfstest.FS, rng *rand.Rand, lives int) error {
	for life := range lives {
		l, err := Open("w", Options{FS: fs, SegmentBytes: scriptSegment})
		if err != nil {
			return err
		}
		err = l.Replay(func(*entry.Entry) error { return nil })
		for i := 0; i < 14 && err == nil; i++ {
			e := entrytest.Note(entrytest.Series(uint32(1+rng.IntN(5))), 1, 20+rng.IntN(900), fmt.Sprintf("life %d entry %d ", life, i))
			next := l.Sequence() + 1
			s.offered[next] = append(s.offered[next], entrytest.Text(e))
			if err = l.Append(e); err == nil {
				s.acked[e.Sequence] = entrytest.Text(e)
			}
			if i%7 == 6 && err == nil {
				if s.trimmed = max(s.trimmed, l.Sequence()-uint64(min(int(l.Sequence()), 6))); err == nil {
					err = l.Trim(s.trimmed)
				}
			}
			if i == 10 && err == nil {
				err = l.Rotate()
			}
		}
		if cerr := l.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clone returns an independent script: what one power failure leaves is not
// what another leaves.
func (s *script) clone() *script {
	c := *s
	c.acked, c.offered = maps.Clone(s.acked), make(map[uint64][]string)
	for seq, texts := range s.offered {
		c.offered[seq] = slices.Clone(texts)
	}
	return &c
}

// check compares a log with what the script knows.
func (s *script) check(got map[uint64]string, damage []Damage) error {
	for seq, want := range s.acked {
		if seq <= s.trimmed {
			continue
		}
		if got[seq] != want {
			return fmt.Errorf("acknowledged entry %d: got %q, want %q", seq, got[seq], want)
		}
	}
	for seq, g := range got {
		if want, ok := s.acked[seq]; ok && g != want {
			return fmt.Errorf("entry %d: got %q, acknowledged %q", seq, g, want)
		}
		if !slices.Contains(s.offered[seq], g) {
			return fmt.Errorf("phantom entry %d: %q", seq, g)
		}
	}
	for _, d := range damage {
		if !d.Torn {
			return fmt.Errorf("a crash is told as damage: %+v", d)
		}
	}
	return nil
}

var errCrashed = errors.New("crashed")

// TestCrashEveryOperation stops the process at every operation that changes
// the file system, then lets the power fail three ways, reopens, compares,
// writes on, and crashes and compares again.
func TestCrashEveryOperation(t *testing.T) {
	rng := newRand(t)
	points := 0
	for n := int64(1); ; n++ {
		fs := vfstest.New()
		var count atomic.Int64
		fs.SetHook(func(vfstest.Op) error {
			if count.Add(1) >= n {
				return errCrashed
			}
			return nil
		})
		first := &script{offered: map[uint64][]string{}, acked: map[uint64]string{}}
		err := first.run(fs, rng, 3)
		if err == nil {
			break
		}
		if count.Load() < n {
			t.Fatalf("script failed by itself: %v", err)
		}
		for _, keep := range []float64{0, 0.5, 1} {
			points++
			s, c := first, fs.CrashLocked(rng, keep)
			if rng.IntN(2) == 0 {
				// Crash again within the recovery or soon after it.
				points++
				var more atomic.Int64
				limit := 1 + rng.Int64N(12)
				c.SetHook(func(vfstest.Op) error {
					if more.Add(1) >= limit {
						return errCrashed
					}
					return nil
				})
				s = s.clone()
				_ = s.run(c, rng, 1)
				c = c.CrashLocked(rng, keep)
			}
			l, got := open(t, Options{FS: c, SegmentBytes: scriptSegment})
			if err := s.check(got, l.Damage()); err != nil {
				t.Fatalf("crash at operation %d, keep %v: %v", n, keep, err)
			}
			want := maps.Clone(got)
			for i := range 3 {
				e := entrytest.Note(entrytest.Series(uint32(1+i)), 1, 100, "after the crash")
				w := mustAppend(t, l, e)
				want[e.Sequence] = w
			}
			again := c.CrashLocked(rng, 0)
			mustClose(t, l)
			l, got = open(t, Options{FS: again, SegmentBytes: scriptSegment})
			maps.DeleteFunc(want, func(seq uint64, _ string) bool { return seq <= s.trimmed })
			maps.DeleteFunc(got, func(seq uint64, _ string) bool { return seq <= s.trimmed })
			if !maps.Equal(got, want) {
				t.Fatalf("crash at operation %d, keep %v: second crash: %d entries, want %d", n, keep, len(got), len(want))
			}
			mustClose(t, l)
		}
	}
	t.Logf("%d crash points", points)
	if points < 300 {
		t.Errorf("only %d crash points", points)
	}
	checkGoroutines(t)
}

// TestCrashControl shows that the harness above can fail: without syncs a power
// failure must lose acknowledged entries.
func TestCrashControl(t *testing.T) {
	rng := newRand(t)
	fs := vfstest.New()
	l, _ := open(t, Options{FS: fs, SyncInterval: 1 << 40})
	s := &script{offered: map[uint64][]string{}, acked: map[uint64]string{}}
	for i := range 10 {
		e := entrytest.Note(entrytest.Series(1), 1, 100, fmt.Sprint(i))
		s.acked[uint64(i+1)] = mustAppend(t, l, e)
	}
	c, got := open(t, Options{FS: fs.CrashLocked(rng, 0)})
	if s.check(got, nil) == nil {
		t.Error("nothing was lost without syncs")
	}
	mustClose(t, c)
	mustClose(t, l)
}

// TestFaultEveryOperation fails every single operation once, with each error,
// and goes on: what is acknowledged before or after stays, what is refused for
// lack of space stays out.
func TestFaultEveryOperation(t *testing.T) {
	rng := newRand(t)
	faults := 0
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC, errShort} {
		for n := int64(1); ; n++ {
			fs := vfstest.New()
			var count atomic.Int64
			fs.SetHook(func(op vfstest.Op) error {
				if fault == errShort && op.Kind != "write" || count.Add(1) != n {
					return nil
				}
				if fault == errShort {
					return shortWrite(op)
				}
				return fault
			})
			acked, maybe := map[uint64]string{}, map[string]bool{}
			refused := map[string]bool{}
			trimmed := uint64(0)
			for life := range 2 {
				l, err := Open("w", Options{FS: fs, SegmentBytes: scriptSegment})
				if err != nil {
					continue
				}
				if l.Replay(func(*entry.Entry) error { return nil }) != nil {
					l.Close()
					continue
				}
				l.noBackoff = true
				for i := range 14 {
					e := entrytest.Note(entrytest.Series(uint32(1+rng.IntN(5))), 1, 20+rng.IntN(900), fmt.Sprintf("life %d entry %d ", life, i))
					switch err := l.Append(e); {
					case err == nil:
						acked[e.Sequence] = entrytest.Text(e)
					case l.Err() != nil:
						maybe[entrytest.Text(e)] = true
					default:
						refused[entrytest.Text(e)] = true
					}
					if i == 8 {
						trimmed = max(trimmed, l.Sequence()-min(l.Sequence(), 5))
						_ = l.Trim(trimmed)
					}
				}
				if l.Err() == nil && len(refused) > 2 {
					t.Fatalf("%v at operation %d: %d refused, the log did not recover", fault, n, len(refused))
				}
				_ = l.Close()
			}
			done := count.Load() < n
			fs.SetHook(nil)
			for _, keep := range []float64{0, 1} {
				l, got := open(t, Options{FS: fs.CrashLocked(rng, keep)})
				for seq, want := range acked {
					if seq > trimmed && got[seq] != want {
						t.Fatalf("%v at operation %d: entry %d: got %q, want %q", fault, n, seq, got[seq], want)
					}
				}
				for seq, g := range got {
					if refused[g] || acked[seq] != g && !maybe[g] {
						t.Fatalf("%v at operation %d: phantom %d: %q", fault, n, seq, g)
					}
				}
				mustClose(t, l)
			}
			faults++
			if done {
				break
			}
		}
	}
	t.Logf("%d faults", faults)
	checkGoroutines(t)
}

// TestCrashUnderLoad lets the power fail while writers append at the same
// time, so that groups of several entries tear, in recycled segments.
func TestCrashUnderLoad(t *testing.T) {
	rng := newRand(t)
	fs := vfstest.New()
	groups := uint64(0)
	s := &script{offered: map[uint64][]string{}, acked: map[uint64]string{}}
	for life := range 40 {
		l, got := open(t, Options{FS: fs, SegmentBytes: 16 << 10})
		for seq, want := range s.acked {
			if seq > s.trimmed && got[seq] != want {
				t.Fatalf("life %d: acknowledged entry %d: got %q, want %q", life, seq, got[seq], want)
			}
		}
		offered := map[string]bool{}
		for _, texts := range s.offered {
			for _, o := range texts {
				offered[o] = true
			}
		}
		for seq, g := range got {
			if s.acked[seq] != g && !offered[g] {
				t.Fatalf("life %d: phantom %d: %q", life, seq, g)
			}
			s.acked[seq] = g // from now on it must stay
		}
		for _, d := range l.Damage() {
			if !d.Torn {
				t.Fatalf("life %d: a crash is told as damage: %+v", life, d)
			}
		}
		var count atomic.Int64
		limit := 10 + rng.Int64N(150)
		fs.SetHook(func(op vfstest.Op) error {
			if op.Kind == "sync" {
				runtime.Gosched()
			}
			if count.Add(1) >= limit {
				return errCrashed
			}
			return nil
		})
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 8 {
			sizes := make([]int, 100)
			for i := range sizes {
				sizes[i] = rng.IntN(1500)
			}
			wg.Go(func() {
				for i, n := range sizes {
					e := entrytest.Note(entrytest.Series(uint32(1+(w+i)%9)), 1, n, fmt.Sprint("life ", life, " writer ", w, " entry ", i))
					mu.Lock()
					s.offered[0] = append(s.offered[0], entrytest.Text(e))
					mu.Unlock()
					if l.Append(e) != nil {
						return
					}
					mu.Lock()
					s.acked[e.Sequence] = entrytest.Text(e)
					if i == 20 && w == 0 {
						s.trimmed = e.Sequence - min(e.Sequence, 30)
						_ = l.Trim(s.trimmed)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for i, n := range l.Stats().GroupSizes {
			if i > 0 {
				groups += n
			}
		}
		fs = fs.CrashLocked(rng, rng.Float64())
		_ = l.Close()
	}
	if groups == 0 {
		t.Error("no group of several entries was written")
	}
	t.Logf("%d groups of several entries", groups)
	checkGoroutines(t)
}
