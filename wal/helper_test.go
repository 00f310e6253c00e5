package wal

import (
	"errors"
	"flag"
	"math/rand/v2"
	"path"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

var updateFlag = flag.Bool("update", false, "rewrite golden files and generated documentation")

// newRand returns a generator whose seed is printed when the test fails.
func newRand(t testing.TB) *rand.Rand {
	seed := testseed.Of(t)
	return rand.New(rand.NewPCG(seed, 1))
}

// segments returns the paths of the segment files in "w".
func segments(fs *vfstest.FS) []string {
	var out []string
	names, _ := fs.List("w")
	for _, n := range names {
		if strings.HasSuffix(n, segmentSuffix) {
			out = append(out, path.Join("w", n))
		}
	}
	return out
}

func put(t testing.TB, fs *vfstest.FS, name string, data []byte) {
	t.Helper()
	if err := fs.Put(name, data); err != nil {
		t.Fatal(err)
	}
}

// errShort stands for writes that stop in the middle, out of space.
var errShort = errors.New("short write")

func shortWrite(op vfstest.Op) error {
	return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: syscall.ENOSPC}
}

// open opens a log in "w" of fs and replays it; the texts of its entries are
// returned by sequence.
func open(t testing.TB, opt Options) (*Log, map[uint64]string) {
	t.Helper()
	l, err := Open("w", opt)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]string{}
	last := uint64(0)
	if err := l.Replay(func(e *entry.Entry) error {
		if e.Sequence <= last {
			t.Errorf("sequence %d after %d", e.Sequence, last)
		}
		last = e.Sequence
		got[e.Sequence] = entrytest.Text(e)
		return nil
	}); err != nil {
		l.Close()
		t.Fatal(err)
	}
	return l, got
}

// mustAppend appends and returns the entry's text.
func mustAppend(t testing.TB, l *Log, e *entry.Entry) string {
	t.Helper()
	if err := l.Append(e); err != nil {
		t.Fatal(err)
	}
	return entrytest.Text(e)
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkGoroutines fails when goroutines of the package are left over.
func checkGoroutines(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b := make([]byte, 1<<20)
		stacks := string(b[:runtime.Stack(b, true)])
		n := strings.Count(stacks, "wal.(*Log).")
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines left:\n%s", stacks)
		}
	}
}
