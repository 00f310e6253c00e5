package column

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

const stringLengthBits = 24

// MaxStringLength is the longest string value in bytes that a batch, the log
// or a file can hold. The write path refuses longer ones with an error.
const MaxStringLength = 1 << 20

// StringWord packs the place of a string value: offset<<24 | length.
func StringWord(offset, length int) uint64 {
	return uint64(offset)<<stringLengthBits | uint64(length)
}

// StringAt returns the bytes that word points to.
func StringAt(word uint64, strings []byte) []byte {
	o := word >> stringLengthBits
	return strings[o : o+word&(1<<stringLengthBits-1)]
}
