package replica

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/wal/entry"
)

// TestContradicts holds messages of leaders against a base at entry 10 of term 3.
func TestContradicts(t *testing.T) {
	c := newCluster(t, 1, Options{})
	m := c.leader()
	term := m.Replica.raft.CurrentTerm()
	base := raftlog.Base{Index: 10, Term: 3}
	f := func(want bool, sent, index, before uint64, terms ...uint64) {
		t.Helper()
		a := &raft.AppendEntriesRequest{Term: sent, PrevLogEntry: index, PrevLogTerm: before}
		for i, term := range terms {
			a.Entries = append(a.Entries, &raft.Log{Index: index + 1 + uint64(i), Term: term})
		}
		if err := m.Replica.contact.contradicts(a, base); errors.Is(err, raftlog.ErrCommitted) != want {
			t.Errorf("term %d, entry %d of term %d, then %v: %v", sent, index, before, terms, err)
		}
	}
	f(false, term, 0, 0)           // a heartbeat
	f(false, term, 7, 2, 2, 3, 3)  // entry 10 is the same
	f(false, term, 10, 3, 4, 5)    // what follows it
	f(false, term, 12, 5)          // raft compares it
	f(true, term, 8, 2, 2, 4)      // another entry 10
	f(true, term, 8, 2, 2, 2)      // of an older term
	f(true, term, 4, 1, 4)         // the log of the leader is shorter
	f(true, term, 10, 4, 4)        // before the entries
	f(true, term, 9, 4)            // alone
	f(false, term-1, 8, 2, 2, 4)   // late, of a leader that is none any more
	f(false, term, 0, 0, 1, 1, 1)  // from the first entry on
	f(true, term, 0, 0, 1, 1, 100) // terms do not fall
}

// TestCheckFlushed has a log that has not passed yet what the files of the store have.
func TestCheckFlushed(t *testing.T) {
	c := newCluster(t, 1, Options{})
	for i := range uint64(10) {
		c.must(func() *entry.Entry { return row(1, i+1) })
	}
	m := c.leader()
	r := m.Replica
	last, err := m.log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	applied := r.Applied()
	f := func(floor, first uint64, want bool) {
		t.Helper()
		r.floor = floor
		if err := r.checkFlushed(first); errors.Is(err, raftlog.ErrCommitted) != want {
			t.Errorf("files up to %d, removed from %d on: %v", floor, first, err)
		}
	}
	f(applied, last, false) // all is applied
	f(applied+1, last+1, true)
	r.progress.sequence.Store(0) // as after a start
	f(applied, last+1, false)
	f(applied, last, true)
	f(applied-1, last, false)
	f(0, 1, false)
}
