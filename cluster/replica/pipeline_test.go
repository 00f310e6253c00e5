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
	var transports [2]*raft.NetworkTransport
	for i := range transports {
		var err error
		if transports[i], err = raft.NewTCPTransport("127.0.0.1:0", nil, 1, 30*time.Second, io.Discard); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = transports[i].Close() })
	}
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
	c := newContact(transports[0], "n1", nil, stop, nil)
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
	case <-time.After(10 * time.Second):
		t.Error("a message waits for a reader of the answers")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
