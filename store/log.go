package store

import (
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// Log is what the store needs of a log: an order of entries, durable before they
// are applied. wal.Log is the log of a single node.
type Log interface {
	// Replay calls fn with every entry of the log, before the first Append. An
	// entry for which fn returns a binio.ErrCorrupt counts as damaged.
	Replay(fn func(*entry.Entry) error) error
	// Advance makes the next entry get a sequence above this one. It comes
	// between Replay and the first Append.
	Advance(sequence uint64) error
	// Append returns when the entry is durable and LogOptions.Apply has returned
	// for it. An error other than that of Err means that it never will be.
	Append(e *entry.Entry) error
	// Trim says that the entries up to sequence are not needed any more, Shrink
	// that no new ones are on their way either.
	Trim(sequence uint64) error
	Shrink(sequence uint64) error
	Stats() wal.Stats
	// Damage is what Replay could not deliver.
	Damage() []wal.Damage
	// Err is the failure that ended the log's life, nil while it lives (W7).
	Err() error
	Close() error
}

// LogOptions are what the store does for its log.
type LogOptions struct {
	// Apply is called for every appended entry in order of sequence, once it is
	// durable. The entry is the one that Append was called with, if it was called
	// here.
	Apply func(e *entry.Entry)
	// OnFailure is called once, when the log fails for good.
	OnFailure func(error)
	// BeforeTrim is called before entries up to sequence are given up; an error
	// keeps them.
	BeforeTrim func(sequence uint64) error
}
