package replica

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/store"
)

// fsm is the replica as raft sees it.
type fsm struct{ r *Replica }

// Apply applies a committed group.
func (f fsm) Apply(l *raft.Log) any {
	f.r.apply(l)
	return nil
}

var errNoSnapshots = errors.New("snapshots of raft are not used")

// Snapshot refuses: the base is the only snapshot.
func (f fsm) Snapshot() (raft.FSMSnapshot, error) { return nil, errNoSnapshots }

// Restore refuses too.
func (f fsm) Restore(io.ReadCloser) error { return errNoSnapshots }

// apply applies a committed group, on every node in the order of raft's log.
func (r *Replica) apply(l *raft.Log) {
	r.role.Lock()
	defer r.role.Unlock()
	defer r.entries.consumed(l.Index)
	if r.Err() != nil {
		return
	}
	h, body, err := parseGroup(l.Data, r.opt.NewestFormat)
	if err != nil {
		r.fail(fmt.Errorf("apply entry %d of the replicated log: %w", l.Index, err))
		return
	}
	e := r.epoch.Load()
	switch {
	case h.term != l.Term:
		// The fence.
		if e != nil && e.term == h.term {
			r.endLocked(e, errLost)
		}
		r.counters.skipped.Add(1)
	default:
		own, done, cause := r.applyOwn(e, h)
		if own && cause == nil {
			break
		}
		r.endLocked(e, cmp.Or(cause, errLost))
		if err := r.follow(h, body, done); err != nil {
			err = fmt.Errorf("apply entry %d of the replicated log: %w", l.Index, err)
			if errors.Is(err, store.ErrClosed) || r.following.Err() != nil {
				if r.failure.CompareAndSwap(nil, &err) { // nothing behind it is applied
					close(r.failed)
				}
			} else {
				r.fail(err)
			}
			return
		}
	}
	r.counters.groups.Add(1)
	r.counters.bytes.Add(uint64(len(l.Data)))
	r.trail.add(place{index: l.Index, term: l.Term, sequence: r.progress.sequence.Load()}, len(l.Data))
	r.progress.index.Store(l.Index)
	r.changed()
	if r.epoch.Load() != nil {
		r.contact.applied()
	}
}

// applyOwn applies a group of the epoch from its requests, and answers them. It
// returns false if the group is not one. It stops at an entry that the store cannot apply,
// and returns how many it has applied and why this node must not lead any more: the entry
// is committed, and this node applies it when it can, as its followers do.
func (r *Replica) applyOwn(e *epoch, h header) (own bool, done int, cause error) {
	if e == nil || e.term != h.term {
		return false, 0, nil
	}
	g := e.land(h.number)
	if g == nil {
		return false, 0, nil
	}
	r.counters.own.Add(1)
	for i, q := range g.requests {
		if q.entry == nil {
			q.sequence = r.progress.sequence.Load()
			r.opt.OnMark(q.mark, q.sequence)
		} else {
			q.entry.Sequence = r.progress.sequence.Load() + 1
			if err := r.store.Apply(q.entry); err != nil {
				cause = fmt.Errorf("%w: entry %d is not applied: %w", store.ErrNotLeader, q.entry.Sequence, err)
				answer(g.requests[i:], unknown(cause))
				return true, i, cause
			}
			r.advance(q.entry.Sequence)
		}
		q.done <- nil
	}
	return true, len(g.requests), nil
}

// follow applies a group from its bytes, without the first entries, which are applied.
func (r *Replica) follow(h header, body []byte, done int) error {
	if h.kind == groupMark {
		r.opt.OnMark(string(body), r.progress.sequence.Load())
		return nil
	}
	d := binio.NewDecoder(body)
	for n := d.Count(4); n > 0; n-- {
		record := d.Bytes(int(d.Uint32()))
		if err := d.Err(); err != nil {
			return err
		}
		// Between records, for a record needs what it defines.
		if r.decoder.Bytes() > r.opt.DecoderBytes {
			r.decoder.Reset()
			r.counters.resets.Add(1)
		}
		sequence := r.progress.sequence.Load() + 1
		e, err := r.decoder.Record(record)
		if errors.Is(err, binio.ErrCorrupt) { // the log has checksums: this node lacks what the entry names
			return fmt.Errorf("%w: decode entry of sequence %d: %w", store.ErrDiverged, sequence, err)
		}
		if err != nil {
			return fmt.Errorf("decode entry of sequence %d: %w", sequence, err)
		}
		if done > 0 {
			done--
			continue
		}
		e.Sequence = sequence
		if err := r.store.Follow(r.following, e); err != nil {
			return fmt.Errorf("follow entry of sequence %d: %w", sequence, err)
		}
		r.advance(sequence)
	}
	if d.Len() > 0 {
		d.Fail("bytes after the records")
	}
	return d.Err()
}

// advance notes that an entry is applied.
func (r *Replica) advance(sequence uint64) {
	r.progress.sequence.Store(sequence)
	r.counters.entries.Add(1)
}

// changed wakes who waits for progress.
func (r *Replica) changed() {
	r.progress.Lock()
	if c := r.progress.changed; c != nil {
		close(c)
		r.progress.changed = nil
	}
	r.progress.Unlock()
}

// whenChanged returns a channel that is closed at the next progress. Look at the
// progress after the call.
func (r *Replica) whenChanged() <-chan struct{} {
	r.progress.Lock()
	defer r.progress.Unlock()
	if r.progress.changed == nil {
		r.progress.changed = make(chan struct{})
	}
	return r.progress.changed
}
