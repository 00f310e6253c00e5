package wal

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

// Entry is one atomic unit of the log: the points of one write request, or one
// delete. Replay delivers it wholly or not at all.
type Entry struct {
	// Sequence is the entry's place in the log, from 1, rising by 1. Append
	// and Replay set it; what Append finds there is ignored.
	Sequence uint64
	Writes   []Write // at most one per shard
	Deletes  []Delete
}

// Write is the part of a write request that goes to one shard.
type Write struct {
	Database uint32
	Shard    uint64
	Rows     []column.Row
	// Values holds the rows' words (see column.Batch), Strings the text their
	// string words point into. Several Writes of an Entry may share them.
	Values  []uint64
	Strings []byte
}

// Delete removes the points of a set of series in a closed time range from one
// shard.
type Delete struct {
	Database uint32
	Shard    uint64
	Series   []byte // a serialized roaring bitmap of series ids; opaque here
	Range    model.TimeRange
}

// Position is a place in the log. Sequence alone orders the entries that a log
// delivers. Epoch names the lineage of segments the entry was written in: it is
// raised when a replayed log is first written to again. An entry that was
// written but never acknowledged may be lost with a torn tail and its sequence
// then given to another entry; the two differ in epoch.
type Position struct {
	Epoch    uint32
	Sequence uint64
}

// Before reports whether p lies before o in the log.
func (p Position) Before(o Position) bool {
	if p.Sequence != o.Sequence {
		return p.Sequence < o.Sequence
	}
	return p.Epoch < o.Epoch
}

// Damage is a span of a segment that Replay could not deliver.
type Damage struct {
	Segment string // path of the segment file
	Offset  int64  // first byte of the span
	Bytes   int64  // length of the span; 0 when only the absence of entries was noticed
	// Torn is true when the span lies in the last write of the log and looks
	// as a crash during that write leaves it: nothing acknowledged was in it,
	// as far as can be told. False means loss of data that was once whole.
	Torn bool
	// First and Last are the sequences of the entries that may be lost. A Last
	// below First says that none is, maxSequence that the end is not known.
	First, Last uint64
	// Harmless says that no entry is lost that the owner needs: there was none in
	// the span, or published files have them; see Known.Covered.
	Harmless   bool
	Reason     string
	Quarantine string // path of the copy of the span, "" when none was made. Where there is no span it is a text
}
