package raftlog

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
)

var long = flag.Bool("long", false, "run crash and damage tests over more of their cases")

// stride is 1, or 3 in short runs: how many cases a test goes on by.
func stride() int {
	if testing.Short() {
		return 3
	}
	return 1
}

// model is what a log must hold: the terms of its entries, its base, and its term.
type model struct {
	terms []uint64 // of the entries 1, 2, 3 …
	base  uint64
	term  uint64 // of the stable store
	// commit was noted, kept is in a batch.
	commit, kept uint64
}

func (m model) clone() model {
	m.terms = slices.Clone(m.terms)
	return m
}

// step is a change of a log and of the model.
type step struct {
	name string
	do   func(s *Store) error
	then func(m *model)
}

// steps returns n random changes of a log that m describes.
func steps(r *rand.Rand, m model, n int) []step {
	m = m.clone()
	var out []step
	for range n {
		last := uint64(len(m.terms))
		var st step
		switch k := r.IntN(20); {
		case k < 3 && last > max(m.base, m.commit):
			from := max(m.base, m.commit) + 1
			from += r.Uint64N(last - from + 1)
			st = step{
				fmt.Sprintf("delete %d-%d", from, last), func(s *Store) error { return s.DeleteRange(from, last) },
				func(m *model) { m.terms, m.kept = m.terms[:from-1], m.commit },
			}
		case k < 5 && last > m.base:
			to := m.base + 1 + r.Uint64N(last-m.base)
			term, keep := m.terms[to-1], r.Int64N(40<<10)
			st = step{
				fmt.Sprintf("base %d", to), func(s *Store) error { return s.SetBase(to, term, 10*to, keep) },
				func(m *model) { m.base = to },
			}
		case k < 7:
			term := m.term + 1
			st = step{
				fmt.Sprintf("term %d", term), func(s *Store) error { return s.SetUint64([]byte("CurrentTerm"), term) },
				func(m *model) { m.term = term },
			}
		case k < 10 && last > m.commit:
			commit := m.commit + 1 + r.Uint64N(last-m.commit)
			st = step{
				fmt.Sprintf("commit %d", commit), func(s *Store) error {
					s.Commit(commit)
					return s.SaveCommit()
				},
				func(m *model) { m.commit = commit },
			}
		default:
			count, term := 1+r.Uint64N(6), m.term
			st = step{
				fmt.Sprintf("store %d-%d of term %d", last+1, last+count, term),
				func(s *Store) error { return s.StoreLogs(entries(last+1, last+count, term)) },
				func(m *model) {
					for range count {
						m.terms = append(m.terms, term)
					}
					m.kept = m.commit
				},
			}
		}
		st.then(&m)
		out = append(out, st)
	}
	return out
}

// matches returns how a log differs from a model.
func (m model) matches(s *Store) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	if first > m.base+1 {
		return fmt.Errorf("log begins with entry %d, the base is %d", first, m.base)
	}
	first = max(first, 1)
	if first > uint64(len(m.terms)) {
		first = uint64(len(m.terms)) + 1
	}
	if err := compare(s, first, uint64(len(m.terms)), func(i uint64) uint64 { return m.terms[i-1] }); err != nil {
		return err
	}
	if b := s.Base(); b.Index != m.base || b.Sequence != 10*m.base {
		return fmt.Errorf("base %+v, want %d", b, m.base)
	}
	if c := s.Committed(); c < max(m.kept, m.base) || c > max(m.commit, m.base) {
		return fmt.Errorf("commit index %d, want %d to %d", c, max(m.kept, m.base), max(m.commit, m.base))
	}
	term, err := s.GetUint64([]byte("CurrentTerm"))
	if err != nil || term != m.term {
		return fmt.Errorf("term %d, want %d, %w", term, m.term, err)
	}
	for i := uint64(len(m.terms)); i > 0 && i >= first; i-- {
		if i%7 == 0 {
			if _, at := s.Configuration(1 << 40); at != i {
				return fmt.Errorf("configuration of entry %d, want %d", at, i)
			}
			break
		}
	}
	return nil
}

// image is a file system after a crash, and what the log in it may be.
type image struct {
	fs   *vfstest.FS
	at   string
	want []model
}

// crashes runs steps on the log in f, from its Open to its Close, and returns what power
// cuts and kills leave at its operations: of each operation n images, of which the first lost
// all that was not synced and the second nothing.
func crashes(t *testing.T, r *rand.Rand, f *vfstest.FS, m model, todo []step, n int, pick func() bool) (images []image) {
	t.Helper()
	at, before, after := "open", m.clone(), m.clone()
	f.SetHook(func(op vfstest.Op) error {
		if !pick() {
			return nil
		}
		for i := range n {
			keep := []float64{0, 1, 0.5, 0.8}[i%4]
			images = append(images, image{f.Crash(r, keep), fmt.Sprintf("%s, operation %d: %s %s, keep %v", at, op.N, op.Kind, op.Path, keep), []model{before, after}})
		}
		return nil
	})
	defer f.SetHook(nil)
	s := mustOpen(t, f, small)
	for _, st := range todo {
		at = st.name
		after = before.clone()
		st.then(&after)
		if err := st.do(s); err != nil {
			t.Fatalf("%s: %v", st.name, err)
		}
		s.spare.running.Wait() // so that the operations have one order
		before = after
	}
	at = "close"
	must(t, s.Close())
	return images
}

