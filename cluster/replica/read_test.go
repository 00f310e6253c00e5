package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/store"
	"tsdbd/wal/entry"
)

// TestReadPosition writes at the leader and reads there, whichever node that is: the
// position covers every write that was acknowledged before.
func TestReadPosition(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	var written atomic.Uint64
	var done atomic.Bool
	// led repeats what only a leader does. On a busy machine another node may come to lead.
	led := func(f func(m *member) error) {
		var err error = store.ErrNotLeader
		for end := time.Now().Add(30 * time.Second); errors.Is(err, store.ErrNotLeader) && time.Now().Before(end); {
			if i := slices.IndexFunc(c.members, func(m *member) bool { return m.Leads() }); i >= 0 {
				err = f(c.members[i])
			} else {
				time.Sleep(time.Millisecond)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	var work sync.WaitGroup
	work.Go(func() {
		defer done.Store(true)
		for i := range uint64(200) {
			led(func(m *member) error {
				e := row(1, i)
				err := m.write(e)
				if err == nil {
					written.Store(e.Sequence)
				}
				return err
			})
		}
	})
	for range 4 {
		work.Go(func() {
			for !done.Load() && !t.Failed() {
				led(func(m *member) error {
					before := written.Load()
					p, err := m.ReadPosition(context.Background())
					if err == nil && p < before {
						t.Errorf("position %d, %d was written", p, before)
					}
					return err
				})
			}
		})
	}
	work.Wait()
	for _, o := range c.members {
		if err := o.Wait(context.Background(), written.Load()); err != nil {
			t.Error(err)
		}
		if n := len(o.content()); n < 200 {
			t.Errorf("%s has %d", o.id, n)
		}
	}
	eventually(t, "one node that gives a position", func() bool {
		gives := 0
		for _, o := range c.members {
			if _, err := o.ReadPosition(context.Background()); err == nil {
				gives++
			} else if !errors.Is(err, store.ErrNotLeader) {
				t.Fatal(err)
			}
		}
		return gives == 1
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := m.Wait(ctx, 1<<40); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestReadCutOff never gives a position at a leader that others have replaced.
func TestReadCutOff(t *testing.T) {
	c := newCluster(t, 3, Options{})
	var old *member
	eventually(t, "a write", func() bool {
		old = c.leader()
		return old.write(row(1, 1)) == nil
	})
	c.connect(alone(old))
	if p, err := old.ReadPosition(context.Background()); err == nil {
		t.Fatalf("position %d without a majority", p)
	} else if !errors.Is(err, store.ErrNotLeader) {
		t.Fatal(err)
	}
}

// TestEndWhileAsked ends a leader of which many ask positions. Raft leaves some of them
// without an answer; no caller waits for one.
func TestEndWhileAsked(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	replica := m.Replica
	var work sync.WaitGroup
	for range 64 {
		work.Go(func() {
			for replica.Err() == nil {
				_, _ = replica.ReadPosition(context.Background()) // an error once it ends
			}
		})
	}
	replica.fail(errors.New("a test"))
	<-m.fatal
	work.Wait()
	if _, err := replica.ReadPosition(context.Background()); !errors.Is(err, store.ErrNotLeader) {
		t.Error(err)
	}
}

// TestLag tells how old a follower is that hears nothing.
func TestLag(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	c.must(func() *entry.Entry { return row(1, 1) })
	var follower *member
	for _, o := range c.members {
		eventually(t, "ready", o.Ready)
		if o != m {
			follower = o
		}
	}
	if m.Leads() && m.Lag() != 0 {
		t.Error(m.Lag())
	}
	c.connect(alone(follower))
	start := time.Now()
	before := follower.Lag()
	eventually(t, "a lag", func() bool { return follower.Lag() > 3*electionTimeout })
	if lag := follower.Lag(); lag > before+time.Since(start) {
		t.Errorf("lag of %v, %v after one of %v", lag, time.Since(start), before)
	}
	c.must(func() *entry.Entry { return row(1, 2) })
	c.connect()
	eventually(t, "no lag", func() bool { return follower.Lag() < 3*electionTimeout })
	if follower.Replica.Applied() < 2 {
		t.Error("no lag, and not applied")
	}
}

// TestLagOfOldLeader tells how old the state of a leader is that was cut off: what the
// others do since its last heartbeats it does not know.
func TestLagOfOldLeader(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	c.connect(alone(m))
	cut := time.Now()
	eventually(t, "the end of its epoch", func() bool { return !m.Leads() })
	if age := time.Since(cut); m.Lag() < age {
		t.Errorf("lag of %v, cut off for %v", m.Lag(), age)
	}
	// One that stood still does not know yet that it was replaced.
	m = c.leader(m)
	r, term := m.Replica, m.epoch.Load().term
	e := newEpoch(term)
	old := &Replica{opt: r.opt, entries: r.entries, raft: r.raft}
	old.contact = newContact(old)
	old.epoch.Store(e)
	old.contact.mu.caught = time.Now().Add(-time.Hour)
	if lag := old.Lag(); lag < time.Hour {
		t.Errorf("lag of %v after an hour", lag)
	}
}

// TestLagOfSlowStore tells how old a follower is that does not get on.
func TestLagOfSlowStore(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	c.must(func() *entry.Entry { return row(1, 1) })
	var follower *member
	for _, o := range c.members {
		eventually(t, "ready", o.Ready)
		if o != m {
			follower = o
		}
	}
	hold := make(chan struct{})
	follower.mu.Lock()
	follower.mu.hold = hold
	follower.mu.Unlock()
	c.must(func() *entry.Entry { return row(1, 2) })
	eventually(t, "a lag", func() bool { return follower.Lag() > 3*electionTimeout })
	follower.mu.Lock()
	follower.mu.hold = nil
	follower.mu.Unlock()
	close(hold)
	eventually(t, "no lag", func() bool { return follower.Lag() < 3*electionTimeout })
	c.equal()
}

// TestReadyAfterRestart is not ready before what was acknowledged is applied again.
func TestReadyAfterRestart(t *testing.T) {
	c := newCluster(t, 3, Options{})
	for i := range uint64(30) {
		c.must(func() *entry.Entry { return row(1, i) })
	}
	n := uint64(len(c.equal()))
	for _, m := range c.members {
		c.stop(m)
	}
	for _, m := range c.members {
		c.start(m)
	}
	for _, m := range c.members {
		eventually(t, "ready", func() bool {
			applied := m.Replica.Applied()
			ready := m.Ready()
			if ready && m.Replica.Applied() < n {
				t.Fatalf("%s is ready at %d of %d", m.id, applied, n)
			}
			return ready
		})
	}
}

// TestReadyBehindBase has a leader that has just started tell a commit index from before
// the base of a node, whose log begins there: the node waits for a later one.
func TestReadyBehindBase(t *testing.T) {
	c := newCluster(t, 3, Options{LogMaxBytes: 1})
	for i := range uint64(30) {
		c.must(func() *entry.Entry { return row(1, i) })
	}
	c.equal()
	m := c.follower()
	if err := m.Trim(m.Replica.Applied()); err != nil {
		t.Fatal(err)
	}
	c.stop(m)
	c.start(m)
	m.contact.mu.Lock()
	m.contact.mu.pending = sample{time.Now(), 3, 1 << 40}
	m.contact.mu.Unlock()
	eventually(t, "ready", m.Ready)
}

// TestMark meets all nodes at one sequence.
func TestMark(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: steady})
	m := c.leader()
	for i := range uint64(5) {
		if err := m.write(row(1, i)); err != nil {
			t.Fatal(err)
		}
	}
	sequence, err := m.Mark(context.Background(), "check-1")
	if err != nil || sequence != 5 {
		t.Fatal(sequence, err)
	}
	for _, o := range c.members {
		eventually(t, "the mark", func() bool {
			o.marksLock.Lock()
			defer o.marksLock.Unlock()
			return o.marks["check-1"] == 5
		})
		if o != m {
			if _, err := o.Mark(context.Background(), "x"); !errors.Is(err, store.ErrNotLeader) {
				t.Error(err)
			}
		}
	}
}

// TestConfirmed counts only answers to what was sent after the read began, in its term.
func TestConfirmed(t *testing.T) {
	voters := []raft.Server{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}
	begun := time.Now()
	for _, test := range []struct {
		name string
		acks map[raft.ServerID]ack
		want bool
	}{
		{"none", nil, false},
		{"one later", map[raft.ServerID]ack{"n2": {begun.Add(1), 5}}, true},
		{"at the time", map[raft.ServerID]ack{"n3": {begun, 5}}, true},
		{"both earlier", map[raft.ServerID]ack{"n2": {begun.Add(-1), 5}, "n3": {begun.Add(-1), 5}}, false},
		{"another term", map[raft.ServerID]ack{"n2": {begun.Add(1), 4}}, false},
		{"no voter", map[raft.ServerID]ack{"n4": {begun.Add(1), 5}}, false},
	} {
		c := parts(nil).contact
		for id, a := range test.acks {
			c.mu.acks[id] = a
		}
		if got := c.confirmed(voters, 5, begun); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// backlog returns the bytes of what raft has read for apply that apply has not seen.
func backlog(r *Replica) int {
	r.entries.mu.Lock()
	defer r.entries.mu.Unlock()
	return r.entries.mu.backlogBytes
}

// TestBacklog starts a node with a long log and a slow store: raft does not read all of
// the log into memory.
func TestBacklog(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	var slow *member
	for _, o := range c.members {
		if o != m {
			slow = o
		}
	}
	big := make([]byte, maxGroupBytes)
	const groups = 3 * maxBacklogBytes / maxGroupBytes
	for range groups {
		c.must(func() *entry.Entry { return &entry.Entry{Command: big} })
	}
	c.equal()
	c.stop(slow)
	hold := make(chan struct{})
	slow.mu.Lock()
	slow.mu.hold = hold
	slow.mu.Unlock()
	c.start(slow)
	eventually(t, "a full backlog", func() bool { return backlog(slow.Replica) > maxBacklogBytes })
	for range 20 {
		if n := backlog(slow.Replica); n > maxBacklogBytes+2*maxGroupBytes {
			t.Fatalf("%d bytes", n)
		}
		time.Sleep(time.Millisecond)
	}
	slow.mu.Lock()
	slow.mu.hold = nil
	slow.mu.Unlock()
	close(hold)
	if n := len(c.equal()); n < groups {
		t.Errorf("%d entries", n)
	}
	// An entry is applied, and then no longer counted.
	eventually(t, "no backlog", func() bool { return backlog(slow.Replica) == 0 })
}

// TestFollowerReadsNoLog writes one entry after the other: a follower does not read its log
// to see how far it is behind.
func TestFollowerReadsNoLog(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: steady})
	m := c.leader()
	c.equal()
	var reads atomic.Int64
	for _, o := range c.members {
		o.log.mu.Lock()
		o.log.read = func(uint64) error {
			reads.Add(1)
			return nil
		}
		o.log.mu.Unlock()
	}
	for i := range uint64(300) {
		e := row(1, i)
		if err := m.write(e); err != nil {
			t.Fatal(err)
		}
		for _, o := range c.members {
			if err := o.Wait(context.Background(), e.Sequence); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := reads.Load(); n > 100 {
		t.Errorf("%d entries were read from the log while 300 were written", n)
	}
}
