package replica

import (
	"io"
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
	c := newContact(transports[0], "n1", nil, stop, func() bool { return false }, nil, nil)
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
		t.Cleanup(func() { _ = transports[i].Close() })
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
	c := newContact(transports[0], "n1", nil, stop, func() bool { return false }, nil, nil)
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
