package replica

import "sync/atomic"

// Stats are the figures of a replica since its start.
type Stats struct {
	Term     uint64
	Epochs   uint64 // times that this node began to lead
	Index    uint64 // of the last group applied
	Commit   uint64 // commit index that this node knows
	Sequence uint64 // of the last entry applied

	Entries uint64 // applied
	Groups  uint64 // applied
	Bytes   uint64 // of the groups applied
	Queued  int    // entries that wait for a group
}

type counters struct {
	epochs, entries, groups, bytes atomic.Uint64
	own                            atomic.Uint64 // of groups, those that this node proposed
	skipped                        atomic.Uint64 // groups that came in a later term than that of their epoch
	resets                         atomic.Uint64 // times that the decoder forgot series and layouts
}

// Stats returns the figures.
func (r *Replica) Stats() Stats {
	c := &r.counters
	s := Stats{
		Epochs: c.epochs.Load(), Index: r.progress.index.Load(), Sequence: r.Applied(),
		Entries: c.entries.Load(), Groups: c.groups.Load(), Bytes: c.bytes.Load(),
	}
	if raft := r.Raft(); raft != nil {
		s.Term, s.Commit = raft.CurrentTerm(), raft.CommitIndex()
	}
	if e := r.epoch.Load(); e != nil {
		s.Queued, _ = e.waiting()
	}
	return s
}
