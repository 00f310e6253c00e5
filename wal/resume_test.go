package wal

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

func deleteOf(n int) *entry.Entry {
	return &entry.Entry{Deletes: []entry.Delete{{Database: 1, Shard: 1, Series: []byte{1, byte(n)}, Range: model.AllTime}}}
}

var resumeOptions = Options{SegmentBytes: 8 << 10}

// filled returns a disk on which a log takes no more writes, and what it has.
func filled(t *testing.T) (*vfstest.FS, map[uint64]string) {
	t.Helper()
	fs := vfstest.New()
	fs.SetLimit(20 << 10)
	opt := resumeOptions
	opt.FS = fs
	l, _ := open(t, opt)
	want := map[uint64]string{}
	for i := 0; ; i++ {
		e := entrytest.Note(entrytest.Series(1), 1, 700, fmt.Sprint(i))
		err := l.Append(e)
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want[e.Sequence] = entrytest.Text(e)
	}
	mustClose(t, l)
	return fs, want
}

// TestRestartsOnFullDisk: deletes find room in the log after every one of several
// restarts on a full disk, after a stop and after a crash.
func TestRestartsOnFullDisk(t *testing.T) {
	rng := newRand(t)
	for _, crash := range []bool{false, true} {
		fs, want := filled(t)
		for life := range 6 {
			fs.SetLimit(1)
			opt := resumeOptions
			opt.FS = fs
			l, got := open(t, opt)
			if !maps.Equal(got, want) || len(l.Damage()) != 0 {
				t.Fatalf("crash %v, life %d: replayed %d entries, want %d; damage %v", crash, life, len(got), len(want), l.Damage())
			}
			if err := l.Append(entrytest.Note(entrytest.Series(1), 1, 700, "no")); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("crash %v, life %d: a write on a full disk: %v", crash, life, err)
			}
			for i := range 3 {
				e := deleteOf(10*life + i)
				if err := l.Append(e); err != nil {
					t.Fatalf("crash %v, life %d: a delete on a full disk: %v", crash, life, err)
				}
				want[e.Sequence] = entrytest.Text(e)
			}
			if crash {
				left := fs.CrashLocked(rng, 0)
				mustClose(t, l)
				fs = left
			} else {
				mustClose(t, l)
			}
		}
		// With space again a new segment follows.
		fs.SetLimit(0)
		opt := resumeOptions
		opt.FS = fs
		l, _ := open(t, opt)
		for i := range 30 {
			e := entrytest.Note(entrytest.Series(2), 1, 700, fmt.Sprint("again", i))
			appended := mustAppend(t, l, e)
			want[e.Sequence] = appended
		}
		mustClose(t, l)
		l, got := open(t, opt)
		if !maps.Equal(got, want) || len(l.Damage()) != 0 {
			t.Errorf("crash %v: replayed %d entries, want %d; damage %v", crash, len(got), len(want), l.Damage())
		}
		mustClose(t, l)
	}
}

// TestResumeCrash cuts the power at every operation of a restart on a full disk
// and of the deletes after it, some of what was not synced kept: what was
// acknowledged is there, nothing is damaged, and deletes still find room.
func TestResumeCrash(t *testing.T) {
	rng := newRand(t)
	base, before := filled(t)
	crashes := 0
	for _, keep := range []float64{0, 0.3, 0.7, 1} {
		for n := 1; ; n++ {
			fs := base.Clone()
			fs.SetLimit(1)
			var left *vfstest.FS
			start := fs.Ops()
			var acked, at map[uint64]string
			acked = maps.Clone(before)
			fs.SetHook(func(op vfstest.Op) error {
				if left == nil && op.N-start >= n {
					left, at = fs.Crash(rng, keep), maps.Clone(acked)
				}
				if left != nil {
					return syscall.EIO
				}
				return nil
			})
			opt := resumeOptions
			opt.FS = fs
			if l, err := Open("w", opt); err == nil {
				if err = l.Replay(func(*entry.Entry) error { return nil }); err == nil {
					for i := 0; i < 3 && err == nil; i++ {
						e := deleteOf(i)
						if err = l.Append(e); err == nil {
							acked[e.Sequence] = entrytest.Text(e)
						}
					}
				}
				_ = l.Close()
			}
			fs.SetHook(nil)
			if left == nil {
				if n < 6 {
					t.Fatalf("only %d operations", n)
				}
				break
			}
			crashes++
			opt.FS = left
			again, got := open(t, opt)
			for seq, want := range at {
				if got[seq] != want {
					t.Fatalf("keep %v, operation %d: entry %d is %q, want %q", keep, n, seq, got[seq], want)
				}
			}
			if len(got) > len(at)+1 {
				t.Fatalf("keep %v, operation %d: %d entries, %d acknowledged", keep, n, len(got), len(at))
			}
			for _, d := range again.Damage() {
				if !d.Torn {
					t.Fatalf("keep %v, operation %d: %v", keep, n, d)
				}
			}
			// And once more on the full disk.
			left.SetLimit(1)
			e := deleteOf(99)
			if err := again.Append(e); err != nil {
				t.Fatalf("keep %v, operation %d: a delete after the crash: %v", keep, n, err)
			}
			got[e.Sequence] = entrytest.Text(e)
			mustClose(t, again)
			again, after := open(t, opt)
			if !maps.Equal(after, got) {
				t.Fatalf("keep %v, operation %d: %d entries, want %d", keep, n, len(after), len(got))
			}
			mustClose(t, again)
		}
	}
	t.Logf("%d crashes", crashes)
}
