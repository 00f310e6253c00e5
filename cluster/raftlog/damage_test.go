package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
)

// grown returns a log of several segments after random steps, which was closed or killed, and
// what it holds.
func grown(t *testing.T, r *rand.Rand, count int, closed bool) (*vfstest.FS, model) {
	t.Helper()
	f := vfstest.New()
	mustCreate(t, f, Base{})
	s := mustOpen(t, f, small)
	m := model{}
	for _, st := range steps(r, m, count) {
		must(t, st.do(s))
		st.then(&m)
		s.spare.running.Wait()
	}
	if closed {
		must(t, s.Close())
	} else {
		must(t, s.closeFiles(s.segments))
	}
	must(t, m.check(f))
	return f, m
}

// check opens a log and compares it. Damage is an errDamage.
func (m model) check(f *vfstest.FS) error {
	s, err := Open(f, testDir, small)
	if err != nil {
		return err
	}
	defer func() { _ = s.closeFiles(s.segments) }()
	if d := s.Damage(); len(d) > 0 {
		return errDamage(d[0])
	}
	return m.matches(s)
}

type errDamage Damage

func (e errDamage) Error() string { return Damage(e).String() }

// flipped opens a log of which bits are flipped in one file, and requires that it has all
// entries, or that there is damage in this file. It returns whether there is.
func (m model) flipped(t *testing.T, f *vfstest.FS, name, what string) bool {
	t.Helper()
	err := m.check(f)
	if err == nil {
		return false
	}
	var d errDamage
	if !errors.As(err, &d) || d.Path != name || d.Offset < 0 || d.Reason == "" {
		t.Fatalf("%s: %v", what, err)
	}
	return true
}

// places are the offsets of a file at which bits are flipped: about every step-th.
func places(r *rand.Rand, b []byte, step int) (at []int) {
	zeros, next := 0, 0
	for i, c := range b {
		if zeros++; c != 0 {
			zeros = 0
		}
		// Far behind everything that was written, few places are enough.
		if i >= next && (zeros < 2*sectorBytes || *long || r.IntN(37) == 0) {
			at = append(at, i)
			next = i + 1 + r.IntN(2*step-1)
		}
	}
	return at
}

func damageRuns() (count, step int) {
	if *long {
		return 2, 1
	}
	if testing.Short() {
		return 1, 397
	}
	return 2, 97
}

// TestFlippedBits flips bits of every file of a log, a byte or a few bits at a time.
func TestFlippedBits(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 3))
	runs, step := damageRuns()
	for run := range runs {
		f, m := grown(t, r, 60, run%2 == 0)
		found := 0
		for _, name := range f.Files() {
			all := places(r, f.Content(name), step)
			for _, i := range all {
				g := f.Clone()
				must(t, g.Flip(name, int64(i), byte(1+r.IntN(255))))
				if m.flipped(t, g, name, fmt.Sprintf("byte %d of %s", i, name)) {
					found++
				}
			}
			for range len(all) / 2 {
				g := f.Clone()
				what := fmt.Sprintf("bits of %s:", name)
				for range 1 + r.IntN(3) {
					i, bit := all[r.IntN(len(all))], r.IntN(8)
					what += fmt.Sprintf(" %d.%d", i, bit)
					must(t, g.Flip(name, int64(i), 1<<bit))
				}
				m.flipped(t, g, name, what)
			}
		}
		if found < 10 {
			t.Errorf("%d damaged bytes were found", found)
		}
	}
}

