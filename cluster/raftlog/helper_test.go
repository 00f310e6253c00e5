package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

const testDir = "/data/log"

// small makes segments small enough for a test to fill several.
var small = Options{SegmentBytes: 16 << 10}

// entry is the entry of an index and a term, with data that depends on both.
func entry(index, term uint64) *raft.Log {
	r := rand.New(rand.NewPCG(index, term))
	data := make([]byte, r.IntN(1500))
	if r.IntN(4) > 0 { // else zeros, as a write that did not arrive would leave
		for i := range data {
			data[i] = byte(r.Uint32())
		}
	}
	l := &raft.Log{Index: index, Term: term, Data: data, AppendedAt: time.Unix(int64(index), int64(term))}
	if index%5 == 0 {
		l.Extensions = []byte(fmt.Sprintf("extension %d", index))
	}
	if index%7 == 0 {
		l.Type, l.Data = raft.LogConfiguration, raft.EncodeConfiguration(members(int(index)))
	}
	return l
}

func members(n int) raft.Configuration {
	var c raft.Configuration
	for i := range n%3 + 1 {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(fmt.Sprintf("n%d-%d", i, n)), Address: raft.ServerAddress(fmt.Sprintf("a%d", i))})
	}
	return c
}

func entries(from, to, term uint64) (out []*raft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, entry(i, term))
	}
	return out
}

func sameLog(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
		bytes.Equal(a.Extensions, b.Extensions) && a.AppendedAt.Equal(b.AppendedAt)
}

// compare returns how the log differs from entries first to last with the terms that
// term gives.
func compare(s *Store, first, last uint64, term func(uint64) uint64) error {
	gotFirst, err := s.FirstIndex()
	if err != nil {
		return err
	}
	gotLast, err := s.LastIndex()
	if err != nil {
		return err
	}
	if first > last {
		first, last = 0, 0
	}
	if gotFirst != first || gotLast != last {
		return fmt.Errorf("entries %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return err
		}
		if want := entry(i, term(i)); !sameLog(&l, want) {
			return fmt.Errorf("entry %d is %d %d %v with %d bytes, want term %d", i, l.Index, l.Term, l.Type, len(l.Data), term(i))
		}
	}
	return nil
}

func always(term uint64) func(uint64) uint64 { return func(uint64) uint64 { return term } }

func mustCreate(t testing.TB, fsys vfs.FS, base Base) {
	t.Helper()
	if err := errors.Join(fsys.MkdirAll("/data"), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	if err := Create(fsys, testDir, base); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, fsys vfs.FS, opt Options) *Store {
	t.Helper()
	s, err := Open(fsys, testDir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Damage(); len(d) > 0 {
		t.Fatalf("damage: %v", d)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newLog returns an empty log in memory.
func newLog(t testing.TB, opt Options) (*vfstest.FS, *Store) {
	t.Helper()
	m := vfstest.New()
	mustCreate(t, m, Base{})
	return m, mustOpen(t, m, opt)
}

// batchSize returns what a batch takes in its segment.
func batchSize(logs ...*raft.Log) int {
	length := int64(batchHeaderBytes + 1)
	for _, l := range logs {
		length += entryBytes(l)
	}
	return int(sectorsOf(length) * sectorBytes)
}
