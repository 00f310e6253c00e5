package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/internal/testkit/leak"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/store"
	"tsdbd/wal/entry"
)

// electionTimeout is for tests of elections. On a busy machine a leader may lose the lead
// at any time.
const electionTimeout = 600 * time.Millisecond

// steady is for tests that need one leader: it keeps the lead on a very busy machine too.
const steady = 8 * time.Second

// Tests wait for elections: many run at a time.
func TestMain(m *testing.M) { leak.Main(m, 8) }

// memory is a raft log in memory.
type memory struct {
	*raft.InmemStore
	mu   sync.Mutex
	base raftlog.Base
	conf raft.Configuration
	err  error                    // what StoreLogs answers
	full bool                     // a disk that gets full when the end of the log is removed
	cut  error                    // what DeleteRange answers
	read func(index uint64) error // what GetLog answers

	refused atomic.Int64 // calls of StoreLogs and DeleteRange that failed
}

func (m *memory) StoreLogs(logs []*raft.Log) error {
	m.mu.Lock()
	err := m.err
	m.mu.Unlock()
	if err != nil {
		m.refused.Add(1)
		return err
	}
	return m.InmemStore.StoreLogs(logs)
}

func (m *memory) DeleteRange(first, last uint64) error {
	m.mu.Lock()
	if m.full {
		m.err = syscall.ENOSPC
	}
	err := m.cut
	m.mu.Unlock()
	if err != nil {
		m.refused.Add(1)
		return err
	}
	return m.InmemStore.DeleteRange(first, last)
}

func (m *memory) GetLog(index uint64, l *raft.Log) error {
	m.mu.Lock()
	read := m.read
	m.mu.Unlock()
	if read != nil {
		if err := read(index); err != nil {
			return err
		}
	}
	return m.InmemStore.GetLog(index, l)
}

func (m *memory) StoreLog(l *raft.Log) error { return m.StoreLogs([]*raft.Log{l}) }

func (m *memory) Base() raftlog.Base {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.base
}

// SetBase drops everything up to the base if keep is 1.
func (m *memory) SetBase(index, term, sequence uint64, keep int64) error {
	m.mu.Lock()
	m.base = raftlog.Base{Index: index, Term: term, Sequence: sequence}
	m.mu.Unlock()
	if keep == 1 {
		return m.DeleteRange(1, index)
	}
	return nil
}

// It does not keep the commit index.
func (m *memory) Commit(uint64)     {}
func (m *memory) SaveCommit() error { return nil }
func (m *memory) Committed() uint64 { return 0 }

func (m *memory) Snapshots() raft.SnapshotStore { return (*memorySnapshots)(m) }

type memorySnapshots memory

func (m *memorySnapshots) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, errors.New("not expected")
}

func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	b := (*memory)(m).Base()
	if b.Index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{{Version: 1, ID: "base", Index: b.Index, Term: b.Term, Configuration: m.conf, ConfigurationIndex: 1, Size: 4}}, nil
}

func (m *memorySnapshots) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	l, err := m.List()
	if err != nil || len(l) == 0 {
		return nil, nil, errors.New("no base")
	}
	return l[0], io.NopCloser(strings.NewReader("base")), nil
}

// ledger is a store that remembers the texts of what was applied. It fails the test if
// it is used against the rules.
type ledger struct {
	t   testing.TB
	log store.Log

	gate sync.RWMutex // held shared by writers

	mu struct {
		sync.Mutex
		leads   bool
		applied []string // by sequence - 1
		series  map[uint32]string
		hold    chan struct{} // Follow waits for it
		err     error         // what Follow returns

		unapplied map[string]error // what Apply returns, by entry
	}
}

func newLedger(t testing.TB) *ledger {
	l := &ledger{t: t}
	l.mu.series = map[uint32]string{}
	return l
}

func (l *ledger) Lead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.leads {
		l.t.Error("Lead while leading")
	}
	l.mu.leads = true
}

func (l *ledger) Retire() {
	l.mu.Lock()
	if !l.mu.leads {
		l.t.Error("Retire without Lead")
	}
	l.mu.leads = false
	l.mu.Unlock()
	l.gate.Lock() // writes under way have their answers
	//lint:ignore SA2001 it only waits
	l.gate.Unlock()
}

func (l *ledger) Applied() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.mu.applied))
}

func text(e *entry.Entry) string {
	if len(e.Command) > 0 {
		return string(e.Command)
	}
	var s string
	for _, w := range e.Writes {
		for _, row := range w.Rows {
			s += fmt.Sprintf("%s=%d@%d ", row.Series.Key(), w.Values[row.First], row.Time)
		}
	}
	return s
}

