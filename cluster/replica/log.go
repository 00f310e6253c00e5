package replica

import (
	"errors"
	"fmt"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/store"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// maxEntryBytes is the largest entry that the log takes.
const maxEntryBytes = 256 << 20

var (
	errFollowing = fmt.Errorf("%w", store.ErrNotLeader)
	errHandover  = fmt.Errorf("%w: the leadership is being handed over", store.ErrNotLeader)
	errClosing   = fmt.Errorf("%w: this node is shutting down", store.ErrNotLeader)
	errStalled   = fmt.Errorf("%w: no majority of the nodes stores what this one sends", store.ErrNotLeader)
	errHangs     = fmt.Errorf("%w: the disk of this node hangs", store.ErrNotLeader)
	errNoApply   = errors.New("nothing is applied")
	errLost      = fmt.Errorf("%w: the leadership was lost", store.ErrNotLeader)
)

// unknown is the answer to what was under way when an epoch ended.
func unknown(cause error) error {
	return fmt.Errorf("%w; whether the request took effect is unknown, it may be repeated", cause)
}

// OpenLog returns the replica as the log of a store. It comes before Start.
func (r *Replica) OpenLog(o store.LogOptions) (store.Log, error) {
	if o.Apply == nil || o.Follow == nil || o.Resolve == nil {
		return nil, errors.New("open replicated log: the store does not follow")
	}
	r.store = o
	return storeLog{r}, nil
}

// storeLog is the replica as its store sees it.
type storeLog struct{ *Replica }

// Replay returns at once: raft hands out what the files lack, once it runs.
func (l storeLog) Replay(func(*entry.Entry) error) error { return nil }

// Advance notes up to which sequence the files of the store have entries. The count of
// sequences still begins at the base.
func (l storeLog) Advance(sequence uint64) error {
	l.floor = sequence
	return nil
}

// Append returns when a majority has e and it is applied here. An error that is not
// Err's says whether the outcome is unknown; then the epoch is over, and no later
// entry of it is accepted.
func (r *Replica) Append(e *entry.Entry) error {
	if err := r.Err(); err != nil {
		return err
	}
	p := r.epoch.Load()
	if p == nil {
		return errFollowing
	}
	if e.LogFormat > r.opt.Format() {
		return meta.ErrLogFormat
	}
	q := r.request()
	defer r.release(q)
	e.Sequence = 0 // which is what the record has
	if err := q.encoder.Encode(e); err != nil {
		return fmt.Errorf("append entry: %w", err)
	}
	if n := len(q.encoder.Payload); n > maxEntryBytes {
		return fmt.Errorf("append entry: %d bytes exceed the log's limit", n)
	}
	q.entry = e
	return p.submit(q)
}

// Trim says that the entries up to sequence are in files.
func (r *Replica) Trim(sequence uint64) error {
	r.trimming.Lock()
	defer r.trimming.Unlock()
	p, ok := r.trail.upTo(sequence)
	if !ok {
		return nil
	}
	if r.store.BeforeTrim != nil {
		if err := r.store.BeforeTrim(p.sequence); err != nil {
			return err
		}
	}
	if err := r.opt.Log.SetBase(p.index, p.term, p.sequence, r.opt.LogMaxBytes); err != nil {
		return fmt.Errorf("move the base of the log: %w", err)
	}
	r.trail.cut(p)
	return nil
}

// Shrink is Trim: what the log keeps it keeps for other nodes.
func (r *Replica) Shrink(sequence uint64) error { return r.Trim(sequence) }

// Damage is empty: a log with damage is not opened.
func (l storeLog) Damage() []wal.Damage { return nil }

// Err returns why the replica has stopped, or nil.
func (r *Replica) Err() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Stats returns the figures of the log. DiskBytes are those of entries that are not
// all in files.
func (l storeLog) Stats() wal.Stats {
	s := l.Replica.Stats()
	return wal.Stats{
		Entries: s.Entries, Groups: s.Groups, BytesWritten: s.Bytes, DiskBytes: l.trail.size(),
		Queued: s.Queued, Hangs: l.entries.writing.Lasts(),
	}
}

// resolve is LogOptions.Resolve as decoders ask.
func (r *Replica) resolve(database, id uint32) (string, bool) {
	return r.store.Resolve(database, model.SeriesID(id))
}
