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

// catchUp applies what the log knew to be committed when this node started, before the
// node has met any other. Raft would do that itself (RestoreCommittedLogs), but for at
// most 128 messages to a state machine that does not run yet, and it would forget the
// configurations among the entries.
func (r *Replica) catchUp(commit uint64) {
	defer close(r.caughtUp)
	at := r.raft.CommitIndex()
	for ; at < commit && r.raft.State() != raft.Leader; at = r.raft.CommitIndex() {
		at = max(at, r.opt.Log.Base().Index)
		at = min(at+catchUpStep, commit)
		if !r.contact.committed(at) || r.awaitApplied(r.following, min(at, r.raft.CommitIndex())) != nil {
			return
		}
	}
	_ = r.awaitApplied(r.following, commit)
}
