package replica

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
)

// Wait waits until everything up to sequence is applied here.
func (r *Replica) Wait(ctx context.Context, sequence uint64) error {
	for r.Applied() < sequence {
		changed := r.whenChanged()
		if r.Applied() >= sequence {
			return nil
		}
		if err := r.wait(ctx, changed); err != nil {
			return fmt.Errorf("wait for position %d: %w", sequence, err)
		}
	}
	return nil
}

// wait waits for a channel, or for the end of the replica or ctx.
func (r *Replica) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-r.failed:
		return r.Err()
	case <-ctx.Done():
		return ctx.Err()
	case <-r.stop:
		return errClosing
	}
}

// Unknown is the Lag of a node that cannot say how old its state is.
const Unknown = time.Duration(math.MaxInt64)

// Lag returns how old the state of this node is: everything that its leader had
// committed before that time is applied. Time that messages took is not in it. It is
// zero at a leader, but not if the process stood still and others may lead by now. Before
// the node has met a leader it is the time since the leader of then took the last entry
// that is known to be committed.
func (r *Replica) Lag() time.Duration {
	if e := r.epoch.Load(); e != nil {
		if age := time.Since(r.contact.followed(r.voters(), e.term)); age > r.opt.ElectionTimeout {
			return age
		}
		return 0
	}
	lag, _ := r.contact.lag()
	return lag
}

// Ready says that this node has applied, since its start, everything that was committed
// before.
func (r *Replica) Ready() bool {
	if r.Leads() {
		return true
	}
	_, ready := r.contact.lag()
	return ready
}

// CaughtUp waits until everything is applied that was known to be committed at the start.
func (r *Replica) CaughtUp(ctx context.Context) error {
	if err := r.wait(ctx, r.caughtUp); err != nil {
		return fmt.Errorf("apply what is committed: %w", err)
	}
	return nil
}

// reached says whether everything up to a leader's commit index is applied. It is not
// valid if the leader has not committed anything of its own term: an earlier leader may
// have committed more.
func (r *Replica) reached(commit, term uint64) (reached, valid bool) {
	if commit < r.opt.Log.Base().Index {
		return false, false // which the log may have no more, and which others went beyond
	}
	t, ok := r.entries.term(commit)
	if !ok {
		return false, true // not here yet
	}
	if t != term {
		return false, false
	}
	if !r.appliedUpTo(commit) {
		return false, true
	}
	r.checkFloor()
	return true, true
}

// checkFloor stops a replica whose store has files from beyond the end of the log. It is
// called when everything is applied that was committed before.
func (r *Replica) checkFloor() {
	if applied := r.Applied(); applied < r.floor {
		r.fail(fmt.Errorf("the files of this node have entries up to %d, the log of its cluster ends at %d: they are of another cluster, or the cluster has lost entries: %w", r.floor, applied, raftlog.ErrCommitted))
	}
}

// checkFlushed returns an error if the entries of the log from an index on are in files of
// the store: what comes in their place would be left out as if the store had it. That can
// be only before the log has passed what the files have.
func (r *Replica) checkFlushed(first uint64) error {
	if r.Applied() >= r.floor {
		return nil // raft knows that they are committed
	}
	base := r.opt.Log.Base()
	sequence := base.Sequence
	for index := base.Index + 1; index < first; index++ {
		var l raft.Log
		if err := r.opt.Log.GetLog(index, &l); err != nil {
			return fmt.Errorf("count the entries of the replicated log: %w", err)
		}
		sequence += countEntries(&l, r.opt.NewestFormat)
	}
	if sequence < r.floor {
		return fmt.Errorf("the files of this node have entries up to %d, those before entry %d of the log end at %d: %w", r.floor, first, sequence, raftlog.ErrCommitted)
	}
	return nil
}

// appliedUpTo says whether every group up to index is applied. Apply does not see
// raft's own entries.
func (r *Replica) appliedUpTo(index uint64) bool {
	for applied := r.progress.index.Load(); index > applied; index-- {
		var l raft.Log
		if r.entries.get(index, &l) != nil || l.Type == raft.LogCommand {
			return r.progress.index.Load() >= index
		}
	}
	return true
}

// ReadPosition returns a sequence, at the leader: a read is linearizable if everything
// up to it is applied where it reads. That is the case here.
func (r *Replica) ReadPosition(ctx context.Context) (uint64, error) {
	e := r.epoch.Load()
	if e == nil {
		return 0, errFollowing
	}
	// Another node may have applied, and shown, what is committed and not applied here.
	commit := r.raft.CommitIndex()
	if err := r.confirm(ctx, e); err != nil {
		return 0, fmt.Errorf("confirm the leadership: %w", err)
	}
	if err := r.awaitApplied(ctx, commit); err != nil {
		return 0, err
	}
	return r.Applied(), nil
}

// awaitApplied waits until every group up to index is applied.
func (r *Replica) awaitApplied(ctx context.Context, index uint64) error {
	for !r.appliedUpTo(index) {
		changed := r.whenChanged()
		if r.appliedUpTo(index) {
			break
		}
		if err := r.wait(ctx, changed); err != nil {
			return fmt.Errorf("wait for entry %d: %w", index, err)
		}
	}
	return nil
}

// confirm returns when a majority has accepted heartbeats of the epoch that were sent
// after the call.
func (r *Replica) confirm(ctx context.Context, e *epoch) error {
	start := time.Now()
	voters := r.voters()
	for {
		// It makes raft send heartbeats now.
		if err := r.ask(ctx, func() raft.Future { return r.raft.VerifyLeader() }); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return fmt.Errorf("%w: %w", errLost, err)
		}
		if r.epoch.Load() != e || r.raft.CurrentTerm() != e.term {
			return errLost
		}
		if r.contact.confirmed(voters, e.term, start) {
			return nil
		}
	}
}

// Mark logs a mark and returns the sequence at which every node meets it.
func (r *Replica) Mark(ctx context.Context, id string) (uint64, error) {
	if err := r.Err(); err != nil {
		return 0, err
	}
	e := r.epoch.Load()
	if e == nil {
		return 0, errFollowing
	}
	type result struct {
		sequence uint64
		err      error
	}
	done := make(chan result, 1)
	go func() {
		q := r.request()
		defer r.release(q)
		q.encoder.Payload = q.encoder.Payload[:0]
		q.mark = id
		err := e.submit(q)
		done <- result{q.sequence, err}
	}()
	select {
	case d := <-done:
		return d.sequence, d.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