// check opens the log of an image, compares it, and returns the model that it is.
func (i image) check(t *testing.T) model {
	t.Helper()
	s, err := Open(i.fs, testDir, small)
	if err != nil {
		t.Fatalf("%s: %v", i.at, err)
	}
	if d := s.Damage(); len(d) > 0 {
		t.Fatalf("%s: damage %v", i.at, d)
	}
	var errs []error
	for _, m := range i.want {
		if err = m.matches(s); err == nil {
			m.commit, m.kept = s.Committed(), s.Committed() // what it knows now
			must(t, s.closeFiles(s.segments))               // as a kill does
			return m
		}
		errs = append(errs, err)
	}
	t.Fatalf("%s: %v", i.at, errors.Join(errs...))
	return model{}
}

// TestPowerCut cuts the power at every operation, and again while the log that was found
// goes on. Everything that was acknowledged is there, and nothing that was deleted.
func TestPowerCut(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	rounds, count := 1, 60
	if *long {
		rounds, count = 30, 150
	}
	opened := 0
	for range rounds {
		f := vfstest.New()
		mustCreate(t, f, Base{})
		todo := steps(r, model{}, count)
		images := crashes(t, r, f, model{}, todo, 4, func() bool { return r.IntN(stride()) == 0 })
		for _, i := range images {
			m := i.check(t)
			opened++
			if r.IntN(10) > 0 {
				continue
			}
			again := crashes(t, r, i.fs.Clone(), m, steps(r, m, 12), 2, func() bool { return r.IntN(4) == 0 })
			for _, j := range again {
				j.at = i.at + "; then " + j.at
				j.check(t)
				opened++
			}
		}
	}
	t.Logf("%d images", opened)
}

// TestKillThenPowerCut ends the process at every operation, opens the log, and then cuts the
// power, at once or after another entry: what Open has found stays.
func TestKillThenPowerCut(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 11))
	todo := steps(r, model{}, 40)
	for n := 1 + r.IntN(stride()); ; n += stride() {
		f := vfstest.New()
		mustCreate(t, f, Base{})
		start, killed := f.Ops(), false
		before, after := model{}, model{}
		var done sync.WaitGroup
		done.Go(func() {
			s := mustOpen(t, f, small)
			f.SetHook(func(op vfstest.Op) error {
				// The preparation of a segment ends alone, which harms nothing.
				if op.N-start == n && !strings.HasSuffix(op.Path, spareName) {
					killed = true
					runtime.Goexit()
				}
				return nil
			})
			for _, st := range todo {
				st.then(&after)
				must(t, st.do(s))
				s.spare.running.Wait()
				before = after.clone()
			}
		})
		done.Wait()
		f.SetHook(nil)
		if !killed && f.Ops()-start < n {
			return
		}
		found := image{fs: f, at: fmt.Sprintf("killed at operation %d", n), want: []model{before, after}}.check(t)
		for range 3 {
			image{fs: f.CrashLocked(r, 0), at: fmt.Sprintf("killed at operation %d, then a power cut", n), want: []model{found}}.check(t)
		}
		s := mustOpen(t, f, small)
		must(t, s.StoreLog(entry(uint64(len(found.terms))+1, 1)))
		s.spare.running.Wait()
		found.terms = append(found.terms, 1)
		image{fs: f.CrashLocked(r, 0), at: fmt.Sprintf("killed at operation %d, then an entry, then a power cut", n), want: []model{found}}.check(t)
		must(t, s.closeFiles(s.segments))
	}
}

// TestPowerCutInRepair damages one copy of the base or of the stable store, and cuts the power
// while Open replaces it.
func TestPowerCutInRepair(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 12))
	whole, m := grown(t, r, 30, true)
	for name, slot := range map[string]int64{baseName: baseSlot, stableName: stableSlot} {
		for _, at := range []int64{0, slot} {
			f := whole.Clone()
			must(t, f.Flip(path.Join(testDir, name), at+9, 1))
			for _, i := range crashes(t, r, f, m, nil, 12, func() bool { return true }) {
				i.check(t)
			}
		}
	}
}

// TestPowerCutInCreate cuts the power while a log is made: there is one or none.
func TestPowerCutInCreate(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 2))
	f := vfstest.New()
	must(t, errors.Join(f.MkdirAll("/data"), f.SyncDir("/")))
	base := Base{Index: 5, Term: 1, Sequence: 50, Configuration: members(2), ConfigurationIndex: 2}
	var images []*vfstest.FS
	f.SetHook(func(vfstest.Op) error {
		for i := range 20 {
			images = append(images, f.Crash(r, []float64{0, 1, 0.5}[i%3]))
		}
		return nil
	})
	must(t, Create(f, testDir, base))
	f.SetHook(nil)
	found := 0
	for _, f := range append(images, f.Crash(r, 0)) {
		if _, err := f.Stat(testDir + "/" + baseName); err != nil {
			must(t, Create(f, testDir, base))
		} else {
			found++
		}
		s := mustOpen(t, f, small)
		if b := s.Base(); b.Index != 5 || b.Sequence != 50 || !slices.Equal(b.Configuration.Servers, members(2).Servers) {
			t.Fatalf("base %+v", b)
		}
	}
	if found == 0 {
		t.Error("no image has a log")
	}
}
