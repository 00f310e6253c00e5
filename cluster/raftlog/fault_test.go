package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

// TestFullDisk fills the disk: entries are refused, nothing of them comes back, and the log
// goes on when there is room.
func TestFullDisk(t *testing.T) {
	f, s := newLog(t, small)
	last, refused := uint64(0), 0
	f.SetLimit(200 << 10) // of which the base has 128 KiB
	for range 200 {
		err := s.StoreLogs(entries(last+1, last+3, 1))
		if err == nil {
			last += 3
			continue
		}
		if !vfs.IsFull(err) || s.Err() != nil {
			t.Fatalf("full disk: %v, %v", err, s.Err())
		}
		refused++
		must(t, compare(s, 1, last, always(1)))
		// A vote needs no space.
		must(t, s.SetUint64([]byte("CurrentTerm"), uint64(refused)))
		if refused == 5 {
			must(t, s.Close())
			s = mustOpen(t, f, small)
		}
	}
	if refused == 0 || last < 9 {
		t.Fatalf("%d entries, %d refusals", last, refused)
	}
	// An old base gives space back.
	must(t, s.SetBase(last-1, 1, 1, 0))
	st := s.Stats()
	must(t, s.StoreLogs(entries(last+1, last+3, 2)))
	f.SetLimit(0)
	must(t, s.StoreLogs(entries(last+4, last+50, 2)))
	for range 2 {
		must(t, compare(s, st.First, last+50, func(i uint64) uint64 {
			if i > last {
				return 2
			}
			return 1
		}))
		must(t, s.Close())
		s = mustOpen(t, f, small)
	}
}

// TestDeleteOnFullDisk deletes no entries while there is no room for those in their place.
func TestDeleteOnFullDisk(t *testing.T) {
	f, s := newLog(t, small)
	f.SetLimit(180 << 10)
	last := uint64(0)
	for s.StoreLog(&raft.Log{Index: last + 1, Term: 1, Data: make([]byte, 4500)}) == nil {
		last++
	}
	must(t, s.StoreLog(&raft.Log{Index: last + 1, Term: 1})) // for which there is room
	last++
	if err := s.DeleteRange(2, last); !vfs.IsFull(err) {
		t.Errorf("deleted on a full disk: %v", err)
	}
	if got, err := s.LastIndex(); got != last || err != nil {
		t.Errorf("last entry %d, %v, want %d", got, err, last)
	}
	f.SetLimit(0)
	must(t, s.DeleteRange(2, last))
	must(t, s.StoreLogs(entries(2, 9, 2)))
	must(t, s.Close())
	s = mustOpen(t, f, small)
	if st := s.Stats(); st.First != 1 || st.Last != 9 {
		t.Errorf("%+v", st)
	}
}

// TestShortWriteOnFullDisk ends a write in the middle for lack of space: the rest does not
// come back, neither at once nor after a start.
func TestShortWriteOnFullDisk(t *testing.T) {
	for cut := range 10 {
		for _, truncate := range []bool{false, true} {
			f, s := newLog(t, small)
			must(t, s.StoreLogs(entries(1, 9, 1)))
			refused := &raft.Log{Index: 10, Term: 1, Data: []byte(strings.Repeat("x", 5000))}
			size := batchSize(refused)
			if truncate {
				size = batchSize()
			}
			f.SetHook(func(op vfstest.Op) error {
				if op.Kind == "write" && strings.HasSuffix(op.Path, segmentSuffix) {
					return &vfstest.ShortWrite{Bytes: (size - sectorBytes) * cut / 10, Err: syscall.ENOSPC}
				}
				return nil
			})
			for range 2 {
				var err error
				if truncate {
					err = s.DeleteRange(5, 9)
				} else {
					err = s.StoreLog(refused)
				}
				if !vfs.IsFull(err) || s.Err() != nil {
					t.Fatalf("%v, %v", err, s.Err())
				}
				must(t, compare(s, 1, 9, always(1)))
				killed := mustOpen(t, f.Clone(), small)
				must(t, compare(killed, 1, 9, always(1)))
				must(t, killed.StoreLogs(entries(10, 11, 2)))
			}
			f.SetHook(nil)
			must(t, s.StoreLogs(entries(10, 10, 2))) // is shorter than what was refused
			for range 2 {
				must(t, compare(s, 1, 10, func(i uint64) uint64 { return 1 + i/10 }))
				must(t, s.Close())
				s = mustOpen(t, f, small)
			}
		}
	}
}

