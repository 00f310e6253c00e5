package replica

import (
	"time"

	"github.com/hashicorp/raft"
)

// commitEvery is how long the log has nothing to write before it writes the commit index
// alone.
const commitEvery = 250 * time.Millisecond

// keepCommit keeps the commit index in the log: with the entries that are stored, and by
// itself where none come.
func (r *Replica) keepCommit() {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	var stored uint64
	for {
		select {
		case <-r.stop:
			r.opt.Log.Commit(r.raft.CommitIndex()) // which Close of the log writes
			return
		case <-tick.C:
		}
		r.opt.Log.Commit(r.raft.CommitIndex())
		if n := r.entries.stored.Load(); n != stored {
			stored = n
			continue
		}
		_ = r.opt.Log.SaveCommit() // the log reports it, and the next entry ends the replica
	}
}

// catchUpStep is how many entries catchUp has applied before raft may vote again.
const catchUpStep = 64

// catchUp applies what is known to be committed when this node starts, before the node
// has met any other: what the log knew, and what the store has in files. Raft would do
// the former itself (RestoreCommittedLogs), except for at most 128 messages to a state machine
// that does not run yet, and it would forget the configurations among the entries.
func (r *Replica) catchUp(commit uint64) {
	defer close(r.caughtUp)
	for r.raft.State() != raft.Leader { // which commits them itself
		at := max(r.opt.Log.Base().Index, r.raft.CommitIndex())
		if r.awaitApplied(r.following, at) != nil {
			return
		}
		next := at + 1
		switch {
		case at < commit:
			next = min(at+catchUpStep, commit)
		case r.Applied() < r.floor && at < r.raft.LastIndex(): // the next entry is not above that of the floor
		default:
			var l raft.Log
			if r.entries.get(at, &l) == nil && !l.AppendedAt.IsZero() {
				r.contact.alone(l.AppendedAt)
			}
			return
		}
		if !r.contact.committed(next) {
			return
		}
	}
	_ = r.awaitApplied(r.following, commit)
}
