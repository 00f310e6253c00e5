package raftlog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs/vfstest"
)

// state is a state machine that remembers what was applied.
type state struct {
	sync.Mutex
	applied []uint64
	data    map[uint64]string
}

func (s *state) Apply(l *raft.Log) any {
	s.Lock()
	defer s.Unlock()
	s.applied = append(s.applied, l.Index)
	s.data[l.Index] = string(l.Data)
	return nil
}

func (s *state) Snapshot() (raft.FSMSnapshot, error) { return nil, fmt.Errorf("no snapshots") }
func (s *state) Restore(r io.ReadCloser) error       { return fmt.Errorf("no snapshots") }

// member is a node of a cluster in the process.
type member struct {
	id    raft.ServerID
	fs    *vfstest.FS
	log   *Store
	state *state
	trans *raft.InmemTransport
	raft  *raft.Raft
}

type raftCluster struct {
	t       *testing.T
	members []*member
}

func (m *member) start(t *testing.T) {
	t.Helper()
	m.log = mustOpen(t, m.fs, small)
	m.state = &state{data: map[uint64]string{}}
	if m.trans == nil {
		_, m.trans = raft.NewInmemTransport(raft.ServerAddress(m.id))
	}
	c := raft.DefaultConfig()
	c.LocalID, c.LogOutput, c.SnapshotThreshold, c.NoSnapshotRestoreOnStart = m.id, io.Discard, 1<<62, true
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout, c.CommitTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond, 5*time.Millisecond
	var err error
	if m.raft, err = raft.NewRaft(c, m.state, m.log, m.log, m.log.Snapshots(), m.trans); err != nil {
		t.Fatal(err)
	}
}

// stop ends a member. A killed one does not close its log.
func (m *member) stop(t *testing.T, kill bool) {
	t.Helper()
	must(t, m.raft.Shutdown().Error())
	if !kill {
		must(t, m.log.Close())
	}
	m.raft = nil
}

// startCluster starts three members, the first of which has been bootstrapped with all.
func startCluster(t *testing.T, base Base) *raftCluster {
	t.Parallel()
	c := &raftCluster{t: t}
	var all raft.Configuration
	for i := range 3 {
		m := &member{id: raft.ServerID(fmt.Sprintf("n%d", i+1)), fs: vfstest.New()}
		all.Servers = append(all.Servers, raft.Server{ID: m.id, Address: raft.ServerAddress(m.id)})
		c.members = append(c.members, m)
	}
	for i, m := range c.members {
		b := base
		if base.Index > 0 {
			b.Configuration, b.ConfigurationIndex = all, 1
		}
		mustCreate(t, m.fs, b)
		_, m.trans = raft.NewInmemTransport(raft.ServerAddress(m.id))
		if base.Index > 0 || i > 0 {
			continue
		}
		s := mustOpen(t, m.fs, small)
		config := raft.DefaultConfig()
		config.LocalID, config.LogOutput = m.id, io.Discard
		if has, err := raft.HasExistingState(s, s, s.Snapshots()); has || err != nil {
			t.Fatalf("new log has state: %v, %v", has, err)
		}
		must(t, raft.BootstrapCluster(config, s, s, s.Snapshots(), m.trans, all))
		if has, err := raft.HasExistingState(s, s, s.Snapshots()); !has || err != nil {
			t.Fatalf("bootstrapped log has no state: %v, %v", has, err)
		}
		must(t, s.Close())
	}
	c.connect()
	for _, m := range c.members {
		m.start(t)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			if m.raft != nil {
				m.stop(t, false)
			}
		}
	})
	return c
}

// connect connects every member with every other one, except those that are cut off.
func (c *raftCluster) connect(cut ...*member) {
	for _, m := range c.members {
		m.trans.DisconnectAll()
	}
	for _, m := range c.members {
		for _, n := range c.members {
			alone := false
			for _, x := range cut {
				alone = alone || x == m || x == n
			}
			if m != n && !alone {
				m.trans.Connect(n.trans.LocalAddr(), n.trans)
			}
		}
	}
}

