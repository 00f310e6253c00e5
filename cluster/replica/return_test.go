package replica

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/wal/entry"
)

// counting counts the messages of leaders that have failed.
type counting struct{ heartbeats, others atomic.Int64 }

// counted is a transport that does so.
type counted struct {
	*raft.InmemTransport
	*counting
}

func (t counted) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	err := t.InmemTransport.AppendEntries(id, to, q, a)
	switch {
	case err == nil:
	case q.PrevLogEntry == 0 && len(q.Entries) == 0:
		t.heartbeats.Add(1)
	default:
		t.others.Add(1)
	}
	return err
}

// TestReturn has a follower come back after many heartbeats have failed. Raft has counted
// few failures by then, for which it would wait up to 10 s, and the follower catches up.
func TestReturn(t *testing.T) {
	var count counting
	c := newClusterOver(t, 3, Options{ElectionTimeout: 4 * time.Second}, func(t raft.Transport) raft.Transport {
		return counted{t.(*raft.InmemTransport), &count}
	})
	c.must(func() *entry.Entry { return row(1, 1) })
	leader := c.leader()
	away := c.members[slices.IndexFunc(c.members, func(m *member) bool { return m != leader })]
	count.heartbeats.Store(0)
	count.others.Store(0)
	c.connect(alone(away))
	c.must(func() *entry.Entry { return row(1, 2) })
	eventually(t, "many failures", func() bool { return count.heartbeats.Load() > 10 })
	if n := count.others.Load(); n > 5 {
		t.Errorf("raft has counted %d failures", n)
	}
	c.connect()
	c.equal()
}

// TestAwaitReturn waits for nodes that do not answer: not longer than they are members,
// and than this node leads.
func TestAwaitReturn(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: 2 * time.Second})
	leader := c.leader()
	term := leader.Raft().CurrentTerm()
	c.connect(alone(leader))
	leader.contact.awaitReturn("n4", term, time.Now())
	leader.contact.awaitReturn("n2", term-1, time.Now())
	leader.contact.awaitReturn("n2", term, time.Now()) // until it has lost the lead
	if leader.Raft().State() == raft.Leader {
		t.Error("the wait ends although the node leads")
	}
}

// TestCommitIsTold writes one row after the other at an idle leader. The followers apply
// each at once, where raft itself tells them after 800 ms at the earliest.
func TestCommitIsTold(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: steady})
	leader := c.leader()
	const rows = 40
	start := time.Now()
	for i := range uint64(rows) {
		if err := leader.write(row(1, i)); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.members {
			eventually(t, "the row at all nodes", func() bool { return len(m.content()) > int(i) })
		}
	}
	if took := time.Since(start); took > rows*steady/20 {
		t.Errorf("%d rows took %s", rows, took)
	}
}

// TestCommitOfAnotherTerm: a notice for followers of a term has nothing that a later one may
// have committed.
func TestCommitOfAnotherTerm(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: steady})
	leader := c.leader()
	if err := leader.write(row(1, 0)); err != nil {
		t.Fatal(err)
	}
	term := leader.raft.CurrentTerm()
	if leader.contact.commit(term) == 0 {
		t.Error("nothing is committed")
	}
	if commit := leader.contact.commit(term - 1); commit > 0 {
		t.Errorf("%d is committed in an earlier term", commit)
	}
}