// TestFlippedLastBatch flips every bit of the last batch of a log that was killed, which
// nothing follows: the batch is damaged and not unfinished.
func TestFlippedLastBatch(t *testing.T) {
	for _, data := range [][]byte{nil, make([]byte, 5), make([]byte, 3000), []byte(strings.Repeat("x", 508)), []byte(strings.Repeat("x", 1100))} {
		f, s := newLog(t, small)
		must(t, s.StoreLogs(entries(1, 3, 1)))
		g := s.segments[0]
		from := g.end
		must(t, s.StoreLogs([]*raft.Log{{Index: 4, Term: 1, Data: data}}))
		stream := int64(batchHeaderBytes + entryHeaderBytes + len(data) + 1)
		for i := range g.end - from {
			if p := i / sectorBytes * streamBytes; p+i%sectorBytes-1 >= stream {
				continue // behind the end mark
			}
			for bit := range 8 {
				if !*long && (int(i)+3*bit)%(7*stride()) > 0 {
					continue
				}
				c := f.Clone()
				must(t, c.Flip(g.path, from+i, 1<<bit))
				s := openDamaged(t, c)
				if d := s.Damage()[0]; d.Path != g.path || d.Offset < from || d.Offset >= g.end {
					t.Fatalf("byte %d of the last batch: %v, it is at %d to %d", i, d, from, g.end)
				}
			}
		}
	}
}

func openDamaged(t *testing.T, f *vfstest.FS) *Store {
	t.Helper()
	s, err := Open(f, testDir, small)
	must(t, err)
	if len(s.Damage()) == 0 {
		t.Fatal("no damage was found")
	}
	return s
}

// TestUnfinishedWrites cuts the last write off at any byte, and leaves out any of its
// sectors: what was acknowledged before is there, and the log goes on behind it.
func TestUnfinishedWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 4))
	step := 12 * stride()
	if *long {
		step = 1
	}
	for _, last := range []func(s *Store) error{
		func(s *Store) error { return s.StoreLogs(entries(8, 10, 1)) },
		func(s *Store) error { return s.StoreLog(&raft.Log{Index: 8, Term: 1, Data: make([]byte, 2000)}) },
		func(s *Store) error { return s.StoreLog(&raft.Log{Index: 8, Term: 1}) },
		func(s *Store) error { return s.DeleteRange(5, 7) },
	} {
		f, s := newLog(t, small)
		must(t, s.StoreLogs(entries(1, 7, 1)))
		g := s.segments[0]
		before, end := f.Content(g.path), g.end
		must(t, last(s))
		after := f.Content(g.path)
		n := int(g.end - end)
		used := len(strings.TrimRight(string(after[end:]), "\x00"))
		try := func(what string, change func(b []byte)) {
			t.Helper()
			b := append([]byte(nil), before...)
			change(b[end : int(end)+n])
			f := vfstest.New()
			for _, name := range []string{baseName, stableName} {
				must(t, f.Put(path.Join(testDir, name), s.fs.(*vfstest.FS).Content(path.Join(testDir, name))))
			}
			must(t, f.Put(g.path, b))
			for range 2 {
				s := mustOpen(t, f, small)
				if torn := string(b) != string(before); s.spoiled != torn {
					t.Fatalf("%s: torn %v", what, !torn)
				}
				if err := compare(s, 1, 7, always(1)); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				must(t, s.Close())
			}
			s := mustOpen(t, f, small)
			must(t, s.StoreLogs(entries(8, 9, 2)))
			must(t, s.closeFiles(s.segments))
			s = mustOpen(t, f, small)
			if err := compare(s, 1, 9, func(i uint64) uint64 { return 1 + i/8 }); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		for cut := 0; cut < used; cut += 1 + r.IntN(step) {
			try(fmt.Sprintf("cut at %d of %d", cut, n), func(b []byte) { copy(b, after[end:int(end)+cut]) })
		}
		if n > sectorBytes {
			for range 400 / step {
				keep := r.Uint64N(1<<(n/sectorBytes) - 1) // never all
				try(fmt.Sprintf("sectors %b", keep), func(b []byte) {
					for i := range n / sectorBytes {
						if keep>>i&1 != 0 {
							copy(b[i*sectorBytes:(i+1)*sectorBytes], after[int(end)+i*sectorBytes:])
						}
					}
				})
			}
		}
	}
}

