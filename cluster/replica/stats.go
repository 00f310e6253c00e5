package replica

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Stats are the figures of a replica since its start.
type Stats struct {
	Term      uint64
	State     raft.RaftState
	Epochs    uint64 // times that this node began to lead
	Index     uint64 // of the last group applied
	Commit    uint64 // commit index that this node knows
	LastIndex uint64 // of its log
	Sequence  uint64 // of the last entry applied

	Entries uint64 // applied
	Groups  uint64 // applied
	Own     uint64 // of Groups, those that this node proposed
	Skipped uint64 // groups that came in a later term than that of their epoch
	Bytes   uint64 // of the groups applied

	Queued, QueuedBytes   int // entries that wait for a group
	Flights, FlightBytes  int // groups proposed and not applied
	Backlog, BacklogBytes int // entries read for apply and not applied

	ApplyTime     time.Duration // spent applying groups
	CommitTime    time.Duration // from the proposal of a group of Own to its application, summed up
	DecoderBytes  int64         // of series and layouts, as of the last look
	DecoderResets uint64        // times that the decoder forgot them
	LogBytes      int64         // of the groups behind the base
}

type counters struct {
	epochs, entries, groups, own, skipped, bytes, resets atomic.Uint64
	applyTime, commitTime, decoder                       atomic.Int64
}

// Stats returns the figures.
func (r *Replica) Stats() Stats {
	c := &r.counters
	s := Stats{
		Epochs: c.epochs.Load(), Index: r.progress.index.Load(), Sequence: r.Applied(),
		Entries: c.entries.Load(), Groups: c.groups.Load(), Own: c.own.Load(), Skipped: c.skipped.Load(), Bytes: c.bytes.Load(),
		ApplyTime: time.Duration(c.applyTime.Load()), CommitTime: time.Duration(c.commitTime.Load()),
		DecoderBytes: c.decoder.Load(), DecoderResets: c.resets.Load(), LogBytes: r.trail.size(),
	}
	if raft := r.Raft(); raft != nil {
		s.Term, s.State, s.Commit, s.LastIndex = raft.CurrentTerm(), raft.State(), raft.CommitIndex(), raft.LastIndex()
	}
	if e := r.epoch.Load(); e != nil {
		s.Queued, s.QueuedBytes, s.Flights, s.FlightBytes = e.waiting()
	}
	s.Backlog, s.BacklogBytes = r.entries.backlog()
	return s
}
