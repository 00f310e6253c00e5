package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/wal/entry"
)

// faultyMove is a statement that moves, to be tried with every fault.
type faultyMove struct {
	name, statement string
	t               *testing.T
	fs              *vfstest.FS // before the statement
	before, after   points
	opt             Options
}

// faultyMoves returns the cases. Their shards have rows in files and in the log, and no key
// of a series is in memory.
func faultyMoves(t *testing.T) (out []*faultyMove) {
	for _, c := range [][2]string{
		{"field with downsamples", "ALTER MEASUREMENT m RENAME FIELD v TO w"},
		{"measurement", "ALTER MEASUREMENT m RENAME TO x"},
		{"into another measurement", "ALTER MEASUREMENT m RENAME TO n"},
		{"tag", "UPDATE m SET rack = 'r' WHERE host = 'a'"},
		{"series that become one", "UPDATE m DROP TAG cpu"},
		{"aggregates that are folded", "UPDATE old DROP TAG cpu"},
	} {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		hours := meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}
		down := meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max", "count"}}}}
		s.must(errors.Join(s.Apply(t.Context(), hours), s.Apply(t.Context(), down)))
		s.must(s.write("db", "m,cpu=0,host=a v=1 1\nm,cpu=1,host=a v=2 1\nm,host=b v=2 1\nn,host=b v=9 1\nm,cpu=0,host=a v=3 2000000000000000000"))
		s.must(s.writeTo("hours", "m,host=a max_v=1,count_v=1i 0\nold,cpu=0 max_v=3,count_v=1i -3600000000000000\nold,cpu=1 max_v=2,count_v=2i -3600000000000000\nold,cpu=1 max_v=2 -7200000000000000"))
		for _, e := range s.entries() {
			s.flush(t.Context(), e)
		}
		s.must(s.write("db", "m,host=c v=4 2"))
		m := &faultyMove{name: c[0], statement: c[1], t: t, fs: fs.Clone(), opt: s.opt}
		m.before = m.state(s)
		if got := s.statement(m.statement)[0]; strings.HasPrefix(got, "refused") {
			t.Fatal(m.name, got)
		}
		m.after = m.state(s)
		if diff(m.after, m.before) == "" {
			t.Fatalf("%s changes nothing", m.name)
		}
		s.must(s.Close())
		out = append(out, m)
	}
	return out
}

// state returns what a store holds in all policies, once index and rows agree.
func (m *faultyMove) state(s *testStore) points {
	got, err := state(s.Store)
	s.must(err)
	hours, err := readPolicy(s.Store, "db", "hours", false)
	s.must(err)
	for key, value := range hours {
		if !meta.Staged(key) {
			got["hours "+key] = value
		}
	}
	s.must(agree(s.Store))
	return got
}

// open opens what a fault has left.
func (m *faultyMove) open(fs *vfstest.FS) *testStore {
	opt := m.opt
	opt.FS = fs
	return openTest(m.t, fs, opt)
}

// finish repeats a statement that had no answer, or a failure, on a healthy disk. It may be
// refused with the fault still, for the log tries again to make a segment only after a while.
func (m *faultyMove) finish(what string, s *testStore, fault ...error) {
	m.t.Helper()
	switch got := m.state(s); {
	case maps.Equal(got, m.after):
	case !maps.Equal(got, m.before):
		m.t.Fatalf("%s, %s: half done:\n%s", m.name, what, diff(got, m.after))
	default:
		if answer := s.statement(m.statement)[0]; strings.HasPrefix(answer, "refused") {
			if len(fault) > 0 && strings.Contains(answer, fault[0].Error()) {
				return
			}
			m.t.Fatalf("%s, %s: repeated: %s", m.name, what, answer)
		}
		if text := diff(m.state(s), m.after); text != "" {
			m.t.Fatalf("%s, %s: repeated:\n%s", m.name, what, text)
		}
		if _, staged := s.hours(); staged {
			m.t.Fatalf("%s, %s: repeated: staged rows are left", m.name, what)
		}
	}
}

// TestMovePowerCut cuts the power at every file operation of statements that move: all of a
// statement is there then or nothing, the repeated statement does what is left, and one that
// was answered is there.
func TestMovePowerCut(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 33))
	for _, m := range faultyMoves(t) {
		fs := m.fs.Clone()
		s := m.open(fs)
		cuts := 0
		cut := func(what string, keep float64) {
			cuts++
			left := fs.Crash(r, keep)
			var wg sync.WaitGroup // a goroutine that holds none of the store's locks
			wg.Go(func() {
				again := m.open(left)
				m.finish(what, again)
				s.must(again.Close())
			})
			wg.Wait()
		}
		fs.SetHook(func(op vfstest.Op) error {
			for _, keep := range []float64{0, 0.5, 1} {
				cut(fmt.Sprintf("cut at %s %s, keep %v", op.Kind, op.Path, keep), keep)
			}
			return nil
		})
		answer := s.statement(m.statement)[0]
		fs.SetHook(nil)
		if strings.HasPrefix(answer, "refused") || cuts == 0 {
			t.Fatalf("%s: %s, %d cuts", m.name, answer, cuts)
		}
		again := m.open(fs.Crash(r, 0))
		if text := diff(m.state(again), m.after); text != "" {
			t.Fatalf("%s: lost after the answer:\n%s", m.name, text)
		}
		s.must(errors.Join(again.Close(), s.Close()))
	}
}

