package raftlog

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs/vfstest"
)

func TestStoreAndReopen(t *testing.T) {
	m, s := newLog(t, small)
	must(t, compare(s, 1, 0, nil))
	for i := uint64(1); i <= 120; i += 1 + i%4 {
		must(t, s.StoreLogs(entries(i, i+i%4, 3)))
	}
	last, _ := s.LastIndex()
	must(t, compare(s, 1, last, always(3)))
	if st := s.Stats(); st.Segments < 4 {
		t.Errorf("stats %+v", st)
	}
	if err := s.GetLog(last+1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry behind the end: %v", err)
	}
	if err := s.StoreLogs(entries(last+2, last+3, 3)); err == nil {
		t.Error("a gap was accepted")
	}
	if err := s.StoreLogs(entries(last, last, 3)); err == nil {
		t.Error("an entry was replaced")
	}
	for range 3 {
		must(t, s.Close())
		s = mustOpen(t, m, small)
		must(t, compare(s, 1, last, always(3)))
		must(t, s.StoreLog(entry(last+1, 3)))
		last++
	}
	// Nothing of a process that was killed is lost.
	s = mustOpen(t, m, small)
	must(t, compare(s, 1, last, always(3)))
	must(t, s.Close())
	if err := s.StoreLog(entry(last+1, 3)); !errors.Is(err, ErrClosed) {
		t.Errorf("closed log: %v", err)
	}
	if err := Create(m, testDir, Base{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := Open(vfstest.New(), testDir, Options{}); err == nil {
		t.Error("opened a directory that is not there")
	}
}

func TestDeleteRange(t *testing.T) {
	m, s := newLog(t, small)
	term := map[uint64]uint64{}
	last := uint64(0)
	add := func(to, tm uint64) {
		t.Helper()
		must(t, s.StoreLogs(entries(last+1, to, tm)))
		for last < to {
			last++
			term[last] = tm
		}
	}
	cut := func(from uint64) {
		t.Helper()
		must(t, s.DeleteRange(from, last))
		last = from - 1
	}
	check := func() {
		t.Helper()
		must(t, compare(s, 1, last, func(i uint64) uint64 { return term[i] }))
		must(t, s.Close())
		s = mustOpen(t, m, small)
		must(t, compare(s, 1, last, func(i uint64) uint64 { return term[i] }))
	}
	for i := uint64(10); i <= 100; i += 10 {
		add(i, 1)
	}
	if err := s.DeleteRange(1, 50); err == nil {
		t.Error("the beginning was deleted")
	}
	cut(95)
	check()
	add(97, 2)
	check()
	cut(20) // over several segments
	check()
	cut(11)
	add(30, 3)
	cut(30)
	add(31, 4)
	check()
	cut(1)
	check()
	add(3, 5)
	check()
}

func TestBase(t *testing.T) {
	m := vfstest.New()
	base := Base{Index: 10, Term: 2, Sequence: 77, Configuration: members(3), ConfigurationIndex: 4}
	mustCreate(t, m, base)
	s := mustOpen(t, m, small)
	must(t, compare(s, 1, 0, nil))
	if c, i := s.Configuration(10); i != 4 || len(c.Servers) != 1 || c.Servers[0].ID != "n0-3" {
		t.Errorf("configuration %v of %d", c, i)
	}
	if c, i := s.Configuration(3); i != 0 || len(c.Servers) != 0 {
		t.Errorf("configuration before the base: %v of %d", c, i)
	}
	if err := s.StoreLog(entry(1, 2)); err == nil {
		t.Error("an entry before the base was accepted")
	}
	for i := uint64(11); i < 211; i += 10 {
		must(t, s.StoreLogs(entries(i, i+9, 2)))
	}
	if err := s.SetBase(100, 3, 170, 0); err == nil {
		t.Error("a base of another term was accepted")
	}
	if err := s.SetBase(211, 2, 170, 0); err == nil {
		t.Error("a base behind the end was accepted")
	}
	before := s.Stats()
	must(t, s.SetBase(100, 2, 170, before.Bytes/2))
	after := s.Stats()
	if after.Bytes < before.Bytes/2 || after.Segments >= before.Segments || after.First <= 11 || after.First > 101 {
		t.Errorf("%+v, before %+v", after, before)
	}
	must(t, compare(s, after.First, 210, always(2)))
	want := Base{Index: 100, Term: 2, Sequence: 170, ConfigurationIndex: 98}
	for range 2 {
		b := s.Base()
		if b.Index != want.Index || b.Term != want.Term || b.Sequence != want.Sequence || b.ConfigurationIndex != 98 || b.Configuration.Servers[0].ID != "n0-98" {
			t.Errorf("base %+v", b)
		}
		if c, i := s.Configuration(150); i != 147 || c.Servers[0].ID != "n0-147" {
			t.Errorf("configuration %v of %d", c, i)
		}
		list, err := s.Snapshots().List()
		if err != nil || len(list) != 1 || list[0].Index != 100 || list[0].Term != 2 || list[0].ConfigurationIndex != 98 {
			t.Errorf("snapshots %+v, %v", list, err)
		}
		must(t, s.Close())
		s = mustOpen(t, m, small)
		must(t, compare(s, after.First, 210, always(2)))
	}
	if err := s.DeleteRange(100, 210); err == nil {
		t.Error("the base was deleted")
	}
	must(t, s.DeleteRange(101, 210))
	must(t, s.SetBase(100, 2, 170, 0))
	must(t, s.StoreLogs(entries(101, 140, 4)))
	must(t, s.SetBase(140, 4, 180, 0))
	if st := s.Stats(); st.Segments != 1 || st.Last != 140 {
		t.Errorf("%+v", st)
	}
	must(t, s.Close())
	s = mustOpen(t, m, small)
	if st := s.Stats(); st.Last != 140 {
		t.Errorf("%+v", st)
	}
}

func TestStable(t *testing.T) {
	m, s := newLog(t, small)
	if v, err := s.GetUint64([]byte("CurrentTerm")); v != 0 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if _, err := s.Get([]byte("LastVoteCand")); err == nil || err.Error() != "not found" {
		t.Errorf("%v", err)
	}
	must(t, s.SetUint64([]byte("CurrentTerm"), 7))
	must(t, s.Set([]byte("LastVoteCand"), []byte("n1")))
	must(t, s.SetUint64([]byte("CurrentTerm"), 8))
	for range 2 {
		if v, err := s.GetUint64([]byte("CurrentTerm")); v != 8 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		if v, err := s.Get([]byte("LastVoteCand")); string(v) != "n1" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		must(t, s.Close())
		s = mustOpen(t, m, small)
	}
}
