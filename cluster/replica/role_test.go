package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/store"
	"tsdbd/wal/entry"
)

// TestLeaderCutOff cuts the leader off while many write. Every request gets an answer,
// and after the network is whole again, what was acknowledged is there once, and the
// rest at most once.
func TestLeaderCutOff(t *testing.T) {
	c := newCluster(t, 3, Options{})
	old := c.leader()
	var acknowledged, unknown sync.Map
	var writers sync.WaitGroup
	var failed atomic.Int32
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				s := fmt.Sprintf("m,host=%d=%d@1 ", w+1, i)
				err := old.write(row(uint32(w+1), uint64(i)))
				if err == nil {
					acknowledged.Store(s, true)
					continue
				}
				if !errors.Is(err, store.ErrNotLeader) {
					t.Errorf("%s: %v", s, err)
				}
				unknown.Store(s, true)
				failed.Add(1)
				return
			}
		})
	}
	eventually(t, "some writes", func() bool { return old.Replica.Applied() > 20 || failed.Load() == 4 })
	c.connect(alone(old))
	writers.Wait()
	if failed.Load() != 4 {
		t.Fatalf("%d requests failed", failed.Load())
	}
	c.leader(old)
	c.must(func() *entry.Entry { return row(9, 9) })
	c.connect()
	n := count(c.equal())
	acknowledged.Range(func(s, _ any) bool {
		if n[s.(string)] != 1 {
			t.Errorf("%s was acknowledged, applied %d times", s, n[s.(string)])
		}
		return true
	})
	unknown.Range(func(s, _ any) bool {
		if n[s.(string)] > 1 {
			t.Errorf("%s applied %d times", s, n[s.(string)])
		}
		return true
	})
	if err := old.write(row(1, 1)); old.Leads() == false && !errors.Is(err, store.ErrNotLeader) {
		t.Error(err)
	}
}

// TestTransfer moves the leadership around under load. What is refused was not
// applied: a transfer first answers what is under way.
func TestTransfer(t *testing.T) {
	c := newCluster(t, 3, Options{})
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var acknowledged sync.Map
	for w := range 3 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				m := c.leader()
				// Each value is of another series: every group has definitions.
				if m.write(row(uint32(i*3+w+1), uint64(w))) == nil {
					acknowledged.Store(fmt.Sprintf("m,host=%d=%d@1 ", i*3+w+1, w), true)
				}
			}
		})
	}
	for i := range 6 {
		from := c.leader()
		id := raft.ServerID("")
		if i%2 == 1 {
			id = c.members[0].id
			if from.id == id {
				id = c.members[1].id
			}
		}
		eventually(t, "a transfer", func() bool {
			err := from.TransferLeadership(context.Background(), id)
			return err == nil || !from.Leads()
		})
	}
	close(stop)
	writers.Wait()
	n := count(c.equal())
	acknowledged.Range(func(s, _ any) bool {
		if n[s.(string)] != 1 {
			t.Errorf("%s applied %d times", s, n[s.(string)])
		}
		return true
	})
	eventually(t, "the lead stays", func() bool {
		m := c.leader()
		if err := m.TransferLeadership(context.Background(), "n9"); err == nil {
			t.Fatal("leadership given to nobody")
		}
		return m.Leads()
	})
}

// TestFailedTransfer gives the leadership to a node that cannot be reached: the leader
// leads again, in the same term, and what it defines then is complete.
func TestFailedTransfer(t *testing.T) {
	c := newCluster(t, 3, Options{})
	for i := range 10 {
		c.must(func() *entry.Entry { return row(uint32(i+1), 1) })
	}
	m := c.leader()
	var target *member
	for _, o := range c.members {
		if o != m {
			target = o
		}
	}
	c.connect(alone(target))
	ctx, cancel := context.WithTimeout(context.Background(), 10*electionTimeout)
	defer cancel()
	for range 3 { // raft bears one attempt
		if err := m.TransferLeadership(ctx, target.id); err == nil {
			t.Fatal("transferred")
		}
	}
	c.must(func() *entry.Entry { return row(3, 2) })
	c.connect()
	c.equal()
}

// TestFullDisks fills the disks of two followers. They answer the leader, so raft has
// no reason to end its term, but no request hangs, and the leader goes on when there is
// room again.
func TestFullDisks(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: short})
	var m *member
	fill := func(err error) {
		for _, o := range c.members {
			if o != m {
				o.log.mu.Lock()
				o.log.err = err
				o.log.mu.Unlock()
			}
		}
	}
	eventually(t, "a write", func() bool {
		m = c.leader()
		return m.write(row(1, 1)) == nil
	})
	fill(syscall.ENOSPC)
	if err := m.write(row(1, 2)); !errors.Is(err, store.ErrNotLeader) {
		t.Fatal(err)
	}
	if err := m.write(row(1, 3)); m.Leads() || !errors.Is(err, store.ErrNotLeader) {
		t.Fatal(err)
	}
	fill(nil)
	c.must(func() *entry.Entry { return row(1, 4) })
	got := c.equal()
	if got[0] != "m,host=1=1@1 " || got[len(got)-1] != "m,host=1=4@1 " {
		t.Error(got)
	}
}

