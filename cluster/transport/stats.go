package transport

import "sync/atomic"

// Kind is what a connection carries.
type Kind byte

// The kinds of connections. The values are those of the byte that the dialer sends.
const (
	Raft Kind = 1
	HTTP Kind = 2
)

// String returns the name of a kind, as in metrics.
func (k Kind) String() string {
	switch k {
	case Raft:
		return "raft"
	case HTTP:
		return "http"
	}
	return "unknown"
}

// KindStats are figures of the connections of one kind.
type KindStats struct {
	Open              int64 // connections now
	Accepted, Dialed  int64 // connections since the start
	BytesIn, BytesOut int64 // before encryption, without handshakes
}

// Stats are figures of a Transport.
type Stats struct {
	Raft, HTTP KindStats

	Handshakes  int64 // under way now, of peers that dialed
	Failed      int64 // handshakes that failed, by strangers and errors of the network
	Refused     int64 // handshakes that this node or the peer refused
	Evicted     int64 // handshakes that were ended because there were too many
	WritesTimed int64 // connections ended because a write made no progress
}

type kindCounters struct {
	open, accepted, dialed, in, out atomic.Int64
}

func (c *kindCounters) stats() KindStats {
	return KindStats{
		Open: c.open.Load(), Accepted: c.accepted.Load(), Dialed: c.dialed.Load(),
		BytesIn: c.in.Load(), BytesOut: c.out.Load(),
	}
}

// counters are the live figures.
type counters struct {
	kinds                            [HTTP + 1]kindCounters
	failed, refused, evicted, timeds atomic.Int64
}

// Stats returns the present figures.
func (t *Transport) Stats() Stats {
	return Stats{
		Raft: t.counters.kinds[Raft].stats(), HTTP: t.counters.kinds[HTTP].stats(),
		Handshakes: t.halfOpen.count(),
		Failed:     t.counters.failed.Load(), Refused: t.counters.refused.Load(),
		Evicted: t.counters.evicted.Load(), WritesTimed: t.counters.timeds.Load(),
	}
}
