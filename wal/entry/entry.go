package entry

import (
	"tsdbd/model"
	"tsdbd/model/point"
)

// Entry is one atomic unit of the log: the points or the exemplars of one write request,
// one delete, one move, or one change of the catalog. Replay delivers it wholly or not at all.
type Entry struct {
	// Sequence is the entry's place in the log, from 1, rising by 1. Append
	// and Replay set it; what Append finds there is ignored.
	Sequence uint64
	Writes   []Write // at most one per shard
	Deletes  []Delete
	// Move gives the rows of series to others. An entry with a move has neither writes
	// nor deletes.
	Move *Move
	// Exemplars are those of a write request. An entry with exemplars has nothing else.
	Exemplars *Exemplars
	// Command is a change of the catalog, opaque here. An entry with a command
	// has nothing else.
	Command []byte
	// Reserve is how many quarters it may have of the space that the log keeps for what makes
	// room on a full disk. Deletes may have all of it. It is not part of the bytes.
	Reserve uint8
	// LogFormat is the form in which a cluster must write its log to have the entry; 0: any.
	// It is not part of the bytes.
	LogFormat uint8
}

// Kind is the kind of an entry. The numbers are part of the formats of records and of
// segments of the log.
type Kind byte

// The kinds.
const (
	KindPoints    Kind = 2 // writes and deletes
	KindCommand   Kind = 4
	KindMove      Kind = 5
	KindExemplars Kind = 6
)

// Kind returns the kind of the entry.
func (e *Entry) Kind() Kind {
	switch {
	case len(e.Command) > 0:
		return KindCommand
	case e.Move != nil:
		return KindMove
	case e.Exemplars != nil:
		return KindExemplars
	}
	return KindPoints
}

// Write is the part of a write request that goes to one shard.
type Write struct {
	Database uint32
	Shard    uint64
	Rows     []point.Row
	// Values holds the rows' words (see point.Batch), Strings the text their
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

// Move gives the rows that series of a database have to other series, or fields other
// keys, in some shards. It is done wholly or not at all.
type Move struct {
	Database uint32
	Changes  []MoveChange // in the order in which they are made
	// Ready is what who appends the entry has prepared for who applies it. It is not part
	// of the bytes.
	Ready any
}

// MoveChange is one change of a move.
type MoveChange struct {
	Change []byte // what changes, and the series with their targets; opaque here
	Shards []MovedShard
}

// MovedShard is a shard that a change concerns.
type MovedShard struct {
	Shard  uint64
	Series []byte // a serialized roaring bitmap of the series that are moved there; opaque here
}

// Exemplars are the exemplars of series of a database.
type Exemplars struct {
	Database uint32
	List     []byte // opaque here
}