// wait repeats ok until it is true.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leader waits for a leader that can commit, among the members that run except some.
func (c *raftCluster) leader(except ...*member) *member {
	c.t.Helper()
	var found *member
	wait(c.t, "a leader", func() bool {
		for _, m := range c.members {
			skip := m.raft == nil
			for _, x := range except {
				skip = skip || x == m
			}
			if !skip && m.raft.State() == raft.Leader && m.raft.Barrier(5*time.Second).Error() == nil {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// apply has commands applied, by another leader if this one loses its lead, perhaps
// twice then.
func (c *raftCluster) apply(m *member, from, to int) {
	c.t.Helper()
	todo := map[string]raft.ApplyFuture{}
	for i := from; i < to; i++ {
		todo[fmt.Sprintf("command %d %s", i, bytes.Repeat([]byte("x"), i%700))] = nil
	}
	for until := time.Now().Add(60 * time.Second); len(todo) > 0; m = c.leader() {
		for command := range todo {
			todo[command] = m.raft.Apply([]byte(command), 10*time.Second)
		}
		var last error
		for command, f := range todo {
			if err := f.Error(); err != nil {
				last = err
			} else {
				delete(todo, command)
			}
		}
		if len(todo) == 0 {
			return
		}
		if time.Now().After(until) {
			c.t.Fatalf("%d commands were not applied: %v", len(todo), last)
		}
	}
}

// same waits until all members that run have applied what the leader has, and compares the
// logs.
func (c *raftCluster) same() {
	c.t.Helper()
	l := c.leader()
	last := l.raft.LastIndex()
	for _, m := range c.members {
		if m.raft == nil {
			continue
		}
		wait(c.t, "a follower", func() bool { return m.raft.AppliedIndex() >= last })
		from, err := m.log.FirstIndex()
		must(c.t, err)
		for i := max(from, 1); i <= last; i++ {
			var a, b raft.Log
			if err := l.log.GetLog(i, &a); err != nil {
				continue // the leader's log may begin later
			}
			must(c.t, m.log.GetLog(i, &b))
			if a.Term != b.Term || !bytes.Equal(a.Data, b.Data) || a.Type != b.Type {
				c.t.Fatalf("entry %d of %s and %s: %+v, %+v", i, l.id, m.id, a, b)
			}
		}
	}
}

func TestRaftElections(t *testing.T) {
	c := startCluster(t, Base{})
	n := 0
	for round := range 3 {
		l := c.leader()
		c.apply(l, n, n+50)
		n += 50
		l.stop(t, round%2 == 0)
		next := c.leader(l)
		c.apply(next, n, n+50)
		n += 50
		l.start(t)
		c.connect() // raft has disconnected the transport
		c.same()
	}
	for _, m := range c.members {
		m.stop(t, true)
	}
	for _, m := range c.members {
		m.start(t)
	}
	c.connect()
	c.same()
	m := c.members[0]
	m.state.Lock()
	defer m.state.Unlock()
	found := map[string]bool{}
	for _, command := range m.state.data {
		found[command] = true
	}
	if len(found) != n {
		t.Errorf("%d commands after a restart, want %d", len(found), n)
	}
}

// TestRaftConflict cuts the leader off with entries that nobody else has: they are
// replaced, and do not come back.
func TestRaftConflict(t *testing.T) {
	c := startCluster(t, Base{})
	old := c.leader()
	c.apply(old, 0, 20)
	c.connect(old)
	var lost []raft.ApplyFuture
	for i := range 30 {
		lost = append(lost, old.raft.Apply(bytes.Repeat([]byte{byte(i)}, 900), time.Second))
	}
	next := c.leader(old)
	c.apply(next, 20, 60)
	for _, f := range lost {
		if err := f.Error(); err == nil {
			t.Error("a command without a quorum was applied")
		}
	}
	before, err := old.log.LastIndex()
	must(t, err)
	if first, err := next.log.LastIndex(); before < 22 || err != nil || first < 60 {
		t.Fatalf("old leader has %d entries, the new one %d, %v", before, first, err)
	}
	var lone, now raft.Log
	must(t, old.log.GetLog(before, &lone))
	c.connect()
	wait(t, "the old leader", func() bool { return old.raft.AppliedIndex() >= next.raft.LastIndex() })
	c.same()
	if err := old.log.GetLog(before, &now); err != nil || now.Term == lone.Term {
		t.Errorf("no conflict: %+v, before %+v, %v", now, lone, err)
	}
	old.stop(t, true)
	old.fs = old.fs.CrashLocked(rand.New(rand.NewPCG(1, 1)), 0)
	old.start(t)
	c.connect()
	c.same()
}

// TestRaftBase starts members from a base, moves it on, and starts them again: they apply
// what is above it.
func TestRaftBase(t *testing.T) {
	c := startCluster(t, Base{Index: 40, Term: 3, Sequence: 400})
	l := c.leader()
	c.apply(l, 0, 100)
	c.same()
	slow := c.members[0]
	if slow == l {
		slow = c.members[1]
	}
	slow.stop(t, false)
	c.apply(l, 100, 200)
	at := l.raft.AppliedIndex() - 30
	var e raft.Log
	must(t, l.log.GetLog(at, &e))
	// The follower that is behind finds its entries below the base.
	must(t, l.log.SetBase(at, e.Term, 555, 1<<30))
	l.stop(t, false)
	l.start(t)
	slow.start(t)
	c.connect()
	c.same()
	l.state.Lock()
	first := l.state.applied[0]
	l.state.Unlock()
	if first <= at || first > at+2 {
		t.Errorf("applied from %d on, the base is %d", first, at)
	}
	slow.state.Lock()
	defer slow.state.Unlock()
	if first := slow.state.applied[0]; first < 41 || first > 43 {
		t.Errorf("applied from %d on, the base is 40", first)
	}
}
