package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Network is the transport of raft. It dials servers at ID@HOST:PORT, so that what is
// meant for one server does not reach another one that has its address now: a node that
// joins again under a new id must not vote as the old one. The address is the one that
// raft has. A raft.ServerAddressProvider could know a new address before raft does; raft
// v1.8.0 would then read the old one while it writes the new one.
type Network struct{ *raft.NetworkTransport }

// NewNetwork returns the transport of raft over the streams of t. meet is called with the
// peer of each new connection; an error ends it.
func NewNetwork(t *Transport, meet func(Hello) error) Network {
	return Network{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: dialer{t.Streams(), meet}, MaxPool: 4, Timeout: 10 * time.Second, Logger: hclog.NewNullLogger(),
	})}
}

func with(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(address))
}

// AppendEntries sends a heartbeat, or entries to a server that is behind.
func (n Network) AppendEntries(id raft.ServerID, at raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return n.NetworkTransport.AppendEntries(id, with(id, at), args, resp)
}

// AppendEntriesPipeline sends entries to a server that follows.
func (n Network) AppendEntriesPipeline(id raft.ServerID, at raft.ServerAddress) (raft.AppendPipeline, error) {
	return n.NetworkTransport.AppendEntriesPipeline(id, with(id, at))
}

// RequestVote asks for a vote.
func (n Network) RequestVote(id raft.ServerID, at raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return n.NetworkTransport.RequestVote(id, with(id, at), args, resp)
}

// RequestPreVote asks for a vote before an election.
func (n Network) RequestPreVote(id raft.ServerID, at raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return n.NetworkTransport.RequestPreVote(id, with(id, at), args, resp)
}

// InstallSnapshot sends a snapshot, which the server refuses.
func (n Network) InstallSnapshot(id raft.ServerID, at raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return n.NetworkTransport.InstallSnapshot(id, with(id, at), args, resp, data)
}

// TimeoutNow has a server begin an election.
func (n Network) TimeoutNow(id raft.ServerID, at raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return n.NetworkTransport.TimeoutNow(id, with(id, at), args, resp)
}

// dialer makes the connections of raft.
type dialer struct {
	raft.StreamLayer
	meet func(Hello) error // returns why there is none with a node
}

// Accept waits for a connection of a server.
func (s dialer) Accept() (net.Conn, error) {
	for {
		conn, err := s.StreamLayer.Accept()
		if err != nil {
			return nil, err
		}
		if peer, ok := conn.(interface{ Peer() Hello }); ok && s.meet(peer.Peer()) == nil {
			return conn, nil
		}
		_ = conn.Close() // it is refused
	}
}

// Dial connects to a server at ID@HOST:PORT.
func (s dialer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, at, ok := strings.Cut(string(address), "@")
	if !ok || at == "" {
		return nil, fmt.Errorf("no address of %s is known", address)
	}
	conn, err := s.StreamLayer.Dial(raft.ServerAddress(at), timeout)
	if err != nil {
		return nil, err
	}
	peer, ok := conn.(interface{ Peer() Hello })
	if !ok || peer.Peer().ID != id {
		return nil, errors.Join(fmt.Errorf("the node at %s is not %s", at, id), conn.Close())
	}
	if err := s.meet(peer.Peer()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
