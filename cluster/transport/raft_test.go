package transport

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"tsdbd/internal/testkit/faulty"
	"tsdbd/internal/testkit/testseed"
)

// counting is a raft.FSM that sums numbers.
type counting struct {
	mu      sync.Mutex
	sum     uint64
	entries int
}

func (c *counting) Apply(l *raft.Log) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum += binary.LittleEndian.Uint64(l.Data)
	c.entries++
	return nil
}

func (c *counting) state() (sum uint64, entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum, c.entries
}

func (c *counting) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (c *counting) Restore(io.ReadCloser) error         { return nil }

// member is one node of a raft cluster over transports.
type member struct {
	name string
	*Transport
	*raft.Raft
	fsm *counting
}

// raftOver starts raft on three nodes of a network.
func raftOver(t *testing.T, network *faulty.Network) []*member {
	t.Helper()
	var members []*member
	var configuration raft.Configuration
	for _, name := range []string{"n1", "n2", "n3"} {
		address, err := network.Address(name)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, &member{name: name, fsm: &counting{}, Transport: node(t, name, func(o *Options, _ *Hello) {
			o.Bind, o.Dial, o.Listen = address, network.Dial(name), network.Listen(name)
			o.HandshakeTimeout = 2 * time.Second
		})})
		configuration.Servers = append(configuration.Servers, raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(address)})
	}
	for _, m := range members {
		c := raft.DefaultConfig()
		c.LocalID, c.LogOutput = raft.ServerID(m.name), io.Discard
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = time.Second, time.Second, 500*time.Millisecond
		layer := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: m.Streams(), MaxPool: 3, Timeout: time.Second, MaxRPCsInFlight: 16, Logger: hclog.NewNullLogger()})
		logs, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		if err := raft.BootstrapCluster(c, logs, logs, snapshots, layer, configuration); err != nil {
			t.Fatal(err)
		}
		var err error
		if m.Raft, err = raft.NewRaft(c, m.fsm, logs, logs, snapshots, layer); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Shutdown().Error(); err != nil {
				t.Error(err)
			}
			if err := layer.Close(); err != nil {
				t.Error(err)
			}
			layer.CloseStreams()
		})
	}
	return members
}

// leader waits for a leader among members.
func leader(t *testing.T, members []*member) *member {
	t.Helper()
	until := time.Now().Add(60 * time.Second)
	for time.Now().Before(until) {
		for _, m := range members {
			if m.State() == raft.Leader && m.VerifyLeader().Error() == nil {
				return m
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("no leader")
	return nil
}

// apply adds a number through whoever leads.
func apply(t *testing.T, members []*member, n uint64) {
	t.Helper()
	until := time.Now().Add(60 * time.Second)
	for {
		err := leader(t, members).Apply(binary.LittleEndian.AppendUint64(nil, n), 10*time.Second).Error()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// TestRaft lets raft elect leaders and replicate through partitions and broken
// connections.
func TestRaft(t *testing.T) {
	t.Parallel()
	network := faulty.New(testseed.Of(t))
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	members := raftOver(t, network)
	without := func(m *member) (rest []*member) {
		for _, o := range members {
			if o != m {
				rest = append(rest, o)
			}
		}
		return rest
	}
	var sum atomic.Uint64
	some := func(members []*member) {
		for i := range uint64(50) {
			apply(t, members, i)
			sum.Add(i)
		}
	}
	some(members)
	old := leader(t, members)
	network.Partition(old.name)
	some(without(old))
	network.HealAll()
	some(members)
	old = leader(t, members)
	for _, m := range without(old) { // nobody hears the leader
		network.Cut(old.name, m.name)
	}
	some(without(old))
	network.HealAll()
	for i, a := range members {
		network.Reset(a.name, members[(i+1)%3].name)
	}
	some(members)
	for _, m := range members {
		until := time.Now().Add(60 * time.Second)
		for {
			got, _ := m.fsm.state()
			if got >= sum.Load() { // an entry whose answer was lost may be there twice
				break
			}
			if time.Now().After(until) {
				t.Fatalf("%s has %d of %d", m.name, got, sum.Load())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	first, entries := members[0].fsm.state()
	for _, m := range members[1:] {
		if got, n := m.fsm.state(); n == entries && got != first {
			t.Errorf("%s has %d, %s %d after %d entries", m.name, got, members[0].name, first, n)
		}
	}
	if s := leader(t, members).Raft.Stats(); s["num_peers"] != "2" {
		t.Error(fmt.Sprint(s))
	}
	if s := members[0].figures(); s.raft == 0 || s.http != 0 {
		t.Errorf("%+v", s)
	}
}
