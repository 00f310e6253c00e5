package replica

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestPipelineWithoutReader sends through the transport of raft while nobody reads the
// answers, as raft does when an answer has ended its pipeline.
func TestPipelineWithoutReader(t *testing.T) {
	t.Parallel()
	transports := twoTransports(t)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case rpc := <-transports[1].Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Term: rpc.Command.(*raft.AppendEntriesRequest).Term}, nil)
			case <-stop:
				return
			}
		}
	}()
	c := parts(transports[0]).contact
	p, err := c.AppendEntriesPipeline("n2", transports[1].LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for term := range uint64(20) {
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: term}, new(raft.AppendEntriesResponse)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
		for term := range uint64(20) {
			if a := <-p.Consumer(); a.Request().Term != term || a.Response().Term != term {
				t.Fatalf("answer %d is %d for %d", term, a.Response().Term, a.Request().Term)
			}
		}
	case <-time.After(2 * time.Minute):
		t.Error("a message waits for a reader of the answers")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// twoTransports returns transports of raft that reach each other.
func twoTransports(t *testing.T) (transports [2]*raft.NetworkTransport) {
	t.Helper()
	for i := range transports {
		var err error
		if transports[i], err = raft.NewTCPTransport("127.0.0.1:0", nil, 1, 10*time.Minute, io.Discard); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			transports[i].CloseStreams() // which Close leaves open
			_ = transports[i].Close()
		})
	}
	return transports
}

// TestLongMessages sends more than a message may have: it has the first entries, and raft
// finds in it what was sent. A single entry is sent whatever its size.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	transports := twoTransports(t)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	arrived := make(chan int, 2)
	go func() {
		for {
			select {
			case rpc := <-transports[1].Consumer():
				arrived <- len(rpc.Command.(*raft.AppendEntriesRequest).Entries)
				rpc.Respond(new(raft.AppendEntriesResponse), nil)
			case <-stop:
				return
			}
		}
	}()
	c := parts(transports[0]).contact
	p, err := c.AppendEntriesPipeline("n2", transports[1].LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ entries, bytes, want int }{
		{16, maxMessageBytes / 16, 16},
		{16, maxMessageBytes/16 + 1, 15},
		{3, maxMessageBytes, 1},
		{2, maxMessageBytes + 1, 1},
	} {
		message := func() *raft.AppendEntriesRequest {
			a := &raft.AppendEntriesRequest{Term: 1}
			for i := range test.entries {
				a.Entries = append(a.Entries, &raft.Log{Index: uint64(i), Data: make([]byte, test.bytes)})
			}
			return a
		}
		a := message()
		if err := c.AppendEntries("n2", transports[1].LocalAddr(), a, new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
		if n := <-arrived; n != test.want || len(a.Entries) != n {
			t.Errorf("%+v: %d entries arrive, raft sees %d", test, n, len(a.Entries))
		}
		a = message()
		if _, err := p.AppendEntries(a, new(raft.AppendEntriesResponse)); err != nil {
			t.Fatal(err)
		}
		if n := <-arrived; n != test.want || len(a.Entries) != n {
			t.Errorf("%+v in a pipeline: %d entries arrive, raft sees %d", test, n, len(a.Entries))
		}
		if f := <-p.Consumer(); len(f.Request().Entries) != test.want {
			t.Errorf("%+v: the answer is to %d entries", test, len(f.Request().Entries))
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// messages is a pipeline that hands out what it gets.
type messages chan raft.AppendEntriesRequest

func (m messages) AppendEntries(args *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	m <- *args
	return nil, nil
}
func (m messages) Consumer() <-chan raft.AppendFuture { return nil }
func (m messages) Close() error                       { return nil }

// parts returns the parts of a replica that has no log.
func parts(t raft.Transport) *Replica {
	r := &Replica{opt: Options{ID: "n1", Transport: t}}
	r.entries, r.contact = newEntries(r), newContact(r)
	return r
}

// TestCommitIsToldBeforeTheRest sends three entries of which one is committed, then two: a
// message without entries says so, though the last one is under way for good.
func TestCommitIsToldBeforeTheRest(t *testing.T) {
	t.Parallel()
	c := parts(nil).contact
	sent := make(messages, 8)
	p := newPipeline(sent, c)
	var commit atomic.Uint64
	p.commit = func(uint64) uint64 { return commit.Load() }
	args := &raft.AppendEntriesRequest{Term: 3, Entries: []*raft.Log{{Index: 1, Term: 3}, {Index: 2, Term: 3}, {Index: 3, Term: 3}}}
	if _, err := p.AppendEntries(args, nil); err != nil {
		t.Fatal(err)
	}
	<-sent
	for _, n := range []uint64{1, 2} {
		commit.Store(n)
		c.applied()
		if m := <-sent; m.LeaderCommitIndex != n || m.PrevLogEntry != 3 || m.PrevLogTerm != 3 || len(m.Entries) > 0 {
			t.Errorf("%d is committed: %+v was sent", n, m)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if len(sent) > 0 {
		t.Errorf("%d messages more", len(sent))
	}
}

// gated is a transport whose pipelines send nothing to a node while its gate is locked.
type gated struct {
	*raft.InmemTransport
	to   raft.ServerID
	gate *sync.RWMutex
}

func (t gated) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.InmemTransport.AppendEntriesPipeline(id, to)
	if err != nil || id != t.to {
		return p, err
	}
	return gatedPipeline{p, t.gate}, nil
}

type gatedPipeline struct {
	raft.AppendPipeline
	gate *sync.RWMutex
}

func (p gatedPipeline) AppendEntries(q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.AppendPipeline.AppendEntries(q, a)
}

// TestFallenBehind: a node that has fallen behind gets the rest at once when nothing more is
// written. Raft itself sends 16 entries a second to it.
func TestFallenBehind(t *testing.T) {
	var gate sync.RWMutex
	c := newClusterOver(t, 3, Options{ElectionTimeout: steady}, func(t raft.Transport) raft.Transport {
		return gated{t.(*raft.InmemTransport), "n3", &gate}
	})
	m, behind := c.leader(), c.members[2]
	if err := m.write(row(1, 0)); err != nil {
		t.Fatal(err)
	}
	c.equal()
	gate.Lock()
	const rows = 320
	for i := range uint64(rows) {
		if err := m.write(row(1, i+1)); err != nil {
			t.Error(err)
		}
	}
	gate.Unlock()
	begin := time.Now()
	eventually(t, "all rows at the node", func() bool { return len(behind.content()) > rows })
	if took := time.Since(begin); took > rows/16*3*time.Second/4 {
		t.Errorf("it took %s", took)
	}
}
