package point

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
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Rows)
	b.Rows, b.Values, b.Strings = b.Rows[:0], b.Values[:0], b.Strings[:0]
}
