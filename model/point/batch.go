package point

import "math"

// NoTime is the time of a row that is to get the time of the node which stores it. No row
// with it may be stored, see Batch.GiveTime.
const NoTime = math.MinInt64

// FromNow is the Batch.Untimed of rows whose times all count from that of the node which
// stores them.
const FromNow = math.MaxInt64

// Row is one point of a Batch.
type Row struct {
	Series *Series
	Layout *Layout
	Time   int64  // ns since the epoch
	First  uint32 // index into Batch.Values of the value of Layout.Fields[0]
}

// Batch is a set of points in the order they were received. Values holds one
// word per value: the bits of a float64, an int64, a uint64, 0 or 1 for a
// boolean, or for a string its place in Strings (see StringWord).
type Batch struct {
	Database uint32 // id of the database whose Table the rows were parsed with
	Rows     []Row
	Values   []uint64
	Strings  []byte
	// Untimed is above 0 if rows may have NoTime: they get a time in whole units of so many
	// nanoseconds. It may be FromNow.
	Untimed int64
	// Frees says that the rows make room on a full disk: others can expire after them.
	Frees bool
	// Staged says that a move has made the rows of others. They have no limits.
	Staged bool
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Rows)
	b.Rows, b.Values, b.Strings, b.Untimed, b.Frees, b.Staged = b.Rows[:0], b.Values[:0], b.Strings[:0], 0, false, false
}

// GiveTime gives the rows without a time one, now.
func (b *Batch) GiveTime(now int64) {
	if b.Untimed == 0 {
		return
	}
	whole := now - now%b.Untimed
	for i := range b.Rows {
		switch r := &b.Rows[i]; {
		case b.Untimed == FromNow:
			r.Time += now
		case r.Time == NoTime:
			r.Time = whole
		}
	}
	b.Untimed = 0
}
