package replica

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/wal/entry"
)

// hanging is a transport that gets no answer from some nodes, until it is closed.
type hanging struct {
	*raft.InmemTransport
	closed chan struct{}
	once   sync.Once
	hung   atomic.Int64 // messages without an answer
	asked  atomic.Int64 // of these, to lead

	mu      sync.Mutex
	silent  map[raft.ServerID]bool
	changed chan struct{} // closed with the next change of silent
}

// silence has these nodes hang and no others. What hung at another one goes on.
func (h *hanging) silence(ids ...raft.ServerID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed != nil {
		close(h.changed)
	}
	h.silent, h.changed = map[raft.ServerID]bool{}, make(chan struct{})
	for _, id := range ids {
		h.silent[id] = true
	}
}

// wait returns false if a node answers.
func (h *hanging) wait(id raft.ServerID) bool {
	for first := true; ; first = false {
		h.mu.Lock()
		silent, changed := h.silent[id], h.changed
		h.mu.Unlock()
		if !silent {
			return false
		}
		if first {
			h.hung.Add(1)
		}
		select {
		case <-h.closed:
			return true
		case <-changed:
		}
	}
}

var errClosedByTest = errors.New("the transport is closed")

func (h *hanging) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	if h.wait(id) {
		return errClosedByTest
	}
	return h.InmemTransport.AppendEntries(id, to, q, a)
}

func (h *hanging) TimeoutNow(id raft.ServerID, to raft.ServerAddress, q *raft.TimeoutNowRequest, a *raft.TimeoutNowResponse) error {
	if h.wait(id) {
		h.asked.Add(1)
		return errClosedByTest
	}
	return h.InmemTransport.TimeoutNow(id, to, q, a)
}

func (h *hanging) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (h *hanging) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.InmemTransport.Close()
}

// TestCloseBesideHungNode closes a leader while a node hangs that it sends entries to. It
// does not wait for that node, and does not ask it to lead, although the node is the one
// that answered last before.
func TestCloseBesideHungNode(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: 2 * time.Second})
	m, next, hung := c.members[0], c.members[1], c.members[2]
	c.stop(m)
	var h *hanging
	c.wrap = func(t raft.Transport) raft.Transport {
		h = &hanging{InmemTransport: t.(*raft.InmemTransport), closed: make(chan struct{})}
		return h
	}
	c.start(m)
	eventually(t, "m leads", func() bool {
		if l := c.leader(); l != m {
			_ = l.TransferLeadership(t.Context(), m.id)
		}
		return m.Leads()
	})
	c.must(func() *entry.Entry { return row(1, 1) })
	h.silence(next.id)
	eventually(t, "the other one answers later", func() bool {
		return m.contact.answered(hung.id).After(m.contact.answered(next.id).Add(100 * time.Millisecond))
	})
	h.silence(hung.id)
	before := h.hung.Load()
	eventually(t, "a message hangs", func() bool { return h.hung.Load() > before })
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if h.asked.Load() > 0 {
		t.Error("the node that hangs was to lead")
	}
}

// TestFullAtTruncation fills the disk of an old leader before or after it removes the end of
// its log that nobody else has. It goes on when there is room.
func TestFullAtTruncation(t *testing.T) {
	for name, fill := range map[string]func(*memory){
		"before": func(m *memory) { m.cut, m.err = syscall.ENOSPC, syscall.ENOSPC },
		"after":  func(m *memory) { m.full = true },
	} {
		t.Run(name, func(t *testing.T) { testFullAtTruncation(t, fill) })
	}
}

func testFullAtTruncation(t *testing.T, fill func(*memory)) {
	c := newCluster(t, 3, Options{})
	c.must(func() *entry.Entry { return row(1, 1) })
	var old *member
	eventually(t, "a write that only the leader has logged", func() bool {
		c.connect()
		old = c.leader()
		c.connect(alone(old))
		last, _ := old.log.LastIndex()
		if err := old.write(row(1, 2)); err == nil {
			t.Fatal("a write without a majority")
		}
		now, _ := old.log.LastIndex()
		return now > last
	})
	c.leader(old)
	c.must(func() *entry.Entry { return row(1, 3) })
	old.log.mu.Lock()
	fill(old.log)
	old.log.mu.Unlock()
	c.connect()
	eventually(t, "several attempts", func() bool { return old.log.refused.Load() > 3 })
	old.log.mu.Lock()
	old.log.full, old.log.cut, old.log.err = false, nil, nil
	old.log.mu.Unlock()
	if got := strings.Join(c.equal(), ""); got != "m,host=1=1@1 m,host=1=3@1 " {
		t.Error(got)
	}
}

// TestUnreadableEntry starts a node whose log does not give out a committed entry: it is
// damaged, or not there. The node stops with an error that says so, where raft would panic.
func TestUnreadableEntry(t *testing.T) {
	for _, answer := range []error{raft.ErrLogNotFound, binio.Corruptf("0001.rlog", 512, "flipped")} {
		t.Run(answer.Error(), func(t *testing.T) {
			c := newCluster(t, 3, Options{})
			for i := range uint64(3) {
				c.must(func() *entry.Entry { return row(1, i) })
			}
			c.equal()
			leader := c.leader()
			m := c.members[0]
			if m == leader {
				m = c.members[1]
			}
			c.stop(m)
			var first uint64
			for l := (&raft.Log{Type: raft.LogNoop}); l.Type != raft.LogCommand; first++ {
				if err := m.log.GetLog(first+1, l); err != nil {
					t.Fatal(err)
				}
			}
			reads := 0 // raft reads each entry once when it starts
			m.log.mu.Lock()
			m.log.read = func(index uint64) error {
				m.log.mu.Lock()
				defer m.log.mu.Unlock()
				if index == first {
					reads++
				}
				if index == first && reads > 1 {
					return answer
				}
				return nil
			}
			m.log.mu.Unlock()
			c.start(m)
			select {
			case err := <-m.fatal:
				if want := fmt.Sprintf("read entry %d of the replicated log", first); !errors.Is(err, answer) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the node goes on")
			}
			c.must(func() *entry.Entry { return row(1, 9) }) // without it
			c.stop(m)
		})
	}
}