// TestLostSectors replaces sectors of a log that was closed by zeros: all entries are there,
// or there is damage.
func TestLostSectors(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 10))
	f, m := grown(t, r, 80, true)
	found := 0
	for _, name := range f.Files() {
		b := f.Content(name)
		for at := 0; at < len(b) && strings.HasSuffix(name, segmentSuffix); at += sectorBytes {
			if allZero(b[at : at+sectorBytes]) {
				continue
			}
			g := f.Clone()
			c := g.Content(name)
			copy(c[at:], zeroSector[:])
			must(t, g.Put(name, c))
			if m.flipped(t, g, name, fmt.Sprintf("sector %d of %s", at/sectorBytes, name)) {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no lost sector was found")
	}
}

// TestFlippedAfterUnfinishedWrite flips bits of a log that ends with an unfinished write:
// entries that were acknowledged are there, or there is damage.
func TestFlippedAfterUnfinishedWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 5))
	_, step := damageRuns()
	for cut := range 6 {
		f, s := newLog(t, small)
		must(t, s.StoreLogs(entries(1, 7, 1)))
		f.SetHook(func(op vfstest.Op) error {
			if op.Kind == "write" && strings.HasSuffix(op.Path, segmentSuffix) {
				return &vfstest.ShortWrite{Bytes: batchSize(entries(8, 10, 1)...) * cut / 6, Err: syscall.EIO}
			}
			return nil
		})
		if err := s.StoreLogs(entries(8, 10, 1)); err == nil {
			t.Fatal("a short write was acknowledged")
		}
		f.SetHook(nil)
		must(t, s.closeFiles(s.segments))
		m := model{terms: []uint64{1, 1, 1, 1, 1, 1, 1}}
		must(t, m.check(f))
		name := segmentPath(testDir, 1)
		for _, i := range places(r, f.Content(name), step) {
			g := f.Clone()
			must(t, g.Flip(name, int64(i), byte(1+r.IntN(255))))
			m.flipped(t, g, name, fmt.Sprintf("byte %d, write cut at %d/6", i, cut))
		}
	}
}

// TestLostPieces removes files and cuts them.
func TestLostPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 6))
	var f *vfstest.FS
	var m model
	var segments []string
	for len(segments) < 3 {
		f, m = grown(t, r, 80, false)
		segments = slices.DeleteFunc(f.Files(), func(name string) bool { return !strings.HasSuffix(name, segmentSuffix) })
	}
	var d errDamage
	for i, name := range segments {
		g := f.Clone()
		must(t, g.Remove(name))
		// Entries below the base that are gone are no loss.
		if err := m.check(g); !errors.As(err, &d) && (i > 0 || err != nil) {
			t.Errorf("%s removed: %v", name, err)
		}
		for _, size := range []int64{0, 100, sectorBytes, 3000, 10000} {
			g := f.Clone()
			must(t, g.Truncate(name, size))
			if err := m.check(g); !errors.As(err, &d) || d.Path != name {
				t.Errorf("%s cut to %d bytes: %v", name, size, err)
			}
		}
		g = f.Clone()
		must(t, g.Put(name, g.Content(segments[(i+1)%len(segments)])))
		if err := m.check(g); !errors.As(err, &d) || d.Path != name {
			t.Errorf("%s replaced by another segment: %v", name, err)
		}
	}
	// A segment of another log with the same number.
	other, _ := grown(t, r, 80, false)
	g := f.Clone()
	must(t, g.Put(segments[1], other.Content(segments[1])))
	if err := m.check(g); err == nil {
		t.Error("a segment of another log was read")
	}
	for _, name := range []string{baseName, stableName} {
		g := f.Clone()
		must(t, g.Remove(path.Join(testDir, name)))
		if err := m.check(g); !errors.As(err, &d) || path.Base(d.Path) != name {
			t.Errorf("%s removed: %v", name, err)
		}
	}
	for _, name := range []string{baseName, stableName} {
		slot := map[string]int64{baseName: baseSlot, stableName: stableSlot}[name]
		g := f.Clone()
		must(t, g.Flip(path.Join(testDir, name), 30, 1))
		must(t, m.check(g)) // and makes it whole
		must(t, g.Flip(path.Join(testDir, name), slot+30, 1))
		must(t, m.check(g))
		must(t, g.Flip(path.Join(testDir, name), 30, 1))
		must(t, g.Flip(path.Join(testDir, name), slot+30, 1))
		if err := m.check(g); !errors.As(err, &d) || path.Base(d.Path) != name {
			t.Errorf("both copies of %s damaged: %v", name, err)
		}
	}
}

