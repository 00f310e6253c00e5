package transport

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"
)

const (
	maxRemembered = 256              // peers in each table below
	logInterval   = 10 * time.Second // between two lines about one host
)

// Refusal says why a node and a peer are not connected. It is the error of a dial that
// failed for this reason.
type Refusal struct {
	Peer     string // name of the peer, "" if it did not get to say it
	Address  string // that was dialed, or where the connection came from
	Reason   string
	ByPeer   bool // the peer refused this node
	Incoming bool // the peer dialed
	Time     time.Time
}

// Error returns the reason, and who refused.
func (r *Refusal) Error() string {
	if r.ByPeer {
		return fmt.Sprintf("refused by %s: %s", r.who(), r.Reason)
	}
	return fmt.Sprintf("refused %s: %s", r.who(), r.Reason)
}

func (r *Refusal) who() string {
	if r.Peer == "" {
		return r.Address
	}
	return r.Peer + " (" + r.Address + ")"
}

// key is the name under which a refusal is kept.
func (r *Refusal) key() string {
	if r.Peer == "" {
		return r.Address
	}
	return r.Peer
}

// memory keeps what is known about peers, within bounds.
type memory struct {
	log *slog.Logger
	now func() time.Time

	mu struct {
		sync.Mutex
		refusals map[string]Refusal
		logged   map[string]logged
	}
}

// logged is when the last line about a host was logged, and how many were not since.
type logged struct {
	at   time.Time
	left int
}

func newMemory(log *slog.Logger, now func() time.Time) *memory {
	m := &memory{log: log, now: now}
	m.mu.refusals = map[string]Refusal{}
	m.mu.logged = map[string]logged{}
	return m
}

// refused keeps a refusal. Of too many the oldest goes.
func (m *memory) refused(r Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.refusals[r.key()] = r
	dropOldest(m.mu.refusals, func(r Refusal) time.Time { return r.Time })
}

// connected forgets refusals of a peer in the same direction.
func (m *memory) connected(p Hello, address string, incoming bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, r := range m.mu.refusals {
		if r.Incoming == incoming && (r.Peer == p.Name || r.Address == address || r.Address == p.Address) {
			delete(m.mu.refusals, key)
		}
	}
}

// failure logs that a connection from a host came to nothing, but not too often.
func (m *memory) failure(host string, err error) {
	now := m.now()
	m.mu.Lock()
	last, known := m.mu.logged[host]
	if known && now.Sub(last.at).Abs() < logInterval {
		last.left++
		m.mu.logged[host] = last
		m.mu.Unlock()
		return
	}
	m.mu.logged[host] = logged{at: now}
	dropOldest(m.mu.logged, func(l logged) time.Time { return l.at })
	m.mu.Unlock()
	m.log.Warn("connection of a node failed", "peer", host, "err", err, "unlogged", last.left)
}

// dropOldest bounds a table.
func dropOldest[V any](table map[string]V, at func(V) time.Time) {
	if len(table) <= maxRemembered {
		return
	}
	oldest := ""
	for key, v := range table {
		if oldest == "" || at(v).Before(at(table[oldest])) {
			oldest = key
		}
	}
	delete(table, oldest)
}

// Refusals returns the latest refusal of each peer that has not been connected since,
// by name or, if the peer did not get to say its name, by address.
func (t *Transport) Refusals() map[string]Refusal {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	return maps.Clone(t.memory.mu.refusals)
}

// hostOf returns the host of the other end of a connection.
func hostOf(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