// TestMoveFaults fails every file operation and every read of statements that move, once or
// from then on. A statement with an error has changed nothing that readers see. If the store
// accepts writes the statement is repeated, else after a restart.
func TestMoveFaults(t *testing.T) {
	for _, m := range faultyMoves(t) {
		stopped, tries := 0, 0
		for _, kind := range []string{"write", "read"} {
			for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
				if kind == "read" && fault == syscall.ENOSPC {
					continue
				}
				for _, forever := range []bool{false, true} {
					for n := 1; m.fails(kind, fault, forever, n, &stopped); n++ {
						tries++
					}
				}
			}
		}
		if tries < 10 || stopped == 0 {
			t.Errorf("%s: %d faults, %d of them stopped the store", m.name, tries, stopped)
		}
	}
}

// fails fails the n-th operation of a kind, and returns false if there are not as many.
func (m *faultyMove) fails(kind string, fault error, forever bool, n int, stopped *int) bool {
	what := fmt.Sprintf("%s %d fails with %v, for ever %v", kind, n, fault, forever)
	fs := m.fs.Clone()
	s := m.open(fs)
	var mu sync.Mutex
	seen := 0
	fail := func() error {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen == n || forever && seen > n {
			return fault
		}
		return nil
	}
	if kind == "read" {
		fs.SetReadHook(func(string, string) error { return fail() })
	} else {
		fs.SetHook(func(vfstest.Op) error { return fail() })
	}
	answer := s.statement(m.statement)[0]
	fs.SetHook(nil)
	fs.SetReadHook(nil)
	refused := strings.HasPrefix(answer, "refused")
	want := m.after
	if refused {
		want = m.before
	}
	if text := diff(m.state(s), want); text != "" {
		m.t.Fatalf("%s, %s, answer %q:\n%s", m.name, what, answer, text)
	}
	if s.writable() == nil {
		m.finish(what, s, fault)
	} else {
		*stopped++
	}
	again := m.open(fs.Crash(rand.New(rand.NewPCG(1, 1)), 0))
	m.finish(what+", restart", again)
	s.must(errors.Join(again.Close(), s.Close()))
	mu.Lock()
	defer mu.Unlock()
	return seen >= n
}

// TestMoveCannotReadKeys has a disk that fails for a moment while a logged move is applied,
// when the keys of its targets are read: the store stops before an index has changed, and the
// next start applies the move.
func TestMoveCannotReadKeys(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.SeriesTableBytes = 4 << 20
	s := openTest(t, fs, opt)
	s.create("db")
	const series = 200 // with more text than stays in memory
	pad := strings.Repeat("x", 60_000)
	for i, m := range []string{"b", "a"} {
		for k := range series {
			s.must(s.write("db", fmt.Sprintf("%s,host=h%03d,pad=%s v=1 %d", m, k, pad, int64(1-i)*2_000_000_000_000_000_000)))
		}
	}
	s.must(s.Close())
	s = openTest(t, fs, opt)
	s.log = unready{s.log}
	var mu sync.Mutex
	logged, failed := false, 0
	fs.SetHook(func(op vfstest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		logged = logged || op.Kind == "sync" && strings.Contains(op.Path, "/wal/")
		return nil
	})
	fs.SetReadHook(func(_, path string) error {
		mu.Lock()
		defer mu.Unlock()
		if logged && failed == 0 && strings.Contains(path, "series.log") {
			failed++
			return syscall.EIO
		}
		return nil
	})
	answer := s.statement("ALTER MEASUREMENT a RENAME TO b")[0]
	fs.SetHook(nil)
	fs.SetReadHook(nil)
	if failed != 1 || !strings.HasPrefix(answer, "refused") || !errors.Is(s.writable(), ErrReadOnly) {
		t.Fatalf("%d reads failed, answer %q, store %v", failed, answer, s.writable())
	}
	listed := func(want ...int) {
		t.Helper()
		for i, m := range []string{"a", "b"} {
			n := 0
			for _, keys := range s.listed(m) {
				n += len(strings.Fields(keys))
			}
			if n != want[i] {
				t.Errorf("%d series of %s, want %d", n, m, want[i])
			}
		}
	}
	listed(series, series)
	s.must(s.Close())
	s = openTest(t, fs, testOptions(fs))
	listed(0, 2*series)
	s.must(s.Close())
}

// unready is a log whose owner applies moves without what was prepared for them, as a move
// does whose targets have changed meanwhile, and as followers do.
type unready struct{ Log }

func (l unready) Append(e *entry.Entry) error {
	if e.Move != nil {
		e.Move.Ready = nil
	}
	return l.Log.Append(e)
}

// writeTo writes lines into a policy.
func (s *testStore) writeTo(policy, lines string) error {
	table, err := s.Table("db")
	if err != nil {
		return err
	}
	var b point.Batch
	var p lineproto.Parser
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		return err
	}
	return s.Write(context.Background(), "db", policy, &b)
}