// TestLostEnds removes the first segment, takes the log back behind its base, and leaves
// something behind the end that no write leaves.
func TestLostEnds(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 3, 1)))
	short := f.Content(segmentPath(testDir, 1))
	must(t, s.StoreLogs(entries(4, 6, 1)))
	must(t, s.SetBase(5, 1, 50, 0))
	end := s.segments[0].end
	whole := f.Clone()
	var d errDamage

	g := whole.Clone()
	must(t, g.Put(segmentPath(testDir, 1), short))
	if err := (model{}).check(g); !errors.As(err, &d) || !strings.Contains(d.Reason, "the base is 5") {
		t.Errorf("log shorter than its base: %v", err)
	}
	for i := uint64(7); i < 60; i += 3 {
		must(t, s.StoreLogs(entries(i, i+2, 1)))
	}
	g = f.Clone()
	must(t, g.Remove(segmentPath(testDir, 1)))
	if err := (model{}).check(g); !errors.As(err, &d) || !strings.Contains(d.Reason, "before it are missing") {
		t.Errorf("first segment removed: %v", err)
	}
	m := model{terms: []uint64{1, 1, 1, 1, 1, 1}, base: 5}
	g = whole.Clone()
	must(t, g.Flip(segmentPath(testDir, 1), end+5, 1)) // as the beginning of a header
	must(t, m.check(g))
	must(t, g.Flip(segmentPath(testDir, 1), end+2000, 1))
	if err := m.check(g); !errors.As(err, &d) || d.Offset != end {
		t.Errorf("a header that was cut off, and something behind it: %v", err)
	}
	g = whole.Clone()
	must(t, g.Flip(segmentPath(testDir, 1), end+2000, 1))
	must(t, m.check(g))
}

// TestDamagedLogIsNotUsed calls everything on a log in which Open found damage.
func TestDamagedLogIsNotUsed(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 7, 1)))
	must(t, s.Close())
	must(t, f.Flip(segmentPath(testDir, 1), 600, 1))
	before := f.Content(segmentPath(testDir, 1))
	s = openDamaged(t, f)
	_, first := s.FirstIndex()
	_, last := s.LastIndex()
	_, get := s.Get([]byte("k"))
	_, number := s.GetUint64([]byte("k"))
	_, list := s.Snapshots().List()
	for i, err := range []error{
		first, last, get, number, list, s.GetLog(1, new(raft.Log)), s.StoreLogs(entries(8, 8, 1)), s.DeleteRange(1, 7),
		s.Set([]byte("k"), nil), s.SetUint64([]byte("k"), 1), s.SetBase(3, 1, 30, 0),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	must(t, s.Close())
	if string(f.Content(segmentPath(testDir, 1))) != string(before) {
		t.Error("the segment changed")
	}
}

// TestDamageAtRead damages an entry of an open log.
func TestDamageAtRead(t *testing.T) {
	f, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 4, 1)))
	at := fileOffset(int64(s.segments[0].positions[1]))
	must(t, f.Flip(segmentPath(testDir, 1), at+8, 2))
	for range 2 {
		err := s.GetLog(2, new(raft.Log))
		var c *binio.CorruptError
		if !errors.As(err, &c) || c.Path != segmentPath(testDir, 1) || c.Offset != at {
			t.Fatalf("%v, want damage at %d", err, at)
		}
	}
	if d := s.Damage(); len(d) != 1 || d[0].Offset != at {
		t.Errorf("%v", d)
	}
	for _, i := range []uint64{1, 3, 4} {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil || !sameLog(&l, entry(i, 1)) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	must(t, s.Close())
	openDamaged(t, f)
}
