package store

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

var troubleEvery = flag.Int("trouble-every", 29, "file operations from one trouble of TestDiskTrouble to the next")

// TestReadFaults fails the n-th read of a start and of the query after it, for
// every n: the start or the query fails with an error that names the place, or
// the answer is whole; nothing is set aside or cut for it, and the next start
// and query are right.
func TestReadFaults(t *testing.T) {
	d := makeDamaged(t)
	step := 1
	if testing.Short() {
		step = 9
	}
	starts, queries := 0, 0
	for n := 1; ; n += step {
		fs := d.fs.Clone()
		k, hit := 0, ""
		fs.SetReadHook(func(kind, path string) error {
			if k++; k == n {
				hit = path
				return syscall.EIO
			}
			return nil
		})
		s, err := Open("/data", testOptions(fs))
		if err != nil {
			if starts++; !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), hit) {
				t.Errorf("read %d, of %s: start: %v", n, hit, err)
			}
		} else {
			got, err := readAll(s, "db", false)
			if err != nil {
				if queries++; !strings.Contains(err.Error(), hit) {
					t.Errorf("read %d, of %s: query: %v", n, hit, err)
				}
				got, err = readAll(s, "db", false)
			}
			if err != nil {
				t.Errorf("read %d, of %s: next query: %v", n, hit, err)
			} else if text := diff(got, d.want); text != "" {
				t.Errorf("read %d, of %s:\n%s", n, hit, text)
			}
			if q := s.State().Quarantined; len(q) > 0 {
				t.Errorf("read %d, of %s: set aside: %v", n, hit, q)
			}
			if err := s.Close(); err != nil {
				t.Errorf("read %d, of %s: close: %v", n, hit, err)
			}
		}
		fs.SetReadHook(nil)
		s, err = Open("/data", testOptions(fs))
		if err != nil {
			t.Fatalf("read %d, of %s: next start: %v", n, hit, err)
		}
		got, err := readAll(s, "db", false)
		if err != nil {
			t.Fatalf("read %d, of %s: after the next start: %v", n, hit, err)
		}
		if text := diff(got, d.want); text != "" {
			t.Fatalf("read %d, of %s: after the next start:\n%s", n, hit, text)
		}
		if _, message := s.Health(); strings.Contains(message, "damaged") {
			t.Errorf("read %d, of %s: health says %s", n, hit, message)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if hit == "" {
			t.Logf("%d reads, %d failed starts, %d failed queries", k, starts, queries)
			return
		}
	}
}

// TestDiskTrouble has every change of the disk fail for a while, from the n-th
// on. What was acknowledged stays and can be read; a full disk or quota never
// makes the store read-only; when the disk is well again writes and flushes go
// on by themselves, or the store says that it is read-only. A power cut after
// that must find everything: what a failed sync left behind is not trusted.
func TestDiskTrouble(t *testing.T) {
	base := testseed.Of(t)
	step := *troubleEvery
	if testing.Short() {
		step = 61
	}
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT} {
		troubles, readOnly := 0, 0
		for n := 1; n < 420; n += step {
			for _, during := range []int{1, 40} {
				what := fmt.Sprintf("%v at %d operations from %d on, seed %d", errno, during, n, base)
				r := rand.New(rand.NewPCG(base, uint64(n)))
				fs := vfstest.New()
				s := openTest(t, fs, testOptions(fs))
				s.create("db")
				d := newDriver(s, r)
				start, hit := fs.Ops(), false
				fs.SetHook(func(op vfstest.Op) error {
					// A disk without space syncs and removes all the same.
					if vfs.IsFull(errno) && op.Kind != "write" && op.Kind != "create" && op.Kind != "mkdir" {
						return nil
					}
					if op.N-start < n || op.N-start >= n+during {
						return nil
					}
					hit = true
					what += fmt.Sprintf("; %s %s", op.Kind, op.Path)
					return errno
				})
				// What a log refused that has failed may be found in it again.
				maybe, gone := map[string][]string{}, map[string]bool{}
				for i := range 30 {
					err := d.step()
					maps.Copy(maybe, d.maybe)
					maps.Copy(gone, d.gone)
					if err != nil && vfs.IsFull(errno) && (!vfs.IsFull(err) || errors.Is(err, ErrReadOnly)) {
						t.Fatalf("%s: refused with %v", what, err)
					}
					if i%10 == 9 && err == nil {
						if err := d.check(s); err != nil {
							t.Fatalf("%s: %v", what, err)
						}
					}
				}
				fs.SetHook(nil)
				if hit {
					troubles++
				}
				if err := d.check(s); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				ok, message := s.Health()
				if s.failure.Load() != nil {
					if readOnly++; ok || vfs.IsFull(errno) {
						t.Fatalf("%s: health %v %s", what, ok, message)
					}
				} else {
					deadline := time.Now().Add(time.Minute)
					op := d.write()
					for err := op.run(); err != nil; err = op.run() {
						if time.Now().After(deadline) {
							t.Fatalf("%s: the disk is well, and a write is refused: %v", what, err)
						}
						time.Sleep(10 * time.Millisecond)
					}
					d.want = op.after
				}
				for _, e := range s.entries() {
					for range 3 { // after a failure, and once more for what came since
						s.flush(t.Context(), e)
					}
					if _, dirty := e.FirstUnflushed(); dirty {
						t.Fatalf("%s: shard %d cannot be flushed: %v", what, e.ID(), e.tries.failed)
					}
				}
				if err := s.catalog.Err(); err != nil && s.failure.Load() == nil {
					t.Fatalf("%s: the catalog cannot be saved: %v", what, err)
				}
				left := fs.CrashLocked(r, []float64{0, 0.5, 1}[r.IntN(3)])
				_ = s.Close()
				again := openTest(t, left, testOptions(left))
				if s.failure.Load() != nil {
					d.maybe, d.gone = maybe, gone
				}
				if err := d.check(again); err != nil {
					t.Fatalf("%s: after a power cut: %v", what, err)
				}
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%v: %d troubles, read-only after %d", errno, troubles, readOnly)
		if troubles == 0 {
			t.Errorf("%v: no trouble met", errno)
		}
	}
}