func (l *ledger) take(e *entry.Entry, own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own != l.mu.leads {
		l.t.Errorf("entry %d: own %v, leads %v", e.Sequence, own, l.mu.leads)
	}
	if want := uint64(len(l.mu.applied)) + 1; e.Sequence != want {
		l.t.Errorf("entry %d, want %d", e.Sequence, want)
	}
	l.mu.applied = append(l.mu.applied, text(e))
	for _, w := range e.Writes {
		for _, row := range w.Rows {
			l.mu.series[uint32(row.Series.ID())] = row.Series.Key()
		}
	}
}

func (l *ledger) options() store.LogOptions {
	return store.LogOptions{
		Apply: func(e *entry.Entry) error {
			l.mu.Lock()
			err := l.mu.unapplied[text(e)]
			l.mu.Unlock()
			if err == nil {
				l.take(e, true)
			}
			return err
		},
		Follow: func(ctx context.Context, e *entry.Entry) error {
			l.mu.Lock()
			hold, err := l.mu.hold, l.mu.err
			l.mu.Unlock()
			if hold != nil {
				select {
				case <-hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err != nil {
				return err
			}
			l.take(e, false)
			return nil
		},
		Resolve: func(_ uint32, id model.SeriesID) (string, bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			key, ok := l.mu.series[uint32(id)]
			return key, ok
		},
		OnFailure:  func(error) {},
		BeforeTrim: func(uint64) error { return nil },
	}
}

// restart forgets what only memory has.
func (l *ledger) restart(files int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.leads, l.mu.applied = false, l.mu.applied[:files]
}

func (l *ledger) content() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.applied)
}

var layout = &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "v", Type: model.Integer}}}

// row is an entry of one row.
func row(series uint32, value uint64) *entry.Entry {
	s := point.NewSeries(fmt.Sprintf("m,host=%d", series))
	s.SetID(model.SeriesID(series))
	return &entry.Entry{Writes: []entry.Write{{Database: 1, Shard: 1, Rows: []point.Row{{Series: s, Layout: layout, Time: 1}}, Values: []uint64{value}}}}
}

// write appends an entry as a store does.
func (l *ledger) write(e *entry.Entry) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	l.mu.Lock()
	leads := l.mu.leads
	l.mu.Unlock()
	if !leads {
		return store.ErrNotLeader
	}
	return l.log.Append(e)
}

// member is a node of a test.
type member struct {
	id        raft.ServerID
	log       *memory
	transport *raft.InmemTransport
	*ledger
	*Replica
	fatal     chan error
	transfer  chan string
	marks     map[string]uint64
	marksLock sync.Mutex
}

// cluster is some nodes in one process.
type cluster struct {
	t       testing.TB
	options Options                             // of the next nodes
	before  func(m *member)                     // the next starts
	wrap    func(raft.Transport) raft.Transport // what the next gets
	members []*member
}

func newCluster(t testing.TB, n int, opt Options) *cluster { return newClusterOver(t, n, opt, nil) }

// newClusterOver is newCluster with another transport for each node.
func newClusterOver(t testing.TB, n int, opt Options, wrap func(raft.Transport) raft.Transport) *cluster {
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	c := &cluster{t: t, options: opt, wrap: wrap}
	var conf raft.Configuration
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	for _, s := range conf.Servers {
		m := &memory{InmemStore: raft.NewInmemStore(), conf: conf}
		config := raft.DefaultConfig()
		config.LocalID = s.ID
		if err := raft.BootstrapCluster(config, m, m, m.Snapshots(), nil, conf); err != nil {
			t.Fatal(err)
		}
		c.members = append(c.members, &member{id: s.ID, log: m, ledger: newLedger(t)})
	}
	for _, m := range c.members {
		c.start(m)
	}
	if opt.ElectionTimeout >= 2*time.Second {
		c.elect(c.members[0], c.members[1])
	}
	t.Cleanup(func() {
		for i, m := range c.members {
			if i > 0 {
				depose(m)
			}
			c.stop(m)
		}
	})
	return c
}

// elect has a node ask for votes at once, by a message from another one.
func (c *cluster) elect(m, from *member) {
	c.t.Helper()
	ask := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	if err := from.transport.TimeoutNow(m.id, raft.ServerAddress(m.id), &ask, &raft.TimeoutNowResponse{}); err != nil {
		c.t.Fatal(err)
	}
}

