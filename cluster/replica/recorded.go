package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"tsdbd/store"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// Recorded is the log of a store whose node does not run: what the log of the node has,
// committed or not. It takes no entry, and changes nothing of the node's log.
type Recorded struct {
	log   Storage
	until uint64 // the last sequence; 0: all
	store store.LogOptions
	last  uint64 // sequence of the last entry that was replayed
}

// NewRecorded returns what a log has up to a sequence, all of it if that is 0.
func NewRecorded(log Storage, until uint64) *Recorded { return &Recorded{log: log, until: until} }

// EntryError says which entry of a node's log cannot be applied.
type EntryError struct {
	Sequence uint64
	Err      error
}

// Error names the entry.
func (e *EntryError) Error() string {
	return fmt.Sprintf("entry of sequence %d of the node's log cannot be applied: %v", e.Sequence, e.Err)
}

// Unwrap returns why.
func (e *EntryError) Unwrap() error { return e.Err }

// OpenLog is for the option of the store.
func (l *Recorded) OpenLog(o store.LogOptions) (store.Log, error) {
	l.store = o
	return l, nil
}

// Last returns the sequence of the last entry that was replayed.
func (l *Recorded) Last() uint64 { return l.last }

// Replay hands out the entries that the log has behind its base. An *EntryError says which
// of them it cannot.
func (l *Recorded) Replay(fn func(*entry.Entry) error) error {
	r := &Replica{following: context.Background(), store: l.store}
	r.opt.setDefaults()
	r.store.Follow = func(_ context.Context, e *entry.Entry) error {
		if l.until != 0 && e.Sequence > l.until {
			return errBehind
		}
		return fn(e)
	}
	r.decoder = entry.NewDecoder(r.resolve)
	base := l.log.Base()
	r.progress.sequence.Store(base.Sequence)
	last, err := l.log.LastIndex()
	if err != nil {
		return err
	}
	for index := base.Index + 1; index <= last; index++ {
		var e raft.Log
		if err := l.log.GetLog(index, &e); err != nil {
			return err
		}
		if e.Type != raft.LogCommand {
			continue
		}
		h, body, err := parseGroup(e.Data, Format)
		if err == nil && h.term == e.Term { // the fence
			err = r.follow(h, body, 0)
		}
		l.last = r.Applied()
		switch {
		case l.until != 0 && l.last >= l.until:
			return nil // whatever is wrong with what follows
		case err != nil:
			return &EntryError{l.last + 1, err}
		}
	}
	return nil
}

var errBehind = errors.New("the entry is not wanted")

// Advance refuses to end the log before what the files of the store have.
func (l *Recorded) Advance(sequence uint64) error {
	if l.until != 0 && sequence > l.until {
		return fmt.Errorf("the files of the node have entries up to sequence %d, they cannot end at %d", sequence, l.until)
	}
	l.last = max(l.last, sequence)
	return nil
}

// Append refuses the entry.
func (l *Recorded) Append(*entry.Entry) error { return errFollowing }

// Trim gives nothing up, but has the store note what it has in files.
func (l *Recorded) Trim(sequence uint64) error { return l.store.BeforeTrim(sequence) }

// Shrink is Trim.
func (l *Recorded) Shrink(sequence uint64) error { return l.Trim(sequence) }

// Stats returns no figures.
func (l *Recorded) Stats() wal.Stats { return wal.Stats{} }

// Damage is empty: a log with damage is not opened.
func (l *Recorded) Damage() []wal.Damage { return nil }

// Err is nil.
func (l *Recorded) Err() error { return nil }

// Close leaves the log of the node open.
func (l *Recorded) Close() error { return nil }