// stand has a node's store stand still, as one does that has no room on its disk, with an
// entry that it cannot apply. The function that is returned ends that.
func (c *cluster) stand(m *member) (goOn func()) {
	hold := make(chan struct{})
	m.mu.Lock()
	m.mu.hold = hold
	m.mu.Unlock()
	before := m.Replica.Applied()
	c.must(func() *entry.Entry { return row(1, 1) })
	eventually(c.t, "a lag", func() bool { return m.Lag() > electionTimeout && m.Replica.Applied() == before })
	return sync.OnceFunc(func() {
		m.mu.Lock()
		m.mu.hold = nil
		m.mu.Unlock()
		close(hold)
	})
}

// follower returns a node that does not lead.
func (c *cluster) follower() *member {
	leader := c.leader()
	for _, m := range c.members {
		if m != leader {
			return m
		}
	}
	return nil
}

// TestCloseStandingStore closes a node whose store waits for room.
func TestCloseStandingStore(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.follower()
	goOn := c.stand(m)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.stop(m)
	}()
	select {
	case <-done:
	case <-time.After(2 * closeWait):
		t.Error("Close waits for the store, which waits for room")
		goOn()
		<-done
	}
	if len(m.fatal) > 0 {
		t.Error(<-m.fatal)
	}
	c.start(m)
	goOn()
	c.equal()
}

// TestElectedStandingStore has a node lead whose store waits for room. It cannot take
// writes, so another one leads soon.
func TestElectedStandingStore(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: short})
	m := c.follower()
	defer c.stand(m)()
	eventually(t, "the node to lead, for raft", func() bool {
		_ = c.leader().TransferLeadership(context.Background(), m.id)
		return m.Raft().State() == raft.Leader
	})
	eventually(t, "another node takes writes", func() bool { return c.leader(m).write(row(1, 2)) == nil })
}

// TestBrokenDisk stops a node that cannot store its log. The others go on.
func TestBrokenDisk(t *testing.T) {
	c := newCluster(t, 3, Options{})
	m := c.leader()
	m.log.mu.Lock()
	m.log.err = errors.New("input/output error")
	m.log.mu.Unlock()
	if err := m.write(row(1, 1)); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("write: %v", err)
	}
	if err := <-m.fatal; !strings.Contains(err.Error(), "store entries of the replicated log: input/output error") {
		t.Error(err)
	}
	if err := m.Append(row(1, 1)); err == nil || errors.Is(err, store.ErrNotLeader) {
		t.Errorf("write: %v", err)
	}
	c.leader(m)
	c.must(func() *entry.Entry { return row(1, 2) })
}

// TestRandom writes while nodes are cut off, stopped and started.
func TestRandom(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 3))
	c := newCluster(t, 3, Options{DecoderBytes: 2000, ElectionTimeout: short})
	var lock sync.RWMutex // the set of running nodes
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var acknowledged sync.Map
	for w := range 3 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				lock.RLock()
				for _, m := range c.members {
					if m.Replica == nil || !m.Leads() {
						continue
					}
					series := uint32(i%50*3 + w + 1)
					if m.write(row(series, uint64(i))) == nil {
						acknowledged.Store(fmt.Sprintf("m,host=%d=%d@1 ", series, i), true)
					}
					break // what was not acknowledged may take effect: no other node gets the same row
				}
				lock.RUnlock()
			}
		})
	}
	for range 12 {
		before := c.total()
		m := c.members[rnd.IntN(3)]
		switch rnd.IntN(5) {
		case 0:
			c.connect(alone(m))
			time.Sleep(2 * short)
			c.connect()
		case 1: // one way
			c.connect(func(from, _ *member) bool { return from == m })
			time.Sleep(2 * short)
			c.connect()
		case 2:
			lock.Lock()
			c.stop(m)
			lock.Unlock()
			time.Sleep(short)
			lock.Lock()
			c.start(m)
			lock.Unlock()
		case 3:
			lock.Lock()
			for _, m := range c.members {
				c.stop(m)
			}
			for _, m := range c.members {
				c.start(m)
			}
			before = 0
			lock.Unlock()
		case 4:
			_ = c.leader().TransferLeadership(context.Background(), "")
		}
		eventually(t, "progress", func() bool { return c.total() > before })
	}
	close(stop)
	writers.Wait()
	n := count(c.equal())
	acknowledged.Range(func(s, _ any) bool {
		if n[s.(string)] != 1 {
			t.Errorf("%s applied %d times", s, n[s.(string)])
		}
		return true
	})
}

// total returns the highest sequence.
func (c *cluster) total() (n uint64) {
	for _, m := range c.members {
		if m.Replica != nil {
			n = max(n, m.Replica.Applied())
		}
	}
	return n
}