// TestFailedOperations fails every operation once, or from one on. Whatever is answered with
// nil stays. After a failed sync nothing is accepted until the log is opened again (W7).
func TestFailedOperations(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 7))
	todo := steps(r, model{}, 25)
	for n := r.IntN(stride()); ; n += stride() {
		f := vfstest.New()
		mustCreate(t, f, Base{})
		start, hit, what := f.Ops(), false, ""
		f.SetHook(func(op vfstest.Op) error {
			if at := op.N - start; at == n || at > n && n%2 == 0 {
				hit = true
				if at == n {
					what = op.Kind + " " + op.Path
				}
				return syscall.EIO
			}
			return nil
		})
		s, err := Open(f, testDir, small)
		var m model
		want := []model{m}
		if err == nil {
			for _, st := range todo {
				after := m.clone()
				st.then(&after)
				err := st.do(s)
				s.spare.running.Wait()
				if err == nil {
					m = after
					want = []model{m}
					continue
				}
				// The change may have happened on the disk or not, the log may go on or not. What
				// follows depends on it.
				want = []model{m, after}
				if s.Err() != nil {
					if again := st.do(s); again == nil && !strings.HasPrefix(st.name, "term") {
						t.Fatalf("%s failed, %s was accepted", what, st.name)
					}
				}
				break
			}
			_ = s.Close() // may fail as well
		}
		f.SetHook(nil)
		image{fs: f, at: fmt.Sprintf("operation %d: %s failed", n, what), want: want}.check(t)
		if !hit {
			return
		}
	}
}

// TestFailedSync fails one sync of a batch: the log is of no use until it is opened again.
func TestFailedSync(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 3, 1)))
	f.SetHook(func(op vfstest.Op) error {
		if op.Kind == "sync" {
			return syscall.EIO
		}
		return nil
	})
	first := s.StoreLogs(entries(4, 5, 1))
	f.SetHook(nil)
	if !errors.Is(first, syscall.EIO) {
		t.Fatal(first)
	}
	for _, err := range []error{s.StoreLogs(entries(4, 5, 1)), s.DeleteRange(2, 3), s.SetBase(2, 1, 20, 0), s.Err()} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("after a failed sync: %v", err)
		}
	}
	must(t, compare(s, 1, 3, always(1)))
	must(t, s.Close())
	s = mustOpen(t, f, small)
	last, err := s.LastIndex()
	must(t, err)
	if last != 3 && last != 5 {
		t.Errorf("%d entries", last)
	}
}

// TestConcurrentUse reads, as the goroutines of raft do, while the log grows, is cut, and
// loses its beginning.
func TestConcurrentUse(t *testing.T) {
	_, s := newLog(t, small)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 8))
			for !stop.Load() {
				first, _ := s.FirstIndex()
				last, _ := s.LastIndex()
				if last < first || first == 0 {
					continue
				}
				index := first + r.Uint64N(last-first+1)
				var l raft.Log
				if err := s.GetLog(index, &l); errors.Is(err, raft.ErrLogNotFound) {
					continue
				} else if err != nil || !sameLog(&l, entry(index, l.Term)) {
					t.Errorf("entry %d: %+v, %v", index, l, err)
					return
				}
				s.Configuration(index)
				s.Stats()
				s.Base()
				s.Damage()
			}
		})
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 9))
	m := model{}
	for _, st := range steps(r, m, 300) {
		must(t, st.do(s))
		st.then(&m)
	}
	stop.Store(true)
	wg.Wait()
	must(t, m.matches(s))
	must(t, s.Close())
}

// TestShortPadding ends a write behind its batch, in the zeros up to the end of the page:
// the batch is stored.
func TestShortPadding(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 9, 1)))
	size, short := batchSize(entries(10, 12, 1)...), false
	f.SetHook(func(op vfstest.Op) error {
		if op.Kind == "write" && strings.HasSuffix(op.Path, segmentSuffix) && op.Size > size {
			short = true
			return &vfstest.ShortWrite{Bytes: size, Err: syscall.ENOSPC}
		}
		return nil
	})
	must(t, s.StoreLogs(entries(10, 12, 1)))
	if !short {
		t.Fatal("no write went on behind its batch")
	}
	f.SetHook(nil)
	must(t, s.StoreLogs(entries(13, 14, 1)))
	must(t, compare(mustOpen(t, f.Clone(), small), 1, 14, always(1)))
}