// depose has a node that leads follow another one, by a message. Else its Close would try for
// long to hand the lead over to nodes that are closed.
func depose(m *member) {
	if m.Replica == nil || m.Raft() == nil || m.Raft().State() != raft.Leader {
		return
	}
	_, other := raft.NewInmemTransport("other")
	other.Connect(raft.ServerAddress(m.id), m.transport)
	a := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("other"), Addr: []byte("other")}, Term: m.Raft().CurrentTerm() + 1}
	_ = other.AppendEntries(m.id, raft.ServerAddress(m.id), &a, new(raft.AppendEntriesResponse)) // its disk may hang
}

// start starts a node on its log, which it may have from before.
func (c *cluster) start(m *member) {
	c.t.Helper()
	m.restart(int(m.log.Base().Sequence))
	_, m.transport = raft.NewInmemTransportWithTimeout(raft.ServerAddress(m.id), 2*electionTimeout)
	fatal, transfer := make(chan error, 1), make(chan string, 1)
	m.fatal, m.transfer, m.marks = fatal, transfer, map[string]uint64{}
	opt := c.options
	opt.ID, opt.Log, opt.Transport = m.id, m.log, m.transport
	if opt.ElectionTimeout == 0 {
		opt.ElectionTimeout = electionTimeout
	}
	if c.wrap != nil {
		opt.Transport = c.wrap(opt.Transport)
	}
	if os.Getenv("REPLICA_LOG") != "" {
		opt.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", m.id)
	}
	opt.OnFatal = func(err error) { fatal <- err }
	opt.OnTransferNeeded = func(reason string) { transfer <- reason }
	opt.OnMark = func(id string, sequence uint64) {
		m.marksLock.Lock()
		defer m.marksLock.Unlock()
		m.marks[id] = sequence
	}
	var err error
	if m.Replica, err = New(opt); err != nil {
		c.t.Fatal(err)
	}
	if m.ledger.log, err = m.OpenLog(m.options()); err != nil {
		c.t.Fatal(err)
	}
	if c.before != nil {
		c.before(m)
	}
	c.connect()
	if err := m.Start(m.ledger); err != nil {
		c.t.Fatal(err)
	}
}

// stop stops a node; its log stays.
func (c *cluster) stop(m *member) {
	if m.Replica == nil {
		return
	}
	if err := m.Close(); err != nil {
		c.t.Error(err)
	}
	for _, o := range c.members {
		if o.transport != nil {
			o.transport.Disconnect(raft.ServerAddress(m.id))
		}
	}
	_ = m.transport.Close()
	m.Replica = nil
}

// connect heals the network, except for the links for which cut says yes.
func (c *cluster) connect(cut ...func(from, to *member) bool) {
	for _, from := range c.members {
		for _, to := range c.members {
			if from == to || from.transport == nil || to.transport == nil {
				continue
			}
			if slices.ContainsFunc(cut, func(f func(from, to *member) bool) bool { return f(from, to) }) {
				from.transport.Disconnect(raft.ServerAddress(to.id))
			} else {
				from.transport.Connect(raft.ServerAddress(to.id), to.transport)
			}
		}
	}
}

// alone cuts a node off.
func alone(m *member) func(from, to *member) bool {
	return func(from, to *member) bool { return from == m || to == m }
}

// eventually waits for a condition. A test that fails takes long, no other does.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// leader waits for a leader that is not one of some nodes.
func (c *cluster) leader(not ...*member) (leader *member) {
	c.t.Helper()
	eventually(c.t, "a leader", func() bool {
		for _, m := range c.members {
			if m.Replica != nil && m.Leads() && !slices.Contains(not, m) {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

// short is for tests that wait long for a multiple of it, and bear elections.
const short = 250 * time.Millisecond

// must writes at whatever node leads, until an attempt succeeds.
func (c *cluster) must(e func() *entry.Entry) {
	c.t.Helper()
	eventually(c.t, "a write", func() bool {
		m := c.leader()
		return m.write(e()) == nil
	})
}

// equal waits until all nodes have applied the same, and returns it.
func (c *cluster) equal() []string {
	c.t.Helper()
	var want []string
	eventually(c.t, "equal nodes", func() bool {
		want = c.leader().content()
		return !slices.ContainsFunc(c.members, func(m *member) bool {
			return m.Replica != nil && !slices.Equal(m.content(), want)
		})
	})
	for _, m := range c.members {
		select {
		case err := <-m.fatal:
			c.t.Fatalf("%s: %v", m.id, err)
		default:
		}
	}
	return want
}

// count returns how often each text was applied.
func count(applied []string) map[string]int {
	n := map[string]int{}
	for _, s := range applied {
		n[s]++
	}
	return n
}
